/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram_2d on blocks: the counters of counts.cuh with equal bins (bins.h) on both axes. Two buffers are read side
 * by side: by 16 bytes where both have the same place in 16 bytes, else by elements. What bytes fall into is looked up
 * in shared memory. Each value is read once, into a register.
 */
#include "ops/counts_many.cuh"

namespace
{

/* Bins of the 256 values of a byte, on either axis: in front of the counters. */
#define LOOK_UP_BYTES 2048u
static_assert(GM_HIST_ROW_BINS * 4u + LOOK_UP_BYTES <= GM_BLOCK_SCRATCH, "and so many counters");

template <typename W> struct pair {
    typedef typename gm_counts_word<W>::type Word;
    struct gm_bins x, y;
    uint32_t dtype;

    __device__ __forceinline__ explicit pair(const struct gm_run *run) : dtype(run->job->dtype)
    {
        const uint32_t bins_y = gm_run_count2(run);
        x = gm_counts_bins(run->job->value[0], run->job->value[1], run->job->bins / bins_y);
        y = gm_counts_bins(gm_run_value2(run), gm_run_value3(run), bins_y);
    }
    /* Whole block; a barrier behind it is the caller's. */
    __device__ __forceinline__ void look_up() const
    {
        uint32_t *bin = gm_run_scratch<uint32_t>(0);
#pragma unroll 1
        for (uint32_t v = threadIdx.x; v < 256u; v += GM_CUDA_THREADS) {
            bin[v] = gm_bin_index(&x, (double)v);
            bin[256u + v] = gm_bin_index(&y, (double)v);
        }
    }
    __device__ __forceinline__ uint32_t cell(Word vx, Word vy) const
    {
        uint32_t bin_x, bin_y;
        if constexpr (sizeof(W) == 1) {
            bin_x = gm_run_scratch<uint32_t>(0)[vx];
            bin_y = gm_run_scratch<uint32_t>(0)[256u + vy];
        } else {
            bin_x = gm_bin_index(&x, gm_counts_number(vx, dtype));
            bin_y = gm_bin_index(&y, gm_counts_number(vy, dtype));
        }
        return bin_x <= x.last && bin_y <= y.last ? bin_x * (y.last + 1u) + bin_y : GM_BIN_NONE;
    }
    __device__ __forceinline__ uint32_t target(uint32_t i) const
    {
        return i;
    }
};

/* Elements from first up to end, one of each thread at a time. */
template <typename W, class C>
__device__ __forceinline__ void add_elements(C &c, const pair<W> &rule, const W *x, const W *y, uint32_t first,
                                             uint32_t end)
{
    bool join = false;
#pragma unroll 1
    for (uint32_t base = first; base < end; base += GM_CUDA_THREADS) {
        const uint32_t i = base + threadIdx.x;
        const uint32_t cell = i < end ? rule.cell(gm_counts_load(x + i), gm_counts_load(y + i)) : GM_BIN_NONE;
        if (C::joins && (base - first) / GM_CUDA_THREADS % 16u == 0)
            join = gm_counts_concentrated(cell);
        if (C::joins && join)
            gm_counts_join(c, cell);
        else
            c.add(cell);
    }
}

template <typename W, class C>
__device__ __forceinline__ void add_packs(C &c, const pair<W> &rule, const uint4 *x, const uint4 *y, uint32_t packs)
{
    constexpr uint32_t E = 16u / sizeof(W);
    typedef gm_counts_pack<W> Pack;
    bool join = false;
    uint4 next_x = make_uint4(0, 0, 0, 0), next_y = next_x;
    if (threadIdx.x < packs)
        next_x = __ldcg(x + threadIdx.x), next_y = __ldcg(y + threadIdx.x);
#pragma unroll 1
    for (uint32_t base = 0; base < packs; base += GM_CUDA_THREADS) {
        const uint32_t at = base + threadIdx.x, next = at + GM_CUDA_THREADS;
        const uint4 vx = next_x, vy = next_y;
        if (next < packs)
            next_x = __ldcg(x + next), next_y = __ldcg(y + next);
        if (C::joins && (E >= 16u || base / GM_CUDA_THREADS % 4u == 0))
            join = gm_counts_concentrated(at < packs ? rule.cell(Pack::get(vx, 0), Pack::get(vy, 0)) : GM_BIN_NONE);
        if (C::joins && join) {
#pragma unroll 1
            for (uint32_t e = 0; e < E; e++)
                gm_counts_join(c, at < packs ? rule.cell(Pack::get(vx, e), Pack::get(vy, e)) : GM_BIN_NONE);
        } else if (at < packs) {
#pragma unroll
            for (uint32_t e = 0; e < E; e++)
                c.add(rule.cell(Pack::get(vx, e), Pack::get(vy, e)));
        }
    }
}

template <typename W, class C>
__device__ __forceinline__ void share_pairs(struct gm_run *run, C &c, const pair<W> &rule)
{
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile, count;
    gm_counts_clear_row(run);
    c.clear();
    if (sizeof(W) == 1)
        rule.look_up();
    __syncthreads();
    bool more = gm_run_next_tile(run, &tiles, &tile);
    while (more) {
        const uint64_t first = gm_run_tile(run, tile, &count);
        const W *x = gm_run_buffer<const W>(run, 0) + first, *y = gm_run_buffer<const W>(run, 1) + first;
        const uint32_t elements = (uint32_t)count, off = (0u - (uint32_t)(uintptr_t)x) & 15u;
        uint32_t done = 0;
        if ((((uintptr_t)x ^ (uintptr_t)y) & 15u) == 0 && off / (uint32_t)sizeof(W) < elements) {
            const uint32_t head = off / (uint32_t)sizeof(W), packs = (elements - head) * (uint32_t)sizeof(W) / 16u;
            add_elements<W>(c, rule, x, y, 0, head);
            add_packs<W>(c, rule, (const uint4 *)(x + head), (const uint4 *)(y + head), packs);
            done = head + packs * (16u / (uint32_t)sizeof(W));
        }
        add_elements<W>(c, rule, x, y, done, elements);
        more = gm_run_next_tile(run, &tiles, &tile);
        c.tile_done(run, rule, elements, !more);
    }
}

template <typename W> __device__ __noinline__ void share_few(struct gm_run *run)
{
    const pair<W> rule(run);
    gm_counts_few counts(run);
    share_pairs<W>(run, counts, rule);
}

template <typename W> __device__ __noinline__ void share_shared(struct gm_run *run)
{
    const pair<W> rule(run);
    const uint32_t before = sizeof(W) == 1 ? LOOK_UP_BYTES : 0;
    gm_counts_shared counts(run->job->bins, before, GM_BLOCK_SCRATCH - before);
    share_pairs<W>(run, counts, rule);
}

template <typename W> struct source {
    struct gm_bins x, y;
    const W *in_x, *in_y;
    uint32_t dtype;

    __device__ __forceinline__ explicit source(const struct gm_run *run)
        : in_x(gm_run_buffer<const W>(run, 0)), in_y(gm_run_buffer<const W>(run, 1)), dtype(run->job->dtype)
    {
        const uint32_t bins_y = gm_run_count2(run);
        x = gm_counts_bins(run->job->value[0], run->job->value[1], run->job->bins / bins_y);
        y = gm_counts_bins(gm_run_value2(run), gm_run_value3(run), bins_y);
    }
    __device__ __forceinline__ uint32_t cell(uint64_t first, uint32_t k) const
    {
        const uint32_t bin_x = gm_bin_index(&x, gm_counts_number(gm_counts_load(in_x + first + k), dtype));
        const uint32_t bin_y = gm_bin_index(&y, gm_counts_number(gm_counts_load(in_y + first + k), dtype));
        return bin_x <= x.last && bin_y <= y.last ? bin_x * (y.last + 1u) + bin_y : GM_BIN_NONE;
    }
};

template <typename W> __device__ __forceinline__ void share_many(struct gm_run *run)
{
    if constexpr (sizeof(W) == 1)
        gm_many_share<source<W>>(run, 1u, 2);
    else
        gm_many_share_sorted<source<W>>(run, 2);
}

template <typename W> __device__ __forceinline__ void share_of(struct gm_run *run)
{
    if (gm_hist_many(run->job))
        share_many<W>(run);
    else if (sizeof(W) != 1 && run->job->bins <= GM_COUNTS_FEW)
        share_few<W>(run);
    else
        share_shared<W>(run);
}

} // namespace

__device__ void gm_op_histogram_2d_share(struct gm_run *run)
{
    switch (gm_dtype_bytes(run->job->dtype)) {
    case 1:
        share_of<uint8_t>(run);
        break;
    case 4:
        share_of<uint32_t>(run);
        break;
    case 8:
        share_of<uint64_t>(run);
        break;
    }
}

__device__ void gm_op_histogram_2d_finish(struct gm_run *run)
{
    if (gm_hist_many(run->job))
        gm_many_finish(run);
    else
        gm_counts_finish(run, 2);
}
