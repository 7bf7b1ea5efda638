/* SPDX-License-Identifier: Apache-2.0
 *
 * partition on blocks: the elements that compare as asked, then all others, both in their order.
 * See select.cuh for the way, compare.h for the rule.
 */
#include "ops/select.cuh"

namespace
{

constexpr int partition_packs = GM_TILE_BYTES_partition / 16 / GM_CUDA_THREADS;
static_assert(partition_packs * 16 * GM_CUDA_THREADS == GM_TILE_BYTES_partition, "every thread has as many");

template <typename W> __device__ __forceinline__ void partition_share(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    const select_matches<W> rule = {gm_predicate_make(job->dtype, job->bins, job->value[0], job->value[1])};
    select_share<select_matches<W>, partition_packs, true>(run, rule);
}

} // namespace

__device__ void gm_op_partition_share(struct gm_run *run)
{
    switch (gm_dtype_bytes(run->job->dtype)) {
    case 1:
        partition_share<uint8_t>(run);
        break;
    case 4:
        partition_share<uint32_t>(run);
        break;
    default:
        partition_share<uint64_t>(run);
        break;
    }
}

__device__ void gm_op_partition_finish(struct gm_run *run) { select_finish(run); }
