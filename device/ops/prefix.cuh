/* SPDX-License-Identifier: Apache-2.0
 *
 * What the scans share on blocks: see prefix.h for the rules, prefix_tile.cuh for a tile. Whatever there is to scan,
 * and of whatever type, is read once: a tile comes into shared memory, the block finds what it comes to, looks back for
 * what comes before it (look_back.cuh), and goes through it a second time to write. Meanwhile the next tile is on its
 * way into registers. Whole block.
 */
#ifndef GM_OPS_PREFIX_CUH
#define GM_OPS_PREFIX_CUH

#include "ops/prefix_tile.cuh"

namespace
{

/* What comes before a tile, to the whole block; own is what it comes to. False: leave. A barrier behind. */
template <class S, class Heads>
__device__ __forceinline__ bool prefix_before(struct gm_run *run, uint64_t tile,
                                              const prefix_state<typename S::Value> &own,
                                              prefix_state<typename S::Value> *before)
{
    struct gm_prefix_told *told = gm_run_scratch<struct gm_prefix_told>(GM_PREFIX_TOLD);
    if (threadIdx.x < 32u) {
        const bool found = look_back<prefix_joins<S, Heads::segmented>>(run, tile, own, before);
        if (threadIdx.x == 0) {
            told->state = prefix_word(before->v);
            told->aborted = !found;
        }
    }
    __syncthreads();
    prefix_value(told->state, &before->v);
    before->head = 0;
    return told->aborted == 0;
}

/* The last phase; the only one of a job of one tile, which has nothing to look back at. */
template <class S, class Heads> __device__ __noinline__ void prefix_write(struct gm_run *run)
{
    typedef prefix_state<typename S::Value> State;
    typedef prefix_joins<S, Heads::segmented> Joins;
    struct gm_prefix_told *told = gm_run_scratch<struct gm_prefix_told>(GM_PREFIX_TOLD);
    const bool alone = run->job->phases == 1u && run->job->tiles <= 1u;
    uint32_t turn = 0;
    bool wrong = false;
    prefix_ahead<S> ahead;
    if (threadIdx.x == 0)
        told->tile = run->aborted != 0 ? UINT64_MAX : alone ? 0 : look_ask(run);
    __syncthreads();
    uint64_t tile = told->tile, next = UINT64_MAX;
    if (tile < run->job->tiles)
        ahead.ask(prefix_span_of<S, Heads>(run, tile));
    for (; tile < run->job->tiles; tile = next) {
        const prefix_span<typename S::Word> span = prefix_span_of<S, Heads>(run, tile);
        State all = {S::nothing(), 0}, before;
        Heads::find(run, tile);
        ahead.keep(span);
        if (!alone) {
            if (threadIdx.x == 0)
                next = look_ask(run);
            prefix_tile<S, Heads, false>(span, &all, &turn);
            if (threadIdx.x == 0) {
                look_say_own<Joins>(run, tile, all);
                told->tile = next;
            }
            __syncthreads();
            next = told->tile;
            if (next < run->job->tiles)
                ahead.ask(prefix_span_of<S, Heads>(run, next));
            if (!prefix_before<S, Heads>(run, tile, all, &before))
                break;
            all = before;
        }
        wrong |= prefix_tile<S, Heads, true>(span, &all, &turn);
        if (Heads::segmented)
            __syncthreads(); /* where segments begin is free again; all else was behind the last granule's barrier */
    }
    if (__syncthreads_or(wrong) != 0 && threadIdx.x == 0)
        gm_run_fail(run, GM_EOVERFLOW);
}

template <class S, class Heads> __device__ __forceinline__ void prefix_share_of(struct gm_run *run)
{
    if (run->job->phase == 0 && !Heads::good(run) && threadIdx.x == 0)
        gm_run_fail(run, GM_EBOUNDS);
    if (run->job->phase + 1u < run->job->phases)
        look_clear(run);
    else
        prefix_write<S, Heads>(run);
}

/* ---- by type ---- */

template <class Heads> __device__ __forceinline__ void prefix_sum_share(struct gm_run *run)
{
    switch (run->job->dtype) {
    case GM_DTYPE_i32:
        prefix_share_of<prefix_integer<uint32_t, true>, Heads>(run);
        break;
    case GM_DTYPE_u32:
        prefix_share_of<prefix_integer<uint32_t, false>, Heads>(run);
        break;
    case GM_DTYPE_i64:
        prefix_share_of<prefix_integer<uint64_t, true>, Heads>(run);
        break;
    case GM_DTYPE_u64:
        prefix_share_of<prefix_integer<uint64_t, false>, Heads>(run);
        break;
    case GM_DTYPE_f32:
        prefix_share_of<prefix_float<uint32_t>, Heads>(run);
        break;
    case GM_DTYPE_f64:
        prefix_share_of<prefix_float<uint64_t>, Heads>(run);
        break;
    }
}

template <class Heads, enum gm_key_order order> __device__ __forceinline__ void prefix_least_share(struct gm_run *run)
{
    switch (run->job->dtype) {
#define LEAST(name, word)                                                                                              \
    case GM_DTYPE_##name:                                                                                              \
        prefix_share_of<prefix_least<word, GM_DTYPE_##name, order>, Heads>(run);                                       \
        break;
        LEAST(i32, uint32_t)
        LEAST(u32, uint32_t)
        LEAST(i64, uint64_t)
        LEAST(u64, uint64_t)
        LEAST(f32, uint32_t)
        LEAST(f64, uint64_t)
#undef LEAST
    }
}

} // namespace

#endif
