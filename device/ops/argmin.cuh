/* SPDX-License-Identifier: Apache-2.0
 *
 * argmin on blocks: where the smallest element is, the first one with the least key of this order. See arg.cuh.
 */
#include "ops/arg.cuh"

__device__ void gm_op_argmin_share(struct gm_run *run) { arg_share(run, GM_KEY_NAN_FIRST); }

__device__ void gm_op_argmin_finish(struct gm_run *run) { arg_finish(run, GM_KEY_NAN_FIRST); }
