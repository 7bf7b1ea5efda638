/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads descriptors from a lane, each granule once, into private memory. All loads of a turn are issued before any is
 * used, so that a turn costs one trip over the bus: the slots of the lane that is served, the admin lane, the inbox,
 * and a sweep over the other lanes, which asks of a few of them each turn whether something has begun to come there and
 * whether their client sleeps. Whole warp; at most GM_POLL_MAX slots and GM_SWEEP_LANES lanes a turn.
 */
#ifndef GM_CORE_POLL_H
#define GM_CORE_POLL_H

#include "core.h"
#include "inbox.h"

#define GM_POLL_NARROW 8u /* slots read while work is rare: one load per SIMT lane of a GPU */
#define GM_POLL_ROUNDS (GM_POLL_MAX * 4u / GM_WARP)
/* The loads beside the lane, one for each SIMT lane of a GPU: the admin descriptor, then the first granule at the head
 * of each lane of the sweep, then their wait granules. */
#define GM_SIDE_ADMIN  4u
#define GM_SWEEP_LANES 14u
#define GM_SIDE_WAIT   (GM_SIDE_ADMIN + GM_SWEEP_LANES)
#define GM_SIDE_COUNT  (GM_SIDE_WAIT + GM_SWEEP_LANES)
#define GM_INBOX_TAKE  32u
static_assert(GM_SIDE_COUNT == 32u, "one load per SIMT lane");
#define GM_STRIKES_MAX 4u  /* looks for nothing after which a lane is looked at in few turns only */
#define GM_STRIKE_GAP  64u /* one round of the sweep of so many */

#define GM_ADMIN_SLOTS_LOG2 6u
static_assert(1u << GM_ADMIN_SLOTS_LOG2 == GM_ADMIN_SLOTS, "log of limits.h");

/* Messages of the inbox, from its head on: one for each SIMT lane of a GPU. */
struct gm_messages {
    uint64_t word[GM_INBOX_TAKE / GM_WARP];
};

#define GM_SIDE_ROUNDS ((GM_SIDE_COUNT + GM_WARP - 1u) / GM_WARP)

/* What warps that look for the dispatcher share with it: see look.h. */
#define GM_LOOKERS_MAX 4u
#ifdef __CUDACC__
static_assert(GM_CUDA_LOOKERS <= GM_LOOKERS_MAX, "a place in the box for each");
#define GM_BOXED(f) (GM_CUDA_LOOKERS != 0)
#else
#define GM_BOXED(f) ((f)->box != NULL)
#endif
struct gm_look {
    uint32_t found; /* the aim that g is of */
    uint32_t seen;  /* the aim that the last look began with: no older one is on its way */
    uint32_t pad[2];
    struct gm_granule g[GM_POLL_MAX * 4u];
};
struct __attribute__((aligned(16))) gm_box {
    struct gm_granule aim; /* at the lane */
    uint32_t aiming, aimed, side_aimed; /* count the aims at the lane, begun and done, and beside it */
    uint32_t lookers, leave, pad[3];
    uint64_t side_at[GM_SIDE_COUNT]; /* addresses of granules, or 0 */
    struct gm_look look[GM_LOOKERS_MAX], side;
};

/* Loads in flight, from the end of one turn to the start of the next, and where this SIMT lane looks: kept, because
 * most turns find nothing and look at the same places again. */
struct gm_fetch {
    struct gm_box *box; /* NULL: this warp looks itself, and has seen everything in every turn */
    struct gm_granule slots[GM_POLL_ROUNDS];
    struct gm_granule side[GM_SIDE_ROUNDS];
    bool looked, side_looked; /* in this turn there is a look at the lane, and one beside it */
    struct gm_messages inbox;
    const struct gm_granule *slot_at, *side_at; /* of the first round */
    const uint64_t *inbox_at;
    uint32_t slot_lap, inbox_lap, side_lap; /* what makes them complete */
    uint32_t lane, width, turns;            /* lane GM_LANE_NONE, width 0: no lane is open */
    uint32_t moves;                         /* the sweep does not reach every lane in one turn */
};

