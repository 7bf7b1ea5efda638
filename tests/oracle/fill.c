/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for fill: the low bytes of the value, n times.
 */
#include <string.h>

#include "oracle.h"

void gm_oracle_fill(struct gm_oracle_job *job)
{
    const uint32_t bytes = gm_dtype_bytes(job->dtype);
    for (uint64_t i = 0; i < job->n; i++)
        for (uint32_t b = 0; b < bytes; b++)
            ((uint8_t *)job->out)[i * bytes + b] = (uint8_t)(job->value[0] >> (8u * b));
}
