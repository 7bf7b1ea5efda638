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

/* Finished jobs give back what they held. mine: this SIMT lane has one. Whole warp. */
GM_DEV void gm_inbox_done(const struct gm_core *core, struct gm_disp *d, bool mine, uint32_t entry_index)
{
    const uint32_t dones = gm_ballot(mine), rank = gm_scan_exclusive(mine ? 1u : 0u);
    const uint32_t credit = mine ? d->entry_widest[entry_index] : 0u;
    const uint32_t credits = gm_shfl_u32(gm_scan_exclusive(credit) + credit, GM_WARP - 1u);
    bool pool = false;
    if (mine) {
        pool = (d->entry_lane[entry_index] & GM_LANE_POOL) != 0;
        d->free_entry[d->free_entries + rank] = (uint16_t)entry_index;
        gm_private_add(&d->lane[d->entry_lane[entry_index] & ~GM_LANE_POOL].completed, 1);
        d->entry_lane[entry_index] = GM_LANE_NONE;
    }
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
GM_DEV uint32_t gm_inbox_take(const struct gm_core *core, struct gm_disp *d, uint64_t head, const uint64_t *words,
                              uint32_t count)
{
    uint32_t taken = 0;
    bool blocked = false;
    for (uint32_t r = 0; r < GM_INBOX_TAKE / GM_WARP && taken < count && !blocked; r++) {
        uint32_t here = count - taken < GM_WARP ? count - taken : GM_WARP;
        if (gm_lane_id() < here)
            gm_inbox_acquire(core, head + taken + gm_lane_id());
        gm_syncwarp();
        const uint32_t entry_index = (uint32_t)words[r] & 0xfffu;
        const bool is_next = ((uint32_t)words[r] >> 31) == GM_INBOX_NEXT;
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
                gm_start_publish(core, d, next, entry_index, next != 0 ? d->entry_generation[entry_index] : 0u, false);
                if (gm_lane_id() == 0) {
                    d->counters.phases += gm_count_ones(nexts);
                    d->counters.tickets += tickets;
                }
            }
        }
        if (here != 0)
            gm_inbox_done(core, d, gm_lane_id() < here && !is_next, entry_index);
        taken += here;
    }
    return taken;
}

/* A sleeping client is woken when more is complete than it has reaped. Level, not edge: looked at again every turn, so
 * that neither order of "client arms" and "job completes" loses the wake. A client that was quick has reaped more than
 * is counted here; waking it for that would use up the one wake of its sleep. One thread. */
GM_DEV bool gm_wake_due(const struct gm_disp *d, struct gm_lane_row *lane)
{
    const uint64_t reaped = d->side[GM_SIDE_WAIT].w[0] | (uint64_t)d->side[GM_SIDE_WAIT].w[1] << 32;
    if (d->side[GM_SIDE_WAIT].w[2] != 1u || (int64_t)(lane->completed - reaped) <= 0 || lane->wake_sent == reaped)
        return false;
    lane->wake_sent = reaped;
    return true;
}

