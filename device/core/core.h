/* SPDX-License-Identifier: Apache-2.0
 *
 * The structs of the scheduler. gm_core says where everything is, gm_entry is a job in flight, gm_disp is private to
 * the dispatcher (on a GPU it lives in shared memory while the kernel runs, and in core->saved between launches).
 * Plain fixed-width data: the host makes the first image, the same bytes are used on both backends.
 */
#ifndef GM_CORE_CORE_H
#define GM_CORE_CORE_H

#include "control.h"
#include "errors.h"
#include "port.h"

enum gm_mark {
    GM_MARK_HOST = 1,     /* a buffer lies in host memory: few shares */
    GM_MARK_HOST_OUT = 2, /* an output does: the completion needs a system fence */
    GM_MARK_OUT = 4,      /* there is an output buffer */
    GM_MARK_POOL = 8,     /* workspace comes from the pool and goes back to it */
    GM_MARK_FINISH = 16,  /* the op has something to do when a phase's shares are done */
    GM_MARK_MORE = 32,    /* there are arguments beyond those in the job: in its entry */
    GM_MARK_HOST_IN = 64, /* an input lies in host memory */
    GM_MARK_CLEARED = 128 /* the dispatcher clears its workspace before its tickets are out */
};

/* A job as a worker sees it: one line, loaded by one warp in one access and used from a private copy. The fields from
 * shares down change from phase to phase. */
struct __attribute__((aligned(16))) gm_job {
    uint16_t op;
    uint8_t dtype, flags;
    uint16_t lane, entry;
    uint64_t n;
    uint64_t position; /* this and the addresses are all that the dispatcher looks for in an entry */
    uint64_t address[GM_BUFFERS_MAX];
    uint64_t value[2];
    uint64_t workspace, workspace_bytes;
    uint64_t start_ns;
    uint64_t completion; /* address of the completion slot */
    uint32_t bins;
    uint16_t marks;
    uint8_t slots_log2, pad; /* pad: a word of gm_slot_word carries something there */
    uint8_t phase, phases, type2, pad2;
    uint32_t shares;
    uint64_t tiles, tile_elements;
};
static_assert(sizeof(struct gm_job) == 128, "one line");
static_assert(offsetof(struct gm_job, position) % 16u == 0 && GM_BUFFERS_MAX == 3u &&
                  offsetof(struct gm_job, address) == offsetof(struct gm_job, position) + 8u,
              "gm_start_note writes them in two pairs");

struct gm_entry {
    struct gm_job job;
    /* line 1: written by workers while the phase runs */
    uint64_t arrived;   /* phase << 32 | shares that arrived, in the manner of an mbarrier */
    uint64_t next_tile; /* starts at shares: share s begins with tile s without asking */
    uint32_t abort;     /* set once; every share looks at it between tiles */
    int32_t status;     /* first error that an op reported */
    uint32_t generation;
    uint32_t count2; /* the job's other arguments, if GM_MARK_MORE; else anything */
    uint64_t more[2]; /* value[2] and value[3] of gm_args */
    uint32_t pad[20];
};
static_assert(sizeof(struct gm_entry) == 256 && offsetof(struct gm_entry, arrived) == 128, "two lines");
static_assert(offsetof(struct gm_entry, next_tile) == 136 && offsetof(struct gm_entry, abort) == 144 &&
                  offsetof(struct gm_entry, status) == 148 && offsetof(struct gm_entry, generation) == 152 &&
                  offsetof(struct gm_entry, count2) == 156 && offsetof(struct gm_entry, more) == 160,
              "gm_start_entry writes them in pairs");

/* A slot of the ticket ring: see slot.h. */
#define GM_SLOT_GRANULES 8u
struct __attribute__((aligned(128))) gm_slot {
    struct gm_granule g[GM_SLOT_GRANULES];
};

/* Inbox slot: lap << 32 | kind << 30 | op << 21 | lane << 12 | entry. */
enum gm_inbox_kind {
    GM_INBOX_NEXT = 0, /* a phase is done and the job goes on; the others: it was answered, with */
    GM_INBOX_DONE = 1, /* a result */
    GM_INBOX_FAILED = 2,
    GM_INBOX_CANCELLED = 3
};
struct gm_arena_row {
    uint64_t address, bytes;
    uint32_t session;
    uint16_t generation, flags; /* generation 0: free row */
};
static_assert(sizeof(struct gm_arena_row) == 24, "1024 of them fit a block's shared memory");

