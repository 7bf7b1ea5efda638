/* SPDX-License-Identifier: Apache-2.0
 *
 * The first image of the scheduler's state, made by the host in its own memory; the CUDA backend copies it to the
 * device. Tests choose small rings and counters near their wrap through the same struct that the product uses.
 */
#ifndef GM_CORE_INIT_H
#define GM_CORE_INIT_H

#include <string.h>

#include "core.h"
#include "workspace.h"

struct gm_core_shape {
    uint32_t tickets_log2, entries_log2, workers, host_shares;
    uint64_t ticket_start, inbox_start; /* multiples of the ring sizes whose lap is not 0 */
    uint64_t idle_ns, workspace_bytes;
    uint32_t wings; /* wanted; none when the rings are too small for their parts */
    uint32_t park_in_flight, looks_back;
    uint32_t copy_start; /* turns of the places of copies so far */
    uint64_t copy_bytes; /* 0: no copy is the engine's */
};

#define GM_TICKETS_LOG2 13u
#define GM_ENTRIES_LOG2 11u
static_assert(1u << GM_TICKETS_LOG2 == GM_TICKETS && 1u << GM_ENTRIES_LOG2 == GM_ENTRIES_MAX, "logs of limits.h");

/* Every granule of a ring of tickets carries the lap before the first: no ticket is there, and where only references
 * are written, what lies behind them is of no lap to come. */
static inline void gm_slots_init(struct gm_slot *slots, const struct gm_core_shape *shape)
{
    const struct gm_granule empty = {{0, 0, 0, gm_lap(shape->ticket_start, shape->tickets_log2) - 1u}};
    for (uint32_t i = 0; i < 1u << shape->tickets_log2; i++)
        for (uint32_t g = 0; g < GM_SLOT_GRANULES; g++)
            slots[i].g[g] = empty;
}

/* The wings' entries, all free. Their counts begin where the inbox does, so near their wrap when it is. */
static inline void gm_wings_init(const struct gm_core *core, struct gm_disp *d, uint64_t inbox_start)
{
    const uint32_t part = gm_wing_entries(core);
    for (uint32_t w = 0; w < core->wings; w++) {
        struct gm_wing *wing = &d->wing[w];
        wing->taken = (uint32_t)inbox_start;
        wing->freed = wing->freed_seen = wing->taken + part;
        for (uint32_t i = 0; i < part; i++)
            wing->free[(wing->taken + i) % GM_WING_ENTRIES_MAX] = (uint16_t)gm_wing_entry(core, w, i);
    }
}

/* Fills the scalars of core, the counters and the dispatcher's first state; the pointers are the caller's to set. Fails
 * with ESIZE when the rings cannot hold what the rules need: a stop ticket for each worker beside the widest
 * phase, which has a share for each worker. */
static inline int gm_core_init(struct gm_core *core, struct gm_counters *counters, struct gm_disp *d,
                               const struct gm_core_shape *shape)
{
    const uint32_t tickets = 1u << shape->tickets_log2, entries = 1u << shape->entries_log2;
    if (shape->workers == 0 || shape->workers > GM_SHARES_MAX || tickets > GM_TICKETS || entries > GM_ENTRIES_MAX ||
        tickets < 2u * shape->workers || shape->wings > GM_WINGS_MAX)
        return GM_ESIZE;
    if (shape->ticket_start % tickets != 0 || shape->inbox_start % entries != 0 ||
        gm_lap(shape->ticket_start, shape->tickets_log2) == 0 || gm_lap(shape->inbox_start, shape->entries_log2) == 0)
        return GM_EINVAL;
    memset(core, 0, sizeof *core);
    memset(counters, 0, sizeof *counters);
    memset(d, 0, sizeof *d);
    counters->ticket = shape->ticket_start;
    counters->inbox_tail = shape->inbox_start;
    core->tickets_log2 = shape->tickets_log2;
    core->entries_log2 = shape->entries_log2;
    core->entries_count = entries;
    core->workers = shape->workers;
    core->host_shares = shape->host_shares;
    core->idle_ns = shape->idle_ns;
    core->workspace_bytes = shape->workspace_bytes / GM_WORKSPACE_ALIGN * GM_WORKSPACE_ALIGN; /* the pool's units */
    core->park_in_flight = shape->park_in_flight;
    core->looks_back = shape->looks_back;
    core->copy_bytes = shape->copy_bytes != 0 ? shape->copy_bytes : UINT64_MAX;
    d->published = d->crew.ack_floor = shape->ticket_start;
    d->inbox_head = shape->inbox_start;
    const uint32_t parts = shape->wings * gm_wing_entries(core);
    if (gm_wing_entries(core) >= GM_POLL_MAX && tickets >= 2u * shape->workers + parts)
        core->wings = shape->wings;
    gm_wings_init(core, d, shape->inbox_start);
    d->free_entries = gm_front_entries(core);
    d->credit = tickets - shape->workers - (entries - d->free_entries);
    for (uint32_t i = 0; i < d->free_entries; i++)
        d->free_entry[i] = (uint16_t)(d->free_entries - 1u - i);
    for (uint32_t i = 0; i < GM_ENTRIES_MAX; i++)
        d->note[i].lane = GM_LANE_NONE;
    for (uint32_t i = 0; i < GM_COPIES_MAX; i++)
        d->copy_turn[i] = shape->copy_start;
    for (uint32_t op = 0; op < GM_OP_COUNT; op++)
        d->op_row[op] = gm_op_row(op);
    gm_workspace_init(d, shape->workspace_bytes);
    return GM_OK;
}

#endif
