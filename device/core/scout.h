/* SPDX-License-Identifier: Apache-2.0
 *
 * The scout: looks at everything in host memory that is not a lane which front or wings serve. Each turn it asks the
 * admin lane for its next descriptor, and some of the other lanes whether something has begun to come there and whether
 * their client sleeps. It starts nothing: it marks lanes as ready, hands the admin descriptor on, notes whom to wake,
 * and answers copies of the copy engine that are over (copies.h). Whole warp; GM_SWEEP_LANES lanes a turn.
 */
#ifndef GM_CORE_SCOUT_H
#define GM_CORE_SCOUT_H

#include "copies.h"

/* The loads of a turn, one for each SIMT lane of a GPU: the admin descriptor, then the first granule at the head of
 * each lane of the sweep, then their wait granules. */
#define GM_SIDE_ADMIN  4u
#define GM_SWEEP_LANES 14u
#define GM_SIDE_WAIT   (GM_SIDE_ADMIN + GM_SWEEP_LANES)
#define GM_SIDE_COUNT  (GM_SIDE_WAIT + GM_SWEEP_LANES)
static_assert(GM_SIDE_COUNT == 32u, "one load per SIMT lane");
#define GM_STRIKES_MAX 4u  /* looks for nothing after which a lane is looked at in few turns only */
#define GM_STRIKE_GAP  64u /* one round of the sweep of so many */

#define GM_ADMIN_SLOTS_LOG2 6u
static_assert(1u << GM_ADMIN_SLOTS_LOG2 == GM_ADMIN_SLOTS, "log of limits.h");

/* Lanes that something has come to. Any SIMT lanes at once; the other by one thread. A mark that is lost between the
 * two words comes again with the next sweep. */
GM_DEV void gm_ready_set(struct gm_disp *d, uint32_t lane)
{
    gm_or_release_block_u32(&d->ready[lane / 32u], 1u << (lane & 31u));
    gm_or_release_block_u32(&d->ready_words, 1u << (lane / 32u));
}
GM_DEV void gm_ready_clear(struct gm_disp *d, uint32_t lane)
{
    const uint32_t bit = 1u << (lane & 31u);
    if ((gm_and_acquire_block_u32(&d->ready[lane / 32u], ~bit) & ~bit) == 0)
        (void)gm_and_acquire_block_u32(&d->ready_words, ~(1u << (lane / 32u)));
}

/* Takes away the marks of words without lanes, which are left when a lane was marked and cleared at once: they would
 * keep the dispatcher awake. One thread. */
GM_DEV void gm_ready_tidy(struct gm_disp *d)
{
    for (uint32_t rest = gm_load_relaxed_block_u32(&d->ready_words); rest != 0; rest &= rest - 1u) {
        const uint32_t word = gm_lowest_one(rest);
        if (gm_load_relaxed_block_u32(&d->ready[word]) == 0)
            (void)gm_and_acquire_block_u32(&d->ready_words, ~(1u << word));
    }
}

/* A client sleeps, more is complete than it has reaped, and this sleep was not ended yet. Level, not edge: looked at
 * again and again, so that neither order of "client arms" and "job completes" loses the wake. A client that was quick
 * has reaped more than is counted here; waking it for that would use up the one wake of its sleep. */
GM_DEV bool gm_wake_due(const struct gm_lane_row *lane, struct gm_granule wait)
{
    const uint64_t reaped = wait.w[0] | (uint64_t)wait.w[1] << 32;
    return wait.w[2] == 1u && (int64_t)(gm_load_relaxed_block_u64(&lane->completed) - reaped) > 0 &&
           gm_load_relaxed_block_u64(&lane->wake_sent) != reaped;
}

/* One look. */
struct gm_side {
    const struct gm_granule *at; /* NULL: none */
    uint32_t lap, lane;
};

/* Load i of a turn. admin: the position that is next on the admin lane, or the one that was reported last: no look. */
GM_DEV struct gm_side gm_side_look(const struct gm_core *core, const struct gm_disp *d, uint32_t i, uint64_t admin)
{
    struct gm_side side = {NULL, 0, d->sweep + (i < GM_SIDE_WAIT ? i - GM_SIDE_ADMIN : i - GM_SIDE_WAIT)};
    if (i < GM_SIDE_ADMIN) {
        if (d->admin_told != (uint32_t)admin + 1u)
            side.at = &core->admin_sq[admin & (GM_ADMIN_SLOTS - 1u)].g[i];
        side.lap = gm_lap(admin, GM_ADMIN_SLOTS_LOG2);
    } else if (side.lane < d->lane_top) {
        const struct gm_lane_row *lane = &d->lane[side.lane];
        const uint64_t head = gm_load_relaxed_block_u64(&lane->head);
        if (!lane->header || gm_load_relaxed_block_u32(&lane->shut) != 0)
            return side;
        if (i >= GM_SIDE_WAIT)
            side.at = &lane->header->wait;
        else if (side.lane + 1u != gm_load_relaxed_block_u32(&d->hot) && /* the front, or a wing, looks there itself */
                 gm_load_relaxed_block_u32(&lane->lease) == 0)
            side.at = gm_poll_granule(lane->sq, head, lane->slots_log2, 0);
        side.lap = gm_poll_lap(head, lane->slots_log2, 0);
    }
    return side;
}

