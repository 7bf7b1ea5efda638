/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables: ids are unique and where the protocol says they are, names find their ids, and the functions made from
 * the tables answer for numbers that are in none of them. One thread, no I/O.
 */
#include "message.h"

#include <limits.h>

#include "control.h"

static void every_error_has_a_name_a_text_and_an_index(void **state)
{
    (void)state;
    bool seen[GM_ERRORS_MAX] = {false};
#define E(name, number, retriable, text)                                                                    \
    assert_true((number) <= 0 && (number) > -GM_ERRORS_MAX);                                                \
    assert_false(seen[-(number)]);                                                                          \
    seen[-(number)] = true;                                                                                 \
    assert_string_equal(gm_error_name(number), #name);                                                      \
    assert_string_equal(gm_error_text(number), text);                                                       \
    assert_int_equal(gm_error_is_retriable(number), retriable);
#include "errors.def"
#undef E
    assert_true(seen[0]);
}

static void unknown_errors_say_so(void **state)
{
    (void)state;
    static const int numbers[] = {1, -GM_ERRORS_MAX, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        assert_string_equal(gm_error_name(numbers[i]), "E?");
        assert_string_equal(gm_error_text(numbers[i]), "unknown error");
        assert_false(gm_error_is_retriable(numbers[i]));
    }
}

static void ops_and_dtypes_are_dense_and_found_by_name(void **state)
{
    (void)state;
    for (uint32_t op = 0; op < GM_OP_COUNT; op++) {
        const char *const name = gm_op_name(op);
        assert_non_null(name);
        assert_true(strlen(name) < GM_NAME_BYTES_MAX);
        assert_true(gm_op_row(op).known);
        assert_non_null(gm_op_help(op));
        assert_non_null(gm_shape_name(gm_op_row(op).shape));
        assert_int_equal(gm_op_by_name(name, strlen(name)), op);
        assert_int_equal(gm_op_by_name(name, strlen(name) - 1), -1);
    }
    for (uint32_t dtype = 0; dtype < GM_DTYPE_COUNT; dtype++) {
        const char *const name = gm_dtype_name(dtype);
        assert_non_null(name);
        assert_int_equal(gm_dtype_by_name(name, strlen(name)), dtype);
    }
    assert_int_equal(gm_op_row(0).shape, GM_SHAPE_NONE);
    assert_string_equal(gm_op_name(0), "nop");
}

static void numbers_outside_of_the_tables_have_no_name(void **state)
{
    (void)state;
    assert_null(gm_op_name(GM_OP_COUNT));
    assert_null(gm_op_help(UINT32_MAX));
    assert_null(gm_dtype_name(GM_DTYPE_COUNT));
    assert_null(gm_shape_name(GM_SHAPE_COUNT));
    assert_null(gm_method_name(GM_METHOD_COUNT));
    assert_false(gm_method_is_admin(GM_METHOD_COUNT));
    assert_false(gm_op_row(GM_OP_COUNT).known);
    assert_int_equal(gm_op_row(GM_DESC_WIDE_MARK).known, 0);
    assert_int_equal(gm_dtype_bytes(GM_DTYPE_COUNT), 0);
    assert_int_equal(gm_dtype_kind(GM_DTYPE_COUNT), 0);
    assert_int_equal(gm_op_by_name("", 0), -1);
    assert_int_equal(gm_dtype_by_name("f32\0", 4), -1);
}

static void op_rows_are_consistent(void **state)
{
    (void)state;
    for (uint32_t op = 0; op < GM_OP_COUNT; op++) {
        const struct gm_op_row row = gm_op_row(op);
        assert_true(row.inputs + row.outputs <= GM_BUFFERS_MAX);
        assert_true((row.types == GM_NO_TYPES) == (row.inputs + row.outputs == 0));
        assert_true((row.types == GM_NO_TYPES) == (row.tile_bytes == 0));
        for (uint32_t dtype = 0; dtype < GM_DTYPE_COUNT; dtype++)
            if ((row.types >> dtype & 1u) != 0)
                assert_int_equal(row.tile_bytes % gm_dtype_bytes(dtype), 0);
    }
}

static void failures_of_jobs_name_the_buffer_that_they_are_about(void **state)
{
    (void)state;
    static const struct {
        uint32_t op;
        int status;
        const char *field, *text;
    } told[] = {
        {GM_OP_gather, GM_EBOUNDS, "in[1]", "in[1] has an index outside 0 to length - 1"},
        {GM_OP_scatter, GM_EBOUNDS, "in[1]", "in[1] has an index outside 0 to length - 1"},
        {GM_OP_segmented_sum, GM_EBOUNDS, "in[1]",
         "in[1] has an offset that is less than the one before it, or outside 0 to n"},
        {GM_OP_histogram_edges, GM_EINVAL, "in[1]", "in[1] has an edge that is NaN or less than the one before it"},
        {GM_OP_min, GM_EEMPTY, "n", "no elements: the result is undefined"},
        {GM_OP_segmented_sum, GM_EOVERFLOW, "", "a result does not fit its type"},
        {GM_OP_gather, GM_EINVAL, "", "invalid argument"},
        {GM_OP_nop, GM_ECANCELLED, "", "cancelled"},
    };
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        const struct gm_op_row row = gm_op_row(told[i].op);
        struct gm_problem problem;
        assert_int_equal(gm_failure_problem(&problem, &row, told[i].status), told[i].status);
        assert_int_equal(problem.code, told[i].status);
        assert_string_equal(problem.field, told[i].field);
        assert_string_equal(problem.text, told[i].text);
    }
}

