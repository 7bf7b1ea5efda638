/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for unique: an element is kept unless C's == says that it is the one in front of it.
 */
#include <string.h>

#include "oracle.h"

static bool equal(const struct gm_oracle_job *job, uint64_t i, uint64_t k)
{
    switch (job->dtype) {
    case GM_DTYPE_u8:
        return ((const uint8_t *)job->in)[i] == ((const uint8_t *)job->in)[k];
    case GM_DTYPE_i32:
    case GM_DTYPE_u32:
        return ((const uint32_t *)job->in)[i] == ((const uint32_t *)job->in)[k];
    case GM_DTYPE_i64:
    case GM_DTYPE_u64:
        return ((const uint64_t *)job->in)[i] == ((const uint64_t *)job->in)[k];
    case GM_DTYPE_f32:
        return ((const float *)job->in)[i] == ((const float *)job->in)[k];
    default:
        return ((const double *)job->in)[i] == ((const double *)job->in)[k];
    }
}

void gm_oracle_unique(struct gm_oracle_job *job)
{
    const uint32_t bytes = gm_dtype_bytes(job->dtype);
    const uint8_t *in = job->in;
    uint8_t *out = job->out;
    for (uint64_t i = 0; i < job->n; i++)
        if (i == 0 || !equal(job, i, i - 1))
            memcpy(out + job->result++ * bytes, in + i * bytes, bytes);
}
