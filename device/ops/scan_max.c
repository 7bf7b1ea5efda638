/* SPDX-License-Identifier: Apache-2.0
 *
 * scan_max: the largest element up to each one, or before it: the least key of this order. See prefix.h.
 */
#include "prefix.h"

void gm_op_scan_max_share(struct gm_run *run)
{
    gm_prefix_share(run, GM_PREFIX_MAX);
}

void gm_op_scan_max_finish(struct gm_run *run)
{
    gm_prefix_finish(run, GM_PREFIX_MAX);
}
