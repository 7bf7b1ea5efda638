/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for segmented_scan_sum: that of scan_sum, begun again at every offset.
 */
#include "prefix.h"

void gm_oracle_segmented_scan_sum(struct gm_oracle_job *job)
{
    oracle_prefix_sum(job, true);
}
