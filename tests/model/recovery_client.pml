/* SPDX-License-Identifier: Apache-2.0
 *
 * The client of recovery.pml. It knows nothing of deaths: it writes where nothing is owed, or a skip slot where something
 * is, reads its answers, and sleeps. Included by recovery.pml.
 */

/* Something is owed for an earlier position of the slot. */
#define OWED(p) ((owed >> (p)) & 1)
#define BEFORE(p) ((p) >= SLOTS && OWED((p) - SLOTS))
#define BEFORE2(p) ((p) >= 2 * SLOTS && OWED((p) - 2 * SLOTS))
#define SLOT_FREE(p) (!BEFORE(p) && !BEFORE2(p) && ((p) < SLOTS || kind[(p) - SLOTS] != SKIP || PROVEN(p)))

/* What stands in the slot of p was taken: a later one has been answered. The stores of a turn are a moment apart, and all
 * of them are there long before the client has gone round: nothing else orders the mark of a plain job against that. */
#define LATER(p) (read >> ((p) - SLOTS + 1))
#ifdef MUT_MARK_SLOW
# define PROVEN(p) (LATER(p) != 0)
#else
# define PROVEN(p) (LATER(p) != 0 && (kind[(p) - SLOTS] == SKIP || journal[SLOT(p)] == WORD((p) - SLOTS)))
#endif

#define FITS(n) (tail + (n) <= POSITIONS && SLOT_FREE(tail) && ((n) == 1 || SLOT_FREE(tail + 1)))

/* The first granule may be there long before the others. */
inline write_one(kind_)
{
    atomic { kind[tail] = kind_; first[SLOT(tail)] = WORD(tail) };
    atomic {
        whole[SLOT(tail)] = WORD(tail);
        owed = (IS_JOB(kind_) -> owed | BIT(tail) : owed);
        tail++
    }
}
inline write_wide()
{
    atomic { kind[tail] = WIDE; kind[tail + 1] = HALF; first[SLOT(tail + 1)] = WORD(tail + 1); whole[SLOT(tail + 1)] = WORD(tail + 1) };
    first[SLOT(tail)] = WORD(tail);
    atomic {
        whole[SLOT(tail)] = WORD(tail);
        owed = owed | BIT(tail);
        tail = tail + 2
    }
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
    :: skips > 0 && tail + 2 <= POSITIONS && tail >= SLOTS && BEFORE(tail) && PROVEN(tail) && SLOT_FREE(tail + 1) ->
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
