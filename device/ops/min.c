/* SPDX-License-Identifier: Apache-2.0
 *
 * min: the smallest element is the one with the least key of this order. See least.h.
 */
#include "least.h"

void gm_op_min_share(struct gm_run *run) { gm_least_share(run, GM_KEY_NAN_FIRST); }

void gm_op_min_finish(struct gm_run *run) { gm_least_finish(run, GM_KEY_NAN_FIRST); }
