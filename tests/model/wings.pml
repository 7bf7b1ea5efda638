/* SPDX-License-Identifier: Apache-2.0
 *
 * Wings: more than one who starts jobs. The front leases a lane to a wing, which takes its short jobs from then on, while
 * the next look is on its way, and gives the lane back when it cannot go on, or is told to. Front and wings publish into
 * one ring, whose positions they reserve by compare-and-swap. What the other models show is short: an entry is back when
 * its job was answered, admin descriptors come whole, and a job is one phase.
 */
#include "positions.pml"

/* Kinds of job. */
#define SHORT 0 /* the quick way: one ticket */
#define WIDE 1  /* the front's: two tickets, and the only piece of the workspace pool */

#if defined(W_RACE) /* front and wing publish at once, and a job of two tickets waits between those of one */
# define LANES 2
# define JOBS_OF(l) ((l) == 0 -> 3 : 1)
# define KIND(l, p) ((l) == 1 -> WIDE : SHORT)
# define WORKERS 2
# define WING_ENTRIES 1
# define AT_ONCE 1
# define FULL 1
# define LOOKS 0
#elif defined(W_TWO) /* two wings */
# define LANES 2
# define JOBS_OF(l) 2
# define WINGS 2
# define WING_ENTRIES 1
# define AT_ONCE 1
# define FULL 1
# define LOOKS 0
#elif defined(W_KINDS) /* what is not for the wing comes to its lane */
# define JOBS_OF(l) 4
# define KIND(l, p) ((p) == 2 -> WIDE : SHORT)
#elif defined(W_CANCEL) /* of a job before it comes, while it runs, or when it is over */
# define JOBS_OF(l) 3
# define ADMINS 1
#elif defined(W_CLOSE) /* a lane is closed while it is leased, and given to another client */
# define JOBS_OF(l) 2
# define ADMINS 1
# define REOPENS 1
# define FULL 1
# define LOOKS 0
#elif defined(W_STOP) /* pauses at any moment */
# define JOBS_OF(l) 3
# define WORKERS 2
# define PAUSES 1
# define AT_ONCE 1
# define FULL 1
# define LOOKS 0
#endif

#ifndef LANES
# define LANES 1
#endif
#ifndef KIND
# define KIND(l, p) SHORT
#endif
#ifndef WINGS
# define WINGS 1
#endif
#ifndef WING_ENTRIES
# define WING_ENTRIES 2
#endif
#ifndef WORKERS
# define WORKERS 1
#endif
#ifndef AT_ONCE
# define AT_ONCE 0 /* all jobs are there from the beginning, and others do not wait for the lane's wing */
#endif
#ifndef FULL
# define FULL 0 /* all turns of the front are: lanes are leased whenever they may be */
#endif
#ifndef LOOKS
# define LOOKS 1 /* of a lease: those that bring nothing */
#endif
#ifndef PAUSES
# define PAUSES 0
#endif
#ifndef ADMINS
# define ADMINS 0
#endif
#ifndef REOPENS
# define REOPENS 0
#endif
#define RING 2
#define FRONT_ENTRIES 1
#define MOST_JOBS 4
#define A_TURN LEAST(2, WING_ENTRIES) /* jobs that a wing starts in a turn, at most */
#define LEAST(a, b) ((a) < (b) -> (a) : (b))
#define WIDTH(l, p) (KIND(l, p) == WIDE -> 2 : 1)

/* A lane's memory, and the row of it. Positions of lanes do not wrap. While a lane is leased its head is the wing's. */
byte written[LANES], head[LANES], lease[LANES]; /* lease: wing + 1 */
bool is_open[LANES] = true, shut[LANES];
bool released[LANES]; /* ghost: a close was answered, nobody may look there any more */
byte owner[LANES];    /* ghost: how often it was opened again */
#define TOUCH(l) assert(!released[l])
#define COME(l) (written[l] > head[l])
int answered = 0;     /* ghost: set of jobs, of all owners */
int taken = 0;        /* ghost: the same, when a ticket of them is out, or they were refused */
#define JOB_BIT(l, own, j) (1 << (((own) * LANES + (l)) * MOST_JOBS + (j)))

/* The ring of tickets, its acknowledgements and its floor. */
#define STOP 254
#define RING_START (TURN(RING) - RING)
typedef slot_t {
    byte lap, entry;
    bool unread /* ghost */
};
slot_t ring[RING];
byte read_ack[RING];
byte ticket = RING_START, published = RING_START, ack_floor = RING_START;

/* Entries: the first are the front's, then each wing has as many. */
#define FREE 0
#define RUNS 1
#define GIVEN 2 /* in its owner's ring, and its note still says whose job it was */
#define ENTRIES (FRONT_ENTRIES + WINGS * WING_ENTRIES)
#define FRONT 0
#define WING(w) ((w) + 1)
#define PART(e) ((e) < FRONT_ENTRIES -> FRONT : WING(((e) - FRONT_ENTRIES) / WING_ENTRIES))
typedef entry_t {
    byte state, whose;   /* whose: who may take it, or has taken it */
    byte job, lane, own; /* what its tickets say */
    byte due, at;        /* shares on their way; position of the first ticket */
    bool noted           /* d->note has it */
};
entry_t ent[ENTRIES];
byte credit[WINGS + 1];
#define CREDIT_OF(o) ((o) == FRONT -> FRONT_ENTRIES + 1 : WING_ENTRIES)
bool pool = true; /* there */

/* Leases. One runs while returned is not given. */
#define NEXT_LEASE(n) (((n) + 1) % (ADMINS + PAUSES -> 4 : 2))
byte given[WINGS], recall[WINGS] = NONE; /* front: the last, and the one that is to end */
byte returned[WINGS];                    /* wing: the one that ended last */
byte wing_lane[WINGS];                   /* front, while the wing has none */
bool attend_wings = false;               /* in attention */
byte cancel_at = NONE;                   /* front: a job of lane 0 that was cancelled before it came */
byte held_lane = 0;                      /* front: lane + 1 whose next job waits for room */
byte passed = 0;                         /* ghost: jobs that wings have started since */
#define IDLE(w) (given[w] == returned[w])

/* The admin lane, a descriptor at a time. */
#define NOTHING 0
#define CANCEL 1
#define LANE_CLOSE 2
#define LANE_OPEN 3
#define KERNEL_STOP 4
#define OK 1
#define BUSY 2
#define NOT_FOUND 3
byte admin_op = NOTHING, admin_at = 0, admin_status = 0;

/* Launches. */
byte halted = 0;
bool life = 0;

#include "wings_publish.pml"
#include "wings_wing.pml"
#include "wings_front.pml"
#include "wings_host.pml"

init
{
    byte i = 0;
    d_step {
        do
        :: i < RING -> ring[i].lap = LAP_BEFORE(RING_START + i, RING); read_ack[i] = ring[i].lap; i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < LANES && AT_ONCE -> written[i] = JOBS_OF(i); i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < ENTRIES -> ent[i].whose = PART(i); i++
        :: else -> break
        od;
        i = 0;
        do
        :: i <= WINGS -> credit[i] = CREDIT_OF(i); i++
        :: else -> break
        od;
        i = 0
    }
    atomic {
        run front();
        run back();
        do
        :: i < WINGS -> run wing(i); i++
        :: else -> break
        od;
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
        if
        :: ADMINS && !REOPENS -> run canceller()
        :: REOPENS -> run closer()
        :: PAUSES -> run pauser()
        :: else
        fi;
        i = 0
    }
}
