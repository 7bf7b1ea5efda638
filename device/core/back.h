/* SPDX-License-Identifier: Apache-2.0
 *
 * The back: empties the inbox, so that the front need not wait for a trip to where it lies. Jobs that were answered end
 * here: they are counted, and their entries go back to the front, which takes them when it needs some. Phases that are
 * done it passes on, in order, and the front attends to them at once. It also keeps the floor of the acknowledgements.
 * Whole warp.
 */
#ifndef GM_CORE_BACK_H
#define GM_CORE_BACK_H

#include "inbox.h"
#include "publish.h"
#include "workspace.h"

#define GM_INBOX_TAKE 32u /* messages that are taken in one turn */
#define GM_BACK_MORE 3u   /* further messages of each SIMT lane of a GPU, when all of them have one */

/* Counts a kind of end. One thread. */
GM_DEV void gm_back_count_kind(uint64_t *counter, uint32_t n)
{
    if (n != 0)
        gm_add_relaxed_block_u64(counter, n);
}

/* Counts answered jobs, a message of each SIMT lane that has one. Those that are alike are counted together, and those
 * of all lanes and ops at the same time: one by one they would cost as many turns at a word as there are jobs. Whole
 * warp. */
GM_DEV void gm_back_count(struct gm_disp *d, bool mine, uint64_t word)
{
    struct gm_device_counters *c = &d->counters;
    const uint32_t lane = gm_inbox_lane(word), op = gm_inbox_op(word), kind = gm_inbox_kind(word);
    const bool clients = mine && gm_is_client_lane(lane), done = kind == GM_INBOX_DONE;
    const uint32_t same_lane = gm_match(mine, lane), same_op = gm_match(clients, op << 1 | (done ? 1u : 0u));
    const uint32_t all = gm_count_ones(gm_ballot(mine)), dones = gm_count_ones(gm_ballot(clients && done));
    const uint32_t failed = gm_count_ones(gm_ballot(clients && kind == GM_INBOX_FAILED));
    const uint32_t cancelled = gm_count_ones(gm_ballot(clients && kind == GM_INBOX_CANCELLED));
    if (mine && gm_lowest_one(same_lane) == gm_lane_id())
        gm_add_relaxed_block_u64(&d->lane[lane].completed, gm_count_ones(same_lane));
    if (clients && gm_lowest_one(same_op) == gm_lane_id())
        gm_add_relaxed_block_u64(done ? &c->op_done[op] : &c->op_failed[op], gm_count_ones(same_op));
    if (gm_lane_id() == 0) {
        gm_add_relaxed_block_u64(&c->completed, all);
        gm_add_relaxed_block_u64(&c->entries, UINT64_C(0) - all);
        gm_back_count_kind(&c->lane_done, dones);
        gm_back_count_kind(&c->lane_failed, failed);
        gm_back_count_kind(&c->lane_cancelled, cancelled);
    }
}

/* Entries of jobs that have ended go back to the wings that they are of; owner: as gm_entry_owner says. Not before they
 * were counted: a lane is closed when nothing of it is in flight. Whole warp. */
GM_DEV void gm_back_wings(const struct gm_core *core, struct gm_disp *d, uint32_t owner, uint64_t word)
{
    for (uint32_t w = 0; w < core->wings; w++) {
        struct gm_wing *wing = &d->wing[w];
        const bool mine = owner == w + 1u;
        const uint32_t count = gm_count_ones(gm_ballot(mine));
        if (count == 0)
            continue;
        const uint32_t rank = gm_scan_exclusive(mine ? 1u : 0u);
        if (mine)
            wing->free[(wing->freed + rank) % GM_WING_ENTRIES_MAX] = (uint16_t)gm_inbox_entry(word);
        gm_syncwarp();
        if (gm_lane_id() == 0) /* Release: pairs with the acquires in gm_wing_fits and gm_wings_notes. */
            gm_store_release_block_u32(&wing->freed, wing->freed + count);
        gm_syncwarp();
    }
}

/* What the first count SIMT lanes have of the messages at the head of the inbox. Whole warp. */
GM_DEV void gm_back_take(const struct gm_core *core, struct gm_disp *d, uint64_t word, uint32_t count)
{
    struct gm_crew *crew = &d->crew;
    const bool mine = gm_lane_id() < count, passes = mine && gm_inbox_kind(word) == GM_INBOX_NEXT;
    const bool ends = mine && !passes;
    const uint32_t owner = ends ? gm_entry_owner(core, gm_inbox_entry(word)) : 0;
    const bool fronts = ends && owner == 0;
    const uint32_t ends_rank = gm_scan_exclusive(fronts ? 1u : 0u), passes_rank = gm_scan_exclusive(passes ? 1u : 0u);
    const uint32_t freed = gm_count_ones(gm_ballot(fronts)), passed = gm_count_ones(gm_ballot(passes));
    gm_back_count(d, ends, word);
    gm_back_wings(core, d, owner, word);
    if (fronts)
        crew->back[(crew->freed + ends_rank) % GM_ENTRIES_MAX] = (uint16_t)gm_inbox_entry(word);
    if (passes)
        crew->message[(crew->messages + passes_rank) % GM_ENTRIES_MAX] = (uint32_t)word;
    gm_syncwarp();
    if (gm_lane_id() == 0) {
        gm_store_relaxed_block_u64(&d->inbox_head, d->inbox_head + count);
        gm_store_release_block_u32(&crew->freed, crew->freed + freed);
        gm_store_release_block_u32(&crew->messages, crew->messages + passed);
        if (passed != 0)
            gm_or_release_block_u32(&crew->attention, GM_ATTEND_MESSAGES);
    }
    gm_syncwarp();
}

