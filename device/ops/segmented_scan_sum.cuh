/* SPDX-License-Identifier: Apache-2.0
 *
 * segmented_scan_sum on blocks: scan_sum, begun again at every offset. See segscan.cuh.
 */
#include "ops/segscan.cuh"

__device__ void gm_op_segmented_scan_sum_share(struct gm_run *run)
{
    prefix_sum_share<segscan_heads>(run);
}

__device__ void gm_op_segmented_scan_sum_finish(struct gm_run *) {}
