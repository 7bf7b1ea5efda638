/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for sum: integers in 128 bits, floats in long double, front to back. The tolerance of floats is
 * n * 2^-53 * sum|x|, and where the finite |x| alone leave f64 the order decides, so anything is right.
 */
#include <math.h>
#include <string.h>

#include "oracle.h"

static void sum_floats(struct gm_oracle_job *job)
{
    long double sum = 0, magnitude = 0;
    for (uint64_t i = 0; i < job->n; i++) {
        const long double x = gm_oracle_number(job, i);
        sum += x;
        magnitude += isfinite(x) ? fabsl(x) : 0;
    }
    const double result = isnan(sum) ? NAN : (double)sum;
    if (magnitude > 0x1.fp1023L)
        job->tolerance = INFINITY;
    else if (isfinite(sum))
        job->tolerance = (double)((long double)job->n * 0x1p-53L * magnitude);
    memcpy(&job->result, &result, sizeof result);
}

void gm_oracle_sum(struct gm_oracle_job *job)
{
    __int128 sum = 0;
    if (gm_dtype_kind(job->dtype) == 'f') {
        sum_floats(job);
        return;
    }
    for (uint64_t i = 0; i < job->n; i++) {
        switch (job->dtype) {
        case GM_DTYPE_i32:
            sum += ((const int32_t *)job->in)[i];
            break;
        case GM_DTYPE_u32:
            sum += ((const uint32_t *)job->in)[i];
            break;
        case GM_DTYPE_i64:
            sum += ((const int64_t *)job->in)[i];
            break;
        default:
            sum += ((const uint64_t *)job->in)[i];
            break;
        }
    }
    const bool is_signed = job->dtype == GM_DTYPE_i32 || job->dtype == GM_DTYPE_i64;
    if (is_signed ? sum < INT64_MIN || sum > INT64_MAX : sum > (__int128)UINT64_MAX)
        job->status = GM_EOVERFLOW;
    job->result = (uint64_t)sum;
}
