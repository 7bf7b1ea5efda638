/* SPDX-License-Identifier: Apache-2.0
 *
 * Headers of .npy files: what NumPy writes, what it could write, and what nobody should.
 */
#include "npy.h"

#include "gridmill.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A file of this version with this dictionary, padded as NumPy does. */
static size_t make(uint8_t *out, int version, const char *dictionary)
{
    const size_t prefix = version == 1 ? 10 : 12, length = strlen(dictionary);
    const size_t total = (prefix + length + 1 + 63) & ~(size_t)63;

    memset(out, ' ', total);
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (uint8_t)version;
    out[7] = 0;
    out[8] = (uint8_t)((total - prefix) & 0xff);
    out[9] = (uint8_t)((total - prefix) >> 8);
    if (version > 1)
        out[10] = out[11] = 0;
    memcpy(out + prefix, dictionary, length);
    out[total - 1] = '\n';
    return total;
}

static int parse(int version, const char *dictionary, struct npy *npy, const char **why)
{
    uint8_t bytes[1024];
    const size_t size = make(bytes, version, dictionary);
    /* A copy of exactly this size, so that a sanitizer sees every step too far. */
    uint8_t *const copy = malloc(size);

    assert_non_null(copy);
    memcpy(copy, bytes, size);
    const int rc = npy_parse(copy, size, npy, why);
    free(copy);
    return rc;
}

static void headers_of_numpy_are_read(void **state)
{
    static const struct {
        const char *dictionary;
        uint32_t dtype;
        uint64_t n;
        uint32_t dimensions;
        uint64_t last;
    } good[] = {{"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }", GM_F64, 3, 1, 3},
                {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", GM_F32, 12, 2, 4},
                {"{'descr': '|u1', 'fortran_order': False, 'shape': (0,), }", GM_U8, 0, 1, 0},
                {"{'descr': '<i8', 'fortran_order': False, 'shape': (), }", GM_I64, 1, 0, 1},
                {"{'descr': '<u4', 'fortran_order': True, 'shape': (7,), }", GM_U32, 7, 1, 7},
                {"{\"shape\": (2,3,), \"descr\":\"<i4\",\"fortran_order\":False}", GM_I32, 6, 2, 3},
                {"{'descr': '<f2', 'fortran_order': False, 'shape': (5,), }", GM_F16, 5, 1, 5},
                {"{'descr': '<u8', 'fortran_order': False, 'shape': (4294967296, 2), }", GM_U64,
                 UINT64_C(8589934592), 2, 2},
                {"{'descr': '>i1', 'fortran_order': False, 'shape': (2,), }", GM_I8, 2, 1, 2}};
    struct npy npy;
    const char *why;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        for (int version = 1; version <= 3; version++) {
            if (parse(version, good[i].dictionary, &npy, &why) != NPY_OK)
                fail_msg("%s: %s", good[i].dictionary, why);
            assert_int_equal(good[i].dtype, npy.dtype);
            assert_int_equal(good[i].n, npy.n);
            assert_int_equal(good[i].dimensions, npy.dimensions);
            assert_int_equal(good[i].last, npy.last);
            assert_int_equal(0, npy.header_bytes % 64);
        }
}

static void what_cannot_be_read_says_why(void **state)
{
    static const struct {
        const char *dictionary, *why;
    } bad[] = {{"{'descr': '>f8', 'fortran_order': False, 'shape': (3,), }", "big-endian"},
               {"{'descr': '<f8', 'fortran_order': True, 'shape': (3, 4), }", "Fortran order"},
               {"{'descr': '<c16', 'fortran_order': False, 'shape': (3,), }", "element type"},
               {"{'descr': '<c8', 'fortran_order': False, 'shape': (3,), }", "element type"},
               {"{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", "element type"},
               {"{'descr': '|O', 'fortran_order': False, 'shape': (3,), }", "element type"},
               {"{'descr': 'zf8', 'fortran_order': False, 'shape': (3,), }", "element type"},
               {"{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (3,), }", "structured"},
               {"{'descr': '<f8', 'fortran_order': Maybe, 'shape': (3,), }", "neither True nor False"},
               {"{'descr': '<f8', 'fortran_order': False, 'shape': (3 4), }", "tuple"},
               {"{'descr': '<f8', 'fortran_order': False, 'shape': (-3,), }", "tuple"},
               {"{'descr': '<f8', 'fortran_order': False, 'shape': 3, }", "tuple"},
               {"{'descr': '<f8', 'fortran_order': False, 'shape': (3,", "tuple"},
               {"{'descr': '<f8', 'fortran_order': False, 'shape': (18446744073709551616,), }", "64 bits"},
               {"{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", "64 bits"},
               {"{'descr': '<f8', 'fortran_order': False, }", "dictionary"},
               {"{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (3,), }", "dictionary"},
               {"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), 'more': 1, }", "dictionary"},
               {"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), } x", "dictionary"},
               {"{'descr: '<f8', 'fortran_order': False, 'shape': (3,), }", "dictionary"},
               {"{'descr", "dictionary"},
               {"", "dictionary"},
               {"{", "dictionary"},
               {"[]", "dictionary"}};
    struct npy npy;
    const char *why;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(NPY_BAD, parse(1, bad[i].dictionary, &npy, &why));
        if (strstr(why, bad[i].why) == NULL)
            fail_msg("%s: %s", bad[i].dictionary, why);
    }
}

