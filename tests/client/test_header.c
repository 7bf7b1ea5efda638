/* SPDX-License-Identifier: Apache-2.0
 *
 * The installed header against the tables of the protocol: same names, same numbers, nothing missing. Includes
 * gridmill.h alone, as a program does, and then the tables as data.
 */
#include "gridmill.h"

#include <assert.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define E(name, number, retriable, text) static_assert(GM_##name == (number), #name " has its number");
#include "errors.def"
#undef E

static const struct {
    const char *name, *text;
    int number, retriable;
} errors[] = {
#define E(name, number, retriable, text) {"GM_" #name, text, number, retriable},
#include "errors.def"
#undef E
};
#define ERRORS (sizeof errors / sizeof *errors)

static const struct {
    const char *name;
    uint32_t id, bytes;
} dtypes[] = {
#define D(name, id, bytes, kind) {#name, id, bytes},
#include "dtypes.def"
#undef D
};

static void statuses_are_those_of_the_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < ERRORS; i++) {
        assert_string_equal(errors[i].name, gm_status_name(errors[i].number));
        assert_string_equal(errors[i].text, gm_strerror(errors[i].number));
        assert_int_equal(errors[i].retriable, gm_retriable(errors[i].number));
    }
    assert_string_equal("GM_E?", gm_status_name(1));
    assert_string_equal("GM_E?", gm_status_name(-(int)ERRORS));
    assert_false(gm_retriable(-1000));
    assert_non_null(gm_strerror(-1000));
    /* The last one of the header is the last one of the table. */
    assert_int_equal(GM_EAGAIN, errors[ERRORS - 1].number);
}

static void elements_are_those_of_the_table(void **state)
{
    static const uint32_t listed[] = {GM_U8,  GM_I8,  GM_U32,  GM_I32, GM_U64,
                                      GM_I64, GM_F16, GM_BF16, GM_F32, GM_F64};

    (void)state;
    assert_int_equal(sizeof listed / sizeof *listed, sizeof dtypes / sizeof *dtypes);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        assert_int_equal(dtypes[i].id, listed[i]);
        assert_string_equal(dtypes[i].name, gm_element_name(listed[i]));
        assert_int_equal(dtypes[i].id, gm_element_by_name(dtypes[i].name));
        assert_int_equal(dtypes[i].bytes, gm_element_bytes(listed[i]));
    }
    assert_null(gm_element_name(GM_NO_ELEMENT));
    assert_int_equal(0, gm_element_bytes(GM_NO_ELEMENT));
    assert_int_equal(-1, gm_element_by_name("f31"));
    assert_int_equal(-1, gm_element_by_name(NULL));
}

static void version_is_that_of_the_header(void **state)
{
    char text[32];

    (void)state;
    snprintf(text, sizeof text, "%d.%d.%d", GM_VERSION_MAJOR, GM_VERSION_MINOR, GM_VERSION_PATCH);
    assert_string_equal(text, gm_version());
}

static void deadlines_saturate(void **state)
{
    (void)state;
    const uint64_t now = gm_now_ns();
    assert_true(gm_deadline_in(0) >= now);
    assert_true(gm_deadline_in(1000000000u) >= now + 1000000000u);
    assert_true(gm_deadline_in(UINT64_MAX) == GM_NO_DEADLINE);
    assert_true(gm_deadline_in(UINT64_MAX - 1) == GM_NO_DEADLINE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses_are_those_of_the_table),
        cmocka_unit_test(elements_are_those_of_the_table),
        cmocka_unit_test(version_is_that_of_the_header),
        cmocka_unit_test(deadlines_saturate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
