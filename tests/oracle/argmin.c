/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for argmin: the index of the first element that no other beats. NaN beats all numbers; -0 is
 * less than +0.
 */
#include "best.h"

void gm_oracle_argmin(struct gm_oracle_job *job)
{
    oracle_best_of_all(job, false, true);
}