struct gm_lane_row {
    struct gm_lane_header *header; /* NULL: closed */
    const struct gm_desc_slot *sq;
    struct gm_granule *cq;
    uint32_t *journal;
    uint64_t head;      /* next position to poll */
    uint64_t completed; /* jobs answered; compared with the client's wait granule */
    uint64_t taken;     /* jobs started or refused */
    uint32_t slots_log2, session;
    uint32_t width;       /* descriptor slots read next time: narrow when work is rare, wide when the lane is full */
    uint32_t refused_run; /* descriptors refused since one was accepted */
    uint64_t wake_sent;   /* what the sleeper had reaped when it was last woken: one sleep gets one wake */
    uint64_t noted;       /* completed, as the lane's note says it */
    uint32_t strikes;     /* times in a row that it looked ready and had nothing whole */
    uint32_t shut;        /* open, but nothing more is taken from it */
    uint32_t lease;       /* wing + 1 whose the lane is for now; 0: it is the front's */
};

/* One bit for each lane. */
#define GM_LANE_WORDS ((GM_LANE_TABLE + 31u) / 32u)

#define GM_LANE_NONE 0x3fffu
/* Flags beside a lane index, in a note. */
#define GM_LANE_INLINE 0x4000u /* the job lies in its ticket's slot */
#define GM_LANE_POOL   0x8000u /* it holds workspace from the pool */
GM_HD uint32_t gm_entry_lane(uint32_t word) { return word & ~(GM_LANE_INLINE | GM_LANE_POOL); }
static_assert(GM_LANE_TABLE <= GM_LANE_NONE, "no lane");

/* What the dispatcher itself knows of an entry's job. */
struct __attribute__((aligned(8))) gm_note {
    uint16_t lane;   /* and flags; GM_LANE_NONE: free */
    uint16_t widest; /* ring credit that the job gives back */
    uint8_t generation; /* of the entry's current job; a ticket carries it */
    uint8_t pad;
    uint16_t copy;      /* its place among the copies, and one more; 0: it has none */
};
static_assert(sizeof(struct gm_note) == 8, "one load");

struct gm_piece {
    uint32_t start, count; /* in units of GM_WORKSPACE_ALIGN */
};

struct gm_cancel {
    uint32_t lane, live;
    uint64_t position;
};

/* Counters that many workers add to, on lines of their own. */
struct gm_counters {
    uint64_t ticket, pad0[15];     /* drawn by workers */
    uint64_t inbox_tail, pad1[15]; /* reserved by workers */
};

/* Where everything is: constant while workers run. The kernel gets it by value, in its parameters, because an acquire
 * empties the first-level cache and every look at a table in memory would cost a trip to the second. */
struct gm_core {
    struct gm_counters *counters;
    struct gm_slot *slots;     /* ticket ring */
    uint32_t *acks;            /* its acknowledgements: the lap that was read */
    uint64_t *inbox;           /* as many slots as entries, so never full */
    struct gm_entry *entries;
    uint8_t *scratch;          /* GM_ENTRY_SCRATCH for each entry */
    uint8_t *workspace;        /* the pool */
    struct gm_granule *workers_words;
    struct gm_lane_note *lane_notes; /* GM_LANE_TABLE of them, in the region */
    uint64_t *workers_busy;    /* busy nanoseconds of each worker, kept between launches */
    struct gm_device_counters *device_counters; /* in the region, for gridmilld */
    struct gm_lane_header *admin_header;
    const struct gm_desc_slot *admin_sq;
    struct gm_granule *admin_cq;
    struct gm_disp *saved;     /* the dispatcher's state between launches */
    struct gm_copies *copies;  /* host memory; NULL where copy_bytes says never */
    uint64_t workspace_bytes;
    uint64_t copy_bytes;       /* from so many on a copy between host and device memory is the copy engine's */
    uint64_t idle_ns;          /* park after this long without work; UINT64_MAX: never */
    uint32_t tickets_log2, entries_count, entries_log2, workers, host_shares;
    uint32_t wings;            /* that run */
    uint32_t park_in_flight;   /* CPU: park while jobs run, because a push into the inbox wakes the dispatcher */
    uint32_t looks_back;       /* GPU: tiles of a scan look back at each other, where CPUs take two phases */
};

