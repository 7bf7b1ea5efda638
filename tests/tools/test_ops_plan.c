/* SPDX-License-Identifier: Apache-2.0
 *
 * What bench_ops makes of an op: for every shape of ops.def, also those that no op has yet, arguments that the checks
 * accept and data that keeps the promises of its buffer. Pure functions.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops_plan.h"
#include "wire.h"

#define ROTATED (UINT64_C(1) << 28)
#define ALL_TYPES ((1u << GM_DTYPE_COUNT) - 1u)
#define HALVES (GM_TYPE(f16) | GM_TYPE(bf16)) /* of which no value is looked at */

static struct gm_op_row row_of(uint32_t shape)
{
    struct gm_op_row row = {.types = ALL_TYPES, .known = 1, .shape = (uint8_t)shape};
    gm_shape_fill(shape, &row);
    return row;
}

static double number(uint32_t dtype, uint64_t bits)
{
    float narrow;
    double wide;
    const uint32_t low = dtype == GM_DTYPE_bf16 ? (uint32_t)bits << 16 : (uint32_t)bits;
    memcpy(&narrow, &low, sizeof narrow), memcpy(&wide, &bits, sizeof wide);
    const uint32_t unused = 64u - gm_dtype_bytes(dtype) * 8u;
    if (dtype == GM_DTYPE_f16) /* normal, or zero */
        return bits == 0 ? 0.0 : ldexp(1024.0 + (double)(bits & 0x3ffu), (int)(bits >> 10) - 25);
    return dtype == GM_DTYPE_f32 || dtype == GM_DTYPE_bf16 ? (double)narrow
           : dtype == GM_DTYPE_f64                         ? wide
           : gm_dtype_kind(dtype) == 'i'                   ? (double)((int64_t)(bits << unused) >> unused)
                                                           : (double)bits;
}

static void make(struct gm_ops_plan *plan, uint32_t shape, uint32_t dtype, enum gm_ops_data data, uint32_t log2)
{
    const struct gm_op_row row = row_of(shape);
    enum gm_complaint complaint;
    if (!gm_ops_plan_make(plan, "shape", &row, dtype, data, log2, ROTATED, &complaint))
        fail_msg("shape %u of %s, 2^%u: complaint %d", shape, gm_dtype_name(dtype), log2, (int)complaint);
}

/* Calls look with a plan of every shape, type, kind of data and size. */
static void each_plan(uint32_t log2_max, void (*look)(const struct gm_ops_plan *plan))
{
    struct gm_ops_plan plan;
    for (uint32_t shape = GM_SHAPE_NONE + 1; shape < GM_SHAPE_COUNT; shape++)
        for (uint32_t dtype = 0; dtype < GM_DTYPE_COUNT; dtype++)
            for (uint32_t data = 0; data < GM_OPS_DATA_COUNT; data++)
                for (const uint32_t *log2 = gm_ops_sizes(); *log2 != 0 && *log2 <= log2_max; log2++) {
                    make(&plan, shape, dtype, (enum gm_ops_data)data, *log2);
                    look(&plan);
                }
}

static void look_at_sizes(const struct gm_ops_plan *plan)
{
    const uint64_t first = plan->bytes[0], element = gm_buffer_element(&plan->row, 0, &plan->args);
    assert_int_equal(plan->buffers, plan->row.inputs + plan->row.outputs);
    assert_int_equal(first, element << plan->log2);
    assert_int_equal(plan->places, first < ROTATED ? ROTATED / first : 1u);
    for (uint32_t i = 0; i < plan->buffers; i++) {
        assert_int_equal(plan->bytes[i], gm_buffer_bytes(&plan->row, i, &plan->args));
        assert_true(plan->step[i] == 0 || plan->step[i] == plan->bytes[i]);
        assert_true(gm_ops_room(plan, i) <= UINT64_C(8) << 28); /* so much as the widest element at the largest size */
    }
    /* What is as long as the first is another one in each job. */
    for (uint32_t i = 1; i < plan->buffers; i++)
        assert_true(plan->step[i] != 0 || plan->bytes[i] * 2u < first || plan->bytes[i] <= GM_HIST_BINS_MAX * 8u);
}

