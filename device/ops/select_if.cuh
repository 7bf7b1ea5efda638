/* SPDX-License-Identifier: Apache-2.0
 *
 * select_if on blocks: keeps the elements that compare as asked, in their order.
 * See select.cuh for the way, compare.h for the rule.
 */
#include "ops/select.cuh"

namespace
{

constexpr int select_if_packs = GM_TILE_BYTES_select_if / 16 / GM_CUDA_THREADS;
static_assert(select_if_packs * 16 * GM_CUDA_THREADS == GM_TILE_BYTES_select_if, "every thread has as many");

template <typename W> __device__ __forceinline__ void select_if_share(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    const select_matches<W> rule(gm_predicate_make(job->dtype, job->bins, job->value[0], job->value[1]));
    select_share<select_matches<W>, select_if_packs, select_kept>(run, rule);
}

} // namespace

__device__ void gm_op_select_if_share(struct gm_run *run)
{
    switch (gm_dtype_bytes(run->job->dtype)) {
    case 1:
        select_if_share<uint8_t>(run);
        break;
    case 4:
        select_if_share<uint32_t>(run);
        break;
    default:
        select_if_share<uint64_t>(run);
        break;
    }
}

__device__ void gm_op_select_if_finish(struct gm_run *run) { select_finish(run); }
