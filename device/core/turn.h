/* SPDX-License-Identifier: Apache-2.0
 *
 * One turn of the dispatcher: look everywhere once, do a bounded amount of work, wait for nothing. Every step is try
 * or skip, so the admin lane is served whatever the lanes hold. Whole warp.
 */
#ifndef GM_CORE_TURN_H
#define GM_CORE_TURN_H

#include "admin.h"
#include "policy.h"

enum gm_turn_result {
    GM_TURN_WORKED,
    GM_TURN_EMPTY, /* nothing was there, or nothing could be done now */
    GM_TURN_PARK,  /* nothing for idle_ns; every lane says asleep and was looked at once more */
    GM_TURN_STOP   /* stop tickets are out; the caller leaves after its workers */
};

/* Counts the answered jobs of clients' lanes. counts: this SIMT lane has one. Added up over the warp first: adding one
 * by one to the same word would take as many turns as there are jobs. Whole warp. */
GM_DEV void gm_inbox_count(struct gm_disp *d, bool counts, uint32_t op, uint32_t kind)
{
    struct gm_device_counters *c = &d->counters;
    const bool done = kind == GM_INBOX_DONE;
    const uint32_t all = gm_ballot(counts), dones = gm_ballot(counts && done);
    const uint32_t failed = gm_ballot(counts && kind == GM_INBOX_FAILED);
    if (all == 0)
        return;
    const uint32_t same = gm_match(counts ? (done ? op : op | 0x10000u) : ~UINT32_C(0));
    if (counts && gm_lowest_one(same) == gm_lane_id())
        *(done ? &c->op_done[op] : &c->op_failed[op]) += gm_count_ones(same);
    if (gm_lane_id() == 0) {
        c->lane_done += gm_count_ones(dones);
        c->lane_failed += gm_count_ones(failed);
        c->lane_cancelled += gm_count_ones(all & ~(dones | failed));
    }
}

/* Finished jobs give back what they held. mine: this SIMT lane has one. Whole warp. */
GM_DEV void gm_inbox_done(const struct gm_core *core, struct gm_disp *d, bool mine, uint32_t entry_index,
                          uint32_t kind)
{
    const uint32_t dones = gm_ballot(mine), rank = gm_scan_exclusive(mine ? 1u : 0u);
    const uint32_t credit = mine ? d->entry_widest[entry_index] : 0u;
    const uint32_t credits = gm_shfl_u32(gm_scan_exclusive(credit) + credit, GM_WARP - 1u);
    const uint32_t held = mine ? d->entry_lane[entry_index] : GM_LANE_NONE, lane = gm_entry_lane(held);
    const uint32_t op = mine ? d->entry_op[entry_index] : 0u, same = gm_match(lane);
    const bool pool = mine && (held & GM_LANE_POOL) != 0;
    if (mine) {
        d->free_entry[d->free_entries + rank] = (uint16_t)entry_index;
        d->entry_lane[entry_index] = GM_LANE_NONE;
        if (gm_lowest_one(same) == gm_lane_id())
            d->lane[lane].completed += gm_count_ones(same);
    }
    gm_inbox_count(d, mine && gm_is_client_lane(lane), op, kind);
    for (uint32_t pools = gm_ballot(pool); pools != 0; pools &= pools - 1u) {
        const struct gm_job *job = &gm_entry_at(core, gm_shfl_u32(entry_index, gm_lowest_one(pools)))->job;
        if (gm_lane_id() == 0)
            gm_workspace_give(d, job->workspace - (uint64_t)(uintptr_t)core->workspace, job->workspace_bytes);
    }
    gm_syncwarp();
    if (gm_lane_id() == 0) {
        d->free_entries += gm_count_ones(dones);
        d->credit += credits;
        d->counters.completed += gm_count_ones(dones);
        d->counters.entries -= gm_count_ones(dones);
    }
    gm_syncwarp();
}

/* Messages of a turn: phases that are done get their next one published, jobs that are done give everything back. A
 * phase that finds no room stops it until the next turn. Returns how many were taken; the caller moves the inbox's
 * head. Whole warp. */
