/* SPDX-License-Identifier: Apache-2.0
 *
 * argmin: where the smallest element is, the first one with the least key of this order. See arg.h.
 */
#include "arg.h"

void gm_op_argmin_share(struct gm_run *run) { gm_arg_share(run, GM_KEY_NAN_FIRST); }

void gm_op_argmin_finish(struct gm_run *run) { gm_arg_finish(run); }
