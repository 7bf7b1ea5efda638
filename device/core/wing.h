/* SPDX-License-Identifier: Apache-2.0
 *
 * A turn of a wing: of the lane that it has on a lease (lease.h) it takes what is complete of one look, twice as wide
 * as the front's, and starts it the quick way while the next look is under way: the trip over the bus is what limits a
 * full lane. It waits for nothing. The lease ends when something else than quick jobs comes, when nothing comes, when
 * what it needs is short, when the front wants it back, and after a quantum when others wait. Whole warp.
 */
#ifndef GM_CORE_WING_H
#define GM_CORE_WING_H

#include "lease.h"
#include "start.h"

#define GM_WING_QUANTUM 64u /* turns after which other lanes that are ready end the lease */
#define GM_WING_EMPTY 4u    /* looks in a row that bring nothing and end it */
#define GM_WING_SHORT 64u   /* turns in a row without room or entries that end it */

/* What a wing has in registers: a look in two halves, which are asked for together and land together. A GPU's compiler
 * has one counter of loads under way for both, so one of them alone could not be waited for. */
struct gm_wing_look {
    struct gm_fetch half[2];
    uint32_t lease; /* that it is for */
};

/* The look goes to the lane's slots from head on. */
GM_DEV void gm_wing_aim(const struct gm_disp *d, uint32_t lane, uint64_t head, struct gm_wing_look *l)
{
    GM_UNROLL
    for (uint32_t i = 0; i < 2u; i++) {
        struct gm_fetch *f = &l->half[i];
        f->lane = lane;
        f->width = GM_POLL_MAX;
        f->log2 = d->lane[lane].slots_log2;
        f->head = head + i * GM_POLL_MAX;
        gm_poll_issue(d, f);
    }
}

/* What of it is complete, in the stage. */
GM_DEV uint32_t gm_wing_land(struct gm_wing *wing, const struct gm_wing_look *l)
{
    uint32_t complete = 0;
    GM_UNROLL
    for (uint32_t i = 0; i < 2u; i++) {
        const uint32_t first = gm_poll_first(&l->half[i]);
        if (complete != i * GM_POLL_MAX || (first & 1u) == 0)
            break;
        const uint32_t more = gm_poll_complete(&l->half[i], first);
        gm_poll_land(&wing->stage[complete * 4u], &l->half[i], more);
        complete += more;
    }
    return complete;
}

/* The lease ends. No look is on its way any more then, so the lane's memory may go away: what it brought is used. */
GM_DEV void gm_wing_end(struct gm_disp *d, struct gm_wing *wing, const struct gm_wing_look *l)
{
    uint32_t sum = 0;
    GM_UNROLL
    for (uint32_t i = 0; i < 2u; i++)
        GM_UNROLL
    for (uint32_t r = 0; r < GM_POLL_ROUNDS; r++)
        sum += gm_count_ones(gm_ballot(l->half[i].slots[r].w[3] != 0));
    wing->landed = sum;
    gm_lease_return(d, wing, l->lease);
}

/* Whether the lease is to end, whatever its lane has. */
GM_DEV bool gm_wing_over(const struct gm_disp *d, const struct gm_wing *wing, const struct gm_wing_look *l)
{
    /* Cancels and lanes that are shut need no look: neither comes under a lease. */
    bool over = gm_load_relaxed_block_u32(&d->held_lane) != 0 || gm_load_relaxed_block_u32(&wing->recall) == l->lease;
    over = over || (wing->turns >= GM_WING_QUANTUM && gm_load_relaxed_block_u32(&d->ready_words) != 0);
    return gm_shfl_u32(over || wing->empty >= GM_WING_EMPTY || wing->shortage >= GM_WING_SHORT ? 1u : 0u, 0) != 0;
}

/* How many of so many jobs the wing has entries for, and with them credit. Acquire, where it looks again: what the back
 * put into free; pairs with the release in gm_back_wings. */
GM_DEV uint32_t gm_wing_fits(struct gm_wing *wing, uint32_t count)
{
    uint32_t there = wing->freed_seen - wing->taken;
    if (there < count) {
        const uint32_t freed = gm_agreed_u32(&wing->freed);
        there = freed - wing->taken;
        gm_syncwarp(); /* what is changed was read by all; all write alike */
        wing->freed_seen = freed;
    }
    return there < count ? there : count;
}

