/* SPDX-License-Identifier: Apache-2.0
 *
 * What the histograms share on blocks: where a share counts, how it goes through its elements, and the sum of all
 * rows. A value is read once, into a register; its counter is compared with the number of counters where it is added
 * to. Whole block.
 *
 * A rule R says which counter an element has: at(first element of a pack), then cell(bits) for one after the other,
 * GM_BIN_NONE for none; target(counter): where its sum goes in the row, which is another bin for each of them if the
 * rule is unique.
 */
#ifndef GM_OPS_COUNTS_CUH
#define GM_OPS_COUNTS_CUH

#include "core/plan.h"
#include "cuda/prim/pack.cuh"
#include "cuda/prim/reduce.cuh"
#include "ops/bins.h"
#include "ops/run.cuh"

/* Lanes of a warp that want the same counter before they are joined: of 32 evenly spread ones seldom so many do. */
#define GM_COUNTS_CONCENTRATED 8u
/* Before sm_90 the compiler needs more registers for joining than there are; lanes that meet are left to the hardware.
 */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define GM_COUNTS_JOIN false
#else
#define GM_COUNTS_JOIN true
#endif
/* With so many copies of each counter, 2^3, lanes that meet are few whatever the data: nobody looks. */
#define GM_COUNTS_APART 3u
/* Words of counters that cost next to nothing to clear and to add, however few the elements. */
#define GM_COUNTS_CHEAP 8192u

/* Whether rows have words of 32 bits, which nothing overflows. Rows of one such word would not begin on 16 bytes. */
__device__ __forceinline__ bool gm_counts_narrow(const struct gm_job *job)
{
    return job->bins > 1u && gm_hist_word(job) == 4u;
}
/* Words of a row. */
__device__ __forceinline__ uint32_t gm_counts_stride(const struct gm_job *job)
{
    return gm_counts_narrow(job) ? (job->bins + 3u) & ~3u : job->bins;
}

/* Where a share's counts go: its row, or the output itself if no other share counts. */
struct gm_counts_sink {
    void *words;
    uint32_t bins;
    bool wide, narrow;

    __device__ __forceinline__ gm_counts_sink(const struct gm_run *run, uint32_t output)
        : bins(run->job->bins), narrow(gm_counts_narrow(run->job))
    {
        const struct gm_job *job = run->job;
        const uint64_t first = (uint64_t)run->share * gm_counts_stride(job) * (narrow ? 4u : 8u);
        const bool alone = job->shares == 1u;
        wide = alone || !narrow;
        words = alone ? gm_run_buffer<void>(run, output) : (void *)(job->workspace + first);
    }
    /* A barrier behind it is the caller's. */
    __device__ __forceinline__ void clear() const
    {
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < bins; i += GM_CUDA_THREADS)
            put(i, 0);
    }
    __device__ __forceinline__ void put(uint32_t bin, uint32_t times) const
    {
        if (wide)
            ((unsigned long long *)words)[bin] = times;
        else
            ((uint32_t *)words)[bin] = times;
    }
    __device__ __forceinline__ void add(uint32_t bin, uint32_t times) const
    {
        if (wide)
            atomicAdd((unsigned long long *)words + bin, (unsigned long long)times);
        else
            atomicAdd((uint32_t *)words + bin, times);
    }
};

/* The same value, of which the compiler does not know where it comes from: it would make it anew for each use, from
 * sm_90 on with an address of the block's cluster. Before, a shuffle may be a call. Whole warp. */
__device__ __forceinline__ unsigned long long gm_counts_keep(unsigned long long v)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    return v;
#else
    return __shfl_sync(0xffffffffu, v, threadIdx.x & 31u);
#endif
}

/* 32-bit counters in shared memory, up to a copy for each lane, side by side: copies for all lanes lie in different
 * banks, so that the lanes of a warp never meet, whatever the data. Emptied before they can overflow. Behind them is
 * one that nobody looks at, if they fit apart. */
