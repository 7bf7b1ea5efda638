/* SPDX-License-Identifier: Apache-2.0
 *
 * The one rule that puts a value into a bin, the same bits on CPU and GPU: edges are computed in f64 with one rounding
 * a step and never contracted. A product guesses the bin, the edges themselves decide; a wrong guess costs at most
 * 17 steps, whatever the client asked for.
 */
#ifndef GM_OPS_BINS_H
#define GM_OPS_BINS_H

#include <stdbool.h>
#include <stdint.h>

#include "ops.h"

#ifdef __CUDA_ARCH__
#define GM_F64_ADD(a, b) __dadd_rn(a, b)
#define GM_F64_SUB(a, b) __dsub_rn(a, b)
#define GM_F64_MUL(a, b) __dmul_rn(a, b)
#define GM_F64_DIV(a, b) __ddiv_rn(a, b)
#define GM_F64_LOW(a)    (uint32_t)__double2loint(a)
#else /* built with -ffp-contract=off */
#define GM_F64_ADD(a, b) ((a) + (b))
#define GM_F64_SUB(a, b) ((a) - (b))
#define GM_F64_MUL(a, b) ((a) * (b))
#define GM_F64_DIV(a, b) ((a) / (b))
#define GM_F64_LOW(a)    gm_f64_low(a)
GM_HD uint32_t gm_f64_low(double a)
{
    union {
        double f;
        uint64_t u;
    } bits;
    bits.f = a;
    return (uint32_t)bits.u;
}
#endif

/* A search is a loop, not its iterations one behind the other: registers are few. */
#ifdef __CUDA_ARCH__
#define GM_BINS_LOOP _Pragma("unroll 1")
#else
#define GM_BINS_LOOP
#endif

#define GM_BIN_NONE 0xffffffffu /* outside lo .. hi, or NaN */

struct gm_bins {
    double lo, hi, width, inverse;
    uint32_t last;
};

/* lo < hi and hi - lo finite, bins > 0: gm_check has seen to it. */
GM_HD struct gm_bins gm_bins_make(double lo, double hi, uint32_t bins)
{
    struct gm_bins b;
    b.lo = lo;
    b.hi = hi;
    b.width = GM_F64_DIV(GM_F64_SUB(hi, lo), (double)bins);
    b.inverse = GM_F64_DIV((double)bins, GM_F64_SUB(hi, lo));
    b.last = bins - 1u;
    return b;
}

/* i is a whole number. */
GM_HD double gm_bins_edge(const struct gm_bins *b, double i) { return GM_F64_ADD(b->lo, GM_F64_MUL(i, b->width)); }

/* The last bin whose edge is not above x. Edges never decrease, and edge 0 is lo. */
GM_HD uint32_t gm_bins_search(const struct gm_bins *b, double x)
{
    uint32_t low = 0, high = b->last;
    GM_BINS_LOOP
    while (low < high) {
        const uint32_t middle = low + (high - low + 1u) / 2u;
        if (gm_bins_edge(b, (double)middle) <= x)
            low = middle;
        else
            high = middle - 1u;
    }
    return low;
}

GM_HD uint32_t gm_bin_index(const struct gm_bins *b, double x)
{
    const double magic = 4503599627370496.0; /* 2^52: adding it rounds to a whole number, found in the low bits */
    if (!(x >= b->lo && x <= b->hi))
        return GM_BIN_NONE;
    /* The product is not a number where a tiny range has no finite inverse: then bin 0 is the guess. */
    double guess = GM_F64_SUB(GM_F64_MUL(GM_F64_SUB(x, b->lo), b->inverse), 0.5);
    guess = guess > 0.0 ? guess : 0.0;
    guess = guess < (double)b->last ? guess : (double)b->last;
    const double whole = GM_F64_ADD(guess, magic), bin = GM_F64_SUB(whole, magic);
    const bool last = bin >= (double)b->last;
    if (gm_bins_edge(b, bin) <= x && (last || x < gm_bins_edge(b, GM_F64_ADD(bin, 1.0))))
        return GM_F64_LOW(whole);
    return gm_bins_search(b, x);
}

#endif
