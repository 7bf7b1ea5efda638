/* SPDX-License-Identifier: Apache-2.0
 *
 * segmented_scan_min on blocks: scan_min, begun again at every offset. See segscan.cuh.
 */
#include "ops/segscan.cuh"

__device__ void gm_op_segmented_scan_min_share(struct gm_run *run)
{
    prefix_least_share<segscan_heads, GM_KEY_NAN_FIRST>(run);
}

__device__ void gm_op_segmented_scan_min_finish(struct gm_run *) {}
