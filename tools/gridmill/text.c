/* SPDX-License-Identifier: Apache-2.0
 *
 * Splits a text at white space and commas and reads each piece as one number of a given element type: range and
 * spelling are checked, nothing is rounded into an integer. One thread; no allocation.
 */
#include "text.h"

#include "gridmill.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_separator(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == ',' || c == '\f' || c == '\v';
}

/* The next piece from *at on; its size is 0 at the end. */
static const char *next_piece(const char *text, size_t size, size_t *at, size_t *piece_bytes, uint64_t *line)
{
    while (*at < size && is_separator(text[*at])) {
        *line += text[*at] == '\n';
        ++*at;
    }
    const char *const piece = text + *at;
    while (*at < size && !is_separator(text[*at]))
        ++*at;
    *piece_bytes = (size_t)(text + *at - piece);
    return piece;
}

uint32_t text_dtype(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (strchr("0123456789+-", text[i]) == NULL && !is_separator(text[i]))
            return GM_F64;
        else if (text[i] == '\0')
            return GM_F64;
    return GM_I64;
}

uint64_t text_count(const char *text, size_t size)
{
    uint64_t count = 0, line = 1;
    size_t at = 0, bytes;

    while (next_piece(text, size, &at, &bytes, &line), bytes > 0)
        count++;
    return count;
}

