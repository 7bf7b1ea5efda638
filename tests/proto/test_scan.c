/* SPDX-License-Identifier: Apache-2.0
 *
 * The scan: depth and items are bounded exactly, whatever counts a message claims, and every kind of item is measured
 * right. One thread; no message here is longer than 8 KiB.
 */
#include "message.h"

static void expect_scan(const struct message *m, int code)
{
    struct gm_problem problem;
    const int rc = scan(m, m->out.size, &problem);
    if (rc != code)
        fail_msg("%s (%s) instead of %s", gm_error_name(rc), problem.text, gm_error_name(code));
}

static void expect_raw(const void *bytes, size_t size, int code)
{
    struct message m;
    message_clear(&m);
    message_raw(&m, bytes, size);
    expect_scan(&m, code);
}

static void counts_that_are_not_there_are_too_many_items(void **state)
{
    (void)state;
    expect_raw("\xdf\x0f\xff\xff\xff", 5, GM_ETOOMANY);
    expect_raw("\xdd\x0f\xff\xff\xff", 5, GM_ETOOMANY);
    expect_raw("\xdf\xff\xff\xff\xff", 5, GM_ETOOMANY);
    expect_raw("\xdd\xff\xff\xff\xff", 5, GM_ETOOMANY);
    expect_raw("\xdc\xff\xff", 3, GM_ETOOMANY);
    /* Every level within its own bound, the total beyond: 8 arrays of 1000, each the first element of the other. */
    expect_raw("\xdc\x03\xe8\xdc\x03\xe8\xdc\x03\xe8\xdc\x03\xe8\xdc\x03\xe8\xdc\x03\xe8", 18, GM_ETOOMANY);
}

static void lengths_that_are_not_there_are_malformed(void **state)
{
    (void)state;
    expect_raw("\xdb\xff\xff\xff\xff", 5, GM_EPROTO);
    expect_raw("\xc6\xff\xff\xff\xff", 5, GM_EPROTO);
    expect_raw("\xc9\xff\xff\xff\xff\x01", 6, GM_EPROTO);
    expect_raw("\xa5gril", 5, GM_EPROTO);
    expect_raw("", 0, GM_EPROTO);
    expect_raw("\xc1", 1, GM_EPROTO);
    expect_raw("\x92\x01\xc1", 3, GM_EPROTO);
}

