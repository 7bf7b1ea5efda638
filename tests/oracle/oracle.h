/* SPDX-License-Identifier: Apache-2.0
 *
 * Obvious references for every op: one element after the other, no tiles, nothing shared with device/. A reference
 * reads a job as a client wrote it and says what the answer must be. Any thread; bounded by n.
 */
#ifndef GM_TESTS_ORACLE_H
#define GM_TESTS_ORACLE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "errors.h"
#include "lane.h"
#include "ops.h"

struct gm_oracle_job {
    uint32_t dtype, type2, flags, bins, count2; /* bins: the first count, or compare */
    uint64_t n, value[GM_ARG_VALUES];
    const void *in, *in2;
    void *out, *out2; /* filled by the reference; as many bytes as gm_buffer_bytes says */
    /* How far each element of a floating-point output may be off; NULL: nobody wants to know, and it is exact. Zeroes
     * before the reference. */
    double *slack;
    /* the answer */
    int32_t status;
    uint64_t result;  /* bits as in a completion */
    double tolerance; /* of an f64 result, absolute; infinite when every result is right */
};

#define OP(id, name, shape, types, result, work, tile_bytes, tolerance, help)                                          \
    void gm_oracle_##name(struct gm_oracle_job *job);
#include "ops.def"
#undef OP

/* An element of 16 bits, with the sign of zeros and NaNs. */
static inline double gm_oracle_half(uint32_t dtype, uint16_t bits)
{
    const int fraction = dtype == GM_DTYPE_f16 ? 10 : 7, most = (1 << (15 - fraction)) - 1;
    const int exponent = (bits & 0x7fff) >> fraction, rest = bits & ((1 << fraction) - 1);
    const double sign = bits & 0x8000u ? -1.0 : 1.0;
    if (exponent == most)
        return copysign(rest != 0 ? NAN : INFINITY, sign);
    const int first = (exponent == 0 ? 1 : exponent) - most / 2;
    return sign * ldexp(exponent == 0 ? rest : rest + (1 << fraction), first - fraction);
}

/* Element i as a number: exact for all but the largest 64-bit integers on machines whose long double is a double. */
static inline long double gm_oracle_number(const struct gm_oracle_job *job, uint64_t i)
{
    switch (job->dtype) {
    case GM_DTYPE_u8:
        return ((const uint8_t *)job->in)[i];
    case GM_DTYPE_i32:
        return ((const int32_t *)job->in)[i];
    case GM_DTYPE_u32:
        return ((const uint32_t *)job->in)[i];
    case GM_DTYPE_i64:
        return (long double)((const int64_t *)job->in)[i];
    case GM_DTYPE_u64:
        return (long double)((const uint64_t *)job->in)[i];
    case GM_DTYPE_f16:
    case GM_DTYPE_bf16:
        return gm_oracle_half(job->dtype, ((const uint16_t *)job->in)[i]);
    case GM_DTYPE_f32:
        return ((const float *)job->in)[i];
    default:
        return ((const double *)job->in)[i];
    }
}

/* The same of integers, exact. */
static inline __int128 gm_oracle_integer(const struct gm_oracle_job *job, uint64_t i)
{
    switch (job->dtype) {
    case GM_DTYPE_i32:
        return ((const int32_t *)job->in)[i];
    case GM_DTYPE_u32:
        return ((const uint32_t *)job->in)[i];
    case GM_DTYPE_i64:
        return ((const int64_t *)job->in)[i];
    default:
        return ((const uint64_t *)job->in)[i];
    }
}

/* Index i of the second input, or -1 when it is out of range. */
static inline int64_t gm_oracle_index(const struct gm_oracle_job *job, uint64_t i)
{
    const uint32_t bytes = gm_dtype_bytes(job->type2);
    uint64_t v = 0;
    memcpy(&v, (const uint8_t *)job->in2 + i * bytes, bytes);
    const bool negative = gm_dtype_kind(job->type2) == 'i' && (v >> (bytes * 8u - 1u) & 1u);
    return negative || v >= job->value[0] ? -1 : (int64_t)v;
}

/* Element i of the second input, where that is offsets. */
static inline uint64_t gm_oracle_offset(const struct gm_oracle_job *job, uint64_t i)
{
    switch (job->type2) {
    case GM_DTYPE_i32:
        return (uint64_t)((const int32_t *)job->in2)[i];
    case GM_DTYPE_u32:
        return ((const uint32_t *)job->in2)[i];
    default:
        return ((const uint64_t *)job->in2)[i];
    }
}

/* Whether they do not fall and lie in 0 to n. */
static inline int32_t gm_oracle_offsets(const struct gm_oracle_job *job)
{
    for (uint64_t s = 0; s <= job->value[0]; s++)
        if (gm_oracle_offset(job, s) > job->n || (s != 0 && gm_oracle_offset(job, s) < gm_oracle_offset(job, s - 1u)))
            return GM_EBOUNDS;
    return GM_OK;
}

#endif
