/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for cast: an element as its class (integer, number with a fraction, infinity, NaN) in the widest type, then
 * what the help says of the class.
 */
#include <math.h>
#include <string.h>

#include "oracle.h"

/* An integer from bits, with its sign. */
static __int128 whole(uint32_t dtype, uint64_t bits)
{
    const uint32_t width = gm_dtype_bytes(dtype) * 8u;
    const bool negative = gm_dtype_kind(dtype) == 'i' && (bits >> (width - 1u) & 1u);
    return (__int128)bits - (negative ? (__int128)1 << width : 0);
}

/* A float as an integer type: the fraction dropped, no further than the ends of the range. */
static uint64_t stopped(uint32_t to, double x)
{
    const uint32_t width = gm_dtype_bytes(to) * 8u;
    const bool is_signed = gm_dtype_kind(to) == 'i';
    const double end = ldexp(1, (int)(is_signed ? width - 1u : width)), least = is_signed ? -end : 0;
    const __int128 top = ((__int128)1 << (is_signed ? width - 1u : width)) - 1;
    if (isnan(x))
        return 0;
    if (trunc(x) >= end)
        return (uint64_t)top;
    return trunc(x) <= least ? (uint64_t)(is_signed ? -top - 1 : 0) : (uint64_t)(__int128)trunc(x);
}

static uint64_t bits_f32(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return isnan(v) ? 0x7fc00000u : bits;
}

static uint64_t bits_f64(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return isnan(v) ? UINT64_C(0x7ff8000000000000) : bits;
}

static uint64_t cast_one(uint32_t from, uint32_t to, uint64_t bits)
{
    float narrow;
    double number;
    if (from == to)
        return bits;
    if (gm_dtype_kind(from) != 'f') {
        const __int128 v = whole(from, bits);
        return to == GM_DTYPE_f32 ? bits_f32((float)v) : to == GM_DTYPE_f64 ? bits_f64((double)v) : (uint64_t)v;
    }
    memcpy(&narrow, &bits, sizeof narrow);
    memcpy(&number, &bits, sizeof number);
    number = from == GM_DTYPE_f32 ? (double)narrow : number;
    return to == GM_DTYPE_f32 ? bits_f32((float)number) : to == GM_DTYPE_f64 ? bits_f64(number) : stopped(to, number);
}

void gm_oracle_cast(struct gm_oracle_job *job)
{
    const uint32_t from = gm_dtype_bytes(job->dtype), to = gm_dtype_bytes(job->type2);
    for (uint64_t i = 0; i < job->n; i++) {
        uint64_t bits = 0;
        memcpy(&bits, (const uint8_t *)job->in + i * from, from);
        bits = cast_one(job->dtype, job->type2, bits);
        memcpy((uint8_t *)job->out + i * to, &bits, to);
    }
}
