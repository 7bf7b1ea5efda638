/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for scatter: a look at all indices, then one element after the other, so that the last one stays.
 */
#include <string.h>

#include "oracle.h"

/* Index i of the second input, or -1 when it is out of range. */
static int64_t index_at(const struct gm_oracle_job *job, uint64_t i)
{
    const uint32_t bytes = gm_dtype_bytes(job->type2);
    uint64_t v = 0;
    memcpy(&v, (const uint8_t *)job->in2 + i * bytes, bytes);
    const bool negative = gm_dtype_kind(job->type2) == 'i' && (v >> (bytes * 8u - 1u) & 1u);
    return negative || v >= job->value[0] ? -1 : (int64_t)v;
}

void gm_oracle_scatter(struct gm_oracle_job *job)
{
    const uint32_t bytes = gm_dtype_bytes(job->dtype);
    for (uint64_t i = 0; i < job->n; i++)
        if (index_at(job, i) < 0) {
            job->status = GM_EBOUNDS;
            return;
        }
    for (uint64_t i = 0; i < job->n; i++)
        memcpy((uint8_t *)job->out + (uint64_t)index_at(job, i) * bytes, (const uint8_t *)job->in + i * bytes, bytes);
}
