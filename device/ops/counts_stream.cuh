/* SPDX-License-Identifier: Apache-2.0
 *
 * Histograms of equal bins whose counters have so many copies in shared memory that lanes seldom meet: a pack of the
 * next tile is asked for as soon as one has come, so that a whole tile is always on its way, and almost every bin
 * comes from bins_fast.cuh. Whole block.
 *
 * A rule R is one of counts.cuh that has besides: prepare(), and pack(counters, v, element), which counts a pack from
 * that element of a tile on.
 */
#ifndef GM_OPS_COUNTS_STREAM_CUH
#define GM_OPS_COUNTS_STREAM_CUH

#include "ops/bins_fast.cuh"
#include "ops/counts.cuh"

/* The last bytes of the scratch: the rule itself, of one dimension or two. It is asked too seldom to be worth
 * registers.
 */
#define GM_STREAM_RULES 128u
#define GM_STREAM_ROOM (GM_BLOCK_SCRATCH - GM_STREAM_RULES)
static_assert(2u * sizeof(struct gm_bins) <= GM_STREAM_RULES && GM_STREAM_ROOM % 8u == 0, "there");
static_assert(GM_HIST_ROW_BINS * 4u <= GM_STREAM_ROOM, "beside the counters");

__device__ __forceinline__ struct gm_bins *gm_stream_rule(uint32_t dimension)
{
    return gm_run_scratch<struct gm_bins>(GM_STREAM_ROOM) + dimension;
}

/* Whole block; a barrier behind it is the caller's. */
__device__ __forceinline__ struct gm_bins_fast gm_stream_make(uint32_t dimension, uint64_t lo, uint64_t hi,
                                                              uint32_t bins, uint32_t dtype)
{
    const struct gm_bins rule = gm_counts_bins(lo, hi, bins);
    if (threadIdx.x == 0)
        *gm_stream_rule(dimension) = rule;
    return gm_bins_fast_make(&rule, dtype);
}

/* Packs of a thread on their way: of a tile of one input, or half as many of each of two. As many as registers hold
 * without spills. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define GM_STREAM_AHEAD 4u
#else
#define GM_STREAM_AHEAD 8u
#endif

/* What the rule itself says. */
__device__ __forceinline__ uint32_t gm_stream_ask(uint32_t dimension, double x)
{
    return gm_bin_index(gm_stream_rule(dimension), x);
}

/* By the fast rule or, where that is not sure, by the other. GM_BIN_NONE, or another number that is none of a bin. */
template <typename V>
__device__ __forceinline__ uint32_t gm_stream_bin(const gm_bins_fast &fast, uint32_t dimension, uint32_t dtype, V v)
{
    uint32_t bin;
    return fast.find(gm_bins_float(v, dtype), &bin) && bin != fast.bins
               ? bin
               : gm_stream_ask(dimension, gm_counts_number(v, dtype));
}

template <typename W> using gm_stream_word = typename gm_counts_word<W>::type;

/* Where the counters of each element begin, one after the other: of one channel at 0. */
struct gm_stream_one {
    __device__ __forceinline__ uint32_t next() { return 0; }
};
struct gm_stream_channels {
    uint32_t base, each, all;
    __device__ __forceinline__ uint32_t next()
    {
        const uint32_t now = base;
        base = now + each == all ? 0 : now + each;
        return now;
    }
};

/* The elements of a pack. Those that the fast rule is not sure of are seldom, so they come behind the others. */
template <typename W, class C, class B>
__device__ __forceinline__ void gm_stream_pack(C &c, const gm_bins_fast &fast, uint32_t dtype, uint4 v, B base)
{
    constexpr uint32_t E = 16u / sizeof(W);
    typedef gm_counts_pack<W> Pack;
    B again = base;
    gm_stream_word<W> word[E];
    float x[E];
    uint32_t bin[E];
    bool sure[E], all = true;
#pragma unroll
    for (uint32_t e = 0; e < E; e++)
        word[e] = Pack::get(v, e);
    gm_bins_floats(word, dtype, x);
#pragma unroll
    for (uint32_t e = 0; e < E; e++) {
        const uint32_t first = base.next();
        sure[e] = fast.find(x[e], &bin[e]);
        const bool there = sure[e] && bin[e] < fast.bins;
        c.add_if(there, first + bin[e]);
        all = all && there;
    }
    if (all)
        return;
    /* Most of these are outside. */
    all = true;
#pragma unroll
    for (uint32_t e = 0; e < E; e++)
        all = all && sure[e] && bin[e] != fast.bins;
    if (all)
        return;
#pragma unroll 1
    for (uint32_t e = 0; e < E; e++) {
        const uint32_t first = again.next();
        const gm_stream_word<W> one = Pack::get(v, e);
        if (fast.find(gm_bins_float(one, dtype), &bin[0]) && bin[0] != fast.bins)
            continue;
        bin[0] = gm_stream_ask(0, gm_counts_number(one, dtype));
        c.add_if(bin[0] < fast.bins, first + bin[0]);
    }
}

/* mine: packs from the thread's first one on. */
template <uint32_t A> __device__ __forceinline__ void gm_stream_load(uint4 (&v)[A], const uint4 *from, uint32_t mine)
{
#pragma unroll
    for (uint32_t k = 0; k < A; k++)
        v[k] = k * GM_CUDA_THREADS < mine ? __ldcg(from + k * GM_CUDA_THREADS) : make_uint4(0, 0, 0, 0);
}

