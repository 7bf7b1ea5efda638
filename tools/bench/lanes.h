/* SPDX-License-Identifier: Apache-2.0
 *
 * What bench_lanes measures: the real gridmilld through the client library over lanes, from processes that have no CUDA
 * in them. Each part starts a daemon of its own. One thread in every process; client processes are forked before they
 * connect, die with their parent, and are not pinned to processors.
 */
#ifndef GM_BENCH_LANES_H
#define GM_BENCH_LANES_H

#include "figures.h"
#include "gridmill.h"
#include "process.h"

#define GM_LANES_JOB_NS    UINT64_C(30000000000) /* no job of ours takes longer */
#define GM_LANES_CREW_MAX  64u

struct gm_lanes {
    struct gm_figures *figures;
    struct gm_samples samples;
    const char *self, *device, *daemon, *drill, *peers; /* programs by path; drill and peers: NULL when there is none */
    size_t count;                                       /* samples of a round trip */
    uint64_t budget_ns;                                 /* one figure takes about so long at most */
    uint32_t start_s, idle, cycles, cycles_s, fault_clients, fault_jobs;
    uint32_t sum_log2;      /* of the largest sum */
    uint32_t copy_log2;     /* of the bytes of the largest copy */
    uint64_t rotated_bytes; /* inputs of sums are taken in turn from so many: more than any cache holds */
    struct gm_server_process server;
    char text[256]; /* of the failure */
};

/* The parts: false and a text on failure. */
bool gm_lanes_trips(struct gm_lanes *l);  /* round trip, alone and beside idle lanes */
bool gm_lanes_sums(struct gm_lanes *l);   /* sums of device memory */
bool gm_lanes_copies(struct gm_lanes *l); /* between shared memory and device memory */
bool gm_lanes_sleep(struct gm_lanes *l);  /* a device that parks, a client that sleeps */
bool gm_lanes_starts(struct gm_lanes *l); /* new processes, and what they hold of the GPU */
bool gm_lanes_cycles(struct gm_lanes *l); /* clients that come, go and are killed under load */
bool gm_lanes_fault(struct gm_lanes *l);  /* a fault of the device with full lanes */

/* ---- lanes_daemon.c ---- */

bool gm_lanes_fail(struct gm_lanes *l, const char *what, const char *why);
/* With what failed last on this client. */
bool gm_lanes_fail_last(struct gm_lanes *l, const char *what, struct gm_client *client);
/* A daemon that has answered a job; more: further arguments, ended by NULL. */
bool gm_lanes_up(struct gm_lanes *l, const char *const *more);
/* Stops it; false as well when good is false, after its log was shown. */
bool gm_lanes_down(struct gm_lanes *l, bool good);
/* A client whose jobs all go by its lane. NULL and a text on failure. */
struct gm_client *gm_lanes_open(struct gm_lanes *l, enum gm_wait_strategy wait);
/* Round trips into l->samples: at most count of them, in about the budget, after a warm-up. */
bool gm_lanes_trip(struct gm_lanes *l, struct gm_client *client, const struct gm_request *request, size_t count,
                   uint64_t budget_ns);
/* A number or a text of the daemon's stats by path, "devices.0.state". */
bool gm_lanes_stat(struct gm_lanes *l, struct gm_client *client, const char *path, uint64_t *value);
bool gm_lanes_stat_text(struct gm_lanes *l, struct gm_client *client, const char *path, char *text, size_t size);

/* ---- lanes_crew.c ---- */

/* Client processes and the memory that they share with their parent. */
struct gm_crew {
    uint32_t count, failed;
    pid_t pids[GM_LANES_CREW_MAX];
    struct gm_crew_shared {
        uint32_t ready, open, stop;
    } *shared;
};

typedef bool gm_crew_body(struct gm_lanes *l, struct gm_crew_shared *gate, uint32_t index, void *argument);
/* Forks so many processes that run body; false when not all of them are ready in time. */
bool gm_crew_start(struct gm_lanes *l, struct gm_crew *crew, uint32_t count, gm_crew_body *body, void *argument);
/* In a body: says that it is ready, and waits until the parent opens. */
void gm_crew_pass(struct gm_crew_shared *gate);
bool gm_crew_stopped(const struct gm_crew_shared *gate);
void gm_crew_open(struct gm_crew *crew);
/* Tells them to stop and waits for their ends; false when one of them failed. kill: they get no time for it. */
bool gm_crew_end(struct gm_lanes *l, struct gm_crew *crew, bool kill);
/* Memory that children share; NULL and a text on failure. */
void *gm_lanes_share(struct gm_lanes *l, size_t bytes);

/* ---- lanes_starts.c ---- */

/* Of the GPU, told by a process that has CUDA and is started for it; only when there are peers. */
bool gm_lanes_free_memory(struct gm_lanes *l, double *bytes);

/* ---- lanes_starts.c, lanes_echo.c: what this program does when it is started as one of its children ---- */

int gm_lanes_newcomer(const char *socket);
int gm_lanes_echo(const char *fd);

#endif
