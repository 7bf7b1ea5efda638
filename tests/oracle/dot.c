/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for dot: integers in 128 bits, floats in long double, front to back. The tolerance of floats is
 * (n + 1) * 2^-53 * sum|xy|, for f64 with n * 2^-1074 for products that are too small; where the finite |xy| alone
 * leave f64 the order decides, so anything is right.
 */
#include <math.h>
#include <string.h>

#include "oracle.h"

static void dot_floats(struct gm_oracle_job *job, const struct gm_oracle_job *other)
{
    const bool wide = job->dtype == GM_DTYPE_f64;
    long double sum = 0, magnitude = 0;
    for (uint64_t i = 0; i < job->n; i++) {
        const long double product = gm_oracle_number(job, i) * gm_oracle_number(other, i);
        sum += product;
        magnitude += isfinite(product) ? fabsl(product) : 0;
    }
    const double result = isnan(sum) ? NAN : (double)sum;
    if (magnitude > 0x1.fp1023L)
        job->tolerance = INFINITY;
    else if (isfinite(sum))
        job->tolerance = (double)((long double)(job->n + 1) * 0x1p-53L * magnitude) +
                         (wide ? (double)job->n * 0x1p-1074 : 0);
    memcpy(&job->result, &result, sizeof result);
}

void gm_oracle_dot(struct gm_oracle_job *job)
{
    struct gm_oracle_job other = *job;
    __int128 sum = 0;
    other.in = job->in2;
    if (gm_dtype_kind(job->dtype) == 'f') {
        dot_floats(job, &other);
        return;
    }
    for (uint64_t i = 0; i < job->n; i++) {
        if (job->dtype == GM_DTYPE_i32)
            sum += (__int128)((const int32_t *)job->in)[i] * ((const int32_t *)job->in2)[i];
        else
            sum += (__int128)((const uint32_t *)job->in)[i] * ((const uint32_t *)job->in2)[i];
    }
    if (job->dtype == GM_DTYPE_i32 ? sum < INT64_MIN || sum > INT64_MAX : sum > (__int128)UINT64_MAX)
        job->status = GM_EOVERFLOW;
    job->result = (uint64_t)sum;
}
