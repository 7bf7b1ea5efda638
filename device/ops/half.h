/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements of 16 bits as floats, exactly, for C and CUDA: no instruction for them is asked for, and loops vectorise.
 * Pure functions.
 */
#ifndef GM_OPS_HALF_H
#define GM_OPS_HALF_H

#include <stdint.h>

#include "ops.h"

GM_HD float gm_float_of(uint32_t bits)
{
#ifdef __CUDA_ARCH__
    return __uint_as_float(bits);
#else
    union {
        uint32_t u;
        float f;
    } x;
    x.u = bits;
    return x.f;
#endif
}

GM_HD float gm_bf16_float(uint16_t v) { return gm_float_of((uint32_t)v << 16); }

/* Exponent and fraction go where a float has them, and the product makes up for the other bias, denormals included. The
 * largest exponent is that of infinity and NaN; the product left it at 2^16. */
GM_HD float gm_f16_float(uint16_t v)
{
    const uint32_t sign = (uint32_t)(v & 0x8000u) << 16, rest = (uint32_t)(v & 0x7fffu) << 13;
    union {
        uint32_t u;
        float f;
    } x;
    x.f = gm_float_of(rest) * 0x1p112f;
    return gm_float_of(x.u | sign | (rest >= 0x7c00u << 13 ? 0x7f800000u : 0));
}

#endif
