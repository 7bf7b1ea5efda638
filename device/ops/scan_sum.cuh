/* SPDX-License-Identifier: Apache-2.0
 *
 * scan_sum on blocks: sums of everything up to each element, or before it. See prefix.cuh.
 */
#include "ops/prefix.cuh"

__device__ void gm_op_scan_sum_share(struct gm_run *run)
{
    prefix_sum_share<prefix_whole>(run);
}

__device__ void gm_op_scan_sum_finish(struct gm_run *) {}
