/* SPDX-License-Identifier: Apache-2.0
 *
 * What the histograms share on blocks: where a share counts, how it goes through its elements, and the sum of all
 * rows. A value is read once, into a register; its counter is compared with the number of counters where it is added
 * to. Whole block.
 *
 * A rule R says which counter an element has: at(first element of a pack), then cell(bits) for one after the other,
 * GM_BIN_NONE for none; target(counter): where its sum goes in the row.
 */
#ifndef GM_OPS_COUNTS_CUH
#define GM_OPS_COUNTS_CUH

#include "cuda/prim/pack.cuh"
#include "cuda/prim/reduce.cuh"
#include "ops/bins.h"
#include "ops/run.cuh"

/* So many counters or fewer are kept in registers. */
#define GM_COUNTS_FEW 8u
/* Lanes of a warp that want the same counter before they are joined: of 32 evenly spread ones seldom so many do. */
#define GM_COUNTS_CONCENTRATED 8u
/* Before sm_90 the compiler needs more registers for joining than there are; lanes that meet are left to the hardware.
 */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define GM_COUNTS_JOIN false
#else
#define GM_COUNTS_JOIN true
#endif

__device__ __forceinline__ unsigned long long *gm_counts_row(const struct gm_run *run)
{
    return (unsigned long long *)run->job->workspace + (uint64_t)run->share * run->job->bins;
}

/* Empties the share's row. A barrier behind it is the caller's. */
__device__ __forceinline__ void gm_counts_clear_row(const struct gm_run *run)
{
    unsigned long long *row = gm_counts_row(run);
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < run->job->bins; i += GM_CUDA_THREADS)
        row[i] = 0;
}

/* 32-bit counters in shared memory, in as many copies as fit so that warps seldom meet, emptied into the row before
 * they can overflow. */
struct gm_counts_shared {
    static constexpr bool joins = GM_COUNTS_JOIN;
    uint32_t *all, *copy; /* copy: this warp's */
    uint32_t stride, copies, cells, since;

    /* room: bytes of scratch from offset on. */
    __device__ __forceinline__ gm_counts_shared(uint32_t a_cells, uint32_t offset, uint32_t room)
        : all(gm_run_scratch<uint32_t>(offset)), stride(a_cells | 1u), cells(a_cells), since(0)
    {
        /* An odd stride: equal counters of different copies lie in different banks. */
        copies = room / 4u / stride;
        copies = copies < GM_BLOCK_WARPS ? copies : GM_BLOCK_WARPS;
        if (copies <= 1u)
            copies = 1u, stride = cells;
        copy = all + threadIdx.x / 32u % copies * stride;
    }
    static __device__ __forceinline__ bool fits(uint32_t cells, uint32_t room) { return cells * 4u <= room; }

    __device__ __forceinline__ void clear()
    {
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < copies * stride; i += GM_CUDA_THREADS)
            all[i] = 0;
    }
    /* By the constant 1: the hardware then counts lanes that meet instead of serving one after the other. */
    __device__ __forceinline__ void add(uint32_t cell)
    {
        if (cell < cells)
            atomicAdd(&copy[cell], 1u);
    }
    __device__ __forceinline__ void add_many(uint32_t cell, uint32_t times)
    {
        if (cell < cells)
            atomicAdd(&copy[cell], times);
    }
    /* Sums of the copies into the row. Barriers before and behind. */
    template <class R> __device__ __forceinline__ void flush(struct gm_run *run, const R &rule)
    {
        unsigned long long *row = gm_counts_row(run);
        __syncthreads();
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < cells; i += GM_CUDA_THREADS) {
            unsigned long long sum = 0;
#pragma unroll 4
            for (uint32_t k = 0; k < copies; k++)
                sum += all[k * stride + i];
            const uint32_t bin = rule.target(i);
            if (sum != 0 && bin < run->job->bins)
                atomicAdd(&row[bin], sum); /* several values may share a bin */
        }
        __syncthreads();
    }
    /* Behind a tile; last: there are no more. */
    template <class R>
    __device__ __forceinline__ void tile_done(struct gm_run *run, const R &rule, uint32_t elements, bool last)
    {
        since += elements;
        if (last || since >= 0x80000000u) {
            flush(run, rule);
            clear();
            since = 0;
            __syncthreads();
        }
    }
};

/* The row itself, where counters and edges are too many for shared memory. */
struct gm_counts_global {
    static constexpr bool joins = GM_COUNTS_JOIN;
    unsigned long long *row;
    uint32_t cells;

    __device__ __forceinline__ explicit gm_counts_global(const struct gm_run *run)
        : row(gm_counts_row(run)), cells(run->job->bins)
    {
    }
    __device__ __forceinline__ void clear() {}
    __device__ __forceinline__ void add(uint32_t cell) { add_many(cell, 1u); }
    __device__ __forceinline__ void add_many(uint32_t cell, uint32_t times)
    {
        if (cell < cells)
            atomicAdd(&row[cell], (unsigned long long)times);
    }
    template <class R> __device__ __forceinline__ void tile_done(struct gm_run *, const R &, uint32_t, bool) {}
};

