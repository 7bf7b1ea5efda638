/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads descriptors from a lane, each granule once, into private memory. All loads of a turn (descriptors, admin lane,
 * the lane's wait granule, inbox) are issued before any is used, so that a turn costs one trip over the bus. Whole
 * warp; at most GM_POLL_MAX slots a turn.
 */
#ifndef GM_CORE_POLL_H
#define GM_CORE_POLL_H

#include "core.h"
#include "inbox.h"

#define GM_POLL_NARROW 8u /* slots read while work is rare: one load per SIMT lane of a GPU */
#define GM_SIDE_WAIT   4u /* d->side: 0..3 the admin descriptor, 4 the wait granule */
#define GM_SIDE_COUNT  5u
#define GM_INBOX_TAKE  32u

#define GM_ADMIN_SLOTS_LOG2 6u
static_assert(1u << GM_ADMIN_SLOTS_LOG2 == GM_ADMIN_SLOTS, "log of limits.h");

/* Loads in flight, from the end of one turn to the start of the next, and where this SIMT lane looks: kept, because
 * most turns find nothing and look at the same places again. */
struct gm_fetch {
    struct gm_granule slots[GM_POLL_MAX * 4u / GM_WARP];
    struct gm_granule side[(GM_SIDE_COUNT + GM_WARP - 1u) / GM_WARP];
    uint64_t inbox[GM_INBOX_TAKE / GM_WARP];
    const struct gm_granule *slot_at, *side_at; /* of the first round */
    const uint64_t *inbox_at;
    uint32_t slot_lap, inbox_lap, admin_lap; /* what makes them complete */
    uint32_t lane, width, turns;             /* lane GM_LANE_NONE, width 0: no lane is open */
    uint32_t others;                         /* there may be more than one lane */
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
GM_DEV const struct gm_granule *gm_poll_side(const struct gm_core *core, const struct gm_disp *d,
                                             const struct gm_lane_row *lane, uint32_t i)
{
    const struct gm_granule *admin = &core->admin_sq[d->admin_head & (GM_ADMIN_SLOTS - 1u)].g[i & 3u];
    return i == GM_SIDE_WAIT && lane ? &lane->header->wait : admin;
}

/* Where the next turns look: at this lane, from its head on. */
GM_DEV void gm_poll_aim(const struct gm_core *core, const struct gm_disp *d, uint32_t lane_index, struct gm_fetch *f)
{
    const struct gm_lane_row *lane = lane_index == GM_LANE_NONE ? NULL : &d->lane[lane_index];
    const uint64_t inbox = d->inbox_head + gm_lane_id();
    f->lane = lane_index;
    f->width = lane ? lane->width : 0;
    f->others = d->lane_top > 1u;
    f->slot_at = lane ? gm_poll_granule(lane, gm_lane_id()) : NULL;
    f->slot_lap = lane ? gm_poll_lap(lane, gm_lane_id()) : 0;
    f->side_at = gm_poll_side(core, d, lane, gm_lane_id());
    f->admin_lap = gm_lap(d->admin_head, GM_ADMIN_SLOTS_LOG2);
    f->inbox_at = &core->inbox[inbox & ((1u << core->entries_log2) - 1u)];
    f->inbox_lap = gm_lap(inbox, core->entries_log2);
}

GM_DEV void gm_poll_issue(const struct gm_core *core, const struct gm_disp *d, struct gm_fetch *f)
{
    const struct gm_lane_row *lane = f->lane == GM_LANE_NONE ? NULL : &d->lane[f->lane];
    const uint32_t granules = f->width * 4u;
    GM_UNROLL
    for (uint32_t r = 0; r < GM_POLL_MAX * 4u / GM_WARP; r++) {
        const uint32_t i = r * GM_WARP + gm_lane_id();
        if (r * GM_WARP < granules && i < granules)
            f->slots[r] = gm_load16_sys(r == 0 ? f->slot_at : gm_poll_granule(lane, i));
    }
    GM_UNROLL
    for (uint32_t r = 0; r < (GM_SIDE_COUNT + GM_WARP - 1u) / GM_WARP; r++) {
        const uint32_t i = r * GM_WARP + gm_lane_id();
        if (i < GM_SIDE_COUNT)
            f->side[r] = gm_load16_sys(r == 0 ? f->side_at : gm_poll_side(core, d, lane, i));
    }
    f->inbox[0] = gm_inbox_load(f->inbox_at);
    /* One at a time on the CPU: stop at the first empty place. */
    for (uint32_t r = 1; r < GM_INBOX_TAKE / GM_WARP; r++) {
        if (!gm_inbox_valid(core, d->inbox_head + r - 1u, f->inbox[r - 1u])) {
            f->inbox[r] = 0;
            break;
        }
        f->inbox[r] = gm_inbox_load(&core->inbox[(d->inbox_head + r) & ((1u << core->entries_log2) - 1u)]);
    }
}

/* Whether anything may have come: the first granule of the lane's head, the first of the admin descriptor, the first
 * message, or a client that sleeps. Whole warp. */
GM_DEV bool gm_poll_any(const struct gm_fetch *f)
{
    const bool first = gm_lane_id() == 0, waiter = GM_WARP == 1u || gm_lane_id() == GM_SIDE_WAIT;
    const bool lane = f->width != 0 && f->slots[0].w[3] == f->slot_lap;
    const bool come = lane || f->side[0].w[3] == f->admin_lap || (uint32_t)(f->inbox[0] >> 32) == f->inbox_lap;
    const bool waits = f->width != 0 && f->side[GM_SIDE_WAIT / GM_WARP].w[2] == 1u;
    return gm_ballot((first && come) || (waiter && waits)) != 0;
}

/* How many slots from the head on are complete: granules stand in order, so it is a fourth of the unbroken run of
 * granules that carry their lap. Whole warp, same answer for all. */
GM_DEV uint32_t gm_poll_complete(const struct gm_disp *d, const struct gm_fetch *f)
{
    const uint32_t granules = f->width * 4u;
    uint32_t count = 0;
    GM_UNROLL
    for (uint32_t r = 0; r < GM_POLL_MAX * 4u / GM_WARP; r++) {
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
    uint32_t count = 0;
    for (uint32_t r = 0; r < (4u + GM_WARP - 1u) / GM_WARP; r++) {
        const bool complete = r * GM_WARP + gm_lane_id() < 4u && f->side[r].w[3] == f->admin_lap;
        count += gm_count_ones(gm_ballot(complete));
    }
    return count == 4u;
}

/* Whether the lane's client sleeps and wants to be woken. Whole warp. */
GM_DEV bool gm_poll_waiting(const struct gm_fetch *f)
{
    const bool mine = GM_WARP == 1u || gm_lane_id() == GM_SIDE_WAIT;
    return gm_ballot(mine && f->width != 0 && f->side[GM_SIDE_WAIT / GM_WARP].w[2] == 1u) != 0;
}

/* How many messages came, from the inbox's head on. Whole warp. */
GM_DEV uint32_t gm_poll_messages(const struct gm_core *core, const struct gm_disp *d, const struct gm_fetch *f)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < GM_INBOX_TAKE / GM_WARP; r++) {
        const uint32_t lap = r == 0 ? f->inbox_lap : gm_lap(d->inbox_head + r, core->entries_log2);
        const uint32_t run = gm_lowest_zero(gm_ballot((uint32_t)(f->inbox[r] >> 32) == lap));
        count += run < GM_WARP ? run : GM_WARP;
        if (run < GM_WARP)
            break;
    }
    return count;
}

/* Moves what came into the dispatcher's private copy: complete slots, and the places beside the lane. */
GM_DEV void gm_poll_land(struct gm_disp *d, const struct gm_fetch *f, uint32_t complete)
{
    const uint32_t granules = complete * 4u;
    GM_UNROLL
    for (uint32_t r = 0; r < GM_POLL_MAX * 4u / GM_WARP; r++) {
        const uint32_t i = r * GM_WARP + gm_lane_id();
        if (r * GM_WARP < granules && i < granules)
            d->stage[i] = f->slots[r];
    }
    GM_UNROLL
    for (uint32_t r = 0; r < (GM_SIDE_COUNT + GM_WARP - 1u) / GM_WARP; r++) {
        const uint32_t i = r * GM_WARP + gm_lane_id();
        if (i < GM_SIDE_COUNT)
            d->side[i] = f->side[r];
    }
    gm_syncwarp();
}

GM_DEV uint32_t gm_poll_word(const struct gm_disp *d, uint32_t k, uint32_t word)
{
    return d->stage[k * 4u + word / 3u].w[word % 3u];
}

#endif
