/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for scan_min: the first element so far that no other is smaller than.
 */
#include "prefix.h"

void gm_oracle_scan_min(struct gm_oracle_job *job)
{
    oracle_prefix_best(job, false, false);
}
