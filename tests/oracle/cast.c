/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for cast: integers in 128 bits, floats by what their fields mean, in long double, which holds every element
 * of every type where it has 64 bits of precision. A float is made from a number by rounding to the step that it has
 * there; nothing is rounded on the way.
 */
#include <math.h>
#include <string.h>

#include "oracle.h"

/* Bits of exponent and of fraction of a float type. */
static void fields(uint32_t dtype, int *exponent, int *fraction)
{
    *exponent = dtype == GM_DTYPE_f16 ? 5 : dtype == GM_DTYPE_f64 ? 11 : 8;
    *fraction = dtype == GM_DTYPE_f16 ? 10 : dtype == GM_DTYPE_bf16 ? 7 : dtype == GM_DTYPE_f32 ? 23 : 52;
}

static long double float_of(uint32_t dtype, uint64_t bits)
{
    int exponent, fraction;
    fields(dtype, &exponent, &fraction);
    const int top = (1 << exponent) - 1, bias = top / 2, e = (int)(bits >> fraction) & top;
    const uint64_t rest = bits & ((UINT64_C(1) << fraction) - 1u);
    const long double sign = bits >> (exponent + fraction) & 1u ? -1.0L : 1.0L;
    if (e == top)
        return rest != 0 ? (long double)NAN : sign * INFINITY;
    if (e == 0)
        return sign * ldexpl((long double)rest, 1 - bias - fraction);
    return sign * ldexpl((long double)(rest + (UINT64_C(1) << fraction)), e - bias - fraction);
}

static uint64_t bits_of_float(uint32_t dtype, long double x)
{
    int exponent, fraction, e;
    fields(dtype, &exponent, &fraction);
    const int top = (1 << exponent) - 1, bias = top / 2;
    const uint64_t infinity = (uint64_t)top << fraction;
    const uint64_t sign = signbit(x) ? UINT64_C(1) << (exponent + fraction) : 0;
    if (isnan(x))
        return infinity | UINT64_C(1) << (fraction - 1);
    if (isinf(x))
        return sign | infinity;
    (void)frexpl(fabsl(x), &e); /* 2^(e-1) <= |x| < 2^e */
    const int least = 1 - bias, power = x == 0 || e - 1 < least ? least : e - 1;
    const uint64_t steps = (uint64_t)rintl(ldexpl(fabsl(x), fraction - power)); /* to even where it is in the middle */
    if (steps < UINT64_C(1) << fraction)
        return sign | steps; /* subnormal, or 0 */
    const uint64_t magnitude = ((uint64_t)(power - least) << fraction) + steps; /* a carry goes into the exponent */
    return sign | (magnitude < infinity ? magnitude : infinity);
}

/* An integer from bits, with its sign. */
static __int128 whole(uint32_t dtype, uint64_t bits)
{
    const uint32_t width = gm_dtype_bytes(dtype) * 8u;
    const bool negative = gm_dtype_kind(dtype) == 'i' && (bits >> (width - 1u) & 1u);
    return (__int128)bits - (negative ? (__int128)1 << width : 0);
}

/* A float as an integer type: the fraction dropped, no further than the ends of the range. */
static uint64_t stopped(uint32_t to, long double x)
{
    const uint32_t width = gm_dtype_bytes(to) * 8u;
    const bool is_signed = gm_dtype_kind(to) == 'i';
    const __int128 end = (__int128)1 << (is_signed ? width - 1u : width), least = is_signed ? -end : 0;
    if (isnan(x))
        return 0;
    if (truncl(x) >= (long double)end)
        return (uint64_t)(end - 1);
    return truncl(x) <= (long double)least ? (uint64_t)least : (uint64_t)(__int128)truncl(x);
}

static uint64_t cast_one(uint32_t from, uint32_t to, uint64_t bits)
{
    if (from == to)
        return bits;
    if (gm_dtype_kind(from) == 'f') {
        const long double x = float_of(from, bits);
        return gm_dtype_kind(to) == 'f' ? bits_of_float(to, x) : stopped(to, x);
    }
    return gm_dtype_kind(to) == 'f' ? bits_of_float(to, (long double)whole(from, bits)) : (uint64_t)whole(from, bits);
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
