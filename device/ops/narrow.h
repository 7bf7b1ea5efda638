/* SPDX-License-Identifier: Apache-2.0
 *
 * f16 and bf16 by their bits, for both backends: out of f32, rounded to nearest even, and into it, exactly. Whatever is
 * wider goes through an f32 that is rounded to odd: with its 24 bits it then decides the narrow one as the number
 * itself would, so nothing is rounded twice. A NaN becomes the quiet one without payload. Pure functions.
 */
#ifndef GM_OPS_NARROW_H
#define GM_OPS_NARROW_H

#include <stdbool.h>
#include <stdint.h>

#include "half.h"

#define GM_F16_NAN 0x7e00u
#define GM_BF16_NAN 0x7fc0u
#define GM_F32_NAN 0x7fc00000u
#define GM_F32_INF 0x7f800000u

GM_HD float gm_plain_nan(float v) { return v == v ? v : gm_f32_from_bits(GM_F32_NAN); }
GM_HD float gm_f32_of_f16(uint16_t h) { return gm_plain_nan(gm_f16_float(h)); }
GM_HD float gm_f32_of_bf16(uint16_t h) { return gm_plain_nan(gm_bf16_float(h)); }

/* Without the low bits, to nearest even; a carry goes into the exponent, as it should. */
GM_HD uint32_t gm_round_bits(uint32_t bits, uint32_t low)
{
    return (bits + (1u << (low - 1u)) - 1u + (bits >> low & 1u)) >> low;
}

GM_HD uint16_t gm_bf16_of_f32(float v)
{
    const uint32_t bits = gm_bits_from_f32(v);
    return (uint16_t)((bits & ~(1u << 31)) > GM_F32_INF ? GM_BF16_NAN : gm_round_bits(bits, 16));
}

GM_HD uint16_t gm_f16_of_f32(float v)
{
    const uint32_t bits = gm_bits_from_f32(v), rest = bits & ~(1u << 31), sign = bits >> 16 & 0x8000u;
    if (rest > GM_F32_INF)
        return GM_F16_NAN;
    if (rest >= 0x477ff000u) /* 65520, half way from the largest to what would be the next */
        return (uint16_t)(sign | 0x7c00u);
    if (rest >= 0x38800000u) /* 2^-14, the smallest that is normal */
        return (uint16_t)(sign | gm_round_bits(rest - (112u << 23), 13));
    /* 0.5 has its last bit where subnormals have theirs, so that the sum rounds where they do. */
    return (uint16_t)(sign | (gm_bits_from_f32(gm_f32_from_bits(rest) + 0.5f) - 0x3f000000u));
}

/* The one of the two f32 beside it that is odd, unless it is an f32 itself. */
GM_HD float gm_odd_f32_of_f64(double v)
{
    const float f = (float)v;
    const double back = (double)f, magnitude = v < 0 ? -v : v;
    const uint32_t bits = gm_bits_from_f32(f);
    if (back == v || v != v || (bits & 1u))
        return f;
    return gm_f32_from_bits((back < 0 ? -back : back) < magnitude ? bits + 1u : bits - 1u);
}

/* The same for whole numbers: what f64 cannot hold leaves a one in the last place. */
GM_HD float gm_odd_f32_of_u64(uint64_t v)
{
    if (v >> 53 == 0)
        return gm_odd_f32_of_f64((double)v);
    return gm_odd_f32_of_f64((double)(v >> 11 | ((v & 2047u) != 0)) * 2048.0);
}
GM_HD float gm_odd_f32_of_i64(int64_t v)
{
    return v < 0 ? -gm_odd_f32_of_u64((uint64_t)0 - (uint64_t)v) : gm_odd_f32_of_u64((uint64_t)v);
}

#endif
