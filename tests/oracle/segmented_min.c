/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for segmented_min: what min says of each segment, and the largest value of the type of an empty one.
 */
#include "best.h"

void gm_oracle_segmented_min(struct gm_oracle_job *job)
{
    oracle_best_of_segments(job, false);
}
