/* SPDX-License-Identifier: Apache-2.0
 *
 * The client of recovery.pml. It knows nothing of deaths: it writes where nothing is owed, or a skip slot where something
 * is, reads its answers, and sleeps. Included by recovery.pml.
 */

/* Something is owed for an earlier position of the slot. */
#define OWED(p) ((owed >> (p)) & 1)
#define BEFORE(p) ((p) >= SLOTS && OWED((p) - SLOTS))
#define BEFORE2(p) ((p) >= 2 * SLOTS && OWED((p) - 2 * SLOTS))
#define SLOT_FREE(p) (!BEFORE(p) && !BEFORE2(p) && ROUND(p))

/* What is on the bus arrives before a client that has read an answer comes round to the slot. What the dispatcher has
 * not stored yet may take as long as it likes. */
#define ROUND(p) ((p) < SLOTS || (MARKS_ARRIVED && !bus_note && (kind[(p) - SLOTS] != SKIP || PROVEN(p))))

/* What stands in the slot of p was taken: a later one has been answered. That its mark is there too is what recovery
 * leans on: under a skip slot nothing else tells of the job. */
#define LATER(p) (read >> ((p) - SLOTS + 1))
#ifdef MUT_MARK_SLOW
# define PROVEN(p) (LATER(p) != 0)
#else
# define PROVEN(p) (LATER(p) != 0 && (kind[(p) - SLOTS] == SKIP || journal[SLOT(p)] == WORD((p) - SLOTS)))
#endif

#define FITS(n) (tail + (n) <= POSITIONS && SLOT_FREE(tail) && ((n) == 1 || SLOT_FREE(tail + 1)))

inline begin(p)
{
    first[SLOT(p)] = WORD(p)
}
inline written(p)
{
    whole[SLOT(p)] = WORD(p);
    owed = (IS_JOB(kind[p]) -> owed | BIT(p) : owed)
}

/* The first granule may be there long before the others. */
inline write_one(kind_)
{
    if
    :: tail < SLOTS -> atomic { kind[tail] = kind_; begin(tail); written(tail); tail++ }
    :: tail >= SLOTS -> atomic { kind[tail] = kind_; begin(tail) }; atomic { written(tail); tail++ }
    fi
}
inline write_wide()
{
    atomic { kind[tail] = WIDE; kind[tail + 1] = HALF; begin(tail + 1); written(tail + 1) };
    begin(tail);
    atomic { written(tail); tail = tail + 2 }
}

#define STANDS(s) (cq[s] - 1)
#define ANSWERED(s) (cq[s] != 0 && OWED(STANDS(s)))
inline reap(s)
{
    d_step {
        ANSWERED(s) ->
        assert((cq_status[s] == REFUSED) == (kind[STANDS(s)] == BAD) || cq_status[s] == DEVICELOST);
        owed = owed & (255 - BIT(STANDS(s)));
        read = read | BIT(STANDS(s));
        got++
    }
}
#if SLOTS > 2
# define NONE_ANSWERED (!ANSWERED(0) && !ANSWERED(1) && !ANSWERED(2) && !ANSWERED(3))
#else
# define NONE_ANSWERED (!ANSWERED(0) && !ANSWERED(1))
#endif

/* As in lanes_client.pml; the state is looked at too. */
inline rest()
{
    d_step { NONE_ANSWERED && owed != 0 && lane_state != LOST -> reaped = got; armed = true };
    if
    :: !NONE_ANSWERED || lane_state == LOST
    :: else -> (wake_pipe)
    fi;
    armed = false;
    wake_pipe = false
}

proctype client()
{
    byte tail = 0, owed = 0, read = 0, got = 0, skips = SKIPS;
    do
    :: FITS(1) -> write_one(PLAIN)
#if HOSTS
    :: FITS(1) -> write_one(HOST)
#endif
#if BADS
    :: FITS(1) -> write_one(BAD)
#endif
#if WIDES
    :: FITS(2) -> write_wide()
#endif
#if SKIPS
    :: skips > 0 && tail + 2 <= POSITIONS && tail >= SLOTS && BEFORE(tail) && MARKS_ARRIVED && !bus_note && PROVEN(tail) && SLOT_FREE(tail + 1) ->
        skips--;
        write_one(SKIP);
        write_one(PLAIN)
#endif
    :: reap(0)
    :: reap(1)
#if SLOTS > 2
    :: reap(2)
    :: reap(3)
#endif
#if RESTS
    :: rest()
#endif
    :: owed == 0 -> break /* it may stop at any time */
    :: lane_state == LOST && NONE_ANSWERED -> break
    od
}
