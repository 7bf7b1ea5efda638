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
#if PARKS
# ifndef MUT_NO_FENCE
    f = asleep[l];
# endif
    if
    :: f -> doorbell = true; f = false
    :: else
    fi
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

/* Says how much it has reaped and that it wants to be woken for more, then looks once more, then sleeps until the pipe
 * is readable, or something else comes. It empties the pipe before the next look at its completions. */
inline rest()
{
    d_step { RESTING(l) && !ANSWERED(0) && !ANSWERED(1) && got < sent -> reaped[l] = got; armed[l] = true };
    if
    :: ANSWERED(0) || ANSWERED(1)
    :: else ->
#ifdef MUT_DRAIN_LATE
        wake_pipe[l] = false; /* the byte of this sleep may have come already */
#endif
        if
        :: wake_pipe[l]
        :: d_step { events > 0 -> events-- }
        :: LEAVES(l)
        fi
    fi;
    armed[l] = false;
    wake_pipe[l] = false
}

proctype client(byte l)
{
    byte p = LANE_START, sent = 0, got = 0;
    byte owed[SLOTS];
    bool f = false;
    do
    :: sent < JOBS(l) && ROOM_IN_LANE -> lane_submit()
    :: reap(0)
    :: reap(1)
#if RESTS
    :: rest()
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
