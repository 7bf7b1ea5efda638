/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for select_if: copies what C's comparison of the numbers is true for.
 */
#include <string.h>

#include "selected.h"

void gm_oracle_select_if(struct gm_oracle_job *job)
{
    const uint32_t bytes = gm_dtype_bytes(job->dtype);
    const uint8_t *in = job->in;
    uint8_t *out = job->out;
    for (uint64_t i = 0; i < job->n; i++)
        if (gm_oracle_selected(job, i))
            memcpy(out + job->result++ * bytes, in + i * bytes, bytes);
}
