/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU tiles of unique, run_length, select_if and partition by hand: share after share, in any order and number,
 * with inputs that change between the two phases, which no client can be made to do at a known moment. And what the
 * help texts say of NaN, zeros, runs over tiles and order. One thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../brief.h"
#include "kept.h"
#include "oracle.h"
#include "run.h"

#define TILES 5u
#define N_MOST ((TILES - 1u) * 65536u + 100u)
#define MARGIN 64u
#define POISON 0xc3
#define OUT_BYTES (N_MOST * 8u + 2u * MARGIN)

/* One job, its buffers, and what it is compared with. */
static struct bed {
    struct gm_job job;
    struct gm_entry entry;
    uint64_t workspace[(TILES * 2u + 4u) * GM_PARTIAL_BYTES / 8u];
    uint64_t in[N_MOST]; /* room for any type */
    uint8_t out[2][OUT_BYTES], want[2][OUT_BYTES];
    struct gm_oracle_job expected;
    uint64_t result;
} bed;

static const uint32_t ops[] = {GM_OP_unique, GM_OP_run_length, GM_OP_select_if, GM_OP_partition};
#define OPS (sizeof ops / sizeof *ops)
static const uint32_t dtypes[] = {GM_DTYPE_u8, GM_DTYPE_i32, GM_DTYPE_u64, GM_DTYPE_f32, GM_DTYPE_f64};
#define DTYPES (sizeof dtypes / sizeof *dtypes)

static void share(struct gm_run *run)
{
    switch (run->job->op) {
    case GM_OP_unique:
        gm_op_unique_share(run);
        break;
    case GM_OP_run_length:
        gm_op_run_length_share(run);
        break;
    case GM_OP_select_if:
        gm_op_select_if_share(run);
        break;
    default:
        gm_op_partition_share(run);
        break;
    }
}

static void finish(struct gm_run *run)
{
    switch (run->job->op) {
    case GM_OP_unique:
        gm_op_unique_finish(run);
        break;
    case GM_OP_run_length:
        gm_op_run_length_finish(run);
        break;
    case GM_OP_select_if:
        gm_op_select_if_finish(run);
        break;
    default:
        gm_op_partition_finish(run);
        break;
    }
}

static void one_share(uint32_t index, bool last)
{
    struct gm_run run = {.job = &bed.job, .entry = &bed.entry, .share = index};
    share(&run);
    if (last)
        finish(&run);
    assert_int_equal(run.status, GM_OK);
    bed.result = run.result;
}

/* All shares of a phase, from the first or from the last on. */
static void one_phase(uint32_t phase, bool backwards)
{
    bed.job.phase = (uint8_t)phase;
    bed.entry.next_tile = bed.job.shares;
    for (uint32_t i = 0; i < bed.job.shares; i++)
        one_share(backwards ? bed.job.shares - 1u - i : i, i + 1u == bed.job.shares);
}

static void set_value(uint64_t i, uint32_t dtype, uint64_t small)
{
    const float f = (float)small;
    const double d = (double)small;
    uint8_t *at = (uint8_t *)bed.in + i * gm_dtype_bytes(dtype);
    if (dtype == GM_DTYPE_f32)
        memcpy(at, &f, sizeof f);
    else if (dtype == GM_DTYPE_f64)
        memcpy(at, &d, sizeof d);
    else
        memcpy(at, &small, gm_dtype_bytes(dtype));
}

/* Values from 1 up, so that a zero, or poison, is none of them; equal ones stand together. kind 0: each differs from
 * the one before; 1: all are the same, and none is selected; 2: the same, and all are; others: runs. */
static void make_input(uint32_t dtype, uint64_t n, uint32_t kind)
{
    uint64_t x = kind * UINT64_C(0x9e3779b97f4a7c15) + 1u;
    for (uint64_t i = 0, value = 1; i < n; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        if (kind == 0 || (kind > 2 && x % (kind * kind) == 0))
            value = (value + 1u + x / 256u % 90u) % 100u + 1u;
        set_value(i, dtype, kind == 1 ? 100 : kind == 2 ? 3 : value);
    }
}

