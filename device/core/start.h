/* SPDX-License-Identifier: Apache-2.0
 *
 * From a checked descriptor to published tickets. Everything the job will need (entry, ring credit for its widest
 * phase, workspace) is reserved before the first ticket, so a started job can always go on; what cannot be had now
 * is tried again next turn, in order. Whole warp of the dispatcher; at most GM_POLL_MAX jobs a turn.
 */
#ifndef GM_CORE_START_H
#define GM_CORE_START_H

#include "back.h"
#include "check.h"
#include "complete.h"
#include "journal.h"
#include "scout.h"
#include "workspace.h"

/* Was this position cancelled before it was polled? One thread; the list is short and mostly empty. */
GM_DEV bool gm_cancel_find(const struct gm_disp *d, uint32_t lane, uint64_t position)
{
    for (uint32_t i = 0; i < GM_CANCELS_MAX; i++) {
        const struct gm_cancel *c = &d->cancel[i];
        if (c->live && c->lane == lane && c->position == position)
            return true;
    }
    return false;
}
/* Drops what lies before a position that poll has passed. */
GM_DEV void gm_cancel_forget(struct gm_disp *d, uint32_t lane, uint64_t before)
{
    for (uint32_t i = 0; i < GM_CANCELS_MAX; i++) {
        struct gm_cancel *c = &d->cancel[i];
        if (c->live && c->lane == lane && (int64_t)(before - c->position) > 0) {
            c->live = 0;
            d->cancels--;
        }
    }
}

/* Takes an entry for a job: what the dispatcher itself has to know of it. Returns its generation. One SIMT lane per
 * job. */
GM_DEV uint32_t gm_start_take(const struct gm_core *core, struct gm_disp *d, struct gm_job *job, uint32_t index,
                              uint64_t pool_offset, uint32_t widest)
{
    const uint32_t generation = (d->note[index].generation + 1u) & 0xffu;
    uint32_t lane = job->lane;
    job->entry = (uint16_t)index;
    if (job->workspace_bytes > GM_ENTRY_SCRATCH) {
        lane |= GM_LANE_POOL;
        job->marks |= GM_MARK_POOL;
        job->workspace = (uint64_t)(uintptr_t)core->workspace + pool_offset;
    } else {
        job->workspace = (uint64_t)(uintptr_t)(core->scratch + (uint64_t)index * GM_ENTRY_SCRATCH);
    }
    if (gm_slot_fits(job))
        lane |= GM_LANE_INLINE;
    const struct gm_note note = {(uint16_t)lane, (uint16_t)widest, (uint8_t)generation, 0, 0};
    d->note[index] = note;
    return generation;
}

/* Fills the entry of a job whose tickets refer to it; k: the slot of the stage with its descriptor, where the
 * arguments are that did not fit the job. One SIMT lane per job. */
GM_DEV void gm_start_entry(const struct gm_disp *d, struct gm_entry *entry, const struct gm_lane_row *lane,
                           const struct gm_job *job, uint32_t generation, uint32_t k)
{
    uint32_t count2 = 0;
    entry->job = *job;
    if (job->marks & GM_MARK_MORE) {
        const struct gm_words head = gm_poll_words(d, k), none = {{0}};
        const bool wide = (head.w[GM_W_OP] >> 24 & GM_FLAG_WIDE) != 0;
        const struct gm_words second = wide ? gm_poll_words(d, k + 1u) : none;
        const struct gm_args args = gm_check_args(&head, &second);
        count2 = args.count2;
        gm_store_pair_gpu(entry->more, args.value[2], args.value[3]);
    }
    gm_store_pair_gpu(&entry->arrived, 0, job->shares);                       /* arrived, next_tile */
    gm_store_pair_gpu(&entry->abort, 0, generation | (uint64_t)count2 << 32); /* abort, status; generation, count2 */
    if (job->marks & GM_MARK_HOST)
        gm_journal_started(lane, job->position); /* ordered by the system fence of gm_start_publish */
}

/* Clears the workspace where the plan says so, of each job that a SIMT lane holds, by all lanes. At most GM_CLEAR_MOST
 * bytes of one job, and where there are several jobs they lie in entries. Whole warp; gm_start_fence comes behind. */
