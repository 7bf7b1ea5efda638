/* SPDX-License-Identifier: Apache-2.0
 *
 * Scans whose states do not depend on how they are put together read their input once when there are many tiles: each
 * tile says what it comes to, and looks back at what those before it have said until one says what everything up to it
 * comes to. The first phase only clears what they say. A tile's granule in the workspace: state, head, and how much it
 * says; behind them the number of the next tile.
 *
 * Why nobody waits for ever: a look back waits only for tiles that have said nothing. Tiles are handed out in rising
 * order by that number alone, not by shares' own numbers, which may belong to tickets that nobody has drawn; so every
 * tile below one that looks back was taken by a share that is running. A share takes a tile when it has done with
 * looking back from the one before, and until it has said what the new one comes to it waits for nobody. Who looks back
 * looks at the abort word too, to leave soon, and has said what its tile comes to by then.
 */
#ifndef GM_OPS_LOOK_BACK_CUH
#define GM_OPS_LOOK_BACK_CUH

#include "ops/prefix_tile.cuh"

namespace
{

enum { PREFIX_UNSAID, PREFIX_OWN, PREFIX_UPTO };

__device__ __forceinline__ struct gm_granule *prefix_said(const struct gm_job *job, uint64_t tile)
{
    return (struct gm_granule *)job->workspace + tile;
}

/* Whole in one store, so that nothing else has to be ordered. One thread. */
template <typename V>
__device__ __forceinline__ void prefix_say(const struct gm_job *job, uint64_t tile, prefix_state<V> state, uint32_t how)
{
    const uint64_t word = prefix_word(state.v);
    struct gm_granule g;
    g.w[0] = (uint32_t)word;
    g.w[1] = (uint32_t)(word >> 32);
    g.w[2] = state.head;
    g.w[3] = how;
    gm_store16_gpu(prefix_said(job, tile), g);
}

/* The share's part of the granules, and of the number behind them. Whole block. */
__device__ __noinline__ void prefix_clear(struct gm_run *run)
{
    const uint64_t count = run->job->tiles + 1u, part = gm_ceil_div(count, run->job->shares), from = run->share * part;
    for (uint64_t i = from + threadIdx.x; i < count && i < from + part; i += GM_CUDA_THREADS)
        ((uint4 *)run->job->workspace)[i] = make_uint4(0, 0, 0, 0);
}

/* What the 32 tiles before one come to, those below 0 nothing; waits until they have said enough. True when that is
 * everything. Whole warp; lane 0 has the state. *aborted: nobody has. */
template <class S, bool segmented>
__device__ __forceinline__ bool prefix_look(const struct gm_run *run, uint64_t tile,
                                            prefix_state<typename S::Value> *state, bool *aborted)
{
    const uint32_t lane = threadIdx.x & 31u;
    struct gm_granule g = {{0, 0, 0, PREFIX_UPTO}};
    uint32_t upto, ready;
    do {
        if (lane < tile)
            g = gm_load16_gpu(prefix_said(run->job, tile - 1u - lane));
        upto = gm_lowest_one(__ballot_sync(0xffffffffu, g.w[3] == PREFIX_UPTO));
        ready = gm_lowest_zero(__ballot_sync(0xffffffffu, g.w[3] != PREFIX_UNSAID));
        *aborted = __any_sync(0xffffffffu, gm_load_relaxed_u32(&run->entry->abort) != 0) != 0;
    } while (ready < 32u && ready <= upto && !*aborted);
    prefix_state<typename S::Value> sum = {S::nothing(), 0};
    if (lane < tile && lane <= upto) {
        prefix_value(g.w[0] | (uint64_t)g.w[1] << 32, &sum.v);
        sum.head = g.w[2];
    }
#pragma unroll
    for (uint32_t d = 1; d < 32u; d *= 2u) { /* lanes rise as tiles fall */
        const prefix_state<typename S::Value> lower = {__shfl_down_sync(0xffffffffu, sum.v, d),
                                                       __shfl_down_sync(0xffffffffu, sum.head, d)};
        sum = prefix_join<S, segmented>(lower, sum);
    }
    *state = sum;
    return upto < 32u;
}

/* Says what a tile comes to, finds what comes before it, and says what everything up to it comes to. The first warp. */
template <class S, bool segmented>
__device__ __forceinline__ void prefix_look_back(const struct gm_run *run, uint64_t tile,
                                                 prefix_state<typename S::Value> own)
{
    struct gm_prefix_told *told = gm_run_scratch<struct gm_prefix_told>(GM_PREFIX_TOLD);
    const bool first = threadIdx.x == 0;
    prefix_state<typename S::Value> before = {S::nothing(), 0}, some;
    bool aborted = false, everything = tile == 0;
    const bool closed = everything || (segmented && own.head != 0);
    if (first)
        prefix_say(run->job, tile, own, closed ? PREFIX_UPTO : PREFIX_OWN);
    for (uint64_t at = tile; !everything && !aborted; at = at > 32u ? at - 32u : 0) {
        everything = prefix_look<S, segmented>(run, at, &some, &aborted);
        before = prefix_join<S, segmented>(some, before);
    }
    if (!first)
        return;
    if (!closed && !aborted)
        prefix_say(run->job, tile, prefix_join<S, segmented>(before, own), PREFIX_UPTO);
    told->state = prefix_word(before.v);
    told->aborted = aborted;
}

/* A tile into shared memory; behind what counts padding, to its end. Whole block, with a barrier behind. */
template <class S> __device__ __forceinline__ void prefix_keep(const prefix_span<typename S::Word> &span)
{
    typedef typename S::Word Word;
    constexpr uint32_t elements = GM_PREFIX_TILE / sizeof(Word), packs = GM_PREFIX_TILE / 16u / GM_CUDA_THREADS;
    Word *kept = gm_run_scratch<Word>(GM_PREFIX_KEPT);
    if (span.used == elements && ((uintptr_t)span.in & 15u) == 0) {
        uint4 v[packs];
#pragma unroll
        for (uint32_t k = 0; k < packs; k++)
            v[k] = __ldcg((const uint4 *)span.in + k * GM_CUDA_THREADS + threadIdx.x);
#pragma unroll
        for (uint32_t k = 0; k < packs; k++)
            ((uint4 *)kept)[k * GM_CUDA_THREADS + threadIdx.x] = v[k];
    } else {
#pragma unroll 4
        for (uint32_t i = threadIdx.x; i < elements; i += GM_CUDA_THREADS)
            kept[i] = i < span.used ? gm_global_load(span.in + i) : S::padding();
    }
    __syncthreads();
}

/* The second phase. */
template <class S, class Heads> __device__ __noinline__ void prefix_single(struct gm_run *run)
{
    struct gm_prefix_told *told = gm_run_scratch<struct gm_prefix_told>(GM_PREFIX_TOLD);
    uint64_t *next = (uint64_t *)prefix_said(run->job, run->job->tiles);
    uint64_t ahead = UINT64_MAX; /* thread 0: the next tile, asked for while this one is written */
    uint32_t turn = 0;
    bool wrong = false;
    if (threadIdx.x == 0 && run->aborted == 0)
        ahead = gm_fetch_add_relaxed_u64(next, 1);
    for (;;) {
        if (threadIdx.x == 0)
            told->tile = ahead;
        __syncthreads();
        const uint64_t tile = told->tile;
        if (tile >= run->job->tiles)
            break;
        prefix_state<typename S::Value> all = {S::nothing(), 0};
        Heads::find(run, tile);
        prefix_keep<S>(prefix_span_of<S, Heads>(run, tile));
        prefix_tile<S, Heads, false, true>(run, tile, &all, &turn);
        if (threadIdx.x < 32u)
            prefix_look_back<S, Heads::segmented>(run, tile, all);
        __syncthreads();
        if (told->aborted != 0)
            break;
        if (threadIdx.x == 0)
            ahead = gm_fetch_add_relaxed_u64(next, 1);
        prefix_value(told->state, &all.v);
        all.head = 0;
        wrong |= prefix_tile<S, Heads, true, true>(run, tile, &all, &turn);
        __syncthreads(); /* the tile and what was told are free again */
    }
    if (__syncthreads_or(wrong) != 0 && threadIdx.x == 0)
        gm_run_fail(run, GM_EOVERFLOW);
}

} // namespace

#endif
