/* SPDX-License-Identifier: Apache-2.0
 *
 * stencil5 on blocks: see stencil.cuh for the way. A tile is a piece of the flat array, whatever the width: what lies a
 * row above or below is in the tile, or read again from the input. The weights are read once a share.
 */
#include "ops/stencil.cuh"

namespace
{

template <typename N> struct stencil5 {
    typedef map_number<N> Number;
    typedef typename Number::Word Word;
    static constexpr uint32_t flight = 4;
    N center, west, east, north, south;

    /* Element i + width or i - width, which is element `at` of the tile if that is below its count. */
    __device__ __forceinline__ static Word far(const Word *x, uint32_t count, uint64_t at, const Word *in, uint64_t i)
    {
        return at < count ? x[at] : gm_global_load(in + i);
    }

    __device__ __forceinline__ void tile(const struct gm_run *run, uint64_t first, uint32_t count) const
    {
        const uint64_t width = run->job->value[0], n = run->job->n;
        const Word *x = stencil_tile<Word>::shared(), *in = gm_run_buffer<const Word>(run, 0);
        Word *out = gm_run_buffer<Word>(run, 2) + first;
        const uint64_t step = GM_CUDA_THREADS % width;
        uint64_t column = (first + threadIdx.x) % width;
#pragma unroll 1
        for (uint32_t base = threadIdx.x; base < count; base += flight * GM_CUDA_THREADS) {
            Word above[flight], below[flight];
#pragma unroll
            for (uint32_t k = 0; k < flight; k++) {
                const uint32_t at = base + k * GM_CUDA_THREADS;
                const uint64_t i = first + at;
                above[k] = below[k] = 0;
                if (at < count && i >= width) /* at - width wraps when it is before the tile, and is no place in it */
                    above[k] = far(x, count, (uint64_t)at - width, in, i - width);
                if (at < count && n - i > width)
                    below[k] = far(x, count, (uint64_t)at + width, in, i + width);
            }
#pragma unroll
            for (uint32_t k = 0; k < flight; k++) {
                const uint32_t at = base + k * GM_CUDA_THREADS;
                if (at < count) {
                    const Word w = column != 0 ? x[(int32_t)at - 1] : 0, e = column + 1u != width ? x[at + 1u] : 0;
                    N sum = stencil_product(center, Number::of(x[at]));
                    sum = stencil_fused(west, Number::of(w), sum);
                    sum = stencil_fused(east, Number::of(e), sum);
                    sum = stencil_fused(north, Number::of(above[k]), sum);
                    out[at] = Number::bits(stencil_fused(south, Number::of(below[k]), sum));
                }
                column += step;
                column -= column >= width ? width : 0;
            }
        }
    }
};

template <typename N> __device__ __noinline__ void stencil5_share(struct gm_run *run)
{
    typedef map_number<N> Number;
    const typename Number::Word *w = gm_run_buffer<const typename Number::Word>(run, 1);
    stencil_tiles(run, stencil5<N>{Number::of(gm_global_load(w)), Number::of(gm_global_load(w + 1)),
                                   Number::of(gm_global_load(w + 2)), Number::of(gm_global_load(w + 3)),
                                   Number::of(gm_global_load(w + 4))});
}

} // namespace

__device__ void gm_op_stencil5_share(struct gm_run *run)
{
    map_wrapping(run, [run](auto zero) { stencil5_share<decltype(zero)>(run); });
}

__device__ void gm_op_stencil5_finish(struct gm_run *run) { (void)run; }