/* Few counters: each thread has its own in registers, eight of 8 bits in one word during a tile. No two threads meet,
 * whatever the data. */
struct gm_counts_few {
    static constexpr bool joins = false;
    uint64_t packed;
    uint32_t total[GM_COUNTS_FEW];
    uint32_t cells;

    __device__ __forceinline__ explicit gm_counts_few(const struct gm_run *run) : packed(0), cells(run->job->bins)
    {
#pragma unroll
        for (uint32_t k = 0; k < GM_COUNTS_FEW; k++)
            total[k] = 0;
    }
    __device__ __forceinline__ void clear() {}
    __device__ __forceinline__ void add(uint32_t cell)
    {
        packed += cell < cells ? (uint64_t)1 << 8u * (cell % GM_COUNTS_FEW) : 0;
    }
    __device__ __forceinline__ void add_many(uint32_t, uint32_t) {}
    template <class R> __device__ __forceinline__ void tile_done(struct gm_run *run, const R &, uint32_t, bool last)
    {
#pragma unroll
        for (uint32_t k = 0; k < GM_COUNTS_FEW; k++)
            total[k] += (uint32_t)(packed >> 8u * k) & 0xffu;
        packed = 0;
        if (last)
            flush(run);
    }
    __device__ __forceinline__ void flush(struct gm_run *run)
    {
        unsigned long long *row = gm_counts_row(run);
#pragma unroll
        for (uint32_t k = 0; k < GM_COUNTS_FEW; k++) {
            unsigned long long sum = total[k];
            for (int mask = 16; mask > 0; mask /= 2)
                sum += __shfl_xor_sync(0xffffffffu, sum, mask);
            if (threadIdx.x % 32u == 0 && sum != 0 && k < cells)
                atomicAdd(&row[k], sum);
        }
    }
};

/* Elements of one tile that a thread adds before tile_done. */
#define GM_COUNTS_EACH(elements) ((elements) / GM_CUDA_THREADS + 32u)
static_assert(GM_COUNTS_EACH(65536u / 4u) <= 255u, "8 bits hold them"); /* the largest tile of all histograms */

/* One element of each thread of a whole warp; those with the same counter are added by the lowest of them. */
template <class C> __device__ __forceinline__ void gm_counts_join(C &c, uint32_t cell)
{
    const uint32_t same = __ballot_sync(0xffffffffu, cell == __shfl_sync(0xffffffffu, cell, 0));
    const uint32_t peers = same == 0xffffffffu ? same : __match_any_sync(0xffffffffu, cell);
    if ((peers & ((1u << (threadIdx.x & 31u)) - 1u)) == 0)
        c.add_many(cell, (uint32_t)__popc(peers));
}

/* Whether to join, judged by one element of each thread of a whole warp; the same for all of them. */
__device__ __forceinline__ bool gm_counts_concentrated(uint32_t cell)
{
    const uint32_t peers = __match_any_sync(0xffffffffu, cell);
    return __ballot_sync(0xffffffffu, cell != GM_BIN_NONE && (uint32_t)__popc(peers) >= GM_COUNTS_CONCENTRATED) != 0;
}

__device__ __forceinline__ uint32_t gm_counts_load(const uint8_t *p)
{
    return __ldcg(p);
}
__device__ __forceinline__ uint32_t gm_counts_load(const uint32_t *p)
{
    return __ldcg(p);
}
__device__ __forceinline__ uint64_t gm_counts_load(const uint64_t *p)
{
    return __ldcg((const unsigned long long *)p);
}

template <typename W> struct gm_counts_word {
    typedef W type;
};
template <> struct gm_counts_word<uint8_t> {
    typedef uint32_t type;
};

__device__ __forceinline__ double gm_counts_number(uint32_t v, uint32_t dtype)
{
    return dtype == GM_DTYPE_f32 ? (double)__uint_as_float(v) : dtype == GM_DTYPE_i32 ? (double)(int32_t)v : (double)v;
}
__device__ __forceinline__ double gm_counts_number(uint64_t v, uint32_t dtype)
{
    return dtype == GM_DTYPE_f64   ? __longlong_as_double((long long)v)
           : dtype == GM_DTYPE_i64 ? (double)(long long)v
                                   : (double)(unsigned long long)v;
}

__device__ __forceinline__ struct gm_bins gm_counts_bins(uint64_t lo, uint64_t hi, uint32_t bins)
{
    return gm_bins_make(__longlong_as_double((long long)lo), __longlong_as_double((long long)hi), bins);
}

/* One element of each thread, or of some: not joined. */
template <class C, typename W, class R>
__device__ __forceinline__ void gm_counts_some(C &c, R &rule, const W *tile, uint32_t first, uint32_t end)
{
    const uint32_t i = first + threadIdx.x;
    if (i < end) {
        rule.at(i);
        c.add(rule.cell(gm_counts_load(tile + i)));
    }
}