GM_DEV void gm_start_clear(const struct gm_job *job, bool mine)
{
    const struct gm_granule clear = {{0, 0, 0, 0}};
    for (uint32_t left = gm_ballot(mine && (job->marks & GM_MARK_CLEARED) != 0); left != 0; left &= left - 1u) {
        const uint32_t who = gm_lowest_one(left), bytes = gm_shfl_u32((uint32_t)job->workspace_bytes, who);
        struct gm_granule *to = (struct gm_granule *)(uintptr_t)gm_shfl_u64(job->workspace, who);
        for (uint32_t i = gm_lane_id(); i < bytes / sizeof clear; i += GM_WARP)
            gm_store16_gpu(to + i, clear);
    }
    gm_syncwarp();
}

/* Of a job that lies in its slot, what the dispatcher looks for in entries when lanes or arenas go. Nobody else reads
 * it, so it may be written when the ticket is out. One SIMT lane per job. */
GM_DEV void gm_start_note(struct gm_entry *entry, const struct gm_job *job)
{
    gm_store_pair_gpu(&entry->job.position, job->position, job->address[0]);
    gm_store_pair_gpu(&entry->job.address[1], job->address[1], job->address[2]);
}

/* Between an entry and its tickets. Release: entries before tickets. A job on host memory needs the system scope:
 * acquire, because the host wrote its data before the descriptor; release, because STARTED must be in the journal
 * before the first effect that outlives this process. Jobs without host memory have neither, and the wider fence costs
 * 0.9 us. */
GM_DEV void gm_start_fence(bool host)
{
    if (host)
        gm_fence_acq_rel_sys();
    else
        gm_fence_acq_rel_gpu();
    gm_syncwarp();
}

/* Publishes one phase for every SIMT lane that holds one (shares 0: none), those that refer to an entry behind one
 * fence, into the positions that were reserved from base on. job: lies in its slot; else NULL. Whole warp. */
GM_DEV void gm_start_publish(const struct gm_core *core, struct gm_disp *d, uint64_t base, uint32_t shares,
                             uint32_t index, uint32_t generation, const struct gm_job *job, bool host)
{
    const uint32_t before = gm_scan_exclusive(shares);
    const bool refers = shares != 0 && job == NULL;
    if (job != NULL) {
        gm_publish_job(core, base + before, job, gm_ticket_make(generation, index, GM_SHARE_INLINE));
        d->entry_ticket[index] = (uint32_t)(base + before);
    }
    if (gm_ballot(refers) != 0) {
        gm_start_fence(gm_ballot(host) != 0);
        if (refers && shares == 1)
            gm_publish_reference(core, base + before, gm_ticket_make(generation, index, 0));
    }
    for (uint32_t wide = gm_ballot(shares > 1); wide != 0; wide &= wide - 1u) {
        const uint32_t who = gm_lowest_one(wide);
        gm_publish(core, base + gm_shfl_u32(before, who), gm_shfl_u32(generation, who), gm_shfl_u32(index, who),
                   gm_shfl_u32(shares, who));
    }
    gm_syncwarp();
}

/* What became of one slot of the stage. */
struct gm_verdict {
    int32_t status; /* refused when not OK */
    uint32_t want;  /* ring credit; 0: no job */
    bool answered;  /* this slot gets a completion, now or from its job */
    bool pool;      /* the job needs the workspace pool */
    bool wide;
};

GM_DEV struct gm_verdict gm_start_judge(const struct gm_core *core, const struct gm_disp *d, uint32_t lane_index,
                                        uint32_t k, uint32_t count, struct gm_job *job)
{
    const uint32_t word0 = gm_poll_word(d, k, GM_W_OP);
    const uint32_t before = k > 0 ? gm_poll_word(d, k - 1u, GM_W_OP) : GM_DESC_WIDE_MARK;
    struct gm_verdict v = {GM_OK, 0, true, false, false};
    if ((word0 & 0xffffu) == GM_DESC_SKIP_MARK) {
        v.answered = false;
        return v;
    }
    if ((word0 & 0xffffu) == GM_DESC_WIDE_MARK) {
        /* The second half of the slot before; alone it is answered as what it is. */
        v.answered = (before & 0xffffu) == GM_DESC_WIDE_MARK || !(before >> 24 & GM_FLAG_WIDE);
        v.status = GM_EINVAL;
        return v;
    }
    v.wide = (word0 >> 24 & GM_FLAG_WIDE) && k + 1u < count &&
             (gm_poll_word(d, k + 1u, GM_W_OP) & 0xffffu) == GM_DESC_WIDE_MARK;
    struct gm_plan plan = {0, 0};
    struct gm_words wide = {{0}};
    if (v.wide)
        wide = gm_poll_words(d, k + 1u);
    const uint64_t position = d->lane[lane_index].head + k;
    v.status = gm_check(core, d, lane_index, position, gm_poll_words(d, k), v.wide, wide, job, &plan);
    job->start_ns = d->now_ns;
    if (v.status == GM_OK && d->cancels != 0 && gm_cancel_find(d, lane_index, job->position))
        v.status = GM_ECANCELLED;
    if (v.status == GM_OK) {
        v.want = plan.widest;
        v.pool = job->workspace_bytes > GM_ENTRY_SCRATCH;
    }
    return v;
}

