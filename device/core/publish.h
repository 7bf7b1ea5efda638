/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts tickets into the ring. The dispatcher is the only publisher; it never waits: gm_room says whether the next n
 * slots were all read in their last lap, and the caller tries again next turn when they were not. A phase goes out in
 * one piece, so that a gang is never half drawn behind something else.
 */
#ifndef GM_CORE_PUBLISH_H
#define GM_CORE_PUBLISH_H

#include "core.h"

/* Whether positions published .. published + n - 1 may be written. A ticket that was drawn but not yet read must not
 * be overwritten; counting reads is not enough, because they finish out of order. Whole warp. */
GM_DEV bool gm_room(const struct gm_core *core, struct gm_disp *d, uint32_t n)
{
    const uint64_t size = (uint64_t)1 << core->tickets_log2;
    const uint64_t need = d->published + n;
    while ((int64_t)(need - size - d->ack_floor) > 0) {
        const uint64_t p = d->ack_floor + gm_lane_id();
        const bool read = (int64_t)(d->published - p) > 0 &&
                          gm_load_acquire_u32(&core->acks[p & (size - 1u)]) == gm_lap(p, core->tickets_log2);
        const uint32_t run = gm_lowest_zero(gm_ballot(read));
        gm_syncwarp();
        if (gm_lane_id() == 0)
            d->ack_floor += run;
        gm_syncwarp();
        if (run == 0)
            return false;
    }
    return true;
}

/* Whole warp: shares 0 .. shares-1 of an entry at base onwards. The caller has filled the entry and fenced. */
GM_DEV void gm_publish(const struct gm_core *core, uint64_t base, uint32_t generation, uint32_t entry, uint32_t shares)
{
    const uint64_t mask = ((uint64_t)1 << core->tickets_log2) - 1u;
    for (uint32_t s = gm_lane_id(); s < shares; s += GM_WARP) {
        const uint64_t p = base + s;
        gm_publish_store(&core->slots[p & mask], gm_slot_make(gm_lap(p, core->tickets_log2), generation, entry, s));
    }
}

#endif
