/* SPDX-License-Identifier: Apache-2.0
 *
 * The dispatcher: inbox_take_next(), inbox_done(), poll(), check(), start(), cancel(), pause(), relaunch(), park(). It
 * never waits, except for the workers to come home at a pause. Included by model.pml.
 */

/* Takes the oldest message, if its writer has finished. A phase that finds no room stays, and what is behind it too. */
#define MESSAGE(m) (inbox[in_head % PLACES].lap == LAP(in_head, PLACES) && inbox[in_head % PLACES].msg == m)
#define SENDER inbox[in_head % PLACES].entry
inline take_message()
{
    e = SENDER;
    assert(ent[e].used && inbox[in_head % PLACES].gen == ent[e].gen); /* no stale message */
    NEXT(in_head, PLACES)
}
inline inbox_take_next()
{
    d_step {
        MESSAGE(MSG_NEXT) && ROOM(WIDTH(KIND(ent[SENDER].job), ent[SENDER].phase + 1)) ->
        take_message();
        ent[e].phase++
    };
    publish()
}
inline inbox_done()
{
    d_step {
        MESSAGE(MSG_DONE) || MESSAGE(MSG_CANCELLED) ->
        take_message();
#ifndef MUT_NO_CREDIT
        credit = credit - WIDEST(KIND(ent[e].job));
#endif
        /* Leaves nothing of the job behind, which also keeps the number of states down. */
        ent[e].used = false; ent[e].abort = false; ent[e].skipped = false; ent[e].phase = 0; ent[e].job = 0;
        ent[e].lane = 0; ent[e].pos = 0; ent[e].next = 0; ent[e].flags = 0; ent[e].met = 0;
        ent[e].bar_phase = 0;
#ifndef MUT_BARRIER_DIRTY
        ent[e].bar = 0;
#endif
        e = 0
    }
}

#define SOMETHING(x) (sq0[SLOT(x, head[x])].lap == LAP(head[x], SLOTS))

/* Reads each granule once, into a private copy, and takes the descriptor only when every granule carries this lap.
 * Otherwise the copy is dropped, and all of it is read again at a later turn. */
#define HAS(g, p) (g[SLOT(l, p)].lap == LAP((p) % TURN(SLOTS), SLOTS))
#ifdef MUT_POLL_ONE
# define HAS_SECOND true
#else
# define HAS_SECOND HAS(sq1, head[l])
#endif
inline poll(l_)
{
    d_step { priv == NONE && !stopping && SOMETHING(l_) -> l = l_; a = sq0[SLOT(l, head[l])].job };
    if
    :: d_step { HAS_SECOND -> b = sq1[SLOT(l, head[l])].job }
    :: else -> a = NONE
    fi;
    if
    :: a != NONE && KIND(a) == WIDE ->
        if
        :: d_step { HAS(sq0, head[l] + 1) -> assert(sq0[SLOT(l, head[l] + 1)].job == a) }
        :: else -> a = NONE
        fi;
        if
        :: d_step { a != NONE && HAS(sq1, head[l] + 1) -> assert(sq1[SLOT(l, head[l] + 1)].job == a) }
        :: else -> a = NONE
        fi
    :: else
    fi;
    if
    :: a != NONE ->
        assert(SCRIBBLED(l) || (a == b && a / JOBS == l)); /* whole, and of this lane */
        d_step {
            priv = a;
#ifdef MUT_HEAD_EARLY
            at = head[l];
            head[l] = (head[l] + (KIND(a) == WIDE -> 2 : 1)) % TURN(SLOTS);
#endif
            a = 0; b = 0
        }
    :: else ->
progress_not_yet: /* the client is between two stores */
        d_step { a = 0; b = 0; l = 0 }
    fi
}

#ifdef MUT_HEAD_EARLY
# define AT at
# define ADVANCE skip
#else
# define AT head[l]
# define ADVANCE head[l] = (head[l] + (KIND(priv) == WIDE -> 2 : 1)) % TURN(SLOTS)
#endif

/* On the private copy alone. */
#define check(j_) (KIND(j_) != BAD)

inline refuse(status_)
{
    complete(l, AT, priv, status_);
    d_step { ADVANCE; priv = NONE; l = 0; drop = (status_ == CANCELLED -> NONE : drop) }
}

