/* SPDX-License-Identifier: Apache-2.0
 *
 * Many lanes at one dispatcher: the turn of device/core with its looks ahead, the sweep, the choice of a lane, park and
 * wake in every lane, and lanes that are closed while their jobs are in flight. Policy is not left open here, because
 * what is to be shown is a bound: nothing that has come is overlooked for more than so many turns. What model.pml shows
 * is short: a job is one share, and a ticket any entry that was published. Front, back and scout are one thread here, as
 * on the CPU; crew.pml has them apart.
 *
 * A dispatcher that turns and turns and finds nothing never ends and never gets stuck either. So it stands still while
 * nothing has come to any lane (TELLS), and every turn in which something has come and is overlooked makes it one turn
 * older; the asserts are about that age.
 */
#include "positions.pml"

#if defined(L_SWEEP) /* more lanes than one look of the sweep reaches; clients are slow between two stores */
# define LANES 2
# define JOBS(l) ((l) == 0 -> 2 : 1)
# define ENTRIES 1
# define WORKERS 1
# define SLOW 1
# define GAP 2
#elif defined(L_SWEEP3) /* three of them */
# define LANES 3
# define JOBS(l) 1
# define ENTRIES 1
# define WORKERS 1
#elif defined(L_NARROW) /* the sweep reaches all lanes in every look */
# define LANES 2
# define SWEEP 2
# define JOBS(l) ((l) == 0 -> 2 : 1)
# define ENTRIES 1
# define WORKERS 1
# define SLOW 1
# define GAP 2
#elif defined(L_SCRIBBLE) /* a client takes back what it has written; the others must not notice */
# define LANES 2
# define JOBS(l) ((l) == 0 -> 2 : 1)
# define ENTRIES 1
# define WORKERS 1
# define SCRIBBLES 1
#elif defined(L_POOL) /* jobs wait for the workspace pool, and others need none */
# define LANES 2
# define JOBS(l) ((l) == 0 -> 1 : 2)
# define ENTRIES 2
# define WORKERS 1
# define POOLED(l, i) ((i) == 0)
# define OLDEST_JOB (2 * WINDOWS + LANES)
#elif defined(L_PARK) /* the device sleeps, also while jobs run; a lane speaks up while another is looked at */
# define LANES 2
# define JOBS(l) 1
# define ENTRIES 1
# define WORKERS 1
# define SLOW 1
# define PARKS 2
#elif defined(L_WAKE) /* clients sleep */
# define LANES 1
# define JOBS(l) 2
# define ENTRIES 2
# define WORKERS 2
# define RESTS 1
#elif defined(L_WAKE3) /* more than once; and one of their jobs is refused */
# define LANES 1
# define JOBS(l) 3
# define ENTRIES 2
# define WORKERS 1
# define RESTS 1
# define BAD(l, i) ((i) == 2)
#elif defined(L_WAKE_PARK) /* everybody sleeps */
# define LANES 1
# define JOBS(l) 2
# define ENTRIES 1
# define WORKERS 1
# define PARKS 2
# define RESTS 1
#elif defined(L_EVENT) /* a client looks at its lane only when it is told to, and the device sleeps */
# define LANES 1
# define JOBS(l) 2
# define ENTRIES 1
# define WORKERS 1
# define PARKS 2
# define RESTS 1
# define EVENTS 1
# define BAD(l, i) ((i) == 1)
#elif defined(L_CLOSE) /* a lane is closed at any moment */
# define LANES 2
# define JOBS(l) 1
# define ENTRIES 1
# define WORKERS 1
# define CLOSES 1
#elif defined(L_REOPEN) /* and its number is given to another client */
# define LANES 2
# define JOBS(l) ((l) == 0 -> 0 : 2)
# define ENTRIES 1
# define WORKERS 1
# define CLOSES 2
# define BAD(l, i) ((l) == 1 && (i) == 1)
#elif defined(L_CLOSE_PARK) /* while the device sleeps, or is about to */
# define LANES 2
# define JOBS(l) ((l) == 0 -> 0 : 1)
# define ENTRIES 1
# define WORKERS 1
# define PARKS 1
# define CLOSES 1
#elif defined(L_ABUSE) /* a client sends nothing but what is refused, and sleeps */
# define LANES 2
# define JOBS(l) ((l) == 0 -> 0 : 2)
# define ENTRIES 1
# define WORKERS 1
# define PARKS 1
# define RESTS 1
# define CLOSES 1
# define ABUSE 2
# define BAD(l, i) ((l) == 1)
#endif

