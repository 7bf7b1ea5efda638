/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram on blocks: each share counts into shared memory, in as many copies as fit so that warps seldom meet, or
 * into its row of the workspace where the bins are too many; finish adds the rows. A value is read once, into a
 * register, and its bin is below the number of bins by construction (bins.h).
 */
#include "cuda/prim/pack.cuh"
#include "ops/bins.h"
#include "ops/run.cuh"

namespace
{

/* The share's counters: 32 bits each in shared memory, emptied before they can overflow; or 64 in the row. */
struct counters {
    uint32_t *copy;          /* this warp's */
    unsigned long long *row; /* in the workspace */
    uint32_t stride, copies, bins;
};

__device__ __forceinline__ struct counters counters_make(const struct gm_run *run, uint32_t bins)
{
    struct counters c;
    c.bins = bins;
    c.stride = bins | 1u; /* odd: equal bins of different copies lie in different banks */
    c.copies = GM_BLOCK_SCRATCH / 4u / c.stride;
    c.copies = c.copies < GM_BLOCK_WARPS ? c.copies : GM_BLOCK_WARPS;
    c.row = (unsigned long long *)run->job->workspace + (uint64_t)run->share * run->job->bins;
    c.copy = gm_run_scratch<uint32_t>(0) + (c.copies ? threadIdx.x / 32u % c.copies * c.stride : 0);
    return c;
}

__device__ __forceinline__ void counters_clear(const struct gm_run *run, const struct counters &c)
{
    uint32_t *all = gm_run_scratch<uint32_t>(0);
    for (uint32_t i = threadIdx.x; i < c.copies * c.stride; i += GM_CUDA_THREADS)
        all[i] = 0;
}

/* One element of each thread; bin GM_BIN_NONE: none. The warp is whole. Where all have the same bin, one adds. */
template <bool shared> __device__ __forceinline__ void counters_add(const struct counters &c, uint32_t bin)
{
    const bool same = __all_sync(0xffffffffu, bin == __shfl_sync(0xffffffffu, bin, 0)) != 0;
    const uint32_t times = same ? 32u : 1u;
    if (bin == GM_BIN_NONE || (same && (threadIdx.x & 31u) != 0))
        return;
    if (shared)
        atomicAdd(&c.copy[bin], times);
    else
        atomicAdd(&c.row[bin], (unsigned long long)times);
}

/* Sums of the copies into the row; with values instead of bins, value by value through the rule. */
template <typename W> __device__ __forceinline__ void counters_flush(const struct gm_run *run, const struct counters &c,
                                                                     const struct gm_bins &rule)
{
    const uint32_t *all = gm_run_scratch<uint32_t>(0);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < c.bins; i += GM_CUDA_THREADS) {
        unsigned long long sum = 0;
        for (uint32_t k = 0; k < c.copies; k++)
            sum += all[k * c.stride + i];
        const uint32_t bin = sizeof(W) == 1 ? gm_bin_index(&rule, (double)i) : i;
        if (sum != 0 && bin <= rule.last)
            atomicAdd(&c.row[bin], sum); /* several values may share a bin */
    }
    __syncthreads();
}

__device__ __forceinline__ double number(uint32_t v, uint32_t dtype)
{
    return dtype == GM_DTYPE_f32   ? (double)__uint_as_float(v)
           : dtype == GM_DTYPE_i32 ? (double)(int32_t)v
                                   : (double)v;
}
__device__ __forceinline__ double number(uint64_t v, uint32_t dtype)
{
    return dtype == GM_DTYPE_f64   ? __longlong_as_double((long long)v)
           : dtype == GM_DTYPE_i64 ? (double)(long long)v
                                   : (double)(unsigned long long)v;
}

/* Elements of a pack, one after the other over the whole warp. Bytes are counted by value. */
template <bool shared, typename W>
__device__ __forceinline__ void count_pack(const struct counters &c, const struct gm_bins &rule, uint4 v,
                                           uint32_t valid, uint32_t dtype)
{
    if constexpr (sizeof(W) == 1) {
        const uint32_t word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (uint32_t e = 0; e < 16u; e++)
            counters_add<true>(c, e < valid ? word[e / 4u] >> 8u * (e % 4u) & 0xffu : GM_BIN_NONE);
    } else {
        const gm_pack<W> pack = gm_pack_of(v, W());
#pragma unroll
        for (uint32_t e = 0; e < gm_pack<W>::elements; e++)
            counters_add<shared>(c, e < valid ? gm_bin_index(&rule, number(pack.w[e], dtype)) : GM_BIN_NONE);
    }
}

/* 16 bytes of which some may lie outside the tile or off the grid. */
__device__ __noinline__ uint4 load_slowly(const uint8_t *p, uint32_t bytes)
{
    uint32_t word[4] = {0, 0, 0, 0};
#pragma unroll
    for (uint32_t e = 0; e < 16u; e++)
        if (e < bytes)
            word[e / 4u] |= (uint32_t)__ldcg(p + e) << 8u * (e % 4u);
    return make_uint4(word[0], word[1], word[2], word[3]);
}

