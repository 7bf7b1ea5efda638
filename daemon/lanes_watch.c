/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes that we close: their client wrote nonsense, or the daemon drains. Loop thread; a look at a lane costs at most
 * its slots.
 *
 * A lane is an open tap: nobody can refuse the next job. So a drain takes note of what every lane holds, waits until
 * that much is answered, and then closes the lane; what its client wrote meanwhile was not accepted.
 */
#include <inttypes.h>

#include "daemon.h"
#include "recover.h"

/* Between two looks at what waits in lanes; a little less than a second, of which a tick is a divisor. */
#define GM_LOOK_NS UINT64_C(900000000)

static void gm_lane_watch(struct gm_lane *lane)
{
    struct gm_device *v = lane->device;
    if (lane->phase == GM_LANE_TAPPED) {
        const struct gm_lane_note *note = gm_region_note(v, lane->index);
        const int32_t closed = (int32_t)gm_load_acquire_sys_u32((const uint32_t *)(const void *)&note->closed);
        if (closed == GM_OK)
            return;
        v->abused++;
        gm_log(GM_LOG_WARN, "lane_abuse",
               "closed: %u descriptors in a row were refused; session=%" PRIu32 " uid=%ld pid=%ld device=%" PRIu32
               " lane=%" PRIu32 " last=%s",
               GM_LANE_ABUSE_MAX, lane->session->id, (long)lane->session->user->uid, (long)lane->session->pid, v->index,
               lane->index, gm_error_name(closed));
        gm_lane_shut(lane, closed);
    } else if ((lane->phase == GM_LANE_SHUT || lane->phase == GM_LANE_DROPPING) && lane->held) {
        gm_lane_let_go(lane); /* the device did not do it the first time */
    }
}

/* Calls f for the entries in use of every device. */
static void gm_lanes_each(struct gm_daemon *d, void (*f)(struct gm_lane *lane))
{
    for (uint32_t i = 0; i < d->devices.count; i++) {
        struct gm_device *v = &d->devices.device[i];
        uint32_t left = v->clients;
        for (uint32_t k = 1; k <= GM_LANES_MAX && left != 0; k++)
            if (v->client[k].phase != GM_LANE_UNUSED) {
                left--;
                f(&v->client[k]);
            }
    }
}

void gm_lanes_watch(struct gm_daemon *d)
{
    const uint64_t now = gm_now_ns();
    gm_lanes_each(d, gm_lane_watch);
    for (uint32_t i = 0; i < d->devices.count; i++)
        if (now - d->devices.device[i].looked_ns >= GM_LOOK_NS)
            gm_lanes_look_now(&d->devices.device[i], now);
}

/* Whether everything below the cut was taken and answered: as the rings say, or, whatever a client wrote there, the
 * dispatcher's counts, which lag behind. */
static bool gm_lane_finished(const struct gm_lane *lane)
{
    static struct gm_recovered seen;
    const struct gm_lane_note *note = gm_region_note(lane->device, lane->index);
    if ((int64_t)(gm_load_relaxed_sys_u64(&note->head) - lane->cut) < 0)
        return false;
    if (gm_load_acquire_u64(&note->answered) == gm_load_relaxed_u64(&note->taken))
        return true;
    gm_lanes_look(lane->device, lane->index, lane->memory, lane->slots_log2, &seen);
    for (uint32_t i = 0; i < seen.lost; i++)
        if ((int64_t)(seen.position[i] - lane->cut) < 0)
            return false;
    return true;
}

static void gm_lane_drain(struct gm_lane *lane)
{
    if (lane->phase != GM_LANE_TAPPED)
        return;
    if (!lane->draining) {
        const struct gm_lane_note *note = gm_region_note(lane->device, lane->index);
        const uint64_t head = gm_load_relaxed_sys_u64(&note->head);
        uint32_t jobs;
        lane->cut = gm_lane_published(lane, head, head + (UINT64_C(1) << lane->slots_log2), &jobs);
        lane->draining = true;
    }
    if (gm_lane_finished(lane))
        gm_lane_shut(lane, GM_EDRAINING);
}

uint32_t gm_lanes_drain(struct gm_daemon *d)
{
    uint32_t left = 0;
    gm_lanes_each(d, gm_lane_drain);
    for (uint32_t i = 0; i < d->devices.count; i++)
        for (uint32_t k = 1; k <= GM_LANES_MAX && d->devices.device[i].clients != 0; k++) {
            const enum gm_lane_phase phase = d->devices.device[i].client[k].phase;
            left += phase == GM_LANE_ADDING || phase == GM_LANE_TAPPED;
        }
    return left;
}

void gm_lanes_shut_all(struct gm_daemon *d, int reason)
{
    for (uint32_t i = 0; i < d->devices.count; i++)
        for (uint32_t k = 1; k <= GM_LANES_MAX; k++) {
            struct gm_lane *lane = &d->devices.device[i].client[k];
            if (lane->phase == GM_LANE_TAPPED)
                gm_lane_shut(lane, reason);
            else if (lane->phase == GM_LANE_ADDING)
                gm_lane_refuse(lane, reason, NULL);
        }
}