/* The counters go out for gridmilld, who reads them without asking. Whole warp, or one thread after another. */
GM_DEV void gm_counters_store(const struct gm_core *core, const struct gm_disp *d)
{
    const uint64_t *from = (const uint64_t *)&d->counters;
    uint64_t *to = (uint64_t *)core->device_counters;
    for (uint32_t i = gm_lane_id(); i < sizeof(struct gm_device_counters) / 8u; i += GM_WARP)
        gm_store_relaxed_sys_u64(&to[i], from[i]);
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
        const struct gm_granule wait = gm_load16_sys(&lane->header->wait);
        bool whole = true; /* half a descriptor, of a client that died or means harm, keeps nobody awake */
        for (uint32_t g = 0; g < 4u; g++)
            whole = gm_load16_sys(gm_poll_granule(lane, g)).w[3] == gm_lap(lane->head, lane->slots_log2) && whole;
        found = found || whole;
        const uint64_t reaped = wait.w[0] | (uint64_t)wait.w[1] << 32;
        found = found || (wait.w[2] == 1u && (int64_t)(lane->completed - reaped) > 0);
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
GM_DEV bool gm_stop_publish(const struct gm_core *core, struct gm_disp *d)
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
GM_DEV bool gm_inbox_all_done(const uint64_t *words, uint32_t count)
{
    bool next = false;
    for (uint32_t r = 0; r < GM_INBOX_TAKE / GM_WARP && r * GM_WARP < count; r++)
        next = next || (r * GM_WARP + gm_lane_id() < count && ((uint32_t)words[r] >> 31) == GM_INBOX_NEXT);
    return gm_ballot(next) == 0;
}

GM_DEV void gm_inbox_advance(struct gm_disp *d, uint32_t count)
{
    gm_syncwarp();
    if (gm_lane_id() == 0)
        d->inbox_head += count;
    gm_syncwarp();
}

/* Before the first turn, and after a sleep: what was loaded before it is of no use. */
GM_DEV void gm_turn_begin(const struct gm_core *core, struct gm_disp *d, struct gm_fetch *f)
{
    gm_syncwarp();
    if (gm_lane_id() == 0)
        d->core = *core;
    gm_syncwarp();
    f->turns = (uint32_t)d->counters.turns;
    gm_poll_aim(core, d, gm_policy_pick(d), f);
    gm_poll_issue(core, d, f);
}

/* The books of a turn that found something, while the next look is on its way: what was started is marked and counted,
 * a sleeping client is woken. Whole warp. */
GM_DEV void gm_turn_books(struct gm_disp *d, uint32_t lane_index, uint64_t tally)
{
    gm_syncwarp();
    if (gm_lane_id() == 0) {
        struct gm_lane_row *lane = lane_index == GM_LANE_NONE ? NULL : &d->lane[lane_index];
        if (d->journal_due != 0) {
            gm_journal_started(lane, d->journal_due - 1u);
            d->journal_due = 0;
        }
        if (tally != 0)
            gm_start_count(d, lane, tally);
        if (lane && lane->header && gm_wake_due(d, lane)) {
            d->wake = 1;
            d->counters.wakes++;
        }
    }
    gm_syncwarp();
}

/* Nothing to do for idle_ns: counters out, and park if the last look agrees. Whole warp. */
GM_DEV enum gm_turn_result gm_turn_idle(const struct gm_core *core, struct gm_disp *d, const struct gm_fetch *f)
{
    const bool in_flight = d->free_entries != core->entries_count;
    gm_syncwarp();
    if (gm_lane_id() == 0) {
        d->now_ns = gm_now_ns();
        d->counters.turns += f->turns - (uint32_t)d->counters.turns;
    }
    gm_syncwarp();
    gm_counters_store(core, d);
    if (d->now_ns - d->last_work_ns < core->idle_ns || (in_flight && !core->park_in_flight))
        return GM_TURN_EMPTY;
    return gm_park(core, d) ? GM_TURN_PARK : GM_TURN_EMPTY;
}

/* Turns between two looks at the clock. A GPU's turn takes about a microsecond; a CPU thread sleeps at once. */
#define GM_TURNS_PER_LOOK (GM_WARP > 1u ? 64u : 1u)

GM_DEV enum gm_turn_result gm_turn(const struct gm_core *core, struct gm_disp *d, struct gm_fetch *f)
{
    const uint32_t lane_index = f->lane;
    const bool any = gm_poll_any(f); /* one vote: most turns find nothing, and how fast they do decides a round trip */
    const uint32_t messages = any ? gm_poll_messages(core, d, f) : 0;
    const uint32_t complete = any && d->stopping == 0 ? gm_poll_complete(d, f) : 0;
    const bool admin = any && gm_poll_admin(f);
    const bool found = complete != 0 || messages != 0 || admin || (any && gm_poll_waiting(f));
    const bool look = (++f->turns & (GM_TURNS_PER_LOOK - 1u)) == 0;
    /* Finished jobs are counted after the next look is on its way: their client has its answer and may have sent the
     * next job already. Phases are published before it. */
    const uint32_t done = messages != 0 && gm_inbox_all_done(f->inbox, messages) ? messages : 0;
    uint64_t words[GM_INBOX_TAKE / GM_WARP], tally = 0;
    uint32_t work = 0;
    if (found) {
        if (gm_lane_id() == 0)
            d->now_ns = gm_now_ns();
        gm_poll_land(d, f, complete);
        if (complete != 0)
            tally = gm_start(d, lane_index, complete);
        const uint32_t taken = messages != done ? gm_inbox_take(core, d, d->inbox_head, f->inbox, messages) : done;
        if (messages != 0)
            gm_inbox_advance(d, taken);
        if (admin)
            work += gm_admin(&d->core, d);
        work += gm_tally_consumed(tally) + taken;
        for (uint32_t r = 0; r < GM_INBOX_TAKE / GM_WARP; r++)
            words[r] = f->inbox[r];
    }
    if (f->width != 0 && (complete == f->width || f->width > GM_POLL_NARROW || f->others)) {
        if (gm_lane_id() == 0 && d->lane[lane_index].header)
            gm_policy_served(d, lane_index, complete);
        gm_syncwarp();
        gm_poll_aim(core, d, gm_policy_pick(d), f);
    } else if (found) {
        gm_poll_aim(core, d, gm_policy_pick(d), f);
    }
    /* Not before the tickets are out: a fence waits for loads in flight, and would hold the tickets up for a trip over
     * the bus (measured: 0.8 us a job). And not later: how often the lanes are looked at decides the round trip. */
    gm_poll_issue(core, d, f);
    if (found)
        gm_turn_books(d, lane_index, tally);
    if (done != 0)
        gm_inbox_take(core, d, d->inbox_head - done, words, done);
    if (gm_lane_id() == 0 && work != 0)
        d->last_work_ns = d->now_ns;
    if (look && gm_lane_id() == 0)
        d->counters.turns += f->turns - (uint32_t)d->counters.turns;
    gm_syncwarp();
    if (d->stopping)
        return gm_stop_publish(core, d) ? GM_TURN_STOP : GM_TURN_EMPTY;
    if (work != 0) {
        if (look)
            gm_counters_store(core, d);
        return GM_TURN_WORKED;
    }
    return look && complete == 0 ? gm_turn_idle(core, d, f) : GM_TURN_EMPTY;
}

#endif
