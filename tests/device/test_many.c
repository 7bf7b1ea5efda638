/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU's tiles of histograms of many bins, called without a scheduler: both ways of counting, whatever the size, any
 * number of shares in any order, against the oracles; and a client that changes its input between the phases, which
 * must neither write outside nor see what an earlier job left in the workspace. One thread.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/plan.h"
#include "oracle.h"
#include "ops/run.h"

#define N_MOST 100003u
#define CANARY 64u /* words */
#define POISON 0x5ec2e75a5ec2e75au

/* What lies in the workspace before: the number of a bin that no element is in. */
#define LEFT 40000u

struct bed {
    struct gm_job job;
    struct gm_entry entry;
    uint64_t in[2][N_MOST];
    uint64_t *out, *want, *workspace, workspace_words, result;
};

static uint64_t random_next(uint64_t *x)
{
    return *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
}

/* How values lie: over all bins but one; all in one; many in one; beyond the ends, and NaN. */
enum { SPREAD, EQUAL, HALF_EQUAL, OUTSIDE, KINDS };

static void put_value(void *in, uint64_t i, uint32_t dtype, double v)
{
    const float f = (float)v;
    const uint64_t whole = v > 0 ? (uint64_t)v : 0;
    uint8_t *at = (uint8_t *)in + i * gm_dtype_bytes(dtype);
    if (dtype == GM_DTYPE_f32)
        memcpy(at, &f, sizeof f);
    else if (dtype == GM_DTYPE_f64)
        memcpy(at, &v, sizeof v);
    else
        memcpy(at, &whole, gm_dtype_bytes(dtype));
}

static void put_values(void *in, uint64_t n, uint32_t dtype, uint32_t range, uint32_t kind, uint64_t seed)
{
    uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + 1u;
    for (uint64_t i = 0; i < n; i++) {
        double v = (double)(random_next(&x) / 7u % range);
        if (kind == EQUAL || (kind == HALF_EQUAL && (x >> 40 & 1u)))
            v = range / 3u;
        if (kind == OUTSIDE && (x >> 40 & 3u) != 0)
            v = gm_dtype_kind(dtype) == 'f' && (x >> 42 & 1u) ? (double)NAN : range + v;
        if (gm_dtype_bytes(dtype) == 1u)
            v = (double)((uint32_t)v % 251u);
        put_value(in, i, dtype, v == LEFT ? v + 1 : v);
    }
}