/* Starts jobs, one for each SIMT lane, of which there are entries enough. None when there is no room, or when not all
 * of them go the quick way; *odd says which. */
GM_DEV bool gm_wing_start(const struct gm_core *core, struct gm_disp *d, struct gm_wing *wing, const struct gm_quick *q,
                          bool *odd)
{
    struct gm_job job = {0}; /* as in gm_start_quick */
    struct gm_lane_row *lane = &d->lane[q->lane];
    uint64_t base;
    *odd = !gm_quick_check(core, d, q, &job);
    if (*odd || !gm_reserve_as(core, d, q->count, &base, false))
        return false;
    const uint32_t rank = gm_quick_rank(q), kind = gm_is_client_lane(q->lane) ? 0u : 1u, taken = wing->taken;
    const uint32_t quick = wing->quick[kind] + q->count, mine = rank < q->count ? rank : 0u;
    const uint64_t jobs = lane->taken + q->count;
    job.start_ns = gm_now_ns();
    gm_quick_put(core, d, q, &job, base, wing->free[(taken + mine) % GM_WING_ENTRIES_MAX]);
    gm_store_relaxed_block_u64(&lane->head, q->head + q->count);
    lane->taken = jobs;
    wing->taken = taken + q->count;
    gm_store_relaxed_block_u32(&wing->quick[kind], quick);
    gm_syncwarp();
    if (gm_lane_id() == 0)
        gm_journal_head(core, q->lane, lane);
    return true;
}

/* Jobs from the stage, as many as there are entries for. How many were started: fewer when there was no room, or when
 * the next ones are none of this kind (*odd). */
GM_DEV uint32_t gm_wing_take(const struct gm_core *core, struct gm_disp *d, struct gm_wing *wing, uint64_t head,
                             uint32_t count, bool *odd)
{
    struct gm_quick q;
    uint32_t done = 0;
    q.lane = wing->lane;
    while (done < count) {
        q.head = head + done;
        q.count = count - done < GM_WARP ? count - done : GM_WARP;
        q.words = gm_stage_words(wing->stage, done + (q.count > 1u ? gm_lane_id() : 0u));
        if (!gm_wing_start(core, d, wing, &q, odd))
            break;
        done += q.count;
    }
    return done;
}

/* A lease begins. */
GM_DEV void gm_wing_begin(const struct gm_disp *d, struct gm_wing *wing, struct gm_wing_look *l, uint32_t lease)
{
    l->lease = lease;
    wing->turns = wing->empty = wing->shortage = 0;
    gm_wing_aim(d, wing->lane, d->lane[wing->lane].head, l);
}

/* Before the first turn of a wing. */
GM_DEV void gm_wing_init(const struct gm_disp *d, uint32_t w, struct gm_wing_look *l)
{
    l->lease = d->wing[w].returned;
}

/* One turn. Whether the wing has a lease, or had. */
GM_DEV bool gm_wing_turn(const struct gm_core *core, struct gm_disp *d, uint32_t w, struct gm_wing_look *l)
{
    struct gm_wing *wing = &d->wing[w];
    const uint32_t lease = gm_agreed_u32(&wing->given); /* Acquire: pairs with the release in gm_wings_lease. */
    if (lease == wing->returned)
        return false;
    if (lease != l->lease)
        gm_wing_begin(d, wing, l, lease);
    if (gm_wing_over(d, wing, l)) {
        gm_wing_end(d, wing, l);
        return true;
    }
    const uint32_t turns = wing->turns + 1u, empty = wing->empty + 1u, shortage = wing->shortage + 1u;
    const uint32_t complete = gm_wing_land(wing, l), count = complete != 0 ? gm_wing_fits(wing, complete) : 0;
    const uint64_t head = l->half[0].head;
    gm_syncwarp();
    wing->turns = turns;
    wing->empty = complete == 0 ? empty : 0;
    if (complete != 0 && count == 0) {
        wing->shortage = shortage;
        return true; /* the look stays as it is for the next turn */
    }
    bool odd = false;
    gm_wing_aim(d, wing->lane, head + count, l);
    const uint32_t done = gm_wing_take(core, d, wing, head, count, &odd);
    if (odd) {
        gm_wing_end(d, wing, l);
        return true;
    }
    wing->shortage = done != count ? shortage : 0;
    if (done != count)
        gm_wing_aim(d, wing->lane, head + done, l);
    return true;
}

#endif