/* The pool is given out first in, first out: while a lane's job waits for it, no other lane's takes from it. */
GM_DEV bool gm_pool_waits(const struct gm_disp *d, uint32_t lane_index)
{
    return d->held_lane != 0 && d->held_pool != 0 && d->held_lane != lane_index + 1u;
}

/* The longest prefix of the chunk whose resources are there now, as a count of slots. A job on the workspace pool
 * starts in a chunk of its own, because its reservation may fail after others took theirs. Whole warp. */
GM_DEV uint32_t gm_start_prefix(const struct gm_disp *d, uint32_t lane_index, uint32_t slots,
                                const struct gm_verdict *v)
{
    const uint32_t lane = gm_lane_id(), one = v->want != 0 ? 1u : 0u;
    const uint32_t credit = gm_scan_exclusive(v->want) + v->want, entries = gm_scan_exclusive(one) + one;
    const uint32_t first_pool = gm_lowest_one(gm_ballot(v->pool && lane < slots));
    const uint32_t wide = gm_ballot(v->wide);
    uint32_t bound = slots;
    if (first_pool < slots && gm_pool_waits(d, lane_index))
        bound = first_pool;
    else if (first_pool < slots)
        bound = first_pool == 0 ? (GM_WARP > 1u && (wide & 1u) ? 2u : 1u) : first_pool;
    const bool fits = lane < bound && credit <= d->credit && entries <= d->free_entries;
    const uint32_t run = gm_lowest_zero(gm_ballot(fits));
    return run < bound ? run : bound;
}

/* What a start did, in one value that passes through calls and adds up: slots consumed, jobs started, descriptors
 * refused, tickets published. At most GM_POLL_MAX of the first three, and a phase of GM_SHARES_MAX shares for each. */
static_assert(GM_POLL_MAX * GM_SHARES_MAX < 65536u, "sixteen bits each");
GM_HD uint64_t gm_tally(uint32_t consumed, uint32_t started, uint32_t refused, uint32_t tickets)
{
    return consumed | (uint64_t)started << 16 | (uint64_t)refused << 32 | (uint64_t)tickets << 48;
}
GM_HD uint32_t gm_tally_consumed(uint64_t tally) { return (uint32_t)tally & 0xffffu; }

/* Nothing more is taken from a lane; what is in flight runs out. One thread. */
GM_DEV void gm_lane_shut(struct gm_disp *d, uint32_t lane_index)
{
    gm_store_relaxed_block_u32(&d->lane[lane_index].shut, 1);
    gm_ready_clear(d, lane_index);
    if (d->held_lane == lane_index + 1u)
        gm_store_relaxed_block_u32(&d->held_lane, 0);
}

/* A client that sends nothing but what is refused costs the others time; after so many in a row nobody listens. */
GM_DEV void gm_start_abuse(struct gm_disp *d, uint32_t lane_index, uint32_t started, uint32_t refused)
{
    struct gm_lane_row *lane = &d->lane[lane_index];
    const uint32_t cancelled = d->refused_cancelled, rejected = refused - cancelled;
    d->counters.lane_submitted += started + refused;
    d->counters.lane_rejected += rejected;
    if (cancelled != 0) /* the back counts those that it finds here, too */
        gm_add_relaxed_block_u64(&d->counters.lane_cancelled, cancelled);
    lane->refused_run = started != 0 ? 0 : lane->refused_run + rejected;
    if (lane->refused_run < GM_LANE_ABUSE_MAX || lane->shut != 0)
        return;
    gm_lane_shut(d, lane_index);
    d->counters.lanes_abused++;
    gm_store_relaxed_sys_u32((uint32_t *)&d->core.lane_notes[lane_index].closed, d->refused_status);
}

