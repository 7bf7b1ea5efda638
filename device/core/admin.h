/* SPDX-License-Identifier: Apache-2.0
 *
 * The admin lane: privileged descriptors from the device process, one a turn, every turn. The front of the dispatcher
 * is the only writer of its tables, so nothing is locked; while it looks at them or changes them no lane is leased, and
 * while lanes come or go the scout looks nowhere. Whole warp; changes are made by its first lane.
 */
#ifndef GM_CORE_ADMIN_H
#define GM_CORE_ADMIN_H

#include "counters.h"
#include "lease.h"

GM_DEV uint32_t gm_admin_word(const struct gm_disp *d, uint32_t word) { return d->side[word / 3u].w[word % 3u]; }
GM_DEV uint64_t gm_admin_word64(const struct gm_disp *d, uint32_t word)
{
    return gm_admin_word(d, word) | (uint64_t)gm_admin_word(d, word + 1u) << 32;
}

GM_DEV int32_t gm_admin_lane_open(struct gm_disp *d)
{
    const uint32_t index = gm_admin_word(d, GM_A_INDEX), log2 = gm_admin_word(d, GM_A_FLAGS);
    if (index >= GM_LANE_TABLE || d->lane[index].header || log2 == 0 || (1u << log2) > GM_LANE_SLOTS_MAX)
        return GM_EINVAL;
    struct gm_lane_row *lane = &d->lane[index];
    uint8_t *base = (uint8_t *)(uintptr_t)gm_admin_word64(d, GM_A_ADDRESS);
    const uint32_t slots = 1u << log2;
    lane->header = (struct gm_lane_header *)base;
    lane->sq = (const struct gm_desc_slot *)(base + gm_lane_sq_offset());
    lane->cq = (struct gm_granule *)(base + gm_lane_cq_offset(slots));
    lane->journal = (uint32_t *)(uintptr_t)gm_admin_word64(d, GM_A_POSITION);
    lane->head = gm_admin_word64(d, GM_A_BYTES);
    lane->completed = lane->noted = lane->taken = gm_admin_word64(d, GM_A_COUNT);
    lane->refused_run = lane->strikes = lane->shut = 0;
    lane->slots_log2 = log2;
    lane->session = gm_admin_word(d, GM_A_SESSION);
    lane->width = slots < GM_POLL_NARROW ? slots : GM_POLL_NARROW;
    lane->wake_sent = UINT64_MAX;
    gm_store_relaxed_sys_u32(&lane->header->asleep, 0); /* a dispatcher before this one may have died asleep */
    if (d->lane_top <= index)
        d->lane_top = index + 1u;
    d->counters.lanes += gm_is_client_lane(index) ? 1u : 0u;
    return GM_OK;
}

/* used: a job of it is in flight. */
GM_DEV int32_t gm_admin_lane_close(struct gm_disp *d, bool used)
{
    const uint32_t index = gm_admin_word(d, GM_A_INDEX);
    if (index >= GM_LANE_TABLE || !d->lane[index].header)
        return GM_EINVAL;
    gm_lane_shut(d, index);
    if (used)
        return GM_EBUSY; /* its completion slots are still to be written */
    d->lane[index].header = NULL;
    if (d->hot == index + 1u)
        d->hot = 0;
    d->wake_lanes[index / 32u] &= ~(1u << (index & 31u));
    gm_cancel_forget(d, index, d->lane[index].head + (UINT64_C(1) << d->lane[index].slots_log2));
    d->counters.lanes -= gm_is_client_lane(index) ? 1u : 0u;
    while (d->lane_top > 0 && !d->lane[d->lane_top - 1u].header)
        d->lane_top--;
    return GM_OK;
}

GM_DEV int32_t gm_admin_arena_set(struct gm_disp *d)
{
    const uint32_t handle = gm_admin_word(d, GM_A_INDEX), index = gm_handle_index(handle);
    if (index >= GM_ARENAS_MAX || gm_handle_generation(handle) == 0 || d->arena[index].generation != 0)
        return GM_EINVAL;
    struct gm_arena_row *row = &d->arena[index];
    row->address = gm_admin_word64(d, GM_A_ADDRESS);
    row->bytes = gm_admin_word64(d, GM_A_BYTES);
    row->session = gm_admin_word(d, GM_A_SESSION);
    row->flags = (uint16_t)gm_admin_word(d, GM_A_FLAGS);
    row->generation = (uint16_t)gm_handle_generation(handle);
    return GM_OK;
}

/* Whether a job in flight has a buffer in the memory that goes with the arena of the descriptor: none with an alias,
 * whose memory is another arena's. Whole warp. */
GM_DEV bool gm_admin_arena_used(const struct gm_core *core, const struct gm_disp *d)
{
    const uint32_t index = gm_handle_index(gm_admin_word(d, GM_A_INDEX));
    const bool has = index < GM_ARENAS_MAX && !(d->arena[index].flags & (GM_ARENA_GONE | GM_ARENA_ALIAS));
    const uint64_t from = has ? d->arena[index].address : 0, bytes = has ? d->arena[index].bytes : 0;
    bool used = false;
    for (uint32_t i = gm_lane_id(); i < core->entries_count; i += GM_WARP)
        for (uint32_t k = 0; d->note[i].lane != GM_LANE_NONE && k < GM_BUFFERS_MAX; k++)
            used = used || gm_load_relaxed_u64(&gm_entry_at(core, i)->job.address[k]) - from < bytes;
    return gm_ballot(used) != 0;
}