GM_DEV const struct gm_granule *gm_poll_granule(const struct gm_lane_row *lane, uint32_t i)
{
    const uint32_t mask = (1u << lane->slots_log2) - 1u;
    return &lane->sq[((uint32_t)lane->head + i / 4u) & mask].g[i & 3u];
}
GM_DEV uint32_t gm_poll_lap(const struct gm_lane_row *lane, uint32_t i)
{
    return gm_lap(lane->head + i / 4u, lane->slots_log2);
}

/* The lane that a load beside the lane is about, or GM_LANE_NONE: no such load. */
GM_DEV uint32_t gm_side_lane(const struct gm_disp *d, uint32_t i)
{
    if (i < GM_SIDE_ADMIN)
        return GM_LANE_NONE;
    uint32_t lane = d->sweep + (i < GM_SIDE_WAIT ? i - GM_SIDE_ADMIN : i - GM_SIDE_WAIT);
    if (lane >= d->lane_top || !d->lane[lane].header || d->lane[lane].shut)
        return GM_LANE_NONE;
    return lane;
}
GM_DEV const struct gm_granule *gm_side_at(const struct gm_core *core, const struct gm_disp *d, uint32_t i)
{
    if (i < GM_SIDE_ADMIN)
        return &core->admin_sq[d->admin_head & (GM_ADMIN_SLOTS - 1u)].g[i];
    const uint32_t lane = gm_side_lane(d, i);
    if (lane == GM_LANE_NONE)
        return NULL;
    return i < GM_SIDE_WAIT ? gm_poll_granule(&d->lane[lane], 0) : &d->lane[lane].header->wait;
}
GM_DEV uint32_t gm_side_lap(const struct gm_disp *d, uint32_t i)
{
    if (i < GM_SIDE_ADMIN)
        return gm_lap(d->admin_head, GM_ADMIN_SLOTS_LOG2);
    const uint32_t lane = i < GM_SIDE_WAIT ? gm_side_lane(d, i) : GM_LANE_NONE;
    return lane == GM_LANE_NONE ? ~UINT32_C(0) : gm_poll_lap(&d->lane[lane], 0);
}

/* Where the next turns look: at this lane, from its head on. */
GM_DEV void gm_poll_aim(const struct gm_core *core, const struct gm_disp *d, uint32_t lane_index, struct gm_fetch *f)
{
    const struct gm_lane_row *lane = lane_index == GM_LANE_NONE ? NULL : &d->lane[lane_index];
    const uint64_t inbox = d->inbox_head + gm_lane_id();
    f->lane = lane_index;
    f->width = lane ? lane->width : 0;
    f->moves = d->lane_top > GM_SWEEP_LANES;
    f->slot_at = lane ? gm_poll_granule(lane, gm_lane_id()) : NULL;
    f->slot_lap = lane ? gm_poll_lap(lane, gm_lane_id()) : 0;
    f->side_at = gm_side_at(core, d, gm_lane_id());
    f->side_lap = gm_side_lap(d, gm_lane_id());
    f->inbox_at = &core->inbox[inbox & ((1u << core->entries_log2) - 1u)];
    f->inbox_lap = gm_lap(inbox, core->entries_log2);
}

GM_DEV void gm_poll_issue(const struct gm_core *core, const struct gm_disp *d, struct gm_fetch *f)
{
    const struct gm_lane_row *lane = f->lane == GM_LANE_NONE ? NULL : &d->lane[f->lane];
    const uint32_t granules = f->width * 4u;
    GM_UNROLL
    for (uint32_t r = 0; r < GM_POLL_ROUNDS; r++) {
        const uint32_t i = r * GM_WARP + gm_lane_id();
        if (r * GM_WARP < granules && i < granules)
            f->slots[r] = gm_load16_sys(r == 0 ? f->slot_at : gm_poll_granule(lane, i));
    }
    GM_UNROLL
    for (uint32_t r = 0; r < GM_SIDE_ROUNDS; r++) {
        const struct gm_granule *at = r == 0 ? f->side_at : gm_side_at(core, d, r * GM_WARP + gm_lane_id());
        if (at)
            f->side[r] = gm_load16_sys(at);
    }
}

