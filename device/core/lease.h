/* SPDX-License-Identifier: Apache-2.0
 *
 * Leases: a lane that brings as much as one look can hold is leased to a wing, which starts what goes the quick way;
 * for everything else it gives the lane back. While a lane is leased, its head, width, strikes and counts, its journal
 * and its note are the wing's; the front and the scout leave it alone, but for the
 * sleeper. A lease has a number: it runs while the wing's `returned` is not the front's `given`. What the lanes', the
 * arenas' and the entries' tables say never changes under a lease: before it changes them, the front recalls all leases
 * and waits until they have ended, for which a wing needs a turn. The front's part; whole warp.
 */
#ifndef GM_CORE_LEASE_H
#define GM_CORE_LEASE_H

#include "scout.h"

/* The wing: its lease is over. Release: all that it did under it comes first; pairs with the acquires in gm_wings_free
 * and gm_wings_collect. */
GM_DEV void gm_lease_return(struct gm_disp *d, struct gm_wing *wing, uint32_t lease)
{
    gm_syncwarp();
    if (gm_lane_id() == 0) {
        gm_store_release_block_u32(&wing->returned, lease);
        gm_or_release_block_u32(&d->crew.attention, GM_ATTEND_WINGS);
    }
    gm_syncwarp();
}

/* A wing without a lease that has entries for a full look; or GM_WINGS_MAX. */
GM_DEV uint32_t gm_wings_free(const struct gm_disp *d)
{
    for (uint32_t w = 0; w < d->core.wings; w++) {
        const struct gm_wing *wing = &d->wing[w];
        if ((d->leased >> w & 1u) == 0 && gm_agreed_u32(&wing->freed) - wing->taken >= GM_POLL_MAX)
            return w;
    }
    return GM_WINGS_MAX;
}

/* Leases a lane, of which one look was full and quick, if a wing is free and nothing is known that the quick way has no
 * answer to. */
GM_DEV_CALL bool gm_wings_lease(struct gm_disp *d, uint32_t lane_index)
{
    d = gm_disp_here(d);
    struct gm_lane_row *lane = &d->lane[lane_index];
    if ((d->stopping | d->cancels | d->held_lane | lane->shut | lane->lease) != 0 || lane->header == NULL)
        return false;
    const uint32_t w = gm_wings_free(d);
    if (w == GM_WINGS_MAX)
        return false;
    struct gm_wing *wing = &d->wing[w];
    gm_syncwarp(); /* what all have read stays before this */
    if (gm_lane_id() == 0) {
        gm_store_relaxed_block_u32(&lane->lease, w + 1u);
        gm_ready_clear(d, lane_index);
        wing->lane = lane_index;
        d->leased |= 1u << w;
        d->counters.leases++;
        gm_store_release_block_u32(&wing->given, wing->given + 1u); /* pairs with the acquire in gm_wing_turn */
    }
    gm_syncwarp();
    return true;
}

/* The lane of a lease that has ended is the front's again; something may be there. */
GM_DEV void gm_lease_back(struct gm_disp *d, uint32_t w)
{
    const uint32_t lane_index = d->wing[w].lane;
    struct gm_lane_row *lane = &d->lane[lane_index];
    gm_syncwarp();
    if (gm_lane_id() == 0) {
        gm_store_relaxed_block_u32(&lane->lease, 0);
        d->leased &= ~(1u << w);
        d->last_work_ns = d->now_ns;
        gm_ready_set(d, lane_index);
    }
    gm_syncwarp();
}

/* Takes back the lanes whose leases have ended. */
GM_DEV void gm_wings_collect(struct gm_disp *d)
{
    for (uint32_t rest = d->leased; rest != 0; rest &= rest - 1u) {
        const uint32_t w = gm_lowest_one(rest);
        if (gm_agreed_u32(&d->wing[w].returned) == d->wing[w].given)
            gm_lease_back(d, w);
    }
}

/* All leases end, and none is out when this returns: each wing has done with its turn. Where the front plays all parts,
 * every wing is between two turns as it is. */
GM_DEV_CALL void gm_wings_recall(struct gm_disp *d)
{
    d = gm_disp_here(d);
    gm_syncwarp();
    for (uint32_t rest = d->leased; rest != 0; rest &= rest - 1u) {
        struct gm_wing *wing = &d->wing[gm_lowest_one(rest)];
        if (gm_lane_id() == 0)
            gm_store_relaxed_block_u32(&wing->recall, wing->given);
        if (!d->crew.apart)
            gm_lease_return(d, wing, wing->given);
    }
    for (uint32_t rest = d->leased; rest != 0; rest &= rest - 1u) {
        const uint32_t w = gm_lowest_one(rest);
        while (gm_agreed_u32(&d->wing[w].returned) != d->wing[w].given) {
        }
        gm_lease_back(d, w);
    }
}

/* With no lease out: notes of entries that have come back to their wings say so, as those of the front's do. */
GM_DEV void gm_wings_notes(struct gm_disp *d)
{
    for (uint32_t w = 0; w < d->core.wings; w++) {
        const struct gm_wing *wing = &d->wing[w];
        const uint32_t count = gm_agreed_u32(&wing->freed) - wing->taken;
        for (uint32_t i = gm_lane_id(); i < count; i += GM_WARP)
            d->note[wing->free[(wing->taken + i) % GM_WING_ENTRIES_MAX]].lane = GM_LANE_NONE;
    }
    gm_syncwarp();
}

/* Whether jobs are in flight, as far as the back has counted; with no lease out. */
GM_DEV bool gm_in_flight(const struct gm_disp *d)
{
    bool out = d->free_entries != gm_front_entries(&d->core);
    for (uint32_t w = 0; w < d->core.wings; w++)
        out = out || gm_agreed_u32(&d->wing[w].freed) - d->wing[w].taken != gm_wing_entries(&d->core);
    return out;
}

#endif