#define SLOTS 2
#ifndef SWEEP
# define SWEEP 1
#endif
#ifndef PARKS
# define PARKS 0
#endif
#ifndef RESTS
# define RESTS 0
#endif
#ifndef EVENTS
# define EVENTS 0
#endif
#ifndef CLOSES
# define CLOSES 0
#endif
#ifndef ABUSE
# define ABUSE 0
#endif
#ifndef SCRIBBLES
# define SCRIBBLES 0
#endif
#ifndef RESTING
# define RESTING(l) ((l) == LANES - 1)
#endif
#ifdef POOLED
# define POOLS 1
# define TURNS 2
#else
# define POOLED(l, i) false
# define POOLS 0
# define TURNS 1
#endif
#ifndef BAD
# define BAD(l, i) false
#endif
#define STRIKES 1 /* looks for nothing after which a lane is looked at in few turns only */
#ifndef GAP
# define GAP 1 /* one of so many rounds */
#endif
#ifndef SLOW
# define SLOW 0
#endif
#define WINDOWS ((LANES + SWEEP - 1) / SWEEP) /* turns in which the sweep comes round */
#define MOVES (LANES > SWEEP)

/* The bounds, in turns that were over: a look everywhere in all rounds, and a turn for each lane; a look everywhere, and
 * what was loaded before. */
#ifndef OLDEST_JOB
#define OLDEST_JOB (WINDOWS * GAP + LANES)
#endif
#ifndef OLDEST_WAKE
#define OLDEST_WAKE (WINDOWS + 1)
#endif

#define OK 1
#define REFUSED 2
#define CANCELLED 3
#define BUSY 4

/* Lanes start at the last lap before the lap word wraps. */
#define LANE_START ((LAPS - 2) * SLOTS)
#define INDEX(p) (((p) + TURN(SLOTS) - LANE_START) % TURN(SLOTS)) /* of the job at a position */

/* What a client and the device share: the first and the last granule of each descriptor and the completions, as laps;
 * the flag of the device and the wait granule; the wake pipe. */
byte sq0[LANES * SLOTS], sq1[LANES * SLOTS];
typedef completion_t {
    byte lap, status
};
completion_t cq[LANES * SLOTS];
bool asleep[LANES], armed[LANES], wake_pipe[LANES];
byte reaped[LANES];

/* The dispatcher's rows. */
typedef row_t {
    byte head, completed, wake_sent, strikes, refused_run;
    bool open, shut
};
row_t row[LANES];

typedef entry_t {
    byte lane, pos;
    bool used, ticket, abort, pooled
};
entry_t ent[ENTRIES];
bool pool_taken = false;
byte inbox = 0; /* set of entries whose jobs were answered */

/* The admin lane: one descriptor at a time, from the device process. */
#define LANE_CLOSE 1
#define LANE_OPEN 2
byte admin_op = 0, admin_answer = 0;
bool asleep_admin = false;

bool doorbell = false;  /* all of them, as one descriptor */
byte parks = PARKS;     /* times of idleness */
byte events = RESTS;    /* other things that clients wake for */
bool note_closed = false; /* the dispatcher says that it closed the lane of CLOSED_LANE */

/* Of the lane that is closed. */
#define CLOSED_LANE 1
bool closing = false, gone = false;
bool released = false;  /* ghost: nobody may touch its memory any more */
#define TOUCH(l) assert(!released || (l) != CLOSED_LANE)

int answered = 0; /* ghost: set of lane positions with a completion */

#define WHOLE(l) (sq0[SLOT(l, row[l].head)] == LAP(row[l].head, SLOTS) && sq1[SLOT(l, row[l].head)] == LAP(row[l].head, SLOTS))
#define BEGUN(l) (sq0[SLOT(l, row[l].head)] == LAP(row[l].head, SLOTS))
#define FREE0 (!ent[0].used)
#if ENTRIES > 1
# define FREE1 (!ent[1].used)
#else
# define FREE1 false
#endif
#define FREE (FREE0 || FREE1)
#define ALL_FREE (FREE0 && (ENTRIES < 2 || FREE1))

/* One 16-byte store. */
inline complete(l_, p_, status_)
{
    d_step {
        TOUCH(l_);
        assert(!((answered >> (l_ * TURN(SLOTS) + p_)) & 1)); /* exactly one completion */
        answered = answered | (1 << (l_ * TURN(SLOTS) + p_));
        cq[SLOT(l_, p_)].status = status_;
        cq[SLOT(l_, p_)].lap = LAP(p_, SLOTS)
    }
}

#include "lanes_client.pml"
#include "lanes_turn.pml"
#include "lanes_host.pml"

init
{
    byte i = 0;
    atomic {
        do
        :: i < LANES ->
            row[i].head = LANE_START;
            row[i].wake_sent = NONE;
            row[i].open = (JOBS(i) != 0); /* or nobody opened it */
            i++
        :: else -> break
        od;
        run dispatcher();
        i = 0;
        do
        :: i < WORKERS -> run worker(); i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < LANES -> run client(i); i++
        :: else -> break
        od;
#if CLOSES
        run host();
#endif
        i = 0
    }
}
