/* SPDX-License-Identifier: Apache-2.0
 *
 * What the scans share on blocks: see prefix.h for the rules and the phases, prefix_tile.cuh for a tile. Scans that can
 * go through many tiles once do it the way of look_back.cuh. Whole block.
 */
#ifndef GM_OPS_PREFIX_CUH
#define GM_OPS_PREFIX_CUH

#include "ops/look_back.cuh"

namespace
{

/* The first phase of several tiles. */
template <class S, class Heads> __device__ __noinline__ void prefix_totals(struct gm_run *run)
{
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile;
    uint32_t turn = 0;
    while (gm_run_next_tile(run, &tiles, &tile)) {
        prefix_state<typename S::Value> all = {S::nothing(), 0};
        Heads::find(run, tile);
        prefix_tile<S, Heads, false, false>(run, tile, &all, &turn);
        if (threadIdx.x == 0)
            prefix_put(run->job, tile, all);
    }
}

/* The last one, and the only one of a job of one tile. */
template <class S, class Heads> __device__ __noinline__ void prefix_write(struct gm_run *run)
{
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile;
    uint32_t turn = 0;
    bool wrong = false;
    while (gm_run_next_tile(run, &tiles, &tile)) {
        prefix_state<typename S::Value> all = {S::nothing(), 0};
        if (run->job->phases > 1u)
            all.v = prefix_get<typename S::Value>(run->job, tile).v;
        Heads::find(run, tile);
        wrong |= prefix_tile<S, Heads, true, false>(run, tile, &all, &turn);
    }
    if (__syncthreads_or(wrong) != 0 && threadIdx.x == 0)
        gm_run_fail(run, GM_EOVERFLOW);
}

/* Between them: what tiles come to becomes what comes before them. Whole block. */
template <class S, bool segmented> __device__ __noinline__ void prefix_finish(struct gm_run *run)
{
    typedef prefix_state<typename S::Value> State;
    constexpr uint32_t each = 4; /* tiles of a thread, one behind the other */
    const struct gm_job *job = run->job;
    State all = {S::nothing(), 0};
    uint32_t turn = 0;
#pragma unroll 1
    for (uint64_t base = 0; base < job->tiles; base += each * GM_CUDA_THREADS) {
        const uint64_t first = base + threadIdx.x * each;
        State of[each], own = {S::nothing(), 0}, sum = {S::nothing(), 0};
#pragma unroll
        for (uint32_t i = 0; i < each; i++) {
            of[i] = {S::nothing(), 0};
            if (first + i < job->tiles)
                of[i] = prefix_get<typename S::Value>(job, first + i);
            own = prefix_join<S, segmented>(own, of[i]);
        }
        const State before = prefix_row<S, segmented>(&sum, own);
        State at = prefix_block<S, segmented>(sum, &all, turn++);
        at = prefix_join<S, segmented>(at, before);
#pragma unroll
        for (uint32_t i = 0; i < each; i++) {
            if (first + i < job->tiles)
                prefix_put(job, first + i, at);
            at = prefix_join<S, segmented>(at, of[i]);
        }
    }
}

template <class S> __device__ __forceinline__ bool prefix_is_single(const struct gm_job *job)
{
    return S::exact && gm_plan_single_pass(job);
}

template <class S, class Heads> __device__ __forceinline__ void prefix_share_of(struct gm_run *run)
{
    const bool last = run->job->phase + 1u == run->job->phases, single = prefix_is_single<S>(run->job);
    if (run->job->phase == 0 && !Heads::good(run) && threadIdx.x == 0)
        gm_run_fail(run, GM_EBOUNDS);
    if (single && !last)
        prefix_clear(run);
    else if (single)
        prefix_single<S, Heads>(run);
    else if (!last)
        prefix_totals<S, Heads>(run);
    else
        prefix_write<S, Heads>(run);
}

template <class S, bool segmented> __device__ __forceinline__ void prefix_finish_of(struct gm_run *run)
{
    if (run->job->phase + 1u < run->job->phases && !prefix_is_single<S>(run->job))
        prefix_finish<S, segmented>(run);
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

template <bool segmented> __device__ __forceinline__ void prefix_sum_finish(struct gm_run *run)
{
    if (gm_dtype_kind(run->job->dtype) == 'f')
        prefix_finish_of<prefix_float<uint64_t>, segmented>(run);
    else /* modulo 2^64, of which narrow sums are the low half */
        prefix_finish_of<prefix_integer<uint64_t, false>, segmented>(run);
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

/* Keys of 32 bits, zero-extended, have the same order; the greatest key is theirs in its low half. */
template <bool segmented> __device__ __forceinline__ void prefix_least_finish(struct gm_run *run)
{
    prefix_finish_of<prefix_least<uint64_t, GM_DTYPE_u64, GM_KEY_NAN_FIRST>, segmented>(run);
}

} // namespace

#endif
