/* SPDX-License-Identifier: Apache-2.0
 *
 * Histograms on blocks of more bins than shared memory holds: one row in the workspace for all shares, in the phases
 * that plan.h names. Whole block. Counts are whole numbers, so in whatever order they are added the result is the same.
 *
 * Predictions, none of them measured. Direct: an addition to L2 for each element, 0.58 G/s on one address as it was
 * measured and some 56 G/s if each of 96 slices does as much, so 4.8 ms for 2^28 elements where the row fits L2, about
 * twice that where it does not. Sorted: elements are read twice, 4 bytes each are written and read once; ranking in
 * shared memory as in a pass of sort, 2.2 ms for 2^28. It begins with some 60 us of more phases, and of adding parts of
 * the row up to twice for each block; so it is ahead from about 2^22 elements on, unless there are more bins than
 * elements.
 *
 * A bin that many elements have would be one address of L2: a share counts the bins that it saw first for a place of a
 * table in shared memory there, where lanes that meet cost little, and 2^28 elements of one bin take no longer than
 * others. Sorted elements are ranked the same way whatever they are, and counted in shared memory.
 *
 * S, the source of bins, is made of a run and has cell(first, k): the bin of element first + k, GM_BIN_NONE for none;
 * first: of a tile.
 */
#ifndef GM_OPS_COUNTS_MANY_CUH
#define GM_OPS_COUNTS_MANY_CUH

#include "core/plan.h"
#include "cuda/prim/radix.cuh"
#include "ops/counts.cuh"

/* Places of a share's table of bins seen first. */
#define GM_MANY_PLACES 8192u
/* Elements that are added to 32-bit counters before these are emptied. */
#define GM_MANY_STRETCH (1u << 30)
/* Elements that a block sorts by their digit at a time: a thread's. */
#define GM_MANY_ITEMS 8
#define GM_MANY_BATCH ((uint32_t)GM_MANY_ITEMS * GM_CUDA_THREADS)

static_assert(GM_HIST_ROW_BINS * 4u <= GM_BLOCK_SCRATCH, "counted in shared memory");
static_assert(2u * GM_MANY_PLACES * 4u <= GM_BLOCK_SCRATCH, "the table fits");

/* The row for all shares. */
struct gm_many_row {
    void *words;
    uint32_t bins;
    bool narrow;

    __device__ __forceinline__ explicit gm_many_row(const struct gm_job *job)
        : words((void *)(job->workspace + gm_hist_row_offset(job))), bins(job->bins), narrow(gm_hist_word(job) == 4u)
    {
    }
    __device__ __forceinline__ void add(uint32_t bin, uint32_t times) const
    {
        if (bin >= bins)
            return;
        if (narrow)
            atomicAdd((uint32_t *)words + bin, times);
        else
            atomicAdd((unsigned long long *)words + bin, (unsigned long long)times);
    }
    __device__ __forceinline__ void clear(uint32_t bin) const
    {
        if (narrow)
            __stcg((uint32_t *)words + bin, 0u);
        else
            __stcg((unsigned long long *)words + bin, 0ull);
    }
    __device__ __forceinline__ unsigned long long get(uint32_t bin) const
    {
        return narrow ? __ldcg((const uint32_t *)words + bin) : __ldcg((const unsigned long long *)words + bin);
    }
};

/* Of each digit, in the workspace: where it begins, the next free place, where it ends. */
__device__ __forceinline__ unsigned long long *gm_many_places(const struct gm_job *job, uint32_t which)
{
    return (unsigned long long *)job->workspace + which * GM_RADIX;
}
__device__ __forceinline__ unsigned long long *gm_many_own(const struct gm_job *job, uint32_t share)
{
    return (unsigned long long *)(job->workspace + gm_hist_share_offset(share));
}

__device__ __forceinline__ void gm_many_clear(const struct gm_run *run)
{
    const gm_many_row row(run->job);
    uint32_t end;
    const uint32_t first = gm_hist_slice(run->job, run->share, &end);
#pragma unroll 4
    for (uint32_t bin = first + threadIdx.x; bin < end; bin += GM_CUDA_THREADS)
        row.clear(bin);
}