static void every_shape_has_arguments_that_are_accepted(void **state)
{
    (void)state;
    each_plan(28, look_at_sizes);
    struct gm_ops_plan plan;
    enum gm_complaint complaint;
    const struct gm_op_row none = gm_op_row(GM_OP_nop);
    assert_true(gm_ops_plan_make(&plan, "nop", &none, 0, GM_OPS_WIDE, 10, ROTATED, &complaint));
    assert_int_equal(plan.places, 1);
    assert_int_equal(gm_ops_moved(&plan, 0), 0);
}

static void look_at_values(const struct gm_ops_plan *plan)
{
    const uint32_t dtype = plan->args.dtype;
    const double low = gm_ops_low(dtype, plan->data), high = low + gm_ops_range(dtype, plan->data);
    for (uint32_t b = 0; b < plan->row.inputs; b++) {
        const uint32_t content = gm_buffer_content(plan->row.buffer[b]);
        const uint64_t count = gm_buffer_count(&plan->row, b, &plan->args);
        double before = -1e300;
        uint64_t different = 0;
        for (uint64_t i = 0; i < count; i++) {
            const uint64_t bits = gm_ops_value(plan, b, i);
            const double x = number(content >= GM_CONTENT_TO ? plan->args.type2 : dtype, bits);
            if (content == GM_CONTENT_INDEX)
                assert_true(bits < plan->args.value[0]);
            else if (content == GM_CONTENT_OFFSETS)
                assert_true(x >= before && (i != 0 || bits == 0) && (i + 1u != count || bits == plan->args.n));
            else if (content == GM_CONTENT_EDGES)
                assert_true(x >= before && x >= low && x <= high);
            else if (content == GM_CONTENT_T)
                assert_true(x >= low && (x < high || gm_dtype_bytes(dtype) == 8u));
            different += x != before;
            before = x;
        }
        if (content == GM_CONTENT_T && plan->data != GM_OPS_ONES)
            assert_true(different > (plan->data == GM_OPS_RUNS ? count / 6u : count / 2u));
        if (content == GM_CONTENT_T && plan->data == GM_OPS_RUNS)
            assert_true(different < count / 3u);
    }
}

static void values_keep_the_promises_of_their_buffers(void **state)
{
    (void)state;
    each_plan(12, look_at_values);
}

static void half_of_the_elements_meet_the_comparison(void **state)
{
    (void)state;
    for (uint32_t dtype = 0; dtype < GM_DTYPE_COUNT; dtype++)
        for (uint32_t data = GM_OPS_WIDE; data <= GM_OPS_SMALL; data++) {
            struct gm_ops_plan plan;
            uint64_t met = 0;
            make(&plan, GM_SHAPE_SELECT, dtype, (enum gm_ops_data)data, 14);
            assert_int_equal(plan.args.count, GM_COMPARE_lt);
            for (uint64_t i = 0; i < plan.args.n; i++)
                met += number(dtype, gm_ops_value(&plan, 0, i)) < number(dtype, plan.args.value[0]);
            assert_in_range(met, plan.args.n * 45 / 100, plan.args.n * 55 / 100);
            assert_int_equal(gm_ops_moved(&plan, met), (plan.args.n + met) * gm_dtype_bytes(dtype));
        }
}

static void segments_are_about_as_long_as_they_are_said_to_be(void **state)
{
    struct gm_ops_plan plan;
    (void)state;
    make(&plan, GM_SHAPE_SEGMENTED, GM_DTYPE_f32, GM_OPS_WIDE, 16);
    assert_int_equal(plan.args.value[0], (1u << 16) / GM_OPS_SEGMENT);
    for (uint64_t i = 0; i + 1u < plan.args.value[0]; i++) {
        const uint64_t length = gm_ops_value(&plan, 1, i + 1u) - gm_ops_value(&plan, 1, i);
        assert_in_range(length, 1, 2u * GM_OPS_SEGMENT);
    }
    assert_int_equal(plan.args.type2, GM_DTYPE_i32);
    assert_int_equal(plan.step[1], 0);
}

