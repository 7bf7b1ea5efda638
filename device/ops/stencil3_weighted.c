/* SPDX-License-Identifier: Apache-2.0
 *
 * stencil3_weighted: each element and its two neighbours, times weights. See stencil.h.
 */
#include "stencil.h"

GM_STENCILS(center * x + left * l + right * r, fmaf(right, r, fmaf(left, l, center * x)),
            fma(right, r, fma(left, l, center * x)))

void gm_op_stencil3_weighted_share(struct gm_run *run)
{
    const struct gm_stencil weights = {run->job->value[0], run->job->value[1], gm_run_value2(run)};
    gm_stencil_share(run, &weights);
}

void gm_op_stencil3_weighted_finish(struct gm_run *run) { (void)run; }