/* What was counted goes out; the share's sum into the workspace. */
__device__ __forceinline__ void gm_many_store(const struct gm_run *run, uint32_t output)
{
    const gm_many_row row(run->job);
    unsigned long long *out = gm_run_buffer<unsigned long long>(run, output);
    unsigned long long *sums = gm_run_scratch<unsigned long long>(0), counted = 0;
    uint32_t end;
    const uint32_t first = gm_hist_slice(run->job, run->share, &end);
#pragma unroll 4
    for (uint32_t bin = first + threadIdx.x; bin < end; bin += GM_CUDA_THREADS) {
        const unsigned long long times = row.get(bin);
        out[bin] = times;
        counted += times;
    }
    counted = gm_block_combine<gm_counts_sum>(counted, sums);
    if (threadIdx.x == 0)
        *gm_many_own(run->job, run->share) = counted;
}

/* ---- direct ---- */

/* An element of a bin that has a place in the table is added there, another one to the row. */
__device__ __forceinline__ void gm_many_add(const gm_many_row &row, uint32_t *bin_of, uint32_t *times, uint32_t bin)
{
    if (bin >= row.bins)
        return;
    const uint32_t place = bin * 2654435761u >> 19;
    static_assert(GM_MANY_PLACES == 1u << 13, "a place has the 13 highest bits");
    uint32_t held = bin_of[place];
    if (held == GM_BIN_NONE) {
        held = atomicCAS(&bin_of[place], GM_BIN_NONE, bin);
        held = held == GM_BIN_NONE ? bin : held;
    }
    if (held == bin)
        atomicAdd(&times[place], 1u); /* by the constant 1, as gm_counts_shared says */
    else
        row.add(bin, 1u);
}

/* Empties the table; before the first element too, with nothing in it. Barriers before and behind. */
__device__ __forceinline__ void gm_many_flush(const gm_many_row &row, uint32_t *bin_of, uint32_t *times, bool filled)
{
    __syncthreads();
#pragma unroll 1
    for (uint32_t place = threadIdx.x; place < GM_MANY_PLACES; place += GM_CUDA_THREADS) {
        if (filled && bin_of[place] != GM_BIN_NONE)
            row.add(bin_of[place], times[place]);
        bin_of[place] = GM_BIN_NONE;
        times[place] = 0;
    }
    __syncthreads();
}

/* per: elements of one item of the job. */
template <class S> __device__ __noinline__ void gm_many_count(struct gm_run *run, uint32_t per)
{
    const S source(run);
    const gm_many_row row(run->job);
    uint32_t *bin_of = gm_run_scratch<uint32_t>(0), *times = bin_of + GM_MANY_PLACES, since = 0;
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile, count;
    gm_many_flush(row, bin_of, times, false);
    while (gm_run_next_tile(run, &tiles, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count) * per;
        const uint32_t elements = (uint32_t)count * per;
#pragma unroll 4
        for (uint32_t k = threadIdx.x; k < elements; k += GM_CUDA_THREADS)
            gm_many_add(row, bin_of, times, source.cell(first, k));
        since += elements;
        if (since >= GM_MANY_STRETCH) {
            gm_many_flush(row, bin_of, times, true);
            since = 0;
        }
    }
    gm_many_flush(row, bin_of, times, true);
}

/* ---- sorted by high bits ---- */

