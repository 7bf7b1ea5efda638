/* SPDX-License-Identifier: Apache-2.0
 *
 * The dispatcher of lanes.pml: turn() as device/core/turn.h does it. The looks of a turn are loaded at the end of the one
 * before, each load a step of its own. Included by lanes.pml.
 */

#define OPEN(l) ((l) < LANES && row[l].open && !row[l].shut)
#define IN_FLIGHT(l) ((ent[0].used && ent[0].lane == (l)) || (ENTRIES > 1 && ent[ENTRIES - 1].used && ent[ENTRIES - 1].lane == (l)))

/* gm_wake_due. The client may have reaped what is not counted here yet, so "more" is not "different". */
#ifdef MUT_WAKE_DIFFERENT
# define MORE(l, r) (row[l].completed != (r))
#else
# define MORE(l, r) (row[l].completed > (r))
#endif
#define WAKE_DUE(l, r) (MORE(l, r) && row[l].wake_sent != (r))

/* A lane that looked ready too often and had nothing whole: only in few rounds of the sweep. Rounds, not turns: the
 * sweep moves with the turns, and one of so many turns may always be one in which it is elsewhere. */
#ifdef MUT_STRIKE_TURNS
# define LOOK_AGAIN (turns % GAP == 0)
#else
# define LOOK_AGAIN (turns / WINDOWS == 0)
#endif

/* gm_policy_ready: the first lane after the one that had its turn last, in circular order. */
#define AFTER(n) ((round + (n)) % LANES)
#define READY(n) (ready[AFTER(n)])
#if LANES > 2
# define NEXT_READY (READY(1) -> AFTER(1) : (READY(2) -> AFTER(2) : (READY(3) -> AFTER(3) : NONE)))
#elif LANES > 1
# define NEXT_READY (READY(1) -> AFTER(1) : (READY(2) -> AFTER(2) : NONE))
#else
# define NEXT_READY (ready[0] -> 0 : NONE)
#endif
#define FIRST_OPEN (OPEN(0) -> 0 : (LANES > 1 && OPEN(1) -> 1 : (LANES > 2 && OPEN(2) -> 2 : NONE)))

/* gm_policy_pick, gm_policy_aimed. */
inline aim()
{
    f_lane = NEXT_READY;
    if
    :: held != 0 -> f_lane = held - 1
#ifdef MUT_HOT_FIRST
    :: held == 0 && hot != 0 && OPEN(hot - 1) -> f_lane = hot - 1
#endif
    :: held == 0 && f_lane != NONE && OPEN(f_lane)
    :: else -> f_lane = (hot != 0 && OPEN(hot - 1) -> hot - 1 : FIRST_OPEN)
    fi;
    if
    :: f_lane != NONE ->
        round = (held != f_lane + 1 -> f_lane : round);
#ifndef MUT_READY_LATE
        ready[f_lane] = false;
#endif
        hot = f_lane + 1
    :: else
    fi;
    sweep = (sweep + SWEEP < LANES -> sweep + SWEEP : 0)
}

/* gm_poll_issue: the granules of the lane, and the looks beside it; each load is a step. */
inline issue()
{
    if
    :: f_lane != NONE -> TOUCH(f_lane); f_first = BEGUN(f_lane)
    :: else -> f_first = false
    fi
}
inline issue_others()
{
    f_last = (f_first && sq1[SLOT(f_lane, row[f_lane].head)] == LAP(row[f_lane].head, SLOTS));
    do
#if RESTS
    :: atomic { k < SWEEP && OPEN(sweep + k) -> TOUCH(sweep + k); f_side[k] = BEGUN(sweep + k) };
        atomic { f_armed[k] = armed[sweep + k]; f_reaped[k] = (f_armed[k] -> reaped[sweep + k] : 0); k++ }
#else
    :: atomic { k < SWEEP && OPEN(sweep + k) -> TOUCH(sweep + k); f_side[k] = BEGUN(sweep + k); k++ }
#endif
    :: atomic { k < SWEEP && !OPEN(sweep + k) -> f_side[k] = false; f_armed[k] = false; f_reaped[k] = 0; k++ }
    :: atomic { k == SWEEP -> k = 0; f_inbox = inbox; f_admin = admin_op; behind_issue() }; break
    od
}
#ifdef MUT_WAIT_EDGE
# define WAKE_TOLD(l, k) (WAKE_DUE(l, f_reaped[k]) && seen[l] != f_reaped[k])
# define SEEN(l, k) seen[l] = (f_armed[k] -> f_reaped[k] : NONE)
#else
# define WAKE_TOLD(l, k) WAKE_DUE(l, f_reaped[k])
# define SEEN(l, k) skip
#endif
#ifdef MUT_READY_LATE
# define NOT_AIMED(l) true
#else
# define NOT_AIMED(l) ((l) != f_lane)
#endif