static bool parse_unsigned(const char *text, uint32_t dtype, uint64_t *bits)
{
    const size_t width = 8 * gm_element_bytes(dtype);
    char *end;

    /* strtoull takes a sign and wraps. */
    if (text[0] == '-')
        return false;
    *bits = strtoull(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && (width == 64 || *bits >> width == 0);
}

static bool parse_signed(const char *text, uint32_t dtype, uint64_t *bits)
{
    const size_t unused = 64 - 8 * gm_element_bytes(dtype);
    char *end;
    const int64_t value = strtoll(text, &end, 10);

    *bits = (uint64_t)value << unused >> unused;
    return errno == 0 && end != text && *end == '\0' && (int64_t)((uint64_t)value << unused) >> unused == value;
}

/* Floats of 16 bits: so many of them are the fraction, and the others but the sign the exponent. */
static int half_fraction(uint32_t dtype)
{
    return dtype == GM_F16 ? 10 : 7;
}

static double half_value(uint32_t dtype, uint32_t bits)
{
    const int fraction = half_fraction(dtype), bias = (1 << (14 - fraction)) - 1;
    const uint32_t infinity = 0x7fffu >> fraction << fraction, rest = bits & 0x7fffu;
    const int exponent = (int)(rest >> fraction);
    const double units = rest & ((1u << fraction) - 1u), one = 1 << fraction;
    double value = exponent > 0 ? ldexp(units + one, exponent - bias - fraction) : ldexp(units, 1 - bias - fraction);

    if (rest >= infinity)
        value = rest == infinity ? (double)INFINITY : (double)NAN;
    return (bits & 0x8000u) != 0 ? -value : value;
}

/* To the nearest, and of two to the one with an even fraction; false for a number that becomes infinite. */
static bool half_bits(uint32_t dtype, double value, uint64_t *bits)
{
    const int fraction = half_fraction(dtype), bias = (1 << (14 - fraction)) - 1;
    const uint32_t infinity = 0x7fffu >> fraction << fraction;
    uint32_t rest = infinity;
    int exponent;

    if (isnan(value))
        rest = infinity | 1u << (fraction - 1);
    if (isfinite(value)) {
        (void)frexp(value, &exponent);
        const int first = value == 0 || exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
        if (first > bias)
            return false;
        rest = ((uint32_t)(first + bias - 1) << fraction) + (uint32_t)nearbyint(ldexp(fabs(value), fraction - first));
        if (rest >= infinity)
            return false;
    }
    *bits = (signbit(value) ? 0x8000u : 0) | rest;
    return true;
}

/* A number too large for the type is an error; one too small becomes a denormal or zero, as everywhere. */
static bool parse_float(const char *text, uint32_t dtype, uint64_t *bits)
{
    char *end;

    if (dtype == GM_F32) {
        const float value = strtof(text, &end);
        *bits = gm_bits_f32(value);
        return end != text && *end == '\0' && !(errno == ERANGE && isinf(value));
    }
    const double value = strtod(text, &end);
    if (dtype == GM_F16 || dtype == GM_BF16)
        return end != text && *end == '\0' && !(errno == ERANGE && isinf(value)) && half_bits(dtype, value, bits);
    *bits = gm_bits_f64(value);
    return end != text && *end == '\0' && !(errno == ERANGE && isinf(value));
}

bool number_parse(const char *text, uint32_t dtype, uint64_t *bits)
{
    errno = 0;
    /* The C functions skip white space; a number does not begin with it. */
    if (text[0] == '\0' || is_separator(text[0]))
        return false;
    switch (dtype) {
    case GM_U8:
    case GM_U32:
    case GM_U64:
        return parse_unsigned(text, dtype, bits);
    case GM_I8:
    case GM_I32:
    case GM_I64:
        return parse_signed(text, dtype, bits);
    case GM_F16:
    case GM_BF16:
    case GM_F32:
    case GM_F64:
        return parse_float(text, dtype, bits);
    default:
        return false;
    }
}

/* What is wrong with a piece of so many bytes, of which number has those that were kept. */
static void describe(char *number, size_t kept, size_t bytes, uint32_t dtype, struct text_problem *problem)
{
    for (size_t i = 0; i < kept; i++)
        if (number[i] < 0x20 || number[i] == 0x7f)
            number[i] = '?';
    if (kept < bytes)
        snprintf(problem->what, sizeof problem->what, "\"%.16s...\" has %zu characters, a number at most %zu", number,
                 bytes, kept);
    else
        snprintf(problem->what, sizeof problem->what, "\"%.63s\" is not a number of type %s", number,
                 gm_element_name(dtype));
}

bool text_parse(const char *text, size_t size, uint32_t dtype, void *elements, struct text_problem *problem)
{
    const size_t element_bytes = gm_element_bytes(dtype);
    char *out = elements;
    char number[NUMERAL_BYTES_MAX];
    uint64_t bits;
    size_t at = 0, bytes;

    problem->line = 1;
    for (;;) {
        const char *const piece = next_piece(text, size, &at, &bytes, &problem->line);
        if (bytes == 0)
            return true;
        const size_t kept = bytes < sizeof number ? bytes : sizeof number - 1;
        memcpy(number, piece, kept);
        number[kept] = '\0';
        if (kept < bytes || strlen(number) != bytes || !number_parse(number, dtype, &bits)) {
            describe(number, kept, bytes, dtype, problem);
            return false;
        }
        /* Little-endian: the low bytes are the element. */
        memcpy(out, &bits, element_bytes);
        out += element_bytes;
    }
}

/* Where printing begins: fewer digits than these could not be all that normal numbers need, but denormals have less. */
static int print_half(uint32_t dtype, uint32_t bits, char *out)
{
    const double value = half_value(dtype, bits);
    const bool denormal = (bits & 0x7fffu) >> half_fraction(dtype) == 0;
    uint64_t back;

    for (int digits = denormal ? 1 : 2; digits < 5; digits++) {
        const int length = snprintf(out, NUMBER_BYTES_MAX, "%.*g", digits, value);
        if (isnan(value) || (half_bits(dtype, strtod(out, NULL), &back) && back == bits))
            return length;
    }
    return snprintf(out, NUMBER_BYTES_MAX, "%.5g", value);
}

static int print_f32(float value, char *out)
{
    for (int digits = fabsf(value) < FLT_MIN ? 1 : 6; digits < 9; digits++) {
        const int length = snprintf(out, NUMBER_BYTES_MAX, "%.*g", digits, (double)value);
        if (strtof(out, NULL) == value || isnan(value))
            return length;
    }
    return snprintf(out, NUMBER_BYTES_MAX, "%.9g", (double)value);
}

static int print_f64(double value, char *out)
{
    for (int digits = fabs(value) < DBL_MIN ? 1 : 15; digits < 17; digits++) {
        const int length = snprintf(out, NUMBER_BYTES_MAX, "%.*g", digits, value);
        if (strtod(out, NULL) == value || isnan(value))
            return length;
    }
    return snprintf(out, NUMBER_BYTES_MAX, "%.17g", value);
}

size_t number_print(uint32_t dtype, const void *element, char out[NUMBER_BYTES_MAX])
{
    union {
        uint64_t u64;
        int64_t i64;
        uint32_t u32;
        int32_t i32;
        uint16_t u16;
        uint8_t u8;
        int8_t i8;
        float f32;
        double f64;
    } value = {0};

    memcpy(&value, element, gm_element_bytes(dtype));
    switch (dtype) {
    case GM_U8:
        return (size_t)snprintf(out, NUMBER_BYTES_MAX, "%" PRIu8, value.u8);
    case GM_I8:
        return (size_t)snprintf(out, NUMBER_BYTES_MAX, "%" PRId8, value.i8);
    case GM_U32:
        return (size_t)snprintf(out, NUMBER_BYTES_MAX, "%" PRIu32, value.u32);
    case GM_I32:
        return (size_t)snprintf(out, NUMBER_BYTES_MAX, "%" PRId32, value.i32);
    case GM_U64:
        return (size_t)snprintf(out, NUMBER_BYTES_MAX, "%" PRIu64, value.u64);
    case GM_I64:
        return (size_t)snprintf(out, NUMBER_BYTES_MAX, "%" PRId64, value.i64);
    case GM_F16:
    case GM_BF16:
        return (size_t)print_half(dtype, value.u16, out);
    case GM_F32:
        return (size_t)print_f32(value.f32, out);
    case GM_F64:
        return (size_t)print_f64(value.f64, out);
    default:
        return (size_t)snprintf(out, NUMBER_BYTES_MAX, "0x%" PRIx64, value.u64);
    }
}
