/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for argmax: the first element that no other beats. The first NaN ends the search; -0 is less than +0.
 */
#include <math.h>

#include "oracle.h"

static bool beats(const struct gm_oracle_job *job, uint64_t i, uint64_t k)
{
    switch (job->dtype) {
    case GM_DTYPE_i32:
        return ((const int32_t *)job->in)[i] > ((const int32_t *)job->in)[k];
    case GM_DTYPE_u32:
        return ((const uint32_t *)job->in)[i] > ((const uint32_t *)job->in)[k];
    case GM_DTYPE_i64:
        return ((const int64_t *)job->in)[i] > ((const int64_t *)job->in)[k];
    case GM_DTYPE_u64:
        return ((const uint64_t *)job->in)[i] > ((const uint64_t *)job->in)[k];
    default: {
        const long double a = gm_oracle_number(job, i), b = gm_oracle_number(job, k);
        return a > b || (a == b && !signbit(a) && signbit(b));
    }
    }
}

void gm_oracle_argmax(struct gm_oracle_job *job)
{
    if (job->n == 0) {
        job->status = GM_EEMPTY;
        return;
    }
    for (uint64_t i = 0; i < job->n; i++) {
        if (gm_dtype_kind(job->dtype) == 'f' && isnan(gm_oracle_number(job, i))) {
            job->result = i;
            return;
        }
        if (beats(job, i, job->result))
            job->result = i;
    }
}
