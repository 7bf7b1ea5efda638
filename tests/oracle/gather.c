/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for gather: an element for each index, one after the other; any bad index fails it.
 */
#include <string.h>

#include "oracle.h"

void gm_oracle_gather(struct gm_oracle_job *job)
{
    const uint32_t bytes = gm_dtype_bytes(job->dtype);
    for (uint64_t i = 0; i < job->n; i++)
        if (gm_oracle_index(job, i) < 0) {
            job->status = GM_EBOUNDS;
            return;
        }
    for (uint64_t i = 0; i < job->n; i++) {
        const uint64_t at = (uint64_t)gm_oracle_index(job, i);
        memcpy((uint8_t *)job->out + i * bytes, (const uint8_t *)job->in + at * bytes, bytes);
    }
}
