/* SPDX-License-Identifier: Apache-2.0
 *
 * How the tiles of a job that goes through its input once learn what comes before them. Each says what it comes to and
 * looks back at what those before it have said. In the workspace a tile has a granule: three words of what it says, and
 * how much that is; one more granule has the number of the next tile, and what the last one found for the job. They
 * are clear before anybody looks: by the dispatcher, or by a phase where they are too many for it (plan.h), because
 * anything may lie in a workspace, also what another client had put there.
 *
 * Floats come out the same from run to run, because what comes before a tile is put together in an order that depends
 * on its number alone. Windows of 32 tiles follow each other: B(0) is nothing, and
 *     B(w + 1) = (B(w) + tree of the first 31 tiles of window w) + its 32nd tile
 *     before tile t of window w: B(w) + tree of the tiles of w below t
 * with trees of one shape. The 32nd tile of each window says B of the next one, and who begins with that, or with an
 * earlier one, makes the same steps in the same order. So states need not be exact, and all scans and selects go this
 * way.
 *
 * Why the chain of windows keeps up (predicted from MEASURED's figures): 2^28 f32 are 16384 tiles of 64 KB, or 512
 * windows, which memory moves in 0.55 to 0.63 ms, so a window has 1.1 us. A hop of the chain, from what one 32nd tile
 * says to what the next one says, is a store and a look through L2 (0.5 to 0.7 us) and some 40 dependent shuffles and
 * sums (0.2 to 0.3 us): about 1 us, which alone would just do. But a look takes in up to three windows behind its own
 * (two before sm_90), so a chain that is late moves on by three windows a hop: 170 hops, 0.17 ms. Windows of 16 would
 * have half that room, and a hop for each tile would take 16 ms.
 *
 * Why nobody waits for ever: tiles are handed out in rising order by the number in the workspace alone, not by shares'
 * own numbers, which may belong to tickets that nobody has drawn; so every tile below one that looks back is held by a
 * share that is running. A share may hold several; it goes through them in rising order, and until a tile has said what
 * it comes to it waits for nobody but, by the tiles before it in this share, for lower tiles. So the lowest tile that
 * waits finds that all tiles below it have said everything. Each look looks at the abort word too, and looks are
 * counted.
 */
#ifndef GM_OPS_LOOK_BACK_CUH
#define GM_OPS_LOOK_BACK_CUH

#include "core/plan.h"
#include "ops/run.cuh"

/* That a look takes in: the tile's own, and those behind it; as many as registers hold without spills. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define GM_LOOK_WINDOWS 3u
#else
#define GM_LOOK_WINDOWS 4u
#endif

/* By one tile: some ten seconds, where all wait for microseconds. Tests have less patience. */
#ifndef GM_LOOKS_MOST
#define GM_LOOKS_MOST (1u << 24)
#endif

namespace
{

enum { LOOK_UNSAID, LOOK_OWN, LOOK_UPTO };

__device__ __forceinline__ struct gm_granule *look_said(const struct gm_job *job, uint64_t tile)
{
    return (struct gm_granule *)job->workspace + tile;
}

/* Behind those of the tiles: the number of the next tile, and what the job comes to. */
__device__ __forceinline__ uint64_t *look_next(const struct gm_job *job)
{
    return (uint64_t *)look_said(job, job->tiles);
}
__device__ __forceinline__ uint64_t *look_answer(const struct gm_job *job) { return look_next(job) + 1; }

/* The first of two phases: the share's part of the granules. Whole block. */
__device__ __noinline__ void look_clear(struct gm_run *run)
{
    const uint64_t count = run->job->tiles + 1u, part = gm_ceil_div(count, run->job->shares), from = run->share * part;
    for (uint64_t i = from + threadIdx.x; i < count && i < from + part; i += GM_CUDA_THREADS)
        ((uint4 *)run->job->workspace)[i] = make_uint4(0, 0, 0, 0);
}

/* The number of the next tile; the answer need not be waited for. One thread. */
__device__ __forceinline__ uint64_t look_ask(const struct gm_run *run)
{
    return gm_fetch_add_relaxed_u64(look_next(run->job), 1);
}

/* Whole in one store, so that nothing else has to be ordered. One thread.
 *
 * J, how states are joined, gives: State, nothing(), join(a, b), closed(s) (whatever comes before s does not matter),
 * pack(s, words) and unpack(words) for the three words, and down(s, d), at(s, lane), as the shuffles. */
template <class J>
__device__ __forceinline__ void look_say(const struct gm_job *job, uint64_t tile, typename J::State state, uint32_t how)
{
    struct gm_granule g;
    J::pack(state, g.w);
    g.w[3] = how;
    gm_store16_gpu(look_said(job, tile), g);
}

/* Of a warp's states, in the order of lanes. Lane 0 has it. */
template <class J> __device__ __forceinline__ typename J::State look_tree(typename J::State state)
{
#pragma unroll
    for (uint32_t d = 1; d < 32u; d *= 2u)
        state = J::join(state, J::down(state, d));
    return state;
}

/* What lanes have heard; nothing where a lane is not one of those that count. */
template <class J> __device__ __forceinline__ typename J::State look_heard(const struct gm_granule &g, bool counts)
{
    return counts ? J::unpack(g.w) : J::nothing();
}

/* What a warp has heard of a tile's window (0) and those behind it. */
struct look {
    struct gm_granule g[GM_LOOK_WINDOWS];

