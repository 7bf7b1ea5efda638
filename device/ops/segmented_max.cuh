/* SPDX-License-Identifier: Apache-2.0
 *
 * segmented_max on blocks: the largest element is the one with the least key of this order. See segments_least.cuh.
 */
#include "ops/segments_least.cuh"

__device__ void gm_op_segmented_max_share(struct gm_run *run) { seg_least_share(run, GM_KEY_DESCENDING); }

__device__ void gm_op_segmented_max_finish(struct gm_run *run) { seg_least_finish(run, GM_KEY_DESCENDING); }