static uint64_t bits_of(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

struct shape {
    uint32_t op, dtype, bins, second; /* second: channels, or bins_y */
    uint64_t n;
    uint32_t workers;
    bool sorted, backwards;
};

/* A bin has a width of 1 in histogram; of pairs, x and y have the same range. */
static uint32_t range_of(const struct shape *s)
{
    return s->op == GM_OP_histogram_2d ? 1000u : s->bins;
}

static void make_job(struct bed *bed, const struct shape *s)
{
    const struct gm_op_row row = gm_op_row(s->op);
    struct gm_job *job = &bed->job;
    memset(job, 0, sizeof *job);
    memset(&bed->entry, 0, sizeof bed->entry);
    job->op = (uint16_t)s->op, job->dtype = (uint8_t)s->dtype, job->n = s->n;
    job->bins = s->second ? s->bins * s->second : s->bins;
    job->marks = s->second ? GM_MARK_MORE : 0;
    job->value[0] = bits_of(0), job->value[1] = bits_of(range_of(s));
    bed->entry.count2 = s->second;
    bed->entry.more[0] = job->value[0], bed->entry.more[1] = job->value[1];
    struct gm_plan plan = gm_plan_job(job, &row, s->workers, s->workers, 0, false);
    if (s->sorted)
        plan.workspace = gm_plan_hist_many(job, s->workers, true);
    assert_true(gm_hist_many(job) && gm_hist_sorted(job) == s->sorted);
    assert_int_equal(plan.workspace % 4u, 0);
    bed->workspace_words = (plan.workspace + 7u) / 8u;
    bed->workspace = malloc((bed->workspace_words + CANARY) * 8u);
    bed->out = malloc((job->bins + 2u * CANARY) * 8u);
    bed->want = malloc(job->bins * 8u);
    assert_true(bed->workspace != NULL && bed->out != NULL && bed->want != NULL);
    for (uint64_t i = 0; i < bed->workspace_words * 2u; i++)
        ((uint32_t *)bed->workspace)[i] = LEFT;
    for (uint64_t i = 0; i < CANARY; i++)
        bed->workspace[bed->workspace_words + i] = POISON;
    for (uint64_t i = 0; i < job->bins + 2u * CANARY; i++)
        bed->out[i] = POISON;
    job->workspace = (uintptr_t)bed->workspace;
    job->address[0] = (uintptr_t)bed->in[0];
    job->address[1] = (uintptr_t)(s->op == GM_OP_histogram_2d ? (void *)bed->in[1] : (void *)(bed->out + CANARY));
    job->address[2] = (uintptr_t)(bed->out + CANARY);
}

static void end_job(struct bed *bed)
{
    for (uint64_t i = 0; i < CANARY; i++)
        assert_true(bed->workspace[bed->workspace_words + i] == POISON && bed->out[i] == POISON &&
                    bed->out[CANARY + bed->job.bins + i] == POISON);
    free(bed->workspace), free(bed->out), free(bed->want);
}

static void one_share(struct bed *bed, uint32_t index, bool last)
{
    struct gm_run run = {.job = &bed->job, .entry = &bed->entry, .share = index};
    switch (bed->job.op) {
#define SHARE(name)                                                                                                    \
    case GM_OP_##name:                                                                                                 \
        gm_op_##name##_share(&run);                                                                                    \
        if (last)                                                                                                      \
            gm_op_##name##_finish(&run);                                                                               \
        break;
        SHARE(histogram)
        SHARE(histogram_channels)
        SHARE(histogram_2d)
#undef SHARE
    default:
        fail();
    }
    assert_int_equal(run.status, GM_OK);
    bed->result = run.result;
}

static void one_phase(struct bed *bed, uint32_t phase, bool backwards)
{
    const uint32_t shares = bed->job.shares;
    bed->job.phase = (uint8_t)phase;
    bed->entry.next_tile = shares;
    for (uint32_t i = 0; i < shares; i++)
        one_share(bed, backwards ? shares - 1u - i : i, i + 1u == shares);
}

static void ask(struct bed *bed, const struct shape *s, struct gm_oracle_job *asked)
{
    *asked =
        (struct gm_oracle_job){.dtype = s->dtype,
                               .bins = s->bins,
                               .count2 = s->second,
                               .n = s->n,
                               .value = {bed->job.value[0], bed->job.value[1], bed->job.value[0], bed->job.value[1]},
                               .in = bed->in[0],
                               .in2 = bed->in[1],
                               .out = bed->want};
    if (s->op == GM_OP_histogram)
        gm_oracle_histogram(asked);
    else if (s->op == GM_OP_histogram_2d)
        gm_oracle_histogram_2d(asked);
    else
        gm_oracle_histogram_channels(asked);
}

static void run_shape(struct bed *bed, const struct shape *s, uint32_t kind)
{
    struct gm_oracle_job asked;
    const uint64_t elements = s->op == GM_OP_histogram_channels ? s->n * s->second : s->n;
    make_job(bed, s);
    put_values(bed->in[0], elements, s->dtype, range_of(s), kind, s->n + kind);
    put_values(bed->in[1], s->n, s->dtype, range_of(s), kind, s->n + kind + 100u);
    for (uint32_t phase = 0; phase < bed->job.phases; phase++)
        one_phase(bed, phase, s->backwards);
    ask(bed, s, &asked);
    for (uint32_t bin = 0; bin < bed->job.bins; bin++)
        if (bed->out[CANARY + bin] != bed->want[bin])
            fail_msg("op %u dtype %u bins %u n %llu workers %u sorted %d kind %u: bin %u holds %llu, not %llu", s->op,
                     s->dtype, bed->job.bins, (unsigned long long)s->n, s->workers, s->sorted, kind, bin,
                     (unsigned long long)bed->out[CANARY + bin], (unsigned long long)bed->want[bin]);
    assert_int_equal(bed->result, asked.result);
    end_job(bed);
}

static void both_ways_of_counting_agree_with_the_oracle(void **state)
{
    static const struct {
        uint32_t op, bins, second;
    } shapes[] = {{GM_OP_histogram, 32769, 0},
                  {GM_OP_histogram, 50001, 0},
                  {GM_OP_histogram, 300000, 0},
                  {GM_OP_histogram_2d, 300, 200},
                  {GM_OP_histogram_channels, 20011, 3}};
    static const uint32_t dtypes[] = {GM_DTYPE_u8, GM_DTYPE_u32, GM_DTYPE_f32, GM_DTYPE_i64, GM_DTYPE_f64};
    static const uint64_t sizes[] = {0, 1, 63, 64, 8191, 33001};
    static const uint32_t workers[] = {1, 3, 132};
    struct bed *bed = *state;
    for (uint32_t k = 0; k < 5u * 5u * 6u * 2u; k++) {
        const uint32_t at = k % 5u;
        struct shape s = {.op = shapes[at].op,
                          .dtype = dtypes[k / 5u % 5u],
                          .bins = shapes[at].bins,
                          .second = shapes[at].second,
                          .n = sizes[k / 25u % 6u],
                          .workers = workers[k / 7u % 3u],
                          .sorted = k / 150u,
                          .backwards = k / 11u & 1u};
        s.sorted = s.sorted && s.n != 0 && gm_dtype_bytes(s.dtype) != 1u && s.op != GM_OP_histogram_channels;
        for (uint32_t kind = 0; kind < KINDS; kind++)
            run_shape(bed, &s, kind);
    }
}

/* More bins than there are digits of so many, and the most. */
static void digits_of_twice_as_many_bins_are_counted_in_two_parts(void **state)
{
    static const uint32_t bins[] = {GM_RADIX << 15, (GM_RADIX << 15) + 1u, GM_HIST_BINS_MAX};
    for (uint32_t k = 0; k < 3; k++) {
        const struct shape s = {
            .op = GM_OP_histogram, .dtype = GM_DTYPE_f64, .bins = bins[k], .n = 20001, .workers = 2, .sorted = true};
        run_shape(*state, &s, SPREAD);
    }
}

/* Counts of 2^30 elements do not fit 32 bits if there are four channels; the plan of so many, of which the first tiles
 * are counted. */
static void words_of_large_jobs_are_wide(void **state)
{
    struct bed *bed = *state;
    for (uint32_t wide = 0; wide < 2; wide++) {
        struct shape s = {.op = GM_OP_histogram,
                          .dtype = GM_DTYPE_f32,
                          .bins = 40001,
                          .n = (UINT64_C(1) << 30) - 1u + wide,
                          .workers = 3};
        struct gm_oracle_job asked;
        make_job(bed, &s);
        assert_int_equal(gm_hist_word(&bed->job), wide ? 8 : 4);
        bed->job.tiles = 3;
        s.n = 3u * bed->job.tile_elements;
        put_values(bed->in[0], s.n, s.dtype, s.bins, HALF_EQUAL, 9);
        for (uint32_t phase = 0; phase < bed->job.phases; phase++)
            one_phase(bed, phase, false);
        ask(bed, &s, &asked);
        assert_memory_equal(bed->out + CANARY, bed->want, s.bins * 8u);
        assert_int_equal(bed->result, asked.result);
        end_job(bed);
    }
}

/* After each phase: other values, all equal ones, those of before. */
static void input_that_changes_between_phases_shows_nothing_of_others(void **state)
{
    struct bed *bed = *state;
    for (uint32_t k = 0; k < 2u * 3u * KINDS * KINDS; k++) {
        const struct shape s = {.op = k & 1u ? GM_OP_histogram_2d : GM_OP_histogram,
                                .dtype = GM_DTYPE_f32,
                                .bins = k & 1u ? 300 : 70001,
                                .second = k & 1u ? 200 : 0,
                                .n = N_MOST,
                                .workers = 1u + k / 2u % 3u * 3u,
                                .sorted = true};
        make_job(bed, &s);
        put_values(bed->in[0], s.n, s.dtype, range_of(&s), k / 6u % KINDS, k);
        put_values(bed->in[1], s.n, s.dtype, range_of(&s), k / 6u % KINDS, k + 1u);
        for (uint32_t phase = 0; phase < bed->job.phases; phase++) {
            one_phase(bed, phase, k & 2u);
            put_values(bed->in[0], s.n, s.dtype, range_of(&s), k / 24u % KINDS, k + 7u * phase);
        }
        uint64_t sum = 0;
        for (uint32_t bin = 0; bin < bed->job.bins; bin++)
            sum += bed->out[CANARY + bin];
        assert_true(bed->result == sum && sum <= s.n);
        assert_true(s.second != 0 || bed->out[CANARY + LEFT] == 0);
        end_job(bed);
    }
}

static int open_bed(void **state)
{
    *state = calloc(1, sizeof(struct bed));
    return *state == NULL ? -1 : 0;
}

static int close_bed(void **state)
{
    free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ways_of_counting_agree_with_the_oracle),
        cmocka_unit_test(digits_of_twice_as_many_bins_are_counted_in_two_parts),
        cmocka_unit_test(words_of_large_jobs_are_wide),
        cmocka_unit_test(input_that_changes_between_phases_shows_nothing_of_others),
    };
    return cmocka_run_group_tests(tests, open_bed, close_bed);
}
