/* SPDX-License-Identifier: Apache-2.0
 *
 * What select_if and partition select, for their references: C's comparisons of the numbers, spelled out. Any thread.
 */
#ifndef GM_TESTS_ORACLE_SELECTED_H
#define GM_TESTS_ORACLE_SELECTED_H

#include <string.h>

#include "oracle.h"

#define GM_ORACLE_COMPARE(name, type)                                                                                  \
    static inline bool gm_oracle_compare_##name(const struct gm_oracle_job *job, uint64_t i)                           \
    {                                                                                                                  \
        const type v = ((const type *)job->in)[i];                                                                     \
        type value, high;                                                                                              \
        memcpy(&value, &job->value[0], sizeof value);                                                                  \
        memcpy(&high, &job->value[1], sizeof high);                                                                    \
        switch (job->bins) {                                                                                           \
        case GM_COMPARE_eq:                                                                                            \
            return v == value;                                                                                         \
        case GM_COMPARE_ne:                                                                                            \
            return v != value;                                                                                         \
        case GM_COMPARE_lt:                                                                                            \
            return v < value;                                                                                          \
        case GM_COMPARE_le:                                                                                            \
            return v <= value;                                                                                         \
        case GM_COMPARE_gt:                                                                                            \
            return v > value;                                                                                          \
        case GM_COMPARE_ge:                                                                                            \
            return v >= value;                                                                                         \
        case GM_COMPARE_between:                                                                                       \
            return v >= value && v <= high;                                                                            \
        default:                                                                                                       \
            return !(v >= value && v <= high);                                                                         \
        }                                                                                                              \
    }
GM_ORACLE_COMPARE(u8, uint8_t)
GM_ORACLE_COMPARE(i32, int32_t)
GM_ORACLE_COMPARE(u32, uint32_t)
GM_ORACLE_COMPARE(i64, int64_t)
GM_ORACLE_COMPARE(u64, uint64_t)
GM_ORACLE_COMPARE(f32, float)
GM_ORACLE_COMPARE(f64, double)

static inline bool gm_oracle_selected(const struct gm_oracle_job *job, uint64_t i)
{
    switch (job->dtype) {
    case GM_DTYPE_u8:
        return gm_oracle_compare_u8(job, i);
    case GM_DTYPE_i32:
        return gm_oracle_compare_i32(job, i);
    case GM_DTYPE_u32:
        return gm_oracle_compare_u32(job, i);
    case GM_DTYPE_i64:
        return gm_oracle_compare_i64(job, i);
    case GM_DTYPE_u64:
        return gm_oracle_compare_u64(job, i);
    case GM_DTYPE_f32:
        return gm_oracle_compare_f32(job, i);
    default:
        return gm_oracle_compare_f64(job, i);
    }
}

#endif
