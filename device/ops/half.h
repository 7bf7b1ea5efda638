/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements of 16 bits as floats, exactly, NaNs with what they carry, for C and CUDA: no instruction for them is asked
 * for, and loops vectorise. Pure functions.
 */
#ifndef GM_OPS_HALF_H
#define GM_OPS_HALF_H

#include <stdint.h>

#include "ops.h"

GM_HD float gm_f32_from_bits(uint32_t bits)
{
    union {
        uint32_t u;
        float f;
    } x;
    x.u = bits;
    return x.f;
}
GM_HD uint32_t gm_bits_from_f32(float v)
{
    union {
        uint32_t u;
        float f;
    } x;
    x.f = v;
    return x.u;
}

GM_HD float gm_bf16_float(uint16_t v) { return gm_f32_from_bits((uint32_t)v << 16); }

/* Exponent and fraction go where a float has them, and the product makes up for the other bias, denormals included. The
 * largest exponent is that of infinity and NaN; the product left it at 2^16. */
GM_HD float gm_f16_float(uint16_t v)
{
    const uint32_t sign = (uint32_t)(v & 0x8000u) << 16, rest = (uint32_t)(v & 0x7fffu) << 13;
    const uint32_t bits = gm_bits_from_f32(gm_f32_from_bits(rest) * 0x1p112f);
    return gm_f32_from_bits(bits | sign | (rest >= 0x7c00u << 13 ? 0x7f800000u : 0));
}

#endif
