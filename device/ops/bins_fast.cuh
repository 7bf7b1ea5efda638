/* SPDX-License-Identifier: Apache-2.0
 *
 * The rule of bins.h in a few instructions of f32 for almost every value: they say the bin, or that the rule itself has
 * to be asked. Every step is rounded down or bounds its error, and rises with the value, so that a bin they are sure of
 * is the rule's. Each thread for itself.
 *
 * Exact: the width is a power of two and every edge a number of f32. Then a value, rounded down to f32, is below the
 * same edges; so is its distance from lo, rounded down, and the product with a power of two is only cut at a whole
 * number. There is nothing to be unsure of but hi, which the last bin has too.
 *
 * Else what lies within `low` of an edge, in widths, is not sure. Of whole numbers between edges that are whole numbers
 * all would be at an edge: they are moved by half, which passes none.
 */
#ifndef GM_OPS_BINS_FAST_CUH
#define GM_OPS_BINS_FAST_CUH

#include "ops/bins.h"

/* 1.5 * 2^23: beside it numbers of f32 are whole, and the low bits say which. */
#define GM_BINS_WHOLE 12582912.0f
#define GM_BINS_WHOLE_BITS 0x4b400000u

struct gm_bins_fast {
    float lo, inverse; /* of a width */
    float low, high;   /* from where to where in a bin a value is sure to be in it */
    uint32_t bins;

    /* GM_BIN_NONE or any other number above bins, if the value is outside. Not true, or equal to bins, which may be hi:
     * ask the rule. */
    __device__ __forceinline__ bool find(float x, uint32_t *bin) const
    {
        const float distance = __fsub_rd(x, lo), whole = __fmaf_rd(distance, inverse, GM_BINS_WHOLE);
        const float part = __fmaf_rn(distance, inverse, -__fsub_rn(whole, GM_BINS_WHOLE));
        *bin = __float_as_uint(whole) - GM_BINS_WHOLE_BITS;
        return part >= low && part <= high; /* not of NaN */
    }
};

__device__ __forceinline__ bool gm_bins_is_whole(double v)
{
    return fabs(v) < 4503599627370496.0 && v == floor(v);
}

/* For a power of two from 2^-64 to 2^64; else 0. */
__device__ __forceinline__ double gm_bins_inverse_power(double v)
{
    const unsigned long long bits = (unsigned long long)__double_as_longlong(v), exponent = bits >> 52;
    const bool power = bits << 12 == 0 && exponent >= 1023u - 64u && exponent <= 1023u + 64u;
    return power ? __longlong_as_double((long long)((2046u - exponent) << 52)) : 0.0;
}

__device__ __forceinline__ struct gm_bins_fast gm_bins_fast_make(const struct gm_bins *b, uint32_t dtype)
{
    const double bins = (double)b->last + 1.0, power = gm_bins_inverse_power(b->width);
    const double first = __dmul_rn(b->lo, power); /* in widths */
    const bool whole = gm_dtype_kind(dtype) != 'f' && gm_bins_is_whole(b->lo) && gm_bins_is_whole(b->width);
    struct gm_bins_fast f;
    f.bins = b->last + 1u;
    if (power != 0.0 && gm_bins_is_whole(first) && fabs(first) + bins <= 16777216.0 &&
        b->lo == __dmul_rn(first, b->width) && b->hi == __dmul_rn(__dadd_rn(first, bins), b->width)) {
        f.lo = __double2float_rn(b->lo);
        f.inverse = __double2float_rn(power);
        f.low = 0.0f;
        f.high = 1.0f; /* what is just below an edge rounds to it */
        return f;
    }
    const double lo = whole ? __dsub_rn(b->lo, 0.5) : b->lo;
    const double most = fmax(fabs(lo), fabs(b->hi)), widths = __dmul_rn(most, b->inverse);
    f.lo = __double2float_rn(lo);
    f.inverse = __double2float_rn(b->inverse);
    /* In widths: subtraction and inverse 3 units of 2^-24 of the distance, the part 1; conversion to f32 2 of the
     * value; lo; edges. Each of them generously. */
    const double unit = 1.0 / 16777216.0, error = fabs(__dsub_rn(lo, (double)f.lo));
    const double unsure = 1.25 * (unit * (5.0 * bins + 1.0 + (dtype == GM_DTYPE_f32 ? 0.0 : 3.0 * widths)) +
                                  error * b->inverse + widths * 1e-15);
    /* Nothing is sure where f32 may leave its range. */
    const bool usable = unsure < 0.25 && most < 1e25 && b->inverse > 1e-25 && b->inverse < 1e25;
    f.low = usable ? __double2float_rn(unsure) : 2.0f;
    f.high = 1.0f - f.low;
    return f;
}

/* Elements, rounded down, or as they are. */
template <uint32_t E>
__device__ __forceinline__ void gm_bins_floats(const uint32_t (&v)[E], uint32_t dtype, float (&x)[E])
{
    if (dtype == GM_DTYPE_f32) {
#pragma unroll
        for (uint32_t e = 0; e < E; e++)
            x[e] = __uint_as_float(v[e]);
    } else if (dtype == GM_DTYPE_i32) {
#pragma unroll
        for (uint32_t e = 0; e < E; e++)
            x[e] = __int2float_rd((int)v[e]);
    } else {
#pragma unroll
        for (uint32_t e = 0; e < E; e++)
            x[e] = __uint2float_rd(v[e]);
    }
}
template <uint32_t E>
__device__ __forceinline__ void gm_bins_floats(const uint64_t (&v)[E], uint32_t dtype, float (&x)[E])
{
    if (dtype == GM_DTYPE_f64) {
#pragma unroll
        for (uint32_t e = 0; e < E; e++)
            x[e] = __double2float_rd(__longlong_as_double((long long)v[e]));
    } else if (dtype == GM_DTYPE_i64) {
#pragma unroll
        for (uint32_t e = 0; e < E; e++)
            x[e] = __ll2float_rd((long long)v[e]);
    } else {
#pragma unroll
        for (uint32_t e = 0; e < E; e++)
            x[e] = __ull2float_rd((unsigned long long)v[e]);
    }
}
template <typename V> __device__ __forceinline__ float gm_bins_float(V v, uint32_t dtype)
{
    const V one[1] = {v};
    float x[1];
    gm_bins_floats(one, dtype, x);
    return x[0];
}

#endif
