/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for run_length: for each run, looks how far its first element's equals go on. What equals what is C's ==,
 * of neighbours: a NaN is a run of its own.
 */
#include <string.h>

#include "oracle.h"

static bool neighbours_equal(const struct gm_oracle_job *job, uint64_t i)
{
    const uint32_t bytes = gm_dtype_bytes(job->dtype);
    const uint8_t *a = (const uint8_t *)job->in + i * bytes, *b = a + bytes;
    float f[2];
    double d[2];
    if (job->dtype == GM_DTYPE_f32) {
        memcpy(f, a, sizeof f);
        return f[0] == f[1];
    }
    if (job->dtype == GM_DTYPE_f64) {
        memcpy(d, a, sizeof d);
        return d[0] == d[1];
    }
    return memcmp(a, b, bytes) == 0;
}

void gm_oracle_run_length(struct gm_oracle_job *job)
{
    const uint32_t bytes = gm_dtype_bytes(job->dtype);
    uint64_t *lengths = job->out2;
    for (uint64_t first = 0, end; first < job->n; first = end) {
        for (end = first + 1; end < job->n && neighbours_equal(job, end - 1);)
            end++;
        memcpy((uint8_t *)job->out + job->result * bytes, (const uint8_t *)job->in + first * bytes, bytes);
        lengths[job->result++] = end - first;
    }
}
