/* SPDX-License-Identifier: Apache-2.0
 *
 * gather on blocks: indices and outputs side by side, several of each thread in flight. See gather.c for the rules.
 */
#include "ops/index.cuh"

namespace
{

template <typename Word, typename Index> __device__ __noinline__ void gather_share(struct gm_run *run)
{
    constexpr uint32_t flight = 8;
    const uint64_t length = run->job->value[0];
    const Word *in = gm_run_buffer<const Word>(run, 0);
    const Index *indices = gm_run_buffer<const Index>(run, 1);
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile, count;
    bool outside = false;
    while (gm_run_next_tile(run, &tiles, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count);
        Word *out = gm_run_buffer<Word>(run, 2) + first;
#pragma unroll 1
        for (uint32_t base = threadIdx.x; base < count; base += flight * GM_CUDA_THREADS) {
            uint64_t at[flight];
            Word v[flight];
#pragma unroll
            for (uint32_t k = 0; k < flight; k++) {
                const uint32_t i = base + k * GM_CUDA_THREADS;
                at[k] = i < count ? index_of<Index>::load(indices + first, i) : length;
            }
#pragma unroll
            for (uint32_t k = 0; k < flight; k++) {
                outside = outside || (at[k] >= length && base + k * GM_CUDA_THREADS < count);
                if (at[k] < length)
                    v[k] = element_load(in + at[k]);
            }
#pragma unroll
            for (uint32_t k = 0; k < flight; k++)
                if (at[k] < length)
                    out[base + k * GM_CUDA_THREADS] = v[k];
        }
    }
    index_verdict(run, outside);
}

} // namespace

__device__ void gm_op_gather_share(struct gm_run *run)
{
    index_typed(run, [run](auto word, auto index) { gather_share<decltype(word), decltype(index)>(run); });
}

__device__ void gm_op_gather_finish(struct gm_run *run) { (void)run; }
