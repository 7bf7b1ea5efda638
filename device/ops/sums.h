/* SPDX-License-Identifier: Apache-2.0
 *
 * What sums of elements, products of two and squares share on the CPU. Integers are exact in 128 bits and must fit 64
 * in the end; floats are added in f64 in a fixed number of chains a tile, and tiles in order, so the order depends on n
 * alone.
 */
#ifndef GM_OPS_SUMS_H
#define GM_OPS_SUMS_H

#include <string.h>

#include "half.h"
#include "run.h"
#include "core/plan.h"

#define SUM_CHAINS 8u

/* What a tile leaves: an f64, or a 128-bit integer in two's complement. */
struct sum_partial {
    uint64_t low, high;
};
static_assert(sizeof(struct sum_partial) == GM_PARTIAL_BYTES, "plan.h reserves this much a tile");

typedef unsigned __int128 sum_wide;

static inline struct sum_partial sum_split(sum_wide v)
{
    return (struct sum_partial){(uint64_t)v, (uint64_t)(v >> 64)};
}

static inline struct sum_partial sum_of_chains(const double *s)
{
    const double sum = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
    struct sum_partial p = {0, 0};
    memcpy(&p.low, &sum, sizeof sum);
    return p;
}

/* Sum of a term of a tile's elements: an f64 expression of i, and of a and b, elements of the inputs. */
#define SUM_FLOATS(name, type, term)                                                                                   \
    static struct sum_partial name(const void *in, const void *in2, uint64_t count)                                    \
    {                                                                                                                  \
        const type *a = in, *b = in2;                                                                                  \
        double s[SUM_CHAINS] = {0};                                                                                    \
        uint64_t i = 0;                                                                                                \
        (void)b;                                                                                                       \
        while (i + SUM_CHAINS <= count)                                                                                \
            for (uint32_t k = 0; k < SUM_CHAINS; k++, i++)                                                             \
                s[k] += term;                                                                                          \
        for (uint32_t k = 0; i < count; i++, k++)                                                                      \
            s[k] += term;                                                                                              \
        return sum_of_chains(s);                                                                                       \
    }

static inline double sum_floats(const struct sum_partial *partials, uint64_t tiles)
{
    double sum = 0;
    for (uint64_t t = 0; t < tiles; t++) {
        double v;
        memcpy(&v, &partials[t].low, sizeof v);
        sum += v;
    }
    return sum;
}

static inline uint64_t sum_bits(double sum)
{
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    return sum == sum ? bits : UINT64_C(0x7ff8000000000000); /* which NaN would depend on the order of operands */
}

/* The answer of sum and dot. */
static inline void sum_finish(struct gm_run *run)
{
    const struct sum_partial *partials = (const struct sum_partial *)(uintptr_t)run->job->workspace;
    const char kind = gm_dtype_kind(run->job->dtype);
    if (kind == 'f') {
        run->result = sum_bits(sum_floats(partials, run->job->tiles));
        return;
    }
    sum_wide sum = 0;
    for (uint64_t t = 0; t < run->job->tiles; t++)
        sum += (sum_wide)partials[t].high << 64 | partials[t].low;
    const uint64_t low = (uint64_t)sum, high = (uint64_t)(sum >> 64);
    if (high != (kind == 'i' && low >> 63 ? UINT64_MAX : 0))
        run->status = GM_EOVERFLOW;
    run->result = low;
}

#endif