GM_DEV void gm_poll_issue_inbox(const struct gm_core *core, const struct gm_disp *d, struct gm_fetch *f)
{
    f->inbox.word[0] = gm_inbox_load(f->inbox_at);
    /* One at a time on the CPU: stop at the first empty place. */
    for (uint32_t r = 1; r < GM_INBOX_TAKE / GM_WARP; r++) {
        if (!gm_inbox_valid(core, d->inbox_head + r - 1u, f->inbox.word[r - 1u])) {
            f->inbox.word[r] = 0;
            break;
        }
        f->inbox.word[r] = gm_inbox_load(&core->inbox[(d->inbox_head + r) & ((1u << core->entries_log2) - 1u)]);
    }
}

/* A client sleeps, more is complete than it has reaped, and this sleep was not ended yet. Level, not edge: looked at
 * again and again, so that neither order of "client arms" and "job completes" loses the wake. A client that was quick
 * has reaped more than is counted here; waking it for that would use up the one wake of its sleep. */
GM_DEV bool gm_wake_due(const struct gm_lane_row *lane, struct gm_granule wait)
{
    const uint64_t reaped = wait.w[0] | (uint64_t)wait.w[1] << 32;
    return wait.w[2] == 1u && (int64_t)(lane->completed - reaped) > 0 && lane->wake_sent != reaped;
}

/* Whether lanes with strikes are looked at in this turn: in every sweep of a round, so that each is met. */
GM_DEV bool gm_strike_turn(const struct gm_disp *d, const struct gm_fetch *f)
{
    const uint32_t round = (d->lane_top + GM_SWEEP_LANES - 1u) / GM_SWEEP_LANES;
    return (GM_BOXED(f) ? f->box->side_aimed : f->turns) / round % GM_STRIKE_GAP == 0;
}

/* Whether a load beside the lane says that something is to be done. */
GM_DEV bool gm_side_tells(const struct gm_disp *d, const struct gm_fetch *f, uint32_t r)
{
    const uint32_t i = r * GM_WARP + gm_lane_id();
    if (!f->side_looked)
        return false;
    if (i < GM_SIDE_WAIT) {
        /* A look that others took may be older than the lane's head. */
        const bool aged = GM_BOXED(f) && f->box->side_at[i] != (uint64_t)(uintptr_t)gm_side_at(&d->core, d, i);
        const bool begun = !aged && f->side[r].w[3] == (r == 0 && !GM_BOXED(f) ? f->side_lap : gm_side_lap(d, i));
        if (i < GM_SIDE_ADMIN)
            return i == 0 && begun;
        const uint32_t lane = gm_side_lane(d, i);
        return begun && lane != GM_LANE_NONE && lane != f->lane &&
               (d->lane[lane].strikes < GM_STRIKES_MAX || gm_strike_turn(d, f));
    }
    const uint32_t lane = f->side[r].w[2] == 1u ? gm_side_lane(d, i) : GM_LANE_NONE;
    return lane != GM_LANE_NONE && gm_wake_due(&d->lane[lane], f->side[r]);
}

/* Whether anything may have come: the first granule of the lane's head, the first of the admin descriptor, the first
 * message, or something of the sweep. Whole warp. */
GM_DEV bool gm_poll_any(const struct gm_disp *d, const struct gm_fetch *f)
{
    const bool first = gm_lane_id() == 0;
    bool come = first && f->width != 0 && f->slots[0].w[3] == f->slot_lap;
    come = come || (first && (uint32_t)(f->inbox.word[0] >> 32) == f->inbox_lap);
    for (uint32_t r = 0; r < GM_SIDE_ROUNDS; r++)
        come = come || gm_side_tells(d, f, r);
    return gm_ballot(come) != 0;
}

/* Marks the lanes of the sweep that something has come to, and those whose client is to be woken. Whole warp: whether
 * there was any. */