GM_DEV_CALL uint32_t gm_inbox_take(const struct gm_core *core, struct gm_disp *d, uint64_t head,
                                   struct gm_messages words, uint32_t count)
{
    uint32_t taken = 0;
    bool blocked = false;
    for (uint32_t r = 0; r < GM_INBOX_TAKE / GM_WARP && taken < count && !blocked; r++) {
        uint32_t here = count - taken < GM_WARP ? count - taken : GM_WARP;
        if (gm_lane_id() < here)
            gm_inbox_acquire(core, head + taken + gm_lane_id());
        gm_syncwarp();
        const uint32_t entry_index = (uint32_t)words.word[r] & 0xfffu;
        const uint32_t kind = gm_inbox_kind(words.word[r]);
        const bool is_next = kind == GM_INBOX_NEXT;
        const uint32_t next = gm_lane_id() < here && is_next ? d->entry_widest[entry_index] : 0u;
        const uint32_t nexts = gm_ballot(next != 0);
        if (nexts != 0) {
            const uint32_t tickets = gm_shfl_u32(gm_scan_exclusive(next) + next, GM_WARP - 1u);
            blocked = !gm_room(core, d, tickets);
            if (blocked) {
                here = gm_lowest_one(nexts); /* what stands before the first phase that does not fit yet */
            } else {
                if (next != 0) {
                    struct gm_entry *entry = gm_entry_at(core, entry_index);
                    entry->job.phase = (uint16_t)(entry->job.phase + 1u);
                    gm_store_relaxed_u64(&entry->next_tile, next);
                }
                gm_start_publish(core, d, next, entry_index, next != 0 ? d->entry_generation[entry_index] : 0u, NULL,
                                 false);
                if (gm_lane_id() == 0) {
                    d->counters.phases += gm_count_ones(nexts);
                    d->counters.tickets += tickets;
                }
            }
        }
        if (here != 0)
            gm_inbox_done(core, d, gm_lane_id() < here && !is_next, entry_index, kind);
        taken += here;
    }
    return taken;
}

/* The counters go out for gridmilld, who reads them without asking. Whole warp, or one thread after another. */
GM_DEV_CALL void gm_counters_store(const struct gm_core *core, struct gm_disp *d)
{
    const uint64_t *from = (const uint64_t *)&d->counters;
    uint64_t *to = (uint64_t *)core->device_counters;
    for (uint32_t i = gm_lane_id(); i < sizeof(struct gm_device_counters) / 8u; i += GM_WARP)
        gm_store_relaxed_sys_u64(&to[i], from[i]);
    for (uint32_t i = gm_lane_id(); i < d->lane_top; i += GM_WARP) {
        struct gm_lane_row *lane = &d->lane[i];
        if (lane->header && lane->noted != lane->completed) {
            lane->noted = lane->completed;
            gm_store_relaxed_sys_u64(&core->lane_notes[i].answered, lane->noted);
        }
    }
}

/* Sets or clears the asleep flag of every open lane and of the admin lane. Whole warp. */
GM_DEV void gm_park_flag(const struct gm_core *core, struct gm_disp *d, uint32_t asleep)
{
    for (uint32_t i = gm_lane_id(); i < d->lane_top; i += GM_WARP)
        if (d->lane[i].header)
            gm_store_relaxed_sys_u32(&d->lane[i].header->asleep, asleep);
    gm_syncwarp();
    if (gm_lane_id() == 0) {
        gm_store_relaxed_sys_u32(&core->admin_header->asleep, asleep);
        d->asleep = asleep;
    }
    gm_syncwarp();
}

/* Whether a whole descriptor waits at the head of a lane. Half of one, of a client that died or means harm, keeps
 * nobody awake; an honest client rings when it has written the other half. One SIMT lane per lane. */
