/* SPDX-License-Identifier: Apache-2.0
 *
 * What may be wrong with arguments: for every complaint cases that have it and neighbours that do not, and how many
 * elements of how many bytes every buffer of every shape has, by literal numbers. Rows are made from shapes, so that it
 * does not matter which ops there are. One thread, no I/O.
 */
#include "args.h"
#include "message.h"

#define ONE     UINT64_C(0x3ff0000000000000) /* bits of an f64 */
#define TWO     UINT64_C(0x4000000000000000)
#define LARGEST UINT64_C(0x7fefffffffffffff)
#define LEAST   UINT64_C(0xffefffffffffffff)
#define INFINITE UINT64_C(0x7ff0000000000000)
#define NONE    UINT64_C(0xfff8000000000000) /* a NaN */

static struct gm_op_row row_of(uint32_t shape, uint32_t work, uint32_t result)
{
    struct gm_op_row row = {.types = GM_NUMBER_TYPES, .shape = (uint8_t)shape, .work = (uint8_t)work,
                            .result = (uint8_t)result, .known = 1};
    gm_shape_fill(shape, &row);
    return row;
}

/* ---- Shapes ---- */

/* n 7, bins 5, channels or bins_y 3, length, segments or width 11; f32, and i64 as the second type. */
static const struct gm_args sizes = {.n = 7, .value = {11}, .count = 5, .count2 = 3, .dtype = GM_DTYPE_f32,
                                     .type2 = GM_DTYPE_i64};
#define SHAPE_OF(name) [GM_SHAPE_##name]
static const struct {
    uint32_t inputs, outputs;
    bool wide, same;
    struct {
        uint32_t count, element;
    } buffer[GM_BUFFERS_MAX];
} shapes[] = {
    SHAPE_OF(NONE) = {0, 0, false, false, {{0}}},
    SHAPE_OF(FILL) = {0, 1, true, false, {{7, 4}}},
    SHAPE_OF(MAP) = {1, 1, false, true, {{7, 4}, {7, 4}}},
    SHAPE_OF(REDUCE) = {1, 0, false, false, {{7, 4}}},
    SHAPE_OF(HISTOGRAM) = {1, 1, true, false, {{7, 4}, {5, 8}}},
    SHAPE_OF(SORT) = {1, 1, false, true, {{7, 4}, {7, 4}}},
    SHAPE_OF(GATHER) = {2, 1, true, false, {{11, 4}, {7, 8}, {7, 4}}},
    SHAPE_OF(SCATTER) = {2, 1, true, false, {{7, 4}, {7, 8}, {11, 4}}},
    SHAPE_OF(AXPBY) = {2, 1, true, true, {{7, 4}, {7, 4}, {7, 4}}},
    SHAPE_OF(CAST) = {1, 1, false, false, {{7, 4}, {7, 8}}},
    SHAPE_OF(CLAMP) = {1, 1, true, true, {{7, 4}, {7, 4}}},
    SHAPE_OF(STENCIL) = {1, 1, false, false, {{7, 4}, {7, 4}}},
    SHAPE_OF(WEIGHTED) = {1, 1, true, false, {{7, 4}, {7, 4}}},
    SHAPE_OF(STENCIL5) = {2, 1, true, false, {{7, 4}, {5, 4}, {7, 4}}},
    SHAPE_OF(DOT) = {2, 0, false, false, {{7, 4}, {7, 4}}},
    SHAPE_OF(COUNT_IF) = {1, 0, true, false, {{7, 4}}},
    SHAPE_OF(SEGMENTED) = {2, 1, true, false, {{7, 4}, {12, 8}, {11, 4}}},
    SHAPE_OF(SCAN) = {1, 1, false, true, {{7, 4}, {7, 4}}},
    SHAPE_OF(SEGSCAN) = {2, 1, true, false, {{7, 4}, {12, 8}, {7, 4}}},
    SHAPE_OF(EDGES) = {2, 1, true, false, {{7, 4}, {6, 4}, {5, 8}}},
    SHAPE_OF(CHANNELS) = {1, 1, true, false, {{21, 4}, {15, 8}}},
    SHAPE_OF(HISTOGRAM2) = {2, 1, true, false, {{7, 4}, {7, 4}, {15, 8}}},
    SHAPE_OF(SELECT) = {1, 1, true, false, {{7, 4}, {7, 4}}},
    SHAPE_OF(PARTITION) = {1, 1, true, false, {{7, 4}, {7, 4}}},
    SHAPE_OF(UNIQUE) = {1, 1, false, false, {{7, 4}, {7, 4}}},
    SHAPE_OF(RUNS) = {1, 2, true, false, {{7, 4}, {7, 4}, {7, 8}}},
};
static_assert(sizeof shapes / sizeof *shapes == GM_SHAPE_COUNT, "every shape has its numbers here");

