/* SPDX-License-Identifier: Apache-2.0
 *
 * What products are, for C and CUDA. Of integers: a sign, a magnitude that stays "too large" once it is, and whether
 * there was a zero, so that the answer does not depend on where a job is cut. Of floats: a fraction in f64 from 1 up to
 * 2 and an exponent apart, so that nothing overflows or vanishes on the way; zeros, infinities and NaNs are noted
 * beside. Pure functions.
 */
#ifndef GM_OPS_PROD_H
#define GM_OPS_PROD_H

#include <stdbool.h>
#include <stdint.h>

#include "errors.h"
#include "ops.h"

/* Notes. */
#define GM_PROD_NEGATIVE 1u
#define GM_PROD_ZERO     2u
#define GM_PROD_LARGE    4u /* integers: above 64 bits; floats: an infinity */
#define GM_PROD_NAN      8u
#define GM_PROD_NOTES    15u
#define GM_PROD_EXPONENT 4u /* floats: where the exponent begins, in two's complement, above the notes */

/* Of integers: the magnitude of what is not zero. Of floats: the bits of the fraction, its exponent above the notes. */
struct gm_prod {
    uint64_t value, notes;
};

#define GM_PROD_ONE_BITS ((uint64_t)0x3ff0000000000000u)

GM_HD uint64_t gm_prod_notes(uint64_t a, uint64_t b)
{
    return ((a ^ b) & GM_PROD_NEGATIVE) | ((a | b) & (GM_PROD_NOTES - GM_PROD_NEGATIVE));
}

/* The answer of a product of integers. */
GM_HD uint64_t gm_prod_integer(struct gm_prod p, bool is_signed, int32_t *status)
{
    const bool negative = (p.notes & GM_PROD_NEGATIVE) != 0;
    const uint64_t most = !is_signed ? ~(uint64_t)0 : ((uint64_t)1 << 63) - (negative ? 0u : 1u);
    if (p.notes & GM_PROD_ZERO)
        return 0;
    if ((p.notes & GM_PROD_LARGE) || p.value > most)
        *status = GM_EOVERFLOW;
    return negative ? (uint64_t)0 - p.value : p.value;
}

GM_HD uint64_t gm_prod_bits(double v)
{
    union {
        double f;
        uint64_t u;
    } x;
    x.f = v;
    return x.u;
}
GM_HD double gm_prod_double(uint64_t bits)
{
    union {
        uint64_t u;
        double f;
    } x;
    x.u = bits;
    return x.f;
}

/* What is not zero, of magnitude below infinity, becomes a fraction from 1 up to 2; its exponent. */
GM_HD int64_t gm_prod_split(double *v)
{
    uint64_t bits = gm_prod_bits(*v);
    int64_t down = 1023;
    if ((bits >> 52 & 2047u) == 0) { /* denormal: exactly 2^54 times as much is not */
        bits = gm_prod_bits(*v * 0x1p54);
        down += 54;
    }
    *v = gm_prod_double((bits & 0x000fffffffffffffu) | GM_PROD_ONE_BITS);
    return (int64_t)(bits >> 52 & 2047u) - down;
}

/* The same of what is no denormal. */
GM_HD int64_t gm_prod_split_normal(double *v)
{
    const uint64_t bits = gm_prod_bits(*v);
    *v = gm_prod_double((bits & 0x000fffffffffffffu) | GM_PROD_ONE_BITS);
    return (int64_t)(bits >> 52 & 2047u) - 1023;
}

/* An element, whose own notes it may need: its fraction; what stands beside goes into *exponent and *notes. */
GM_HD double gm_prod_element(double v, int64_t *exponent, uint32_t *notes)
{
    const uint64_t bits = gm_prod_bits(v), rest = bits & 0x7fffffffffffffffu;
    *notes ^= (uint32_t)(bits >> 63);
    if (rest == 0 || rest >= 0x7ff0000000000000u) {
        *notes |= rest == 0 ? GM_PROD_ZERO : rest == 0x7ff0000000000000u ? GM_PROD_LARGE : GM_PROD_NAN;
        return 1.0;
    }
    *exponent += gm_prod_split(&v);
    return v;
}

GM_HD struct gm_prod gm_prod_float(double fraction, int64_t exponent, uint32_t notes)
{
    struct gm_prod p;
    exponent += gm_prod_split(&fraction);
    p.value = gm_prod_bits(fraction);
    p.notes = (uint64_t)exponent << GM_PROD_EXPONENT | notes;
    return p;
}

/* Two products of floats, or more of them, become one. */
GM_HD struct gm_prod gm_prod_join(struct gm_prod a, struct gm_prod b)
{
    const uint64_t exponents = (a.notes & ~(uint64_t)GM_PROD_NOTES) + (b.notes & ~(uint64_t)GM_PROD_NOTES);
    double fraction = gm_prod_double(a.value) * gm_prod_double(b.value); /* below 4 */
    struct gm_prod p;
    p.notes = exponents + ((uint64_t)gm_prod_split(&fraction) << GM_PROD_EXPONENT);
    p.value = gm_prod_bits(fraction);
    p.notes |= gm_prod_notes(a.notes, b.notes);
    return p;
}

/* The answer of a product of floats, rounded once more where it is a denormal. */
GM_HD uint64_t gm_prod_answer(struct gm_prod p)
{
    const uint64_t sign = (p.notes & GM_PROD_NEGATIVE) << 63, infinity = 0x7ff0000000000000u;
    const int64_t exponent = (int64_t)(p.notes & ~(uint64_t)GM_PROD_NOTES) / (int64_t)(GM_PROD_NOTES + 1u);
    const bool zero = (p.notes & GM_PROD_ZERO) != 0, large = (p.notes & GM_PROD_LARGE) != 0;
    const uint64_t fraction = p.value & 0x000fffffffffffffu;
    if ((p.notes & GM_PROD_NAN) || (zero && large))
        return 0x7ff8000000000000u;
    if (large || (!zero && exponent > 1023))
        return sign | infinity;
    if (zero || exponent < -1075)
        return sign;
    if (exponent >= -1022)
        return sign | (uint64_t)(exponent + 1023) << 52 | fraction;
    /* 2^(exponent + 1022), from 2^-53 up, times what has the least exponent of a normal number. */
    return sign | gm_prod_bits(gm_prod_double((uint64_t)1 << 52 | fraction) *
                               gm_prod_double((uint64_t)(exponent + 1022 + 1023) << 52));
}

#endif
