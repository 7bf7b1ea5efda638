/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers of a GPU for one phase of a job: what a worker block of device/cuda/kernel.cu does between its ticket and its
 * answer, with blocks that are fibers (block.h). C and C++; one thread.
 */
#ifndef GM_SIMT_WORKER_H
#define GM_SIMT_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gm_entry;

struct gm_simt_phase {
    struct gm_entry *entry;
    const uint32_t *share; /* as they begin; a share may wait for what began before it, if all are in this order */
    uint32_t shares;
    uint32_t blocks; /* that take turns, at most gm_simt_blocks_most() */
    uint32_t bulk;   /* as gm_run */
    uint32_t order;  /* enum gm_simt_order */
    uint64_t seed;
    void (*disturb)(void); /* as gm_simt_launch */
    bool in_slot;          /* the job came with its ticket: nothing else in the entry is its own */
};

/* What the last share had to say. */
struct gm_simt_answer {
    int32_t status;
    uint64_t result;
    uint32_t finished; /* shares that were the last to arrive: one */
};

void gm_simt_workers_open(void);
bool gm_simt_has(uint32_t op); /* whether its tiles were built for this architecture */
uint32_t gm_simt_blocks_most(void);
uint32_t gm_simt_orders(void);
/* False, and why, when a block hangs or does what is undefined. */
bool gm_simt_phase_run(const struct gm_simt_phase *phase, struct gm_simt_answer *answer, char *why, size_t size);

#ifdef __cplusplus
}
#endif
#endif
