/* SPDX-License-Identifier: Apache-2.0
 *
 * Heartbeats of the devices. A ping is answered by the device's dispatcher, so that sleep is not mistaken for death and
 * a living process around a wedged kernel is not mistaken for health. Loop thread, from a timer.
 */
#include "watchdog.h"

#include <inttypes.h>

#include "daemon.h"
#include "notify.h"

static void gm_pinged(struct gm_device *v, const struct gm_control *reply, void *context, uint32_t tag)
{
    (void)context, (void)tag;
    v->ping_waits = false;
    if (reply == NULL || reply->status != GM_OK) {
        v->ping_failed = true; /* the process lives, and what it serves does not: the age goes on */
        return;
    }
    v->ping_failed = false;
    v->ping_answered_ns = gm_now_ns();
    if (v->state == GM_DEVICE_UNRESPONSIVE) {
        v->state = GM_DEVICE_UP;
        gm_log(GM_LOG_WARN, "device_back", "device=%" PRIu32 " pid=%ld", v->index, (long)v->pid);
    }
}

/* Asleep, and nothing that we know of to do: it will not need anything before the long tick. */
static bool gm_watchdog_is_calm(const struct gm_device *v)
{
    if (v->state == GM_DEVICE_LOST)
        return true;
    return v->state == GM_DEVICE_UP && v->flight_count == 0 && v->queued == 0 &&
           v->waits_count == (v->ping_waits ? 1u : 0u) && gm_load_relaxed_sys_u32(&v->lane->asleep) != 0;
}

static void gm_watchdog_ping(struct gm_device *v, uint64_t now)
{
    const struct gm_times *times = &v->daemon->times;
    if (!v->ping_waits) {
        struct gm_control ping = {.type = GM_CONTROL_PING};
        v->ping_waits = gm_device_request(v, &ping, -1, gm_pinged, NULL, 0) == GM_OK;
        if (!v->ping_failed) {
            v->ping_sent_ns = now;
            return;
        }
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

static void gm_watchdog_device(struct gm_device *v, uint64_t now)
{
    const uint32_t hello_ms = v->daemon->times.hello_ms;
    const bool late = (now - v->spawned_ns) / 1000000u > hello_ms;
    if (v->state == GM_DEVICE_STARTING && late)
        gm_device_failed(v, "the device process was not ready in %" PRIu32 " ms", hello_ms);
    else if (v->state == GM_DEVICE_RISING && late)
        gm_device_lost(v, "the device process was not ready in %" PRIu32 " ms", hello_ms);
    else if (gm_device_live(v))
        gm_watchdog_ping(v, now);
}

uint32_t gm_watchdog_calm_ms(const struct gm_daemon *d)
{
    /* So the answer to a ping that was sent in this tick is overdue in the next one, and the one after kills. */
    return d->times.ping_deadline_ms + d->times.ping_ms;
}

bool gm_watchdog_tick(struct gm_daemon *d)
{
    const uint64_t now = gm_now_ns();
    bool calm = d->phase == GM_PHASE_RUNNING, answers = true, serves = false;
    for (uint32_t i = 0; i < d->devices.count; i++) {
        struct gm_device *v = &d->devices.device[i];
        gm_watchdog_device(v, now);
        calm = calm && gm_watchdog_is_calm(v);
        answers = answers && v->state != GM_DEVICE_UNRESPONSIVE;
        serves = serves || gm_device_serves(v);
    }
    /* The manager restarts a daemon that stays silent: it hears from us while the loop turns, every device answers or
     * is being replaced, and one is left that can be. */
    if (d->phase == GM_PHASE_RUNNING && answers && serves)
        gm_notify("WATCHDOG=1");
    return calm;
}
