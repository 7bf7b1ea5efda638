/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for min: the first element that no other beats. A NaN ends the search; -0 is less than +0.
 */
#include <math.h>
#include <string.h>

#include "oracle.h"

static bool beats(const struct gm_oracle_job *job, uint64_t i, uint64_t k)
{
    switch (job->dtype) {
    case GM_DTYPE_i32:
        return ((const int32_t *)job->in)[i] < ((const int32_t *)job->in)[k];
    case GM_DTYPE_u32:
        return ((const uint32_t *)job->in)[i] < ((const uint32_t *)job->in)[k];
    case GM_DTYPE_i64:
        return ((const int64_t *)job->in)[i] < ((const int64_t *)job->in)[k];
    case GM_DTYPE_u64:
        return ((const uint64_t *)job->in)[i] < ((const uint64_t *)job->in)[k];
    default: {
        const long double a = gm_oracle_number(job, i), b = gm_oracle_number(job, k);
        return a < b || (a == b && signbit(a) && !signbit(b));
    }
    }
}

void gm_oracle_min(struct gm_oracle_job *job)
{
    const uint32_t bytes = gm_dtype_bytes(job->dtype);
    uint64_t best = 0;
    if (job->n == 0) {
        job->status = GM_EEMPTY;
        return;
    }
    for (uint64_t i = 0; i < job->n; i++) {
        if (gm_dtype_kind(job->dtype) == 'f' && isnan(gm_oracle_number(job, i))) {
            job->result = job->dtype == GM_DTYPE_f16    ? 0x7e00u
                          : job->dtype == GM_DTYPE_bf16 ? 0x7fc0u
                          : bytes == 4                  ? 0x7fc00000u
                                                        : 0x7ff8000000000000u;
            return;
        }
        if (beats(job, i, best))
            best = i;
    }
    memcpy(&job->result, (const uint8_t *)job->in + best * bytes, bytes);
}
