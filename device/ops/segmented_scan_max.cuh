/* SPDX-License-Identifier: Apache-2.0
 *
 * segmented_scan_max on blocks: scan_max, begun again at every offset. See segscan.cuh.
 */
#include "ops/segscan.cuh"

__device__ void gm_op_segmented_scan_max_share(struct gm_run *run)
{
    prefix_least_share<segscan_heads, GM_KEY_DESCENDING>(run);
}

__device__ void gm_op_segmented_scan_max_finish(struct gm_run *) {}
