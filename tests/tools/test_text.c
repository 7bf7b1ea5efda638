/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as text: types are inferred, ranges kept, and what is printed reads back as the same bits.
 */
#include "text.h"

#include "gridmill.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t dtype_of(const char *text)
{
    return text_dtype(text, strlen(text));
}

static void type_is_integer_until_something_says_otherwise(void **state)
{
    (void)state;
    assert_int_equal(GM_I64, dtype_of(""));
    assert_int_equal(GM_I64, dtype_of("1 -2\t+3\r\n4,5,,6\n"));
    assert_int_equal(GM_F64, dtype_of("1 2.0"));
    assert_int_equal(GM_F64, dtype_of("1e3"));
    assert_int_equal(GM_F64, dtype_of("nan"));
    assert_int_equal(GM_F64, dtype_of("1 -inf"));
    assert_int_equal(GM_F64, text_dtype("1\0002", 3));
}

static void text_of_any_separators_is_parsed(void **state)
{
    static const char text[] = ",, 1\n\n-2,3\t4 ";
    int64_t numbers[4] = {0};
    struct text_problem problem;

    (void)state;
    assert_int_equal(4, text_count(text, strlen(text)));
    assert_true(text_parse(text, strlen(text), GM_I64, numbers, &problem));
    assert_int_equal(1, numbers[0]);
    assert_int_equal(-2, numbers[1]);
    assert_int_equal(3, numbers[2]);
    assert_int_equal(4, numbers[3]);
    assert_int_equal(0, text_count("", 0));
    assert_true(text_parse("", 0, GM_F32, numbers, &problem));
}

static void wrong_numbers_are_named_with_their_line(void **state)
{
    uint64_t numbers[8];
    struct text_problem problem;
    char text[200];

    (void)state;
    snprintf(text, sizeof text, "1 2\n\n3 4x 5\n");
    assert_false(text_parse(text, strlen(text), GM_I64, numbers, &problem));
    assert_int_equal(3, problem.line);
    assert_string_equal("\"4x\" is not a number of type i64", problem.what);
    assert_false(text_parse("1\0002", 3, GM_F64, numbers, &problem));
    static char digits[NUMERAL_BYTES_MAX];
    memset(digits, '0', sizeof digits);
    assert_true(text_parse(digits, sizeof digits - 1, GM_F64, numbers, &problem));
    assert_false(text_parse(digits, sizeof digits, GM_F64, numbers, &problem));
    assert_string_equal("\"0000000000000000...\" has 1280 characters, a number at most 1279", problem.what);
    digits[3] = 0x1b;
    assert_false(text_parse(digits, sizeof digits, GM_F64, numbers, &problem));
    assert_null(strchr(problem.what, 0x1b));
    assert_false(text_parse("\x1b[31m", 5, GM_F64, numbers, &problem));
    assert_null(strchr(problem.what, 0x1b));
}

static void ranges_are_kept(void **state)
{
    static const struct {
        const char *text;
        uint32_t dtype;
        bool good;
        uint64_t bits;
    } cases[] = {{"255", GM_U8, true, 255},
                 {"256", GM_U8, false, 0},
                 {"-1", GM_U8, false, 0},
                 {"-128", GM_I8, true, 0x80},
                 {"128", GM_I8, false, 0},
                 {"4294967295", GM_U32, true, UINT32_MAX},
                 {"4294967296", GM_U32, false, 0},
                 {"-2147483648", GM_I32, true, 0x80000000u},
                 {"2147483648", GM_I32, false, 0},
                 {"18446744073709551615", GM_U64, true, UINT64_MAX},
                 {"18446744073709551616", GM_U64, false, 0},
                 {"-0", GM_U64, false, 0},
                 {"-9223372036854775808", GM_I64, true, UINT64_C(1) << 63},
                 {"9223372036854775808", GM_I64, false, 0},
                 {"1.5", GM_I64, false, 0},
                 {"1e3", GM_I32, false, 0},
                 {"0x10", GM_I32, false, 0},
                 {"1.5", GM_F32, true, 0x3fc00000u},
                 {"-inf", GM_F32, true, 0xff800000u},
                 {"1e39", GM_F32, false, 0},
                 {"1e-50", GM_F32, true, 0},
                 {"1e309", GM_F64, false, 0},
                 {"inf", GM_F64, true, UINT64_C(0x7ff0000000000000)},
                 {"", GM_F64, false, 0},
                 {" 1", GM_F64, false, 0},
                 {"1", GM_F16, true, 0x3c00},
                 {"-0", GM_F16, true, 0x8000},
                 {"65504", GM_F16, true, 0x7bff},
                 {"65519.99", GM_F16, true, 0x7bff},
                 {"65520", GM_F16, false, 0},
                 {"1e309", GM_F16, false, 0},
                 {"-inf", GM_F16, true, 0xfc00},
                 {"nan", GM_F16, true, 0x7e00},
                 {"1.00048828125", GM_F16, true, 0x3c00}, /* half of a unit: to the even one */
                 {"1.00146484375", GM_F16, true, 0x3c02},
                 {"1.000489", GM_F16, true, 0x3c01},
                 {"6e-8", GM_F16, true, 1},
                 {"2.9e-8", GM_F16, true, 0},
                 {"6.1e-5", GM_F16, true, 0x03ff}, /* the largest that is not normal */
                 {"6.1035e-5", GM_F16, true, 0x0400},
                 {"1x", GM_F16, false, 0},
                 {"1", GM_BF16, true, 0x3f80},
                 {"-3.1415926", GM_BF16, true, 0xc049},
                 {"3.39e38", GM_BF16, true, 0x7f7f},
                 {"3.4e38", GM_BF16, false, 0},
                 {"1e-40", GM_BF16, true, 1},
                 {"1", GM_NO_ELEMENT, false, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t bits = 0;
        if (number_parse(cases[i].text, cases[i].dtype, &bits) != cases[i].good)
            fail_msg("\"%s\" as %s", cases[i].text, gm_element_name(cases[i].dtype));
        if (cases[i].good)
            assert_true(bits == cases[i].bits);
    }
}

static void printed_floats_read_back_as_the_same_bits(void **state)
{
    static const uint64_t special[] = {0,
                                       UINT64_C(1) << 63,
                                       1,
                                       UINT64_C(0x7ff0000000000000),
                                       UINT64_C(0x7fefffffffffffff),
                                       UINT64_C(0x3fb999999999999a),
                                       UINT64_C(0x0010000000000000)};
    uint64_t x = 88172645463325252u, back;
    char out[NUMBER_BYTES_MAX];

    (void)state;
    for (int i = 0; i < 20000; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        const uint64_t bits = i < 7 ? special[i] : x;
        const uint32_t narrow = (uint32_t)(bits >> 32);
        float f;
        double d;
        memcpy(&d, &bits, sizeof d);
        memcpy(&f, &narrow, sizeof f);
        if (!isnan(d)) {
            assert_in_range(number_print(GM_F64, &bits, out), 1, 24);
            assert_true(number_parse(out, GM_F64, &back) && back == bits);
        }
        if (!isnan(f)) {
            number_print(GM_F32, &narrow, out);
            assert_true(number_parse(out, GM_F32, &back) && back == narrow);
        }
    }
}

static void every_printed_half_reads_back_as_the_same_bits(void **state)
{
    static const uint32_t dtypes[] = {GM_F16, GM_BF16}, infinities[] = {0x7c00, 0x7f80};
    uint64_t back;
    char out[NUMBER_BYTES_MAX];

    (void)state;
    for (size_t d = 0; d < 2; d++)
        for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
            const uint16_t half = (uint16_t)bits;
            number_print(dtypes[d], &half, out);
            const bool is_nan = (bits & 0x7fffu) > infinities[d];
            if (is_nan ? strstr(out, "nan") == NULL : !number_parse(out, dtypes[d], &back) || back != bits)
                fail_msg("%s %x is printed as %s", gm_element_name(dtypes[d]), bits, out);
        }
}