/* gm_poll_any, gm_poll_complete, gm_poll_sweep: what came with the last look. */
inline poll()
{
#if GAP > 1
    turns = (turns + 1) % (WINDOWS * GAP);
#endif
    whole = (f_first && f_last && !row[f_lane].shut);
    any = (f_first || f_inbox != 0 || f_admin != 0);
    do
    :: k < SWEEP ->
        x = sweep + k;
        if
        :: OPEN(x) && f_side[k] && NOT_AIMED(x) && (row[x].strikes < STRIKES || LOOK_AGAIN) ->
            ready[x] = true;
            swept = true
        :: else
        fi;
        if
        :: OPEN(x) && f_armed[k] && WAKE_TOLD(x, k) ->
            row[x].wake_sent = f_reaped[k];
            wakes = wakes | (1 << x);
            swept = true
        :: else
        fi;
        SEEN(x, k);
        k++
    :: else -> break
    od;
    any = any || swept;
    k = 0; x = 0
}

/* What is complete at the head of the lane is refused, started, or waits for an entry. */
inline start()
{
    took = whole;
    refused = (whole && BAD(f_lane, INDEX(row[f_lane].head)));
    if
    :: refused -> complete(f_lane, row[f_lane].head, REFUSED)
    :: took && !refused && FREE ->
        x = (FREE0 -> 0 : 1);
        ent[x].lane = f_lane;
        ent[x].pos = row[f_lane].head;
        ent[x].used = true;
        ent[x].ticket = true;
        x = 0
    :: took && !refused && !FREE ->
        took = false;
        held = (held == 0 -> f_lane + 1 : held)
    :: !took
    fi;
    if
    :: took ->
        NEXT(row[f_lane].head, SLOTS);
        held = (held == f_lane + 1 -> 0 : held)
    :: else
    fi
}

/* gm_lane_shut. */
inline lane_shut(l_)
{
    row[l_].shut = true;
    ready[l_] = false;
    held = (held == l_ + 1 -> 0 : held)
}

#ifdef MUT_CLOSE_BUSY
# define CLOSE_WAITS(l) false
#else
# define CLOSE_WAITS(l) IN_FLIGHT(l)
#endif
/* gm_admin_abort, gm_admin_lane_close: its jobs are told to abort, nothing more is taken from it; OK when nothing of it is
 * in flight. gm_admin_lane_open. */
inline abort_entry(e, l_)
{
    ent[e].abort = (ent[e].abort || (ent[e].used && ent[e].lane == l_))
}
inline admin(l_)
{
    atomic {
        if
        :: f_admin == LANE_CLOSE ->
            abort_entry(0, l_);
#if ENTRIES > 1
            abort_entry(1, l_)
#endif
        :: else
        fi
    };
    atomic {
        if
        :: f_admin == LANE_OPEN ->
            row[l_].head = LANE_START; row[l_].completed = 0; row[l_].wake_sent = NONE; row[l_].strikes = 0;
            row[l_].refused_run = 0; row[l_].shut = false; row[l_].open = true;
            admin_answer = OK
        :: f_admin == LANE_CLOSE && CLOSE_WAITS(l_) -> lane_shut(l_); admin_answer = BUSY
        :: else ->
            lane_shut(l_);
            row[l_].open = false;
            hot = (hot == l_ + 1 -> 0 : hot);
            wakes = wakes & (255 - (1 << l_));
            admin_answer = OK
        fi;
        admin_op = 0
    }
}

