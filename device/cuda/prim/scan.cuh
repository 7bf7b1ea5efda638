/* SPDX-License-Identifier: Apache-2.0
 *
 * Scans over a warp and over a block. Combine is associative; the order of operands is that of the threads, so what is
 * not commutative, and floats, come out the same from run to run. All threads of the warp, or block, together.
 */
#ifndef GM_CUDA_PRIM_SCAN_CUH
#define GM_CUDA_PRIM_SCAN_CUH

#include "ops/run.cuh"

/* Of this thread's value and those of all before it in the warp. T: of 4 or 8 bytes. */
template <typename T, typename Combine>
__device__ __forceinline__ T gm_warp_scan_inclusive(T value, Combine combine)
{
    const uint32_t lane = threadIdx.x & 31u;
#pragma unroll
    for (uint32_t d = 1; d < 32u; d *= 2u) {
        const T before = __shfl_up_sync(0xffffffffu, value, d);
        value = lane >= d ? combine(before, value) : value;
    }
    return value;
}

/* Of the values of all threads before this one in the block; the first one's is identity, which need not be neutral for
 * the others: they do without. *total: of all. scratch: GM_BLOCK_WARPS values of shared memory that nobody looks at any
 * more; free again for others behind a barrier. Has one barrier within. */
template <typename T, typename Combine>
__device__ __forceinline__ T gm_block_scan_exclusive(T value, T identity, Combine combine, T *scratch, T *total)
{
    const uint32_t lane = threadIdx.x & 31u, warp = threadIdx.x / 32u;
    const T inclusive = gm_warp_scan_inclusive(value, combine);
    if (lane == 31u)
        scratch[warp] = inclusive;
    __syncthreads();
    T before = identity, all = scratch[0];
#pragma unroll 1
    for (uint32_t w = 1; w < GM_BLOCK_WARPS; w++) {
        before = w == warp ? all : before;
        all = combine(all, scratch[w]);
    }
    *total = all;
    const T left = __shfl_up_sync(0xffffffffu, inclusive, 1u);
    if (lane == 0)
        return before;
    return warp == 0 ? left : combine(before, left);
}

#endif
