/* SPDX-License-Identifier: Apache-2.0
 *
 * segmented_min: the smallest element is the one with the least key of this order. See segments_least.h.
 */
#include "segments_least.h"

void gm_op_segmented_min_share(struct gm_run *run) { gm_segments_least_share(run, GM_KEY_NAN_FIRST); }

void gm_op_segmented_min_finish(struct gm_run *run) { gm_segments_least_finish(run, GM_KEY_NAN_FIRST); }
