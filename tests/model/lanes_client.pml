/* SPDX-License-Identifier: Apache-2.0
 *
 * A client of lanes.pml: lane_submit() with the doorbell, reap(), rest(). One whose lane is closed leaves wherever it is,
 * as one that dies does. Included by lanes.pml.
 */

#define LEAVES(l) ((closing && (l) == CLOSED_LANE) || (SCRIBBLES != 0 && (l) == 0))
#define ROOM_IN_LANE (owed[p % SLOTS] == 0)

inline written()
{
    owed[p % SLOTS] = LAP(p, SLOTS) + 1;
    NEXT(p, SLOTS);
    sent++
}

#if EVENTS
/* gm__lanes_ring, when events drive the client: it looks at no completion now, so it must be told of the first. */
inline arm_unless()
{
    if
    :: !armed[l] -> d_step { reaped[l] = got; armed[l] = true }
    :: else
    fi
}
#endif

/* The granules in any order, and anything may happen between them; then a store-load fence, and the look at the flag. */
inline lane_submit()
{
#ifdef MUT_NO_FENCE
    f = asleep[l]; /* the load overtakes the stores */
#endif
    if
#if SLOW
    :: sq0[SLOT(l, p)] = LAP(p, SLOTS);
        if
        :: atomic { sq1[SLOT(l, p)] = LAP(p, SLOTS); written() }
        :: LEAVES(l) -> break
        fi
    :: sq1[SLOT(l, p)] = LAP(p, SLOTS); atomic { sq0[SLOT(l, p)] = LAP(p, SLOTS); written() }
#else
    :: atomic { sq0[SLOT(l, p)] = LAP(p, SLOTS); sq1[SLOT(l, p)] = LAP(p, SLOTS); written() }
#endif
    fi;
#if EVENTS && !defined(MUT_ARM_AFTER_BELL)
    arm_unless();
#endif
#if PARKS
# ifndef MUT_NO_FENCE
    f = asleep[l];
# endif
    if
    :: f -> doorbell = true; f = false
    :: else
    fi
#endif
#ifdef MUT_ARM_AFTER_BELL
    ; arm_unless()
#endif
}

#define ANSWERED(s) (owed[s] != 0 && cq[SLOT(l, s)].lap == owed[s] - 1)
inline reap(s)
{
    d_step {
        ANSWERED(s) ->
        assert(cq[SLOT(l, s)].status != CANCELLED || LEAVES(l)); /* nobody else's jobs are told to abort */
        owed[s] = 0;
        got++
    }
}

/* gm__lane_reap. */
#define NOTHING_ANSWERED (!ANSWERED(0) && !ANSWERED(1))
inline reap_all()
{
    do
    :: reap(0)
    :: reap(1)
    :: NOTHING_ANSWERED -> break
    od
}

/* gm__lanes_arm: says how much it has reaped and that it wants to be woken for more, then looks once more (with a
 * store-load fence between). When it finds something it says so again, but not for ever. */
inline wait_store()
{
    d_step { reaped[l] = got; armed[l] = (got < sent) }
}
inline arm()
{
    do
    ::
#ifdef MUT_ARM_NO_FENCE
        reap_all(); /* the loads overtake the store */
        wait_store();
#else
        wait_store();
        reap_all();
#endif
        if
        :: reaped[l] != got
        :: break
        fi
    od
}

#if RESTS && !EVENTS
/* sleep_until, read_turn: until the wake pipe is readable, or something else comes. It empties the pipe before it looks
 * at its completions, and what it said holds until it says something else, or stops waiting (gm__lanes_rest). */
inline rest()
{
    do
    :: arm();
#ifdef MUT_DRAIN_LATE
        wake_pipe[l] = false; /* the byte of this sleep may have come already */
#endif
        if
        :: got == sent -> break
        :: got < sent && wake_pipe[l] -> wake_pipe[l] = false; reap_all()
        :: d_step { got < sent && events > 0 -> events-- }; reap_all()
        :: got < sent && LEAVES(l) -> break
        fi;
        if
        :: got < sent
        :: break /* what it waited for is there */
        fi
    od;
    armed[l] = false
}
#endif

#if EVENTS
/* gm_poll, by a program that looks when it is told to: the pipe first, then the completions. */
inline poll_events()
{
    wake_pipe[l] = false;
    reap_all();
    if
    :: armed[l] || got < sent -> arm()
    :: else
    fi
}
#endif

proctype client(byte l)
{
    byte p = LANE_START, sent = 0, got = 0;
    byte owed[SLOTS];
    bool f = false;
    do
    :: sent < JOBS(l) && ROOM_IN_LANE -> lane_submit()
#if EVENTS
    :: wake_pipe[l] -> poll_events()
    :: d_step { events > 0 -> events-- }; poll_events()
#else
    :: reap(0)
    :: reap(1)
#endif
#if RESTS && !EVENTS
    :: d_step { RESTING(l) && NOTHING_ANSWERED && got < sent }; rest()
#endif
    :: got == JOBS(l) || LEAVES(l) -> break
    od;
    (ALL_FREE || LEAVES(l));
    gone = (gone || l == CLOSED_LANE)
}

#if SCRIBBLES
/* The owner of lane 0 takes back what it has written, at any moment. Only its own jobs may suffer. */
active proctype scribbler()
{
    byte n = 0;
    do
    :: n < SCRIBBLES -> n++; sq0[0] = 0
    :: n < SCRIBBLES -> n++; sq0[1] = 0
    :: n == SCRIBBLES -> break
    od
}
#endif
