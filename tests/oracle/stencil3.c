/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for stencil3: the input with a zero before and behind it, element by element.
 */
#include <math.h>
#include <string.h>

#include "oracle.h"

static uint64_t integer_at(const struct gm_oracle_job *job, int64_t i)
{
    const uint32_t bytes = gm_dtype_bytes(job->dtype);
    uint64_t v = 0;
    if (i >= 0 && (uint64_t)i < job->n)
        memcpy(&v, (const uint8_t *)job->in + (uint64_t)i * bytes, bytes);
    return v;
}

static double float_at(const struct gm_oracle_job *job, int64_t i)
{
    return i >= 0 && (uint64_t)i < job->n ? (double)gm_oracle_number(job, (uint64_t)i) : 0;
}

void gm_oracle_stencil3(struct gm_oracle_job *job)
{
    const uint32_t bytes = gm_dtype_bytes(job->dtype);
    for (int64_t i = 0; i < (int64_t)job->n; i++) {
        const double l = float_at(job, i - 1), x = float_at(job, i), r = float_at(job, i + 1);
        if (job->dtype == GM_DTYPE_f32) {
            const float sum = (float)((double)(float)(l + x) + r); /* right for sums: 53 > 2 * 24 + 1 */
            ((float *)job->out)[i] = isnan(sum) ? NAN : sum;
        } else if (job->dtype == GM_DTYPE_f64) {
            const double sum = (l + x) + r;
            ((double *)job->out)[i] = isnan(sum) ? (double)NAN : sum;
        } else {
            const uint64_t sum = integer_at(job, i - 1) + integer_at(job, i) + integer_at(job, i + 1);
            memcpy((uint8_t *)job->out + (uint64_t)i * bytes, &sum, bytes);
        }
    }
}
