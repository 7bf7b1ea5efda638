/* SPDX-License-Identifier: Apache-2.0
 *
 * The fast rule of bins against the rule itself: whatever it is sure of is the rule's answer, for values at edges and
 * beside them, at the ends, and any others, of every type and many ranges; and it is sure of nearly all. Pure
 * functions; one thread.
 */
#include "vocabulary.h"

#include "ops/counts_stream.cuh"

#include <setjmp.h>
#include <stdarg.h>

extern "C" {
#include <cmocka.h>
}

namespace
{

uint64_t state = 1;

uint64_t random_bits(void)
{
    state += 0x9e3779b97f4a7c15u;
    uint64_t z = (state ^ state >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
double random_unit(void)
{
    return (double)(random_bits() >> 11) / 9007199254740992.0;
}

struct range {
    double lo, hi;
    uint32_t bins;
};

struct tally {
    uint64_t asked, sure;
};

/* What is not a number of a type, or too large for it, becomes some number of it. */
template <typename W> W bits_of(double v, uint32_t dtype)
{
    const bool is_signed = gm_dtype_kind(dtype) == 'i';
    if (gm_dtype_kind(dtype) == 'f')
        return sizeof(W) == 4 ? (W)__float_as_uint((float)v) : (W)__double_as_longlong(v);
    if (sizeof(W) == 4)
        return is_signed ? (W)__double2int_rn(v) : (W)__double2uint_rn(v);
    return is_signed ? (W)__double2ll_rn(v) : (W)__double2ull_rn(v);
}

template <typename W> void ask(const gm_bins &b, const gm_bins_fast &f, uint32_t dtype, W v, struct tally *t)
{
    const uint32_t rule = gm_bin_index(&b, gm_counts_number(v, dtype));
    uint32_t bin;
    t->asked++;
    if (f.find(gm_bins_float(v, dtype), &bin) && bin != f.bins) {
        t->sure++;
        if (rule == GM_BIN_NONE ? bin <= b.last : bin != rule)
            fail_msg("dtype %u, %a to %a in %u bins: %a is in bin %u, not %u", dtype, b.lo, b.hi, b.last + 1u,
                     gm_counts_number(v, dtype), rule, bin);
    }
}

/* The share of values anywhere in the range that it is sure of. */
template <typename W> double compare(const struct range &r, uint32_t dtype)
{
    const gm_bins b = gm_bins_make(r.lo, r.hi, r.bins);
    const gm_bins_fast f = gm_bins_fast_make(&b, dtype);
    struct tally inside = {0, 0}, other = {0, 0};
    for (uint32_t i = 0; i < 600u; i++) {
        const uint32_t edge = i < 4u ? (i & 1u ? b.last + 1u : 0) : (uint32_t)(random_bits() % (r.bins + 1u));
        const W at = bits_of<W>(gm_bins_edge(&b, (double)edge), dtype);
        for (W k = 0; k < 9u; k++)
            ask<W>(b, f, dtype, (W)(at + k - 4u), &other); /* neighbours in bits are neighbours */
        ask<W>(b, f, dtype, bits_of<W>(r.lo + random_unit() * (r.hi - r.lo), dtype), &inside);
        ask<W>(b, f, dtype, bits_of<W>(r.hi + (random_unit() - 0.5) * 4.0 * (r.hi - r.lo), dtype), &other);
        ask<W>(b, f, dtype, (W)random_bits(), &other);
    }
    return (double)inside.sure / (double)inside.asked;
}

double compare_type(const struct range &r, uint32_t dtype)
{
    return gm_dtype_bytes(dtype) == 4u ? compare<uint32_t>(r, dtype) : compare<uint64_t>(r, dtype);
}

const uint32_t types[] = {GM_DTYPE_f32, GM_DTYPE_i32, GM_DTYPE_u32, GM_DTYPE_f64, GM_DTYPE_i64, GM_DTYPE_u64};

void what_it_is_sure_of_is_the_rules_bin(void **)
{
    const struct range ranges[] = {
        {0, 1, 256},          {0, 256, 256},           {-1, 1, 100},         {0, 1, 10},          {0.1, 0.7, 33},
        {-4, 4, 256},         {1000, 1001, 64},        {1e6, 1e6 + 1, 1000}, {0, 1000, 10},       {-1000, 1000, 2000},
        {0, 4294967296.0, 7}, {-2e9, 2e9, 4096},       {0, 1e-30, 12},       {1e30, 2e30, 5},     {-1e300, 1e300, 9},
        {0, 4e-320, 3},       {16777215, 16777217, 2}, {0, 100, 300},        {-3, 97, 100},       {0.5, 100.5, 100},
        {0, 32768, 32768},    {0, 1, 32767},           {1e-310, 1, 1},       {0, 65536.0 * 3, 3}, {-7, 1.0 / 3.0, 64},
        {1, 1.0000001, 16},   {0, 8192, 4096},         {-9e18, 9e18, 128},   {0, 1.8e19, 1000},   {255, 256, 1},
    };
    for (const struct range &r : ranges)
        for (uint32_t dtype : types)
            (void)compare_type(r, dtype);
    for (uint32_t i = 0; i < 60u; i++) {
        const double lo = ldexp(random_unit() - 0.5, (int)(random_bits() % 40u)), wide = random_unit() + 1e-3;
        const struct range r = {lo, lo + ldexp(wide, (int)(random_bits() % 40u) - 5),
                                1u + (uint32_t)(random_bits() % 5000u)};
        (void)compare_type(r, types[i % 6u]);
    }
}

/* Otherwise it would be for nothing. */
void it_is_sure_of_nearly_all(void **)
{
    const struct range ranges[] = {{0, 1, 256}, {0, 256, 256}, {-1, 1, 100}, {0.1, 0.7, 33}, {-4, 4, 256}};
    const struct range whole[] = {{0, 256, 256}, {0, 3000, 1000}, {-1000, 1000, 2000}, {-30000, 30000, 100}};
    for (const struct range &r : ranges) {
        assert_true(compare<uint32_t>(r, GM_DTYPE_f32) > 0.98);
        assert_true(compare<uint64_t>(r, GM_DTYPE_f64) > 0.98);
    }
    for (const struct range &r : whole)
        for (uint32_t dtype : {GM_DTYPE_i32, GM_DTYPE_i64})
            assert_true(compare_type(r, dtype) > 0.98);
    /* Nothing but the upper end is unsure where every edge is a number. */
    const gm_bins b = gm_bins_make(0, 1, 256);
    const gm_bins_fast f = gm_bins_fast_make(&b, GM_DTYPE_f32);
    for (uint32_t edge = 0; edge <= 256u; edge++) {
        uint32_t bin;
        assert_true(f.find((float)edge / 256.0f, &bin));
        assert_int_equal(bin, edge);
    }
}

/* Takes what a pack adds. */
struct recorder {
    uint32_t times[256];
    void add_if(bool there, uint32_t cell)
    {
        if (there)
            times[cell]++;
    }
};

struct recorder recorded;

void count_a_pack(void *)
{
    const gm_bins b = gm_bins_make(0, 1, 256);
    const gm_bins_fast f = gm_bins_fast_make(&b, GM_DTYPE_f32);
    const uint4 v =
        make_uint4(__float_as_uint(1.0f), __float_as_uint(0.5f), __float_as_uint(1.0000001f), __float_as_uint(-0.0f));
    if (threadIdx.x != 0)
        return;
    *gm_stream_rule(0) = b;
    gm_stream_pack<uint32_t>(recorded, f, GM_DTYPE_f32, v, gm_stream_one());
}

void the_upper_end_is_in_the_last_bin_and_nothing_above(void **)
{
    const struct gm_simt_launch launch = {1, GM_SIMT_RISING, 1, count_a_pack, {}, NULL};
    char why[256];
    assert_true(gm_simt_launch(&launch, why, sizeof why));
    for (uint32_t i = 0; i < 256u; i++)
        assert_int_equal(recorded.times[i], i == 0 || i == 128u || i == 255u);
}

int open_all(void **)
{
    gm_simt_open(GM_BLOCK_SCRATCH);
    return 0;
}

} // namespace

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_it_is_sure_of_is_the_rules_bin),
                                       cmocka_unit_test(it_is_sure_of_nearly_all),
                                       cmocka_unit_test(the_upper_end_is_in_the_last_bin_and_nothing_above)};
    return cmocka_run_group_tests(tests, open_all, NULL);
}
