/* SPDX-License-Identifier: Apache-2.0
 *
 * min on blocks: the smallest element is the one with the least key of this order. See least.cuh.
 */
#include "ops/least.cuh"

__device__ void gm_op_min_share(struct gm_run *run) { least_share(run, GM_KEY_NAN_FIRST); }

__device__ void gm_op_min_finish(struct gm_run *run) { least_finish(run, GM_KEY_NAN_FIRST); }