GM_DEV bool gm_park_whole(const struct gm_lane_row *lane)
{
    bool whole = true;
    uint32_t granules = 4u;
    for (uint32_t g = 0; g < granules; g++) {
        const struct gm_granule got = gm_load16_sys(gm_poll_granule(lane, g));
        whole = whole && got.w[3] == gm_poll_lap(lane, g);
        if (g == 0 && (got.w[0] & 0xffffu) < GM_OP_COUNT && (got.w[0] >> 24 & GM_FLAG_WIDE))
            granules = 8u;
    }
    return whole;
}

/* Says asleep in every lane and looks once more; false (and awake again) when something came meanwhile. The fence
 * between is the dispatcher's half of the doorbell: the client's is between its publication and its look at the
 * flag, so one of the two sees the other. Whole warp. */
GM_DEV bool gm_park(const struct gm_core *core, struct gm_disp *d)
{
    gm_park_flag(core, d, 1);
    gm_fence_sys();
    bool found = false;
    for (uint32_t i = gm_lane_id(); i < d->lane_top; i += GM_WARP) {
        const struct gm_lane_row *lane = &d->lane[i];
        if (!lane->header)
            continue;
        if (lane->shut != 0) /* as for the sweep: nobody is served here any more */
            continue;
        found = found || gm_park_whole(lane) || gm_wake_due(lane, gm_load16_sys(&lane->header->wait));
    }
    const struct gm_granule admin = gm_load16_sys(&core->admin_sq[d->admin_head & (GM_ADMIN_SLOTS - 1u)].g[0]);
    found = found || admin.w[3] == gm_lap(d->admin_head, GM_ADMIN_SLOTS_LOG2);
    const uint64_t message = gm_inbox_load(&core->inbox[d->inbox_head & ((1u << core->entries_log2) - 1u)]);
    found = found || gm_inbox_valid(core, d->inbox_head, message);
    if (gm_ballot(found) != 0) {
        gm_park_flag(core, d, 0);
        return false;
    }
    return true;
}

/* Stop tickets, one per worker, behind everything published. Their credit is never lent, so only acknowledgements can
 * be missing. Whole warp. */
GM_DEV_CALL bool gm_stop_publish(const struct gm_core *core, struct gm_disp *d)
{
    if (!gm_room(core, d, core->workers))
        return false;
    gm_fence_acq_rel_gpu();
    gm_syncwarp();
    gm_publish(core, d->published, 0, GM_STOP_ENTRY, core->workers);
    gm_syncwarp();
    if (gm_lane_id() == 0) {
        d->published += core->workers;
        d->stopping = 0;
    }
    gm_syncwarp();
    return true;
}

/* Whether all of count messages are of finished jobs, which nobody waits for. Whole warp. */
GM_DEV bool gm_inbox_all_done(const struct gm_messages *words, uint32_t count)
{
    bool next = false;
    for (uint32_t r = 0; r < GM_INBOX_TAKE / GM_WARP && r * GM_WARP < count; r++)
        next = next || (r * GM_WARP + gm_lane_id() < count && gm_inbox_kind(words->word[r]) == GM_INBOX_NEXT);
    return gm_ballot(next) == 0;
}

GM_DEV void gm_inbox_advance(struct gm_disp *d, uint32_t count)
{
    gm_syncwarp();
    if (gm_lane_id() == 0)
        d->inbox_head += count;
    gm_syncwarp();
}

/* Where the next look goes: the choice, and what follows from it. A lane that is known to have something is not left
 * before it was looked at. Whole warp. */
GM_DEV void gm_turn_aim(const struct gm_core *core, struct gm_disp *d, struct gm_fetch *f)
{
    const bool picks = f->looked || d->expects == 0 || !gm_policy_open(d, f->lane);
    const uint32_t lane = picks ? gm_policy_pick(d, f->turns) : f->lane;
    gm_syncwarp();
    if (gm_lane_id() == 0) {
        if (picks) {
            d->expects = gm_policy_expects(d, lane);
            gm_policy_aimed(d, lane);
        }
        if (f->side_looked)
            gm_policy_swept(d);
    }
    gm_syncwarp();
    gm_poll_aim(core, d, lane, f);
}

