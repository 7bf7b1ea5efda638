/* SPDX-License-Identifier: Apache-2.0
 *
 * What bench_socket measures: gridmilld through the client library, Redis through a raw client of its own. Client
 * processes are forked before they connect. One thread in each.
 */
#ifndef GM_BENCH_SOCKET_H
#define GM_BENCH_SOCKET_H

#include "figures.h"
#include "process.h"

#define GM_CLIENTS_MAX 16u

struct gm_socket_bench {
    struct gm_figures *figures;
    struct gm_samples samples;
    size_t count;
    uint64_t budget_ns;
    const char *device, *daemon, *redis;
    uint32_t idle_s;
    char text[256]; /* of the failure */
};

/* Both: false and a text on failure. */
bool gm_bench_gridmill(struct gm_socket_bench *bench);
bool gm_bench_redis(struct gm_socket_bench *bench);

/* Where client processes meet before they work; in memory that they share with their parent. */
struct gm_gate {
    uint32_t connected, open;
};
/* Says that this client is ready, and waits until all are. */
void gm_gate_pass(struct gm_gate *gate);

/* Body of a client process: connects, passes the gate, works for the budget. Answered requests; 0 on failure. */
typedef uint64_t gm_client_body(struct gm_socket_bench *bench, const char *socket, uint32_t window,
                                struct gm_gate *gate);
/* Requests a second of so many client processes; 0 when one of them failed. */
double gm_bench_processes(struct gm_socket_bench *bench, gm_client_body *body, const char *socket, uint32_t clients,
                          uint32_t window);

#endif
