/* SPDX-License-Identifier: Apache-2.0
 *
 * Which lane is served in this turn. Open lanes take turns, at most GM_POLL_MAX descriptors each; a lane whose next
 * job waits for a resource is asked first until it has it, so that wide jobs are not starved by narrow ones that keep
 * taking what is freed. Fairness between the clients of lane 0 is decided before the lane, in gridmilld.
 */
#ifndef GM_CORE_POLICY_H
#define GM_CORE_POLICY_H

#include "poll.h"

/* Lane index, or GM_LANE_NONE. Same answer on the whole warp; changes nothing. */
GM_DEV uint32_t gm_policy_pick(const struct gm_disp *d)
{
    if (d->held_lane != 0)
        return d->held_lane - 1u;
    for (uint32_t i = 0, at = d->pick; i < d->lane_top; i++, at++) {
        if (at >= d->lane_top)
            at = 0;
        if (d->lane[at].header)
            return at;
    }
    return GM_LANE_NONE;
}

/* After a turn with this lane: the next one, and how much to read of this one next time. One thread. Wide as soon as a
 * read came back full, narrow again when it came back nearly empty: a wide read costs about half a microsecond more. */
GM_DEV void gm_policy_served(struct gm_disp *d, uint32_t lane_index, uint32_t complete)
{
    struct gm_lane_row *lane = &d->lane[lane_index];
    const uint32_t slots = 1u << lane->slots_log2, most = slots < GM_POLL_MAX ? slots : GM_POLL_MAX;
    const uint32_t least = slots < GM_POLL_NARROW ? slots : GM_POLL_NARROW;
    if (complete == lane->width)
        lane->width = lane->width * 2u < most ? lane->width * 2u : most;
    else if (complete <= GM_POLL_NARROW / 2u)
        lane->width = least;
    d->pick = lane_index + 1u < d->lane_top ? lane_index + 1u : 0;
}

#endif
