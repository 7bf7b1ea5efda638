/* SPDX-License-Identifier: Apache-2.0
 *
 * gridmilld in recovery.pml: it gives a device process up at any moment, waits until it has exited, decides as
 * gm_recover() in daemon/recover.c does, answers what was taken, and starts the next. Included by recovery.pml.
 */

#define IS_JOB_AT(w, p) ((w) == WORD(p) && IS_JOB(kind[p]))

/* gm_recover_older: an older job of the slot may be unanswered. */
#define PREVIOUS (position + 1 - SLOTS) /* the word of the lap before */
inline recover_older()
{
    if
#ifndef MUT_OLDER_IGNORED
    :: mark != WORD(position) && mark > cq[SLOT(position)] -> lost = lost | BIT(mark - 1)
    :: !(mark != WORD(position) && mark > cq[SLOT(position)]) && position >= SLOTS && mark != PREVIOUS &&
        PREVIOUS > cq[SLOT(position)] && IS_JOB_AT(word, PREVIOUS - 1) -> lost = lost | BIT(PREVIOUS - 1)
#endif
    :: else
    fi
}

/* gm_recover_start: behind the last position that was taken, and behind both halves of a wide one. */
#ifdef MUT_HALF
# define STEP 1
#else
# define NARROW (IS_JOB_AT(word, position) && kind[position] != WIDE)
# define STEP ((next == WORD(position + 1) && kind[position + 1] == HALF && !NARROW) -> 2 : 1)
#endif

#ifdef MUT_UNMARKED
# define WAS_TAKEN(w) (answered || started)
#else
# define WAS_TAKEN(w) (answered || started || IS_JOB_AT(w, position))
#endif

/* gm_recover: one pass over the slots, from the last position of the window to the first; the client goes on writing. */
inline recover()
{
    atomic { start_at = note_head; jobs = 0; lost = 0; i = SLOTS; range = false; next = first[SLOT(note_head)] };
#ifndef MUT_RESUME_AT_HEAD
    do
    :: d_step {
            i > 0 ->
            i--;
            position = note_head + i;
            mark = journal[SLOT(position)];
            word = first[SLOT(position)];
            answered = (cq[SLOT(position)] == WORD(position));
            started = (mark == WORD(position));
            if
            :: !range && (answered || started || word > WORD(position)) -> range = true; start_at = position + STEP
            :: else
            fi;
            next = word;
            if
            :: range && WAS_TAKEN(word) ->
                jobs++;
                lost = (answered -> lost : lost | BIT(position))
            :: else -> recover_older()
            fi;
            mark = 0; word = 0; answered = false; started = false; position = 0
        }
    :: i == 0 -> break
    od
#endif
}

inline lose(p)
{
    d_step {
        lost & BIT(p) ->
        assert(taken & BIT(p)); /* what was not taken is not lost */
        lost = lost - BIT(p);
        answer(p, DEVICELOST)
    }
}

/* Everything in the process and on the bus is gone. */
inline forget(s)
{
    bus_mark[s] = 0; bus_cq[s] = 0; bus_status[s] = 0
}
inline kill()
{
    d_step {
        ends = 3;
        ticket[0] = 0; inbox[0] = 0;
        bus_note = false; bus_note_head = 0; bus_note_taken = 0;
#ifdef MUT_NOTE_SPLIT
        bus_taken = false;
#endif
        forget(0);
        forget(1);
#if SLOTS > 2
        forget(2);
        forget(3)
#endif
    };
    (ends == 0)
}

/* LANE_ADD of the next process. What is noted is what it begins with, for it may die before it notes anything. */
inline lane_add()
{
    d_step {
        note_taken = note_taken + jobs;
#ifndef MUT_NOTE_STALE
        note_head = start_at;
#endif
        add_start = start_at;
        add_taken = note_taken;
#ifndef MUT_REOPEN_ZERO
        add_answers = note_taken; /* all of them are answered */
#endif
        start_at = 0; jobs = 0; next = 0; range = false;
        lane_state = OPEN
    };
#ifdef MUT_NO_WAIT
    run dispatcher(1);
    run worker(1)
#else
    begins = 3
#endif
}

proctype host()
{
    byte start_at = 0, jobs = 0, lost = 0, i = 0, position = 0, mark = 0, word = 0, next = 0;
    bool range = false, answered = false, started = false;
end_served:
    do
    :: deaths > 0 ->
        deaths--;
#ifndef MUT_NO_WAIT
        kill();
#endif
        lane_state = RECOVERING;
        recover();
        do
        :: lose(0)
        :: lose(1)
        :: lose(2)
#if POSITIONS > 3
        :: lose(3)
#endif
#if POSITIONS > 4
        :: lose(4)
#endif
        :: lost == 0 -> break
        od;
        if
        :: GIVE_UP ->
            lane_state = LOST;
#ifndef MUT_LOST_SILENT
            wake_pipe = true;
#endif
            break
        ::
#if RESTS
            wake_pipe = true; /* gm_lane_wake: its answers, if there were any */
#endif
            lane_add()
        fi
    od
}
