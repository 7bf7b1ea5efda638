/* SPDX-License-Identifier: Apache-2.0
 *
 * The words of CUDA C++ that device/ops is written in, for a compiler that knows none of them: included before an op's
 * .cuh, which is the same file that nvcc gets. Threads are fibers (block.h). The architecture is GM_SIMT_ARCH, so that
 * ways of one architecture are taken as there; <cuda/ptx> is the one beside this file.
 */
#ifndef GM_SIMT_VOCABULARY_H
#define GM_SIMT_VOCABULARY_H

/* Before words are defined that these use themselves. */
#include <assert.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "block.h"
#include "collectives.h"
#include "cuda_types.h"
#include "intrinsics.h"

#define __host__
#define __device__
#define __global__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline, unused))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __CUDACC__ 1
#define GM_CUDA_THREADS 512 /* GM_SIMT_THREADS */

/* Dynamic shared memory is the block's own, by the name that core.h declares. Other shared memory is static: only ops
 * whose blocks do not take turns may have it. The accessors of atomic.h are the host's, and a look by one lets the
 * others go on, because it may be one of a loop that waits for them. */
#define __shared__
#include "core/core.h"
#undef __shared__
#define __shared__ static
#define gm_dynamic (gm_simt_here->scratch)

#define gm_load_relaxed_u32(p) (gm_simt_poll(), gm_load_relaxed_u32(p))
#define gm_load_relaxed_u64(p) (gm_simt_poll(), gm_load_relaxed_u64(p))
#define gm_load_acquire_u32(p) (gm_simt_poll(), gm_load_acquire_u32(p))
#define gm_load_acquire_u64(p) (gm_simt_poll(), gm_load_acquire_u64(p))
#define gm_load_relaxed_block_u32(p) (gm_simt_poll(), gm_load_relaxed_block_u32(p))
#define gm_load_relaxed_block_u64(p) (gm_simt_poll(), gm_load_relaxed_block_u64(p))
#define gm_load_acquire_block_u32(p) (gm_simt_poll(), gm_load_acquire_block_u32(p))
#define gm_load_acquire_block_u64(p) (gm_simt_poll(), gm_load_acquire_block_u64(p))
#define gm_load16_gpu(p) (gm_simt_poll(), gm_load16_gpu(p))
#define gm_load16_relaxed_gpu(p) (gm_simt_poll(), gm_load16_relaxed_gpu(p))
#define gm_load16_sys(p) (gm_simt_poll(), gm_load16_sys(p))

#define __CUDA_ARCH__ GM_SIMT_ARCH

#endif
