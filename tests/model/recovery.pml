/* SPDX-License-Identifier: Apache-2.0
 *
 * A lane across the death of its device process: what the process has stored when it dies at any step, what gridmilld
 * makes of it, and how the next process goes on. Stores of the device go over a bus (the marks of the journal, the note,
 * the answers): they arrive in any order unless a fence waits for them, and those on their way are lost with the
 * process. What model.pml shows is short: a ticket is any started job, and workers are one.
 *
 * Positions do not wrap here; a word that carries a lap is written as the position + 1 that it belongs to, 0 being what
 * memory begins with. recovery_host.pml has the decision, step for step as daemon/recover.c has it.
 */
#if defined(R_TWO) /* rings of two slots, two deaths */
# define SLOTS 2
# define POSITIONS 4
# define DEATHS 2
# define BADS 0
#elif defined(R_BAD) /* refused ones among them */
# define SLOTS 2
# define POSITIONS 3
# define DEATHS 1
#elif defined(R_FOUR) /* chunks of more than two */
# define SLOTS 4
# define POSITIONS 3
# define DEATHS 1
#elif defined(R_WIDE) /* descriptors of two slots, also over the end of the ring */
# define SLOTS 2
# define POSITIONS 5
# define DEATHS 1
# define WIDES 1
# define HOSTS 0
# define BADS 0
#elif defined(R_SKIP) /* a long job, and slots that carry no job over it */
# define SLOTS 2
# define POSITIONS 5
# define DEATHS 1
# define SKIPS 1
# define BADS 0
#elif defined(R_SLEEP) /* the client sleeps, and is woken by the next process, or because there will be none */
# define SLOTS 2
# define POSITIONS 3
# define DEATHS 1
# define RESTS 1
# define GIVE_UP 1
# define HOSTS 0
#endif

#ifndef HOSTS
# define HOSTS 1
#endif
#ifndef BADS
# define BADS 1
#endif
#ifndef WIDES
# define WIDES 0
#endif
#ifndef SKIPS
# define SKIPS 0
#endif
#ifndef RESTS
# define RESTS 0
#endif
#ifndef GIVE_UP
# define GIVE_UP 0
#endif
#define SLOT(p) ((p) % SLOTS)
#define WORD(p) ((p) + 1)

/* Kinds of descriptor. */
#define PLAIN 1 /* no host memory: marked behind its ticket */
#define HOST 2  /* its effect outlives the process: marked, and the mark fenced, before its ticket */
#define WIDE 3  /* a plain one that takes two slots */
#define HALF 4  /* the second of them */
#define BAD 5   /* check() refuses it */
#define SKIP 6  /* carries no job */
#define IS_JOB(k) ((k) != HALF && (k) != SKIP)

#define OK 1
#define REFUSED 2
#define DEVICELOST 3

/* The lane: first granule and whole descriptor of each slot, completions; state; wait granule and wake pipe. */
#define OPEN 0
#define RECOVERING 1
#define LOST 2
byte kind[POSITIONS + 1]; /* of what the client has written at a position */
byte first[SLOTS], whole[SLOTS], cq[SLOTS], cq_status[SLOTS], lane_state = OPEN;
bool armed = false, wake_pipe = false;
byte reaped = 0;

/* The region: journal, and the note, which is one granule: positions below head were taken, and so many jobs are there. */
byte journal[SLOTS], note_head = 0, note_taken = 0;

/* On the bus. */
byte bus_mark[SLOTS], bus_cq[SLOTS], bus_status[SLOTS], bus_note_head = 0, bus_note_taken = 0;
bool bus_note = false;
#ifdef MUT_NOTE_SPLIT
bool bus_taken = false;
#endif

/* The device process (a second one is for MUT_NO_WAIT alone): tickets that are out, messages in the inbox, as sets of
 * positions; who of dispatcher and worker has still to end, and to begin. */
byte ticket[2], inbox[2], ends = 0, begins = 0, deaths = DEATHS;
byte add_start = 0, add_taken = 0, add_answers = 0; /* LANE_ADD */

/* Ghosts: sets of positions that were taken, whose effect outlives, that have an answer in memory. */
byte taken = 0, effect = 0, given = 0;
#define BIT(p) (1 << (p))

#if SLOTS > 2
# define MARKS_ARRIVED (bus_mark[0] == 0 && bus_mark[1] == 0 && bus_mark[2] == 0 && bus_mark[3] == 0)
# define ANSWERS_ARRIVED (bus_cq[0] == 0 && bus_cq[1] == 0 && bus_cq[2] == 0 && bus_cq[3] == 0)
#else
# define MARKS_ARRIVED (bus_mark[0] == 0 && bus_mark[1] == 0)
# define ANSWERS_ARRIVED (bus_cq[0] == 0 && bus_cq[1] == 0)
#endif

inline answer(p_, status_)
{
    assert(!(given & BIT(p_))); /* exactly one */
    given = given | BIT(p_);
    cq_status[SLOT(p_)] = status_;
    cq[SLOT(p_)] = WORD(p_)
}

#include "recovery_client.pml"
#include "recovery_device.pml"
#include "recovery_host.pml"

init
{
    atomic {
        run dispatcher(0);
        run worker(0);
        run bus();
        run client();
        run host()
    }
}
