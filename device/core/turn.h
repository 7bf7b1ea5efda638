/* SPDX-License-Identifier: Apache-2.0
 *
 * One turn of the dispatcher: look once, do a bounded amount of work, wait for nothing. Every step is try or skip, so
 * the admin lane is served whatever the lanes hold. The turn is the front's: it serves a lane, and what scout and back
 * have found for it. On the CPU it plays these two first. Whole warp.
 */
#ifndef GM_CORE_TURN_H
#define GM_CORE_TURN_H

#include "admin.h"
#include "policy.h"
#include "wing.h"

enum gm_turn_result {
    GM_TURN_WORKED,
    GM_TURN_EMPTY, /* nothing was there, or nothing could be done now */
    GM_TURN_PARK,  /* nothing for idle_ns; every lane says asleep and was looked at once more */
    GM_TURN_STOP   /* stop tickets are out; the caller leaves after its workers */
};

/* Jobs that go the quick way in one turn. Before sm_90 the registers of a GPU do not suffice for it. */
#ifndef __CUDACC__
#define GM_QUICK_MAX 1u
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define GM_QUICK_MAX GM_WARP
#else
#define GM_QUICK_MAX 0u
#endif

/* Phases that are done get their next one published. next: tickets of this SIMT lane's, or 0. False when there is no
 * room. Whole warp. */
GM_DEV bool gm_message_next(const struct gm_core *core, struct gm_disp *d, uint32_t next, uint32_t index)
{
    const uint32_t tickets = gm_shfl_u32(gm_scan_exclusive(next) + next, GM_WARP - 1u);
    const uint32_t nexts = gm_ballot(next != 0);
    uint64_t base;
    if (!gm_reserve(core, d, tickets, &base))
        return false;
    if (next != 0) {
        struct gm_entry *entry = gm_entry_at(core, index);
        entry->job.phase = (uint8_t)(entry->job.phase + 1u);
        gm_store_relaxed_u64(&entry->next_tile, next);
    }
    gm_start_publish(core, d, base, next, index, next != 0 ? d->note[index].generation : 0u, NULL, false);
    if (gm_lane_id() == 0) {
        d->counters.phases += gm_count_ones(nexts);
        d->counters.tickets += tickets;
    }
    return true;
}

/* Phases that are done, which the back has passed on, at most GM_INBOX_TAKE. One that finds no room stops it until the
 * next turn. Returns how many were taken. Whole warp. */
GM_DEV uint32_t gm_messages_take(const struct gm_core *core, struct gm_disp *d)
{
    const uint32_t there = gm_agreed_u32(&d->crew.messages) - d->messages_taken;
    const uint32_t count = there < GM_INBOX_TAKE ? there : GM_INBOX_TAKE;
    uint32_t taken = 0;
    while (taken < count) {
        const uint32_t here = count - taken < GM_WARP ? count - taken : GM_WARP;
        uint32_t index = 0, next = 0;
        if (gm_lane_id() < here) {
            index = gm_inbox_entry(d->crew.message[(d->messages_taken + taken + gm_lane_id()) % GM_ENTRIES_MAX]);
            next = d->note[index].widest;
        }
        if (!gm_message_next(core, d, next, index))
            break;
        taken += here;
    }
    gm_syncwarp();
    if (gm_lane_id() == 0) {
        d->messages_taken += taken;
        if (taken < there)
            gm_or_release_block_u32(&d->crew.attention, GM_ATTEND_MESSAGES);
    }
    gm_syncwarp();
    return taken;
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
        const struct gm_granule got = gm_load16_sys(gm_poll_granule(lane->sq, lane->head, lane->slots_log2, g));
        whole = whole && got.w[3] == gm_poll_lap(lane->head, lane->slots_log2, g);
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
    const uint64_t head = gm_load_relaxed_block_u64(&d->inbox_head);
    const uint64_t message = gm_inbox_load(core, head);
    found = found || gm_inbox_valid(core, head, message) || gm_load_relaxed_block_u32(&d->crew.attention) != 0;
    found = found || gm_copies_wait(core, d);
    if (gm_ballot(found) != 0) {
        gm_park_flag(core, d, 0);
        return false;
    }
    return true;
}

/* Stop tickets, one per worker, behind everything published. Their credit is never lent, so only acknowledgements can
 * be missing. Whole warp. */