static void types_are_those_that_an_op_is_mostly_used_with(void **state)
{
    struct gm_op_row row = row_of(GM_SHAPE_SCAN);
    (void)state;
    assert_int_equal(gm_ops_types(&row), GM_TYPE(f32));
    row.tolerance = GM_TOLERANCE_SUM;
    assert_int_equal(gm_ops_types(&row), GM_TYPE(f32) | GM_TYPE(i32));
    row = row_of(GM_SHAPE_CHANNELS);
    assert_int_equal(gm_ops_types(&row), GM_TYPE(f32) | GM_TYPE(u8));
    row = row_of(GM_SHAPE_MAP);
    row.types = GM_TYPE(u8) | GM_TYPE(u32);
    assert_int_equal(gm_ops_types(&row), GM_TYPE(u32));
    row.types = GM_TYPE(i64) | GM_TYPE(u64);
    assert_int_equal(gm_ops_types(&row), GM_TYPE(u64));
    row.types = GM_NO_TYPES;
    assert_int_equal(gm_ops_types(&row), 0);
}

static void figures_are_named_by_op_type_and_size(void **state)
{
    struct gm_ops_plan plan;
    char name[64];
    enum gm_complaint complaint;
    const struct gm_op_row sum = gm_op_row(GM_OP_sum), nop = gm_op_row(GM_OP_nop);
    (void)state;
    assert_true(gm_ops_plan_make(&plan, "sum", &sum, GM_DTYPE_f32, GM_OPS_WIDE, 20, ROTATED, &complaint));
    gm_ops_figure_name(name, sizeof name, "peer_", &plan, "");
    assert_string_equal(name, "peer_op_sum_f32_20");
    gm_ops_figure_name(name, sizeof name, "", &plan, "_turn");
    assert_string_equal(name, "op_sum_f32_20_turn");
    assert_int_equal(gm_ops_moved(&plan, 5), 4u << 20);
    assert_true(gm_ops_plan_make(&plan, "nop", &nop, 0, GM_OPS_WIDE, 20, ROTATED, &complaint));
    gm_ops_figure_name(name, sizeof name, "", &plan, "");
    assert_string_equal(name, "op_nop");
    struct gm_op_row i64 = gm_op_row(GM_OP_sum);
    i64.types = GM_TYPE(i64);
    assert_false(gm_ops_plan_make(&plan, "sum", &i64, GM_DTYPE_f32, GM_OPS_WIDE, 20, ROTATED, &complaint));
    assert_int_equal(complaint, GM_COMPLAINT_DTYPE);
}

/* ---- filling ---- */

struct filled {
    const uint8_t *chunk;
    uint8_t *to;
    uint64_t bytes, repeated, puts, fails_at;
};

static bool put(void *context, bool repeated, uint64_t from, uint64_t to, uint64_t bytes)
{
    struct filled *f = context;
    const bool fits = bytes <= f->bytes && to <= f->bytes - bytes;
    assert_true(fits && (!repeated || from + bytes <= to)); /* copy jobs whose buffers do not overlap */
    memcpy(f->to + to, (repeated ? f->to : f->chunk) + from, bytes);
    f->repeated += repeated ? bytes : 0;
    return ++f->puts != f->fails_at;
}

static void buffers_are_filled_chunk_by_chunk(void **state)
{
    static uint8_t to[40000];
    uint8_t chunk[1000];
    struct gm_ops_plan plan;
    (void)state;
    make(&plan, GM_SHAPE_SEGMENTED, GM_DTYPE_f32, GM_OPS_WIDE, 12);
    for (uint32_t i = 0; i < plan.row.inputs; i++) {
        struct filled f = {.chunk = chunk, .to = to, .bytes = plan.bytes[i]};
        const uint32_t element = gm_buffer_element(&plan.row, i, &plan.args);
        assert_true(f.bytes <= sizeof to);
        assert_true(gm_ops_fill(&plan, i, f.bytes, chunk, sizeof chunk, put, &f));
        assert_int_equal(f.puts, (f.bytes + sizeof chunk - 1u) / sizeof chunk);
        for (uint64_t k = 0; k < f.bytes / element; k++) {
            const uint64_t bits = gm_ops_value(&plan, i, k);
            assert_memory_equal(to + k * element, &bits, element);
        }
    }
    struct filled f = {.chunk = chunk, .to = to, .bytes = plan.bytes[0], .fails_at = 2};
    assert_false(gm_ops_fill(&plan, 0, f.bytes, chunk, sizeof chunk, put, &f));
    assert_int_equal(f.puts, 2);
}