/* No new job may use the arena; EBUSY, and to be asked again, while one in flight does. */
GM_DEV int32_t gm_admin_arena_clear(struct gm_disp *d, bool used)
{
    const uint32_t handle = gm_admin_word(d, GM_A_INDEX), index = gm_handle_index(handle);
    if (index >= GM_ARENAS_MAX || gm_handle_generation(handle) == 0 || d->arena[index].generation == 0)
        return GM_EINVAL;
    struct gm_arena_row *row = &d->arena[index];
    if (row->generation != gm_handle_generation(handle))
        return GM_ESTALE;
    if (used) {
        row->flags |= GM_ARENA_CLEARING;
        return GM_EBUSY;
    }
    row->address = row->bytes = 0;
    row->session = 0;
    row->flags = row->generation = 0;
    return GM_OK;
}

/* Whole warp: finds a job in flight by lane and position, or all of the lane, and tells its workers to give up. */
GM_DEV bool gm_admin_abort(const struct gm_core *core, const struct gm_disp *d, uint32_t lane, uint64_t position,
                           bool all)
{
    bool found = false;
    for (uint32_t base = 0; base < core->entries_count; base += GM_WARP) {
        const uint32_t i = base + gm_lane_id();
        if (i < core->entries_count && gm_entry_lane(d->note[i].lane) == lane) {
            struct gm_entry *entry = gm_entry_at(core, i);
            const uint64_t at = gm_load_relaxed_u64(&entry->job.position);
            if (!all && at != position)
                continue;
            found = true;
            if (d->note[i].lane & GM_LANE_INLINE)
                gm_publish_abort(core, d, i, at);
            else
                gm_store_relaxed_u32(&entry->abort, 1);
            gm_copy_abort(core, d, i);
        }
    }
    return gm_ballot(found) != 0;
}

/* One thread. A position that poll has not reached is remembered; the list is bounded. */
GM_DEV int32_t gm_admin_cancel_later(struct gm_disp *d, uint32_t lane, uint64_t position)
{
    if (lane >= GM_LANE_TABLE || !d->lane[lane].header || (int64_t)(position - d->lane[lane].head) < 0)
        return GM_ENOTFOUND;
    if (position - d->lane[lane].head >= UINT64_C(1) << d->lane[lane].slots_log2)
        return GM_ENOTFOUND;
    if (gm_cancel_find(d, lane, position))
        return GM_OK;
    for (uint32_t i = 0; i < GM_CANCELS_MAX; i++) {
        if (!d->cancel[i].live) {
            d->cancel[i].lane = lane;
            d->cancel[i].position = position;
            d->cancel[i].live = 1;
            d->cancels++;
            return GM_OK;
        }
    }
    return GM_EBUSY;
}

/* Handles the complete admin descriptor that landed in d->side. Returns 1, as work done, or 0 for a ping: it comes all
 * the time, and must not keep an idle device from going to sleep. Whole warp. */
GM_DEV_CALL uint32_t gm_admin(struct gm_disp *d)
{
    d = gm_disp_here(d);
    const struct gm_core *core = &d->core;
    const uint32_t op = gm_admin_word(d, GM_A_OP), lane = gm_admin_word(d, GM_A_INDEX);
    const uint64_t position = gm_admin_word64(d, GM_A_POSITION), at = d->admin_head;
    /* Acquire: what the device process prepared before it wrote the descriptor (cleared memory, mapped rings). */
    gm_fence_acq_rel_sys();
    if (op != GM_ADMIN_PING) { /* what is in flight is looked for below */
        gm_wings_recall(d);
        gm_back_collect(d);
        gm_wings_notes(d);
    }
    const bool closes = op == GM_ADMIN_LANE_CLOSE, lanes = closes || op == GM_ADMIN_LANE_OPEN;
    if (lanes)
        gm_scout_hold(d);
    const bool aborted = (op == GM_ADMIN_CANCEL || closes) && gm_admin_abort(core, d, lane, position, closes);
    const bool used = op == GM_ADMIN_ARENA_CLEAR && gm_admin_arena_used(core, d);
    if (closes && !aborted) /* the lane's note too: after a loss what it does not say would be counted once more */
        gm_counters_store(d);
    gm_syncwarp();
    if (gm_lane_id() == 0) {
        int32_t status = GM_OK;
        uint64_t result = 0;
        switch (op) {
        case GM_ADMIN_PING:
            result = d->counters.turns;
            break;
        case GM_ADMIN_LANE_OPEN:
            status = gm_admin_lane_open(d);
            break;
        case GM_ADMIN_LANE_CLOSE:
            status = gm_admin_lane_close(d, aborted);
            break;
        case GM_ADMIN_ARENA_SET:
            status = gm_admin_arena_set(d);
            break;
        case GM_ADMIN_ARENA_CLEAR:
            status = gm_admin_arena_clear(d, used);
            break;
        case GM_ADMIN_CANCEL:
            if (!aborted)
                status = gm_admin_cancel_later(d, lane, position);
            break;
        case GM_ADMIN_STOP:
            d->stopping = 1;
            break;
        default:
            status = GM_EOP;
            break;
        }
        struct gm_granule *slot = &core->admin_cq[at & (GM_ADMIN_SLOTS - 1u)];
        gm_complete_store(slot, gm_lap(at, GM_ADMIN_SLOTS_LOG2), result, status, 0);
        gm_store_release_block_u64(&d->admin_head, at + 1u); /* and the scout may write d->side again */
    }
    if (lanes)
        gm_scout_go(d);
    gm_syncwarp();
    return op == GM_ADMIN_PING ? 0u : 1u;
}

#endif