/* Jobs in flight, now and at most. The back takes off those that end, some before they were counted here. One
 * thread. */
GM_DEV void gm_start_entries(struct gm_disp *d, uint32_t started)
{
    gm_add_relaxed_block_u64(&d->counters.entries, started);
    const uint64_t entries = gm_load_relaxed_block_u64(&d->counters.entries);
    if ((int64_t)(entries - d->counters.entries_high) > 0)
        d->counters.entries_high = entries;
}

/* The counters of a start. One thread. */
GM_DEV void gm_start_count(struct gm_disp *d, uint32_t lane_index, uint64_t tally)
{
    struct gm_lane_row *lane = &d->lane[lane_index];
    const uint32_t started = (uint32_t)tally >> 16, refused = (uint32_t)(tally >> 32) & 0xffffu;
    if (gm_is_client_lane(lane_index))
        gm_start_abuse(d, lane_index, started, refused);
    d->counters.started += started;
    d->counters.refused += refused;
    d->counters.polled += started + refused;
    d->counters.phases += started;
    d->counters.tickets += tally >> 48;
    gm_start_entries(d, started);
    gm_add_relaxed_block_u64(&lane->completed, refused);
    lane->taken += started + refused;
}

/* The quick way only adds up how many there were, and so do the wings. One thread. */
GM_DEV void gm_quick_count(struct gm_disp *d)
{
    for (uint32_t i = 0; i < d->core.wings * 2u; i++) {
        struct gm_wing *wing = &d->wing[i / 2u];
        const uint32_t quick = gm_load_relaxed_block_u32(&wing->quick[i & 1u]);
        d->quick[i & 1u] += quick - wing->counted[i & 1u];
        wing->counted[i & 1u] = quick;
    }
    const uint32_t started = d->quick[0] + d->quick[1];
    d->counters.started += started;
    d->counters.polled += started;
    d->counters.phases += started;
    d->counters.tickets += started;
    d->counters.lane_submitted += d->quick[0];
    gm_start_entries(d, started);
    d->quick[0] = d->quick[1] = 0;
}

/* The job at the head of a lane cannot have what it needs now. Whole warp. */
GM_DEV void gm_start_held(struct gm_disp *d, uint32_t lane_index, bool pool)
{
    gm_syncwarp();
    if (gm_lane_id() == 0) {
        d->counters.held++;
        d->waited = 1;
        if (d->held_lane == 0 || d->held_lane == lane_index + 1u) {
            gm_store_relaxed_block_u32(&d->held_lane, lane_index + 1u);
            d->held_pool = pool;
        }
    }
    gm_syncwarp();
}

/* What a start needs beside entries and credit: pool bytes for the first SIMT lane's job, if it wants any, and then
 * positions for its tickets, which nobody could give back. False: the job is held, and has nothing. Whole warp. */
GM_DEV bool gm_start_reserve(struct gm_disp *d, uint32_t lane_index, uint64_t bytes, uint32_t tickets,
                             uint64_t *pool_offset, uint64_t *position)
{
    const bool pool = bytes != 0 && gm_lane_id() == 0;
    *pool_offset = *position = 0;
    const bool full = pool && !gm_workspace_take(d, bytes, pool_offset);
    if (gm_ballot(full) != 0) {
        gm_start_held(d, lane_index, true);
        return false;
    }
    gm_syncwarp();
    if (tickets == 0 || gm_reserve(&d->core, d, tickets, position))
        return true;
    if (pool)
        gm_workspace_give(d, *pool_offset, bytes);
    gm_start_held(d, lane_index, false);
    return false;
}