/* Selected is what is less than 50. */
static void make_job(uint32_t op, uint32_t dtype, uint64_t n, uint32_t workers)
{
    const struct gm_op_row row = gm_op_row(op);
    const float f = 50;
    const double d = 50;
    uint64_t value = 50;
    if (dtype == GM_DTYPE_f32)
        value = 0, memcpy(&value, &f, sizeof f);
    else if (dtype == GM_DTYPE_f64)
        memcpy(&value, &d, sizeof d);
    memset(&bed.job, 0, sizeof bed.job);
    memset(&bed.entry, 0, sizeof bed.entry);
    memset(bed.workspace, 0xff, sizeof bed.workspace);
    memset(bed.out, POISON, sizeof bed.out);
    memset(bed.want, POISON, sizeof bed.want);
    bed.job.op = (uint16_t)op, bed.job.dtype = (uint8_t)dtype, bed.job.n = n;
    if (row.args != 0)
        bed.job.bins = GM_COMPARE_lt, bed.job.value[0] = value;
    bed.job.workspace = (uintptr_t)bed.workspace;
    bed.job.address[0] = (uintptr_t)bed.in;
    bed.job.address[1] = (uintptr_t)(bed.out[0] + MARGIN);
    bed.job.address[2] = (uintptr_t)(bed.out[1] + MARGIN);
    const struct gm_plan plan = gm_plan_job(&bed.job, &row, workers, workers, sizeof bed.workspace, false);
    assert_true(plan.workspace <= sizeof bed.workspace);
    bed.expected = (struct gm_oracle_job){.dtype = dtype,
                                          .n = n,
                                          .bins = bed.job.bins,
                                          .in = bed.in,
                                          .out = bed.want[0] + MARGIN,
                                          .out2 = bed.want[1] + MARGIN};
    memcpy(bed.expected.value, bed.job.value, sizeof bed.job.value);
}

static void ask_oracle(void)
{
    switch (bed.job.op) {
    case GM_OP_unique:
        gm_oracle_unique(&bed.expected);
        break;
    case GM_OP_run_length:
        gm_oracle_run_length(&bed.expected);
        break;
    case GM_OP_select_if:
        gm_oracle_select_if(&bed.expected);
        break;
    default:
        gm_oracle_partition(&bed.expected);
        break;
    }
}

static uint64_t elements(uint32_t op, uint32_t dtype, uint32_t tiles)
{
    return (uint64_t)gm_op_row(op).tile_bytes / gm_dtype_bytes(dtype) * (tiles - 1u) + 77u;
}

static void shares_in_any_number_and_order_give_the_same(void **state)
{
    (void)state;
    for (size_t o = 0; o < OPS; o++)
        for (size_t d = 0; d < DTYPES; d++)
            for (uint32_t kind = 0; kind < 5u; kind++)
                for (uint32_t workers = 1; workers < 9u; workers += 3u) {
                    if (gm_left_out(o + d + kind))
                        continue;
                    const uint64_t n = elements(ops[o], dtypes[d], TILES);
                    make_input(dtypes[d], n, kind);
                    make_job(ops[o], dtypes[d], n, workers);
                    ask_oracle();
                    one_phase(0, workers % 2u != 0);
                    one_phase(1, workers % 2u == 0);
                    assert_int_equal(bed.result, bed.expected.result);
                    assert_memory_equal(bed.out, bed.want, sizeof bed.out);
                }
}

static bool is_poison(const uint8_t *p, uint64_t bytes)
{
    return bytes == 0 || (p[0] == POISON && memcmp(p, p + 1, bytes - 1u) == 0);
}

/* Nothing was written in output i but elements from begin to end, and all of these were; out of other's reach. */
static void assert_written(uint32_t i, uint64_t element, uint64_t begin, uint64_t end)
{
    const uint8_t *out = bed.out[i] + MARGIN;
    assert_true(is_poison(bed.out[i], MARGIN + begin * element));
    assert_true(is_poison(out + end * element, OUT_BYTES - MARGIN - end * element));
    for (uint64_t k = begin; k < end; k++)
        assert_false(is_poison(out + k * element, element));
}

/* What the oracle keeps up to the end of each tile. */
static void count_tiles(uint64_t *upto, uint32_t tiles)
{
    const uint64_t n = bed.expected.n, tile = bed.job.tile_elements;
    upto[0] = 0;
    for (uint32_t t = 0; t < tiles; t++) {
        bed.expected.n = (t + 1u) * tile < n ? (t + 1u) * tile : n;
        bed.expected.result = 0;
        ask_oracle();
        upto[t + 1u] = bed.expected.result;
    }
}