static void results_widen_by_kind(void **state)
{
    (void)state;
    assert_int_equal(gm_result_dtype(GM_RESULT_WIDE, GM_DTYPE_u8), GM_DTYPE_u64);
    assert_int_equal(gm_result_dtype(GM_RESULT_WIDE, GM_DTYPE_i32), GM_DTYPE_i64);
    assert_int_equal(gm_result_dtype(GM_RESULT_WIDE, GM_DTYPE_f32), GM_DTYPE_f64);
    assert_int_equal(gm_result_dtype(GM_RESULT_SAME, GM_DTYPE_f32), GM_DTYPE_f32);
    assert_int_equal(gm_result_dtype(GM_RESULT_COUNT, GM_DTYPE_f32), GM_DTYPE_u64);
}

static void only_the_last_methods_are_for_admins(void **state)
{
    (void)state;
    for (uint32_t m = 0; m < GM_METHOD_COUNT; m++) {
        assert_true(strlen(gm_method_name(m)) < GM_METHOD_BYTES_MAX);
        assert_int_equal(gm_method_is_admin(m), m == GM_METHOD_DRAIN || m == GM_METHOD_PAUSE);
    }
}

static void a_problem_is_cut_to_its_fields(void **state)
{
    (void)state;
    struct gm_problem problem;
    char text[2 * GM_ERROR_TEXT_MAX], field[2 * GM_FIELD_BYTES_MAX];
    memset(&problem, 0xff, sizeof problem);
    memset(text, 'x', sizeof text), text[sizeof text - 1] = '\0';
    memset(field, 'f', sizeof field), field[sizeof field - 1] = '\0';
    assert_int_equal(gm_problem_set(&problem, GM_EBUSY, field, "%s", text), GM_EBUSY);
    assert_int_equal(problem.code, GM_EBUSY);
    assert_int_equal(strlen(problem.text), GM_ERROR_TEXT_MAX - 1);
    assert_int_equal(strlen(problem.field), GM_FIELD_BYTES_MAX - 1);
    assert_int_equal(gm_problem_set(NULL, GM_EBUSY, "", "nobody wants to know"), GM_EBUSY);
}

static void the_header_of_the_c_library_is_not_hidden_by_ours(void **state)
{
    (void)state;
    static_assert(CHAR_BIT == 8 && UINT_MAX == UINT32_MAX && PATH_MAX >= 255 && IOV_MAX >= 16, "from <limits.h>");
    assert_int_equal(GM_DEVICES_MAX, 16);
}

static void the_region_holds_its_parts_in_order(void **state)
{
    (void)state;
    assert_int_equal(gm_region_notes_offset(), 4096 + GM_SHARES_MAX * 16);
    assert_int_equal(gm_region_journal_offset(0), gm_region_notes_offset() + GM_LANE_TABLE * 64);
    assert_int_equal(gm_region_journal_offset(1), gm_region_journal_offset(0) + GM_LANE0_SLOTS * 4);
    for (uint32_t lane = 1; lane < GM_LANE_TABLE; lane++)
        assert_int_equal(gm_region_journal_offset(lane + 1),
                         gm_region_journal_offset(lane) + GM_CLIENT_LANE_SLOTS_MAX * 4);
    assert_true(gm_region_lane0_offset() >= gm_region_journal_offset(GM_LANE_TABLE));
    assert_int_equal(gm_region_lane0_offset() % 4096, 0);
    assert_int_equal(gm_region_admin_offset() - gm_region_lane0_offset(), gm_lane_bytes(GM_LANE0_SLOTS));
    assert_int_equal(gm_region_bytes() - gm_region_admin_offset(), gm_lane_bytes(GM_ADMIN_SLOTS));
    assert_int_equal(gm_region_bytes() % 4096, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_error_has_a_name_a_text_and_an_index),
        cmocka_unit_test(unknown_errors_say_so),
        cmocka_unit_test(ops_and_dtypes_are_dense_and_found_by_name),
        cmocka_unit_test(numbers_outside_of_the_tables_have_no_name),
        cmocka_unit_test(op_rows_are_consistent),
        cmocka_unit_test(failures_of_jobs_name_the_buffer_that_they_are_about),
        cmocka_unit_test(results_widen_by_kind),
        cmocka_unit_test(only_the_last_methods_are_for_admins),
        cmocka_unit_test(a_problem_is_cut_to_its_fields),
        cmocka_unit_test(the_header_of_the_c_library_is_not_hidden_by_ours),
        cmocka_unit_test(the_region_holds_its_parts_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
