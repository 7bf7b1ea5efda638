/* SPDX-License-Identifier: Apache-2.0
 *
 * segmented_sum: see segments.h for the way. Integers are summed in 128 bits and must fit their type in the end; floats
 * are added in f64 in a fixed number of chains a tile and segment, so the order depends on n and the offsets alone.
 */
#include <string.h>

#include "segments.h"
#include "sums.h"

typedef unsigned __int128 seg_wide;

static seg_wide seg_wide_of(struct seg_value v) { return (seg_wide)v.high << 64 | v.low; }
static struct seg_value seg_value_of(seg_wide v) { return (struct seg_value){(uint64_t)v, (uint64_t)(v >> 64)}; }

static struct seg_value add_integers(struct seg_value a, struct seg_value b)
{
    return seg_value_of(seg_wide_of(a) + seg_wide_of(b));
}

#define SEG_INTEGERS(name, type, wide, least, most)                                                                    \
    static struct seg_value reduce_##name(const struct seg_rule *rule, const void *in, uint64_t first, uint64_t count) \
    {                                                                                                                  \
        const type *from = (const type *)in + first;                                                                   \
        wide sum = 0;                                                                                                  \
        (void)rule;                                                                                                    \
        for (uint64_t i = 0; i < count; i++)                                                                           \
            sum += from[i];                                                                                            \
        return seg_value_of((seg_wide)(__int128)sum);                                                                  \
    }                                                                                                                  \
    static int32_t store_##name(const struct seg_rule *rule, void *out, uint64_t segment, struct seg_value value)      \
    {                                                                                                                  \
        const __int128 sum = (__int128)seg_wide_of(value);                                                             \
        (void)rule;                                                                                                    \
        ((type *)out)[segment] = (type)value.low;                                                                      \
        return sum >= (__int128)(least) && sum <= (__int128)(most) ? GM_OK : GM_EOVERFLOW;                             \
    }
SEG_INTEGERS(i32, int32_t, int64_t, INT32_MIN, INT32_MAX)
SEG_INTEGERS(u32, uint32_t, int64_t, 0, UINT32_MAX)
SEG_INTEGERS(i64, int64_t, __int128, INT64_MIN, INT64_MAX)
SEG_INTEGERS(u64, uint64_t, __int128, 0, UINT64_MAX)

static double seg_double(struct seg_value v)
{
    double x;
    memcpy(&x, &v.low, sizeof x);
    return x;
}
static struct seg_value seg_of_double(double x)
{
    struct seg_value v = {0, 0};
    memcpy(&v.low, &x, sizeof x);
    return v;
}

static struct seg_value add_floats(struct seg_value a, struct seg_value b)
{
    return seg_of_double(seg_double(a) + seg_double(b));
}

SUM_FLOATS(seg_sum_f32, float, (double)a[i])
SUM_FLOATS(seg_sum_f64, double, a[i])

static struct seg_value reduce_f32(const struct seg_rule *rule, const void *in, uint64_t first, uint64_t count)
{
    const float *from = (const float *)in + first;
    double sum = 0;
    (void)rule;
    if (count >= SUM_CHAINS)
        return (struct seg_value){seg_sum_f32(from, NULL, count).low, 0};
    for (uint64_t i = 0; i < count; i++)
        sum += (double)from[i];
    return seg_of_double(sum);
}

static struct seg_value reduce_f64(const struct seg_rule *rule, const void *in, uint64_t first, uint64_t count)
{
    const double *from = (const double *)in + first;
    double sum = 0;
    (void)rule;
    if (count >= SUM_CHAINS)
        return (struct seg_value){seg_sum_f64(from, NULL, count).low, 0};
    for (uint64_t i = 0; i < count; i++)
        sum += from[i];
    return seg_of_double(sum);
}

static int32_t store_f32(const struct seg_rule *rule, void *out, uint64_t segment, struct seg_value value)
{
    const float sum = (float)seg_double(value);
    const uint32_t quiet = 0x7fc00000u; /* which NaN would depend on the order of operands */
    (void)rule;
    memcpy((float *)out + segment, sum == sum ? (const void *)&sum : &quiet, sizeof sum);
    return GM_OK;
}

static int32_t store_f64(const struct seg_rule *rule, void *out, uint64_t segment, struct seg_value value)
{
    (void)rule;
    ((uint64_t *)out)[segment] = sum_bits(seg_double(value));
    return GM_OK;
}

static struct seg_rule segmented_sum_rule(uint32_t dtype)
{
    static const struct seg_rule i32 = {.reduce = reduce_i32, .combine = add_integers, .store = store_i32};
    static const struct seg_rule u32 = {.reduce = reduce_u32, .combine = add_integers, .store = store_u32};
    static const struct seg_rule i64 = {.reduce = reduce_i64, .combine = add_integers, .store = store_i64};
    static const struct seg_rule u64 = {.reduce = reduce_u64, .combine = add_integers, .store = store_u64};
    static const struct seg_rule f32 = {.reduce = reduce_f32, .combine = add_floats, .store = store_f32};
    static const struct seg_rule f64 = {.reduce = reduce_f64, .combine = add_floats, .store = store_f64};
    switch (dtype) {
    case GM_DTYPE_i32:
        return i32;
    case GM_DTYPE_u32:
        return u32;
    case GM_DTYPE_i64:
        return i64;
    case GM_DTYPE_u64:
        return u64;
    case GM_DTYPE_f32:
        return f32;
    default:
        return f64;
    }
}

void gm_op_segmented_sum_share(struct gm_run *run)
{
    const struct seg_rule rule = segmented_sum_rule(run->job->dtype);
    gm_segments_share(run, &rule);
}

void gm_op_segmented_sum_finish(struct gm_run *run)
{
    const struct seg_rule rule = segmented_sum_rule(run->job->dtype);
    gm_segments_finish(run, &rule);
}