/* The client has changed everything since it was counted: each tile writes its own places, whole, and no others. */
static void a_tile_owns_the_places_that_were_counted(uint32_t op, uint32_t dtype, uint32_t before, uint32_t after)
{
    const uint64_t bytes = gm_dtype_bytes(dtype), n = elements(op, dtype, TILES);
    uint64_t upto[TILES + 1u];
    make_input(dtype, n, before);
    make_job(op, dtype, n, TILES);
    assert_int_equal(bed.job.shares, TILES); /* one tile each */
    count_tiles(upto, TILES);
    one_phase(0, false);
    make_input(dtype, n, after);
    bed.job.phase = 1;
    for (uint32_t t = 0; t < TILES; t++) {
        const uint64_t first = t * bed.job.tile_elements, end = t + 1u == TILES ? n : first + bed.job.tile_elements;
        memset(bed.out, POISON, sizeof bed.out);
        one_share(t, t + 1u == TILES);
        if (op == GM_OP_partition) { /* two ranges: look at each with the other one blotted out */
            const uint64_t others = upto[TILES] + first - upto[t],
                           others_end = others + (end - first) - (upto[t + 1u] - upto[t]);
            uint8_t *out = bed.out[0] + MARGIN;
            for (uint64_t k = others; k < others_end; k++)
                assert_false(is_poison(out + k * bytes, bytes));
            memset(out + others * bytes, POISON, (others_end - others) * bytes);
        }
        assert_written(0, bytes, upto[t], upto[t + 1u]);
        if (op != GM_OP_run_length) {
            assert_true(is_poison(bed.out[1], OUT_BYTES));
            continue;
        }
        /* Lengths: those that end where the tile's runs begin, and at last the one that ends with the job. */
        const uint64_t from = upto[t] == 0 ? 0 : upto[t] - 1u,
                       last = t + 1u == TILES ? upto[t + 1u] : upto[t + 1u] - 1u;
        assert_written(1, 8, from, last);
    }
    assert_int_equal(bed.result, upto[TILES]);
}

static void an_input_that_changes_between_phases_moves_no_place(void **state)
{
    (void)state;
    for (size_t o = 0; o < OPS; o++)
        for (size_t d = 0; d < DTYPES; d++)
            for (uint32_t before = 0; before < 4u; before += 1u + before / 2u)
                for (uint32_t after = 0; after < 4u && !gm_left_out(o + d); after += 1u + after / 2u)
                    a_tile_owns_the_places_that_were_counted(ops[o], dtypes[d], before, after);
}

/* Runs the job at hand, and gives its result. */
static uint64_t run_all(void)
{
    for (uint32_t phase = 0; phase < bed.job.phases; phase++)
        one_phase(phase, false);
    return bed.result;
}

static void nans_are_never_equal_and_zeros_are(void **state)
{
    (void)state;
    static const uint32_t narrow[] = {0x7fc00000, 0x7fc00000, 0x80000000, 0, 0x80000000, 0x3f800000, 0xffc00001};
    static const uint32_t kept[] = {0x7fc00000, 0x7fc00000, 0x80000000, 0x3f800000, 0xffc00001};
    static const uint64_t lengths[] = {1, 1, 3, 1, 1};
    const double zero[] = {0.0, -0.0, -0.0};
    memcpy(bed.in, narrow, sizeof narrow);
    make_job(GM_OP_unique, GM_DTYPE_f32, 7, 4);
    assert_int_equal(run_all(), 5);
    assert_memory_equal(bed.out[0] + MARGIN, kept, sizeof kept);
    make_job(GM_OP_run_length, GM_DTYPE_f32, 7, 4);
    assert_int_equal(run_all(), 5);
    assert_memory_equal(bed.out[0] + MARGIN, kept, sizeof kept);
    assert_memory_equal(bed.out[1] + MARGIN, lengths, sizeof lengths);
    make_job(GM_OP_unique, GM_DTYPE_u32, 7, 4); /* as integers, bits decide */
    assert_int_equal(run_all(), 6);
    memcpy(bed.in, zero, sizeof zero);
    make_job(GM_OP_unique, GM_DTYPE_f64, 3, 4);
    assert_int_equal(run_all(), 1);
    assert_memory_equal(bed.out[0] + MARGIN, zero, 8);
}