/* Digits of a share's elements; what is in no bin has the last digit. */
template <class S> __device__ __noinline__ void gm_many_digits(struct gm_run *run)
{
    const S source(run);
    const uint32_t shift = gm_hist_shift(run->job->bins);
    uint32_t *rows = gm_run_scratch<uint32_t>(0), *row = rows + threadIdx.x / 32u * GM_RADIX;
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile, count;
    unsigned long long seen = 0;
    for (uint32_t i = threadIdx.x; i < GM_BLOCK_WARPS * GM_RADIX; i += GM_CUDA_THREADS)
        rows[i] = 0;
    __syncthreads();
    while (gm_run_next_tile(run, &tiles, &tile)) {
        uint64_t first = gm_run_tile(run, tile, &count);
        while (count != 0) {
            const uint32_t some = count < GM_MANY_STRETCH ? (uint32_t)count : GM_MANY_STRETCH;
#pragma unroll 4
            for (uint32_t k = threadIdx.x; k < some; k += GM_CUDA_THREADS)
                atomicAdd(&row[gm_radix_digit(source.cell(first, k), shift)], 1u);
            __syncthreads();
            for (uint32_t w = 0; w < GM_BLOCK_WARPS && threadIdx.x < GM_RADIX; w++) {
                seen += rows[w * GM_RADIX + threadIdx.x];
                rows[w * GM_RADIX + threadIdx.x] = 0;
            }
            __syncthreads();
            first += some;
            count -= some;
        }
    }
    if (threadIdx.x < GM_RADIX)
        gm_many_own(run->job, run->share)[threadIdx.x] = seen;
}

/* Digits of all shares become places below n, whatever was counted. By the last share. */
__device__ __forceinline__ void gm_many_split(const struct gm_run *run)
{
    const struct gm_job *job = run->job;
    const uint32_t d = threadIdx.x;
    unsigned long long *upto = gm_run_scratch<unsigned long long>(0), own = 0;
    if (d < GM_RADIX) {
#pragma unroll 8
        for (uint32_t share = 0; share < job->shares; share++)
            own += __ldcg(&gm_many_own(job, share)[d]);
        upto[d] = own;
    }
    __syncthreads();
#pragma unroll 1
    for (uint32_t step = 1; step < GM_RADIX; step *= 2u) {
        const unsigned long long below = d < GM_RADIX && d >= step ? upto[d - step] : 0;
        __syncthreads();
        if (d < GM_RADIX)
            upto[d] += below;
        __syncthreads();
    }
    if (d < GM_RADIX) {
        const unsigned long long end = upto[d] < job->n ? upto[d] : job->n, begin = upto[d] - own;
        gm_many_places(job, 0)[d] = gm_many_places(job, 1)[d] = begin < job->n ? begin : job->n;
        gm_many_places(job, 2)[d] = end;
    }
}

struct gm_many_scratch {
    struct gm_radix_scratch radix;
    unsigned long long place[GM_RADIX], end[GM_RADIX];
    uint32_t bin[GM_MANY_BATCH];
};
static_assert(sizeof(struct gm_many_scratch) <= GM_BLOCK_SCRATCH, "fits");

/* The bins of a batch into shared memory. */
template <class S> __device__ __noinline__ void gm_many_take(const struct gm_run *run, uint64_t first, uint32_t count)
{
    const S source(run);
    struct gm_many_scratch *s = gm_run_scratch<struct gm_many_scratch>(0);
#pragma unroll 4
    for (uint32_t k = threadIdx.x; k < GM_MANY_BATCH; k += GM_CUDA_THREADS)
        s->bin[k] = k < count ? source.cell(first, k) : GM_BIN_NONE;
}

/* They are put into the order of their digits, those of no element last. Barriers before and between. */
static __device__ __noinline__ void gm_many_rank(uint32_t shift)
{
    struct gm_many_scratch *s = gm_run_scratch<struct gm_many_scratch>(0);
    struct gm_radix_ranks<GM_MANY_ITEMS> rank;
    uint32_t bin[GM_MANY_ITEMS];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < GM_MANY_ITEMS; i++)
        bin[i] = s->bin[gm_radix_index(GM_MANY_ITEMS, i)];
    gm_radix_rank<GM_MANY_ITEMS, uint32_t>(bin, rank, shift, &s->radix);
#pragma unroll
    for (int i = 0; i < GM_MANY_ITEMS; i++)
        s->bin[rank.get(i)] = bin[i];
}

