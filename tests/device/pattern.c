/* SPDX-License-Identifier: Apache-2.0
 *
 * Test data: eight patterns for every element type, and the arguments that a seed leaves open. Pure functions.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "crew.h"
#include "matrix.h"

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
    if (dtype == GM_DTYPE_f32)
        return special_f32[skip + r % (sizeof special_f32 / sizeof *special_f32 - skip)];
    if (dtype == GM_DTYPE_f64)
        return special_f64[skip + r % (sizeof special_f64 / sizeof *special_f64 - skip)];
    return special_int[r % (sizeof special_int / sizeof *special_int)];
}

static uint64_t bits_of(uint32_t dtype, double v)
{
    const float f = (float)v;
    uint64_t bits = 0;
    if (dtype == GM_DTYPE_f32)
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
    return bits_of(dtype, ldexp((double)(int64_t)r, (int)(r % 21u) - 63));
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
static const uint32_t bins[] = {1, 2, 3, 7, 10, 100, 255, 256, 257, 1000, 4096, 30000, GM_HIST_BINS_MAX};

void gm_case_choose(struct gm_case *c)
{
    uint64_t state = c->seed ^ UINT64_C(0x5851f42d4c957f2d);
    const struct gm_op_row row = gm_op_row(c->op);
    c->bins = 0;
    c->value[0] = c->value[1] = 0;
    if (row.shape == GM_SHAPE_FILL) {
        c->value[0] = gm_random(&state);
    } else if (row.shape == GM_SHAPE_HISTOGRAM) {
        const uint64_t range = gm_random(&state) % (sizeof ranges / sizeof *ranges), many = gm_random(&state);
        /* The widest tables seldom: they cost more than the data. */
        c->bins = bins[many % (many % 64u == 0 ? sizeof bins / sizeof *bins : sizeof bins / sizeof *bins - 3u)];
        memcpy(&c->value[0], &ranges[range].lo, sizeof(double));
        memcpy(&c->value[1], &ranges[range].hi, sizeof(double));
    }
}
