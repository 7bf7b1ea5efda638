/* SPDX-License-Identifier: Apache-2.0
 *
 * Stencils on blocks: every element is read straight into a register of the thread that writes its place, 16 bytes at a
 * time where the buffers are aligned for it; the neighbours beside them are in the next lanes of the warp, and the two
 * at its ends are read again. Everything that a thread needs of a tile is asked for before any of it is waited for, and
 * nothing waits for other warps. Bounded by the job's tiles; an element outside the input counts as 0 and is not read.
 */
#ifndef GM_OPS_STENCIL_CUH
#define GM_OPS_STENCIL_CUH

#include "cuda/prim/pack.cuh"
#include "ops/map.cuh"

/* Pieces that a thread has in registers. Before sm_90 a shuffle is a call, across which few of them are kept, so there
 * every thread reads the neighbours of its pieces itself. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define STENCIL_SHUFFLES 0
#define STENCIL_PIECES   4u
#else
#define STENCIL_SHUFFLES 1
#define STENCIL_PIECES   8u
#endif

namespace
{

/* Sums and products of number types; integers wrap. A product is rounded once, a product with a sum once. */
__device__ __forceinline__ uint32_t stencil_sum(uint32_t a, uint32_t b)
{
    return a + b;
}
__device__ __forceinline__ uint64_t stencil_sum(uint64_t a, uint64_t b)
{
    return a + b;
}
__device__ __forceinline__ float stencil_sum(float a, float b)
{
    return __fadd_rn(a, b);
}
__device__ __forceinline__ double stencil_sum(double a, double b)
{
    return __dadd_rn(a, b);
}
__device__ __forceinline__ uint32_t stencil_product(uint32_t w, uint32_t x)
{
    return w * x;
}
__device__ __forceinline__ uint64_t stencil_product(uint64_t w, uint64_t x)
{
    return w * x;
}
__device__ __forceinline__ float stencil_product(float w, float x)
{
    return __fmul_rn(w, x);
}
__device__ __forceinline__ double stencil_product(double w, double x)
{
    return __dmul_rn(w, x);
}
__device__ __forceinline__ uint32_t stencil_fused(uint32_t w, uint32_t x, uint32_t sum)
{
    return w * x + sum;
}
__device__ __forceinline__ uint64_t stencil_fused(uint64_t w, uint64_t x, uint64_t sum)
{
    return w * x + sum;
}
__device__ __forceinline__ float stencil_fused(float w, float x, float sum)
{
    return __fmaf_rn(w, x, sum);
}
__device__ __forceinline__ double stencil_fused(double w, double x, double sum)
{
    return __fma_rn(w, x, sum);
}

/* E elements in a row. */
template <typename Word, uint32_t E> struct stencil_piece {
    typedef map_unit<Word, E> Unit;

    __device__ __forceinline__ static Unit nothing()
    {
        Unit u;
#pragma unroll
        for (uint32_t e = 0; e < E; e++)
            u.w[e] = 0;
        return u;
    }
    __device__ __forceinline__ static Unit load(const Word *p)
    {
        Unit u;
        u.v = __ldcg((const typename Unit::Bits *)p);
        return u;
    }

#if STENCIL_SHUFFLES
    typedef Word Side;

    /* What a warp's first lane needs of the elements before its own, and the last one of those behind, where there is
     * such an element. */
    __device__ __forceinline__ static Side side(const Word *p, bool any_before, bool any_behind)
    {
        const uint32_t lane = threadIdx.x & 31u;
        if (lane == 0 && any_before)
            return gm_global_load(p - 1);
        return lane == 31u && any_behind ? gm_global_load(p + E) : 0;
    }

    /* The element before the piece and the one behind it. Whole warp. */
    __device__ __forceinline__ static void beside(const Unit &x, Side side, Word *before, Word *behind)
    {
        const uint32_t lane = threadIdx.x & 31u;
        const Word up = __shfl_up_sync(0xffffffffu, x.w[E - 1u], 1), down = __shfl_down_sync(0xffffffffu, x.w[0], 1);
        *before = lane == 0 ? side : up;
        *behind = lane == 31u ? side : down;
    }
#else
    struct Side {
        Word before, behind;
    };
    __device__ __forceinline__ static Side side(const Word *p, bool any_before, bool any_behind)
    {
        return {any_before ? gm_global_load(p - 1) : 0, any_behind ? gm_global_load(p + E) : 0};
    }
    __device__ __forceinline__ static void beside(const Unit &, Side side, Word *before, Word *behind)
    {
        *before = side.before;
        *behind = side.behind;
    }
#endif
};

