/* SPDX-License-Identifier: Apache-2.0
 *
 * stencil3_weighted on blocks: see stencil.cuh for the way.
 */
#include "ops/stencil.cuh"

namespace
{

template <typename N> struct stencil3_weighted {
    N left, center, right;
    __device__ __forceinline__ N operator()(N before, N x, N behind) const
    {
        return stencil_fused(right, behind, stencil_fused(left, before, stencil_product(center, x)));
    }
};

template <typename N> __device__ __forceinline__ void stencil3_weighted_share(struct gm_run *run)
{
    typedef map_number<N> Number;
    typedef typename Number::Word Word;
    const struct gm_job *job = run->job;
    stencil_row_share<N>(run, stencil3_weighted<N>{Number::of((Word)job->value[0]), Number::of((Word)job->value[1]),
                                                   Number::of((Word)gm_run_value2(run))});
}

} // namespace

__device__ void gm_op_stencil3_weighted_share(struct gm_run *run)
{
    map_wrapping(run, [run](auto zero) { stencil3_weighted_share<decltype(zero)>(run); });
}

__device__ void gm_op_stencil3_weighted_finish(struct gm_run *run) { (void)run; }