/* Chunk of up to GM_WARP slots of the stage, from slot base on. Whole warp. */
GM_DEV_CALL uint64_t gm_start_chunk(struct gm_disp *d, uint32_t lane_index, uint32_t base, uint32_t count)
{
    d = gm_disp_here(d);
    const struct gm_core *core = &d->core;
    struct gm_lane_row *lane = &d->lane[lane_index];
    const uint32_t k = base + gm_lane_id(), slots = count - base < GM_WARP ? count - base : GM_WARP;
    struct gm_job job;
    struct gm_verdict v = {GM_OK, 0, false, false, false};
    if (k < count)
        v = gm_start_judge(core, d, lane_index, k, count, &job);
    const uint32_t taken = gm_start_prefix(d, lane_index, slots, &v);
    if (taken == 0) {
        gm_start_held(d, lane_index, false);
        return 0;
    }
    const bool mine = gm_lane_id() < taken, start = mine && v.want != 0;
    const bool large = start && gm_copy_large(core, &job);
    const uint32_t larges = gm_ballot(large);
    const bool engine = larges != 0 && gm_copies_room(d, large);
    const uint32_t engines = larges != 0 ? gm_ballot(engine) : 0;
    if (engine)
        v.want = 0; /* no ticket, no credit */
    const bool refuse = mine && v.answered && v.status != GM_OK;
    const uint32_t rank = gm_scan_exclusive(start ? 1u : 0u), want = start ? v.want : 0u;
    const uint32_t used = gm_shfl_u32(gm_scan_exclusive(want) + want, GM_WARP - 1u);
    uint32_t index = 0, generation = 0;
    uint64_t pool_offset, position;
    if (!gm_start_reserve(d, lane_index, v.pool ? job.workspace_bytes : 0, used, &pool_offset, &position))
        return 0;
    const uint32_t refusals = gm_ballot(refuse);
    if (refuse)
        gm_complete_refused(lane, lane->head + k, v.status);
    if (refuse && gm_lowest_one(refusals) == gm_lane_id())
        d->refused_status = (uint32_t)v.status;
    const uint32_t cancelled = gm_count_ones(gm_ballot(refuse && v.status == GM_ECANCELLED));
    bool in_slot = false;
    if (start) {
        index = d->free_entry[d->free_entries - 1u - rank];
        generation = gm_start_take(core, d, &job, index, pool_offset, v.want);
        in_slot = gm_slot_fits(&job);
        if (in_slot)
            gm_start_note(gm_entry_at(core, index), &job);
        else
            gm_start_entry(d, gm_entry_at(core, index), lane, &job, generation, k);
    }
    gm_start_clear(&job, start);
    const uint32_t starts = gm_ballot(start), started = gm_count_ones(starts);
    const uint32_t refused = gm_count_ones(refusals);
    if (starts != 0)
        gm_start_publish(core, d, position, want, index, generation, in_slot ? &job : NULL,
                         start && (job.marks & GM_MARK_HOST));
    if (engines != 0)
        gm_copies_put(d, engine, index, k);
    /* Nothing of a job without host memory outlives this process but its completion, so its mark need not come before
     * its tickets; the fence would wait for it. */
    if (start && !(job.marks & GM_MARK_HOST))
        gm_journal_started(lane, job.position);
    gm_syncwarp();
    if (gm_lane_id() == 0) {
        d->free_entries -= started;
        d->credit -= used;
        d->refused_cancelled += cancelled;
        d->counters.engine_full += gm_count_ones(larges & ~engines);
    }
    gm_syncwarp();
    return gm_tally(taken, started, refused, used);
}

/* The only job of the stage, in so many slots, when latency counts: every SIMT lane works out the same, so that nothing
 * has to be summed or voted over the warp; the first one stores. The tally counts one slot, and the other is the
 * caller's to add: on a GPU every value that is kept for so long costs. Whole warp. */
GM_DEV_CALL uint64_t gm_start_single(struct gm_disp *d, uint32_t lane_index, uint32_t slots)
{
    d = gm_disp_here(d);
    const struct gm_core *core = &d->core;
    struct gm_lane_row *lane = &d->lane[lane_index];
    const bool first = gm_lane_id() == 0;
    struct gm_job job;
    struct gm_verdict v = gm_start_judge(core, d, lane_index, 0, slots, &job);
    uint64_t pool_offset, base;
    if (v.want == 0) {
        if (first && v.answered) {
            gm_complete_refused(lane, lane->head, v.status);
            d->refused_status = (uint32_t)v.status;
            d->refused_cancelled = v.status == GM_ECANCELLED;
        }
        return gm_tally(1, 0, v.answered ? 1u : 0u, 0);
    }
    const bool large = gm_copy_large(core, &job);
    const bool engine = large && (gm_ballot(gm_copies_room(d, first)) & 1u) != 0;
    if (engine)
        v.want = 0; /* no ticket, no credit */
    const bool behind = v.pool && gm_pool_waits(d, lane_index);
    if (behind || v.want > d->credit || d->free_entries == 0) {
        gm_start_held(d, lane_index, false);
        return 0;
    }
    if (!gm_start_reserve(d, lane_index, v.pool ? job.workspace_bytes : 0, v.want, &pool_offset, &base))
        return 0;
    const uint32_t index = d->free_entry[d->free_entries - 1u], generation = (d->note[index].generation + 1u) & 0xffu;
    gm_syncwarp();
    if (gm_slot_fits(&job)) {
        job.entry = (uint16_t)index;
        if (first) {
            gm_publish_job(core, base, &job, gm_ticket_make(generation, index, GM_SHARE_INLINE));
            d->entry_ticket[index] = (uint32_t)base;
            (void)gm_start_take(core, d, &job, index, pool_offset, v.want);
            gm_start_note(gm_entry_at(core, index), &job);
        }
    } else {
        if (first) {
            (void)gm_start_take(core, d, &job, index, pool_offset, v.want);
            gm_start_entry(d, gm_entry_at(core, index), lane, &job, generation, 0);
        }
        if (engine) {
            gm_copies_put(d, first, index, 0);
        } else {
            gm_start_clear(&job, first);
            gm_start_fence((job.marks & GM_MARK_HOST) != 0);
            gm_publish(core, base, generation, index, job.shares);
        }
        gm_syncwarp();
    }
    if (first) {
        d->free_entries--;
        d->credit -= v.want;
        d->counters.engine_full += large && !engine;
        if (!(job.marks & GM_MARK_HOST)) /* as in gm_start_chunk */
            gm_journal_started(lane, job.position);
    }
    return gm_tally(1, 1, 0, v.want);
}