/* Three neighbours, of pieces number 0 up to count that begin at element first. F: an N of three N. Whole block. */
template <typename N, uint32_t E, class F>
__device__ __forceinline__ void stencil_row(const struct gm_run *run, const F &f, uint64_t first, uint32_t count)
{
    typedef map_number<N> Number;
    typedef typename Number::Word Word;
    typedef stencil_piece<Word, E> Piece;
    typedef typename Piece::Unit Unit;
    constexpr uint32_t flight = STENCIL_PIECES;
    const uint64_t left = run->job->n - first;
    const uint32_t room =
        left < UINT32_MAX ? (uint32_t)left : UINT32_MAX; /* more than a tile and an element are alike */
    const Word *in = gm_run_buffer<const Word>(run, 0) + first;
    Word *out = gm_run_buffer<Word>(run, 1) + first;
#pragma unroll 1
    for (uint32_t base = 0; base < count; base += flight * GM_CUDA_THREADS) {
        Unit x[flight];
        typename Piece::Side side[flight];
#pragma unroll
        for (uint32_t k = 0; k < flight; k++) {
            const uint32_t i = base + k * GM_CUDA_THREADS + threadIdx.x;
            x[k] = Piece::nothing();
            side[k] = {};
            if (i < count) {
                x[k] = Piece::load(in + i * E);
                side[k] = Piece::side(in + i * E, first != 0 || i != 0, (i + 1u) * E < room);
            } else if (i == count && i * E < room) { /* for the last piece, where that is not the last lane's */
                x[k].w[0] = gm_global_load(in + i * E);
            }
        }
#pragma unroll
        for (uint32_t k = 0; k < flight; k++) {
            const uint32_t i = base + k * GM_CUDA_THREADS + threadIdx.x;
            Word before, behind;
            Unit r;
            Piece::beside(x[k], side[k], &before, &behind);
#pragma unroll
            for (uint32_t e = 0; e < E; e++)
                r.w[e] = Number::bits(f(Number::of(e != 0 ? x[k].w[e - 1u] : before), Number::of(x[k].w[e]),
                                        Number::of(e + 1u != E ? x[k].w[e + 1u] : behind)));
            if (i < count)
                __stcg((typename Unit::Bits *)out + i, r.v);
        }
    }
}

template <typename N, class F> __device__ __noinline__ void stencil_row_share(struct gm_run *run, F f)
{
    typedef typename map_number<N>::Word Word;
    constexpr uint32_t E = 16u / sizeof(Word);
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile, count64;
    while (gm_run_next_tile(run, &tiles, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count64);
        const uint32_t count = (uint32_t)count64;
        const uintptr_t in = run->job->address[0], out = run->job->address[1];
        const uint32_t before = (0u - (uint32_t)(out + first * sizeof(Word)) & 15u) / (uint32_t)sizeof(Word);
        const uint32_t head = ((in ^ out) & 15u) != 0 || before > count ? count : before;
        const uint32_t units = (count - head) / E, body = head + units * E;
        stencil_row<N, E>(run, f, first + head, units);
        stencil_row<N, 1u>(run, f, first, head);
        stencil_row<N, 1u>(run, f, first + body, count - body);
    }
}

} // namespace

#endif