GM_DEV void gm_turn_issue(const struct gm_core *core, struct gm_disp *d, struct gm_fetch *f)
{
    if (GM_BOXED(f))
        gm_box_aim(core, d, f);
    else
        gm_poll_issue(core, d, f);
    gm_poll_issue_inbox(core, d, f);
}

/* Before the first turn, and after a sleep: what was loaded before it is of no use. box: looked through by others, or
 * NULL. */
GM_DEV void gm_turn_begin(const struct gm_core *core, struct gm_disp *d, struct gm_fetch *f, struct gm_box *box)
{
    gm_syncwarp();
    if (gm_lane_id() == 0)
        d->core = *core;
    gm_syncwarp();
    for (uint32_t r = 0; r < GM_SIDE_ROUNDS; r++)
        f->side[r] = (struct gm_granule){{0, 0, 0, 0}};
    f->turns = (uint32_t)d->counters.turns;
    f->box = box;
    f->looked = f->side_looked = true;
    gm_turn_aim(core, d, f);
    gm_turn_issue(core, d, f);
}

/* The books of a turn that took something, while the next look is on its way: what was started is marked, noted and
 * counted. Whole warp. */
GM_DEV void gm_turn_books(struct gm_disp *d, uint32_t lane_index, uint64_t tally)
{
    gm_syncwarp();
    if (gm_lane_id() == 0 && tally != 0) {
        struct gm_lane_row *lane = &d->lane[lane_index];
        if (d->journal_due != 0) {
            gm_journal_started(lane, d->journal_due - 1u);
            d->journal_due = 0;
        }
        gm_start_count(d, lane_index, tally);
        gm_journal_head(&d->core, lane_index, lane);
    }
    gm_syncwarp();
}

GM_DEV void gm_turn_count(struct gm_disp *d, uint32_t turns)
{
    d->counters.turns += turns - (uint32_t)d->counters.turns;
}

/* Nothing to do for idle_ns: counters out, and park if the last look agrees. Whole warp. */
GM_DEV_CALL enum gm_turn_result gm_turn_idle(const struct gm_core *core, struct gm_disp *d, uint32_t turns)
{
    const bool in_flight = d->free_entries != core->entries_count;
    gm_syncwarp();
    if (gm_lane_id() == 0) {
        d->now_ns = gm_now_ns();
        gm_turn_count(d, turns);
    }
    gm_syncwarp();
    gm_counters_store(core, d);
    if (d->now_ns - d->last_work_ns < core->idle_ns || (in_flight && !core->park_in_flight))
        return GM_TURN_EMPTY;
    return gm_park(core, d) ? GM_TURN_PARK : GM_TURN_EMPTY;
}

/* Turns between two looks at the clock. A GPU's turn takes about a microsecond, less when others look at host memory
 * for it; a CPU thread sleeps at once. */
#if GM_WARP > 1u
#define GM_TURNS_PER_LOOK (GM_CUDA_LOOKERS != 0 ? 256u : 64u)
#else
#define GM_TURNS_PER_LOOK 1u
#endif

/* What came is in private memory now, and a time stands over it. Whole warp. */
GM_DEV void gm_turn_land(struct gm_disp *d, const struct gm_fetch *f, uint32_t complete)
{
    if (gm_lane_id() == 0) {
        d->now_ns = gm_now_ns();
        d->waited = d->refused_cancelled = 0;
    }
    gm_poll_land(d, f, complete);
}

/* The lane that was looked at waits no more: its client took the descriptor back, which helps nobody. Whole warp. */
GM_DEV void gm_turn_unheld(struct gm_disp *d, uint32_t lane, bool held)
{
    gm_syncwarp();
    if (gm_lane_id() == 0 && !held && d->held_lane == lane + 1u)
        d->held_lane = 0;
    gm_syncwarp();
}