struct gm_counts_shared {
    static constexpr bool joins = GM_COUNTS_JOIN;
    uint32_t *all;
    size_t lane;                 /* where this lane's copies begin, as an address in shared memory */
    uint32_t step, cells, since; /* step: bytes from counter to counter */

    /* room: bytes of scratch from offset on. elements: about as many as the share has, or more. */
    __device__ __forceinline__ gm_counts_shared(uint32_t a_cells, uint32_t offset, uint32_t room, uint32_t elements)
        : all(gm_run_scratch<uint32_t>(offset)), step(128), cells(a_cells), since(0)
    {
        uint32_t most = elements > GM_COUNTS_CHEAP ? elements : GM_COUNTS_CHEAP;
        most = most < room / 4u ? most : room / 4u;
        while (step != 4u && (cells + 1u) * (step / 4u) > most)
            step /= 2u;
        lane = (size_t)gm_counts_keep(__cvta_generic_to_shared(all + threadIdx.x % (step / 4u)));
    }
    /* The copies are a power of two. */
    __device__ __forceinline__ uint32_t shift() const { return (uint32_t)__ffs((int)step) - 3u; }
    static __device__ __forceinline__ bool fits(uint32_t cells, uint32_t room) { return cells * 4u <= room; }
    static __device__ __forceinline__ bool fits_apart(uint32_t cells, uint32_t room)
    {
        return cells < room / 4u >> GM_COUNTS_APART;
    }

    __device__ __forceinline__ bool looks() const { return step < 4u << GM_COUNTS_APART; }
    __device__ __forceinline__ void clear()
    {
#pragma unroll 4
        for (uint32_t i = threadIdx.x; i < cells << shift(); i += GM_CUDA_THREADS)
            all[i] = 0;
    }
    __device__ __forceinline__ uint32_t *at(uint32_t cell) const
    {
        return (uint32_t *)__cvta_shared_to_generic(lane + cell * step);
    }
    /* By the constant 1: the hardware then counts lanes that meet instead of serving one after the other. */
    __device__ __forceinline__ void add(uint32_t cell)
    {
        if (cell < cells)
            atomicAdd(at(cell), 1u);
    }
    /* The same without a branch. there: that cell is below cells. */
    __device__ __forceinline__ void add_if(bool there, uint32_t cell)
    {
        atomicAdd(at(there ? cell : cells), 1u);
    }
    __device__ __forceinline__ void add_many(uint32_t cell, uint32_t times)
    {
        if (cell < cells)
            atomicAdd(at(cell), times);
    }
    /* Of all copies. Lanes begin at different ones, so that they look into different banks. cell: the thread's number,
     * or GM_CUDA_THREADS more, and so on. */
    __device__ __forceinline__ uint32_t sum(uint32_t cell) const
    {
        const uint32_t copies = step / 4u, turn = threadIdx.x >> (5u - shift());
        uint32_t sum = 0;
#pragma unroll 8
        for (uint32_t k = 0; k < copies; k++)
            sum += all[cell * copies + ((k + turn) & (copies - 1u))];
        return sum;
    }
    /* Sums into the sink; how many this thread added. Barriers before and behind. */
    template <class R> __device__ __forceinline__ unsigned long long flush(const gm_counts_sink &sink, const R &rule)
    {
        unsigned long long counted = 0;
        __syncthreads();
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < cells; i += GM_CUDA_THREADS) {
            const uint32_t times = sum(i), bin = rule.target(i);
            if (bin >= sink.bins)
                continue;
            if (R::unique && sink.narrow)
                sink.put(bin, times);
            else if (times != 0)
                sink.add(bin, times); /* several values may share a bin, or more come later */
            counted += times;
        }
        since = 0;
        __syncthreads();
        return counted;
    }
    /* Whether counters might overflow by more than these. */
    __device__ __forceinline__ bool full(const struct gm_run *run, uint32_t elements)
    {
        since += elements;
        return since >= 0x80000000u && !gm_counts_narrow(run->job);
    }
};

/* The sink itself, where counters and edges are too many for shared memory. */
struct gm_counts_global {
    static constexpr bool joins = GM_COUNTS_JOIN;
    gm_counts_sink sink;
    unsigned long long counted;

