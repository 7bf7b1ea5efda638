/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for partition: twice over the input, first for what is selected, then for what is not.
 */
#include <string.h>

#include "selected.h"

void gm_oracle_partition(struct gm_oracle_job *job)
{
    const uint32_t bytes = gm_dtype_bytes(job->dtype);
    const uint8_t *in = job->in;
    uint8_t *out = job->out;
    uint64_t at = 0;
    for (uint64_t i = 0; i < job->n; i++)
        if (gm_oracle_selected(job, i))
            memcpy(out + at++ * bytes, in + i * bytes, bytes);
    job->result = at;
    for (uint64_t i = 0; i < job->n; i++)
        if (!gm_oracle_selected(job, i))
            memcpy(out + at++ * bytes, in + i * bytes, bytes);
}
