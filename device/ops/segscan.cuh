/* SPDX-License-Identifier: Apache-2.0
 *
 * What the segmented scans share on blocks: the way of prefix.cuh, with a byte of shared memory for each element of a
 * tile that says whether a segment begins there. Rules and isolation as in segscan.h: an offset is read once where it
 * counts, and compared with the tile before it is a position.
 */
#ifndef GM_OPS_SEGSCAN_CUH
#define GM_OPS_SEGSCAN_CUH

#include "ops/prefix.cuh"

/* Scratch: the bytes, with one for what is behind the tile; and the tile's offsets, from and to. */
#define GM_SEGSCAN_MOST (4u * GM_PREFIX_TILE / 4u) /* offsets that are looked at one by one */
#define GM_SEGSCAN_ROOM (GM_PREFIX_TILE / 4u + 16u)
#define GM_SEGSCAN_ENDS (GM_PREFIX_HEADS + GM_SEGSCAN_ROOM)
static_assert(GM_SEGSCAN_ENDS + 16u <= GM_PREFIX_KEPT && GM_PREFIX_HEADS % 16u == 0, "fits");
static_assert(GM_TILE_BYTES_segmented_scan_sum == GM_PREFIX_TILE &&
                  GM_TILE_BYTES_segmented_scan_min == GM_PREFIX_TILE &&
                  GM_TILE_BYTES_segmented_scan_max == GM_PREFIX_TILE,
              "one for all");

namespace
{

/* Through L2, like everything that others may write. One below zero is far above n. */
__device__ __forceinline__ uint64_t segscan_offset(const struct gm_run *run, uint64_t j)
{
    const uint32_t dtype = run->job->type2;
    if (gm_dtype_bytes(dtype) == 8u)
        return gm_global_load(gm_run_buffer<const uint64_t>(run, 1) + j);
    const uint32_t v = gm_global_load(gm_run_buffer<const uint32_t>(run, 1) + j);
    return dtype == GM_DTYPE_i32 ? (uint64_t)(int64_t)(int32_t)v : v;
}

/* The first offset that is not below a position; their number when there is none. Every round looks at 32 of them, and
 * leaves a 33rd of what there was, whatever they say. Whole warp. */
__device__ __forceinline__ uint64_t segscan_from(const struct gm_run *run, uint64_t position)
{
    const uint32_t lane = threadIdx.x & 31u;
    uint64_t low = 0, high = run->job->value[0] + 1u;
    while (low < high) {
        const uint64_t step = (high - low + 32u) / 33u, at = low + (lane + 1u) * step - 1u;
        const bool below = at < high && segscan_offset(run, at) < position;
        const uint32_t run_of = gm_lowest_zero(__ballot_sync(0xffffffffu, below));
        const uint64_t next = low + (run_of + 1u) * step - 1u; /* the first that is not below, if it was looked at */
        low += run_of * step;
        high = run_of < 32u && next < high ? next : high;
    }
    return low;
}

struct segscan_heads {
    static constexpr bool segmented = true;
    static constexpr uint32_t output = 2;

    __device__ __forceinline__ static uint8_t *bytes() { return gm_run_scratch<uint8_t>(GM_PREFIX_HEADS); }

    /* The share's part of the offsets: none falls, none is beyond n. Whole block, same answer for all. They may be many
     * more than elements: a thread looks at the abort word now and then, if the job has an entry to look at. A barrier
     * within. */
    __device__ __noinline__ static bool good(const struct gm_run *run)
    {
        const struct gm_job *job = run->job;
        const uint64_t count = job->value[0] + 1u, part = gm_ceil_div(count, job->shares), from = run->share * part;
        const uint64_t to = count - from < part ? count : from + part;
        const bool has_entry = job->phases > 1u || job->tiles > 1u;
        bool bad = false;
        uint32_t turn = 0;
        for (uint64_t j = from + threadIdx.x; j < to && from < count; j += GM_CUDA_THREADS) {
            if (++turn % 64u == 0 && has_entry && gm_load_relaxed_u32(&run->entry->abort) != 0)
                break;
            const uint64_t v = segscan_offset(run, j), before = j > 0 ? segscan_offset(run, j - 1u) : 0;
            bad |= v < before || v > job->n;
        }
        return __syncthreads_or(bad) == 0;
    }

    /* Whole block; barriers within, and the bytes are free again behind another. */
    __device__ __noinline__ static void find(const struct gm_run *run, uint64_t tile)
    {
        uint64_t count, *ends = gm_run_scratch<uint64_t>(GM_SEGSCAN_ENDS);
        const uint64_t first = gm_run_tile(run, tile, &count);
        const uint32_t warp = threadIdx.x / 32u;
        for (uint32_t i = threadIdx.x; i < GM_SEGSCAN_ROOM / 16u; i += GM_CUDA_THREADS)
            ((uint4 *)bytes())[i] = make_uint4(0, 0, 0, 0);
        if (warp < 2u) {
            const uint64_t end = segscan_from(run, warp == 0 ? first : first + count + 1u);
            if ((threadIdx.x & 31u) == 0)
                ends[warp] = end;
        }
        __syncthreads();
        if (ends[1] - ends[0] <= GM_SEGSCAN_MOST)
            mark_all(run, first, count, ends[0], ends[1]);
        else
            mark_each(run, first, count, ends[0], ends[1]);
        __syncthreads();
    }

    /* The bytes of these offsets. */
    __device__ __forceinline__ static void mark_all(const struct gm_run *run, uint64_t first, uint64_t count,
                                                    uint64_t from, uint64_t to)
    {
        for (uint64_t j = from + threadIdx.x; j < to; j += GM_CUDA_THREADS) {
            const uint64_t at = segscan_offset(run, j) - first;
            if (at <= count)
                bytes()[at] = 1; /* empty segments: several write the same */
        }
    }

    /* The same where most segments are empty, or a client makes it seem so while it changes them: a search for each
     * byte, so that a tile takes no longer than its elements and the logarithm of the offsets ask for. */
    __device__ __forceinline__ static void mark_each(const struct gm_run *run, uint64_t first, uint64_t count,
                                                     uint64_t from, uint64_t to)
    {
        for (uint64_t i = threadIdx.x; i <= count; i += GM_CUDA_THREADS) {
            uint64_t low = from, high = to;
            while (low < high) {
                const uint64_t middle = low + (high - low) / 2u;
                if (segscan_offset(run, middle) < first + i)
                    low = middle + 1u;
                else
                    high = middle;
            }
            if (low < to && segscan_offset(run, low) == first + i)
                bytes()[i] = 1;
        }
    }

    template <uint32_t E> __device__ __forceinline__ static uint32_t of(uint32_t at)
    {
        uint32_t bits = 0;
#pragma unroll
        for (uint32_t e = 0; e <= E; e++)
            bits |= (uint32_t)bytes()[at + e] << e;
        return bits;
    }
};

} // namespace

#endif