static void nans_are_selected_by_what_says_not(void **state)
{
    (void)state;
    static const uint32_t nans[] = {0x7fc00000, 0xffc00000, 0x7f800001};
    static const bool selected[GM_COMPARE_COUNT] = {[GM_COMPARE_ne] = true, [GM_COMPARE_outside] = true};
    for (uint32_t compare = 0; compare < GM_COMPARE_COUNT; compare++) {
        memcpy(bed.in, nans, sizeof nans);
        make_job(GM_OP_select_if, GM_DTYPE_f32, 3, 4);
        bed.job.bins = compare;
        bed.job.value[1] = compare == GM_COMPARE_between || compare == GM_COMPARE_outside ? 0x7f800000u : 0;
        assert_int_equal(run_all(), selected[compare] ? 3 : 0);
        make_job(GM_OP_partition, GM_DTYPE_f32, 3, 4);
        bed.job.bins = compare;
        assert_int_equal(run_all(), selected[compare] ? 3 : 0);
        assert_memory_equal(bed.out[0] + MARGIN, nans, sizeof nans);
    }
}

/* A run that begins in one tile, spans whole tiles and ends in another one; and ones that begin where a tile
 * does. */
static void runs_reach_over_tiles(void **state)
{
    (void)state;
    const uint64_t tile = gm_op_row(GM_OP_run_length).tile_bytes / 4u, n = 4u * tile + 9u;
    const uint64_t starts[] = {0, 5, tile, 3u * tile, 3u * tile + 1u, 4u * tile + 8u, n};
    uint32_t *in = (uint32_t *)bed.in;
    for (uint32_t r = 0; r < 6u; r++)
        for (uint64_t i = starts[r]; i < starts[r + 1u]; i++)
            in[i] = r + 1u;
    make_job(GM_OP_run_length, GM_DTYPE_u32, n, 3);
    assert_int_equal(bed.job.tiles, TILES);
    assert_int_equal(run_all(), 6);
    for (uint32_t r = 0; r < 6u; r++) {
        assert_int_equal(((uint32_t *)(void *)(bed.out[0] + MARGIN))[r], r + 1u);
        assert_int_equal(((uint64_t *)(void *)(bed.out[1] + MARGIN))[r], starts[r + 1u] - starts[r]);
    }
    assert_written(0, 4, 0, 6);
    assert_written(1, 8, 0, 6);
    for (uint64_t i = 0; i < n; i++)
        in[i] = 7;
    make_job(GM_OP_run_length, GM_DTYPE_u32, n, 3); /* one for all */
    assert_int_equal(run_all(), 1);
    assert_int_equal(*(uint64_t *)(void *)(bed.out[1] + MARGIN), n);
    assert_written(1, 8, 0, 1);
}

static void partition_keeps_the_order_of_both_sides(void **state)
{
    (void)state;
    static const int32_t in[] = {60, 3, 55, -1, 50, 49, 99, 2}, want[] = {3, -1, 49, 2, 60, 55, 50, 99};
    memcpy(bed.in, in, sizeof in);
    make_job(GM_OP_partition, GM_DTYPE_i32, 8, 4);
    assert_int_equal(run_all(), 4);
    assert_memory_equal(bed.out[0] + MARGIN, want, sizeof want);
}

/* Whatever numbers the workspace may hold. */
static void places_lie_within_the_output(void **state)
{
    (void)state;
    static const uint64_t numbers[] = {0, 1, 99, 100, 101, UINT64_MAX / 2u, UINT64_MAX - 1u, UINT64_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
            const struct gm_places places = gm_places_make(numbers[i], numbers[k], 100);
            assert_true(places.next <= places.end && places.end <= 100);
            if (numbers[i] < 100)
                assert_int_equal(places.next, numbers[i]);
            if (numbers[i] < 100 && numbers[k] <= 100 - numbers[i])
                assert_int_equal(places.end, numbers[i] + numbers[k]);
        }
}

static void of_nothing_there_is_nothing(void **state)
{
    (void)state;
    for (size_t o = 0; o < OPS; o++) {
        make_job(ops[o], GM_DTYPE_f64, 0, 4);
        assert_int_equal(run_all(), 0);
        assert_written(0, 8, 0, 0);
        assert_written(1, 8, 0, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_in_any_number_and_order_give_the_same),
        cmocka_unit_test(an_input_that_changes_between_phases_moves_no_place),
        cmocka_unit_test(nans_are_never_equal_and_zeros_are),
        cmocka_unit_test(nans_are_selected_by_what_says_not),
        cmocka_unit_test(runs_reach_over_tiles),
        cmocka_unit_test(partition_keeps_the_order_of_both_sides),
        cmocka_unit_test(places_lie_within_the_output),
        cmocka_unit_test(of_nothing_there_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
