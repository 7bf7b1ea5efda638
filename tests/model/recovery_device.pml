/* SPDX-License-Identifier: Apache-2.0
 *
 * The device process of recovery.pml, one set of Promela processes for each life: the dispatcher's stores in the order of
 * device/core/start.h and turn.h, and a worker. The bus is everybody's. Included by recovery.pml.
 */

inline post_answer(p_, status_)
{
    bus_status[SLOT(p_)] = status_;
    bus_cq[SLOT(p_)] = WORD(p_)
}
#define NOTHING_OF_MINE(s) (bus_mark[s] == 0 && !bus_refused[s])
#if SLOTS > 2
# define ANSWERS_ARRIVED (bus_cq[0] == 0 && bus_cq[1] == 0 && bus_cq[2] == 0 && bus_cq[3] == 0)
# define BUS_QUIET (NOTHING_OF_MINE(0) && NOTHING_OF_MINE(1) && NOTHING_OF_MINE(2) && NOTHING_OF_MINE(3) && !bus_note)
#else
# define ANSWERS_ARRIVED (bus_cq[0] == 0 && bus_cq[1] == 0)
# define BUS_QUIET (NOTHING_OF_MINE(0) && NOTHING_OF_MINE(1) && !bus_note)
#endif

inline arrive_mark(s)
{
    d_step { bus_mark[s] != 0 -> journal[s] = bus_mark[s]; bus_mark[s] = 0 }
}
inline arrive_answer(s)
{
    d_step {
        bus_cq[s] != 0 ->
        answer(bus_cq[s] - 1, bus_status[s]);
        bus_cq[s] = 0; bus_status[s] = 0; bus_refused[s] = false
    }
}

/* Stores reach memory in any order. */
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
    :: d_step {
            bus_note ->
            note_head = bus_note_head; note_taken = bus_note_taken;
            bus_note = false; bus_note_head = 0; bus_note_taken = 0
        }
    od
}

/* How many slots from the head on are taken in this turn: any number of whole ones, but never half a wide one. */
#define WHOLE(n) (head + (n) < POSITIONS && whole[SLOT(head + (n))] == WORD(head + (n)))
#define ENDS(n) (kind[head + (n)] != WIDE)
inline poll()
{
    if
    :: atomic { WHOLE(0) && ENDS(0) -> n = 1 }
    :: atomic { WHOLE(0) && WHOLE(1) && ENDS(1) -> n = 2 }
#if SLOTS > 2
    :: atomic { WHOLE(0) && WHOLE(1) && WHOLE(2) && ENDS(2) -> n = 3 }
#endif
    fi
}

/* Each slot of the chunk: refusals and the marks of jobs with host memory; the fence; tickets; the other marks; then the
 * head and the note (gm_start_chunk, gm_start, gm_turn_books). */
#ifdef MUT_MARK_LATE
# define MARKED_FIRST(k) false
#else
# define MARKED_FIRST(k) ((k) == HOST)
#endif
#define HAS_TICKET(k) ((k) == PLAIN || (k) == HOST || (k) == WIDE)
#define AT (head + i)
inline start()
{
    do
    :: atomic {
            i < n ->
            taken = taken | BIT(AT);
            if
            :: kind[AT] == BAD -> post_answer(AT, REFUSED); bus_refused[SLOT(AT)] = true; completed++
            :: MARKED_FIRST(kind[AT]) -> bus_mark[SLOT(AT)] = WORD(AT); fenced = false
            :: else
            fi;
            jobs = (IS_JOB(kind[AT]) -> jobs + 1 : jobs);
            i++
        }
    :: atomic { i == n -> i = 0 }; break
    od;
#ifndef MUT_NO_FENCE
    (fenced || BUS_QUIET);
#endif
    do
    :: atomic { i < n -> ticket[me] = (HAS_TICKET(kind[AT]) -> ticket[me] | BIT(AT) : ticket[me]); i++ }
    :: atomic { i == n -> i = 0; fenced = true }; break
    od;
    do
    :: atomic {
            i < n ->
            bus_mark[SLOT(AT)] = (HAS_TICKET(kind[AT]) && !MARKED_FIRST(kind[AT]) -> WORD(AT) : bus_mark[SLOT(AT)]);
            i++
        }
    :: atomic { i == n -> head = head + n; i = 0; n = 0; bus_note_head = head; bus_note_taken = jobs; bus_note = true };
        break
    od
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

/* from, answers: as gridmilld says in LANE_ADD. */
proctype dispatcher(byte me; byte from; byte answers)
{
    byte head = from, n = 0, i = 0, jobs = answers, completed = answers, wake_sent = 0;
    bool fenced = true;
    {
end_idle:
        do
        :: poll(); start()
        :: inbox_take(0)
        :: inbox_take(1)
        :: inbox_take(2)
        :: inbox_take(3)
#if POSITIONS > 4
        :: inbox_take(4)
        :: inbox_take(5)
#endif
#if RESTS
        :: d_step { WAKE_DUE -> wake_sent = WORD(reaped) }; d_step { WAKE_FENCE -> wake_pipe = true }
#endif
        od
    } unless { dead[me] }
}

/* One that may be in several jobs at once: each is begun, has its effect, and is answered when it likes. */
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
inline end_job(p)
{
    atomic { running & BIT(p) -> running = running - BIT(p); post_answer(p, OK); inbox[me] = inbox[me] | BIT(p) }
}

proctype worker(byte me)
{
    byte running = 0;
    {
end_draw:
        do
        :: run_job(0)
        :: end_job(0)
        :: run_job(1)
        :: end_job(1)
        :: run_job(2)
        :: end_job(2)
        :: run_job(3)
        :: end_job(3)
#if POSITIONS > 4
        :: run_job(4)
        :: end_job(4)
        :: run_job(5)
        :: end_job(5)
#endif
        od
    } unless { dead[me] }
}
