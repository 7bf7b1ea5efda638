/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for scan_max: the first element so far that no other is larger than.
 */
#include "prefix.h"

void gm_oracle_scan_max(struct gm_oracle_job *job)
{
    oracle_prefix_best(job, true, false);
}