static void random_data_is_made_for_one_block_and_repeats(void **state)
{
    const uint64_t count = 3u * GM_OPS_BLOCK + 5u, looked_at = 1000;
    struct gm_ops_plan plan;
    enum gm_complaint complaint;
    const struct gm_op_row row = row_of(GM_SHAPE_REDUCE);
    uint8_t *chunk = malloc(UINT64_C(1) << 20);
    struct filled f = {.chunk = chunk, .to = malloc(count), .bytes = count};
    (void)state;
    assert_non_null(chunk);
    assert_non_null(f.to);
    assert_true(gm_ops_plan_sized(&plan, "shape", &row, GM_DTYPE_u8, GM_OPS_WIDE, count, 0, &complaint));
    assert_int_equal(plan.bytes[0], count);
    assert_true(gm_ops_fill(&plan, 0, count, chunk, UINT64_C(1) << 20, put, &f));
    assert_int_equal(f.repeated, count - GM_OPS_BLOCK);
    for (uint64_t k = count - looked_at; k < count; k++)
        assert_int_equal(f.to[k], gm_ops_value(&plan, 0, k));
    assert_memory_equal(f.to + 2u * GM_OPS_BLOCK, f.to, GM_OPS_BLOCK);
    free(chunk);
    free(f.to);
}

static void sizes_need_not_be_powers_of_two(void **state)
{
    static const uint64_t sizes[] = {1, 2, 3, 1000, 1003, 65536 * 3};
    struct gm_ops_plan plan;
    enum gm_complaint complaint;
    (void)state;
    for (uint32_t shape = GM_SHAPE_NONE + 1; shape < GM_SHAPE_COUNT; shape++)
        for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            const struct gm_op_row row = row_of(shape);
            const uint32_t element = shape == GM_SHAPE_CHANNELS ? GM_OPS_CHANNELS : 1u;
            assert_true(gm_ops_plan_sized(&plan, "shape", &row, GM_DTYPE_f32, GM_OPS_WIDE, sizes[i], 9, &complaint));
            assert_int_equal(plan.bytes[0], sizes[i] / element * element * 4u);
            assert_int_equal(plan.places, 1);
            if (row.args >> GM_A_bins & 1u)
                assert_int_equal(plan.args.count, 9);
        }
    const struct gm_op_row stencil = row_of(GM_SHAPE_STENCIL5);
    assert_true(gm_ops_plan_sized(&plan, "shape", &stencil, GM_DTYPE_f32, GM_OPS_WIDE, 3u << 16, 0, &complaint));
    assert_int_equal(plan.args.value[0], 512);
    assert_true(gm_ops_plan_sized(&plan, "shape", &stencil, GM_DTYPE_f32, GM_OPS_WIDE, 1001u * 8u, 0, &complaint));
    assert_int_equal(plan.args.value[0], 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_has_arguments_that_are_accepted),
        cmocka_unit_test(values_keep_the_promises_of_their_buffers),
        cmocka_unit_test(half_of_the_elements_meet_the_comparison),
        cmocka_unit_test(segments_are_about_as_long_as_they_are_said_to_be),
        cmocka_unit_test(types_are_those_that_an_op_is_mostly_used_with),
        cmocka_unit_test(figures_are_named_by_op_type_and_size),
        cmocka_unit_test(buffers_are_filled_chunk_by_chunk),
        cmocka_unit_test(random_data_is_made_for_one_block_and_repeats),
        cmocka_unit_test(sizes_need_not_be_powers_of_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
