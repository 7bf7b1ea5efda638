/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram_2d on blocks: the counters of counts.cuh with equal bins (bins.h) on both axes, as in counts_stream.cuh if
 * they have enough copies. Two buffers are read side by side: by 16 bytes where both have the same place in 16 bytes,
 * else by elements. What bytes fall into is looked up
 * in shared memory. Each value is read once, into a register.
 */
#include "ops/counts_many.cuh"
#include "ops/counts_stream.cuh"

namespace
{

/* Bins of the 256 values of a byte, on either axis: in front of the counters. */
#define LOOK_UP_BYTES 2048u
static_assert(GM_HIST_ROW_BINS * 4u + LOOK_UP_BYTES <= GM_BLOCK_SCRATCH, "and so many counters");

template <typename W> struct pair {
    static constexpr bool unique = true;
    typedef typename gm_counts_word<W>::type Word;
    struct gm_bins_fast x, y; /* of bytes for the numbers of bins alone */
    uint32_t dtype;

    /* Whole block; a barrier behind it is the caller's. */
    __device__ __forceinline__ pair(const struct gm_run *run, uint32_t a_dtype) : dtype(a_dtype)
    {
        const struct gm_job *job = run->job;
        const uint64_t lo_y = gm_run_value2(run), hi_y = gm_run_value3(run);
        const uint32_t bins_y = gm_run_count2(run), bins_x = job->bins / bins_y;
        if constexpr (sizeof(W) == 1) {
            x.bins = bins_x;
            y.bins = bins_y;
            look_up(gm_counts_bins(job->value[0], job->value[1], bins_x), gm_run_scratch<uint32_t>(0));
            look_up(gm_counts_bins(lo_y, hi_y, bins_y), gm_run_scratch<uint32_t>(0) + 256u);
        } else {
            x = gm_stream_make(0, job->value[0], job->value[1], bins_x, dtype);
            y = gm_stream_make(1, lo_y, hi_y, bins_y, dtype);
        }
    }
    static __device__ __forceinline__ void look_up(const struct gm_bins &rule, uint32_t *bin)
    {
#pragma unroll 1
        for (uint32_t v = threadIdx.x; v < 256u; v += GM_CUDA_THREADS)
            bin[v] = gm_bin_index(&rule, (double)v);
    }
    __device__ __forceinline__ uint32_t cell(Word vx, Word vy) const
    {
        uint32_t bin_x, bin_y;
        if constexpr (sizeof(W) == 1) {
            bin_x = gm_run_scratch<uint32_t>(0)[vx];
            bin_y = gm_run_scratch<uint32_t>(0)[256u + vy];
        } else {
            bin_x = gm_stream_bin(x, 0, dtype, vx);
            bin_y = gm_stream_bin(y, 1, dtype, vy);
        }
        return flat(bin_x, bin_y);
    }
    __device__ __forceinline__ uint32_t flat(uint32_t bin_x, uint32_t bin_y) const
    {
        return bin_x < x.bins && bin_y < y.bins ? bin_x * y.bins + bin_y : GM_BIN_NONE;
    }
    /* Pairs of a pack of each; those that the fast rule is not sure of are seldom, so they come behind the others. Not
     * of bytes. */
    __device__ __forceinline__ void pack(gm_counts_shared &c, uint4 vx, uint4 vy) const
    {
        constexpr uint32_t E = 16u / sizeof(W);
        typedef gm_counts_pack<W> Pack;
        uint32_t unsure = 0;
#pragma unroll
        for (uint32_t e = 0; e < E; e++) {
            uint32_t bin_x, bin_y;
            const bool sure_x = x.find(gm_bins_float(Pack::get(vx, e), dtype), &bin_x);
            const bool sure_y = y.find(gm_bins_float(Pack::get(vy, e), dtype), &bin_y), sure = sure_x && sure_y;
            c.add_if(sure && bin_x < x.bins && bin_y < y.bins, bin_x * y.bins + bin_y);
            unsure |= sure && bin_x != x.bins && bin_y != y.bins ? 0 : 1u << e;
        }
        if (unsure == 0)
            return;
#pragma unroll 1
        for (uint32_t e = 0; e < E; e++)
            if (unsure >> e & 1u)
                c.add(flat(gm_stream_ask(0, gm_counts_number(Pack::get(vx, e), dtype)),
                           gm_stream_ask(1, gm_counts_number(Pack::get(vy, e), dtype))));
    }
    __device__ __forceinline__ uint32_t target(uint32_t i) const
    {
        return i;
    }
};

/* Elements from first up to end, one of each thread at a time. */
template <typename W, bool joins>
__device__ __forceinline__ void add_elements(gm_counts_shared &c, const pair<W> &rule, const W *x, const W *y,
                                             uint32_t first, uint32_t end)
{
    bool join = false;
#pragma unroll 1
    for (uint32_t base = first; base < end; base += GM_CUDA_THREADS) {
        const uint32_t i = base + threadIdx.x;
        const uint32_t cell = i < end ? rule.cell(gm_counts_load(x + i), gm_counts_load(y + i)) : GM_BIN_NONE;
        if (joins && c.looks() && (base - first) / GM_CUDA_THREADS % 16u == 0)
            join = gm_counts_concentrated(cell);
        if (joins && join)
            gm_counts_join(c, cell);
        else
            c.add(cell);
    }
}

template <typename W, bool joins>
__device__ __forceinline__ void add_packs(gm_counts_shared &c, const pair<W> &rule, const uint4 *x, const uint4 *y,
                                          uint32_t packs)
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
        if (joins && c.looks() && (E >= 16u || base / GM_CUDA_THREADS % 4u == 0))
            join = gm_counts_concentrated(at < packs ? rule.cell(Pack::get(vx, 0), Pack::get(vy, 0)) : GM_BIN_NONE);
        if (joins && join) {
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

/* A tile: packs where both inputs have the same place in 16 bytes, else elements. joins: as of counts.cuh. */
template <typename W, bool joins>
__device__ __forceinline__ void add_tile(const struct gm_run *run, gm_counts_shared &c, const pair<W> &rule,
                                         uint64_t first, uint32_t elements)
{
    const W *x = gm_run_buffer<const W>(run, 0) + first, *y = gm_run_buffer<const W>(run, 1) + first;
    const uint32_t off = (0u - (uint32_t)(uintptr_t)x) & 15u;
    uint32_t done = 0;
    if ((((uintptr_t)x ^ (uintptr_t)y) & 15u) == 0 && off / (uint32_t)sizeof(W) < elements) {
        const uint32_t head = off / (uint32_t)sizeof(W), packs = (elements - head) * (uint32_t)sizeof(W) / 16u;
        add_elements<W, joins>(c, rule, x, y, 0, head);
        add_packs<W, joins>(c, rule, (const uint4 *)(x + head), (const uint4 *)(y + head), packs);
        done = head + packs * (16u / (uint32_t)sizeof(W));
    }
    add_elements<W, joins>(c, rule, x, y, done, elements);
}

template <typename W> __device__ __forceinline__ void share_pairs(struct gm_run *run, uint32_t before, uint32_t room)
{
    const pair<W> rule(run, run->job->dtype);
    gm_counts_shared c(run->job->bins, before, room, gm_counts_elements(run->job, 1));
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile, count;
    unsigned long long counted = 0;
    bool more = gm_run_next_tile(run, &tiles, &tile);
    if (!gm_counts_narrow(run->job))
        gm_counts_sink(run, 2).clear();
    for (;;) {
        c.clear();
        __syncthreads();
        for (bool full = false; more && !full; more = gm_run_next_tile(run, &tiles, &tile)) {
            const uint64_t first = gm_run_tile(run, tile, &count);
            add_tile<W, gm_counts_shared::joins>(run, c, rule, first, (uint32_t)count);
            full = c.full(run, (uint32_t)count);
        }
        counted += c.flush(gm_counts_sink(run, 2), rule);
        if (!more)
            break;
    }
    gm_counts_answer(run, counted);
}

template <typename W> __device__ __noinline__ void share_shared(struct gm_run *run)
{
    if (sizeof(W) == 1)
        share_pairs<W>(run, LOOK_UP_BYTES, GM_BLOCK_SCRATCH - LOOK_UP_BYTES);
    else
        share_pairs<W>(run, 0, GM_STREAM_ROOM);
}

/* Packs of each thread in a whole tile, of either input. */
#define PACKS (GM_TILE_BYTES_histogram_2d / 16u / GM_CUDA_THREADS)
static_assert(PACKS % (GM_STREAM_AHEAD / 2u) == 0, "read so many at a time");

/* A tile that is read by packs only, as many of each thread. */
__device__ __forceinline__ bool whole(const struct gm_run *run, uint64_t addresses, uint64_t tile)
{
    return (addresses & 15u) == 0 && (tile + 1u) * run->job->tile_elements <= run->job->n;
}

/* As gm_stream_tiles, of two inputs: half a tile of each is always on its way. dtype: a constant, or 0 for the job's.
 */
template <typename W, uint32_t dtype> __device__ __noinline__ void share_stream(struct gm_run *run)
{
    constexpr uint32_t T = GM_CUDA_THREADS, A = GM_STREAM_AHEAD / 2u;
    const pair<W> rule(run, dtype != 0 ? dtype : run->job->dtype);
    gm_counts_shared c(run->job->bins, 0, GM_STREAM_ROOM, gm_counts_elements(run->job, 1));
    const uint64_t address_x = run->job->address[0], address_y = run->job->address[1], both = address_x | address_y;
    struct gm_tiles tiles = {0, 0, 0};
    unsigned long long counted = 0;
    uint64_t tile, next, count;
    uint4 vx[A], vy[A];
    bool more = gm_run_next_tile(run, &tiles, &tile);
    bool here = more && whole(run, both, tile);
    uint64_t at = (here ? tile : 0) * GM_TILE_BYTES_histogram_2d + threadIdx.x * 16u;
    gm_stream_load(vx, (const uint4 *)(address_x + at), here ? A * T : 0);
    gm_stream_load(vy, (const uint4 *)(address_y + at), here ? A * T : 0);
    if (!gm_counts_narrow(run->job))
        gm_counts_sink(run, 2).clear();
#pragma unroll 1
    for (;;) {
        c.clear();
        __syncthreads();
#pragma unroll 1
        for (bool full = false; more && !full;) {
            more = gm_run_next_tile(run, &tiles, &next);
            const bool follows = more && whole(run, both, next);
            const uint64_t after = (follows ? next : tile) * GM_TILE_BYTES_histogram_2d + threadIdx.x * 16u;
            const uint64_t first = gm_run_tile(run, tile, &count);
            full = c.full(run, (uint32_t)count);
            if (here) {
#pragma unroll 1
                for (uint32_t base = 0; base < PACKS; base += A) {
                    const bool inside = base + A < PACKS, load = inside || follows;
                    at = inside ? at + A * T * 16u : after;
#pragma unroll
                    for (uint32_t k = 0; k < A; k++) {
                        const uint4 now_x = vx[k], now_y = vy[k];
                        if (load) {
                            vx[k] = __ldcg((const uint4 *)(address_x + at) + k * T);
                            vy[k] = __ldcg((const uint4 *)(address_y + at) + k * T);
                        }
                        rule.pack(c, now_x, now_y);
                    }
                }
            } else {
                add_tile<W, false>(run, c, rule, first, (uint32_t)count);
                at = after;
                gm_stream_load(vx, (const uint4 *)(address_x + at), follows ? A * T : 0);
                gm_stream_load(vy, (const uint4 *)(address_y + at), follows ? A * T : 0);
            }
            tile = next;
            here = follows;
        }
        counted += c.flush(gm_counts_sink(run, 2), rule);
        if (!more)
            break;
    }
    gm_counts_answer(run, counted);
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

template <typename W> __device__ __forceinline__ void stream(struct gm_run *run)
{
    if (sizeof(W) == 4 && run->job->dtype == GM_DTYPE_f32)
        share_stream<uint32_t, GM_DTYPE_f32>(run);
    else if constexpr (sizeof(W) != 1)
        share_stream<W, 0>(run);
}

template <typename W> __device__ __forceinline__ void share_of(struct gm_run *run)
{
    if (gm_hist_many(run->job))
        share_many<W>(run);
    else if (sizeof(W) != 1 && gm_counts_shared::fits_apart(run->job->bins, GM_STREAM_ROOM))
        stream<W>(run);
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
