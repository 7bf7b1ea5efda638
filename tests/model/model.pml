/* SPDX-License-Identifier: Apache-2.0
 *
 * The scheduler of device/core as a Spin model: lane, ticket ring, phases, inbox, gangs, cancel, pause and sleep. A step
 * carries the name of the function that does it. One atomic step here is one access to memory that another
 * process also touches, together with the local work around it; memory is sequentially consistent (the README says
 * what that leaves out). presets.pml gives the sizes and the job mix of a run; a MUT_x breaks one step.
 *
 * Ghost state (only asserts read it) is marked so. End labels are on idle waits alone: a client that misses a
 * completion, a gang that never meets, a pause that never ends or a leaked entry is an invalid end state.
 */
#include "positions.pml"
#include "presets.pml"

#define STOP 254 /* entry field of a stop ticket */
#define TAIL 253 /* a client's slot that holds the second half of a wide descriptor */

/* Kinds of job: phases, shares of a phase, tiles of a phase, barriers a share meets. */
#define NOP 0  /* one share */
#define TWO 1  /* a phase of two shares, then one of a single share */
#define GANG 2 /* two shares that meet at two barriers */
#define SCAN 3 /* two shares, three tiles, each tile waits for the one below */
#define WIDE 4 /* a nop whose descriptor takes two slots */
#define PAIR 5 /* two shares */
#define BAD 6  /* check() refuses it */
#define HOSTED 7 /* one share, on host memory */
#define KIND(j) ((j) == 0 -> J0 : ((j) == 1 -> J1 : ((j) == 2 -> J2 : ((j) == 3 -> J3 : J4))))
#define PHASES(k) ((k) == TWO -> 2 : 1)
#ifdef MUT_GANG_WIDE
# define GANG_SHARES (WORKERS + 1)
#else
# define GANG_SHARES 2
#endif
#define WIDTH(k, phase) ((k) == GANG -> GANG_SHARES : WIDTH_OF_OTHERS(k, phase))
#define WIDTH_OF_OTHERS(k, phase) (((k) == SCAN || (k) == PAIR || ((k) == TWO && (phase) == 0)) -> 2 : 1)
#define WIDEST(k) WIDTH(k, 0)
#define TILES(k) ((k) == SCAN -> 3 : 0)
#define BARRIERS(k) ((k) == GANG -> 2 : 0)

#define OK 1
#define REFUSED 2
#define CANCELLED 3

/* A lane. Its memory starts as zeros, and its first position at the head of the last lap before the lap word wraps to 0.
 * Zeros are empty only while no slot's FIRST lap is 0, which a start near the wrap must heed. */
#ifdef MUT_LAP_ZERO
# define LANE_START ((LAPS - 1) * SLOTS - 1)
#else
# define LANE_START ((LAPS - 2) * SLOTS)
#endif
typedef granule_t {
    byte lap, job
};
granule_t sq0[LANES * SLOTS], sq1[LANES * SLOTS];
typedef completion_t {
    byte lap, job, status
};
completion_t cq[LANES * SLOTS];
byte head[LANES]; /* dispatcher: next position to start */

/* The ticket ring, and what the dispatcher keeps about it. All of this survives a relaunch. A slot has a first granule,
 * which is all that a reference to an entry writes, and, with IN_SLOTS, others (two here) with what a worker needs of a
 * job that lies in the slot itself: gm_slot_fits. */
#define RING_START (TURN(RING) - RING - 1) /* soon the lap word wraps, and then the position */
#define FITS(k) (IN_SLOTS && ((k) == NOP || (k) == WIDE))
#define INLINE 252  /* share field: the job lies in the slot */
#define ABORTED 251 /* the same, and it was cancelled since */
typedef slot_t {
    byte lap, entry, share, gen;
#if IN_SLOTS
    byte lap1, job1, lap2, job2
#endif
};
slot_t ring[RING];
#if IN_SLOTS
/* Granules of a slot on their way, as a set: stores without a fence arrive when they like and in any order. Those to one
 * place arrive in the order of the program, so a later one may stand for an earlier one. */
