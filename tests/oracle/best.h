/* SPDX-License-Identifier: Apache-2.0
 *
 * What the references for smallest and largest elements share: which element wins, as what it is told, and what stands
 * for the winner among none. Nothing shared with device/.
 */
#ifndef GM_TESTS_ORACLE_BEST_H
#define GM_TESTS_ORACLE_BEST_H

#include <math.h>
#include <string.h>

#include "oracle.h"

/* Whether element i replaces element k as the smallest, or largest: NaN does, but not NaN, and -0 is less than +0. */
static inline bool oracle_beats(const struct gm_oracle_job *job, uint64_t i, uint64_t k, bool largest)
{
    if (gm_dtype_kind(job->dtype) != 'f')
        return largest ? gm_oracle_integer(job, i) > gm_oracle_integer(job, k)
                       : gm_oracle_integer(job, i) < gm_oracle_integer(job, k);
    const long double a = gm_oracle_number(job, i), b = gm_oracle_number(job, k);
    if (isnan(a) || isnan(b))
        return isnan(a) && !isnan(b);
    if (a == b)
        return largest ? !signbit(a) && signbit(b) : signbit(a) && !signbit(b);
    return largest ? a > b : a < b;
}

/* The first of elements from to end - 1 that no other beats; there is one. */
static inline uint64_t oracle_best(const struct gm_oracle_job *job, uint64_t from, uint64_t end, bool largest)
{
    uint64_t best = from;
    for (uint64_t i = from; i < end; i++)
        if (oracle_beats(job, i, best, largest))
            best = i;
    return best;
}

/* Element i; NaN is the quiet one without payload. */
static inline void oracle_element(const struct gm_oracle_job *job, uint64_t i, void *to)
{
    const uint32_t bytes = gm_dtype_bytes(job->dtype);
    const uint64_t nan = job->dtype == GM_DTYPE_f16    ? 0x7e00u
                         : job->dtype == GM_DTYPE_bf16 ? 0x7fc0u
                         : bytes == 4                  ? 0x7fc00000u
                                                       : 0x7ff8000000000000u;
    const bool is_nan = gm_dtype_kind(job->dtype) == 'f' && isnan(gm_oracle_number(job, i));
    memcpy(to, is_nan ? (const uint8_t *)&nan : (const uint8_t *)job->in + i * bytes, bytes);
}

/* The smallest, or largest, of nothing: the other end of the type. */
static inline void oracle_nothing(const struct gm_oracle_job *job, bool largest, void *to)
{
    const int32_t i32 = largest ? INT32_MIN : INT32_MAX;
    const uint32_t u32 = largest ? 0 : UINT32_MAX;
    const int64_t i64 = largest ? INT64_MIN : INT64_MAX;
    const uint64_t u64 = largest ? 0 : UINT64_MAX;
    const float f32 = largest ? -INFINITY : INFINITY;
    const double f64 = largest ? -(double)INFINITY : (double)INFINITY;
    const void *from = job->dtype == GM_DTYPE_i32   ? (const void *)&i32
                       : job->dtype == GM_DTYPE_u32 ? (const void *)&u32
                       : job->dtype == GM_DTYPE_i64 ? (const void *)&i64
                       : job->dtype == GM_DTYPE_u64 ? (const void *)&u64
                       : job->dtype == GM_DTYPE_f32 ? (const void *)&f32
                                                    : (const void *)&f64;
    memcpy(to, from, gm_dtype_bytes(job->dtype));
}

/* min and max; with index, argmin and argmax. */
static inline void oracle_best_of_all(struct gm_oracle_job *job, bool largest, bool index)
{
    if (job->n == 0) {
        job->status = GM_EEMPTY;
        return;
    }
    const uint64_t best = oracle_best(job, 0, job->n, largest);
    if (index)
        job->result = best;
    else
        oracle_element(job, best, &job->result);
}

/* segmented_min and segmented_max. */
static inline void oracle_best_of_segments(struct gm_oracle_job *job, bool largest)
{
    job->status = gm_oracle_offsets(job);
    for (uint64_t s = 0; s < job->value[0] && job->status == GM_OK; s++) {
        const uint64_t from = gm_oracle_offset(job, s), end = gm_oracle_offset(job, s + 1u);
        void *to = (uint8_t *)job->out + s * gm_dtype_bytes(job->dtype);
        if (from == end)
            oracle_nothing(job, largest, to);
        else
            oracle_element(job, oracle_best(job, from, end, largest), to);
    }
}

#endif
