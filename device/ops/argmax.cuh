/* SPDX-License-Identifier: Apache-2.0
 *
 * argmax on blocks: where the largest element is, the first one with the least key of this order. See arg.cuh.
 */
#include "ops/arg.cuh"

__device__ void gm_op_argmax_share(struct gm_run *run) { arg_share(run, GM_KEY_DESCENDING); }

__device__ void gm_op_argmax_finish(struct gm_run *run) { arg_finish(run, GM_KEY_DESCENDING); }
