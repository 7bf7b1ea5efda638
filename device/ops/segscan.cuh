/* SPDX-License-Identifier: Apache-2.0
 *
 * What the segmented scans share on blocks: the way of prefix.cuh, with a bit of shared memory for each element of a
 * tile that says whether a segment begins there. The offsets of a tile are found while the one before it looks back,
 * and come in while that is written. Rules and isolation as in segscan.h: an offset is read once where it counts, and
 * compared with the tile before it is a position.
 */
#ifndef GM_OPS_SEGSCAN_CUH
#define GM_OPS_SEGSCAN_CUH

#include "ops/prefix.cuh"

/* Scratch: the bits, with one for what is behind the tile; and the tile's offsets, from and to. */
#define GM_SEGSCAN_FEW   (2u * GM_CUDA_THREADS) /* offsets of a job that are not searched */
#define GM_SEGSCAN_MOST  65536u /* offsets that are looked at one by one */
#define GM_SEGSCAN_WORDS (GM_PREFIX_TILE / 4u / 32u + 1u)
#define GM_SEGSCAN_ENDS  (GM_PREFIX_HEADS + (GM_SEGSCAN_WORDS * 4u + 15u) / 16u * 16u)
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

/* The first offset that is not below a position; their number when there is none. The first round looks where it is if
 * segments are of much the same length, so that two rounds are enough for those. Every other looks at 32 in all that is
 * left, and leaves a 33rd of it, whatever they say. Whole warp. */
__device__ __forceinline__ uint64_t segscan_from(const struct gm_run *run, uint64_t position)
{
    constexpr uint32_t step = 32u, around = 16u * step;
    const uint32_t lane = threadIdx.x & 31u;
    const uint64_t count = run->job->value[0] + 1u;
    const uint64_t guess = (uint64_t)((float)count / (float)run->job->n * (float)position);
    const uint64_t first = guess < around ? 0 : min(guess, count) - around, own = first + lane * step;
    const bool before = own < count && segscan_offset(run, own) < position;
    const uint32_t run_before = gm_lowest_zero(__ballot_sync(0xffffffffu, before));
    uint64_t low = run_before != 0 ? first + (run_before - 1u) * step + 1u : 0, high = count;
    if (run_before < 32u)
        high = min(high, first + run_before * step);
    while (low < high) {
        const uint64_t part = (high - low + 32u) / 33u, at = low + (lane + 1u) * part - 1u;
        const bool below = at < high && segscan_offset(run, at) < position;
        const uint32_t run_of = gm_lowest_zero(__ballot_sync(0xffffffffu, below));
        const uint64_t next = low + (run_of + 1u) * part - 1u; /* the first that is not below, if it was looked at */
        low += run_of * part;
        high = run_of < 32u && next < high ? next : high;
    }
    return low;
}

struct segscan_heads {
    static constexpr bool segmented = true;
    static constexpr uint32_t output = 2;
    uint64_t offset; /* a thread's first of the tile's; none is as large as this: UINT64_MAX */

    __device__ __forceinline__ static uint32_t *bits() { return gm_run_scratch<uint32_t>(GM_PREFIX_HEADS); }
    __device__ __forceinline__ static uint64_t *ends() { return gm_run_scratch<uint64_t>(GM_SEGSCAN_ENDS); }

    /* Of the share's part of the offsets: whether one falls, or is beyond n. Each thread for itself. They may be many
     * more than elements: it looks at the abort word now and then, if the job has an entry to look at. */
    __device__ __forceinline__ static bool bad(const struct gm_run *run)
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
        return bad;
    }

    /* The tile's offsets, by two warps that are not the first; few are all looked at. The others clear the bits. A
     * barrier behind. */
    __device__ __forceinline__ static void search(const struct gm_run *run, uint64_t tile)
    {
        const uint32_t warp = threadIdx.x / 32u;
        if (warp == 1u || warp == 2u) {
            const uint64_t count = run->job->value[0] + 1u;
            uint64_t elements, end = warp == 1u ? 0 : count;
            const uint64_t first = gm_run_tile(run, tile, &elements);
            if (count > GM_SEGSCAN_FEW)
                end = segscan_from(run, warp == 1u ? first : first + elements + 1u);
            if ((threadIdx.x & 31u) == 0)
                ends()[warp - 1u] = end;
        } else if (warp > 2u) {
            for (uint32_t i = threadIdx.x - 96u; i < GM_SEGSCAN_WORDS; i += GM_CUDA_THREADS - 96u)
                bits()[i] = 0;
        }
    }

    /* Asks for the first ones, where registers hold them. */
    __device__ __forceinline__ void ask(const struct gm_run *run)
    {
        if (!GM_PREFIX_EARLY)
            return;
        const uint64_t j = ends()[0] + threadIdx.x;
        offset = j < ends()[1] ? segscan_offset(run, j) : UINT64_MAX;
    }

    __device__ __forceinline__ static void set(uint64_t at, uint64_t count)
    {
        if (at <= count)
            atomicOr(&bits()[at / 32u], 1u << (at & 31u));
    }

    /* The bits of the tile's offsets. A barrier behind. */
    __device__ __forceinline__ void mark(const struct gm_run *run, uint64_t tile) const
    {
        constexpr uint32_t asked = GM_PREFIX_EARLY ? GM_CUDA_THREADS : 0;
        uint64_t count;
        const uint64_t first = gm_run_tile(run, tile, &count), from = ends()[0], to = ends()[1];
        if (GM_PREFIX_EARLY && offset != UINT64_MAX)
            set(offset - first, count);
        if (to - from > GM_SEGSCAN_MOST)
            mark_each(run, first, count, from, to);
        else
            for (uint64_t j = from + asked + threadIdx.x; j < to; j += GM_CUDA_THREADS)
                set(segscan_offset(run, j) - first, count);
    }

    /* The same where most segments are empty, or a client makes it seem so while it changes them: a search for each
     * element, so that a tile takes no longer than its elements and the logarithm of the offsets ask for. */
    __device__ __noinline__ static void mark_each(const struct gm_run *run, uint64_t first, uint64_t count,
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
                set(i, count);
        }
    }

    template <uint32_t N> __device__ __forceinline__ static uint32_t of(uint32_t at)
    {
        const uint32_t *word = bits() + at / 32u;
        const uint32_t high = (at & 31u) + N > 32u ? word[1] : 0;
        return __funnelshift_r(word[0], high, at & 31u) & (0xffffffffu >> (32u - N));
    }
};

} // namespace

#endif
