/* SPDX-License-Identifier: Apache-2.0
 *
 * Heartbeats of the devices. A ping is answered by the device's dispatcher, so that sleep is not mistaken for death and
 * a living process around a wedged kernel is not mistaken for health. Loop thread, from a timer.
 */
#include "watchdog.h"

#include <inttypes.h>
#include <signal.h>

#include "daemon.h"
#include "notify.h"

static void gm_pinged(struct gm_device *v, const struct gm_control *reply, void *context, uint32_t tag)
{
    (void)context, (void)tag;
    v->ping_waits = false;
    if (reply == NULL || reply->status != GM_OK)
        return;
    v->ping_answered_ns = gm_now_ns();
    if (v->state == GM_DEVICE_UNRESPONSIVE) {
        v->state = GM_DEVICE_UP;
        gm_log(GM_LOG_WARN, "device_back", "device=%" PRIu32 " pid=%ld", v->index, (long)v->pid);
    }
}

static void gm_watchdog_device(struct gm_device *v, uint64_t now)
{
    const struct gm_times *times = &v->daemon->times;
    if (v->state == GM_DEVICE_STARTING && (now - v->spawned_ns) / 1000000u > times->hello_ms) {
        gm_device_failed(v, "the device process was not ready in %" PRIu32 " ms", times->hello_ms);
        return;
    }
    if (!gm_device_live(v))
        return;
    if (!v->ping_waits) {
        struct gm_control ping = {.type = GM_CONTROL_PING};
        v->ping_waits = gm_device_request(v, &ping, -1, gm_pinged, NULL, 0) == GM_OK;
        v->ping_sent_ns = now;
        return;
    }
    const uint64_t age_ms = (now - v->ping_sent_ns) / 1000000u;
    if (age_ms > times->ping_kill_ms) {
        gm_device_lost(v, "no answer to a ping for %" PRIu64 " ms: killed", age_ms);
    } else if (age_ms > times->ping_deadline_ms && v->state == GM_DEVICE_UP) {
        v->state = GM_DEVICE_UNRESPONSIVE;
        gm_log(GM_LOG_ERROR, "device_unresponsive", "device=%" PRIu32 " pid=%ld ping_ms=%" PRIu64, v->index,
               (long)v->pid, age_ms);
    }
}

void gm_watchdog_tick(struct gm_daemon *d)
{
    const uint64_t now = gm_now_ns();
    bool healthy = true;
    for (uint32_t i = 0; i < d->devices.count; i++) {
        gm_watchdog_device(&d->devices.device[i], now);
        healthy &= d->devices.device[i].state == GM_DEVICE_UP;
    }
    /* The manager restarts a daemon that stays silent: it hears from us while the loop turns and every device answers.
     */
    if (d->phase == GM_PHASE_RUNNING && healthy)
        gm_notify("WATCHDOG=1");
}
