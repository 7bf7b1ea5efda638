/* SPDX-License-Identifier: Apache-2.0
 *
 * What bench_ops measures: every op of the catalogue from a client process without CUDA, by its lane, on data that lies
 * in memory of the device. One client thread, one job at a time.
 */
#ifndef GM_BENCH_OPS_BENCH_H
#define GM_BENCH_OPS_BENCH_H

#include "ops_plan.h" /* before gridmill.h, which leaves the protocol's enumerators to it */

#include "lanes.h"

#define GM_OPS_REGIONS 32u
#define GM_OPS_MOST 256u /* ops */

/* Device memory with data of one kind, for all places of a plan and for whatever plan needs the same. */
struct gm_ops_region {
    struct gm_arena *arena;                /* NULL: none */
    uint64_t bytes, n, length, used;       /* used: when, for the one that is given up next */
    uint32_t content, dtype, data, buffer; /* buffer: which one of its job */
};

struct gm_ops_bench {
    struct gm_lanes lanes;
    struct gm_client *client;
    struct gm_arena *upload; /* shared: data goes to the device through it */
    struct gm_ops_region region[GM_OPS_REGIONS];
    struct gm_samples run;            /* times on the device, of the samples in lanes */
    uint64_t clock, held, keep_bytes; /* keep_bytes: of regions that nobody needs just now no more are kept */
    const char *op;                   /* only this one, or NULL */
    uint32_t log2_max;
    bool all_types, alternate;
    uint32_t failed; /* cases */
};

/* ---- ops_memory.c ---- */

/* The request of a plan, its buffers at the first place; regions that hold them stay until the next gm_ops_release.
 * false and a text on failure. */
bool gm_ops_request(struct gm_ops_bench *b, const struct gm_ops_plan *plan, struct gm_request *request);
/* To another place. */
void gm_ops_move(const struct gm_ops_plan *plan, struct gm_request *request, uint64_t place);
/* Regions are needed no more; they are kept while there is room. */
void gm_ops_release(struct gm_ops_bench *b);
/* Gives all memory back. */
void gm_ops_forget(struct gm_ops_bench *b);

/* ---- ops_measure.c ---- */

/* Every op at every size, alone. false and a text when there is no going on; what fails of an op is counted. */
bool gm_ops_alone(struct gm_ops_bench *b);
/* All ops in turn at 2^14 elements. */
bool gm_ops_in_turn(struct gm_ops_bench *b);

#endif
