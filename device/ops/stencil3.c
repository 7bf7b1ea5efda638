/* SPDX-License-Identifier: Apache-2.0
 *
 * stencil3: each element with its two neighbours. See stencil.h.
 */
#include "stencil.h"

GM_STENCILS(l + x + r, l + x + r, l + x + r)

void gm_op_stencil3_share(struct gm_run *run)
{
    const struct gm_stencil none = {0, 0, 0};
    gm_stencil_share(run, &none);
}

void gm_op_stencil3_finish(struct gm_run *run) { (void)run; }
