/* SPDX-License-Identifier: Apache-2.0
 *
 * The dispatcher: inbox_take(), publish(), poll(), check(), start(), cancel(), pause(), relaunch(), park(). It never
 * waits, except for the workers to come home at a pause. Included by model.pml.
 */

/* A position may be published when the one before it in the same slot has been read: per slot, because workers read out
 * of order, and a count of reads says nothing about which. */
#define READ_BEFORE(p) (read_ack[(p) % RING] == LAP_BEFORE(p, RING))
#if defined(MUT_NO_ACK)
# define ROOM(n) true
#elif defined(MUT_ACK_COUNT)
# define ROOM(n) ((tail + (n) + TURN(RING) - acked) % TURN(RING) <= RING)
#else
# define ROOM(n) (READ_BEFORE(tail) && ((n) < 2 || READ_BEFORE(tail + 1)) && ((n) < 3 || READ_BEFORE(tail + 2)))
#endif

inline publish_slot(e_, share_, gen_)
{
    d_step {
        ring[tail % RING].entry = e_;
        ring[tail % RING].share = share_;
        ring[tail % RING].gen = gen_;
        ring[tail % RING].lap = LAP(tail, RING);
        NEXT(tail, RING)
    }
}

/* The shares of a phase take consecutive positions: the dispatcher does nothing else in between. Without room the
 * guard of TRY_PUBLISH is false and another step of the turn is taken. */
inline publish()
{
    d_step {
        n = WIDTH(KIND(ent[e].job), ent[e].phase);
        ent[e].left = n;
        ent[e].due = (1 << n) - 1;
        ent[e].next = 0;
        ent[e].flags = 0;
#ifndef MUT_BARRIER_DIRTY
        ent[e].bar = 0; /* shares that left on the abort word have not taken their arrival back */
#endif
        ent[e].met = 0;
        ent[e].ready = false;
        live = live + n;
        assert(live <= RING) /* what credit is for */
    }
    do
    :: i < n -> publish_slot(e, i, ent[e].gen); i++
    :: d_step { i == n -> i = 0; n = 0; e = 0 }; break
    od
}

#ifdef MUT_GANG_PIECES
/* A share at a time, and back to the turn: the rest follows when there is room again. */
# define TRY_PUBLISH(x) \
    :: d_step { ent[x].ready && ROOM(1) -> e = x; n = WIDTH(KIND(ent[x].job), ent[x].phase); \
            if :: pieces[x] == 0 -> ent[x].left = n; ent[x].due = (1 << n) - 1; ent[x].next = 0; ent[x].flags = 0; \
                ent[x].bar = 0; ent[x].met = 0; live = live + n :: else fi; \
            i = pieces[x]; pieces[x] = (i + 1) % n; ent[x].ready = pieces[x] != 0 }; \
        publish_slot(e, i, ent[e].gen); d_step { i = 0; n = 0; e = 0 }
#else
# define TRY_PUBLISH(x) \
    :: d_step { ent[x].ready && ROOM(WIDTH(KIND(ent[x].job), ent[x].phase)) -> e = x }; publish()
#endif

/* Takes the oldest message, if its writer has finished. */
inline inbox_take()
{
    d_step {
        inbox[in_head % PLACES].lap == LAP(in_head, PLACES) ->
        e = inbox[in_head % PLACES].entry;
        assert(ent[e].used && inbox[in_head % PLACES].gen == ent[e].gen); /* no stale message */
        if
        :: inbox[in_head % PLACES].msg == MSG_NEXT -> ent[e].phase++; ent[e].ready = true
        :: else ->
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
            ent[e].gen = (ent[e].gen + 1) % GENS
        fi;
        e = 0;
        NEXT(in_head, PLACES)
    }
}

#define SOMETHING(x) (sq0[SLOT(x, head[x])].lap == LAP(head[x], SLOTS))
#if LANES > 1
# define ANYTHING (SOMETHING(0) || SOMETHING(1))
#else
# define ANYTHING SOMETHING(0)
#endif

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
    d_step { priv == NONE && SOMETHING(l_) -> l = l_; a = sq0[SLOT(l, head[l])].job };
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
    d_step { ADVANCE; priv = NONE; l = 0 }
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

/* Reserves whatever the job will ever need; the head moves here and not in poll(), so a descriptor that was read and
 * not started is read again after a relaunch. */
