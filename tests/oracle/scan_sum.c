/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for scan_sum: the sum so far, integers in 128 bits, floats in long double.
 */
#include "prefix.h"

void gm_oracle_scan_sum(struct gm_oracle_job *job)
{
    oracle_prefix_sum(job, false);
}