/* What of its own the front has to look at. */
enum gm_attention {
    GM_ATTEND_ADMIN = 1,   /* an admin descriptor is in side */
    GM_ATTEND_MESSAGES = 2, /* the back has put messages into message */
    GM_ATTEND_WINGS = 4     /* a lease has ended */
};

/* What the parts of the dispatcher tell each other: the front serves lanes, and starts jobs of every kind; the back
 * empties the inbox; the scout looks at everything in host memory that is not the front's lane or a wing's. On a GPU
 * each is a warp, on the CPU they are one thread. Every word has one writer, but attention, which is a set. */
struct gm_crew {
    uint64_t ack_floor;  /* back: every ticket below was read */
    uint32_t attention;  /* set by back, scout and wings, cleared by the front */
    uint32_t freed;      /* back: entries put into back so far */
    uint32_t messages;   /* back: words put into message so far */
    uint32_t hold;       /* front: odd while the scout is to look nowhere */
    uint32_t held;       /* scout: the hold that it keeps */
    uint32_t leave;      /* front: the others are to leave */
    uint32_t apart;      /* the parts run at the same time */
    uint32_t copies_put;  /* front: a bit for each place of gm_copies, turned over when a copy is put there */
    uint32_t copies_done; /* scout: the same when it was answered; where the two agree the place is free */
    uint32_t pad;
    uint32_t message[GM_ENTRIES_MAX]; /* from the back to the front: inbox words of phases that are done */
    uint16_t back[GM_ENTRIES_MAX];    /* entries of jobs that were answered */
};

/* A wing: starts what goes the quick way from one lane that the front has leased to it; see lease.h. Its entries are a
 * fixed part of all, and as much ring credit, since its jobs take one ticket each. */
struct __attribute__((aligned(16))) gm_wing {
    struct gm_granule stage[2 * GM_POLL_MAX * 4]; /* wing: private copies of one look */
    uint32_t given;      /* front: leases so far, modulo 2^32; the last one's number */
    uint32_t recall;     /* front: the lease that is to end */
    uint32_t returned;   /* wing: the lease that ended last. It has one while this is not given */
    uint32_t lane;       /* front, while the wing has no lease: whose it is */
    uint32_t freed;      /* back: entries put into free so far */
    uint32_t taken;      /* wing: of these */
    uint32_t quick[2];   /* wing: jobs started, as in gm_disp but modulo 2^32 */
    uint32_t counted[2]; /* front: of these, those in the counters */
    uint32_t landed;     /* wing: what its last looks brought, so that they are waited for */
    uint32_t freed_seen; /* wing: of freed */
    uint32_t turns;      /* wing: of this lease */
    uint32_t empty;      /* wing: looks in a row that brought nothing */
    uint32_t shortage;   /* wing: turns in a row without room or entries */
    uint32_t pad;
    uint16_t free[GM_WING_ENTRIES_MAX]; /* entries that it may take */
};

