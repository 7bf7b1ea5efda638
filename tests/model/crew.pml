/* SPDX-License-Identifier: Apache-2.0
 *
 * The three parts of the dispatcher at the same time, as the warps of a GPU run them: the front serves lanes, publishes
 * and does what admin descriptors say; the back empties the inbox and looks at acknowledgements; the scout looks at the
 * admin lane and at other lanes. What they tell each other is gm_crew, a step for each access to it. What the other models
 * show is short: a job is one share of one or two phases, a descriptor of a lane comes whole, any lane may be next.
 */
#include "positions.pml"

/* Kinds of job. */
#define SHORT 0 /* lies in its slot: the back ends it */
#define LONG 1  /* has an entry, and two phases: two messages */

#if defined(C_JOBS) /* both kinds; messages come faster than they are taken */
# define JOBS 3
# define KIND(j) ((j) == 2 -> SHORT : LONG)
# define ENTRIES 2
# define WORKERS 2
#elif defined(C_RING) /* more tickets at once than half of the ring */
# define JOBS 5
# define RING 4
# define ENTRIES 4
#elif defined(C_STOP) /* pauses at any moment */
# define JOBS 3
# define KIND(j) ((j) == 1 -> SHORT : LONG)
# define ENTRIES 2
# define PAUSES 2
#elif defined(C_STOP2) /* with stop tickets for two */
# define JOBS 2
# define KIND(j) ((j) == 0 -> LONG : SHORT)
# define ENTRIES 2
# define WORKERS 2
# define RING 4
# define PAUSES 1
#elif defined(C_ALL) /* jobs, admin descriptors and a pause */
# define JOBS 1
# define KIND(j) LONG
# define ADMINS 1
# define PAUSES 1
# define LOOKS 1
#elif defined(C_PARK) /* the kernel sleeps, and a job comes, or a pause */
# define PAUSES 1
# define JOBS 2
# define KIND(j) ((j) == 0 -> LONG : SHORT)
# define PARKS 2
#elif defined(C_PARK_ADMIN) /* the kernel sleeps, and admin descriptors come, and a job between */
# define JOBS 1
# define PARKS 2
# define ADMINS 1
# define LOOKS 0
#elif defined(C_ADMIN) /* admin descriptors, more than one at a time, and a pause */
# define ADMINS 4
# define PAUSES 1
#elif defined(C_CLOSE) /* lanes are closed one behind another, while the scout looks at them */
# define LANES 2
# define ADMINS 4
# define OP(p) ((p) == 2 -> LANE_OPEN : LANE_CLOSE)
# define OP_LANE(p) ((p) == 1)
# define PAUSES 1
#elif defined(C_REOPEN) /* a lane is closed with jobs in flight, and given to another client */
# define JOBS 2
# define KIND(j) ((j) == 1 -> LONG : SHORT)
# define ENTRIES 2
# define REOPENS 1
# define LOOKS 1
#endif

#ifndef LANES
# define LANES 1
#endif
#ifndef JOBS
# define JOBS 0
#endif
#ifndef KIND
# define KIND(j) SHORT
#endif
#ifndef ENTRIES
# define ENTRIES 1
#endif
#ifndef WORKERS
# define WORKERS 1
#endif
#ifndef RING
# define RING 2
#endif
#ifndef PAUSES
# define PAUSES 0
#endif
#ifndef PARKS
# define PARKS 0
#endif
#ifndef ADMINS
# define ADMINS 0
#endif
#ifndef OP
# define OP(p) PING
# define OP_LANE(p) 0
#endif
#ifndef REOPENS
# define REOPENS 0
#endif
#ifndef LOOKS
# define LOOKS 2 /* turns of the scout that bring nothing */
#endif
#define SCOUTS (ADMINS || REOPENS)
#define ALL ((1 << ENTRIES) - 1)

/* A lane's memory, and the front's row of it. Positions of lanes do not wrap. */
byte written[LANES], head[LANES], completed[LANES];
bool is_open[LANES] = true, shut[LANES], asleep[LANES];
bool released[LANES]; /* ghost: a close was answered, nobody may look there any more */
byte owner[LANES];    /* ghost: how often it was opened again */
#define TOUCH(l) assert(!released[l])
int answered = 0;     /* ghost: set of jobs, of all owners */

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
#define LAG ((published + TURN(RING) - ack_floor) % TURN(RING))
#define ROOM(n) (LAG + (n) <= RING) /* gm_room_there */

/* Entries. */
#define FREE 0
#define RUNS 1
#define PUSHED 2 /* its message is on its way to the front */
typedef entry_t {
    byte state, job, lane, owner, phase
};
entry_t ent[ENTRIES];
byte free_set = ALL; /* front */

/* The inbox. */
#define MSG_NEXT 1
#define MSG_DONE 2
#define INBOX_START (TURN(ENTRIES) - ENTRIES)
typedef place_t {
    byte lap, kind, entry
};
place_t inbox[ENTRIES];
byte in_tail = INBOX_START, in_head = INBOX_START;

/* gm_crew. */
#define ATTEND_ADMIN 1
#define ATTEND_MESSAGES 2
byte attention = 0;
byte freed = 0, back_ring[ENTRIES] = NONE, collected = 0;
byte messages = 0, messages_taken = 0;
place_t message[ENTRIES];     /* lap: ghost, how many came before */
byte hold = 0, held = 0;
bool leave = false;

/* The admin lane: two granules, the position + 1 as their lap; the front's copy, from the scout. */
#define PING 0
#define LANE_CLOSE 1
#define LANE_OPEN 2
#define OK 1
#define BUSY 2
#define ADMIN_SLOTS 2
typedef desc_t {
    byte g0, g1, op, lane
};
desc_t admin_sq[ADMIN_SLOTS], side;
byte admin_head = 0, admin_told = 0, admin_answers = 0, admin_status = 0;
bool asleep_admin = false, doorbell = false;

/* Launches. */
byte halted = 0, home = 0; /* workers, and other parts of the dispatcher, that have come home */
bool life = 0;
byte pauses = PAUSES, parks = PARKS;
#define PARTS (1 + (SCOUTS -> 1 : 0))

#include "crew_back.pml"
#include "crew_scout.pml"
#include "crew_front.pml"
#include "crew_host.pml"

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
        :: i < ENTRIES -> inbox[i].lap = LAP_BEFORE(INBOX_START + i, ENTRIES); i++
        :: else -> break
        od;
        i = 0
    }
    atomic {
        run front();
        run back();
        do
        :: i < WORKERS -> run worker(); i++
        :: else -> break
        od;
        if
        :: SCOUTS -> run scout()
        :: else
        fi;
        if
        :: JOBS -> run client(0)
        :: else
        fi;
        if
        :: ADMINS -> run host()
        :: else
        fi;
        if
        :: REOPENS -> run closer()
        :: else
        fi;
        i = 0
    }
}
