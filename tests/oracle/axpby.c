/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for axpby: integers in as many bits as it takes, of which the low ones stay; floats as the help says.
 */
#include <math.h>
#include <string.h>

#include "oracle.h"

static void one_f32(const struct gm_oracle_job *job, uint64_t i)
{
    float alpha, beta, *out = job->out;
    memcpy(&alpha, &job->value[0], sizeof alpha);
    memcpy(&beta, &job->value[1], sizeof beta);
    const float product = (float)((double)beta * (double)((const float *)job->in2)[i]);
    const float sum = fmaf(alpha, ((const float *)job->in)[i], product);
    out[i] = isnan(sum) ? NAN : sum;
}

static void one_f64(const struct gm_oracle_job *job, uint64_t i)
{
    double alpha, beta, *out = job->out;
    memcpy(&alpha, &job->value[0], sizeof alpha);
    memcpy(&beta, &job->value[1], sizeof beta);
    const double product = beta * ((const double *)job->in2)[i];
    const double sum = fma(alpha, ((const double *)job->in)[i], product);
    out[i] = isnan(sum) ? (double)NAN : sum;
}

void gm_oracle_axpby(struct gm_oracle_job *job)
{
    const uint32_t bytes = gm_dtype_bytes(job->dtype);
    for (uint64_t i = 0; i < job->n; i++) {
        if (job->dtype == GM_DTYPE_f32) {
            one_f32(job, i);
        } else if (job->dtype == GM_DTYPE_f64) {
            one_f64(job, i);
        } else {
            uint64_t x = 0, y = 0;
            memcpy(&x, (const uint8_t *)job->in + i * bytes, bytes);
            memcpy(&y, (const uint8_t *)job->in2 + i * bytes, bytes);
            const unsigned __int128 sum = (unsigned __int128)job->value[0] * x + (unsigned __int128)job->value[1] * y;
            const uint64_t low = (uint64_t)sum;
            memcpy((uint8_t *)job->out + i * bytes, &low, bytes);
        }
    }
}