GM_DEV_CALL bool gm_stop_publish(struct gm_disp *d)
{
    d = gm_disp_here(d);
    const struct gm_core *core = &d->core;
    uint64_t base;
    if (!gm_reserve(core, d, core->workers, &base))
        return false;
    gm_fence_acq_rel_gpu();
    gm_syncwarp();
    gm_publish(core, base, 0, GM_STOP_ENTRY, core->workers);
    gm_syncwarp();
    if (gm_lane_id() == 0)
        d->stopping = 0;
    gm_syncwarp();
    return true;
}

/* Where the next look goes: the choice, and what follows from it. A lane that is known to have something is not left
 * before it was looked at. Whole warp. */
GM_DEV void gm_turn_choose(struct gm_disp *d, uint32_t turns)
{
    if (gm_lane_id() == 0)
        gm_policy_unmark(d);
    gm_syncwarp();
    const uint32_t lane = gm_policy_pick(d, turns);
    gm_syncwarp();
    if (gm_lane_id() == 0) {
        d->expects = gm_policy_expects(d, lane);
        gm_policy_aimed(d, lane);
    }
    gm_syncwarp();
}
GM_DEV void gm_turn_aim(struct gm_disp *d, struct gm_fetch *f)
{
    gm_turn_choose(d, d->turn);
    gm_poll_aim(d, gm_policy_aim(d), f);
}

/* The same after jobs were taken from this lane up to head: most often it is this lane again. Whole warp. */
GM_DEV void gm_turn_next(struct gm_disp *d, struct gm_fetch *f, uint64_t head)
{
    const uint32_t lane = f->lane;
    if (gm_agreed_u32(&d->ready_words) != 0)
        gm_turn_aim(d, f);
    if (f->lane == lane) {
        f->width = d->lane[lane].width & 0xffu;
        f->head = head;
    }
}

/* Before the first turn, and after a sleep: what was loaded before it is of no use. */
GM_DEV void gm_turn_begin(const struct gm_core *core, struct gm_disp *d, struct gm_fetch *f)
{
    gm_syncwarp();
    if (gm_lane_id() == 0)
        d->core = *core;
    gm_syncwarp();
    d->turn = (uint32_t)d->counters.turns;
    gm_syncwarp();
    gm_turn_aim(d, f);
    gm_poll_issue(d, f);
}