/* From there to places that nobody else was given. The client may have changed what was counted: then a digit has more
 * elements than places, and they are dropped, or fewer. A barrier behind. */
static __device__ __noinline__ void gm_many_put(const struct gm_job *job, uint32_t count, uint32_t shift)
{
    struct gm_many_scratch *s = gm_run_scratch<struct gm_many_scratch>(0);
    uint32_t *bins = (uint32_t *)(job->workspace + gm_hist_bins_offset(job));
    if (threadIdx.x < GM_RADIX) {
        const uint32_t padding = threadIdx.x == GM_RADIX - 1u ? GM_MANY_BATCH - count : 0;
        const unsigned long long own = s->radix.count[threadIdx.x] - padding;
        s->place[threadIdx.x] = own == 0 ? 0 : atomicAdd(&gm_many_places(job, 1)[threadIdx.x], own);
    }
    __syncthreads();
#pragma unroll 4
    for (uint32_t at = threadIdx.x; at < count; at += GM_CUDA_THREADS) {
        const uint32_t bin = s->bin[at], d = gm_radix_digit(bin, shift);
        const unsigned long long place = s->place[d] + (at - s->radix.start[d]);
        if (place < s->end[d])
            __stcg(bins + place, bin);
    }
    __syncthreads();
}

template <class S> __device__ __forceinline__ void gm_many_move(struct gm_run *run)
{
    struct gm_many_scratch *s = gm_run_scratch<struct gm_many_scratch>(0);
    const uint32_t shift = gm_hist_shift(run->job->bins);
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile, count;
    if (threadIdx.x < GM_RADIX) {
        const unsigned long long end = __ldcg(&gm_many_places(run->job, 2)[threadIdx.x]);
        s->end[threadIdx.x] = end < run->job->n ? end : run->job->n;
    }
    while (gm_run_next_tile(run, &tiles, &tile)) {
        uint64_t first = gm_run_tile(run, tile, &count);
#pragma unroll 1
        while (count != 0) {
            const uint32_t some = count < GM_MANY_BATCH ? (uint32_t)count : GM_MANY_BATCH;
            gm_many_take<S>(run, first, some);
            gm_many_rank(shift);
            gm_many_put(run->job, some, shift);
            first += some;
            count -= some;
        }
    }
}

/* Elements of one digit, those of GM_HIST_ROW_BINS bins from base on, into the row by way of counters in shared memory.
 * Barriers before and between. */
__device__ __forceinline__ void gm_many_part(const gm_many_row &row, const uint32_t *bins, uint32_t count,
                                             uint32_t base)
{
    constexpr uint32_t wide = GM_HIST_ROW_BINS;
    uint32_t *counter = gm_run_scratch<uint32_t>(0);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < wide; i += GM_CUDA_THREADS)
        counter[i] = 0;
    __syncthreads();
#pragma unroll 8
    for (uint32_t k = threadIdx.x; k < count; k += GM_CUDA_THREADS) {
        const uint32_t i = __ldcg(bins + k) - base;
        if (i < wide)
            atomicAdd(&counter[i], 1u);
    }
    __syncthreads();
#pragma unroll 2
    for (uint32_t i = threadIdx.x; i < wide; i += GM_CUDA_THREADS)
        if (counter[i] != 0)
            row.add(base + i, counter[i]);
}

/* Which digits have elements in a tile of places, a bit for each. What nobody put there is not looked at, since it is
 * of an earlier job. */
struct gm_many_tile {
    uint32_t some[GM_RADIX / 32u];
};
static_assert(GM_HIST_ROW_BINS * 4u + sizeof(struct gm_many_tile) <= GM_BLOCK_SCRATCH, "behind the counters");

struct gm_many_span {
    uint64_t from, to;
};

