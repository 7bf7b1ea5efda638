/* SPDX-License-Identifier: Apache-2.0
 *
 * The comparison of count_if, select_if and partition, for C and CUDA: prepared once, every one is "in an interval of
 * keys, or not". IEEE 754 for floats: -0 equals +0; of NaN ne and outside are true, all others false. Pure functions.
 *
 * Keys are bits as they are for integers; negative floats have all bits but the sign inverted, so that keys rise with
 * the numbers and NaNs lie at both ends. key - low <= span, modulo 2^w, then says whether it is in the interval,
 * whatever the sign.
 */
#ifndef GM_OPS_COMPARE_H
#define GM_OPS_COMPARE_H

#include <stdbool.h>
#include <stdint.h>

#include "ops.h"

struct gm_predicate {
    uint64_t negative;  /* inverted where the element's highest bit is set: floats */
    uint64_t low, span; /* of the interval */
    uint32_t outside;   /* 1: true outside of it */
};

/* v in the order of numbers: the key with its sign moved so that it can be compared as unsigned. */
GM_HD uint64_t gm_predicate_order(uint64_t negative, uint64_t sign, uint64_t v)
{
    return v ^ (negative != 0 && (v & sign) ? negative : 0) ^ sign;
}

/* compare: enum gm_compare; value and high: bits of an element, high of between and outside alone. */
GM_HD struct gm_predicate gm_predicate_make(uint32_t dtype, uint32_t compare, uint64_t value, uint64_t high)
{
    const uint32_t bits = gm_dtype_bytes(dtype) * 8u;
    const uint64_t ones = ~(uint64_t)0 >> (64u - bits), top = (uint64_t)1 << (bits - 1u);
    const uint64_t sign = gm_dtype_kind(dtype) == 'u' ? 0 : top; /* moved, to compare */
    const bool two = compare == GM_COMPARE_between || compare == GM_COMPARE_outside;
    struct gm_predicate p = {0, 0, ones, compare == GM_COMPARE_ne || compare == GM_COMPARE_outside ? 1u : 0u};
    uint64_t least = 0, most = ones; /* of all numbers */
    uint64_t first = value & ones, last = (two ? high : value) & ones;
    bool none = false;
    if (gm_dtype_kind(dtype) == 'f') {
        const uint64_t infinity = dtype == GM_DTYPE_f16    ? 0x7c00u
                                  : dtype == GM_DTYPE_bf16 ? 0x7f80u
                                  : bits == 32u            ? 0x7f800000u
                                                           : (uint64_t)0x7ff0000000000000u;
        p.negative = top - 1u;
        least = gm_predicate_order(p.negative, sign, infinity | top);
        most = gm_predicate_order(p.negative, sign, infinity);
        none = (first & p.negative) > infinity || (last & p.negative) > infinity;
        first = (first & p.negative) == 0 ? top : first; /* both zeros: from -0 to +0 */
        last = (last & p.negative) == 0 ? 0 : last;
    }
    first = gm_predicate_order(p.negative, sign, first);
    last = gm_predicate_order(p.negative, sign, last);
    if (compare == GM_COMPARE_lt) {
        none = none || first == least;
        last = first - 1u, first = least;
    } else if (compare == GM_COMPARE_gt) {
        none = none || last == most;
        first = last + 1u, last = most;
    } else if (compare == GM_COMPARE_le) {
        first = least;
    } else if (compare == GM_COMPARE_ge) {
        last = most;
    }
    if (none || first > last) { /* all, and not in it */
        p.outside ^= 1u;
        return p;
    }
    p.low = first ^ sign;
    p.span = last - first;
    return p;
}

/* Whether an element is in the interval. The same for every element type of the width. */
GM_HD bool gm_predicate_inside_u8(const struct gm_predicate *p, uint8_t v)
{
    return (uint8_t)(v - (uint8_t)p->low) <= (uint8_t)p->span;
}
GM_HD bool gm_predicate_inside_u16(const struct gm_predicate *p, uint16_t v)
{
    const uint16_t key = (uint16_t)(v ^ ((0u - (uint32_t)(v >> 15)) & (uint32_t)p->negative));
    return (uint16_t)(key - (uint16_t)p->low) <= (uint16_t)p->span;
}
GM_HD bool gm_predicate_inside_u32(const struct gm_predicate *p, uint32_t v)
{
    const uint32_t key = v ^ ((0u - (v >> 31)) & (uint32_t)p->negative);
    return key - (uint32_t)p->low <= (uint32_t)p->span;
}
GM_HD bool gm_predicate_inside_u64(const struct gm_predicate *p, uint64_t v)
{
    const uint64_t key = v ^ (((uint64_t)0 - (v >> 63)) & p->negative);
    return key - p->low <= p->span;
}

/* Whether an element is as the comparison says. */
GM_HD bool gm_predicate_u8(const struct gm_predicate *p, uint8_t v)
{
    return gm_predicate_inside_u8(p, v) != (p->outside != 0);
}
GM_HD bool gm_predicate_u16(const struct gm_predicate *p, uint16_t v)
{
    return gm_predicate_inside_u16(p, v) != (p->outside != 0);
}
GM_HD bool gm_predicate_u32(const struct gm_predicate *p, uint32_t v)
{
    return gm_predicate_inside_u32(p, v) != (p->outside != 0);
}
GM_HD bool gm_predicate_u64(const struct gm_predicate *p, uint64_t v)
{
    return gm_predicate_inside_u64(p, v) != (p->outside != 0);
}

#ifdef __cplusplus /* by the element's width, for templates */
GM_HD bool gm_predicate_is(const struct gm_predicate *p, uint8_t v) { return gm_predicate_u8(p, v); }
GM_HD bool gm_predicate_is(const struct gm_predicate *p, uint16_t v) { return gm_predicate_u16(p, v); }
GM_HD bool gm_predicate_is(const struct gm_predicate *p, uint32_t v) { return gm_predicate_u32(p, v); }
GM_HD bool gm_predicate_is(const struct gm_predicate *p, uint64_t v) { return gm_predicate_u64(p, v); }
GM_HD bool gm_predicate_inside(const struct gm_predicate *p, uint8_t v) { return gm_predicate_inside_u8(p, v); }
GM_HD bool gm_predicate_inside(const struct gm_predicate *p, uint16_t v) { return gm_predicate_inside_u16(p, v); }
GM_HD bool gm_predicate_inside(const struct gm_predicate *p, uint32_t v) { return gm_predicate_inside_u32(p, v); }
GM_HD bool gm_predicate_inside(const struct gm_predicate *p, uint64_t v) { return gm_predicate_inside_u64(p, v); }
#endif

#endif
