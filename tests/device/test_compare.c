/* SPDX-License-Identifier: Apache-2.0
 *
 * The prepared comparison of count_if, select_if and partition against the comparisons of C, for all pairs of the
 * values where types end, and of all elements of the narrow ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ops/compare.h"
#include "wire.h"

/* Any element as a number whose comparisons are C's: exact in long double, or split below. */
struct number {
    double f;
    int64_t i;
    uint64_t u;
    char kind;
};

static double f16_number(uint32_t v)
{
    const uint32_t exponent = v >> 10 & 31u, fraction = v & 1023u;
    const double sign = v >> 15 ? -1.0 : 1.0;
    if (exponent == 31u)
        return fraction ? __builtin_nan("") : sign * __builtin_inf();
    const double m = exponent ? 1024.0 + fraction : fraction;
    return sign * m * __builtin_ldexp(1.0, (int)(exponent ? exponent : 1u) - 25);
}

static struct number number_of(uint32_t dtype, uint64_t v)
{
    struct number x = {0, 0, v, gm_dtype_kind(dtype)};
    const uint32_t unused = 64u - gm_dtype_bytes(dtype) * 8u,
                   low = dtype == GM_DTYPE_bf16 ? (uint32_t)v << 16 : (uint32_t)v;
    float narrow;
    x.i = (int64_t)(v << unused) >> unused;
    memcpy(&narrow, &low, sizeof narrow);
    if (dtype == GM_DTYPE_f64)
        memcpy(&x.f, &v, sizeof x.f);
    else
        x.f = dtype == GM_DTYPE_f16 ? f16_number((uint32_t)v) : (double)narrow;
    return x;
}

static bool less(struct number a, struct number b)
{
    return a.kind == 'u' ? a.u < b.u : a.kind == 'i' ? a.i < b.i : a.f < b.f;
}
static bool equal(struct number a, struct number b)
{
    return a.kind == 'u' ? a.u == b.u : a.kind == 'i' ? a.i == b.i : a.f == b.f;
}

static bool should_be(uint32_t compare, struct number x, struct number value, struct number high)
{
    const bool between = (less(value, x) || equal(value, x)) && (less(x, high) || equal(x, high));
    switch (compare) {
    case GM_COMPARE_eq:
        return equal(x, value);
    case GM_COMPARE_ne:
        return !equal(x, value);
    case GM_COMPARE_lt:
        return less(x, value);
    case GM_COMPARE_le:
        return less(x, value) || equal(x, value);
    case GM_COMPARE_gt:
        return less(value, x);
    case GM_COMPARE_ge:
        return less(value, x) || equal(x, value);
    case GM_COMPARE_between:
        return between;
    default:
        return !between;
    }
}

static bool is(const struct gm_predicate *p, uint32_t dtype, uint64_t x)
{
    switch (gm_dtype_bytes(dtype)) {
    case 1:
        return gm_predicate_u8(p, (uint8_t)x);
    case 2:
        return gm_predicate_u16(p, (uint16_t)x);
    case 4:
        return gm_predicate_u32(p, (uint32_t)x);
    default:
        return gm_predicate_u64(p, x);
    }
}

#define VALUES 96u