/* What gm_start_quick is to start: count descriptors at a position of a lane, of which each SIMT lane has the words of
 * its own, or all have those of the only one. */
struct gm_quick {
    struct gm_words words;
    uint64_t head;
    uint32_t lane, count;
};

/* Which of the descriptors is this SIMT lane's; from count on it has none. */
GM_DEV uint32_t gm_quick_rank(const struct gm_quick *q) { return q->count > 1u ? gm_lane_id() : 0u; }

/* Whether a descriptor may be of a job that fits its slot, by its size alone: others are not checked twice. */
GM_DEV bool gm_quick_may(const struct gm_disp *d, const struct gm_words *words)
{
    const uint32_t word0 = words->w[GM_W_OP], op = word0 & 0xffffu;
    if (op >= GM_OP_COUNT || (word0 >> 24 & GM_FLAG_WIDE) != 0)
        return false;
    const struct gm_op_row *row = &d->op_row[op];
    return row->work == GM_WORK_ONE ||
           gm_desc_get64(words->w, GM_W_N) * gm_dtype_bytes(word0 >> 16 & 0xffu) <= row->tile_bytes;
}

/* Whether all of them are jobs that fit their tickets' slots. Whole warp. */
GM_DEV bool gm_quick_check(const struct gm_core *core, const struct gm_disp *d, const struct gm_quick *q,
                           struct gm_job *job)
{
    const struct gm_words none = {{0}};
    const uint32_t rank = gm_quick_rank(q);
    struct gm_plan plan = {0, 0};
    bool good = gm_quick_may(d, &q->words);
    good = good && gm_check(core, d, q->lane, q->head + rank, q->words, false, none, job, &plan) == GM_OK;
    return gm_ballot(rank < q->count && !(good && gm_slot_fits(job))) == 0;
}

/* Puts them into the slots of their tickets, from base on; index: the entry of this SIMT lane's. Whole warp. */
GM_DEV void gm_quick_put(const struct gm_core *core, struct gm_disp *d, const struct gm_quick *q, struct gm_job *job,
                         uint64_t base, uint32_t index)
{
    const uint32_t rank = gm_quick_rank(q), generation = (d->note[index].generation + 1u) & 0xffu;
    const struct gm_note note = {(uint16_t)(job->lane | GM_LANE_INLINE), 1, (uint8_t)generation, 0, 0};
    const bool mine = rank < q->count;
    job->entry = (uint16_t)index;
    if (mine && rank == gm_lane_id()) {
        gm_publish_job(core, base + rank, job, gm_ticket_make(generation, index, GM_SHARE_INLINE));
        gm_start_note(gm_entry_at(core, index), job);
        gm_journal_started(&d->lane[q->lane], job->position);
    }
    gm_syncwarp();
    if (mine) {
        d->note[index] = note;
        d->entry_ticket[index] = (uint32_t)base + rank;
    }
}

/* Descriptors whose jobs all fit their tickets' slots, when nothing else is to be thought of: the way that decides
 * round trips and rates, so it is short. What all SIMT lanes work out alike, all write to the same place: that costs
 * less than one of them alone, and what is changed was read by all before. False: nothing was done, and gm_start says
 * what is to be done. Whole warp. */