template <bool shared, typename W>
__device__ __forceinline__ void count_tile(const struct counters &c, const struct gm_bins &rule, const W *tile,
                                           uint32_t count, uint32_t dtype)
{
    constexpr uint32_t E = 16u / sizeof(W), step = GM_CUDA_THREADS * E;
    uint32_t done = 0;
    if (((uintptr_t)tile & 15u) == 0)
        for (; done + GM_PACKS_AHEAD * step <= count; done += GM_PACKS_AHEAD * step) {
            const uint4 *from = (const uint4 *)(tile + done) + threadIdx.x;
            uint4 v[GM_PACKS_AHEAD];
#pragma unroll
            for (uint32_t k = 0; k < GM_PACKS_AHEAD; k++)
                v[k] = __ldcg(from + k * GM_CUDA_THREADS);
#pragma unroll
            for (uint32_t k = 0; k < GM_PACKS_AHEAD; k++)
                count_pack<shared, W>(c, rule, v[k], E, dtype);
        }
#pragma unroll 1
    for (; done < count; done += step) {
        const uint32_t first = done + threadIdx.x * E, valid = first < count ? min(count - first, E) : 0;
        count_pack<shared, W>(c, rule, load_slowly((const uint8_t *)(tile + first), valid * (uint32_t)sizeof(W)), valid,
                              dtype);
    }
}

template <bool shared, typename W> __device__ __noinline__ void count_share(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    const struct gm_bins rule = gm_bins_make(__longlong_as_double((long long)job->value[0]),
                                             __longlong_as_double((long long)job->value[1]), job->bins);
    struct counters c = counters_make(run, sizeof(W) == 1 ? 256u : job->bins);
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile, count, since = 0;
    const uint32_t dtype = job->dtype;
    for (uint32_t i = threadIdx.x; i < job->bins; i += GM_CUDA_THREADS)
        c.row[i] = 0;
    if (shared)
        counters_clear(run, c);
    __syncthreads();
    while (gm_run_next_tile(run, &tiles, &tile)) {
        const W *in = gm_run_buffer<const W>(run, 0) + gm_run_tile(run, tile, &count);
        count_tile<shared, W>(c, rule, in, (uint32_t)count, dtype);
        since += count;
        if (shared && since >= 0x80000000u) { /* a counter of 32 bits could be near its end */
            counters_flush<W>(run, c, rule);
            counters_clear(run, c);
            since = 0;
            __syncthreads();
        }
    }
    if (shared)
        counters_flush<W>(run, c, rule);
}

/* Adds the rows of all shares: groups of threads take every so many rows, shared memory joins the groups. */
__device__ __noinline__ void histogram_rows(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    const unsigned long long *rows = (const unsigned long long *)job->workspace;
    unsigned long long *out = gm_run_buffer<unsigned long long>(run, 1);
    unsigned long long *part = gm_run_scratch<unsigned long long>(0), counted = 0;
    const uint32_t bins = job->bins, shares = job->shares, wide = (bins + 31u) / 32u * 32u;
    const uint32_t lanes = wide < GM_CUDA_THREADS ? wide : GM_CUDA_THREADS, groups = GM_CUDA_THREADS / lanes;
    const uint32_t group = threadIdx.x / lanes, lane = threadIdx.x % lanes;
    for (uint32_t base = 0; base < bins; base += lanes) {
        const uint32_t bin = base + lane;
        unsigned long long sum = 0;
        if (group < groups && bin < bins) {
#pragma unroll 8
            for (uint32_t s = group; s < shares; s += groups)
                sum += __ldcg(&rows[(uint64_t)s * bins + bin]);
        }
        part[threadIdx.x] = sum;
        __syncthreads();
        if (group == 0 && bin < bins) {
            for (uint32_t g = 1; g < groups; g++)
                sum += part[g * lanes + lane];
            out[bin] = sum;
            counted += sum;
        }
        __syncthreads();
    }
    for (int mask = 16; mask > 0; mask /= 2)
        counted += __shfl_xor_sync(0xffffffffu, counted, mask);
    if (threadIdx.x % 32u == 0)
        part[threadIdx.x / 32u] = counted;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (uint32_t w = 1; w < GM_BLOCK_WARPS; w++)
            counted += part[w];
        run->result = counted;
    }
}

} // namespace

__device__ void gm_op_histogram_share(struct gm_run *run)
{
    const bool fits = (run->job->bins | 1u) * 4u <= GM_BLOCK_SCRATCH;
    switch (gm_dtype_bytes(run->job->dtype)) {
    case 1:
        count_share<true, uint8_t>(run);
        break;
    case 4:
        if (fits)
            count_share<true, uint32_t>(run);
        else
            count_share<false, uint32_t>(run);
        break;
    case 8:
        if (fits)
            count_share<true, uint64_t>(run);
        else
            count_share<false, uint64_t>(run);
        break;
    }
}

__device__ void gm_op_histogram_finish(struct gm_run *run) { histogram_rows(run); }
