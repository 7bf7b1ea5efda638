/* SPDX-License-Identifier: Apache-2.0
 *
 * segmented_min on blocks: the smallest element is the one with the least key of this order. See segments_least.cuh.
 */
#include "ops/segments_least.cuh"

__device__ void gm_op_segmented_min_share(struct gm_run *run) { seg_least_share(run, GM_KEY_NAN_FIRST); }

__device__ void gm_op_segmented_min_finish(struct gm_run *run) { seg_least_finish(run, GM_KEY_NAN_FIRST); }
