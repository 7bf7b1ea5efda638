/* SPDX-License-Identifier: Apache-2.0
 *
 * Test data: eight patterns for every element type, and the arguments that a seed leaves open. Pure functions.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "case.h"
#include "crew.h"
#include "wire.h"

#define RANDOM_STEP UINT64_C(0x9e3779b97f4a7c15)
#define FILL_ALONE  (UINT64_C(1) << 24) /* elements that one thread fills in no time */

/* splitmix64 */
uint64_t gm_random(uint64_t *state)
{
    uint64_t z = *state += RANDOM_STEP;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static const uint16_t special_f16[] = {0x7e00, 0xfe00, 0x7c01, 0xfc01, 0x7fff, 0xffff, 0x7e12, 0xfd43,
                                       0x0000, 0x8000, 0x0000, 0x8000, 0x7c00, 0xfc00, 0x7bff, 0xfbff,
                                       0x0001, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x8400, 0x3c00, 0xbc00};
static const uint16_t special_bf16[] = {0x7fc0, 0xffc0, 0x7f81, 0xff81, 0x7fff, 0xffff, 0x7fc5, 0xffa3,
                                        0x0000, 0x8000, 0x0000, 0x8000, 0x7f80, 0xff80, 0x7f7f, 0xff7f,
                                        0x0001, 0x8001, 0x007f, 0x807f, 0x0080, 0x8080, 0x3f80, 0xbf80};
static const uint32_t special_f32[] = {
    0x7fc00000, 0xffc00000, 0x7f800001, 0xff800001, 0x7fffffff, 0xffffffff, 0x7fc12345, 0xffc54321, 0x00000000,
    0x80000000, 0x00000000, 0x80000000, 0x7f800000, 0xff800000, 0x7f7fffff, 0xff7fffff, 0x00000001, 0x80000001,
    0x007fffff, 0x807fffff, 0x00800000, 0x80800000, 0x3f800000, 0xbf800000};
static const uint64_t special_f64[] = {
    0x7ff8000000000000, 0xfff8000000000000, 0x7ff0000000000001, 0xfff0000000000001, 0x7fffffffffffffff,
    0xffffffffffffffff, 0x7ff8000000012345, 0xfff8000000054321, 0x0000000000000000, 0x8000000000000000,
    0x0000000000000000, 0x8000000000000000, 0x7ff0000000000000, 0xfff0000000000000, 0x7fefffffffffffff,
    0xffefffffffffffff, 0x0000000000000001, 0x8000000000000001, 0x000fffffffffffff, 0x800fffffffffffff,
    0x0010000000000000, 0x8010000000000000, 0x3ff0000000000000, 0xbff0000000000000};
static const uint64_t special_int[] = {0, 1, UINT64_MAX, UINT64_C(1) << 63, (UINT64_C(1) << 63) - 1, 0x7fffffff,
                                       0x80000000, 0xffffffff, UINT64_C(0x100000000), 0x7f, 0x80, 0xff, 0x0100};

/* NaNs are a third of the tables: without this no case would be about zeros and infinities alone. */
#define SPECIAL_NANS 8u

static uint64_t special(uint32_t dtype, uint64_t r, bool with_nans)
{
    const uint64_t skip = with_nans ? 0 : SPECIAL_NANS;
    if (dtype == GM_DTYPE_f16)
        return special_f16[skip + r % (sizeof special_f16 / sizeof *special_f16 - skip)];
    if (dtype == GM_DTYPE_bf16)
        return special_bf16[skip + r % (sizeof special_bf16 / sizeof *special_bf16 - skip)];
    if (dtype == GM_DTYPE_f32)
        return special_f32[skip + r % (sizeof special_f32 / sizeof *special_f32 - skip)];
    if (dtype == GM_DTYPE_f64)
        return special_f64[skip + r % (sizeof special_f64 / sizeof *special_f64 - skip)];
    return special_int[r % (sizeof special_int / sizeof *special_int)];
}

/* To 16 bits, rounded to the nearest, and of two to the one with more zeros behind. */
static uint64_t half_of(uint32_t dtype, double v)
{
    const int fraction = dtype == GM_DTYPE_f16 ? 10 : 7, bias = (1 << (14 - fraction)) - 1;
    const uint32_t sign = signbit(v) ? 0x8000u : 0, infinity = 0x7fffu >> fraction << fraction;
    int exponent;
    frexp(v, &exponent);
    exponent = v == 0 || exponent < 2 - bias ? 2 - bias : exponent;
    const double units = nearbyint(ldexp(fabs(v), fraction + 1 - exponent));
    const double bits = ldexp(exponent + bias - 2, fraction) + units;
    return sign | (bits < infinity ? (uint32_t)bits : infinity);
}

static uint64_t bits_of(uint32_t dtype, double v)
{
    const float f = (float)v;
    uint64_t bits = 0;
    if (gm_dtype_bytes(dtype) == 2)
        bits = half_of(dtype, v);
    else if (dtype == GM_DTYPE_f32)
        memcpy(&bits, &f, sizeof f);
    else if (dtype == GM_DTYPE_f64)
        memcpy(&bits, &v, sizeof v);
    else
        bits = (uint64_t)(int64_t)v;
    return bits;
}

static uint64_t ordinary(uint32_t dtype, uint64_t r)
{
    if (gm_dtype_kind(dtype) != 'f')
        return r;
    return bits_of(dtype, ldexp((double)(int64_t)r, (int)(r % (dtype == GM_DTYPE_f16 ? 16u : 21u)) - 63));
}

static uint64_t ramp(const uint32_t dtype, uint64_t i, uint64_t n)
{
    if (gm_dtype_kind(dtype) == 'f')
        return bits_of(dtype, ((double)i - (double)n / 2) / 8);
    if (dtype == GM_DTYPE_u8)
        return n > 1 ? i * 255u / (n - 1u) : 0;
    return gm_dtype_kind(dtype) == 'i' ? i - n / 2 : i;
}

struct fill {
    uint8_t *data;
    uint64_t n, seed;
    uint32_t dtype, parts;
    enum gm_pattern pattern;
};

/* One part of a fill. The state of the generator moves by the same step for each element. */
static void fill_part(void *context, uint32_t index)
{
    const struct fill *f = context;
    const uint32_t dtype = f->dtype, bytes = gm_dtype_bytes(dtype);
    const uint64_t n = f->n, begin = n / f->parts * index, end = index + 1u == f->parts ? n : begin + n / f->parts;
    uint64_t state = f->seed;
    const bool with_nans = gm_random(&state) & 1u;
    const uint64_t one = gm_random(&state), two = gm_random(&state);
    state += begin * RANDOM_STEP;
    for (uint64_t i = begin; i < end; i++) {
        const uint64_t r = gm_random(&state);
        uint64_t v = 0;
        switch (f->pattern) {
        case GM_PATTERN_RANDOM:
            v = ordinary(dtype, r);
            break;
        case GM_PATTERN_BITS:
            v = r;
            break;
        case GM_PATTERN_SPECIAL:
            v = special(dtype, r, with_nans);
            break;
        case GM_PATTERN_EQUAL:
            v = ordinary(dtype, one);
            break;
        case GM_PATTERN_SORTED:
            v = ramp(dtype, i, n);
            break;
        case GM_PATTERN_REVERSED:
            v = ramp(dtype, n - 1u - i, n);
            break;
        case GM_PATTERN_CONCENTRATED:
            v = ordinary(dtype, r % 128u == 0 ? r : r & 2u ? one : r & 4u ? two : one ^ two);
            break;
        default:
            v = bits_of(dtype, (double)(r % 300u) - (gm_dtype_kind(dtype) == 'u' ? 0.0 : 40.0));
            break;
        }
        memcpy(f->data + i * bytes, &v, bytes); /* the low bytes: little endian, as everything here */
    }
}

void gm_pattern_fill(void *data, uint64_t n, uint32_t dtype, enum gm_pattern pattern, uint64_t seed)
{
    const uint32_t parts = n < FILL_ALONE ? 1u : gm_crew_processors();
    struct fill fill = {data, n, seed, dtype, parts, pattern};
    gm_crew_parallel(parts, fill_part, &fill);
}

static const struct {
    double lo, hi;
} ranges[] = {
    {0, 256},         {-1000, 1000},      {0, 100},          {-0.5, 255.5},
    {0.1, 0.7},       {-DBL_MAX / 2, DBL_MAX / 2}, {1, 1.0000000000000002}, {0, 15e-324},
    {-2147483648.0, 2147483647.0}, {9.2e18, 1.85e19},   {-1e9, 3e9},        {-0.0, 1e-300},
};
static const uint32_t bins[] = {1, 2, 3, 7, 10, 100, 255, 256, 257, 1000, 4096, 30000, 65536, GM_CASE_BINS_MAX};

static uint64_t one_of_types(uint32_t types, uint64_t r)
{
    uint32_t dtype = (uint32_t)(r % GM_DTYPE_COUNT);
    while (!(types >> dtype & 1u))
        dtype = (dtype + 1u) % GM_DTYPE_COUNT;
    return dtype;
}

/* Bounds of bins into two places that stand side by side. */
static void choose_range(uint64_t *value, uint64_t r)
{
    const uint64_t range = r % (sizeof ranges / sizeof *ranges);
    memcpy(&value[0], &ranges[range].lo, sizeof(double));
    memcpy(&value[1], &ranges[range].hi, sizeof(double));
}

/* The widest tables seldom: they cost more than the data. */
static uint32_t choose_bins(uint64_t r)
{
    return bins[r % (r % 64u == 0 ? sizeof bins / sizeof *bins : sizeof bins / sizeof *bins - 4u)];
}

/* A divisor of n that is not always 1 or n; 1 of nothing. */
static uint64_t choose_width(uint64_t n, uint64_t r)
{
    static const uint64_t widths[] = {1, 2, 3, 7, 31, 32, 33, 100, 1000, 4096};
    const uint64_t width = widths[r % (sizeof widths / sizeof *widths)];
    return n != 0 && n % width == 0 ? width : n != 0 && (r >> 8 & 1u) ? n : 1u;
}

static uint64_t element_mask(uint32_t dtype)
{
    const uint32_t bits = gm_dtype_bytes(dtype) * 8u;
    return bits < 64u ? (UINT64_C(1) << bits) - 1u : UINT64_MAX;
}

/* An operand: often a value that the patterns hold. */
static uint64_t choose_element(const struct gm_case *c, uint64_t r, uint64_t r2)
{
    const double small = (double)(r2 % 300u) - (gm_dtype_kind(c->dtype) == 'u' ? 0.0 : 40.0);
    const uint64_t v = r % 4u == 0   ? special(c->dtype, r2, true)
                       : r % 4u == 1 ? ordinary(c->dtype, r2)
                                     : bits_of(c->dtype, small);
    return v & element_mask(c->dtype);
}

static void choose_arg(struct gm_case *c, uint32_t arg, uint64_t r, uint64_t r2)
{
    static const uint64_t lengths[] = {1, 2, 31, 33, 1000, 4097, 20001, 140001};
    switch (arg) {
    case GM_A_descending:
    case GM_A_exclusive:
        break; /* flags are the caller's */
    case GM_A_bins:
        c->bins = choose_bins(r);
        if (gm_op_row(c->op).shape == GM_SHAPE_EDGES && c->bins > GM_HIST_EDGES_MAX)
            c->bins = GM_HIST_EDGES_MAX;
        break;
    case GM_A_lo:
        choose_range(&c->value[0], r);
        break;
    case GM_A_lo_y:
        choose_range(&c->value[2], r);
        break;
    case GM_A_bins_y:
        c->count2 = 1u + (uint32_t)(r % (r2 % 32u == 0 ? 600u : 40u));
        c->bins = c->bins % 1600u + 1u;
        break;
    case GM_A_channels:
        c->count2 = 1u + (uint32_t)(r % GM_CHANNELS_MAX);
        c->bins = c->bins % (GM_CASE_BINS_MAX / GM_CHANNELS_MAX) + 1u;
        break;
    case GM_A_compare:
        c->bins = (uint32_t)(r % GM_COMPARE_COUNT);
        break;
    case GM_A_high: /* behind compare */
        c->value[1] = c->bins == GM_COMPARE_between || c->bins == GM_COMPARE_outside ? choose_element(c, r, r2) : 0;
        break;
    case GM_A_length:
        c->value[0] = lengths[r % (sizeof lengths / sizeof *lengths)];
        break;
    case GM_A_segments:
        c->value[0] = r % 4u == 0 ? c->n + r2 % 3u : r2 % (c->n / 8u + 3u);
        break;
    case GM_A_width:
        c->value[0] = choose_width(c->n, r);
        break;
    case GM_A_to:
    case GM_A_index:
        c->type2 = (uint32_t)one_of_types(gm_op_row(c->op).types2, r);
        break;
    default: /* an element; hi and hi_y came with lo and lo_y */
        if (gm_arg_type(arg) == GM_ARG_ELEMENT)
            c->value[gm_arg_place(arg)] = choose_element(c, r, r2);
        break;
    }
}

void gm_case_choose(struct gm_case *c)
{
    uint64_t state = c->seed ^ UINT64_C(0x5851f42d4c957f2d);
    const struct gm_op_row row = gm_op_row(c->op);
    c->bins = c->count2 = c->type2 = 0;
    memset(c->value, 0, sizeof c->value);
    for (uint32_t arg = 0; arg < GM_ARGS; arg++) {
        const uint64_t r = gm_random(&state), r2 = gm_random(&state);
        if (row.args >> arg & 1u)
            choose_arg(c, arg, r, r2);
    }
}

struct gm_args gm_case_args(const struct gm_case *c)
{
    return (struct gm_args){.n = c->n, .value = {c->value[0], c->value[1], c->value[2], c->value[3]}, .count = c->bins,
                            .count2 = c->count2, .dtype = (uint8_t)c->dtype, .type2 = (uint8_t)c->type2,
                            .flags = (uint8_t)c->flags};
}

struct gm_oracle_job gm_case_question(const struct gm_case *c, const void *in, const void *in2, void *out, void *out2)
{
    return (struct gm_oracle_job){.dtype = c->dtype, .type2 = c->type2, .flags = c->flags, .bins = c->bins,
                                  .count2 = c->count2, .n = c->n,
                                  .value = {c->value[0], c->value[1], c->value[2], c->value[3]},
                                  .in = in, .in2 = in2, .out = out, .out2 = out2};
}

static void put(uint8_t *data, uint64_t i, uint32_t dtype, uint64_t v)
{
    const uint32_t bytes = gm_dtype_bytes(dtype);
    memcpy(data + i * bytes, &v, bytes);
}

/* Indices below length; or offsets that do not fall, from 0 to n or from somewhere to somewhere. */
static void fill_indices(const struct gm_case *c, uint64_t count, bool offsets, uint8_t *data)
{
    uint64_t state = c->seed ^ UINT64_C(0x3c6ef372fe94f82b);
    const uint64_t length = c->value[0], whole = gm_random(&state) % 4u;
    for (uint64_t i = 0, from = 0; i < count; i++) {
        const uint64_t r = gm_random(&state), left = c->n - from;
        if (offsets) {
            /* Short and empty segments, and one that takes all that is left now and then. */
            from += r % 5u == 0 ? 0 : r % 97u == 0 ? left : (r >> 8) % (2u * c->n / count + 2u) % (left + 1u);
            from = i == 0 && whole != 0 ? 0 : from;
            from = i + 1u == count && whole != 1 ? c->n : from;
            put(data, i, c->type2, from);
        } else {
            put(data, i, c->type2, length != 0 ? r % length : 0);
        }
    }
}

static int compare_f64(const void *a, const void *b)
{
    double x, y;
    memcpy(&x, a, sizeof x), memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/* Edges that rise, among what GM_PATTERN_SMALL holds and beyond. */
static void fill_edges(const struct gm_case *c, uint64_t count, uint8_t *data)
{
    uint64_t state = c->seed ^ UINT64_C(0x9b05688c2b3e6c1f);
    double *edge = malloc(count * sizeof *edge);
    if (edge == NULL)
        abort();
    for (uint64_t i = 0; i < count; i++)
        edge[i] = (double)(gm_random(&state) % (c->dtype == GM_DTYPE_u8 ? 256u : 2u * count + 300u)) -
                  (gm_dtype_kind(c->dtype) == 'u' ? 0.0 : 40.0);
    qsort(edge, count, sizeof *edge, compare_f64);
    for (uint64_t i = 0; i < count; i++)
        put(data, i, c->dtype, bits_of(c->dtype, edge[i]));
    free(edge);
}

void gm_case_fill(const struct gm_case *c, uint32_t i, void *data)
{
    const struct gm_op_row row = gm_op_row(c->op);
    const struct gm_args args = gm_case_args(c);
    const uint64_t count = gm_buffer_count(&row, i, &args);
    switch (gm_buffer_content(row.buffer[i])) {
    case GM_CONTENT_INDEX:
        fill_indices(c, count, false, data);
        break;
    case GM_CONTENT_OFFSETS:
        fill_indices(c, count, true, data);
        break;
    case GM_CONTENT_EDGES:
        fill_edges(c, count, data);
        break;
    case GM_CONTENT_WEIGHTS:
        gm_pattern_fill(data, count, c->dtype, GM_PATTERN_SMALL, c->seed + i);
        break;
    default:
        gm_pattern_fill(data, count, c->dtype, c->pattern, c->seed + i);
        break;
    }
}