/* Elements of a tile that are counted in one go: up to the first address that is a multiple of 16, packs, what is left.
 */
template <typename W> struct gm_stream_part {
    const W *data;
    uint32_t element; /* of the tile: the first one here */
    uint32_t count, head, packs;

    __device__ __forceinline__ gm_stream_part() : data(nullptr), element(0), count(0), head(0), packs(0) {}
    __device__ __forceinline__ gm_stream_part(const W *a_data, uint32_t a_element, uint32_t a_count)
        : data(a_data), element(a_element), count(a_count)
    {
        const uint32_t to_grid = ((0u - (uint32_t)(uintptr_t)data) & 15u) / (uint32_t)sizeof(W);
        head = to_grid < count ? to_grid : count;
        packs = (count - head) / (16u / (uint32_t)sizeof(W));
    }
    /* Of the thread. */
    __device__ __forceinline__ const uint4 *from() const { return (const uint4 *)(data + head) + threadIdx.x; }
    __device__ __forceinline__ uint32_t mine() const { return packs > threadIdx.x ? packs - threadIdx.x : 0; }
};

/* A share's way through parts of its tiles. PART: elements of a part; whole: no tile has more. */
template <typename W, uint32_t PART, bool whole> struct gm_stream_way {
    struct gm_tiles tiles;
    uint64_t tile;
    uint32_t left, element; /* of the tile: not given yet, and the next one */

    __device__ __forceinline__ gm_stream_way() : tiles{0, 0, 0}, tile(0), left(0), element(0) {}
    /* Whole block. */
    __device__ __forceinline__ bool next(struct gm_run *run, uint32_t channels, gm_stream_part<W> *part)
    {
        if (whole || left == 0) {
            uint64_t count;
            if (!gm_run_next_tile(run, &tiles, &tile))
                return false;
            (void)gm_run_tile(run, tile, &count);
            left = (uint32_t)count * channels;
            element = 0;
        }
        if (whole) {
            *part =
                gm_stream_part<W>(gm_run_buffer<const W>(run, 0) + tile * run->job->tile_elements * channels, 0, left);
            return true;
        }
        const W *data = gm_run_buffer<const W>(run, 0) + tile * run->job->tile_elements * channels + element;
        const uint32_t some = left < PART ? left : PART;
        *part = gm_stream_part<W>(data, element, some);
        left -= some;
        element += some;
        return true;
    }
};

/* A part whose packs are in v, while those of the next one are asked for. */
template <typename W, class R, uint32_t A>
__device__ __forceinline__ void gm_stream_count(gm_counts_shared &c, R &rule, uint4 (&v)[A],
                                                const gm_stream_part<W> &part, const gm_stream_part<W> &next)
{
    constexpr uint32_t E = 16u / sizeof(W);
    const uint4 *from = (const uint4 *)(uintptr_t)gm_counts_keep((uintptr_t)next.from());
    const uint32_t mine = part.mine(), then = next.mine(), first = part.element + part.head + threadIdx.x * E;
#pragma unroll
    for (uint32_t k = 0; k < A; k++) {
        const uint4 now = v[k];
        if (k * GM_CUDA_THREADS < then)
            v[k] = __ldcg(from + k * GM_CUDA_THREADS);
        if (k * GM_CUDA_THREADS < mine)
            rule.pack(c, now, first + k * GM_CUDA_THREADS * E);
    }
    /* Fewer than a pack at either end. */
    const uint32_t tail = part.head + part.packs * E, i = threadIdx.x < part.head ? 0 : tail - part.head;
    if (threadIdx.x + i < part.count) {
        rule.at(part.element + threadIdx.x + i);
        c.add(rule.cell(gm_counts_load(part.data + threadIdx.x + i)));
    }
}

/* A share of one input. TILE: bytes of the largest tile; channels: elements of an item. */
template <typename W, uint32_t TILE, class R>
__device__ __forceinline__ void gm_stream_tiles(struct gm_run *run, gm_counts_shared &c, R &rule, uint32_t output,
                                                uint32_t channels)
{
    constexpr uint32_t A = GM_STREAM_AHEAD, PART = A * GM_CUDA_THREADS * (16u / sizeof(W));
    gm_stream_way<W, PART, TILE <= PART * sizeof(W)> way;
    gm_stream_part<W> part, next;
    unsigned long long counted = 0;
    uint4 v[A];
    rule.prepare();
    bool more = way.next(run, channels, &part);
    gm_stream_load(v, part.from(), part.mine());
    if (!R::unique || !gm_counts_narrow(run->job))
        gm_counts_sink(run, output).clear();
#pragma unroll 1
    for (;;) {
        c.clear();
        __syncthreads();
#pragma unroll 1
        for (bool full = false; more && !full;) {
            next = gm_stream_part<W>();
            more = way.next(run, channels, &next);
            gm_stream_count(c, rule, v, part, next);
            full = c.full(run, part.count);
            part = next;
        }
        counted += c.flush(gm_counts_sink(run, output), rule);
        if (!more)
            break;
    }
    gm_counts_answer(run, counted);
}

#endif
