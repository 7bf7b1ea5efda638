/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for scatter: a look at all indices, then one element after the other, so that the last one stays.
 */
#include <string.h>

#include "oracle.h"

void gm_oracle_scatter(struct gm_oracle_job *job)
{
    const uint32_t bytes = gm_dtype_bytes(job->dtype);
    for (uint64_t i = 0; i < job->n; i++)
        if (gm_oracle_index(job, i) < 0) {
            job->status = GM_EBOUNDS;
            return;
        }
    for (uint64_t i = 0; i < job->n; i++) {
        const uint64_t at = (uint64_t)gm_oracle_index(job, i);
        memcpy((uint8_t *)job->out + at * bytes, (const uint8_t *)job->in + i * bytes, bytes);
    }
}
