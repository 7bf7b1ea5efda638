/* SPDX-License-Identifier: Apache-2.0
 *
 * What the scans share on blocks: see prefix.h for the rules, prefix_tile.cuh for a tile. Whatever there is to scan,
 * and of whatever type, is read once: a tile comes into shared memory, the block finds what it comes to, looks back for
 * what comes before it (look_back.cuh), and goes through it a second time to write. As soon as it lies there the next
 * tile is asked for, into registers, so that memory is busy all the time; which one that is a share knows a tile
 * before. Whole block.
 */
#ifndef GM_OPS_PREFIX_CUH
#define GM_OPS_PREFIX_CUH

#include "ops/prefix_tile.cuh"

namespace
{

__device__ __forceinline__ struct gm_prefix_told *prefix_told()
{
    return gm_run_scratch<struct gm_prefix_told>(GM_PREFIX_TOLD);
}

/* What comes before a tile, to the whole block; own is what it comes to. False: leave. Meanwhile other warps find where
 * segments of the next one begin, and the number of the one behind that. A barrier behind. */
template <class S, class Heads>
__device__ __forceinline__ bool prefix_before(struct gm_run *run, uint64_t tile, uint64_t next,
                                              const prefix_state<typename S::Value> &own,
                                              prefix_state<typename S::Value> *before)
{
    const uint64_t tiles = run->job->tiles;
    if (threadIdx.x < 32u) {
        const bool found = look_back<prefix_joins<S, Heads::segmented>>(run, tile, own, before);
        if (threadIdx.x == 0) {
            prefix_told()->state = prefix_word(before->v);
            prefix_told()->aborted = !found;
        }
    } else if (next < tiles) {
        if (threadIdx.x == GM_CUDA_THREADS - 1u)
            prefix_told()->later = look_ask(run);
        Heads::search(run, next);
    }
    __syncthreads();
    prefix_value(prefix_told()->state, &before->v);
    before->head = 0;
    return prefix_told()->aborted == 0;
}

/* The share's first tile, of which the elements are on their way and where segments begin is there, and the next one: a
 * share takes one where the job has a share for each. In the job's first phase each share looks at its part of the
 * offsets. */
template <class S, class Heads>
__device__ __forceinline__ uint64_t prefix_open(struct gm_run *run, bool alone, prefix_ahead<S> *ahead, uint64_t *next)
{
    const bool one = run->job->tiles <= run->job->shares;
    uint64_t tile = 0;
    if (threadIdx.x == 0)
        tile = run->aborted != 0 ? UINT64_MAX : alone ? 0 : look_ask(run);
    const bool bad = run->job->phase == 0 && Heads::bad(run);
    if (threadIdx.x == 0)
        prefix_told()->tile = tile;
    if (__syncthreads_or(bad) != 0 && threadIdx.x == 0)
        gm_run_fail(run, GM_EBOUNDS);
    tile = prefix_told()->tile;
    if (tile >= run->job->tiles)
        return tile;
    ahead->ask(prefix_span_of<S, Heads>(run, tile));
    if (threadIdx.x == 0)
        prefix_told()->second = one ? UINT64_MAX : look_ask(run);
    if (Heads::segmented) {
        Heads heads;
        Heads::search(run, tile);
        __syncthreads();
        heads.ask(run);
        heads.mark(run, tile);
    }
    __syncthreads();
    *next = prefix_told()->second;
    return tile;
}

/* The last phase. A job of one tile and one share has nothing to look back at. */
template <class S, class Heads> __device__ __noinline__ void prefix_write(struct gm_run *run)
{
    typedef prefix_state<typename S::Value> State;
    typedef prefix_joins<S, Heads::segmented> Joins;
    const struct gm_job *job = run->job;
    const uint64_t tiles = job->tiles;
    const bool alone = job->phases == 1u && tiles <= 1u;
    const bool exclusive = (job->flags & GM_FLAG_EXCLUSIVE) != 0;
    bool wrong = false;
    prefix_ahead<S> ahead;
    uint64_t next = UINT64_MAX, later = UINT64_MAX;
    for (uint64_t tile = prefix_open<S, Heads>(run, alone, &ahead, &next); tile < tiles; tile = next, next = later) {
        const prefix_span<typename S::Word> span = prefix_span_of<S, Heads>(run, tile);
        prefix_piece<S, Heads> piece;
        State all, before;
        Heads heads;
        ahead.keep(span);
        if (next < tiles)
            ahead.ask(prefix_span_of<S, Heads>(run, next));
        const State sum = piece.scan(exclusive);
        State start = prefix_block<S, Heads::segmented>(sum, &all);
        if (!alone) {
            if (threadIdx.x == 0)
                look_say_own<Joins>(run, tile, all);
            if (!prefix_before<S, Heads>(run, tile, next, all, &before))
                break;
            start = prefix_join<S, Heads::segmented>(before, start);
        }
        const bool more = next < tiles;
        later = more ? prefix_told()->later : UINT64_MAX;
        if (Heads::segmented && more)
            heads.ask(run);
        wrong |= piece.write(start, span.out, span.count, exclusive);
        if (Heads::segmented && more) {
            heads.mark(run, next);
            __syncthreads();
        }
    }
    if (__syncthreads_or(wrong) != 0 && threadIdx.x == 0)
        gm_run_fail(run, GM_EOVERFLOW);
}

template <class S, class Heads> __device__ __forceinline__ void prefix_share_of(struct gm_run *run)
{
    if (run->job->phase + 1u == run->job->phases) {
        prefix_write<S, Heads>(run);
    } else {
        if (__syncthreads_or(Heads::bad(run)) != 0 && threadIdx.x == 0)
            gm_run_fail(run, GM_EBOUNDS);
        look_clear(run);
    }
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
