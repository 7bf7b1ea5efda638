/* SPDX-License-Identifier: Apache-2.0
 *
 * How a worker gets a share: draw the next ticket, wait until its slot is published, acknowledge, go. One thread of
 * the worker. A worker holds one ticket at a time. How to wait between tries is the backend's business.
 */
#ifndef GM_CORE_DRAW_H
#define GM_CORE_DRAW_H

#include "core.h"

GM_DEV uint64_t gm_draw(const struct gm_core *core) { return gm_fetch_add_relaxed_u64(&core->counters->ticket, 1); }

/* One look at the slot. Acquire: pairs with the fence before gm_publish_store (GPU) or that release (CPU); after it
 * the entry and everything that was complete before the job are visible. */
GM_DEV bool gm_draw_try(const struct gm_core *core, uint64_t ticket, uint64_t *slot)
{
    const uint64_t mask = ((uint64_t)1 << core->tickets_log2) - 1u;
    *slot = gm_load_acquire_u64(&core->slots[ticket & mask]);
    return gm_slot_lap(*slot) == gm_lap(ticket, core->tickets_log2);
}

/* The slot has been read into a register and may be reused. Release (CPU): the load of the slot stays before it; pairs
 * with the acquire in gm_room. */
GM_DEV void gm_ack(const struct gm_core *core, uint64_t ticket)
{
    const uint64_t mask = ((uint64_t)1 << core->tickets_log2) - 1u;
#ifdef __CUDACC__
    gm_store_relaxed_u32(&core->acks[ticket & mask], gm_lap(ticket, core->tickets_log2));
#else
    gm_store_release_u32(&core->acks[ticket & mask], gm_lap(ticket, core->tickets_log2));
#endif
}

#endif
