/* SPDX-License-Identifier: Apache-2.0
 *
 * segmented_scan_min: the smallest element of each segment so far. See segscan.h.
 */
#include "segscan.h"

void gm_op_segmented_scan_min_share(struct gm_run *run)
{
    gm_segscan_share(run, GM_PREFIX_MIN);
}

void gm_op_segmented_scan_min_finish(struct gm_run *run)
{
    gm_prefix_finish(run, GM_PREFIX_MIN);
}
