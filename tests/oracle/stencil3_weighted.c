/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for stencil3_weighted: the input with a zero before and behind it, element by element; values are left,
 * center, right.
 */
#include <math.h>
#include <string.h>

#include "oracle.h"

static void get(const struct gm_oracle_job *job, int64_t i, void *to)
{
    const uint32_t bytes = gm_dtype_bytes(job->dtype);
    memset(to, 0, bytes);
    if (i >= 0 && (uint64_t)i < job->n)
        memcpy(to, (const uint8_t *)job->in + (uint64_t)i * bytes, bytes);
}

static void one_f32(const struct gm_oracle_job *job, int64_t i)
{
    float w[3], x[3], *out = job->out;
    for (int k = 0; k < 3; k++) {
        memcpy(&w[k], &job->value[k], sizeof w[k]);
        get(job, i + k - 1, &x[k]);
    }
    float sum = w[1] * x[1];
    sum = fmaf(w[0], x[0], sum);
    sum = fmaf(w[2], x[2], sum);
    out[i] = isnan(sum) ? NAN : sum;
}

static void one_f64(const struct gm_oracle_job *job, int64_t i)
{
    double w[3], x[3], *out = job->out;
    for (int k = 0; k < 3; k++) {
        memcpy(&w[k], &job->value[k], sizeof w[k]);
        get(job, i + k - 1, &x[k]);
    }
    double sum = w[1] * x[1];
    sum = fma(w[0], x[0], sum);
    sum = fma(w[2], x[2], sum);
    out[i] = isnan(sum) ? (double)NAN : sum;
}

void gm_oracle_stencil3_weighted(struct gm_oracle_job *job)
{
    const uint32_t bytes = gm_dtype_bytes(job->dtype);
    for (int64_t i = 0; i < (int64_t)job->n; i++) {
        if (job->dtype == GM_DTYPE_f32) {
            one_f32(job, i);
        } else if (job->dtype == GM_DTYPE_f64) {
            one_f64(job, i);
        } else {
            uint64_t sum = 0;
            for (int k = 0; k < 3; k++) {
                uint64_t x = 0;
                get(job, i + k - 1, &x);
                sum += job->value[k] * x;
            }
            memcpy((uint8_t *)job->out + (uint64_t)i * bytes, &sum, bytes);
        }
    }
}
