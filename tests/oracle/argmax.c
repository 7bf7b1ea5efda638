/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for argmax: the index of the first element that no other beats. NaN beats all numbers; -0 is
 * less than +0.
 */
#include "best.h"

void gm_oracle_argmax(struct gm_oracle_job *job)
{
    oracle_best_of_all(job, true, true);
}
