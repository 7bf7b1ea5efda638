/* SPDX-License-Identifier: Apache-2.0
 *
 * How a worker gets a share: draw the next ticket, wait until its slot is published, acknowledge, go. One thread of
 * the worker. A worker holds one ticket at a time. How to wait between tries is the backend's business.
 */
#ifndef GM_CORE_DRAW_H
#define GM_CORE_DRAW_H

#include "slot.h"

GM_DEV uint64_t gm_draw(const struct gm_core *core) { return gm_fetch_add_relaxed_u64(&core->counters->ticket, 1); }

/* One look at the slot. Acquire: pairs with the fence before a reference (GPU), and with the store of each granule
 * (CPU). After it the entry, or what the granules say, and everything that was complete before the job are visible.
 * Whole warp, same answer for all. */
GM_DEV bool gm_draw_try(const struct gm_core *core, uint64_t ticket, struct gm_drawn *drawn)
{
    const struct gm_slot *slot = gm_slot_at(core, ticket);
    const uint32_t lap = gm_lap(ticket, core->tickets_log2);
    drawn->g[0] = gm_load16_gpu(&slot->g[gm_lane_id() % GM_SLOT_GRANULES]);
    uint32_t there = gm_ballot(drawn->g[0].w[3] == lap);
    if ((there & 1u) == 0)
        return false;
    drawn->word = gm_shfl_u32(drawn->g[0].w[0], 0);
    if (!gm_ticket_inline(drawn->word))
        return true;
    bool whole = gm_lowest_zero(there) == GM_WARP;
    for (uint32_t r = 1; r < GM_DRAWN_ROUNDS; r++) {
        drawn->g[r] = gm_load16_gpu(&slot->g[r]);
        whole = whole && drawn->g[r].w[3] == lap;
    }
    return whole;
}

/* The slot has been read into registers and may be reused. Release (CPU): the loads of the slot stay before it; pairs
 * with the acquire in gm_room. */
GM_DEV void gm_ack(const struct gm_core *core, uint64_t ticket)
{
    uint32_t *ack = &core->acks[gm_slot_index(core, ticket)];
#ifdef __CUDACC__
    gm_store_relaxed_u32(ack, gm_lap(ticket, core->tickets_log2));
#else
    gm_store_release_u32(ack, gm_lap(ticket, core->tickets_log2));
#endif
}

#endif
