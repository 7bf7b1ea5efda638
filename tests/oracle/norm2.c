/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for norm2: the squares in long double, front to back. The tolerance is (n + 3) * 2^-53 of the result, for
 * f64 with what n squares below 2^-1074 add to. Squares that leave f64 make it infinity; near there the order decides.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "oracle.h"

void gm_oracle_norm2(struct gm_oracle_job *job)
{
    const long double most = (long double)DBL_MAX, slack = (long double)(job->n + 3) * 0x1p-53L;
    long double sum = 0;
    for (uint64_t i = 0; i < job->n; i++)
        sum += gm_oracle_number(job, i) * gm_oracle_number(job, i);
    double result = isnan(sum) ? NAN : (double)sqrtl(sum);
    if (isfinite(sum)) {
        job->tolerance = (double)(sqrtl(sum) * slack);
        if (job->dtype == GM_DTYPE_f64)
            job->tolerance += (double)sqrtl((long double)job->n * 0x1p-1074L);
        if (sum > most * (1 + slack))
            result = INFINITY, job->tolerance = 0;
        else if (sum > most * (1 - slack))
            job->tolerance = INFINITY;
    }
    memcpy(&job->result, &result, sizeof result);
}
