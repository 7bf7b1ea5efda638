/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker: draw(), ack(), the run of a share, arrive(), complete(), inbox_push(). It holds one ticket at a time. Included
 * by model.pml.
 */

inline draw()
{
    d_step { t = ticket; NEXT(ticket, RING) }
}

/* The slot may be written again from here on. */
inline ack()
{
    d_step { read_ack[t % RING] = LAP(t, RING); acked = (acked + 1) % TURN(RING); t = 0 }
}

/* gm_draw_try: the ticket is there when its first granule carries its lap, and, when that says that the job lies in the
 * slot, all of them do. A granule that is there stays until the slot is acknowledged, so that one look at all of them
 * and one look after another find the same. */
#ifdef MUT_FIRST_GRANULE
# define WHOLE_SLOT true
#else
# define WHOLE_SLOT (ring[t % RING].lap1 == LAP(t, RING) && ring[t % RING].lap2 == LAP(t, RING))
#endif
#define DRAWN (ring[t % RING].lap == LAP(t, RING))
#if IN_SLOTS
# define LIES_THERE (ring[t % RING].share == INLINE || ring[t % RING].share == ABORTED)
# define TRIED (DRAWN && (!LIES_THERE || WHOLE_SLOT))
#else
# define TRIED DRAWN
#endif

#if WORKERS_SLEEP
/* It sleeps on the lap of the first granule, which changes when its ticket comes, but not when the rest of it does: while
 * it has the awaited lap already, the worker looks again. */
inline wait_for_slot()
{
    do
    :: TRIED -> break
    :: else ->
        k = ring[t % RING].lap;
        waiting[t % RING] = true;
        if
        :: TRIED -> break
# ifdef MUT_SLEEP_ON_LAP
        :: !TRIED ->
# else
        :: !TRIED && k == LAP(t, RING)
        :: !TRIED && k != LAP(t, RING) ->
# endif
            if
            :: d_step { ring[t % RING].lap == k -> sleepers[t % RING]++ };
end_asleep:
                d_step { woken[t % RING] > 0 -> woken[t % RING]-- }
            :: ring[t % RING].lap != k
            fi
        fi
    od;
    k = 0
}
#endif

#if IN_SLOTS
/* What the other granules say, before the slot is acknowledged; the entry's content here is a ghost. */
inline take_job(t_)
{
    d_step {
        assert(!there || (ring[t_ % RING].job1 == ent[e].job && ring[t_ % RING].job2 == ent[e].job)) /* whole */
    }
}
#endif

inline meet()
{
    d_step {
        k++;
        bp = ent[e].bar_phase;
        ent[e].met++;
        ent[e].bar++;
        if
        :: ent[e].bar == WIDTH(KIND(ent[e].job), ent[e].phase) ->
            ent[e].bar = 0;
            ent[e].bar_phase = 1 - ent[e].bar_phase
        :: else
        fi
    };
    d_step {
#ifdef MUT_BARRIER_COUNT
        ent[e].bar == 0 || ent[e].abort ->
#else
        ent[e].bar_phase != bp || ent[e].abort ->
#endif
        assert(ent[e].abort || ent[e].met >= k * WIDTH(KIND(ent[e].job), ent[e].phase));
        bp = 0
    }
}

/* The push before, the look at the flag after (with a store-load fence between). */
inline ring_bell()
{
#ifndef MUT_PUSH_NO_FENCE
    f = asleep_admin;
#endif
    if
    :: f -> doorbell = true; f = false
    :: else
    fi
}

/* Reserves a place, then fills it; between the two the dispatcher sees the place as empty and goes on. */
inline inbox_push(msg_)
{
#ifdef MUT_PUSH_NO_FENCE
    f = asleep_admin;
#endif
    d_step {
        k = in_tail;
        NEXT(in_tail, PLACES);
        assert((in_tail + TURN(PLACES) - in_head) % TURN(PLACES) <= PLACES) /* never full */
    };
    d_step {
        inbox[k % PLACES].entry = e;
        inbox[k % PLACES].gen = g;
        inbox[k % PLACES].msg = msg_;
        inbox[k % PLACES].lap = LAP(k, PLACES);
        k = 0
    };
#if PARK_IN_FLIGHT
    ring_bell()
#endif
}

/* Back in the next launch, with fresh registers and a fresh ticket. */
inline next_launch()
{
    d_step { life != seen -> seen = life }
}

inline run_gang()
{
    do
    :: k < BARRIERS(KIND(ent[e].job)) && !ent[e].abort -> meet()
    :: k < BARRIERS(KIND(ent[e].job)) && ent[e].abort -> ent[e].skipped = true; break
    :: k == BARRIERS(KIND(ent[e].job)) -> break
    od;
    k = 0
}

/* Tiles from the job's counter, each after the one below, which a running worker holds. Poison alone must be enough to
 * get past a skipped tile: the look at the abort word in that wait is a second belt, and is left out. */
