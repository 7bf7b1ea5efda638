/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for segmented_min: each segment's elements, one after the other, from the largest value of the type on.
 * NaN wins; -0 is less than +0.
 */
#include <math.h>

#include "oracle.h"

#define INTEGERS(name, type, start)                                                                                    \
    static void segment_##name(struct gm_oracle_job *job, uint64_t s, uint64_t from, uint64_t to)                      \
    {                                                                                                                  \
        type best = start;                                                                                             \
        for (uint64_t i = from; i < to; i++)                                                                           \
            best = ((const type *)job->in)[i] < best ? ((const type *)job->in)[i] : best;                              \
        ((type *)job->out)[s] = best;                                                                                  \
    }
INTEGERS(i32, int32_t, INT32_MAX)
INTEGERS(u32, uint32_t, UINT32_MAX)
INTEGERS(i64, int64_t, INT64_MAX)
INTEGERS(u64, uint64_t, UINT64_MAX)

static void segment_float(struct gm_oracle_job *job, uint64_t s, uint64_t from, uint64_t to)
{
    double best = INFINITY;
    for (uint64_t i = from; i < to; i++) {
        const double a = (double)gm_oracle_number(job, i), b = best;
        if (isnan(a) || isnan(b))
            best = (double)NAN;
        else if (a < b || (a == b && signbit(a) && !signbit(b)))
            best = a;
    }
    if (job->dtype == GM_DTYPE_f32)
        ((float *)job->out)[s] = isnan(best) ? NAN : (float)best;
    else
        ((double *)job->out)[s] = best;
}

void gm_oracle_segmented_min(struct gm_oracle_job *job)
{
    void (*const of[GM_DTYPE_COUNT])(struct gm_oracle_job *, uint64_t, uint64_t, uint64_t) = {
        [GM_DTYPE_i32] = segment_i32, [GM_DTYPE_u32] = segment_u32,   [GM_DTYPE_i64] = segment_i64,
        [GM_DTYPE_u64] = segment_u64, [GM_DTYPE_f32] = segment_float, [GM_DTYPE_f64] = segment_float};
    job->status = gm_oracle_offsets(job);
    for (uint64_t s = 0; s < job->value[0] && job->status == GM_OK; s++)
        of[job->dtype](job, s, gm_oracle_offset(job, s), gm_oracle_offset(job, s + 1u));
}