/* Whether lanes with strikes are looked at in this turn: in every sweep of a round, so that each is met. */
GM_DEV bool gm_strike_turn(const struct gm_disp *d)
{
    const uint32_t round = (d->lane_top + GM_SWEEP_LANES - 1u) / GM_SWEEP_LANES;
    return d->sweeps / round % GM_STRIKE_GAP == 0;
}

/* What a look at a lane brought. One SIMT lane each. */
GM_DEV void gm_side_lane(struct gm_disp *d, uint32_t i, struct gm_side side, struct gm_granule got)
{
    struct gm_lane_row *lane = &d->lane[side.lane];
    if (i < GM_SIDE_WAIT) {
        if (got.w[3] == side.lap &&
            (gm_load_relaxed_block_u32(&lane->strikes) < GM_STRIKES_MAX || gm_strike_turn(d)))
            gm_ready_set(d, side.lane);
    } else if (gm_wake_due(lane, got)) {
        gm_store_relaxed_block_u64(&lane->wake_sent, got.w[0] | (uint64_t)got.w[1] << 32);
        gm_or_release_block_u32(&d->wake_lanes[side.lane / 32u], 1u << (side.lane & 31u));
        gm_or_release_block_u32(&d->wake, 1u);
        gm_add_relaxed_block_u64(&d->counters.wakes, 1);
    }
}

GM_DEV void gm_scout_turn(const struct gm_core *core, struct gm_disp *d)
{
    const uint64_t admin = gm_agreed_u64(&d->admin_head);
    uint32_t granules = 0;
    for (uint32_t r = 0; r < GM_SIDE_COUNT / GM_WARP; r++) {
        const uint32_t i = r * GM_WARP + gm_lane_id();
        const struct gm_side side = gm_side_look(core, d, i, admin);
        struct gm_granule got = {{0, 0, 0, side.lap + 1u}};
        if (side.at)
            got = gm_load16_sys(side.at);
        if (i >= GM_SIDE_ADMIN && side.at)
            gm_side_lane(d, i, side, got);
        const bool whole = i < GM_SIDE_ADMIN && got.w[3] == side.lap;
        granules += gm_count_ones(gm_ballot(whole));
        if (whole) /* read once: this is the copy that is acted on */
            d->side[i] = got;
    }
    gm_syncwarp();
    if (gm_lane_id() == 0) {
        if (granules == GM_SIDE_ADMIN) {
            d->admin_told = (uint32_t)admin + 1u;
            gm_or_release_block_u32(&d->crew.attention, GM_ATTEND_ADMIN);
        }
        d->sweep = d->sweep + GM_SWEEP_LANES < d->lane_top ? d->sweep + GM_SWEEP_LANES : 0;
        d->sweeps++;
    }
    gm_syncwarp();
    gm_copies_turn(d);
}

/* ---- The front has lanes opened or closed: the scout looks nowhere meanwhile ---- */

/* The scout, between two turns: whether it is to wait. Whole warp. */
GM_DEV bool gm_scout_waits(struct gm_disp *d)
{
    const uint32_t hold = gm_agreed_u32(&d->crew.hold);
    if ((hold & 1u) == 0)
        return false;
    gm_syncwarp(); /* what all of the warp have read stays before this */
    if (gm_lane_id() == 0)
        gm_store_release_block_u32(&d->crew.held, hold);
    gm_syncwarp();
    return true;
}

/* The front. No look is on its way when gm_scout_hold returns, so memory may go away. Whole warp. */
GM_DEV void gm_scout_hold(struct gm_disp *d)
{
    const uint32_t hold = d->crew.hold + 1u;
    gm_syncwarp();
    if (gm_lane_id() == 0)
        gm_store_release_block_u32(&d->crew.hold, hold);
    while (d->crew.apart && gm_load_acquire_block_u32(&d->crew.held) != hold) {
    }
    gm_syncwarp();
}
GM_DEV void gm_scout_go(struct gm_disp *d)
{
    gm_syncwarp();
    if (gm_lane_id() == 0)
        gm_store_release_block_u32(&d->crew.hold, d->crew.hold + 1u);
    gm_syncwarp();
}

#endif