/* The places of a digit that are among these. */
__device__ __forceinline__ gm_many_span gm_many_within(const struct gm_job *job, uint32_t d, uint64_t first,
                                                       uint64_t count)
{
    const uint64_t begin = __ldcg(&gm_many_places(job, 0)[d]), next = __ldcg(&gm_many_places(job, 1)[d]);
    const uint64_t end = __ldcg(&gm_many_places(job, 2)[d]), filled = next < end ? next : end;
    gm_many_span span;
    span.from = begin > first ? begin : first;
    span.to = filled < first + count ? filled : first + count;
    return span;
}

/* What lies there of a digit, as often as its bins are more than the counters. */
__device__ __forceinline__ void gm_many_digit(const gm_many_row &row, const uint32_t *bins, uint32_t digit,
                                              uint32_t shift, gm_many_span span)
{
#pragma unroll 1
    while (span.from < span.to) {
        const uint64_t left = span.to - span.from;
        const uint32_t some = left < GM_MANY_STRETCH ? (uint32_t)left : GM_MANY_STRETCH;
#pragma unroll 1
        for (uint32_t part = 0; part < 1u << shift; part += GM_HIST_ROW_BINS)
            gm_many_part(row, bins + span.from, some, (digit << shift) + part);
        span.from += some;
    }
}

/* A share's tiles of places. */
static __device__ __noinline__ void gm_many_reduce(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    const gm_many_row row(job);
    const uint32_t *bins = (const uint32_t *)(job->workspace + gm_hist_bins_offset(job));
    const uint32_t shift = gm_hist_shift(job->bins), d = threadIdx.x;
    uint32_t *some = gm_run_scratch<struct gm_many_tile>(GM_HIST_ROW_BINS * 4u)->some;
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile, count;
    while (gm_run_next_tile(run, &tiles, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count);
        if (d < GM_RADIX) { /* whole warps */
            const gm_many_span own = gm_many_within(job, d, first, count);
            const uint32_t word = __ballot_sync(0xffffffffu, own.from < own.to);
            if (d % 32u == 0)
                some[d / 32u] = word;
        }
        __syncthreads();
#pragma unroll 1
        for (uint32_t w = 0; w < GM_RADIX / 32u; w++) {
#pragma unroll 1
            for (uint32_t rest = some[w]; rest != 0; rest &= rest - 1u) {
                const uint32_t digit = w * 32u + (uint32_t)__ffs((int)rest) - 1u;
                gm_many_digit(row, bins, digit, shift, gm_many_within(job, digit, first, count));
            }
        }
    }
}

/* ---- phases ---- */

template <class S> __device__ __forceinline__ void gm_many_share(struct gm_run *run, uint32_t per, uint32_t output)
{
    const struct gm_job *job = run->job;
    if (job->phase == 0)
        gm_many_clear(run);
    if (job->phase + 1u == job->phases)
        gm_many_store(run, output);
    else if (job->phase == 1u && !gm_hist_sorted(job))
        gm_many_count<S>(run, per);
}

/* For elements that plan.h may have sorted. */
template <class S> __device__ __forceinline__ void gm_many_share_sorted(struct gm_run *run, uint32_t output)
{
    const struct gm_job *job = run->job;
    gm_many_share<S>(run, 1u, output);
    if (!gm_hist_sorted(job))
        return;
    if (job->phase == 0)
        gm_many_digits<S>(run);
    else if (job->phase == 1u)
        gm_many_move<S>(run);
    else if (job->phase == 2u)
        gm_many_reduce(run);
}

/* The end of a phase: by the last share. */
__device__ __forceinline__ void gm_many_finish(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    unsigned long long counted = 0;
    if (job->phase == 0 && gm_hist_sorted(job))
        gm_many_split(run);
    if (job->phase + 1u != job->phases || threadIdx.x >= 32u)
        return;
    for (uint32_t share = threadIdx.x; share < job->shares; share += 32u)
        counted += __ldcg(gm_many_own(job, share));
    counted = gm_warp_combine<gm_counts_sum>(counted);
    if (threadIdx.x == 0)
        run->result = counted;
}

#endif
