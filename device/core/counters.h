/* SPDX-License-Identifier: Apache-2.0
 *
 * How the counters and the lanes' notes go out, for gridmilld, who reads them without asking.
 */
#ifndef GM_CORE_COUNTERS_H
#define GM_CORE_COUNTERS_H

#include "start.h"

/* A counter as others see it. Of jobs in flight some that have ended may not have been counted yet. */
GM_DEV uint64_t gm_counter_shown(const struct gm_disp *d, const uint64_t *counter)
{
    const uint64_t value = gm_load_relaxed_block_u64(counter);
    return counter == &d->counters.entries && (int64_t)value < 0 ? 0 : value;
}

/* All of them. Whole warp, or one thread after another. */
GM_DEV_CALL void gm_counters_store(struct gm_disp *d)
{
    d = gm_disp_here(d);
    if (gm_lane_id() == 0)
        gm_quick_count(d);
    gm_syncwarp();
    const struct gm_core *core = &d->core;
    const uint64_t *from = (const uint64_t *)&d->counters;
    uint64_t *to = (uint64_t *)core->device_counters;
    for (uint32_t i = gm_lane_id(); i < sizeof(struct gm_device_counters) / 8u; i += GM_WARP)
        gm_store_relaxed_sys_u64(&to[i], gm_counter_shown(d, &from[i]));
    for (uint32_t i = gm_lane_id(); i < d->lane_top; i += GM_WARP) {
        struct gm_lane_row *lane = &d->lane[i];
        const uint64_t completed = gm_load_relaxed_block_u64(&lane->completed);
        if (lane->header && lane->noted != completed) {
            lane->noted = completed;
            gm_store_relaxed_sys_u64(&core->lane_notes[i].answered, lane->noted);
        }
    }
}

#endif