inline run_tiles()
{
    do
    :: d_step { k < TILES(KIND(ent[e].job)) -> k = ent[e].next; ent[e].next++ };
        if
        :: k >= TILES(KIND(ent[e].job)) -> break
        :: k < TILES(KIND(ent[e].job)) && ent[e].abort ->
#ifdef MUT_SKIP_POISON
            ent[e].skipped = true
#else
            d_step { ent[e].skipped = true; ent[e].flags = ent[e].flags | (1 << k) }
#endif
#ifdef MUT_SKIP_ARRIVE
            dropped = true; break
#endif
        :: k < TILES(KIND(ent[e].job)) && !ent[e].abort ->
            (k == 0 || ((ent[e].flags >> (k - 1)) & 1));
            ent[e].flags = ent[e].flags | (1 << k)
        fi;
        k = 0
    :: k == TILES(KIND(ent[e].job)) -> break
    od;
    k = 0
}

inline arrive()
{
#ifdef MUT_ARRIVE_SPLIT
    x = ent[e].left;
    d_step { ent[e].left = x - 1; live--; last = (x == 1); x = 0 }
#else
    d_step {
#if IN_SLOTS
        if
        :: there -> last = true /* nobody else can arrive, and nothing is counted */
        :: else -> assert(ent[e].left > 0); ent[e].left--; last = (ent[e].left == 0)
        fi;
#else
        assert(ent[e].left > 0); ent[e].left--; last = (ent[e].left == 0);
#endif
        live--
    }
#endif
}

/* gm_inbox_answered. */
#define ANSWERED(st) (st == OK -> MSG_DONE : MSG_CANCELLED)

#if IN_SLOTS
# define TOLD (there -> cut : ent[e].abort)
#else
# define TOLD ent[e].abort
#endif

/* A skipped tile leaves the abort word set, so no job that skipped one ends well. */
inline finish()
{
    st = (TOLD -> CANCELLED : OK);
    if
    :: st == OK && ent[e].phase + 1 < PHASES(KIND(ent[e].job)) -> inbox_push(MSG_NEXT)
    :: else ->
        assert(st == CANCELLED || (!ent[e].skipped && ent[e].flags == (1 << TILES(KIND(ent[e].job))) - 1));
#ifdef MUT_DONE_FIRST
        inbox_push(ANSWERED(st));
        complete(ent[e].lane, ent[e].pos, ent[e].job, st)
#else
        complete(ent[e].lane, ent[e].pos, ent[e].job, st);
        inbox_push(ANSWERED(st))
#endif
    fi;
    d_step { st = 0; last = false }
}

proctype worker()
{
    byte t = 0, e = 0, g = 0, s = 0, k = 0, st = 0;
    bool bp = false, seen = false, last = false, f = false;
#if defined(MUT_ARRIVE_SPLIT) || defined(MUT_ACK_FIRST)
    byte x = 0;
#endif
#if IN_SLOTS
    bool there = false, cut = false; /* the job lay in the slot, and was cancelled there */
#endif
#ifdef MUT_SKIP_ARRIVE
    bool dropped = false;
#else
# define dropped false
#endif

    draw();
end_draw:
    do
#if WORKERS_SLEEP
    :: wait_for_slot();
        d_step {
#else
    :: d_step {
#endif
            TRIED ->
            e = ring[t % RING].entry;
            s = ring[t % RING].share;
            g = ring[t % RING].gen;
#if IN_SLOTS
            there = (s == INLINE || s == ABORTED);
            cut = (s == ABORTED)
#endif
        };
#ifdef MUT_ACK_FIRST
        d_step { x = t };
        ack();
        take_job(x);
#elif IN_SLOTS
        take_job(t);
        ack();
#else
        ack();
#endif
        if
        :: e == STOP ->
            d_step { e = 0; s = 0; halted++ };
end_stopped:
            next_launch();
            draw()
        :: else ->
            d_step {
                assert(ent[e].used && ent[e].gen == g); /* no stale ticket */
#if IN_SLOTS
                s = (there -> 0 : s);
#endif
                assert((ent[e].due >> s) & 1);          /* each share once */
                ent[e].due = ent[e].due - (1 << s);
                s = 0
            };
#ifdef MUT_TWO_TICKETS
            draw();
#endif
            run_gang();
            run_tiles();
            if
            :: !dropped -> arrive()
            :: else
            fi;
            if
            :: last -> finish()
            :: else
            fi;
#if IN_SLOTS
            d_step { e = 0; g = 0; there = false; cut = false };
#else
            d_step { e = 0; g = 0 };
#endif
#ifndef MUT_TWO_TICKETS
            draw()
#endif
        fi
#ifdef MUT_STOP_FLAG
    :: stop_flag -> halted++; next_launch() /* keeps its ticket over the relaunch, which flatters the flag */
#endif
#ifdef MUT_STOP_FLAG_TICKET
    :: stop_flag -> halted++; next_launch(); draw()
#endif
    od
}