/* One look at the inbox: a message for each SIMT lane, and when all have one GM_BACK_MORE times as many, all on their
 * way at once. Whether there was any. */
GM_DEV bool gm_back_inbox(const struct gm_core *core, struct gm_disp *d)
{
    const uint64_t head = d->inbox_head + gm_lane_id(), word = gm_inbox_load(core, head);
    const uint32_t count = gm_lowest_zero(gm_ballot(gm_inbox_valid(core, head, word)));
    if (count == 0)
        return false;
#if GM_WARP > 1u
    if (count == GM_WARP) {
        uint64_t more[GM_BACK_MORE];
        GM_UNROLL
        for (uint32_t r = 0; r < GM_BACK_MORE; r++)
            more[r] = gm_inbox_peek(core, head + (r + 1u) * GM_WARP);
        gm_fence_acq_rel_gpu();
        gm_back_take(core, d, word, count);
        bool all = true;
        GM_UNROLL
        for (uint32_t r = 0; r < GM_BACK_MORE; r++) {
            const uint64_t at = head + (r + 1u) * GM_WARP;
            const uint32_t run = gm_lowest_zero(gm_ballot(gm_inbox_valid(core, at, more[r])));
            if (all && run != 0)
                gm_back_take(core, d, more[r], run);
            all = all && run == GM_WARP;
        }
        return true;
    }
#endif
    gm_back_take(core, d, word, count);
    return true;
}

/* The inbox, and the acknowledgements that are missing: all that are there, since nobody else looks while the front
 * waits for room. */
GM_DEV void gm_back_turn(const struct gm_core *core, struct gm_disp *d)
{
    const uint64_t published = gm_agreed_u64(&d->published), floor = d->crew.ack_floor;
    (void)gm_back_inbox(core, d);
    if (published != floor)
        gm_acks_look(core, d, published - floor > GM_ACKS_LOOK ? floor + GM_ACKS_LOOK : published);
}

/* Jobs that have ended give back what they held: one of this SIMT lane's, or GM_LANE_NONE. Whole warp. */
GM_DEV void gm_back_give(const struct gm_core *core, struct gm_disp *d, uint32_t index, uint32_t slot)
{
    const struct gm_note none = {GM_LANE_NONE, 0, 0, 0, 0};
    const bool mine = index != GM_LANE_NONE;
    const struct gm_note note = mine ? d->note[index] : none;
    const uint32_t credits = gm_shfl_u32(gm_scan_exclusive(note.widest) + note.widest, GM_WARP - 1u);
    if (mine) {
        d->free_entry[slot] = (uint16_t)index;
        d->note[index].lane = GM_LANE_NONE;
    }
    for (uint32_t pools = gm_ballot(mine && (note.lane & GM_LANE_POOL)); pools != 0; pools &= pools - 1u) {
        const struct gm_job *job = &gm_entry_at(core, gm_shfl_u32(index, gm_lowest_one(pools)))->job;
        if (gm_lane_id() == 0)
            gm_workspace_give(d, job->workspace - (uint64_t)(uintptr_t)core->workspace, job->workspace_bytes);
    }
    gm_syncwarp();
    if (gm_lane_id() == 0)
        d->credit += credits;
    gm_syncwarp();
}

/* The front takes back what the back has freed. A call, because it can wait until something is short. Whole warp. */
GM_DEV_CALL void gm_back_collect(struct gm_disp *d)
{
    d = gm_disp_here(d);
    const uint32_t freed = gm_agreed_u32(&d->crew.freed), count = freed - d->collected;
    for (uint32_t base = 0; base < count; base += GM_WARP) {
        const uint32_t i = base + gm_lane_id();
        gm_back_give(&d->core, d, i < count ? d->crew.back[(d->collected + i) % GM_ENTRIES_MAX] : GM_LANE_NONE,
                     d->free_entries + i);
    }
    gm_syncwarp();
    if (gm_lane_id() == 0) {
        d->free_entries += count;
        d->collected = freed;
    }
    gm_syncwarp();
}

#endif
