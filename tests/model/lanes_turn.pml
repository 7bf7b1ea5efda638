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
# define LOOK_AGAIN (turns / WINDOWS % GAP == 0)
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

/* A lane that waits for the pool has every second turn: jobs of others that need none are served between. */
#if POOLS && !defined(MUT_POOL_HOGS)
# define HELD_TURN (held != 0 && (!held_pool || turns % 2 == 1))
#else
# define HELD_TURN (held != 0)
#endif

/* gm_policy_pick, gm_policy_aimed. */
inline aim()
{
    f_lane = NEXT_READY;
    if
    :: HELD_TURN -> f_lane = held - 1
#ifdef MUT_HOT_FIRST
    :: !HELD_TURN && hot != 0 && OPEN(hot - 1) -> f_lane = hot - 1
#endif
    :: !HELD_TURN && f_lane != NONE && OPEN(f_lane)
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

/* gm_poll_issue: the granules of the lane; gm_side_look: the looks beside it. Each load is a step. */
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

/* gm_poll_complete, gm_side_lane: what came with the last look. */
inline poll()
{
#if GAP > 1 || POOLS
    turns = (turns + 1) % (TURNS * WINDOWS * GAP);
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

/* gm_pool_waits: the pool is given out first in, first out. */
#define NEEDS_POOL(l) POOLED(l, INDEX(row[l].head))
#if POOLS
# define POOL_WAITS(l) (held != 0 && held_pool && held != (l) + 1)
#else
# define POOL_WAITS(l) false
#endif
#define HAS_ROOM(l) (FREE && (!NEEDS_POOL(l) || (!pool_taken && !POOL_WAITS(l))))

/* What is complete at the head of the lane is refused, started, or waits for an entry, or for the pool (gm_start_held). */
inline start()
{
    took = whole;
    refused = (whole && BAD(f_lane, INDEX(row[f_lane].head)));
    if
    :: refused -> complete(f_lane, row[f_lane].head, REFUSED)
    :: took && !refused && HAS_ROOM(f_lane) ->
#if POOLS
        pool_taken = (pool_taken || NEEDS_POOL(f_lane));
        ent[(FREE0 -> 0 : 1)].pooled = NEEDS_POOL(f_lane);
#endif
        x = (FREE0 -> 0 : 1);
        ent[x].lane = f_lane;
        ent[x].pos = row[f_lane].head;
        ent[x].used = true;
        ent[x].ticket = true;
        x = 0
    :: took && !refused && !HAS_ROOM(f_lane) ->
        took = false;
#if POOLS
        held_pool = (held == 0 || held == f_lane + 1 -> FREE : held_pool);
#endif
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

/* gm_turn_books, gm_start_count, gm_start_abuse: behind the next look, but before an admin descriptor, which may close
 * this lane: then its note is the next owner's. */
inline books()
{
    if
    :: took_of == NONE
    :: else ->
        TOUCH(took_of);
        row[took_of].completed = row[took_of].completed + refused;
#if ABUSE
        row[took_of].refused_run = (refused -> row[took_of].refused_run + 1 : 0);
        if
        :: row[took_of].refused_run == ABUSE && !row[took_of].shut -> lane_shut(took_of); note_closed = true
        :: else
        fi;
#endif
        served_lane = took_of;
        took_of = NONE; refused = false
    fi
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
#ifndef MUT_NOTE_LATE
        books();
#endif
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

/* gm_back_inbox, gm_back_give: of the messages that came with the last look. */
inline inbox_done(e)
{
    if
    :: (f_done >> e) & 1 ->
        row[ent[e].lane].completed++;
#if POOLS
        pool_taken = (pool_taken && !ent[e].pooled);
        ent[e].pooled = false;
#endif
        ent[e].used = false; ent[e].abort = false; ent[e].lane = 0; ent[e].pos = 0
    :: else
    fi
}

/* A turn is over in which this was there and was not acted on. */
#define TAKEABLE(l) (OPEN(l) && WHOLE(l) && (HAS_ROOM(l) || BAD(l, INDEX(row[l].head))))
#define DUE(l) (row[l].open && armed[l] && WAKE_DUE(l, reaped[l]))
inline grow_older(l_)
{
    job_age[l_] = (TAKEABLE(l_) && served_lane != l_ -> job_age[l_] + 1 : 0);
    wake_age[l_] = (OPEN(l_) && DUE(l_) -> (reaped[l_] == due_for[l_] -> wake_age[l_] + 1 : 1) : 0);
    due_for[l_] = (wake_age[l_] != 0 -> reaped[l_] : 0);
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
    f_done = 0; served_lane = NONE;
    took = false; whole = false; any = false; swept = false
}

/* gm_turn: one step up to the first store that others see, the admin descriptor, then the next look. */
inline turn()
{
    poll();
    start();
    f_done = f_inbox;
    inbox = inbox & (255 - f_done);
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

#include "lanes_park.pml"

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
#if POOLS
    bool held_pool = false; /* and what it waits for is the pool */
#endif
    byte hot = 0, round = 0, held = 0, sweep = 0, turns = 0, wakes = 0;
    byte took_of = NONE, served_lane = NONE, k = 0, x = 0, job_age[LANES], wake_age[LANES], due_for[LANES];
    bool whole = false, any = true, swept = false, took = false, refused = false, idle = false, found = false;
#ifdef MUT_WAIT_EDGE
    byte seen[LANES] = NONE;
#endif
    goto look_again; /* gm_turn_begin */
end_idle:
    do
    :: atomic {
            wakes == 0 && (TELLS || LOADED || !idle) ->
            assert(!KEPT_AWAKE || TELLS);
            turn();
            if
            :: f_admin == 0 -> goto look_again
            :: else -> break
            fi
        }
    :: wakes & 1 -> wake_pipe[0] = true; wakes = wakes - 1 /* gm_wakes_ring */
#if LANES > 1
    :: wakes & 2 -> wake_pipe[1] = true; wakes = wakes - 2
#endif
#if PARKS
    :: d_step { parks > 0 && idle && wakes == 0 -> parks-- };
        park();
        if
        :: any -> goto look_again
        :: else
        fi
#endif
    od;
    admin(CLOSED_LANE);
look_again:
    atomic { look() };
    issue_others();
    goto end_idle
}
