/* SPDX-License-Identifier: Apache-2.0
 *
 * Order-preserving keys: an element of any number type becomes an unsigned key such that key order is the documented
 * order, by the same few operations for every type, on both backends. Whatever sorts, or looks for the least, compares
 * keys. Pure functions.
 *
 * Floats: the bits of a negative number are inverted and the sign of a positive one is set, which gives -NaN, -inf ..
 * -0, +0 .. +inf, +NaN. Adding a constant modulo 2^w rotates all NaNs to one end without a comparison.
 */
#ifndef GM_OPS_KEYS_H
#define GM_OPS_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "ops.h"

enum gm_key_order {
    GM_KEY_ASCENDING,  /* numbers, then positive NaNs, then negative ones: sort */
    GM_KEY_DESCENDING, /* the exact reverse: sort, and max as the least key, which any NaN wins */
    GM_KEY_NAN_FIRST   /* NaNs, then numbers ascending: min as the least key, which any NaN wins */
};

struct gm_key_rule {
    uint64_t negative; /* inverted where the element is negative */
    uint64_t flip;     /* inverted always */
    uint64_t rotate;   /* added */
    uint64_t reverse;  /* inverted at last */
};

/* NaNs of one sign; 0 for integers. */
GM_HD uint64_t gm_key_nans(uint32_t dtype)
{
    if (gm_dtype_kind(dtype) != 'f')
        return 0;
    return dtype == GM_DTYPE_f16 ? 0x03ffu : dtype == GM_DTYPE_bf16 ? 0x7fu : dtype == GM_DTYPE_f32 ? 0x007fffffu
                                                                                             : 0x000fffffffffffffu;
}

GM_HD struct gm_key_rule gm_key_rule(uint32_t dtype, enum gm_key_order order)
{
    const uint64_t sign = (uint64_t)1 << (gm_dtype_bytes(dtype) * 8u - 1u), nans = gm_key_nans(dtype);
    struct gm_key_rule rule = {0, 0, 0, 0};
    if (gm_dtype_kind(dtype) != 'u')
        rule.flip = sign;
    if (gm_dtype_kind(dtype) == 'f') {
        rule.negative = sign - 1u;
        rule.rotate = order == GM_KEY_NAN_FIRST ? nans : 0u - nans;
    }
    if (order == GM_KEY_DESCENDING)
        rule.reverse = ~(uint64_t)0;
    return rule;
}

GM_HD uint16_t gm_key_encode_u16(const struct gm_key_rule *rule, uint16_t v)
{
    const uint32_t sign = 0u - (uint32_t)(v >> 15);
    return (uint16_t)(((v ^ (sign & (uint32_t)rule->negative) ^ (uint32_t)rule->flip) + (uint32_t)rule->rotate) ^
                      (uint32_t)rule->reverse);
}
GM_HD uint16_t gm_key_decode_u16(const struct gm_key_rule *rule, uint16_t key)
{
    const uint16_t v = (uint16_t)(((key ^ (uint32_t)rule->reverse) - (uint32_t)rule->rotate) ^ (uint32_t)rule->flip);
    return (uint16_t)(v ^ ((0u - (uint32_t)(v >> 15)) & (uint32_t)rule->negative));
}
GM_HD uint32_t gm_key_encode_u32(const struct gm_key_rule *rule, uint32_t v)
{
    const uint32_t sign = 0u - (v >> 31);
    return ((v ^ (sign & (uint32_t)rule->negative) ^ (uint32_t)rule->flip) + (uint32_t)rule->rotate) ^
           (uint32_t)rule->reverse;
}
GM_HD uint32_t gm_key_decode_u32(const struct gm_key_rule *rule, uint32_t key)
{
    const uint32_t v = ((key ^ (uint32_t)rule->reverse) - (uint32_t)rule->rotate) ^ (uint32_t)rule->flip;
    return v ^ ((0u - (v >> 31)) & (uint32_t)rule->negative);
}
GM_HD uint64_t gm_key_encode_u64(const struct gm_key_rule *rule, uint64_t v)
{
    const uint64_t sign = (uint64_t)0 - (v >> 63);
    return ((v ^ (sign & rule->negative) ^ rule->flip) + rule->rotate) ^ rule->reverse;
}
GM_HD uint64_t gm_key_decode_u64(const struct gm_key_rule *rule, uint64_t key)
{
    const uint64_t v = ((key ^ rule->reverse) - rule->rotate) ^ rule->flip;
    return v ^ (((uint64_t)0 - (v >> 63)) & rule->negative);
}

/* The greatest key that a NaN has where NaNs come first; 0 where there is none. */
GM_HD uint64_t gm_key_nan_last(uint32_t dtype)
{
    const uint64_t nans = gm_key_nans(dtype);
    return nans != 0 ? 2u * nans - 1u : 0;
}

/* The value of the least key as the result of min or max: any NaN becomes the quiet one without payload. */
GM_HD uint64_t gm_key_result(const struct gm_key_rule *rule, uint32_t dtype, uint64_t key)
{
    const uint32_t bytes = gm_dtype_bytes(dtype);
    const uint64_t v = bytes == 2u   ? gm_key_decode_u16(rule, (uint16_t)key)
                       : bytes == 4u ? gm_key_decode_u32(rule, (uint32_t)key)
                                     : gm_key_decode_u64(rule, key);
    const uint64_t nans = gm_key_nans(dtype), infinity = rule->negative - nans;
    if (nans != 0 && (v & rule->negative) > infinity)
        return infinity | (nans + 1u) / 2u;
    return v;
}

#endif