    __device__ __forceinline__ explicit gm_counts_global(const gm_counts_sink &a_sink) : sink(a_sink), counted(0) {}
    __device__ __forceinline__ bool looks() const { return true; }
    __device__ __forceinline__ void clear() { sink.clear(); }
    __device__ __forceinline__ void add(uint32_t cell) { add_many(cell, 1u); }
    __device__ __forceinline__ void add_many(uint32_t cell, uint32_t times)
    {
        if (cell >= sink.bins)
            return;
        sink.add(cell, times);
        counted += times;
    }
    template <class R> __device__ __forceinline__ unsigned long long flush(const gm_counts_sink &, const R &)
    {
        return counted;
    }
    __device__ __forceinline__ bool full(const struct gm_run *, uint32_t) { return false; }
};

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

/* A pack of each thread that has one. join: as the last look said. joins: whether anybody looks. */
template <class C, typename W, class R, bool joins>
__device__ __forceinline__ void gm_counts_add(C &c, R &rule, uint4 v, bool there, uint32_t first, bool look, bool *join)
{
    constexpr uint32_t E = 16u / sizeof(W);
    typedef gm_counts_pack<W> Pack;
    if (joins && look && c.looks()) {
        rule.at(first);
        *join = gm_counts_concentrated(there ? rule.cell(Pack::get(v, 0)) : GM_BIN_NONE);
    }
    rule.at(first);
    if (joins && *join) {
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
template <class C, typename W, class R, bool joins>
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
        gm_counts_add<C, W, R, joins>(c, rule, v, at < packs, head + at * E,
                                      E >= 16u || base / GM_CUDA_THREADS % 4u == 0, &join);
    }
    gm_counts_some(c, rule, tile, head + packs * E, count);
}

/* Elements that a share has, or more. */
__device__ __forceinline__ uint32_t gm_counts_elements(const struct gm_job *job, uint32_t channels)
{
    if (job->tiles > job->shares)
        return GM_BLOCK_SCRATCH;
    return channels * (uint32_t)(job->n < job->tile_elements ? job->n : job->tile_elements);
}

/* How many were counted, over threads. */
struct gm_counts_sum {
    typedef unsigned long long Value;
    __device__ __forceinline__ static Value zero() { return 0; }
    __device__ __forceinline__ static Value combine(Value a, Value b) { return a + b; }
};

/* The result of the only share, which has nothing to be added to. Nobody uses the scratch any more. */
__device__ __forceinline__ void gm_counts_answer(struct gm_run *run, unsigned long long counted)
{
    if (run->job->shares != 1u)
        return;
    counted = gm_block_combine<gm_counts_sum>(counted, gm_run_scratch<unsigned long long>(0));
    if (threadIdx.x == 0)
        run->result = counted;
}

/* The share: pixels of the first buffer into the sink. The scratch that c uses is free. */
template <typename W, class C, class R>
__device__ __forceinline__ void gm_counts_share(struct gm_run *run, C &c, R &rule, uint32_t output, uint32_t channels)
{
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile, count;
    unsigned long long counted = 0;
    bool more = gm_run_next_tile(run, &tiles, &tile);
    if (!R::unique || !gm_counts_narrow(run->job))
        gm_counts_sink(run, output).clear();
    for (;;) {
        c.clear();
        __syncthreads();
        for (bool full = false; more && !full; more = gm_run_next_tile(run, &tiles, &tile)) {
            const uint64_t first = gm_run_tile(run, tile, &count) * channels;
            const uint32_t elements = (uint32_t)count * channels;
            gm_counts_tile<C, W, R, C::joins>(c, rule, gm_run_buffer<const W>(run, 0) + first, elements);
            full = c.full(run, elements);
        }
        counted += c.flush(gm_counts_sink(run, output), rule);
        if (!more)
            break;
    }
    gm_counts_answer(run, counted);
}

/* Packs of rows that a thread of the last block has on their way. */
#define GM_COUNTS_ROWS_AHEAD 16u

