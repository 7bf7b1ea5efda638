/* SPDX-License-Identifier: Apache-2.0
 *
 * Which lane is served in the next turn, and how much is read of it. The lane that was served last stays hot: it is
 * looked at every turn, which is what a single client's round trip depends on, until the sweep finds something in
 * another one; lanes that are ready take turns, at most GM_POLL_MAX descriptors each. A lane whose next job waits for a
 * resource goes first until it has it, so that wide jobs are not starved by narrow ones that keep taking what is freed;
 * while it waits for the workspace pool, jobs of other lanes that need none are served between. A lane that is leased
 * to a wing is not chosen. Fairness between the clients of lane 0 is decided before the lane, in gridmilld.
 */
#ifndef GM_CORE_POLICY_H
#define GM_CORE_POLICY_H

#include "scout.h"

/* Whether the front may serve it. */
GM_DEV bool gm_policy_open(const struct gm_disp *d, uint32_t lane)
{
    return lane < d->lane_top && d->lane[lane].header != NULL && (d->lane[lane].shut | d->lane[lane].lease) == 0;
}

/* The first lane after one, in circular order, that is ready; or GM_LANE_NONE. */
GM_DEV uint32_t gm_policy_ready(const struct gm_disp *d, uint32_t after)
{
    const uint32_t words = gm_load_relaxed_block_u32(&d->ready_words);
    if (words == 0)
        return GM_LANE_NONE;
    const uint32_t start = (after + 1u) % (GM_LANE_WORDS * 32u), first = start / 32u;
    const uint32_t bits = gm_load_relaxed_block_u32(&d->ready[first]) & ~UINT32_C(0) << (start & 31u);
    if (bits != 0)
        return first * 32u + gm_lowest_one(bits);
    const uint32_t behind = words & ~UINT32_C(1) << first; /* of the words: those after the first, then the others */
    for (uint32_t round = 0; round < 2u; round++)
        for (uint32_t rest = round == 0 ? behind : words & ~behind; rest != 0; rest &= rest - 1u) {
            const uint32_t word = gm_lowest_one(rest), there = gm_load_relaxed_block_u32(&d->ready[word]);
            if (there != 0)
                return word * 32u + gm_lowest_one(there);
        }
    return GM_LANE_NONE;
}

/* A lane that was shut or leased while the scout looked at it may be marked after all; it would hide those that are
 * served. One thread. */
GM_DEV void gm_policy_unmark(struct gm_disp *d)
{
    for (uint32_t lane = gm_policy_ready(d, d->round); lane != GM_LANE_NONE && !gm_policy_open(d, lane);
         lane = gm_policy_ready(d, d->round))
        gm_ready_clear(d, lane);
}

/* Lane index, or GM_LANE_NONE. Same answer on the whole warp; changes nothing. */
GM_DEV uint32_t gm_policy_pick(const struct gm_disp *d, uint32_t turns)
{
    const uint32_t hot = d->hot - 1u;
    if (d->held_lane != 0 && (d->held_pool == 0 || (turns & 1u)))
        return d->held_lane - 1u;
    const uint32_t next = gm_policy_ready(d, d->round);
    if (next != GM_LANE_NONE && gm_policy_open(d, next))
        return next;
    if (d->hot != 0 && gm_policy_open(d, hot))
        return hot;
    for (uint32_t i = 0; i < d->lane_top; i++)
        if (gm_policy_open(d, i))
            return i;
    return GM_LANE_NONE;
}

/* Whether something is known to be at the head of the lane that was picked. */
GM_DEV bool gm_policy_expects(const struct gm_disp *d, uint32_t lane)
{
    if (lane == GM_LANE_NONE)
        return false;
    const uint32_t ready = gm_load_relaxed_block_u32(&d->ready[lane / 32u]);
    return d->held_lane == lane + 1u || (ready >> (lane & 31u) & 1u) != 0;
}

/* The lane that was chosen last, or GM_LANE_NONE. */
GM_DEV uint32_t gm_policy_aim(const struct gm_disp *d) { return d->hot != 0 ? d->hot - 1u : GM_LANE_NONE; }

/* The choice is made: its mark goes. One thread. */
GM_DEV void gm_policy_aimed(struct gm_disp *d, uint32_t lane)
{
    if (lane == GM_LANE_NONE)
        gm_store_relaxed_block_u32(&d->hot, 0);
    if (lane != GM_LANE_NONE) {
        if (d->held_lane != lane + 1u) /* what it gets out of turn does not move the round on */
            d->round = lane;
        gm_ready_clear(d, lane);
        gm_ready_tidy(d);
        gm_store_relaxed_block_u32(&d->hot, lane + 1u);
    }
}

/* How much to read of a lane in the next turn. Wide as soon as a read came back full, narrow again when it came back
 * nearly empty: a wide read costs about half a microsecond more. */
GM_DEV uint32_t gm_policy_width(uint32_t width, uint32_t slots_log2, uint32_t complete)
{
    const uint32_t slots = 1u << slots_log2, most = slots < GM_POLL_MAX ? slots : GM_POLL_MAX;
    const uint32_t least = slots < GM_POLL_NARROW ? slots : GM_POLL_NARROW;
    const uint32_t wider = width * 2u < most ? width * 2u : most;
    return complete == width ? wider : complete <= GM_POLL_NARROW / 2u ? least : width;
}

/* After a turn with this lane. One thread. */
GM_DEV void gm_policy_served(struct gm_lane_row *lane, uint32_t complete, bool useful, bool begun)
{
    lane->width = gm_policy_width(lane->width, lane->slots_log2, complete);
    /* Half a descriptor, of a client that died or means harm, must not cost the others every second turn. */
    if (useful)
        gm_store_relaxed_block_u32(&lane->strikes, 0);
    else if (begun && lane->strikes < GM_STRIKES_MAX)
        gm_store_relaxed_block_u32(&lane->strikes, lane->strikes + 1u);
}

#endif
