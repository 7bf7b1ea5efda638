/* SPDX-License-Identifier: Apache-2.0
 *
 * Stencils on blocks: a tile of the input lies in shared memory with one element more on either side, read again from
 * the input; the next tile's elements are on their way into registers while this one is worked on. Bounded by the job's
 * tiles; an element outside the input counts as 0 and is not read.
 */
#ifndef GM_OPS_STENCIL_CUH
#define GM_OPS_STENCIL_CUH

#include "cuda/prim/pack.cuh"
#include "ops/map.cuh"

#define STENCIL_TILE_BYTES GM_TILE_BYTES_stencil3
static_assert(GM_TILE_BYTES_stencil3_weighted == STENCIL_TILE_BYTES && GM_TILE_BYTES_stencil5 == STENCIL_TILE_BYTES,
              "one way for all");

namespace
{

/* The tile begins one pack into the scratch, so that packs of it are aligned there. */
template <typename Word> struct stencil_tile {
    static constexpr uint32_t packs = STENCIL_TILE_BYTES / 16u / GM_CUDA_THREADS;
    static constexpr uint32_t E = gm_pack<Word>::elements;
    static_assert(packs * GM_CUDA_THREADS * 16u == STENCIL_TILE_BYTES, "whole packs for every thread");
    static_assert(STENCIL_TILE_BYTES + 32u <= GM_BLOCK_SCRATCH, "fits");

    gm_pack<Word> pack[packs];
    Word beside; /* thread 0: the element before the tile; the last thread: the one behind it */
    uint64_t first;
    uint32_t count;

    __device__ __forceinline__ static Word *shared() { return gm_run_scratch<Word>(16u); }

    /* Everything is asked for before any of it is needed. Each thread for itself. */
    __device__ __forceinline__ void load(const struct gm_run *run, uint64_t tile)
    {
        uint64_t elements;
        first = gm_run_tile(run, tile, &elements);
        count = (uint32_t)elements;
        const Word *in = gm_run_buffer<const Word>(run, 0) + first;
#pragma unroll
        for (uint32_t k = 0; k < packs; k++)
            pack[k] = gm_pack_load<Word>(in, k * GM_CUDA_THREADS + threadIdx.x, count, 0);
        beside = 0;
        if (threadIdx.x == 0 && first != 0)
            beside = gm_global_load(in - 1);
        if (threadIdx.x == GM_CUDA_THREADS - 1u && first + count < run->job->n)
            beside = gm_global_load(in + count);
    }

    /* Into shared memory: between two barriers, so that nobody looks yet, or any more. */
    __device__ __forceinline__ void put() const
    {
        Word *to = shared();
#pragma unroll
        for (uint32_t k = 0; k < packs; k++) {
            const uint32_t at = (k * GM_CUDA_THREADS + threadIdx.x) * E;
#pragma unroll
            for (uint32_t e = 0; e < E; e++)
                if (at + e < count)
                    to[at + e] = pack[k].w[e];
        }
        if (threadIdx.x == 0)
            to[-1] = beside;
        if (threadIdx.x == GM_CUDA_THREADS - 1u)
            to[count] = beside;
    }
};

/* Goes through the share's tiles; S: Word, and tile(run, first, count), which writes a tile's outputs from what lies in
 * shared memory. */
template <class S> __device__ __forceinline__ void stencil_tiles(struct gm_run *run, const S &s)
{
    struct gm_tiles tiles = {0, 0, 0};
    stencil_tile<typename S::Word> t;
    uint64_t tile;
    bool more = gm_run_next_tile(run, &tiles, &tile);
    if (more)
        t.load(run, tile);
    while (more) {
        const uint64_t first = t.first;
        const uint32_t count = t.count;
        t.put();
        more = gm_run_next_tile(run, &tiles, &tile); /* a barrier or none */
        __syncthreads();
        if (more)
            t.load(run, tile);
        s.tile(run, first, count);
        __syncthreads(); /* everyone has read it */
    }
}

/* Sums and products of number types; integers wrap. A product is rounded once, a product with a sum once. */
__device__ __forceinline__ uint32_t stencil_sum(uint32_t a, uint32_t b) { return a + b; }
__device__ __forceinline__ uint64_t stencil_sum(uint64_t a, uint64_t b) { return a + b; }
__device__ __forceinline__ float stencil_sum(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ double stencil_sum(double a, double b) { return __dadd_rn(a, b); }
__device__ __forceinline__ uint32_t stencil_product(uint32_t w, uint32_t x) { return w * x; }
__device__ __forceinline__ uint64_t stencil_product(uint64_t w, uint64_t x) { return w * x; }
__device__ __forceinline__ float stencil_product(float w, float x) { return __fmul_rn(w, x); }
__device__ __forceinline__ double stencil_product(double w, double x) { return __dmul_rn(w, x); }
__device__ __forceinline__ uint32_t stencil_fused(uint32_t w, uint32_t x, uint32_t sum) { return w * x + sum; }
__device__ __forceinline__ uint64_t stencil_fused(uint64_t w, uint64_t x, uint64_t sum) { return w * x + sum; }
__device__ __forceinline__ float stencil_fused(float w, float x, float sum) { return __fmaf_rn(w, x, sum); }
__device__ __forceinline__ double stencil_fused(double w, double x, double sum) { return __fma_rn(w, x, sum); }

/* Three neighbours. F: an N of three N. */
template <typename N, class F> struct stencil_row {
    typedef map_number<N> Number;
    typedef typename Number::Word Word;
    F f;
    __device__ __forceinline__ void tile(const struct gm_run *run, uint64_t first, uint32_t count) const
    {
        const Word *x = stencil_tile<Word>::shared();
        Word *out = gm_run_buffer<Word>(run, 1) + first;
#pragma unroll 4
        for (uint32_t at = threadIdx.x; at < count; at += GM_CUDA_THREADS)
            out[at] = Number::bits(f(Number::of(x[(int32_t)at - 1]), Number::of(x[at]), Number::of(x[at + 1u])));
    }
};

template <typename N, class F> __device__ __noinline__ void stencil_row_share(struct gm_run *run, F f)
{
    stencil_tiles(run, stencil_row<N, F>{f});
}

} // namespace

#endif
