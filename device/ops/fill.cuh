/* SPDX-License-Identifier: Apache-2.0
 *
 * fill on blocks: 16-byte stores, and single elements before the first and after the last whole 16 bytes of a tile.
 */
#include "ops/word.cuh"

namespace
{

/* The 8 bytes of the value repeat the element, so that every element-aligned place holds the right bytes. */
template <typename T> __device__ __noinline__ void fill_share(struct gm_run *run, uint64_t value)
{
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile, count;
    const uint32_t low = (uint32_t)value, high = (uint32_t)(value >> 32);
    while (gm_run_next_tile(run, &tiles, &tile)) {
        T *out = gm_run_buffer<T>(run, 0) + gm_run_tile(run, tile, &count);
        const uint64_t before = (0u - (uint64_t)(uintptr_t)out & 15u) / sizeof(T);
        const uint32_t head = (uint32_t)(before < count ? before : count);
        const uint32_t packs = (uint32_t)((count - head) * sizeof(T) / 16u), body = packs * (16u / sizeof(T));
        uint4 *body_out = (uint4 *)(out + head);
        const uint4 v = make_uint4(low, high, low, high);
        if (threadIdx.x < head)
            out[threadIdx.x] = (T)value;
#pragma unroll 4
        for (uint32_t i = threadIdx.x; i < packs; i += GM_CUDA_THREADS)
            __stcg(body_out + i, v);
        for (uint32_t i = head + body + threadIdx.x; i < count; i += GM_CUDA_THREADS)
            out[i] = (T)value;
    }
}

} // namespace

__device__ void gm_op_fill_share(struct gm_run *run)
{
    const uint64_t value = run->job->value[0];
    gm_run_word(run, [run, value](auto zero) {
        typedef decltype(zero) Word;
        fill_share<Word>(run, (Word)value * (UINT64_MAX / (Word)~zero));
    });
}

__device__ void gm_op_fill_finish(struct gm_run *run) { (void)run; }
