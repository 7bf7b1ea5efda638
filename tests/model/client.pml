/* SPDX-License-Identifier: Apache-2.0
 *
 * A client and its lane: lane_submit(), reap(), and one that writes over its own descriptors. Included by model.pml.
 */

/* One granule: payload and lap in one 16-byte store. */
inline put(g)
{
#ifdef MUT_PAYLOAD_LATE
    g.lap = LAP(q, SLOTS);
    g.job = j
#else
    d_step { g.lap = LAP(q, SLOTS); g.job = j }
#endif
}

/* Granules become visible in any order. */
inline lane_submit()
{
    j = l * JOBS + sent;
    w = (KIND(j) == WIDE -> 15 : 3);
    do
    :: w & 1 -> q = p; put(sq0[SLOT(l, q)]); w = w - 1
    :: w & 2 -> q = p; put(sq1[SLOT(l, q)]); w = w - 2
    :: w & 4 -> q = (p + 1) % TURN(SLOTS); put(sq0[SLOT(l, q)]); w = w - 4
    :: w & 8 -> q = (p + 1) % TURN(SLOTS); put(sq1[SLOT(l, q)]); w = w - 8
    :: d_step { w == 0 -> q = 0 }; break
    od;
    atomic {
        held[p % SLOTS] = j;
        lap[p % SLOTS] = LAP(p, SLOTS);
        if
        :: j == CANCEL_JOB -> cancel_pos = p
        :: else
        fi;
        NEXT(p, SLOTS);
        if
        :: KIND(j) == WIDE -> held[p % SLOTS] = TAIL; NEXT(p, SLOTS)
        :: else
        fi;
        j = 0;
        sent++
    };
#if PARKS
    f = asleep[l];
    if
    :: f -> doorbell = true; f = false
    :: else
    fi
#endif
}

#if SCRIBBLE
# define SCRIBBLED(l) ((l) == 0)
#else
# define SCRIBBLED(l) false
#endif
#ifdef MUT_SLOT_REUSE
# define ROOM_IN_LANE true
#else
# define ROOM_IN_LANE (held[p % SLOTS] == NONE && (KIND(l * JOBS + sent) != WIDE || held[(p + 1) % SLOTS] == NONE))
#endif

inline reap(s)
{
    d_step {
        held[s] < TAIL && cq[l * SLOTS + s].lap == lap[s] ->
        assert(SCRIBBLED(l) || cq[l * SLOTS + s].job == held[s]); /* the answer belongs to the question */
        assert(SCRIBBLED(l) || (cq[l * SLOTS + s].status == REFUSED) == (KIND(held[s]) == BAD));
        assert(cq[l * SLOTS + s].status != CANCELLED || held[s] == CANCEL_JOB); /* nobody else is cancelled */
        if
        :: KIND(held[s]) == WIDE -> held[(s + 1) % SLOTS] = NONE
        :: else
        fi;
        held[s] = NONE;
        lap[s] = 0;
        got++
    }
}

#if ENTRIES > 2
# define NONE_USED (!ent[0].used && !ent[1].used && !ent[2].used)
#elif ENTRIES > 1
# define NONE_USED (!ent[0].used && !ent[1].used)
#else
# define NONE_USED !ent[0].used
#endif

proctype client(byte l)
{
    byte p = LANE_START, sent = 0, got = 0, j = 0, q = 0, w = 0;
    byte held[SLOTS] = NONE, lap[SLOTS];
    bool f = false;
    do
    :: sent < JOBS && ROOM_IN_LANE -> lane_submit()
    :: reap(0)
    :: reap(1)
#if SLOTS > 2
    :: reap(2)
    :: reap(3)
#endif
    :: got == JOBS -> break
    od;
    (NONE_USED && credit == 0 && live == 0) /* every entry and every credit comes back */
}

#if SCRIBBLE
/* The owner of lane 0 writes over its descriptors at any moment: another good job, a bad one. Only its own answers may
 * suffer. */
active proctype scribbler()
{
    byte n = 0;
    do
    :: n < SCRIBBLE -> n++; sq0[0].job = (n % 2 -> 4 : 0)
    :: n < SCRIBBLE -> n++; sq0[1].job = (n % 2 -> 4 : 0)
    :: n == SCRIBBLE -> break
    od
}
#endif
