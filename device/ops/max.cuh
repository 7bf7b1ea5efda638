/* SPDX-License-Identifier: Apache-2.0
 *
 * max on blocks: the largest element is the one with the least key of this order. See least.cuh.
 */
#include "ops/least.cuh"

__device__ void gm_op_max_share(struct gm_run *run) { least_share(run, GM_KEY_DESCENDING); }

__device__ void gm_op_max_finish(struct gm_run *run) { least_finish(run, GM_KEY_DESCENDING); }