/* A pack of the rows of some shares, every so many from the first on. */
__device__ __forceinline__ uint4 gm_counts_add_rows(const uint4 *rows, uint32_t stride, uint32_t first, uint32_t step,
                                                    uint32_t shares)
{
    uint4 sum = make_uint4(0, 0, 0, 0);
#pragma unroll 1
    for (uint32_t base = first; base < shares; base += step * GM_COUNTS_ROWS_AHEAD) {
        uint4 v[GM_COUNTS_ROWS_AHEAD];
#pragma unroll
        for (uint32_t k = 0; k < GM_COUNTS_ROWS_AHEAD; k++) {
            const uint32_t share = base + k * step;
            v[k] = share < shares ? __ldcg(rows + (uint64_t)share * stride) : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (uint32_t k = 0; k < GM_COUNTS_ROWS_AHEAD; k++)
            sum.x += v[k].x, sum.y += v[k].y, sum.z += v[k].z, sum.w += v[k].w;
    }
    return sum;
}

/* Rows of 32-bit words: groups of threads take every so many rows, four words each, shared memory joins the groups. */
static __device__ __noinline__ void gm_counts_finish_narrow(struct gm_run *run, uint32_t output)
{
    const struct gm_job *job = run->job;
    const uint4 *rows = (const uint4 *)job->workspace;
    unsigned long long *out = gm_run_buffer<unsigned long long>(run, output), counted = 0;
    uint4 *part = gm_run_scratch<uint4>(0);
    const uint32_t *word = gm_run_scratch<uint32_t>(0);
    const uint32_t bins = job->bins, packs = gm_counts_stride(job) / 4u;
    const uint32_t lanes = packs < GM_CUDA_THREADS ? packs : GM_CUDA_THREADS, groups = GM_CUDA_THREADS / lanes;
    const uint32_t group = threadIdx.x / lanes, lane = threadIdx.x % lanes;
#pragma unroll 1
    for (uint32_t base = 0; base < packs; base += lanes) {
        if (group < groups && base + lane < packs)
            part[threadIdx.x] = gm_counts_add_rows(rows + base + lane, packs, group, groups, job->shares);
        __syncthreads();
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < lanes * 4u && base * 4u + i < bins; i += GM_CUDA_THREADS) {
            uint32_t sum = 0;
#pragma unroll 4
            for (uint32_t g = 0; g < groups; g++)
                sum += word[g * lanes * 4u + i];
            out[base * 4u + i] = sum;
            counted += sum;
        }
        __syncthreads();
    }
    counted = gm_block_combine<gm_counts_sum>(counted, gm_run_scratch<unsigned long long>(0));
    if (threadIdx.x == 0)
        run->result = counted;
}

/* Rows of 64-bit words: a bin after the other, since there are many elements or one bin. */
static __device__ __noinline__ void gm_counts_finish_wide(struct gm_run *run, uint32_t output)
{
    const struct gm_job *job = run->job;
    const unsigned long long *rows = (const unsigned long long *)job->workspace;
    unsigned long long *out = gm_run_buffer<unsigned long long>(run, output), counted = 0;
#pragma unroll 1
    for (uint32_t bin = threadIdx.x; bin < job->bins; bin += GM_CUDA_THREADS) {
        unsigned long long sum = 0;
#pragma unroll 8
        for (uint32_t share = 0; share < job->shares; share++)
            sum += __ldcg(&rows[(uint64_t)share * job->bins + bin]);
        out[bin] = sum;
        counted += sum;
    }
    counted = gm_block_combine<gm_counts_sum>(counted, gm_run_scratch<unsigned long long>(0));
    if (threadIdx.x == 0)
        run->result = counted;
}

/* The rows of all shares into a buffer; the result is how many were counted. */
__device__ __forceinline__ void gm_counts_finish(struct gm_run *run, uint32_t output)
{
    if (run->job->shares == 1u)
        return; /* its counts are there */
    if (gm_counts_narrow(run->job))
        gm_counts_finish_narrow(run, output);
    else
        gm_counts_finish_wide(run, output);
}

#endif