static void header_cut_at_any_byte_asks_for_more(void **state)
{
    uint8_t bytes[256];
    struct npy npy;
    const char *why;
    const size_t size = make(bytes, 2, "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }");

    (void)state;
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(NPY_SHORT, npy_parse(bytes, cut, &npy, &why));
    assert_int_equal(NPY_OK, npy_parse(bytes, size, &npy, &why));
    assert_int_equal(NPY_NOT_NPY, npy_parse((const uint8_t *)"PK\3\4", 4, &npy, &why));
    assert_int_equal(NPY_NOT_NPY, npy_parse((const uint8_t *)"1 2 3\n", 6, &npy, &why));
    bytes[6] = 4;
    assert_int_equal(NPY_BAD, npy_parse(bytes, size, &npy, &why));
    bytes[6] = 2;
    bytes[10] = 1; /* 64 KiB more than any header has */
    assert_int_equal(NPY_BAD, npy_parse(bytes, size, &npy, &why));
    assert_string_equal("the header is too long", why);
}

static void too_many_dimensions_are_refused(void **state)
{
    char dictionary[1024];
    struct npy npy;
    const char *why;

    (void)state;
    size_t at = (size_t)snprintf(dictionary, sizeof dictionary, "{'descr': '<f8', 'fortran_order': False, 'shape': (");
    for (unsigned i = 0; i <= NPY_DIMENSIONS_MAX; i++)
        at += (size_t)snprintf(dictionary + at, sizeof dictionary - at, "1, ");
    snprintf(dictionary + at, sizeof dictionary - at, "), }");
    assert_int_equal(NPY_BAD, parse(1, dictionary, &npy, &why));
    assert_string_equal("the array has too many dimensions", why);
}

static void written_headers_are_read_back(void **state)
{
    static const uint64_t counts[] = {0, 1, 1000000, UINT64_MAX};
    uint8_t bytes[128];
    struct npy npy;
    const char *why;

    (void)state;
    for (uint32_t dtype = 0; dtype <= GM_F64; dtype++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            const size_t size = npy_header(dtype, counts[i], bytes);
            if (dtype == GM_BF16) {
                assert_int_equal(0, size);
                continue;
            }
            assert_true(size == 64 || size == 128);
            assert_int_equal(NPY_OK, npy_parse(bytes, size, &npy, &why));
            assert_int_equal(dtype, npy.dtype);
            assert_true(npy.n == counts[i]);
            assert_int_equal(size, npy.header_bytes);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_of_numpy_are_read),        cmocka_unit_test(what_cannot_be_read_says_why),
        cmocka_unit_test(header_cut_at_any_byte_asks_for_more), cmocka_unit_test(too_many_dimensions_are_refused),
        cmocka_unit_test(written_headers_are_read_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
