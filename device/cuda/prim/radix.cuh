/* SPDX-License-Identifier: Apache-2.0
 *
 * Stable ranks by one radix digit over a block: each warp ranks its keys by asking which lanes hold the same digit
 * (ballots), counts in its own row of shared memory, then one scan over digits and warps. Whole block.
 *
 * Keys are warp-striped: warp w holds keys w * 32 * ITEMS up, its item i of lane l is key i * 32 + l of these.
 */
#ifndef GM_PRIM_RADIX_CUH
#define GM_PRIM_RADIX_CUH

#include "core/plan.h"
#include "ops/run.cuh"

static_assert(GM_CUDA_THREADS >= GM_RADIX, "a thread for each digit");

struct gm_radix_scratch {
    uint32_t warp[GM_BLOCK_WARPS][GM_RADIX]; /* counts, then where the warp's first key of the digit goes */
    uint32_t start[GM_RADIX];                /* where the digit begins in the tile */
    uint32_t count[GM_RADIX];
    uint32_t sums[GM_RADIX / 32u];
};

__device__ __forceinline__ uint32_t gm_radix_index(uint32_t items, uint32_t i)
{
    return threadIdx.x / 32u * 32u * items + i * 32u + threadIdx.x % 32u;
}

template <typename Key> __device__ __forceinline__ uint32_t gm_radix_digit(Key key, uint32_t shift)
{
    return (uint32_t)(key >> shift) & (GM_RADIX - 1u);
}

/* Lanes of the warp with the same digit. */
__device__ __forceinline__ uint32_t gm_radix_peers(uint32_t digit)
{
    uint32_t peers = 0xffffffffu;
#pragma unroll
    for (uint32_t b = 0; b < GM_RADIX_BITS; b++) {
        const bool one = digit >> b & 1u;
        const uint32_t ones = __ballot_sync(0xffffffffu, one);
        peers &= one ? ones : ~ones;
    }
    return peers;
}

/* Counts of the digits over all warps into s->count, starts into s->start and the rows of s->warp. Barriers before,
 * between and behind. */
__device__ __forceinline__ void gm_radix_scan(struct gm_radix_scratch *s)
{
    const uint32_t d = threadIdx.x, lane = d & 31u;
    uint32_t count = 0, upto = 0;
    __syncthreads();
    if (d < GM_RADIX) {
#pragma unroll 4
        for (uint32_t w = 0; w < GM_BLOCK_WARPS; w++)
            count += s->warp[w][d];
        upto = count;
#pragma unroll
        for (uint32_t step = 1; step < 32u; step *= 2u) {
            const uint32_t below = __shfl_up_sync(0xffffffffu, upto, step);
            upto += lane >= step ? below : 0;
        }
        if (lane == 31u)
            s->sums[d / 32u] = upto;
    }
    __syncthreads();
    if (d < GM_RADIX) {
        uint32_t start = upto - count;
        for (uint32_t k = 0; k < d / 32u; k++)
            start += s->sums[k];
        s->start[d] = start;
        s->count[d] = count;
#pragma unroll 4
        for (uint32_t w = 0; w < GM_BLOCK_WARPS; w++) {
            const uint32_t own = s->warp[w][d];
            s->warp[w][d] = start;
            start += own;
        }
    }
    __syncthreads();
}

/* Places of a thread's keys in the tile, two to a register. */
template <int ITEMS> struct gm_radix_ranks {
    uint32_t pair[(ITEMS + 1) / 2];
    __device__ __forceinline__ void set(int i, uint32_t v)
    {
        pair[i / 2] = i % 2 ? pair[i / 2] | v << 16 : v;
    }
    __device__ __forceinline__ uint32_t get(int i) const { return i % 2 ? pair[i / 2] >> 16 : pair[i / 2] & 0xffffu; }
};

/* rank: the key's place in the tile sorted by this digit. */
template <int ITEMS, typename Key>
__device__ __forceinline__ void gm_radix_rank(const Key (&key)[ITEMS], struct gm_radix_ranks<ITEMS> &rank,
                                              uint32_t shift, struct gm_radix_scratch *s)
{
    static_assert(ITEMS * GM_CUDA_THREADS <= 65536, "a place has 16 bits");
    const uint32_t lane = threadIdx.x & 31u, below = (1u << lane) - 1u;
    uint32_t *row = s->warp[threadIdx.x / 32u];
#pragma unroll
    for (uint32_t k = 0; k < GM_RADIX / 32u; k++)
        row[k * 32u + lane] = 0;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        const uint32_t digit = gm_radix_digit(key[i], shift), peers = gm_radix_peers(digit), before = peers & below;
        const uint32_t counted = row[digit];
        __syncwarp();
        if (before == 0)
            row[digit] = counted + __popc(peers);
        __syncwarp();
        rank.set(i, counted + __popc(before));
    }
    gm_radix_scan(s);
#pragma unroll
    for (int i = 0; i < ITEMS; i++)
        rank.pair[i / 2] += row[gm_radix_digit(key[i], shift)] << (i % 2 ? 16 : 0);
}

#endif
