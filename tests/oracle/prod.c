/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for prod: integers in 128 bits until they leave 64, floats in long double with the exponent apart, front to
 * back. The tolerance of floats is (n + 2) * 2^-53 of the result, and a denormal step; where that reaches over the
 * largest f64, anything is right.
 */
#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "oracle.h"

static void prod_floats(struct gm_oracle_job *job)
{
    long double fraction = 1;
    int64_t exponent = 0;
    for (uint64_t i = 0; i < job->n; i++) {
        int up = 0;
        fraction = frexpl(fraction * gm_oracle_number(job, i), &up); /* zeros, infinities and NaNs stay what they are */
        exponent += up;
    }
    const bool ordinary = isfinite(fraction) && fraction != 0;
    const int64_t most = 10000;
    const int up = !ordinary ? 0 : (int)(exponent > most ? most : exponent < -most ? -most : exponent);
    const long double product = ldexpl(fraction, up), slack = (long double)(job->n + 2) * 0x1p-53L;
    const double result = isnan(product) ? NAN : (double)product;
    if (ordinary) {
        const bool reaches = fabsl(product) * (1 + slack) > (long double)DBL_MAX;
        job->tolerance = (double)(fabsl(product) * slack) + 0x1p-1074;
        if (isinf(result) && fabsl(product) * (1 - slack) > (long double)DBL_MAX)
            job->tolerance = 0;
        else if (reaches)
            job->tolerance = INFINITY;
    }
    memcpy(&job->result, &result, sizeof result);
}

void gm_oracle_prod(struct gm_oracle_job *job)
{
    const bool is_signed = gm_dtype_kind(job->dtype) == 'i';
    bool too_large = false, negative = false;
    unsigned __int128 magnitude = 1;
    if (gm_dtype_kind(job->dtype) == 'f') {
        prod_floats(job);
        return;
    }
    for (uint64_t i = 0; i < job->n; i++)
        if (gm_oracle_integer(job, i) == 0) {
            job->result = 0;
            return;
        }
    for (uint64_t i = 0; i < job->n; i++) {
        const __int128 x = gm_oracle_integer(job, i);
        negative ^= x < 0;
        if (!too_large)
            magnitude *= (unsigned __int128)(x < 0 ? -x : x);
        too_large = too_large || magnitude > UINT64_MAX;
    }
    const uint64_t most = !is_signed ? UINT64_MAX : negative ? UINT64_C(1) << 63 : (uint64_t)INT64_MAX;
    if (too_large || magnitude > most)
        job->status = GM_EOVERFLOW;
    job->result = negative ? (uint64_t)0 - (uint64_t)magnitude : (uint64_t)magnitude;
}
