/* SPDX-License-Identifier: Apache-2.0
 *
 * copy on blocks: 16-byte stores always; 16-byte loads where in and out have the same alignment, else words shifted
 * together. Bytes before the first and after the last whole 16 bytes of a tile go one by one. Four packs in flight.
 */
#include "cuda/prim/pack.cuh"
#include "ops/run.cuh"

namespace
{

template <bool aligned> __device__ __forceinline__ void copy_body(uint8_t *out, const uint8_t *in, uint32_t packs)
{
    constexpr uint32_t flight = 4;
    for (uint32_t base = threadIdx.x; base < packs; base += flight * GM_CUDA_THREADS) {
        uint4 v[flight];
#pragma unroll
        for (uint32_t k = 0; k < flight; k++) {
            const uint32_t i = base + k * GM_CUDA_THREADS;
            if (i < packs)
                v[k] = aligned ? __ldcg((const uint4 *)in + i) : gm_pack_shifted(in + i * 16u);
        }
#pragma unroll
        for (uint32_t k = 0; k < flight; k++) {
            const uint32_t i = base + k * GM_CUDA_THREADS;
            if (i < packs)
                __stcg((uint4 *)out + i, v[k]);
        }
    }
}

template <bool aligned> __device__ __noinline__ void copy_share(struct gm_run *run)
{
    const uint32_t element = gm_dtype_bytes(run->job->dtype);
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile, count;
    while (gm_run_next_tile(run, &tiles, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count) * element;
        const uint8_t *in = gm_run_buffer<const uint8_t>(run, 0) + first;
        uint8_t *out = gm_run_buffer<uint8_t>(run, 1) + first;
        const uint32_t bytes = (uint32_t)(count * element), before = 0u - (uint32_t)(uintptr_t)out & 15u;
        const uint32_t head = before < bytes ? before : bytes, packs = (bytes - head) / 16u;
        copy_body<aligned>(out + head, in + head, packs);
        const uint32_t after = head + packs * 16u;
        if (threadIdx.x < head)
            out[threadIdx.x] = __ldcg(in + threadIdx.x);
        if (threadIdx.x < bytes - after)
            out[after + threadIdx.x] = __ldcg(in + after + threadIdx.x);
    }
}

} // namespace

__device__ void gm_op_copy_share(struct gm_run *run)
{
    const uint64_t in = run->job->address[0], out = run->job->address[1];
    if (in == out)
        return;
    if (((in ^ out) & 15u) == 0)
        copy_share<true>(run);
    else
        copy_share<false>(run);
}

__device__ void gm_op_copy_finish(struct gm_run *run) { (void)run; }
