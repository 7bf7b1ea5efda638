/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for segmented_scan_min: that of scan_min, begun again at every offset.
 */
#include "prefix.h"

void gm_oracle_segmented_scan_min(struct gm_oracle_job *job)
{
    oracle_prefix_best(job, false, true);
}
