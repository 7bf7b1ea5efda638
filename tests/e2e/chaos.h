/* SPDX-License-Identifier: Apache-2.0
 *
 * A randomised run of the whole system by seed: a daemon, its device processes and clients of all kinds, while one
 * after the other is killed, frozen or misled. What every process must be able to say after its death lies in memory
 * that all of them share: struct world. Decisions come from the seed alone and never from time.
 */
#ifndef GM_E2E_CHAOS_H
#define GM_E2E_CHAOS_H

#include "harness.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#include "chaos_random.h"

#define DEVICES_HERE 2u
#define CLIENTS_MAX  6u  /* at a time */
#define LEDGERS_MAX  48u /* of all clients of a run, the dead ones included */
#define RECORDS_MAX  8192u
#define ROUNDS_MAX   5u
#define FAULTS_MAX   3u /* of a round */
#define THREADS_MAX  3u
#define WAIT_MS      60000u /* for what must come */

/* ---- What was planned ---- */

enum client_kind {
    KIND_LOCKSTEP,
    KIND_BATCH,
    KIND_LOOP,    /* an event loop on gm_fd */
    KIND_THREADS, /* several threads on one client */
    KIND_SOCKET,  /* without a lane */
    KIND_SLEEPER, /* long gaps: devices go to sleep in between */
    KIND_STATS,
    KIND_RAW, /* a lane without the library */
    KINDS
};

/* Where a client kills itself. */
enum death {
    DEATH_NONE,
    DEATH_CONNECTED,
    DEATH_SUBMITTED,
    DEATH_UNREAD, /* completions are there, and unread */
    DEATH_ARENA,  /* in the middle of arena.create */
    DEATH_FREE,   /* in the middle of arena.free */
    DEATH_FRAME,  /* in the middle of a message */
    DEATH_FORKED, /* a child lives on, and with it the socket */
    DEATHS,
    DEATH_GRANULE = DEATHS, /* raw: in the middle of a descriptor */
};

struct client_plan {
    enum client_kind kind;
    uint32_t window, slots, threads; /* slots of its lane; 0: the library's choice */
    enum gm_wait_strategy wait;
    bool lane_only;
    enum death death;
    uint32_t death_round, death_action; /* the first round that it sees is 0 */
};

enum fault_kind {
    FAULT_KILL_CLIENT,
    FAULT_KILL_DEVICE,
    FAULT_FREEZE_DEVICE,
    FAULT_FREEZE_DAEMON,
    FAULT_KILL_DAEMON,
    FAULT_TERM_DAEMON,
    FAULT_PAUSE,
    FAULT_DRAIN,
    FAULT_GARBAGE, /* connections that send nonsense */
    FAULT_DOOM,    /* the device is killed until it is out of service */
    FAULT_STALL,   /* the device is frozen until the watchdog kills it */
    FAULTS
};

struct fault {
    enum fault_kind kind;
    uint32_t target; /* client or device */
    uint32_t share;  /* of the jobs of the round, in 1/1000, after which it comes */
    uint32_t us;     /* and then so much later */
    uint32_t amount; /* ms of a freeze, number of pauses */
};

struct round_plan {
    uint32_t actions; /* of each client */
    uint32_t faults;
    struct fault fault[FAULTS_MAX];
};

struct plan {
    uint64_t seed;
    bool small, slow, keep; /* a short run; faults that take ten seconds too; a failed run stands still */
    uint32_t devices, workers[DEVICES_HERE], park_ms;
    char drill[64]; /* of the first daemon; empty: none */
    uint32_t clients, rounds;
    struct round_plan round[ROUNDS_MAX];
};

void plan_make(struct plan *plan, uint64_t seed, bool small, bool slow);
void plan_client(const struct plan *plan, uint32_t slot, uint32_t incarnation, struct client_plan *client);
const char *kind_name(enum client_kind kind);
const char *death_name(enum death death);
const char *fault_name(enum fault_kind kind);

/* ---- What happened ---- */

enum record_state { RECORD_FREE, RECORD_SENDING, RECORD_ACCEPTED, RECORD_ANSWERED, RECORD_REFUSED };
enum record_flag { RECORD_CANCELLED = 1 };