typedef stores_t {
    byte granules, lap, entry, share, gen, job
};
stores_t way[RING];
# if RING > 2
#  define ARRIVED (way[0].granules == 0 && way[1].granules == 0 && way[2].granules == 0 && way[3].granules == 0)
# else
#  define ARRIVED (way[0].granules == 0 && way[1].granules == 0)
# endif
#else
# define ARRIVED true
#endif
#if WORKERS_SLEEP
bool waiting[RING]; /* a worker of the CPU backend is about to sleep for this slot, or does */
byte sleepers[RING], woken[RING]; /* they are in the kernel: FUTEX_WAIT, and have been let go of: FUTEX_WAKE of one */
#endif
byte read_ack[RING];
byte ticket = RING_START; /* workers draw from it by fetch-add */
byte tail = RING_START;   /* dispatcher: next position to publish */
byte credit = 0;          /* dispatcher: ring credit in use */
byte live = 0;            /* ghost: tickets published whose share has not arrived */
byte acked = 0;           /* ghost, and what MUT_ACK_COUNT goes by: tickets read so far, same modulus as tail */

/* Entries. `gen` moves with every job that gets the entry; a ticket carries it. */
typedef entry_t {
    byte job, lane, pos, gen, phase;
    byte left;            /* shares of this phase that have not arrived */
    byte next;            /* tile counter */
    byte flags;           /* look-back: tiles whose value (or poison) is published */
    byte bar;             /* barrier: shares that wait */
    byte met;             /* ghost: shares that came to a barrier of this phase */
    byte due;             /* ghost: shares published and not taken */
    bool bar_phase, used, abort, skipped, half; /* half: MUT_GANG_PIECES only */
#if IN_SLOTS
    byte ticket           /* of a job that lies in its slot */
#endif
};
entry_t ent[ENTRIES];
#define GENS 4

/* The inbox: one place per entry. */
#define INBOX_START (TURN(PLACES) - PLACES - 1)
#define MSG_NEXT 1 /* the others: it was answered, with */
#define MSG_DONE 2
#define MSG_CANCELLED 3
typedef place_t {
    byte lap, entry, msg, gen /* gen: ghost */
};
place_t inbox[PLACES];
byte in_tail = INBOX_START; /* workers reserve by fetch-add */
byte in_head = INBOX_START; /* dispatcher */

/* Admin descriptors still to come, at any turn. */
byte cancels = CANCELS, pauses = PAUSES;
byte cancel_pos = NONE; /* position that is to be cancelled, from its submission on */
byte drop = NONE;       /* cancelled before it was started */
bool stopping = false;  /* a stop was asked for, its tickets are not out yet */

byte halted = 0;        /* workers that met at the end of the kernel */
bool gone = false;      /* the kernel has returned, to sleep */
bool life = 0;          /* launch number */
bool stop_flag = false; /* the MUT_STOP_FLAGs only */

/* Sleep of the device: a flag for each lane and one for the host and the workers, and the doorbells. */
bool asleep[LANES], asleep_admin = false, doorbell = false;
byte parks = PARKS; /* times of idleness: traffic may leave none after the last one */

int answered = 0;       /* ghost: set of lane positions with a completion */

/* One 16-byte store; the slot stays the job's until the client has read it, so nobody waits. */
inline complete(l_, p_, j_, status_)
{
    d_step {
        assert(!((answered >> (l_ * TURN(SLOTS) + p_)) & 1)); /* exactly one completion */
        answered = answered | (1 << (l_ * TURN(SLOTS) + p_));
        cq[SLOT(l_, p_)].job = j_;
        cq[SLOT(l_, p_)].status = status_;
        cq[SLOT(l_, p_)].lap = LAP(p_, SLOTS)
    }
}

#include "client.pml"
#include "publish.pml"
#include "dispatcher.pml"
#include "worker.pml"
#include "host.pml"

init
{
    byte i = 0, p;
    d_step {
        do
        :: i < RING ->
            /* The first launch leaves the words as if the lap before had been published and read. */
            p = (RING_START + i) % TURN(RING);
            ring[p % RING].lap = LAP_BEFORE(p, RING);
#if IN_SLOTS && !defined(MUT_SLOT_ZERO)
            ring[p % RING].lap1 = LAP_BEFORE(p, RING);
            ring[p % RING].lap2 = LAP_BEFORE(p, RING);
#endif
            read_ack[p % RING] = LAP_BEFORE(p, RING);
            i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < PLACES ->
            p = (INBOX_START + i) % TURN(PLACES);
            inbox[p % PLACES].lap = LAP_BEFORE(p, PLACES);
            i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < LANES -> head[i] = LANE_START; i++
        :: else -> break
        od;
        acked = RING_START;
        i = 0; p = 0
    }
    atomic {
        run dispatcher();
#if PARKS && !PARK_IN_FLIGHT
        run host();
#endif
#if IN_SLOTS
        run stores();
#endif
        do
        :: i < WORKERS -> run worker(); i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < LANES -> run client(i); i++
        :: else -> break
        od;
        i = 0
    }
}