/* Both ends of every type, both zeros, infinities, NaNs, and what lies beside them. */
static uint32_t values_of(uint32_t dtype, uint64_t *values)
{
    static const uint64_t f16[] = {0x7c00, 0x7e00, 0x3c00, 0x0400}, bf16[] = {0x7f80, 0x7fc0, 0x3f80, 0x0080},
                          f32[] = {0x7f800000, 0x7fc00000, 0x3f800000, 0x00800000},
                          f64[] = {UINT64_C(0x7ff0000000000000), UINT64_C(0x7ff8000000000000),
                                   UINT64_C(0x3ff0000000000000), UINT64_C(0x0010000000000000)};
    const uint64_t *own = dtype == GM_DTYPE_f16    ? f16
                          : dtype == GM_DTYPE_bf16 ? bf16
                          : dtype == GM_DTYPE_f32  ? f32
                                                   : f64;
    const uint32_t bits = gm_dtype_bytes(dtype) * 8u;
    const uint64_t top = UINT64_C(1) << (bits - 1u), ones = UINT64_MAX >> (64u - bits);
    uint32_t count = 0;
    for (int64_t step = -1; step <= 1; step++) {
        values[count++] = (uint64_t)step & ones;
        values[count++] = (top + (uint64_t)step) & ones;
        values[count++] = (100u + (uint64_t)step) & ones;
        for (uint32_t k = 0; k < 4 && gm_dtype_kind(dtype) == 'f'; k++) {
            values[count++] = own[k] + (uint64_t)step;
            values[count++] = (own[k] | top) + (uint64_t)step;
        }
    }
    assert_true(count <= VALUES);
    return count;
}

static void every_comparison_is_the_one_of_the_language(void **state)
{
    (void)state;
    for (uint32_t dtype = 0; dtype < GM_DTYPE_COUNT; dtype++) {
        uint64_t v[VALUES];
        const uint32_t count = values_of(dtype, v);
        for (uint32_t compare = 0; compare < GM_COMPARE_COUNT; compare++) {
            const uint32_t highs = compare >= GM_COMPARE_between ? count : 1u;
            for (uint32_t a = 0; a < count; a++)
                for (uint32_t b = 0; b < highs; b++) {
                    const uint64_t high = compare >= GM_COMPARE_between ? v[b] : 0;
                    const struct gm_predicate p = gm_predicate_make(dtype, compare, v[a], high);
                    for (uint32_t x = 0; x < count; x++)
                        if (is(&p, dtype, v[x]) !=
                            should_be(compare, number_of(dtype, v[x]), number_of(dtype, v[a]), number_of(dtype, high)))
                            fail_msg("%s %s: %llx with %llx, %llx", gm_dtype_name(dtype), gm_compare_name(compare),
                                     (unsigned long long)v[x], (unsigned long long)v[a], (unsigned long long)high);
                }
        }
    }
}

static void every_element_of_16_bits_is_judged_right(void **state)
{
    (void)state;
    static const uint32_t dtypes[] = {GM_DTYPE_u8, GM_DTYPE_i8, GM_DTYPE_f16, GM_DTYPE_bf16};
    for (uint32_t k = 0; k < 4; k++) {
        uint64_t v[VALUES];
        const uint32_t count = values_of(dtypes[k], v);
        for (uint32_t compare = 0; compare < GM_COMPARE_COUNT; compare++)
            for (uint32_t a = 0; a < count; a++) {
                const uint64_t high = compare >= GM_COMPARE_between ? v[(a * 7u + 3u) % count] : 0;
                const struct gm_predicate p = gm_predicate_make(dtypes[k], compare, v[a], high);
                const struct number value = number_of(dtypes[k], v[a]), last = number_of(dtypes[k], high);
                for (uint64_t x = 0; x >> (gm_dtype_bytes(dtypes[k]) * 8u) == 0; x++)
                    assert_int_equal(is(&p, dtypes[k], x), should_be(compare, number_of(dtypes[k], x), value, last));
            }
    }
}

/* What lies above the element in a word of 64 bits means nothing. */
static void bits_beyond_the_element_do_not_count(void **state)
{
    (void)state;
    const struct gm_predicate p =
        gm_predicate_make(GM_DTYPE_u8, GM_COMPARE_between, UINT64_C(0xabcd00) | 5u, UINT64_C(0x1200) | 9u);
    for (uint32_t x = 0; x < 256u; x++)
        assert_int_equal(gm_predicate_u8(&p, (uint8_t)x), x >= 5u && x <= 9u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_comparison_is_the_one_of_the_language),
        cmocka_unit_test(every_element_of_16_bits_is_judged_right),
        cmocka_unit_test(bits_beyond_the_element_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
