/* SPDX-License-Identifier: Apache-2.0
 *
 * scan_min on blocks: the least key of this order so far. See prefix.cuh.
 */
#include "ops/prefix.cuh"

__device__ void gm_op_scan_min_share(struct gm_run *run)
{
    prefix_least_share<prefix_whole, GM_KEY_NAN_FIRST>(run);
}

__device__ void gm_op_scan_min_finish(struct gm_run *) {}
