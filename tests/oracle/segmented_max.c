/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for segmented_max: what max says of each segment, and the smallest value of the type of an empty one.
 */
#include "best.h"

void gm_oracle_segmented_max(struct gm_oracle_job *job)
{
    oracle_best_of_segments(job, true);
}