GM_DEV enum gm_turn_result gm_turn(const struct gm_core *core, struct gm_disp *d, struct gm_fetch *f)
{
    const uint32_t lane_index = f->lane;
    const bool look = (++f->turns & (GM_TURNS_PER_LOOK - 1u)) == 0;
    if (GM_BOXED(f))
        gm_box_take(f);
    const bool looked = f->looked;
    const bool any = gm_poll_any(d, f); /* one vote: most turns find nothing; how fast they do decides a round trip */
    const uint32_t messages = any ? gm_poll_messages(core, d, f) : 0;
    const uint32_t complete = any && d->stopping == 0 && lane_index != GM_LANE_NONE && d->lane[lane_index].shut == 0
                                  ? gm_poll_complete(d, f) : 0;
    const bool begun = f->width != 0 && f->slots[0].w[3] == f->slot_lap; /* of the first SIMT lane; the slots are not
                                                                           * kept over the calls below */
    const bool admin = any && gm_poll_admin(f);
    const bool swept = any && gm_poll_sweep(d, f);
    const bool found = complete != 0 || messages != 0 || admin;
    /* Finished jobs are counted after the next look is on its way: their client has its answer and may have sent the
     * next job already. Phases are published before it. */
    const uint32_t done = messages != 0 && gm_inbox_all_done(&f->inbox, messages) ? messages : 0;
    struct gm_messages words;
    uint64_t tally = 0;
    uint32_t work = 0;
    if (found) {
        gm_turn_land(d, f, complete);
        if (complete != 0)
            tally = gm_start(d, lane_index, complete);
        const uint32_t taken = messages != done ? gm_inbox_take(&d->core, d, d->inbox_head, f->inbox, messages) : done;
        if (messages != 0)
            gm_inbox_advance(d, taken);
        if (admin) {
            if (tally != 0) /* it may close this lane, and then its note is the next one's */
                gm_turn_books(d, lane_index, tally);
            if (gm_lane_id() == 0)
                gm_turn_count(d, f->turns);
            if (GM_BOXED(f) && gm_admin_word(d, GM_A_OP) == GM_ADMIN_LANE_CLOSE)
                gm_box_still(f);
            work += gm_admin(&d->core, d);
        }
        work += gm_tally_consumed(tally) + taken;
        words = f->inbox;
    }
    /* A lane whose descriptors wait for a resource, or lack their other half, gives no work but is not idle either. */
    const bool held = looked ? complete != 0 && d->waited != 0 : d->held_lane != 0;
    if (looked && (any || look || d->expects != 0))
        gm_turn_unheld(d, lane_index, held);
    if (any || (f->moves && f->side_looked) || (looked && (f->width > GM_POLL_NARROW || d->expects != 0))) {
        if (gm_lane_id() == 0 && looked && lane_index != GM_LANE_NONE && d->lane[lane_index].header)
            gm_policy_served(&d->lane[lane_index], complete, tally != 0 || held, begun);
        gm_turn_aim(core, d, f);
    }
    /* Not before the tickets are out: a fence waits for loads in flight, and would hold the tickets up for a trip over
     * the bus (measured: 0.8 us a job). And not later: how often the lanes are looked at decides the round trip. */
    gm_turn_issue(core, d, f);
    if (tally != 0 && !admin)
        gm_turn_books(d, lane_index, tally);
    if (done != 0)
        gm_inbox_take(&d->core, d, d->inbox_head - done, words, done);
    if (gm_lane_id() == 0 && (work != 0 || swept))
        d->last_work_ns = d->now_ns;
    if (look && gm_lane_id() == 0)
        gm_turn_count(d, f->turns);
    gm_syncwarp();
    if (d->stopping)
        return gm_stop_publish(&d->core, d) ? GM_TURN_STOP : GM_TURN_EMPTY;
    if (work != 0) {
        if (look)
            gm_counters_store(&d->core, d);
        return GM_TURN_WORKED;
    }
    return look && !held && !swept ? gm_turn_idle(&d->core, d, f->turns) : GM_TURN_EMPTY;
}

#endif