static void floats_are_printed_as_short_as_possible(void **state)
{
    const double tenth = 0.1, third = 1.0 / 3, big = 1e300, whole = 42;
    const float f = 0.1f, huge = 3e38f;
    const uint16_t f16_tenth = 0x2e66, f16_most = 0x7bff, bf16_pi = 0x4049;
    char out[NUMBER_BYTES_MAX];

    (void)state;
    number_print(GM_F64, &tenth, out);
    assert_string_equal("0.1", out);
    number_print(GM_F64, &third, out);
    assert_string_equal("0.3333333333333333", out);
    number_print(GM_F64, &big, out);
    assert_string_equal("1e+300", out);
    number_print(GM_F64, &whole, out);
    assert_string_equal("42", out);
    number_print(GM_F32, &f, out);
    assert_string_equal("0.1", out);
    number_print(GM_F32, &huge, out);
    assert_string_equal("3e+38", out);
    number_print(GM_F16, &f16_tenth, out);
    assert_string_equal("0.1", out);
    number_print(GM_F16, &f16_most, out);
    assert_string_equal("6.55e+04", out);
    number_print(GM_BF16, &bf16_pi, out);
    assert_string_equal("3.14", out);
    /* Denormals have fewer digits than normal numbers. */
    const double least = 0x1p-1074, less = 1e-310;
    const float f_least = 0x1p-149f;
    const uint16_t two = 2;
    number_print(GM_F64, &least, out);
    assert_string_equal("5e-324", out);
    number_print(GM_F64, &less, out);
    assert_string_equal("1e-310", out);
    number_print(GM_F32, &f_least, out);
    assert_string_equal("1e-45", out);
    number_print(GM_F16, &two, out);
    assert_string_equal("1e-07", out);
    number_print(GM_BF16, &two, out);
    assert_string_equal("2e-40", out);
}

static void integers_are_printed_whole(void **state)
{
    const int64_t low = INT64_MIN;
    const uint64_t high = UINT64_MAX;
    const int32_t i = -7;
    const uint8_t u = 200;
    const int8_t s = -100;
    char out[NUMBER_BYTES_MAX];

    (void)state;
    number_print(GM_I64, &low, out);
    assert_string_equal("-9223372036854775808", out);
    number_print(GM_U64, &high, out);
    assert_string_equal("18446744073709551615", out);
    number_print(GM_I32, &i, out);
    assert_string_equal("-7", out);
    number_print(GM_U8, &u, out);
    assert_string_equal("200", out);
    number_print(GM_I8, &s, out);
    assert_string_equal("-100", out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(type_is_integer_until_something_says_otherwise),
        cmocka_unit_test(text_of_any_separators_is_parsed),
        cmocka_unit_test(wrong_numbers_are_named_with_their_line),
        cmocka_unit_test(ranges_are_kept),
        cmocka_unit_test(printed_floats_read_back_as_the_same_bits),
        cmocka_unit_test(every_printed_half_reads_back_as_the_same_bits),
        cmocka_unit_test(floats_are_printed_as_short_as_possible),
        cmocka_unit_test(integers_are_printed_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
