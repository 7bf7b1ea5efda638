/* SPDX-License-Identifier: Apache-2.0
 *
 * argmax: where the largest element is, the first one with the least key of this order. See arg.h.
 */
#include "arg.h"

void gm_op_argmax_share(struct gm_run *run) { gm_arg_share(run, GM_KEY_DESCENDING); }

void gm_op_argmax_finish(struct gm_run *run) { gm_arg_finish(run); }