static void every_buffer_of_every_shape_has_its_size(void **state)
{
    (void)state;
    for (uint32_t shape = 0; shape < GM_SHAPE_COUNT; shape++) {
        const struct gm_op_row row = row_of(shape, GM_WORK_GRID, GM_RESULT_NONE);
        if (row.inputs != shapes[shape].inputs || row.outputs != shapes[shape].outputs ||
            (row.wide != 0) != shapes[shape].wide || (row.alias == GM_ALIAS_SAME) != shapes[shape].same)
            fail_msg("%s: %u inputs, %u outputs, wide %u, alias %u", gm_shape_name(shape), row.inputs, row.outputs,
                     row.wide, row.alias);
        for (uint32_t i = 0; i < GM_BUFFERS_MAX; i++) {
            assert_int_equal(row.buffer[i] != 0, i < (uint32_t)row.inputs + row.outputs);
            if (row.buffer[i] == 0)
                continue;
            const uint64_t count = shapes[shape].buffer[i].count, element = shapes[shape].buffer[i].element;
            if (gm_buffer_count(&row, i, &sizes) != count || gm_buffer_element(&row, i, &sizes) != element ||
                gm_buffer_bytes(&row, i, &sizes) != count * element)
                fail_msg("%s, buffer %u: %llu of %u bytes", gm_shape_name(shape), i,
                         (unsigned long long)gm_buffer_count(&row, i, &sizes), gm_buffer_element(&row, i, &sizes));
        }
    }
}

static void the_largest_good_sizes_do_not_overflow(void **state)
{
    (void)state;
    static const uint64_t most = UINT64_C(1) << 40;
    const struct gm_args args = {.n = most, .value = {most}, .count = 1u << 22, .count2 = 4, .dtype = GM_DTYPE_f64,
                                 .type2 = GM_DTYPE_u64};
    const struct {
        uint32_t shape, buffer;
        uint64_t bytes;
    } cases[] = {{GM_SHAPE_CHANNELS, 0, most * 32u}, {GM_SHAPE_CHANNELS, 1, (1u << 24) * 8u},
                 {GM_SHAPE_SEGMENTED, 1, most * 8u + 8u}, {GM_SHAPE_SCATTER, 2, most * 8u},
                 {GM_SHAPE_EDGES, 1, ((1u << 22) + 1u) * 8u}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct gm_op_row row = row_of(cases[i].shape, GM_WORK_GRID, GM_RESULT_NONE);
        assert_true(gm_buffer_bytes(&row, cases[i].buffer, &args) == cases[i].bytes);
    }
}

static void no_shape_takes_two_arguments_of_one_place(void **state)
{
    (void)state;
    for (uint32_t shape = 0; shape < GM_SHAPE_COUNT; shape++) {
        const struct gm_op_row row = row_of(shape, GM_WORK_GRID, GM_RESULT_NONE);
        assert_int_equal(__builtin_popcount(row.args), __builtin_popcount(row.places));
        assert_int_equal(row.types2 != GM_NO_TYPES, row.places >> GM_AT_TYPE2 & 1u);
    }
}

/* ---- Complaints ---- */

#define T .dtype = GM_DTYPE_f32
#define HISTOGRAM(...) {T, .value = {ONE, TWO}, .count = 4, __VA_ARGS__}
#define HISTOGRAM2(...) {T, .value = {ONE, TWO, ONE, TWO}, .count = 4, .count2 = 2, __VA_ARGS__}
#define CHANNELS(...) {T, .value = {ONE, TWO}, .count = 4, .count2 = 2, __VA_ARGS__}
#define OTHER(shape) GM_SHAPE_##shape, GM_WORK_GRID, GM_RESULT_NONE
#define LIMIT (UINT64_C(1) << 40)
#define MOST_BINS (1u << 24)

