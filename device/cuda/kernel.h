/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host hands to the resident kernel, and what both must know about its shape. C and CUDA C++.
 */
#ifndef GM_CUDA_KERNEL_H
#define GM_CUDA_KERNEL_H

#include "core/core.h"
#include "drill.h"
#include "ops/run.cuh"

/* Blocks an SM and registers a thread, beside GM_CUDA_THREADS. Measured shapes stand in SHAPES.md beside this file. */
#ifndef GM_CUDA_BLOCKS_PER_SM
#define GM_CUDA_BLOCKS_PER_SM 1
#endif
#ifndef GM_CUDA_REGISTERS
#define GM_CUDA_REGISTERS 112
#endif

struct gm_launch {
    struct gm_core core;
    uint32_t *checkin; /* host memory, one word per block: the launch number once the block is resident */
    uint32_t *wake;    /* host memory: counts times that sleepers are to be woken; a stream waits for it */
    uint32_t *wake_lanes; /* host memory, one word per lane: what wake counted when its client was last to be woken */
    uint32_t launch;   /* number of this launch */
    uint32_t bulk;     /* bulk copies may be used */
#ifdef GM_DRILLS
    struct gm_drill drill;
#endif
};

#ifdef __cplusplus
extern "C" {
#endif
const void *gm_kernel_address(void);
uint32_t gm_kernel_shared_bytes(void);
#ifdef __cplusplus
}
#endif

#endif