/* Private to the dispatcher. Copied in 16-byte pieces between launches of a GPU's kernel. */
struct __attribute__((aligned(128))) gm_disp {
    struct gm_granule stage[GM_POLL_MAX * 4]; /* private copies of one poll */
    struct gm_granule side[4];                /* admin descriptor, from the scout to the front */
    struct gm_core core;                     /* a copy for the calls of a turn, apart from a kernel's parameters */
    struct gm_op_row op_row[GM_OP_COUNT];     /* the op table, where a look costs no branches */
    struct gm_device_counters counters;
    uint64_t published; /* next ticket position that nobody has reserved */
    uint64_t inbox_head; /* back */
    uint64_t admin_head;
    uint64_t last_work_ns, now_ns, stop_position;
    uint32_t credit; /* ring positions not promised to any job, beyond one stop ticket per worker */
    uint32_t free_entries, held_lane; /* held_lane: lane + 1 whose next job waits for a resource */
    uint32_t held_pool;               /* and that is the workspace pool: jobs of others that need none go on */
    uint32_t hot, round;              /* lane + 1 served last; lane that last had its turn among those that are ready */
    uint32_t sweep, sweeps;           /* scout: first lane of the next look at all lanes; looks so far */
    uint32_t admin_told;              /* scout: low word of the admin position behind the last that it reported */
    uint32_t copies_told;             /* scout: of copies_put, what the device process was woken for */
    uint32_t collected, messages_taken; /* front: of what the back put into its rings */
    uint32_t expects;                 /* something is known to be at the head of the lane that is looked at */
    uint32_t refused_status;          /* of the last descriptor that was refused */
    uint32_t refused_cancelled;       /* of this turn's: cancelled before they were taken, which is nobody's fault */
    uint32_t waited;                  /* in this turn a job could not have what it needs */
    uint32_t work;                    /* of this turn: slots and messages taken, admin descriptors */
    uint32_t turn;                    /* of the front: counts them, modulo 2^32 */
    uint32_t quick[2]; /* jobs started the quick way that are not in the counters yet: of clients' lanes, of others */
    uint32_t leased;                        /* front: a bit for each wing that has a lease, as far as it knows */
    uint32_t stopping, asleep;              /* stopping: a STOP descriptor was read and its tickets are not out yet */
    uint32_t pieces, pieces_out;
    uint32_t lane_top, cancels; /* lane_top: one more than the highest open lane */
    uint32_t wake; /* set by a turn: some bit of wake_lanes is, or copies_told has changed; the backend clears this and
                    * the bits when it has woken them */
    uint32_t wake_lanes[GM_LANE_WORDS];
    uint32_t ready[GM_LANE_WORDS]; /* lanes whose next descriptor has begun to come, and that were not served since */
    uint32_t ready_words;          /* which of these words are not zero */
    uint16_t free_entry[GM_ENTRIES_MAX];
    struct gm_note note[GM_ENTRIES_MAX];
    uint32_t entry_ticket[GM_ENTRIES_MAX]; /* of a job in its slot: the low word of its ticket's position */
    struct gm_piece piece[GM_WORKSPACE_PIECES];
    struct gm_cancel cancel[GM_CANCELS_MAX];
    uint32_t copy_turn[GM_COPIES_MAX];  /* front: how often the place was used; what its words carry as their lap */
    uint16_t copy_entry[GM_COPIES_MAX]; /* front: whose it is */
    struct gm_crew crew;
    struct gm_wing wing[GM_WINGS_MAX];
    struct gm_lane_row lane[GM_LANE_TABLE];
    struct gm_arena_row arena[GM_ARENAS_MAX];
};

#ifdef __CUDACC__
/* A block's dynamic shared memory: the dispatcher's state, or a worker's scratch. */
extern __shared__ __align__(1024) uint8_t gm_dynamic[];
#endif
/* The dispatcher's state, for the code that is not inlined into its turn: by its name, so that a GPU's compiler knows
 * that it is shared memory, where a load by a pointer costs half as much again. */
GM_DEV struct gm_disp *gm_disp_here(struct gm_disp *d)
{
#ifdef __CUDACC__
    (void)d;
    return (struct gm_disp *)gm_dynamic;
#else
    return d;
#endif
}

/* Whether a lane is a client's: neither gridmilld's nor the one of the self-test. */
GM_HD bool gm_is_client_lane(uint32_t lane) { return lane != 0 && lane <= GM_LANES_MAX; }

static_assert(GM_LANE_WORDS <= 32u, "ready_words");

/* The last entries are the wings': those of the first wing behind those of the next. */
GM_HD uint32_t gm_wing_entries(const struct gm_core *core) { return core->entries_count >> GM_WING_SHIFT; }
GM_HD uint32_t gm_wing_entry(const struct gm_core *core, uint32_t wing, uint32_t i)
{
    return core->entries_count - 1u - wing * gm_wing_entries(core) - i;
}
GM_HD uint32_t gm_front_entries(const struct gm_core *core)
{
    return core->entries_count - core->wings * gm_wing_entries(core);
}
/* Whose an entry is: wing + 1, or 0: the front's. */
GM_HD uint32_t gm_entry_owner(const struct gm_core *core, uint32_t index)
{
    const uint32_t behind = core->entries_count - 1u - index;
    return index < gm_front_entries(core) ? 0 : (behind >> (core->entries_log2 - GM_WING_SHIFT)) + 1u;
}

GM_HD struct gm_entry *gm_entry_at(const struct gm_core *core, uint32_t index) { return &core->entries[index]; }

#endif