#define FREE0 !ent[0].used
#if ENTRIES > 1
# define FREE1 !ent[1].used
#else
# define FREE1 false
#endif
#if ENTRIES > 2
# define FREE2 !ent[2].used
#else
# define FREE2 false
#endif
#define FREE (FREE0 || FREE1 || FREE2)
#ifdef MUT_NO_CREDIT
# define CREDIT(k) true
#else
# define CREDIT(k) (credit + WIDEST(k) <= RING)
#endif

/* Reserves whatever the job will ever need, and publishes its first phase. The head moves here and not in poll(), so a
 * descriptor that was read and not started is read again after a relaunch. */
#define DROPPED (priv == CANCEL_JOB && drop == AT)
#define CAN_START (check(priv) && !DROPPED && !stopping && FREE && CREDIT(KIND(priv)) && ROOM(WIDTH(KIND(priv), 0)))
inline start()
{
    d_step {
        priv != NONE && CAN_START ->
#ifdef MUT_REREAD
        priv = sq0[SLOT(l, head[l])].job;
#endif
        assert(KIND(priv) != BAD); /* what runs is what was checked */
        e = (FREE0 -> 0 : (FREE1 -> 1 : 2));
#ifndef MUT_NO_CREDIT
        credit = credit + WIDEST(KIND(priv));
        assert(credit <= RING);
#endif
        ent[e].used = true;
        ent[e].gen = (ent[e].gen + 1) % GENS;
        ent[e].job = priv;
        ent[e].lane = l;
        ent[e].pos = AT;
        ADVANCE;
        priv = NONE;
        l = 0
    };
#if IN_SLOTS
    if
    :: FITS(KIND(ent[e].job)) -> publish_job()
    :: else -> publish()
    fi
#else
    publish()
#endif
}

/* Names a job by lane and position; the lap in the position is its generation. In flight: its workers are told. Not yet
 * started: remembered, and answered where it would have started. Over: not found. */
#define CANCEL_LANE (CANCEL_JOB / JOBS)
#ifdef MUT_NO_GEN
# define NAMED(x) (ent[x].used && ent[x].lane == CANCEL_LANE && ent[x].pos % SLOTS == cancel_pos % SLOTS)
#else
# define NAMED(x) (ent[x].used && ent[x].lane == CANCEL_LANE && ent[x].pos == cancel_pos)
#endif
/* gm_admin_abort. */
inline abort_entry(x)
{
#if IN_SLOTS
    if
    :: FITS(KIND(ent[x].job)) -> publish_abort(x)
    :: else -> ent[x].abort = true
    fi
#else
    ent[x].abort = true
#endif
}
inline cancel()
{
    d_step {
        cancels > 0 && cancel_pos != NONE ->
        cancels--;
        if
        :: NAMED(0) -> abort_entry(0)
#if ENTRIES > 1
        :: NAMED(1) -> abort_entry(1)
#endif
#if ENTRIES > 2
        :: NAMED(2) -> abort_entry(2)
#endif
        :: else ->
            if
            :: (cancel_pos + TURN(SLOTS) - head[CANCEL_LANE]) % TURN(SLOTS) < SLOTS -> drop = cancel_pos
            :: else
            fi
        fi;
        cancel_pos = NONE
    }
}

/* A stop ticket for each worker, behind everything published and with nothing in between, so no gang is cut. */
inline pause()
{
#if defined(MUT_STOP_FLAG) || defined(MUT_STOP_FLAG_TICKET)
    stop_flag = true;
#else
    (ARRIVED);
    do
    :: i < WORKERS -> publish_slot(STOP, i, 0); i++
    :: d_step { i == WORKERS -> i = 0 }; break
    od;
#endif
    (halted == WORKERS)
}

#if WORKERS_SLEEP
/* wake_workers, behind a store-load fence: the slot before, the look at its sleeper after. */
inline wake_worker()
{
#ifndef MUT_WAKE_WORKER_NO_FENCE
    (ARRIVED);
#endif
    if
    :: waiting[told % RING] ->
        waiting[told % RING] = false;
        if
        :: d_step { sleepers[told % RING] > 0 -> sleepers[told % RING]--; woken[told % RING]++ }
        :: d_step { sleepers[told % RING] == 0 -> skip }
        fi
    :: else
    fi;
    NEXT(told, RING)
}
#endif