static void items_are_bounded_exactly(void **state)
{
    (void)state;
    static const struct {
        uint32_t children;
        bool is_map;
        int code;
    } cases[] = {
        {GM_MSGPACK_ITEMS_MAX - 1, false, GM_OK},
        {GM_MSGPACK_ITEMS_MAX, false, GM_ETOOMANY},
        {(GM_MSGPACK_ITEMS_MAX - 1) / 2, true, GM_OK},
        {GM_MSGPACK_ITEMS_MAX / 2, true, GM_ETOOMANY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct message m;
        const uint32_t items = cases[i].is_map ? 2 * cases[i].children : cases[i].children;
        message_clear(&m);
        if (cases[i].is_map)
            gm_wire_put_map(&m.out, cases[i].children);
        else
            gm_wire_put_array(&m.out, cases[i].children);
        for (uint32_t k = 0; k < items; k++)
            gm_wire_put_nil(&m.out);
        assert_false(m.out.overflow);
        expect_scan(&m, cases[i].code);
    }
}

static void depth_is_bounded_exactly(void **state)
{
    (void)state;
    for (uint32_t is_map = 0; is_map < 2; is_map++) {
        for (uint32_t depth = 1; depth <= 64; depth++) {
            struct message m;
            message_clear(&m);
            for (uint32_t i = 0; i < depth; i++)
                message_raw(&m, is_map ? "\x81\xc0" : "\x91", is_map ? 2 : 1);
            gm_wire_put_nil(&m.out);
            expect_scan(&m, depth <= GM_MSGPACK_DEPTH_MAX ? GM_OK : GM_ETOODEEP);
        }
    }
}

static void depth_counts_open_containers_only(void **state)
{
    (void)state;
    struct message m;
    message_clear(&m);
    gm_wire_put_array(&m.out, 100);
    for (uint32_t i = 0; i < 100; i++)
        message_raw(&m, "\x91\x91\x91\x91\x91\x91\x90", 7); /* each 8 deep with the outer one, then back */
    expect_scan(&m, GM_OK);
}

static void bytes_after_the_message_are_malformed(void **state)
{
    (void)state;
    expect_raw("\xc0\xc0", 2, GM_EPROTO);
    expect_raw("\x90\x00", 2, GM_EPROTO);
    expect_raw("\x91\xc0\xc1", 3, GM_EPROTO);
}

/* Every first byte with as many zero bytes behind it as its kind needs. */
static size_t bytes_behind(uint32_t first)
{
    static const uint8_t behind[] = {
        1, 2, 4,       /* bin: of length zero */
        2, 3, 5,       /* ext: length zero and a type */
        4, 8, 1, 2, 4, 8, 1, 2, 4, 8,
        2, 3, 5, 9, 17, /* fixext: a type and the bytes */
        1, 2, 4, 2, 4, 2, 4,
    };
    if (first < 0x80 || first >= 0xe0)
        return 0;
    if (first < 0xc0)
        return first < 0x90 ? 2 * (first & 15u) : first < 0xa0 ? first & 15u : first & 31u;
    return first < 0xc4 ? 0 : behind[first - 0xc4];
}

static void every_first_byte_is_measured(void **state)
{
    (void)state;
    for (uint32_t first = 0; first < 256; first++) {
        struct gm_problem problem;
        struct message m;
        message_clear(&m);
        memset(m.bytes, 0, sizeof m.bytes);
        m.bytes[0] = (uint8_t)first;
        const size_t size = 1 + bytes_behind(first);
        for (size_t cut = 0; cut < size; cut++)
            assert_int_equal(scan(&m, cut, &problem), GM_EPROTO);
        assert_int_equal(scan(&m, size, &problem), first == 0xc1 ? GM_EPROTO : GM_OK);
        assert_int_equal(scan(&m, size + 1, &problem), GM_EPROTO);
    }
}

static void integers_read_as_their_value(void **state)
{
    (void)state;
    static const int64_t values[] = {0,     1,     127,   128,        255,       256,         65535,     65536,
                                     -1,    -32,   -33,   -128,       -129,      -32768,      -32769,    INT32_MIN,
                                     INT32_MAX, INT64_MIN, INT64_MAX, (int64_t)INT32_MIN - 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct message m;
        struct gm_item item;
        message_clear(&m);
        gm_wire_put_i64(&m.out, values[i]);
        struct gm_cursor c = {m.bytes, m.bytes + m.out.size};
        assert_true(gm_cursor_next(&c, &item));
        assert_int_equal(item.type, values[i] < 0 ? GM_ITEM_INT : GM_ITEM_UINT);
        assert_int_equal((int64_t)item.u, values[i]);
        assert_ptr_equal(c.at, c.end);
    }
    /* A positive number in a signed form is unsigned like any other. */
    static const uint8_t signed_one[] = {0xd3, 0, 0, 0, 0, 0, 0, 0, 1};
    struct gm_cursor c = {signed_one, signed_one + sizeof signed_one};
    struct gm_item item;
    assert_true(gm_cursor_next(&c, &item));
    assert_int_equal(item.type, GM_ITEM_UINT);
    assert_int_equal(item.u, 1);
}

static void skip_passes_a_whole_value(void **state)
{
    (void)state;
    static const char nested[] = "\x93\x81\xa1k\x92\x01\xc4\x02zz\xc0\xcb\x00\x00\x00\x00\x00\x00\x00\x00\x05";
    struct gm_cursor c = {(const uint8_t *)nested, (const uint8_t *)nested + sizeof nested - 1};
    assert_true(gm_cursor_skip(&c));
    assert_int_equal(c.end - c.at, 1);
    assert_true(gm_cursor_skip(&c));
    assert_false(gm_cursor_skip(&c));
    static const char claims[] = "\xdf\xff\xff\xff\xff\x01";
    c = (struct gm_cursor){(const uint8_t *)claims, (const uint8_t *)claims + sizeof claims - 1};
    assert_false(gm_cursor_skip(&c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_that_are_not_there_are_too_many_items),
        cmocka_unit_test(lengths_that_are_not_there_are_malformed),
        cmocka_unit_test(items_are_bounded_exactly),
        cmocka_unit_test(depth_is_bounded_exactly),
        cmocka_unit_test(depth_counts_open_containers_only),
        cmocka_unit_test(bytes_after_the_message_are_malformed),
        cmocka_unit_test(every_first_byte_is_measured),
        cmocka_unit_test(integers_read_as_their_value),
        cmocka_unit_test(skip_passes_a_whole_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
