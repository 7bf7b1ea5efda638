/* SPDX-License-Identifier: Apache-2.0
 *
 * segmented_max: the largest element is the one with the least key of this order. See segments_least.h.
 */
#include "segments_least.h"

void gm_op_segmented_max_share(struct gm_run *run) { gm_segments_least_share(run, GM_KEY_DESCENDING); }

void gm_op_segmented_max_finish(struct gm_run *run) { gm_segments_least_finish(run, GM_KEY_DESCENDING); }
