/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for count_if: the comparisons of C, one element after the other.
 */
#include <string.h>

#include "oracle.h"

/* Comparisons of C are exact within one type. */
#define HOLDS(name, type)                                                                                              \
    static bool holds_##name(const struct gm_oracle_job *job, uint64_t i)                                              \
    {                                                                                                                  \
        const type x = ((const type *)job->in)[i];                                                                     \
        type value, high;                                                                                              \
        memcpy(&value, &job->value[0], sizeof value);                                                                  \
        memcpy(&high, &job->value[1], sizeof high);                                                                    \
        switch (job->bins) {                                                                                           \
        case GM_COMPARE_eq:                                                                                            \
            return x == value;                                                                                         \
        case GM_COMPARE_ne:                                                                                            \
            return x != value;                                                                                         \
        case GM_COMPARE_lt:                                                                                            \
            return x < value;                                                                                          \
        case GM_COMPARE_le:                                                                                            \
            return x <= value;                                                                                         \
        case GM_COMPARE_gt:                                                                                            \
            return x > value;                                                                                          \
        case GM_COMPARE_ge:                                                                                            \
            return x >= value;                                                                                         \
        case GM_COMPARE_between:                                                                                       \
            return value <= x && x <= high;                                                                            \
        default:                                                                                                       \
            return !(value <= x && x <= high);                                                                         \
        }                                                                                                              \
    }
HOLDS(u8, uint8_t)
HOLDS(i32, int32_t)
HOLDS(u32, uint32_t)
HOLDS(i64, int64_t)
HOLDS(u64, uint64_t)
HOLDS(f32, float)
HOLDS(f64, double)

/* What has no type in C, as doubles. */
static bool holds_half(const struct gm_oracle_job *job, uint64_t i)
{
    double x = gm_oracle_half(job->dtype, ((const uint16_t *)job->in)[i]);
    struct gm_oracle_job wide = {.dtype = GM_DTYPE_f64, .bins = job->bins, .in = &x};
    for (uint32_t k = 0; k < 2; k++) {
        const double value = gm_oracle_half(job->dtype, (uint16_t)job->value[k]);
        memcpy(&wide.value[k], &value, sizeof value);
    }
    return holds_f64(&wide, 0);
}

void gm_oracle_count_if(struct gm_oracle_job *job)
{
    bool (*holds)(const struct gm_oracle_job *, uint64_t) = gm_dtype_bytes(job->dtype) == 2 ? holds_half
                                                            : job->dtype == GM_DTYPE_u8  ? holds_u8
                                                            : job->dtype == GM_DTYPE_i32 ? holds_i32
                                                            : job->dtype == GM_DTYPE_u32 ? holds_u32
                                                            : job->dtype == GM_DTYPE_i64 ? holds_i64
                                                            : job->dtype == GM_DTYPE_u64 ? holds_u64
                                                            : job->dtype == GM_DTYPE_f32 ? holds_f32
                                                                                         : holds_f64;
    for (uint64_t i = 0; i < job->n; i++)
        job->result += holds(job, i);
}