/* A complaint, whose it is, what is wrong, and what differs a little and is right. */
static const struct complaint_case {
    enum gm_complaint complaint;
    uint32_t shape, work, result;
    struct gm_args wrong, right;
} complaints[] = {
    {GM_COMPLAINT_DTYPE, OTHER(MAP), {.dtype = GM_DTYPE_u8}, {.dtype = GM_DTYPE_u32}},
    {GM_COMPLAINT_DTYPE, OTHER(MAP), {.dtype = GM_DTYPE_f16}, {.dtype = GM_DTYPE_f64}},
    {GM_COMPLAINT_DTYPE, OTHER(MAP), {.dtype = 32 + GM_DTYPE_f32}, {T}},
    {GM_COMPLAINT_DTYPE, OTHER(MAP), {.dtype = 255}, {.dtype = GM_DTYPE_i32}},
    {GM_COMPLAINT_N, OTHER(MAP), {T, .n = LIMIT + 1}, {T, .n = LIMIT}},
    {GM_COMPLAINT_N, OTHER(MAP), {T, .n = UINT64_MAX}, {T}},
    {GM_COMPLAINT_EMPTY, GM_SHAPE_REDUCE, GM_WORK_REDUCE, GM_RESULT_SAME, {T}, {T, .n = 1}},
    {GM_COMPLAINT_EMPTY, GM_SHAPE_REDUCE, GM_WORK_REDUCE, GM_RESULT_INDEX, {T}, {T, .n = 1}},
    {GM_COMPLAINT_DESCENDING, OTHER(SCAN), {T, .flags = GM_FLAG_DESCENDING}, {T, .flags = GM_FLAG_EXCLUSIVE}},
    {GM_COMPLAINT_DESCENDING, OTHER(MAP), {T, .flags = GM_FLAG_DESCENDING}, {T}},
    {GM_COMPLAINT_EXCLUSIVE, OTHER(SORT), {T, .flags = GM_FLAG_EXCLUSIVE}, {T, .flags = GM_FLAG_DESCENDING}},
    {GM_COMPLAINT_FLAGS, OTHER(SORT), {T, .flags = 8}, {T, .flags = 2}},
    {GM_COMPLAINT_FLAGS, OTHER(SORT), {T, .flags = 128}, {T}},
    {GM_COMPLAINT_FLAGS, OTHER(MAP), {T, .flags = GM_FLAG_WIDE}, {T}},
    {GM_COMPLAINT_UNUSED, OTHER(MAP), {T, .value = {1}}, {T}},
    {GM_COMPLAINT_UNUSED, OTHER(FILL), {T, .value = {0, 1}}, {T, .value = {1}}},
    {GM_COMPLAINT_UNUSED, OTHER(AXPBY), {T, .value = {0, 0, 1}}, {T, .value = {1, 1}}},
    {GM_COMPLAINT_UNUSED, OTHER(WEIGHTED), {T, .value = {0, 0, 0, 1}}, {T, .value = {1, 1, 1}}},
    {GM_COMPLAINT_UNUSED, OTHER(MAP), {T, .count = 1}, {T}},
    {GM_COMPLAINT_UNUSED, OTHER(HISTOGRAM), HISTOGRAM(.count2 = 1), HISTOGRAM(.n = 1)},
    {GM_COMPLAINT_UNUSED, OTHER(SORT), {T, .type2 = GM_DTYPE_i64}, {T}},
    {GM_COMPLAINT_BINS, OTHER(HISTOGRAM), {T, .value = {ONE, TWO}}, {T, .value = {ONE, TWO}, .count = 1}},
    {GM_COMPLAINT_BINS, OTHER(HISTOGRAM), {T, .value = {ONE, TWO}, .count = MOST_BINS + 1},
     {T, .value = {ONE, TWO}, .count = MOST_BINS}},
    {GM_COMPLAINT_BINS, OTHER(EDGES), {T, .count = MOST_BINS + 1}, {T, .count = 1}},
    {GM_COMPLAINT_EDGES, OTHER(EDGES), {T, .count = 65537}, {T, .count = 65536}},
    {GM_COMPLAINT_BINS, OTHER(HISTOGRAM2), {T, .value = {ONE, TWO, ONE, TWO}, .count2 = 1}, HISTOGRAM2(.n = 0)},
    {GM_COMPLAINT_BINS, OTHER(CHANNELS), {T, .value = {ONE, TWO}, .count2 = 1}, CHANNELS(.n = 0)},
    {GM_COMPLAINT_LO, OTHER(HISTOGRAM), {T, .value = {NONE, TWO}, .count = 4}, HISTOGRAM(.n = 1)},
    {GM_COMPLAINT_LO, OTHER(CHANNELS), {T, .value = {INFINITE, TWO}, .count = 4, .count2 = 4}, CHANNELS(.n = 1)},
    {GM_COMPLAINT_HI, OTHER(HISTOGRAM), {T, .value = {ONE, INFINITE}, .count = 4},
     {T, .value = {ONE, LARGEST}, .count = 4}},
    {GM_COMPLAINT_HI, OTHER(HISTOGRAM2), {T, .value = {ONE, NONE, ONE, TWO}, .count = 4, .count2 = 2},
     HISTOGRAM2(.n = 1)},
    {GM_COMPLAINT_ORDER, OTHER(HISTOGRAM), {T, .value = {ONE, ONE}, .count = 4},
     {T, .value = {ONE, ONE + 1}, .count = 4}},
    {GM_COMPLAINT_ORDER, OTHER(HISTOGRAM), {T, .value = {TWO, ONE}, .count = 4},
     {T, .value = {0, ONE}, .count = 4}},
    {GM_COMPLAINT_RANGE, OTHER(HISTOGRAM), {T, .value = {LEAST, LARGEST}, .count = 4},
     {T, .value = {LEAST, 0}, .count = 4}},
    {GM_COMPLAINT_BINS_Y, OTHER(HISTOGRAM2), {T, .value = {ONE, TWO, ONE, TWO}, .count = 4}, HISTOGRAM2(.n = 1)},
    {GM_COMPLAINT_BINS_Y, OTHER(HISTOGRAM2), {T, .value = {ONE, TWO, ONE, TWO}, .count = 1, .count2 = MOST_BINS},
     {T, .value = {ONE, TWO, ONE, TWO}, .count = 1, .count2 = MOST_BINS - 1}},
    {GM_COMPLAINT_BINS_XY, OTHER(HISTOGRAM2), {T, .value = {ONE, TWO, ONE, TWO}, .count = 4096, .count2 = 4097},
     {T, .value = {ONE, TWO, ONE, TWO}, .count = 4096, .count2 = 4096}},
    {GM_COMPLAINT_BINS_XY, OTHER(HISTOGRAM2), {T, .value = {ONE, TWO, ONE, TWO}, .count = 65536, .count2 = 65536},
     {T, .value = {ONE, TWO, ONE, TWO}, .count = MOST_BINS, .count2 = 1}},
    {GM_COMPLAINT_LO_Y, OTHER(HISTOGRAM2), {T, .value = {ONE, TWO, NONE, TWO}, .count = 4, .count2 = 2},
     HISTOGRAM2(.n = 1)},
    {GM_COMPLAINT_HI_Y, OTHER(HISTOGRAM2), {T, .value = {ONE, TWO, ONE, INFINITE}, .count = 4, .count2 = 2},
     {T, .value = {ONE, TWO, ONE, LARGEST}, .count = 4, .count2 = 2}},
    {GM_COMPLAINT_ORDER_Y, OTHER(HISTOGRAM2), {T, .value = {ONE, TWO, TWO, TWO}, .count = 4, .count2 = 2},
     {T, .value = {ONE, TWO, TWO - 1, TWO}, .count = 4, .count2 = 2}},
    {GM_COMPLAINT_RANGE_Y, OTHER(HISTOGRAM2), {T, .value = {ONE, TWO, LEAST, LARGEST}, .count = 4, .count2 = 2},
     {T, .value = {LEAST, 0, 0, LARGEST}, .count = 4, .count2 = 2}},
    {GM_COMPLAINT_CHANNELS, OTHER(CHANNELS), {T, .value = {ONE, TWO}, .count = 4},
     {T, .value = {ONE, TWO}, .count = 4, .count2 = 1}},
    {GM_COMPLAINT_CHANNELS, OTHER(CHANNELS), {T, .value = {ONE, TWO}, .count = 4, .count2 = 5},
     {T, .value = {ONE, TWO}, .count = 4, .count2 = 4}},
    {GM_COMPLAINT_CELLS, OTHER(CHANNELS), {T, .value = {ONE, TWO}, .count = MOST_BINS / 4 + 1, .count2 = 4},
     {T, .value = {ONE, TWO}, .count = MOST_BINS / 4, .count2 = 4}},
    {GM_COMPLAINT_CELLS, OTHER(CHANNELS), {T, .value = {ONE, TWO}, .count = MOST_BINS, .count2 = 2},
     {T, .value = {ONE, TWO}, .count = MOST_BINS, .count2 = 1}},
    {GM_COMPLAINT_COMPARE, OTHER(COUNT_IF), {T, .count = 8}, {T, .count = 7}},
    {GM_COMPLAINT_COMPARE, OTHER(SELECT), {T, .count = UINT32_MAX}, {T}},
    {GM_COMPLAINT_HIGH, OTHER(COUNT_IF), {T, .count = 5, .value = {1, 1}}, {T, .count = 6, .value = {1, 1}}},
    {GM_COMPLAINT_HIGH, OTHER(PARTITION), {T, .value = {0, 1}}, {T, .count = 7, .value = {0, 1}}},
    {GM_COMPLAINT_LENGTH, OTHER(GATHER), {T, .type2 = GM_DTYPE_u32, .value = {LIMIT + 1}},
     {T, .type2 = GM_DTYPE_u32, .value = {LIMIT}}},
    {GM_COMPLAINT_LENGTH, OTHER(SCATTER), {T, .type2 = GM_DTYPE_u32, .value = {UINT64_MAX}},
     {T, .type2 = GM_DTYPE_u32}},
    {GM_COMPLAINT_SEGMENTS, OTHER(SEGMENTED), {T, .type2 = GM_DTYPE_i32, .value = {LIMIT + 1}},
     {T, .type2 = GM_DTYPE_i32, .value = {LIMIT}}},
    {GM_COMPLAINT_SEGMENTS, OTHER(SEGSCAN), {T, .type2 = GM_DTYPE_i32, .value = {UINT64_MAX}},
     {T, .type2 = GM_DTYPE_i32, .flags = GM_FLAG_EXCLUSIVE}},
    {GM_COMPLAINT_WIDTH, OTHER(STENCIL5), {T, .n = 6}, {T, .n = 6, .value = {6}}},
    {GM_COMPLAINT_WIDTH, OTHER(STENCIL5), {T, .n = 6, .value = {4}}, {T, .n = 6, .value = {3}}},
    {GM_COMPLAINT_WIDTH, OTHER(STENCIL5), {T, .n = 6, .value = {12}}, {T, .value = {12}}},
    {GM_COMPLAINT_TYPE2, OTHER(CAST), {T, .type2 = GM_DTYPE_COUNT}, {T, .type2 = GM_DTYPE_COUNT - 1}},
    {GM_COMPLAINT_TYPE2, OTHER(SCATTER), {T, .type2 = GM_DTYPE_u8}, {T, .type2 = GM_DTYPE_i32}},
    {GM_COMPLAINT_TYPE2, OTHER(GATHER), {T, .type2 = GM_DTYPE_f32}, {T, .type2 = GM_DTYPE_u64}},
    {GM_COMPLAINT_TYPE2, OTHER(SEGSCAN), {T, .type2 = 32 + GM_DTYPE_u32}, {T, .type2 = GM_DTYPE_u32}},
    {GM_COMPLAINT_TYPE2, OTHER(CAST), {T, .type2 = 255}, {T, .type2 = GM_DTYPE_u64}},
};

