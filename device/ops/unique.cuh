/* SPDX-License-Identifier: Apache-2.0
 *
 * unique on blocks: keeps each element that does not equal the one in front of it. See select.cuh for the way.
 */
#include "ops/select.cuh"

namespace
{

constexpr int unique_packs = GM_TILE_BYTES_unique / 16 / GM_CUDA_THREADS;
static_assert(unique_packs * 16 * GM_CUDA_THREADS == GM_TILE_BYTES_unique, "every thread has as many");

template <typename W, bool floats> __device__ __forceinline__ void unique_share(struct gm_run *run)
{
    select_share<select_starts<W, floats>, unique_packs, select_kept>(run, select_starts<W, floats>());
}

} // namespace

__device__ void gm_op_unique_share(struct gm_run *run)
{
    switch (run->job->dtype) {
    case GM_DTYPE_f32:
        unique_share<uint32_t, true>(run);
        break;
    case GM_DTYPE_f64:
        unique_share<uint64_t, true>(run);
        break;
    case GM_DTYPE_u8:
        unique_share<uint8_t, false>(run);
        break;
    case GM_DTYPE_i32:
    case GM_DTYPE_u32:
        unique_share<uint32_t, false>(run);
        break;
    default:
        unique_share<uint64_t, false>(run);
        break;
    }
}

__device__ void gm_op_unique_finish(struct gm_run *run) { select_finish(run); }
