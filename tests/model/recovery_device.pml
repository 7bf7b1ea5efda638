/* SPDX-License-Identifier: Apache-2.0
 *
 * The device process of recovery.pml: the dispatcher's stores in the order of device/core/start.h and turn.h, and a
 * worker. To die before a store and to lose it on the bus is the same, so stores that go out one behind another are one
 * step. Included by recovery.pml.
 */

/* Stores reach memory in any order. */
inline arrive_mark(s)
{
    d_step { bus_mark[s] != 0 -> journal[s] = bus_mark[s]; bus_mark[s] = 0 }
}
inline arrive_answer(s)
{
    d_step { bus_cq[s] != 0 -> answer(bus_cq[s] - 1, bus_status[s]); bus_cq[s] = 0; bus_status[s] = 0 }
}

proctype bus()
{
end_bus:
    do
    :: arrive_mark(0)
    :: arrive_mark(1)
    :: arrive_answer(0)
    :: arrive_answer(1)
#if SLOTS > 2
    :: arrive_mark(2)
    :: arrive_mark(3)
    :: arrive_answer(2)
    :: arrive_answer(3)
#endif
#ifdef MUT_NOTE_SPLIT
    :: d_step { bus_note -> note_head = bus_note_head; bus_note = false; bus_note_head = 0 }
    :: d_step { bus_taken -> note_taken = bus_note_taken; bus_taken = false; bus_note_taken = 0 }
#else
    :: d_step {
            bus_note ->
            note_head = bus_note_head; note_taken = bus_note_taken;
            bus_note = false; bus_note_head = 0; bus_note_taken = 0
        }
#endif
    od
}

/* How many slots from the head on are taken in this turn: any number of whole ones, but never half a wide one. */
#define WHOLE(n) (head + (n) < POSITIONS && whole[SLOT(head + (n))] == WORD(head + (n)))
#define ENDS(n) (kind[head + (n)] != WIDE)

/* The note may lag behind by the poll that is being worked off, and not by more. */
#ifdef MUT_NOTE_LAGS
# define NOTED true
#else
# define NOTED !bus_note
#endif
#define TAKE (n == 0 && NOTED && WHOLE(0))

/* gm_start_chunk up to the fence: refusals, and the marks of jobs with host memory. */
#ifdef MUT_MARK_LATE
# define MARKED_FIRST(k) false
#else
# define MARKED_FIRST(k) ((k) == HOST)
#endif
#define HAS_TICKET(k) ((k) == PLAIN || (k) == HOST || (k) == WIDE)
#define AT (head + i)
inline begin_chunk(n_)
{
    n = n_;
    do
    :: i < n ->
        assert(i > 0 || kind[AT] != HALF); /* nobody begins between the halves: the second would be answered too */
        taken = taken | BIT(AT);
        if
        :: kind[AT] == BAD -> bus_status[SLOT(AT)] = REFUSED; bus_cq[SLOT(AT)] = WORD(AT); completed++
        :: MARKED_FIRST(kind[AT]) -> bus_mark[SLOT(AT)] = WORD(AT); fenced = false
        :: else
        fi;
        jobs = (IS_JOB(kind[AT]) -> jobs + 1 : jobs);
        i++
    :: else -> break
    od;
    i = 0
}
/* Behind it: tickets. Then the other marks, the head and the note (gm_start, gm_turn_books). */
#ifdef MUT_MARK_NO_FENCE
# define FENCE true
#else
# define FENCE (fenced || (MARKS_ARRIVED && !bus_note))
#endif
inline start()
{
    atomic {
        FENCE ->
        do
        :: i < n -> ticket[me] = (HAS_TICKET(kind[AT]) -> ticket[me] | BIT(AT) : ticket[me]); i++
        :: else -> break
        od;
        i = 0;
        fenced = true
    };
    atomic {
        do
        :: i < n ->
            bus_mark[SLOT(AT)] = (HAS_TICKET(kind[AT]) && !MARKED_FIRST(kind[AT]) -> WORD(AT) : bus_mark[SLOT(AT)]);
            i++
        :: else -> break
        od;
        head = head + n;
        bus_note_head = head; bus_note_taken = jobs; bus_note = true;
#ifdef MUT_NOTE_SPLIT
        bus_taken = true;
#endif
        i = 0; n = 0
    }
}

/* Level, not edge; one wake for each count (gm_wake_due). A wake goes out behind the answers that it is for. */
#define WAKE_DUE (armed && completed > reaped && wake_sent != WORD(reaped))
#ifdef MUT_WAKE_NO_FENCE
# define WAKE_FENCE true
#else
# define WAKE_FENCE ANSWERS_ARRIVED
#endif

inline inbox_take(p)
{
    d_step { inbox[me] & BIT(p) -> inbox[me] = inbox[me] - BIT(p); completed++ }
}

/* A dispatcher ends and begins again as that of the next process, with what LANE_ADD says. */
proctype dispatcher(bool me)
{
    byte head = add_start, n = 0, i = 0, jobs = add_taken, completed = add_answers, wake_sent = 0;
    bool fenced = true;
end_born:
    {
end_idle:
        do
        :: atomic { TAKE && ENDS(0) -> begin_chunk(1) }
        :: atomic { TAKE && WHOLE(1) && ENDS(1) -> begin_chunk(2) }
#if SLOTS > 2
        :: atomic { TAKE && WHOLE(1) && WHOLE(2) && ENDS(2) -> begin_chunk(3) }
#endif
        :: n != 0 -> start()
#if RESTS
        :: inbox_take(0)
        :: inbox_take(1)
        :: inbox_take(2)
#if POSITIONS > 3
        :: inbox_take(3)
#endif
        :: d_step { WAKE_DUE -> wake_sent = WORD(reaped) }; d_step { WAKE_FENCE -> wake_pipe = true }
#endif
        od
    } unless { d_step { (ends & 1) && !me -> ends--; head = 0; n = 0; i = 0; jobs = 0; completed = 0; wake_sent = 0; fenced = true } };
end_dead:
    d_step { begins & 1 -> begins--; head = add_start; jobs = add_taken; completed = add_answers };
    goto end_born
}

/* It may be in several jobs at once: each is begun, has its effect, and is answered when it likes. */
inline run_job(p)
{
    atomic {
        ticket[me] & BIT(p) ->
        ticket[me] = ticket[me] - BIT(p);
        assert(kind[p] != HOST || !(effect & BIT(p))); /* never twice when its effect outlives the process */
        effect = effect | BIT(p);
        running = running | BIT(p)
    }
}
#if RESTS
# define COMPLETE(p) bus_status[SLOT(p)] = OK; bus_cq[SLOT(p)] = WORD(p); inbox[me] = inbox[me] | BIT(p)
#else
# define COMPLETE(p) answer(p, OK)
#endif
inline end_job(p)
{
    d_step { running & BIT(p) -> running = running - BIT(p); COMPLETE(p) }
}

proctype worker(bool me)
{
    byte running = 0;
end_born:
    {
end_draw:
        do
        :: run_job(0)
        :: end_job(0)
        :: run_job(1)
        :: end_job(1)
        :: run_job(2)
        :: end_job(2)
#if POSITIONS > 3
        :: run_job(3)
        :: end_job(3)
#endif
#if POSITIONS > 4
        :: run_job(4)
        :: end_job(4)
#endif
        od
    } unless { d_step { (ends & 2) && !me -> ends = ends - 2; running = 0 } };
end_dead:
    d_step { begins & 2 -> begins = begins - 2 };
    goto end_born
}
