/* SPDX-License-Identifier: Apache-2.0
 *
 * scan_sum: sums of everything up to each element, or before it. See prefix.h.
 */
#include "prefix.h"

void gm_op_scan_sum_share(struct gm_run *run)
{
    gm_prefix_share(run, GM_PREFIX_SUM);
}

void gm_op_scan_sum_finish(struct gm_run *run)
{
    gm_prefix_finish(run, GM_PREFIX_SUM);
}