/* One job. The client writes it, and afterwards whoever audits. */
struct record {
    _Atomic uint8_t state;
    uint8_t flags, op;
    int8_t status;
    uint16_t life;                 /* of the daemon that got it */
    uint8_t device;                /* that it must run on, + 1 */
    uint8_t repaired[DEVICES_HERE]; /* losses of devices that do not explain its own */
};

struct ledger {
    uint32_t slot, incarnation, first_round;
    struct client_plan plan;
    _Atomic int pid, holder; /* holder: a child that keeps the socket open */
    bool killed, dead;       /* by the runner; known to it */
    _Atomic uint32_t rounds_done;
    _Atomic uint32_t life;   /* of the daemon that it is connected to; 0: none */
    _Atomic uint32_t arenas, lanes;
    _Atomic uint64_t arena_bytes;
    _Atomic uint32_t records;
    struct record record[RECORDS_MAX];
};

struct world {
    struct plan plan;
    char socket[200];
    char device[8]; /* the backend of device 0, as the daemon says; empty: none came up */
    uint64_t start_ms;
    _Atomic uint32_t life;     /* the daemon that runs, or the last one */
    _Atomic uint32_t ending;   /* the life whose end has begun */
    _Atomic uint32_t draining; /* the life that refuses jobs */
    _Atomic uint32_t doomed[DEVICES_HERE];   /* the life in which it is out of service */
    _Atomic uint32_t losses[DEVICES_HERE];   /* that came or may come; raised before the fault */
    _Atomic uint32_t repaired[DEVICES_HERE]; /* those that were over at the last quiet point */
    _Atomic uint32_t round; /* number + 1 of the round that runs */
    _Atomic bool over;
    _Atomic uint64_t answered; /* jobs of the round: faults wait for it */
    _Atomic uint32_t failed;
    char failure[600];
    _Atomic uint32_t log_bytes;
    char log[1 << 16];
    _Atomic uint32_t ledgers;
    struct ledger ledger[LEDGERS_MAX];
};

struct world *world_new(void);
/* A line of the step log. Any process. */
void note(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The run has failed: the first one's words are kept. Ends this process. */
_Noreturn void complain(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Whether the faults so far explain this answer. */
bool explained(struct world *world, const struct record *record, int status);

/* The step log, and with all the end of the daemon's. */
void world_show(const struct world *world, bool all);
/* Ends what a runner left when it died: it was their reaper, now we are. */
void world_end_orphans(void);

/* ---- chaos_run.c: one seed, in a process of its own ---- */
void run(struct world *world);

/* ---- chaos_client.c, chaos_raw.c: the life of one client process ---- */
_Noreturn void client_live(struct world *world, struct ledger *ledger);
void raw_client_round(struct world *world, struct ledger *ledger, uint32_t round);
/* Waits until the round has begun; false: there is none any more. */
bool await_round(struct world *world, uint32_t round);
struct record *record_new(struct world *world, struct ledger *ledger, uint32_t op, uint32_t life, int device);
/* Exactly one answer for each accepted job. Whether it is right, the caller has looked at. */
void record_answer(struct world *world, struct ledger *ledger, struct record *record, int status);
/* The same for every client: set before a process does anything else. */
void client_begin(struct world *world, struct ledger *ledger);

/* ---- chaos_figures.c ---- */
struct figures {
    struct {
        uint64_t submitted, done, failed, rejected, cancelled, depth, pid, lanes;
        char backend[8], state[24], reason[100];
    } device[DEVICES_HERE];
    uint32_t devices;
    uint64_t sessions, arenas, arena_bytes, fds, protocol_errors, op_done, op_failed;
};
/* False: no answer. */
bool figures_get(struct gm_client *client, struct figures *figures);
/* Named arenas. False: no answer. */
#define NAMED_MAX 8u
struct named {
    uint32_t count;
    uint64_t bytes, attached;
    char name[NAMED_MAX][GM_NAME_BYTES_MAX];
};
bool figures_named(struct gm_client *client, struct named *named);
/* What holds in every snapshot; earlier, when not NULL, is one of the same daemon. NULL, or what is wrong. */
const char *figures_wrong(const struct figures *figures, const struct figures *earlier);

#endif