    /* Looks at what is missing: lane by lane what the tile of its place says, and of the last tile of windows behind
     * all that it will say. */
    __device__ __forceinline__ void look_at(const struct gm_job *job, uint64_t tile)
    {
        const uint32_t lane = threadIdx.x & 31u;
        const uint64_t window = tile / 32u;
#pragma unroll
        for (uint32_t k = 0; k < GM_LOOK_WINDOWS; k++) {
            const bool wanted = k == 0 ? lane < (tile & 31u) : window >= k;
            const bool enough = g[k].w[3] == LOOK_UPTO || (g[k].w[3] == LOOK_OWN && (k == 0 || lane != 31u));
            if (wanted && !enough)
                g[k] = gm_load16_relaxed_gpu(look_said(job, (window - k) * 32u + lane));
        }
    }

    /* How many windows back one has said what everything up to its end comes to, or the first one begins, all between
     * having said what they come to; 0 while it has to be waited for. The same for all lanes. */
    __device__ __forceinline__ uint32_t from(uint64_t tile) const
    {
        const uint32_t lane = threadIdx.x & 31u;
        const uint64_t window = tile / 32u;
        bool all = __all_sync(0xffffffffu, lane >= (tile & 31u) || g[0].w[3] != LOOK_UNSAID) != 0;
        uint32_t found = 0;
#pragma unroll
        for (uint32_t k = 1; k < GM_LOOK_WINDOWS; k++) {
            const bool upto = window < k || __shfl_sync(0xffffffffu, g[k].w[3], 31) == LOOK_UPTO;
            found = found == 0 && all && upto ? k : found;
            all = __all_sync(0xffffffffu, g[k].w[3] != LOOK_UNSAID) != 0 && all;
        }
        return found == 0 && all && window < GM_LOOK_WINDOWS ? GM_LOOK_WINDOWS : found;
    }

    /* What comes before the tile, beginning so many windows back. Lane 0 has it. */
    template <class J> __device__ __forceinline__ typename J::State sum(uint64_t tile, uint32_t begin) const
    {
        const uint32_t lane = threadIdx.x & 31u;
        typename J::State state = J::nothing();
#pragma unroll
        for (uint32_t k = GM_LOOK_WINDOWS - 1u; k > 0; k--) {
            const typename J::State last = J::at(look_heard<J>(g[k], lane == 31u), 31u);
            if (k == begin && tile / 32u >= k)
                state = last;
            else if (k < begin)
                state = J::join(J::join(state, look_tree<J>(look_heard<J>(g[k], lane < 31u))), last);
        }
        return J::join(state, look_tree<J>(look_heard<J>(g[0], lane < (tile & 31u))));
    }
};

/* Says what a tile comes to, as soon as that is known. One thread. */
template <class J>
__device__ __forceinline__ void look_say_own(const struct gm_run *run, uint64_t tile, typename J::State own)
{
    look_say<J>(run->job, tile, own, J::closed(own) ? LOOK_UPTO : LOOK_OWN);
}

/* Finds what comes before a tile that has said what it comes to, and says what that makes. The first warp; *before is
 * lane 0's. False: cancelled, or nobody said anything for too long, and then the job has failed. */
template <class J>
__device__ __forceinline__ bool look_back(struct gm_run *run, uint64_t tile, typename J::State own,
                                          typename J::State *before)
{
    const bool first = threadIdx.x == 0, ends = (tile & 31u) == 31u && !J::closed(own);
    struct look look;
    uint32_t begin = 0;
#pragma unroll
    for (uint32_t k = 0; k < GM_LOOK_WINDOWS; k++)
        look.g[k] = {{0, 0, 0, LOOK_UNSAID}};
#pragma unroll 1
    for (uint32_t looks = 0; begin == 0; looks++) {
        const bool leave = looks == GM_LOOKS_MOST || gm_load_relaxed_u32(&run->entry->abort) != 0;
        look.look_at(run->job, tile);
        if (__any_sync(0xffffffffu, leave) != 0) {
            if (looks == GM_LOOKS_MOST && first)
                gm_run_fail(run, GM_EINTERNAL);
            return false;
        }
        begin = look.from(tile);
    }
    *before = look.sum<J>(tile, begin);
    if (first && ends)
        look_say<J>(run->job, tile, J::join(*before, own), LOOK_UPTO);
    return true;
}

} // namespace

#endif