/* gm_policy_served, and what is held: a lane whose descriptor is not there any more waits for nothing. */
inline served()
{
    if
    :: whole -> row[f_lane].strikes = 0
    :: !whole && f_first && row[f_lane].strikes < STRIKES -> row[f_lane].strikes++
    :: else
    fi;
#ifndef MUT_HELD_KEPT
    held = (!whole && held == f_lane + 1 -> 0 : held);
#endif
#ifdef MUT_READY_LATE
    if
    :: f_lane != NONE -> ready[f_lane] = false
    :: else
    fi
#endif
}

/* gm_turn_books, gm_start_count, gm_start_abuse. After the answer to a close, so not for a lane that was closed: its note
 * is the next owner's by then. */
#ifdef MUT_NOTE_LATE
# define NOTED(l) true
#else
# define NOTED(l) row[l].open
#endif
inline books()
{
    if
    :: took_of == NONE
    :: else ->
        assert(!NOTED(took_of) || !released || took_of != CLOSED_LANE);
        row[took_of].completed = row[took_of].completed + refused;
#if ABUSE
        row[took_of].refused_run = (refused -> row[took_of].refused_run + 1 : 0);
        if
        :: row[took_of].refused_run == ABUSE && !row[took_of].shut -> lane_shut(took_of); note_closed = true
        :: else
        fi
#endif
    fi
}

/* gm_inbox_done, of the messages that came with the last look. */
inline inbox_done(e)
{
    if
    :: (f_done >> e) & 1 ->
        row[ent[e].lane].completed++;
        ent[e].used = false; ent[e].abort = false; ent[e].lane = 0; ent[e].pos = 0
    :: else
    fi
}

/* A turn is over in which this was there and was not acted on. */
#define TAKEABLE(l) (OPEN(l) && WHOLE(l) && (FREE || BAD(l, INDEX(row[l].head))))
#define DUE(l) (row[l].open && armed[l] && WAKE_DUE(l, reaped[l]))
inline grow_older(l_)
{
    job_age[l_] = (TAKEABLE(l_) && took_of != l_ -> job_age[l_] + 1 : 0);
    wake_age[l_] = (OPEN(l_) && DUE(l_) -> wake_age[l_] + 1 : 0);
    assert(job_age[l_] <= OLDEST_JOB);
    assert(wake_age[l_] <= OLDEST_WAKE)
}
inline behind_issue()
{
    books();
    inbox_done(0);
#if ENTRIES > 1
    inbox_done(1);
#endif
    grow_older(0);
#if LANES > 1
    grow_older(1);
#endif
#if LANES > 2
    grow_older(2);
#endif
    f_done = 0; took_of = NONE;
    took = false; refused = false; whole = false; any = false; swept = false
}

/* gm_turn: one step up to the first store that others see, the admin descriptor, then the next look. */
inline turn()
{
    poll();
    start();
    f_done = f_inbox;
    inbox = inbox & (255 - f_done); /* gm_inbox_advance */
    idle = !took && !swept && !whole && f_done == 0 && f_admin == 0;
    took_of = (took -> f_lane : NONE)
}
inline look()
{
    if
    :: any || MOVES -> served(); aim()
    :: else
    fi;
    issue()
}

/* gm_park_flag: the lanes, then the one that the host and the workers look at. */
inline park_flag(up)
{
    do
    :: atomic { k < LANES && row[k].open -> TOUCH(k); asleep[k] = up; k++ }
    :: atomic { k < LANES && !row[k].open -> k++ }
    :: atomic { k == LANES -> asleep_admin = up; k = 0 }; break
    od
}