GM_DEV bool gm_start_quick(const struct gm_core *core, struct gm_disp *d, const struct gm_quick *q)
{
    const uint32_t count = q->count, rank = gm_quick_rank(q);
    const bool alone = d->leased == 0; /* nobody else publishes, so nothing has to be swapped */
    struct gm_job job = {0}; /* for compilers that do not see that it is used only when gm_check has filled it */
    uint64_t base = gm_load_relaxed_block_u64(&d->published);
    if (d->free_entries < count || d->credit < count || (d->cancels | d->held_lane) != 0 ||
        (alone && !gm_room_there(core, d, base, count)))
        return false;
    if (!gm_quick_check(core, d, q, &job) || (!alone && !gm_reserve_as(core, d, count, &base, false)))
        return false;
    struct gm_lane_row *lane = &d->lane[q->lane];
    const uint32_t entries = d->free_entries, credit = d->credit, kind = gm_is_client_lane(q->lane) ? 0u : 1u;
    const uint32_t quick = d->quick[kind];
    const uint64_t taken = lane->taken, now = gm_now_ns();
    job.start_ns = now;
    gm_quick_put(core, d, q, &job, base, d->free_entry[entries - 1u - (rank < count ? rank : 0u)]);
    if (alone)
        gm_store_relaxed_block_u64(&d->published, base + count);
    gm_store_relaxed_block_u64(&lane->head, q->head + count);
    gm_store_relaxed_block_u32(&lane->strikes, 0);
    lane->taken = taken + count;
    lane->refused_run = 0;
    d->quick[kind] = quick + count;
    d->free_entries = entries - count;
    d->credit = credit - count;
    d->now_ns = d->last_work_ns = now;
    d->work = count;
    gm_syncwarp();
    return true;
}

/* Whether one job is all that there is: in one slot, or a descriptor and its second half. */
GM_DEV bool gm_start_is_single(const struct gm_disp *d, uint32_t count)
{
    const uint32_t word0 = gm_poll_word(d, 0, GM_W_OP);
    return count == 1u || (count == 2u && (word0 & 0xffffu) < GM_OP_COUNT && (word0 >> 24 & GM_FLAG_WIDE) != 0 &&
                           (gm_poll_word(d, 1u, GM_W_OP) & 0xffffu) == GM_DESC_WIDE_MARK);
}

/* Everything complete at the head of a lane. Returns the tally; d->held_lane says whether the next job waits. */
GM_DEV uint64_t gm_start(struct gm_disp *d, uint32_t lane_index, uint32_t count)
{
    struct gm_lane_row *lane = &d->lane[lane_index];
    uint64_t tally = 0;
    /* Never split a wide descriptor whose second half is not there yet. */
    if (d->free_entries < count || d->credit < count)
        gm_back_collect(d);
    const uint32_t last = gm_poll_word(d, count - 1u, GM_W_OP);
    if ((last & 0xffffu) != GM_DESC_WIDE_MARK && (last >> 24 & GM_FLAG_WIDE))
        count--;
    const bool single = gm_start_is_single(d, count);
    bool held = false;
    while (gm_tally_consumed(tally) < count && !held) {
        const uint32_t base = gm_tally_consumed(tally), slots = count - base < GM_WARP ? count - base : GM_WARP;
        uint64_t done = single ? gm_start_single(d, lane_index, count) : gm_start_chunk(d, lane_index, base, count);
        if (single && done != 0)
            done += gm_tally(count - 1u, 0, 0, 0);
        held = gm_tally_consumed(done) < slots;
        tally += done;
        if (held && gm_agreed_u32(&d->crew.freed) != d->collected) { /* once more, with what others have given back */
            gm_back_collect(d);
            held = false;
        }
    }
    const uint32_t consumed = gm_tally_consumed(tally);
    gm_syncwarp();
    if (gm_lane_id() == 0) {
        if (consumed != 0 && d->held_lane == lane_index + 1u)
            gm_store_relaxed_block_u32(&d->held_lane, 0); /* one held behind others asks again when it is first */
        gm_store_relaxed_block_u64(&lane->head, lane->head + consumed);
        if (d->cancels != 0 && consumed != 0)
            gm_cancel_forget(d, lane_index, lane->head);
    }
    gm_syncwarp();
    return tally;
}

#endif
