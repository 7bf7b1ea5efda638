/* SPDX-License-Identifier: Apache-2.0
 *
 * max: the largest element is the one with the least key of this order. See least.h.
 */
#include "least.h"

void gm_op_max_share(struct gm_run *run) { gm_least_share(run, GM_KEY_DESCENDING); }

void gm_op_max_finish(struct gm_run *run) { gm_least_finish(run, GM_KEY_DESCENDING); }