GM_DEV bool gm_poll_sweep(struct gm_disp *d, const struct gm_fetch *f)
{
    bool any = false;
    for (uint32_t r = 0; r < GM_SIDE_ROUNDS; r++) {
        const uint32_t i = r * GM_WARP + gm_lane_id();
        if (i < GM_SIDE_ADMIN || !gm_side_tells(d, f, r))
            continue;
        const uint32_t lane = gm_side_lane(d, i);
        any = true;
        if (i < GM_SIDE_WAIT) {
            gm_private_or(&d->ready[lane / 32u], 1u << (lane & 31u));
            continue;
        }
        d->lane[lane].wake_sent = f->side[r].w[0] | (uint64_t)f->side[r].w[1] << 32;
        gm_private_or(&d->wake_lanes[lane / 32u], 1u << (lane & 31u));
        gm_private_or(&d->wake, 1u);
        gm_private_add(&d->counters.wakes, 1);
    }
    any = gm_ballot(any) != 0;
    gm_syncwarp();
    return any;
}

/* How many slots from the head on are complete: granules stand in order, so it is a fourth of the unbroken run of
 * granules that carry their lap. Whole warp, same answer for all. */
GM_DEV uint32_t gm_poll_complete(const struct gm_disp *d, const struct gm_fetch *f)
{
    const uint32_t granules = f->width * 4u;
    uint32_t count = 0;
    GM_UNROLL
    for (uint32_t r = 0; r < GM_POLL_ROUNDS; r++) {
        const uint32_t i = r * GM_WARP + gm_lane_id();
        if (r * GM_WARP >= granules)
            break;
        const uint32_t lap = r == 0 ? f->slot_lap : gm_poll_lap(&d->lane[f->lane], i);
        const uint32_t run = gm_lowest_zero(gm_ballot(i < granules && f->slots[r].w[3] == lap));
        count += run < GM_WARP ? run : GM_WARP;
        if (run < GM_WARP)
            break;
    }
    return count / 4u;
}

/* Whether the next admin descriptor is complete. Whole warp. */
GM_DEV bool gm_poll_admin(const struct gm_fetch *f)
{
    const uint32_t lap = gm_shfl_u32(f->side_lap, 0); /* the same for all four granules */
    uint32_t count = 0;
    if (!f->side_looked)
        return false;
    for (uint32_t r = 0; r < (GM_SIDE_ADMIN + GM_WARP - 1u) / GM_WARP; r++) {
        const bool complete = r * GM_WARP + gm_lane_id() < GM_SIDE_ADMIN && f->side[r].w[3] == lap;
        count += gm_count_ones(gm_ballot(complete));
    }
    return count == GM_SIDE_ADMIN;
}

/* How many messages came, from the inbox's head on. Whole warp. */
GM_DEV uint32_t gm_poll_messages(const struct gm_core *core, const struct gm_disp *d, const struct gm_fetch *f)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < GM_INBOX_TAKE / GM_WARP; r++) {
        const uint32_t lap = r == 0 ? f->inbox_lap : gm_lap(d->inbox_head + r, core->entries_log2);
        const uint32_t run = gm_lowest_zero(gm_ballot((uint32_t)(f->inbox.word[r] >> 32) == lap));
        count += run < GM_WARP ? run : GM_WARP;
        if (run < GM_WARP)
            break;
    }
    return count;
}

/* Moves what came into the dispatcher's private copy: complete slots, and the admin descriptor. */
GM_DEV void gm_poll_land(struct gm_disp *d, const struct gm_fetch *f, uint32_t complete)
{
    const uint32_t granules = complete * 4u;
    GM_UNROLL
    for (uint32_t r = 0; r < GM_POLL_ROUNDS; r++) {
        const uint32_t i = r * GM_WARP + gm_lane_id();
        if (r * GM_WARP < granules && i < granules)
            d->stage[i] = f->slots[r];
    }
    for (uint32_t r = 0; r < (GM_SIDE_ADMIN + GM_WARP - 1u) / GM_WARP; r++) {
        const uint32_t i = r * GM_WARP + gm_lane_id();
        if (i < GM_SIDE_ADMIN)
            d->side[i] = f->side[r];
    }
    gm_syncwarp();
}

GM_DEV uint32_t gm_poll_word(const struct gm_disp *d, uint32_t k, uint32_t word)
{
    return d->stage[k * 4u + word / 3u].w[word % 3u];
}

#endif