static void every_complaint_has_its_cause_and_nothing_else_does(void **state)
{
    (void)state;
    bool seen[GM_COMPLAINT_TYPE2 + 1] = {false};
    for (size_t i = 0; i < sizeof complaints / sizeof *complaints; i++) {
        const struct complaint_case *c = &complaints[i];
        const struct gm_op_row row = row_of(c->shape, c->work, c->result);
        const enum gm_complaint wrong = gm_args_check(&row, &c->wrong), right = gm_args_check(&row, &c->right);
        if (wrong != c->complaint || right != GM_COMPLAINT_NONE)
            fail_msg("case %zu: complaint %d instead of %d, and %d of what is right", i, (int)wrong,
                     (int)c->complaint, (int)right);
        seen[c->complaint] = true;
    }
    for (uint32_t complaint = 1; complaint <= GM_COMPLAINT_TYPE2; complaint++)
        if (!seen[complaint])
            fail_msg("complaint %u has no case", complaint);
}

static void sums_of_nothing_are_no_complaint(void **state)
{
    (void)state;
    static const uint32_t results[] = {GM_RESULT_NONE, GM_RESULT_WIDE, GM_RESULT_COUNT};
    const struct gm_args none = {T};
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        const struct gm_op_row row = row_of(GM_SHAPE_REDUCE, GM_WORK_REDUCE, results[i]);
        assert_int_equal(gm_args_check(&row, &none), GM_COMPLAINT_NONE);
    }
}