inline start()
{
    d_step {
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
        ent[e].job = priv;
        ent[e].lane = l;
        ent[e].pos = AT;
        ent[e].ready = true;
        if
        :: priv == CANCEL_JOB && cancels > 0 -> went_entry = e; went_gen = ent[e].gen
        :: else
        fi;
        ADVANCE;
        priv = NONE;
        e = 0;
        l = 0
    }
}

/* Names a job by its lane position. Not yet started: remembered, and answered where it would have started. Started: the
 * slot's note says which entry it got, and that entry is the job's only while the generation is the same. */
inline cancel()
{
    d_step {
        cancels > 0 && cancel_pos != NONE ->
        cancels--;
        if
        :: went_entry == NONE -> drop = true
        :: else ->
            if
#ifdef MUT_NO_GEN
            :: ent[went_entry].used -> ent[went_entry].abort = true
#else
            :: ent[went_entry].used && ent[went_entry].gen == went_gen -> ent[went_entry].abort = true
#endif
            :: else
            fi
        fi;
        cancel_pos = NONE; went_entry = NONE; went_gen = 0
    }
}

/* A stop ticket for each worker, behind everything published and with nothing in between, so no gang is cut. */
inline pause()
{
#if defined(MUT_STOP_FLAG) || defined(MUT_STOP_FLAG_TICKET)
    stop_flag = true;
#else
    do
    :: i < WORKERS -> publish_slot(STOP, i, 0); i++
    :: d_step { i == WORKERS -> i = 0 }; break
    od;
#endif
    (halted == WORKERS)
}

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
        halted = 0;
        life = 1 - life
    }
}

inline flag_lanes(up)
{
    do
    :: i < LANES -> asleep[i] = up; i++
    :: d_step { i == LANES -> i = 0 }; break
    od
}

/* First the flags, then the last look at the lanes (with a store-load fence between, as in the client): one of the two
 * sides sees the other. Only with no job in flight, because nobody rings for a phase that waits in the inbox. The host
 * waits for the bell with the kernel gone, and the flags are down before the next poll. */
inline park()
{
#ifndef MUT_FLAG_LATE
    flag_lanes(true);
#endif
    do
    :: i < LANES && !SOMETHING(i) -> i++
    :: else -> break
    od;
    if
    :: d_step { i == LANES -> i = 0 };
#ifdef MUT_FLAG_LATE
        flag_lanes(true);
#endif
        pause();
end_parked:
        (doorbell);
        doorbell = false;
        flag_lanes(false);
        relaunch()
    :: d_step { i < LANES -> i = 0 };
        flag_lanes(false)
    fi
}

#ifdef MUT_PARK_BUSY
# define NOTHING_IN_FLIGHT true
#else
# define NOTHING_IN_FLIGHT NONE_USED
#endif

/* One step of a turn after another, in any order: the proof does not lean on policy. Guards stand for "try, else skip". */
proctype dispatcher()
{
    byte priv = NONE, l = 0, a = 0, b = 0, e = 0, n = 0, i = 0;
#ifdef MUT_GANG_PIECES
    byte pieces[ENTRIES];
#endif
#ifdef MUT_HEAD_EARLY
    byte at = 0;
#endif
#ifdef MUT_STOP_PIECES
    byte stops = 0;
#endif
end_idle:
    do
    :: inbox_take()
    TRY_PUBLISH(0)
#if ENTRIES > 1
    TRY_PUBLISH(1)
#endif
#if ENTRIES > 2
    TRY_PUBLISH(2)
#endif
    :: poll(0)
#if LANES > 1
    :: poll(1)
#endif
    :: priv != NONE && !check(priv) -> refuse(REFUSED)
    :: priv != NONE && check(priv) && drop && priv == CANCEL_JOB -> drop = false; refuse(CANCELLED)
    :: priv != NONE && check(priv) && !(drop && priv == CANCEL_JOB) && FREE && CREDIT(KIND(priv)) -> start()
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
    :: d_step { pauses > 0 && ROOM(WORKERS) -> pauses-- }; pause(); relaunch()
#endif
#if SLEEP
    :: priv == NONE && NOTHING_IN_FLIGHT && !ANYTHING && ROOM(WORKERS) -> park()
#endif
    od
}