/* The books of a turn that took something: what was started is noted and counted. Whole warp. */
GM_DEV void gm_turn_books(struct gm_disp *d, uint32_t lane_index, uint64_t tally)
{
    gm_syncwarp();
    if (gm_lane_id() == 0 && tally != 0) {
        struct gm_lane_row *lane = &d->lane[lane_index];
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
GM_DEV_CALL enum gm_turn_result gm_turn_idle(struct gm_disp *d, uint32_t turns)
{
    d = gm_disp_here(d);
    const struct gm_core *core = &d->core;
    gm_back_collect(d);
    const bool leased = d->leased != 0, in_flight = leased || gm_in_flight(d); /* a lease is work */
    gm_syncwarp();
    if (gm_lane_id() == 0) {
        d->now_ns = gm_now_ns();
        if (leased || (in_flight && !core->park_in_flight))
            d->last_work_ns = d->now_ns;
        gm_turn_count(d, turns);
    }
    gm_syncwarp();
    gm_counters_store(d);
    if (leased || d->now_ns - d->last_work_ns < core->idle_ns || (in_flight && !core->park_in_flight))
        return GM_TURN_EMPTY;
    return gm_park(core, d) ? GM_TURN_PARK : GM_TURN_EMPTY;
}

/* Turns between two looks at the clock, with which the counters go out. A GPU's turn takes a trip over the bus, about
 * 1.5 us, and one with a look a few more, which the job that meets it waits; every 64th was seen in the 99th percentile
 * of round trips. Where the front plays all parts, nobody measures round trips, and a kernel that is to end soon ends
 * sooner; a CPU thread sleeps at once. */
#if GM_WARP > 1u
#define GM_TURNS_PER_LOOK 256u
#define GM_TURNS_ALONE    8u
#else
#define GM_TURNS_PER_LOOK 1u
#define GM_TURNS_ALONE    1u
#endif

/* The lane that was looked at waits no more: its client took the descriptor back, which helps nobody. Whole warp. */
GM_DEV void gm_turn_unheld(struct gm_disp *d, uint32_t lane)
{
    gm_syncwarp();
    if (gm_lane_id() == 0 && d->held_lane == lane + 1u)
        gm_store_relaxed_block_u32(&d->held_lane, 0);
    gm_syncwarp();
}

/* What scout and back have found. Returns how much of it was work. A call, because most turns have none. Whole warp. */
GM_DEV_CALL uint32_t gm_turn_attend(struct gm_disp *d, uint32_t turns)
{
    d = gm_disp_here(d);
    uint32_t attention = 0, work = 0;
    if (gm_lane_id() == 0)
        attention = gm_and_acquire_block_u32(&d->crew.attention, 0);
    attention = gm_shfl_u32(attention, 0);
    if (attention & GM_ATTEND_MESSAGES)
        work += gm_messages_take(&d->core, d);
    if (attention & GM_ATTEND_WINGS)
        gm_wings_collect(d);
    if (attention & GM_ATTEND_ADMIN) {
        if (gm_lane_id() == 0)
            gm_turn_count(d, turns);
        gm_syncwarp();
        work += gm_admin(d);
    }
    return work;
}

/* All that a turn may have to do, but for the quick way: complete descriptors in the stage are started, what scout and
 * back have found is done, and the lane that is looked at next is chosen. A call, so that the quick way is short. Whole
 * warp. */
GM_DEV_CALL void gm_turn_slow(struct gm_disp *d, uint32_t lane_index, uint32_t complete, bool begun, bool aims,
                              uint32_t turns)
{
    d = gm_disp_here(d);
    const uint32_t attention = gm_agreed_u32(&d->crew.attention);
    uint64_t tally = 0;
    gm_syncwarp();
    if (gm_lane_id() == 0) {
        d->now_ns = gm_now_ns();
        d->waited = d->refused_cancelled = 0;
        gm_quick_count(d);
    }
    gm_syncwarp();
    if (complete != 0)
        tally = gm_start(d, lane_index, complete);
    uint32_t work = gm_tally_consumed(tally);
    if (tally != 0) /* before an admin descriptor may close this lane: then its note is the next one's */
        gm_turn_books(d, lane_index, tally);
    if (attention != 0)
        work += gm_turn_attend(d, turns);
    /* A lane whose descriptors wait for a resource, or lack their other half, gives no work but is not idle either. */
    const bool held = complete != 0 && d->waited != 0;
    if (!held)
        gm_turn_unheld(d, lane_index);
    gm_syncwarp();
    if (gm_lane_id() == 0) {
        d->work = work;
        if (work != 0)
            d->last_work_ns = d->now_ns;
        if (lane_index != GM_LANE_NONE && d->lane[lane_index].header && (aims || attention != 0))
            gm_policy_served(&d->lane[lane_index], complete, tally != 0 || held, begun);
    }
    gm_syncwarp();
#ifndef __CUDACC__ /* on a GPU full looks at quick jobs do not come here */
    if (tally == gm_tally(GM_POLL_MAX, GM_POLL_MAX, 0, GM_POLL_MAX))
        (void)gm_wings_lease(d, lane_index);
#endif
    if (aims || attention != 0)
        gm_turn_choose(d, turns);
}

/* After a full look that went the quick way: a wing takes over, and the front chooses another lane if it looks at this
 * one. Whether it has. A call, because it is rare. Whole warp. */
GM_DEV_CALL bool gm_turn_lease(struct gm_disp *d, uint32_t lane, bool looks)
{
    d = gm_disp_here(d);
    if (!gm_wings_lease(d, lane) || !looks)
        return false;
    gm_turn_choose(d, d->turn);
    return true;
}

/* A turn that finds nothing but jobs for slots. With several, the next look is asked for before they are checked: it
 * goes where they would have been in vain if one is not of this kind, which is rare. False: start them as others are;
 * they are in the stage. Whole warp. */
GM_DEV bool gm_turn_quick(const struct gm_core *core, struct gm_disp *d, struct gm_fetch *f, uint32_t complete)
{
    struct gm_quick quick;
    const uint32_t width = gm_policy_width(f->width, f->log2, complete);
    quick.head = f->head;
    quick.lane = f->lane;
    quick.count = GM_QUICK_MAX > 1u ? complete : 1u;
    if (width != f->width) {
        d->lane[f->lane].width = width;
        gm_syncwarp();
    }
    quick.words = gm_poll_words(d, quick.count > 1u ? gm_lane_id() : 0u);
    if (gm_ballot(gm_quick_rank(&quick) < quick.count && !gm_quick_may(d, &quick.words)) != 0)
        return false;
    if (quick.count > 1u) {
        gm_turn_next(d, f, quick.head + quick.count);
        gm_poll_issue(d, f);
    }
    if (!gm_start_quick(core, d, &quick)) {
        gm_poll_aim(d, quick.lane, f);
        return false;
    }
    if (quick.count == 1u) {
        gm_turn_next(d, f, quick.head + 1u);
        gm_poll_issue(d, f);
    }
    if (gm_lane_id() == 0)
        gm_journal_head(core, quick.lane, &d->lane[quick.lane]);
    if (quick.count == GM_POLL_MAX && d->leased + 1u != 1u << core->wings &&
        gm_turn_lease(d, quick.lane, f->lane == quick.lane)) {
        gm_poll_aim(d, gm_policy_aim(d), f);
        gm_poll_issue(d, f);
    }
    return true;
}

/* What is due every GM_TURNS_PER_LOOK turns. Whole warp. */
GM_DEV_CALL enum gm_turn_result gm_turn_look(struct gm_disp *d, uint32_t turns, bool ready)
{
    d = gm_disp_here(d);
    if (gm_lane_id() == 0) {
        gm_turn_count(d, turns);
        gm_quick_count(d);
    }
    gm_syncwarp();
    if (d->work != 0) {
        gm_counters_store(d);
        return GM_TURN_WORKED;
    }
    return ready || d->waited != 0 ? GM_TURN_EMPTY : gm_turn_idle(d, turns);
}

GM_DEV enum gm_turn_result gm_turn(const struct gm_core *core, struct gm_disp *d, struct gm_fetch *f)
{
#if GM_WARP == 1u
    if (!d->crew.apart) {
        gm_scout_turn(core, d);
        for (uint32_t i = 0; i < GM_INBOX_TAKE && gm_back_inbox(core, d); i++) {
        }
    }
#endif
    const bool attends = gm_agreed_u32(&d->crew.attention) != 0, ready = gm_agreed_u32(&d->ready_words) != 0;
    const uint32_t turn = d->turn + 1u, first = gm_poll_first(f), lane_index = f->lane;
    const bool look = (turn & ((d->crew.apart ? GM_TURNS_PER_LOOK : GM_TURNS_ALONE) - 1u)) == 0;
    gm_syncwarp();
    d->turn = turn; /* all SIMT lanes the same, and all have read it */
    const bool begun = (first & 1u) != 0;
    uint32_t complete = begun ? gm_poll_complete(f, first) : 0;
    if (complete != 0 && (d->stopping != 0 || d->lane[lane_index].shut != 0))
        complete = 0;
    if (complete != 0)
        gm_poll_land(d->stage, f, complete);
    const bool tries = complete != 0 && complete <= GM_QUICK_MAX && !attends;
    if (GM_QUICK_MAX == 0u || !tries || !gm_turn_quick(core, d, f, complete)) {
        const bool aims = begun || ready || f->width > GM_POLL_NARROW || d->expects != 0;
        d->work = d->waited = 0;
        gm_syncwarp();
        if (aims || attends || look) {
            gm_turn_slow(d, lane_index, complete, begun, aims, turn);
            gm_poll_aim(d, gm_policy_aim(d), f);
        }
        /* Not before the tickets are out: a fence waits for loads in flight, and would hold the tickets up for a trip
         * over the bus (measured: 0.8 us a job). And not later: how often the lanes are looked at decides the round
         * trip. */
        gm_poll_issue(d, f);
    }
    if (d->stopping)
        return gm_stop_publish(d) ? GM_TURN_STOP : GM_TURN_EMPTY;
    if (look)
        return gm_turn_look(d, d->turn, ready);
    return d->work != 0 ? GM_TURN_WORKED : GM_TURN_EMPTY;
}

#endif
