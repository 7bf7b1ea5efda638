/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of a GPU by fibers of one OS thread. A fiber runs until it reaches a collective of its warp, a barrier of its
 * block, or a look at memory that another one may have to write first; then the next one runs. Which one is next is a
 * matter of the order, and of the seed: what a barrier should have kept apart meets under one of them. Everything that
 * would hang or be undefined on a GPU ends the launch with a text. C++; one thread.
 */
#ifndef GM_SIMT_BLOCK_H
#define GM_SIMT_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "fiber.h"

#define GM_SIMT_THREADS 512u
#define GM_SIMT_WARPS (GM_SIMT_THREADS / 32u)
#define GM_SIMT_BLOCKS 4u /* at most, that take turns */

enum gm_simt_order { GM_SIMT_RISING, GM_SIMT_FALLING, GM_SIMT_RANDOM, GM_SIMT_ORDERS };

enum gm_simt_kind {
    GM_SIMT_SHFL,
    GM_SIMT_SHFL_UP,
    GM_SIMT_SHFL_DOWN,
    GM_SIMT_SHFL_XOR,
    GM_SIMT_BALLOT,
    GM_SIMT_ANY,
    GM_SIMT_ALL,
    GM_SIMT_MATCH_ANY,
    GM_SIMT_MATCH_ALL,
    GM_SIMT_REDUCE_ADD,
    GM_SIMT_REDUCE_MIN,
    GM_SIMT_REDUCE_MAX,
    GM_SIMT_REDUCE_MIN_SIGNED,
    GM_SIMT_REDUCE_MAX_SIGNED,
    GM_SIMT_REDUCE_AND,
    GM_SIMT_REDUCE_OR,
    GM_SIMT_REDUCE_XOR,
    GM_SIMT_SYNCWARP,
    GM_SIMT_SYNCTHREADS, /* of a block, from here on */
    GM_SIMT_SYNCTHREADS_COUNT,
    GM_SIMT_SYNCTHREADS_AND,
    GM_SIMT_SYNCTHREADS_OR
};

/* Where a thread stands in its source. */
struct gm_simt_site {
    const char *file;
    int line;
};

/* What a thread waits for. */
struct gm_simt_call {
    enum gm_simt_kind kind;
    uint32_t mask, arg, width;
    struct gm_simt_site site;
};

struct gm_simt_warp {
    /* Sets of lanes. Each lane is in one of the first four; tired: had its turn in this round. */
    uint32_t runnable, waiting, at_barrier, done, tired;
    uint64_t in[32], out[32];
    struct gm_simt_call call[32];
};

struct gm_simt_block {
    struct gm_simt_warp warp[GM_SIMT_WARPS];
    struct gm_fiber fiber[GM_SIMT_THREADS];
    uint32_t index, at_barrier, done, barrier_sum, current; /* current: its warp that ran last */
    struct gm_simt_call barrier;
    uint8_t *scratch; /* dynamic shared memory: of exactly GM_SIMT_SCRATCH bytes */
    void *context;    /* of the launch */
};

struct gm_simt_launch {
    uint32_t blocks;
    enum gm_simt_order order;
    uint64_t seed;
    void (*body)(void *context); /* by every thread of every block */
    void *context[GM_SIMT_BLOCKS];
    void (*disturb)(void); /* NULL, or what happens between two threads now and then */
};

/* Once. scratch_bytes: of dynamic shared memory that a block has. */
void gm_simt_open(size_t scratch_bytes);
struct gm_simt_block *gm_simt_block_at(uint32_t index);
/* Runs the blocks until every thread has returned. False, and why, when they cannot. */
bool gm_simt_launch(const struct gm_simt_launch *launch, char *why, size_t size);

/* ---- by fibers ---- */

extern struct gm_simt_block *gm_simt_here; /* the block of the fiber that runs */
extern uint32_t gm_simt_budget;            /* looks at memory before the next one is a reason to switch */

/* What the lane gets from the others. width: of shuffles. */
uint64_t gm_simt_warp_call(enum gm_simt_kind kind, uint32_t mask, uint64_t value, uint32_t arg, uint32_t width,
                           struct gm_simt_site site);
uint32_t gm_simt_barrier(enum gm_simt_kind kind, bool predicate, struct gm_simt_site site);
/* Lets all others go on: they may have to write what this one looks for. */
void gm_simt_poll(void);
static inline void gm_simt_look(void)
{
    if (--gm_simt_budget == 0)
        gm_simt_poll();
}
[[noreturn]] void gm_simt_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint32_t gm_simt_random(void);

#endif