/* gm_park_whole, gm_wake_due. What keeps the device awake must be something that a turn tells of. */
#ifdef MUT_PARK_SHUT
# define PARK_DUE(l) DUE(l)
#else
# define PARK_DUE(l) (OPEN(l) && DUE(l))
#endif
#define PARK_WHOLE(l) (OPEN(l) && WHOLE(l))
#ifdef MUT_PARK_NO_WAIT
# define PARK_WAIT(l) skip
#else
# define PARK_WAIT(l) found = found || PARK_DUE(l)
#endif

#define TOUCH_OPEN(l) assert(!row[l].open || !released || (l) != CLOSED_LANE)
#define FRESH job_age[0] = 0; wake_age[0] = 0; job_age[LANES - 1] = 0; wake_age[LANES - 1] = 0 /* after a sleep */

/* First the flags, then the last look at lanes, sleepers, admin lane and inbox (with a store-load fence between, as in the
 * client): one of the two sides sees the other. The flags are down again before the next turn. */
inline park()
{
#ifndef MUT_FLAG_LATE
    park_flag(true);
#endif
    do
    :: atomic { k < LANES && !found -> TOUCH_OPEN(k); found = OPEN(k) && BEGUN(k) };
        found = found && PARK_WHOLE(k);
        atomic { PARK_WAIT(k); k++ }
    :: atomic { k == LANES || found -> found = (found || inbox != 0 || admin_op != 0); k = 0 }; break
    od;
    if
    :: !found ->
#ifdef MUT_FLAG_LATE
        park_flag(true);
#endif
#ifdef MUT_BELL_LATE
        doorbell = false; /* of an earlier sleep, it believes */
#endif
end_asleep:
        (doorbell);
        doorbell = false;
        park_flag(false);
        atomic { FRESH; aim(); issue() };
        issue_others()
    :: else ->
        park_flag(false);
        found = false
    fi
}

/* Something has come, seen or not. Otherwise all turns are alike, and the dispatcher stands still. */
#define COME(l) (OPEN(l) && (BEGUN(l) || DUE(l)))
#define TELLS (COME(0) || (LANES > 1 && COME(1)) || (LANES > 2 && COME(2)) || inbox != 0 || admin_op != 0)
#define LOADED_OF(k) (f_side[k] || (f_armed[k] && OPEN(sweep + k) && WAKE_DUE(sweep + k, f_reaped[k])))
#define LOADED (f_first || LOADED_OF(0) || (SWEEP > 1 && LOADED_OF(SWEEP - 1)) || f_inbox != 0 || f_admin != 0)
#define PARK_FINDS(l) (PARK_WHOLE(l) || PARK_DUE(l))
#define KEPT_AWAKE (PARK_FINDS(0) || (LANES > 1 && PARK_FINDS(1)) || (LANES > 2 && PARK_FINDS(2)))

proctype dispatcher()
{
    bool f_first = false, f_last = false, f_side[SWEEP], f_armed[SWEEP]; /* loads in flight */
    byte f_lane = NONE, f_reaped[SWEEP], f_inbox = 0, f_done = 0, f_admin = 0;
    bool ready[LANES];
    byte hot = 0, round = 0, held = 0, sweep = 0, turns = 0, wakes = 0;
    byte took_of = NONE, k = 0, x = 0, job_age[LANES], wake_age[LANES];
    bool whole = false, any = false, swept = false, took = false, refused = false, idle = false, found = false;
#ifdef MUT_WAIT_EDGE
    byte seen[LANES] = NONE;
#endif
    atomic { aim(); issue() };
    issue_others();
end_idle:
    do
    :: atomic { wakes == 0 && (TELLS || LOADED || !idle) -> assert(!KEPT_AWAKE || TELLS); turn() };
        if
        :: f_admin != 0 -> admin(CLOSED_LANE); atomic { look() }
        :: atomic { f_admin == 0 -> look() }
        fi;
        issue_others()
    :: wakes & 1 -> wake_pipe[0] = true; wakes = wakes - 1 /* gm_wakes_ring */
#if LANES > 1
    :: wakes & 2 -> wake_pipe[1] = true; wakes = wakes - 2
#endif
#if PARKS
    :: d_step { parks > 0 && idle && wakes == 0 -> parks-- }; park()
#endif
    od
}
