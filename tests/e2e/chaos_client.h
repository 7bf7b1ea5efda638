/* SPDX-License-Identifier: Apache-2.0
 *
 * A client process that uses the library: its connection, the memory and the jobs of each of its threads. A worker
 * belongs to one thread; the connection to all of the process.
 */
#ifndef GM_E2E_CHAOS_CLIENT_H
#define GM_E2E_CHAOS_CLIENT_H

#include "chaos.h"
#include "chaos_jobs.h"

#define WINDOW_MAX 24u

struct link {
    struct gm_client *client; /* NULL: none */
    uint32_t life;            /* of the daemon at its other end */
    _Atomic bool broken;
};

struct unit {
    struct task task;
    struct gm_request request;
    struct gm_job job;
    struct record *record;
};

struct worker {
    struct world *world;
    struct ledger *ledger;
    struct link *link;
    uint32_t thread, big_elements;
    struct gm_arena *arena;  /* cells, and a big one behind them */
    struct gm_arena *device; /* a cell */
    uint32_t device_index;
    struct record device_made; /* what explains the loss of it */
    uint8_t *local;            /* cells of this process alone */
    struct unit unit[WINDOW_MAX];
};

/* chaos_client.c */
/* Until it is known which daemon is at the other end. */
void link_open(struct world *world, struct ledger *ledger, struct link *link);
void link_close(struct ledger *ledger, struct link *link, struct worker *workers, uint32_t count);

/* chaos_work.c. False: the connection is broken, or the daemon takes no jobs: what is left of an action is not done. */
enum wait_style { WAIT_IN_ORDER, WAIT_AT_RANDOM, WAIT_LOOP };
bool work_units(struct worker *worker, struct rng *rng, uint32_t count, enum wait_style style);
bool work_one_by_one(struct worker *worker, struct rng *rng, uint32_t count);
bool work_big(struct worker *worker, struct rng *rng);
bool work_hurried(struct worker *worker, struct rng *rng);
/* Jobs that are sent and not waited for: before a death. */
void work_send(struct worker *worker, struct rng *rng, uint32_t count);
/* The arena is there, or could not be. */
bool work_ready(struct worker *worker);
bool work_free_arenas(struct worker *worker);
bool work_free_arena(struct worker *worker, struct gm_arena **arena);
/* So long after the start that only a deadline can have ended a wait. */
bool work_late(uint64_t start_ms);
bool work_zeroed(const uint8_t *bytes, uint64_t size);
/* Makes the request of a unit's task, which lies in the arena from at on, or in memory of this process. */
void work_ask(struct worker *worker, struct unit *unit, struct rng *rng, bool in_arena, uint64_t at);
/* After the connection was closed. */
void work_forget(struct worker *worker);
/* What the library returned to a call that is no job. True: OK. False: a fault explains it. */
bool work_call(struct worker *worker, const char *what, int status);


/* chaos_chain.c: a job in device memory, with its way there and back. */
bool work_chain(struct worker *worker, struct rng *rng);
/* One job and its status, whatever that is. What explains the loss of it is as in lives_in. */
int work_step(struct worker *worker, struct unit *unit, const struct record *lives_in);

/* chaos_named.c: a named arena is made, read through a handle of its own, or taken away. */
bool work_named(struct worker *worker, struct rng *rng);

#endif