static void complaints_have_a_status_a_field_and_a_sentence(void **state)
{
    (void)state;
    static const struct {
        enum gm_complaint complaint;
        int code;
        const char *field, *text;
    } told[] = {
        {GM_COMPLAINT_N, GM_ESIZE, "n", "n is more than 1099511627776"},
        {GM_COMPLAINT_EMPTY, GM_EEMPTY, "n", "n must not be 0: the result would be undefined"},
        {GM_COMPLAINT_BINS, GM_ESIZE, "bins", "bins must be 1 to 16777216"},
        {GM_COMPLAINT_ORDER, GM_EINVAL, "hi", "hi must be more than lo"},
        {GM_COMPLAINT_EDGES, GM_ESIZE, "bins", "bins between edges must be at most 65536"},
        {GM_COMPLAINT_BINS_Y, GM_ESIZE, "bins_y", "bins_y must be 1 to 16777215"},
        {GM_COMPLAINT_BINS_XY, GM_ESIZE, "bins_y", "bins_y times bins must be at most 16777216"},
        {GM_COMPLAINT_CHANNELS, GM_ESIZE, "channels", "channels must be 1 to 4"},
        {GM_COMPLAINT_WIDTH, GM_ESIZE, "width", "width must be at least 1, and n a multiple of it"},
        {GM_COMPLAINT_DTYPE, GM_EDTYPE, "dtype", "dtype is not one that the op takes"},
    };
    struct gm_problem problem;
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        assert_int_equal(gm_complaint_problem(&problem, told[i].complaint), told[i].code);
        assert_int_equal(gm_complaint_status(told[i].complaint), told[i].code);
        assert_int_equal(problem.code, told[i].code);
        assert_string_equal(problem.field, told[i].field);
        assert_string_equal(problem.text, told[i].text);
    }
    for (uint32_t complaint = 1; complaint <= GM_COMPLAINT_TYPE2; complaint++) {
        assert_int_equal(gm_complaint_problem(&problem, complaint), gm_complaint_status(complaint));
        assert_true(problem.code < 0 && strncmp(problem.text, problem.field, strlen(problem.field)) == 0);
    }
    assert_int_equal(gm_complaint_status(GM_COMPLAINT_NONE), GM_OK);
    assert_int_equal(gm_complaint_status((enum gm_complaint)(GM_COMPLAINT_TYPE2 + 1)), GM_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_buffer_of_every_shape_has_its_size),
        cmocka_unit_test(the_largest_good_sizes_do_not_overflow),
        cmocka_unit_test(no_shape_takes_two_arguments_of_one_place),
        cmocka_unit_test(every_complaint_has_its_cause_and_nothing_else_does),
        cmocka_unit_test(sums_of_nothing_are_no_complaint),
        cmocka_unit_test(complaints_have_a_status_a_field_and_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
