/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for copy: byte by byte.
 */
#include "oracle.h"

void gm_oracle_copy(struct gm_oracle_job *job)
{
    for (uint64_t i = 0; i < job->n * gm_dtype_bytes(job->dtype); i++)
        ((uint8_t *)job->out)[i] = ((const uint8_t *)job->in)[i];
}