/* Elements of a pack, in order. */
template <typename W> struct gm_counts_pack {
    static __device__ __forceinline__ typename gm_counts_word<W>::type get(uint4 v, uint32_t e)
    {
        if constexpr (sizeof(W) == 8)
            return e ? v.z | (uint64_t)v.w << 32 : v.x | (uint64_t)v.y << 32;
        const uint32_t word = sizeof(W) == 4 ? e : e / 4u;
        const uint32_t w = word == 0 ? v.x : word == 1u ? v.y : word == 2u ? v.z : v.w;
        return sizeof(W) == 4 ? w : w >> 8u * (e % 4u) & 0xffu;
    }
};

/* A pack of each thread that has one. join: as the last look said. */
template <class C, typename W, class R>
__device__ __forceinline__ void gm_counts_add(C &c, R &rule, uint4 v, bool there, uint32_t first, bool look, bool *join)
{
    constexpr uint32_t E = 16u / sizeof(W);
    typedef gm_counts_pack<W> Pack;
    if (C::joins && look) {
        rule.at(first);
        *join = gm_counts_concentrated(there ? rule.cell(Pack::get(v, 0)) : GM_BIN_NONE);
    }
    rule.at(first);
    if (C::joins && *join) {
#pragma unroll 1 /* what is saved by joining is worth more than this loop, and registers are few */
        for (uint32_t e = 0; e < E; e++)
            gm_counts_join(c, there ? rule.cell(Pack::get(v, e)) : GM_BIN_NONE);
    } else if (there) {
#pragma unroll
        for (uint32_t e = 0; e < E; e++)
            c.add(rule.cell(Pack::get(v, e)));
    }
}

/* A tile: elements up to the first address that is a multiple of 16, packs, and what is left. Some packs are on their
 * way while one is counted. */
template <class C, typename W, class R>
__device__ __forceinline__ void gm_counts_tile(C &c, R &rule, const W *tile, uint32_t count)
{
    constexpr uint32_t E = 16u / sizeof(W), A = GM_PACKS_AHEAD;
    const uint32_t to_grid = ((0u - (uint32_t)(uintptr_t)tile) & 15u) / (uint32_t)sizeof(W);
    const uint32_t head = to_grid < count ? to_grid : count, packs = (count - head) / E;
    const uint4 *from = (const uint4 *)(tile + head);
    uint4 ahead[A];
    bool join = false;
#pragma unroll
    for (uint32_t k = 0; k < A; k++) {
        const uint32_t at = threadIdx.x + k * GM_CUDA_THREADS;
        ahead[k] = at < packs ? __ldcg(from + at) : make_uint4(0, 0, 0, 0);
    }
    gm_counts_some(c, rule, tile, 0, head);
#pragma unroll 1
    for (uint32_t base = 0; base < packs; base += GM_CUDA_THREADS) {
        const uint32_t at = base + threadIdx.x, next = at + A * GM_CUDA_THREADS;
        const uint4 v = ahead[0];
#pragma unroll
        for (uint32_t k = 0; k + 1u < A; k++)
            ahead[k] = ahead[k + 1u];
        ahead[A - 1u] = next < packs ? __ldcg(from + next) : make_uint4(0, 0, 0, 0);
        gm_counts_add<C, W, R>(c, rule, v, at < packs, head + at * E, E >= 16u || base / GM_CUDA_THREADS % 4u == 0,
                               &join);
    }
    gm_counts_some(c, rule, tile, head + packs * E, count);
}

/* The share: pixels of the first buffer into the row. The scratch that c uses is free. */
template <typename W, class C, class R>
__device__ __forceinline__ void gm_counts_share(struct gm_run *run, C &c, R &rule, uint32_t channels)
{
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile, count;
    gm_counts_clear_row(run);
    c.clear();
    __syncthreads();
    bool more = gm_run_next_tile(run, &tiles, &tile);
    while (more) {
        const uint64_t first = gm_run_tile(run, tile, &count);
        const uint32_t elements = (uint32_t)count * channels;
        gm_counts_tile<C, W, R>(c, rule, gm_run_buffer<const W>(run, 0) + first * channels, elements);
        more = gm_run_next_tile(run, &tiles, &tile);
        c.tile_done(run, rule, elements, !more);
    }
}

/* How many were counted, over threads. */
struct gm_counts_sum {
    typedef unsigned long long Value;
    __device__ __forceinline__ static Value zero() { return 0; }
    __device__ __forceinline__ static Value combine(Value a, Value b) { return a + b; }
};

/* Adds the rows of all shares into a buffer: groups of threads take every so many rows, shared memory joins the groups.
 * The result is how many were counted. */
__device__ __forceinline__ void gm_counts_finish(struct gm_run *run, uint32_t output)
{
    const struct gm_job *job = run->job;
    const unsigned long long *rows = (const unsigned long long *)job->workspace;
    unsigned long long *out = gm_run_buffer<unsigned long long>(run, output);
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
    counted = gm_block_combine<gm_counts_sum>(counted, part);
    if (threadIdx.x == 0)
        run->result = counted;
}

#endif