/* The kernel has returned. What it had in registers is gone: a polled descriptor that was not started among it. */
inline relaunch()
{
    d_step {
#if !defined(MUT_STOP_FLAG) && !defined(MUT_STOP_FLAG_TICKET)
        assert(ticket == tail); /* no drawn ticket is lost, none is drawn twice */
#endif
        stop_flag = false;
        priv = NONE; l = 0;
#ifdef MUT_HEAD_EARLY
        at = 0;
#endif
        stopping = false;
        halted = 0;
        life = 1 - life
    }
}

/* The flags of the lanes, then the one that the host and the workers look at. */
inline park_flag(up)
{
    do
    :: i < LANES -> asleep[i] = up; i++
    :: d_step { i == LANES -> i = 0 }; break
    od;
    asleep_admin = up
}

/* The kernel returns to sleep behind stop tickets and the host starts it again; or, with PARK_IN_FLIGHT (the CPU
 * backend), the dispatcher sleeps on the doorbell alone, and a worker that pushes into the inbox rings too. */
inline sleep()
{
#if PARK_IN_FLIGHT
    skip;
end_asleep:
    d_step { doorbell -> doorbell = false }
#else
    pause();
    gone = true;
end_parked:
    d_step { life != seen -> seen = life }
#endif
}

/* First the flags, then the last look at lanes and inbox (with a store-load fence between, as in the client): one of the
 * two sides sees the other. The flags are down again before the next poll. */
inline park()
{
    park_flag(true);
    do
    :: i < LANES && !SOMETHING(i) -> i++
    :: i < LANES && SOMETHING(i) -> /* half a descriptor keeps nobody awake: its client rings when it is whole */
        if
        :: sq1[SLOT(i, head[i])].lap != LAP(head[i], SLOTS) -> i++
        :: else -> break
        fi
    :: i == LANES -> break
    od;
    if
    :: i == LANES && inbox[in_head % PLACES].lap != LAP(in_head, PLACES) ->
        i = 0;
        sleep()
    :: else -> i = 0
    fi;
    park_flag(false)
}

/* Nobody rings for a phase that waits in the inbox of a GPU, so there only with nothing in flight. */
#if PARK_IN_FLIGHT || defined(MUT_PARK_BUSY)
# define MAY_PARK true
#else
# define MAY_PARK NONE_USED
#endif

/* One step of a turn after another, in any order: the proof does not lean on policy. Guards stand for "try, else skip". */
proctype dispatcher()
{
    byte priv = NONE, l = 0, a = 0, b = 0, e = 0, n = 0, i = 0;
    bool seen = false;
#ifdef MUT_HEAD_EARLY
    byte at = 0;
#endif
#ifdef MUT_STOP_PIECES
    byte stops = 0;
#endif
#if WORKERS_SLEEP
    byte told = RING_START; /* position up to which workers were woken */
#endif
end_idle:
    do
    :: inbox_take_next()
    :: inbox_done()
    :: poll(0)
#if LANES > 1
    :: poll(1)
#endif
    :: priv != NONE && !check(priv) -> refuse(REFUSED)
    :: priv != NONE && check(priv) && DROPPED -> refuse(CANCELLED)
    :: start()
#ifdef MUT_GANG_PIECES
    SECOND_PIECE(0)
    SECOND_PIECE(1)
#endif
#if WORKERS_SLEEP
    :: told != tail -> wake_worker()
#endif
#if CANCELS
    :: cancel()
#endif
#if PAUSES && defined(MUT_STOP_PIECES)
    :: pauses > 0 && ROOM(1) ->
        publish_slot(STOP, 0, 0);
        stops++;
        if
        :: stops == WORKERS -> stops = 0; pauses--; (halted == WORKERS); relaunch()
        :: else
        fi
#elif PAUSES
    :: d_step { pauses > 0 && !stopping -> pauses--; stopping = true }
    :: stopping && ROOM(WORKERS) -> pause(); relaunch()
#endif
#if PARKS
    :: d_step { parks > 0 && priv == NONE && MAY_PARK && ROOM(WORKERS) -> parks-- }; park()
#endif
    od
}
