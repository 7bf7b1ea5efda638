/* SPDX-License-Identifier: Apache-2.0
 *
 * The methods of lanes and of named arenas: bounds of every key, the two forms of cancel, and their results. One
 * thread, no I/O.
 */
#include "message.h"

#define RAW(text) text, sizeof text - 1

static void put_text(struct message *m, const char *text, size_t size)
{
    assert_true(size < 256);
    message_raw(m, (const uint8_t[]){0xd9, (uint8_t)size}, 2);
    message_raw(m, text, size);
}

static void put_u64(struct message *m, const char *key, uint64_t v)
{
    gm_wire_put_str(&m->out, key);
    gm_wire_put_u64(&m->out, v);
}

static struct gm_wire_request decoded(const struct message *m)
{
    struct gm_wire_request request;
    struct gm_problem problem;
    bool has_id;
    if (decode_request(m, m->out.size, &request, &has_id, &problem) != GM_OK)
        fail_msg("%s field \"%s\" (%s)", gm_error_name(problem.code), problem.field, problem.text);
    return request;
}

/* Every method that takes the name of an arena, with that name. */
static void with_name(struct message *m, uint32_t which, const char *text, size_t size)
{
    static const char *const methods[] = {"arena.create", "arena.attach", "arena.remove"};
    message_begin(m, methods[which], which == 0 ? 2 : 1);
    if (which == 0)
        put_u64(m, "bytes", 1);
    gm_wire_put_str(&m->out, "name");
    put_text(m, text, size);
}

static void names_of_arenas_are_short_utf8_without_separators(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t size;
        int code;
    } names[] = {
        {RAW("w"), GM_OK},
        {RAW("123456789-123456789-123456789-123456789-123456789-123456789-123"), GM_OK},
        {RAW("123456789-123456789-123456789-123456789-123456789-123456789-1234"), GM_ESIZE},
        {RAW(""), GM_ESIZE},
        {RAW("."), GM_OK},
        {RAW("two words"), GM_OK},
        {RAW("\xc3\xa9"), GM_OK},
        {RAW("\xf0\x9f\x98\x80"), GM_OK},
        {RAW("\xc2\xa0"), GM_OK},          /* the first character behind C1 */
        {RAW("a/b"), GM_EINVAL},
        {RAW("/"), GM_EINVAL},
        {RAW("a\0b"), GM_EINVAL},
        {RAW("a\n"), GM_EINVAL},
        {RAW("\x1b[2J"), GM_EINVAL},
        {RAW("\x7f"), GM_EINVAL},
        {RAW("\xc2\x80"), GM_EINVAL},      /* C1 */
        {RAW("a\xc2\x9f"), GM_EINVAL},
        {RAW("\xc2"), GM_EINVAL},
        {RAW("\xff"), GM_EINVAL},
        {RAW("\xed\xa0\x80"), GM_EINVAL},
    };
    for (uint32_t which = 0; which < 3; which++)
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            struct message m;
            with_name(&m, which, names[i].text, names[i].size);
            expect_request(&m, names[i].code, names[i].code == GM_OK ? "" : "name");
        }
}

static void a_name_arrives_whole(void **state)
{
    (void)state;
    struct message m;
    with_name(&m, 0, RAW("caf\xc3\xa9"));
    assert_string_equal(decoded(&m).u.arena_create.name, "caf\xc3\xa9");
    with_name(&m, 1, RAW("b"));
    assert_string_equal(decoded(&m).u.arena_attach.name, "b");
    with_name(&m, 2, RAW("c d"));
    assert_string_equal(decoded(&m).u.arena_remove.name, "c d");
    message_begin(&m, "arena.create", 1);
    put_u64(&m, "bytes", 1);
    assert_string_equal(decoded(&m).u.arena_create.name, "");
}

static void slots_of_a_lane_are_a_power_of_two_in_range(void **state)
{
    (void)state;
    static const struct {
        uint64_t slots;
        int code;
    } cases[] = {
        {0, GM_ESIZE},   {1, GM_ESIZE},   {2, GM_OK},       {3, GM_ESIZE},          {4, GM_OK},
        {256, GM_OK},    {257, GM_ESIZE}, {512, GM_OK},     {1023, GM_ESIZE},       {1024, GM_OK},
        {2048, GM_ESIZE}, {4096, GM_ESIZE}, {UINT64_C(1) << 32 | 4, GM_ESIZE}, {UINT64_C(1) << 63, GM_ESIZE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct message m;
        message_begin(&m, "lane.open", 1);
        put_u64(&m, "slots", cases[i].slots);
        expect_request(&m, cases[i].code, cases[i].code == GM_OK ? "" : "slots");
        if (cases[i].code == GM_OK)
            assert_int_equal(decoded(&m).u.lane_open.slots, cases[i].slots);
    }
}

static void a_lane_may_leave_everything_to_the_daemon(void **state)
{
    (void)state;
    struct message m;
    message_begin(&m, "lane.open", 0);
    const struct gm_wire_request request = decoded(&m);
    assert_int_equal(request.method, GM_METHOD_LANE_OPEN);
    assert_false(request.u.lane_open.has_device);
    assert_int_equal(request.u.lane_open.slots, 0);
}

static void a_lane_names_a_device_that_may_exist(void **state)
{
    (void)state;
    struct message m;
    message_begin(&m, "lane.open", 2);
    put_u64(&m, "slots", 8);
    put_u64(&m, "device", 15);
    assert_true(decoded(&m).u.lane_open.has_device);
    assert_int_equal(decoded(&m).u.lane_open.device, 15);
    message_begin(&m, "lane.open", 1);
    put_u64(&m, "device", 16);
    expect_request(&m, GM_ENODEVICE, "device");
}

static void a_lane_number_has_32_bits(void **state)
{
    (void)state;
    struct message m;
    message_begin(&m, "lane.close", 1);
    put_u64(&m, "lane", UINT32_MAX);
    assert_int_equal(decoded(&m).u.lane_close.lane, UINT32_MAX);
    message_begin(&m, "lane.close", 1);
    put_u64(&m, "lane", UINT64_C(1) << 32);
    expect_request(&m, GM_EINVAL, "lane");
    assert_int_equal(gm_wire_lane(3, 256), 0x30100);
    assert_int_equal(gm_wire_lane_device(0x30100), 3);
    assert_int_equal(gm_wire_lane_index(0x30100), 256);
}

/* Bits of present: id, lane, position. */
static void a_cancel(struct message *m, uint32_t present)
{
    message_begin(m, "cancel", (uint32_t)__builtin_popcount(present));
    if ((present & 4) != 0)
        put_u64(m, "position", UINT64_MAX - 1);
    if ((present & 1) != 0)
        put_u64(m, "id", 5);
    if ((present & 2) != 0)
        put_u64(m, "lane", 0x20001);
}

static void a_cancel_names_a_request_or_a_place_in_a_lane(void **state)
{
    (void)state;
    static const char *const wrong[8] = {"id", NULL, "position", "id", "lane", "id", NULL, "id"};
    struct message m;
    for (uint32_t present = 0; present < 8; present++) {
        a_cancel(&m, present);
        if (wrong[present] != NULL)
            expect_request(&m, GM_EINVAL, wrong[present]);
    }
    a_cancel(&m, 1);
    struct gm_wire_request request = decoded(&m);
    assert_false(request.u.cancel.has_lane);
    assert_int_equal(request.u.cancel.id, 5);
    a_cancel(&m, 6);
    request = decoded(&m);
    assert_true(request.u.cancel.has_lane);
    assert_int_equal(request.u.cancel.lane, 0x20001);
    assert_true(request.u.cancel.position == UINT64_MAX - 1);
}

/* A response [1, 7, nil, {pairs}] from raw bytes. */
static struct gm_wire_response a_response(struct message *m, uint32_t pairs, const char *bytes, size_t size)
{
    struct gm_wire_response response;
    struct gm_problem problem;
    message_clear(m);
    message_raw(m, "\x94\x01\x07\xc0", 4);
    gm_wire_put_map(&m->out, pairs);
    message_raw(m, bytes, size);
    assert_int_equal(gm_wire_decode_response(m->bytes, m->out.size, &response, &problem), GM_OK);
    return response;
}

static void results_are_read_by_key_and_type(void **state)
{
    (void)state;
    struct message m;
    struct gm_problem problem;
    const struct gm_wire_response r =
        a_response(&m, 4, RAW("\xa4skip\xc3\xa4lane\xce\x00\x02\x00\x01\xa4kind\xa6shared\xa4more\x80"));
    uint64_t number = 0;
    bool flag = false;
    char text[8], narrow[4];
    assert_int_equal(gm_wire_result_bool(&r, "skip", &flag, &problem), GM_OK);
    assert_true(flag);
    assert_int_equal(gm_wire_result_u64(&r, "lane", &number, &problem), GM_OK);
    assert_int_equal(number, 0x20001);
    assert_int_equal(gm_wire_result_text(&r, "kind", text, sizeof text, &problem), GM_OK);
    assert_string_equal(text, "shared");
    assert_int_equal(gm_wire_result_text(&r, "kind", narrow, sizeof narrow, &problem), GM_OK);
    assert_string_equal(narrow, "sha");
    assert_int_equal(gm_wire_result_bool(&r, "lane", &flag, &problem), GM_EPROTO);
    assert_string_equal(problem.field, "lane");
    assert_int_equal(gm_wire_result_text(&r, "skip", text, sizeof text, &problem), GM_EPROTO);
    assert_string_equal(problem.field, "skip");
    assert_int_equal(gm_wire_result_bool(&r, "absent", &flag, &problem), GM_EPROTO);
    assert_int_equal(gm_wire_result_text(&r, "absent", text, sizeof text, &problem), GM_EPROTO);
}

#define ROW_SHARED "\x84\xa4name\xa1w\xa5" "bytes\xcd\x10\x00\xa4kind\xa6shared\xa8" "attached\x02"
#define ROW_DEVICE "\x87\xa4name\xa1x\xa5" "bytes\x01\xa4kind\xa6" "device\xa6" "device\x03\xa8" "attached\x00" \
                   "\xa3uid\xcd\x03\xe8\xa3new\xc0"

static void lists_of_arenas_are_read_as_far_as_there_is_room(void **state)
{
    (void)state;
    struct message m;
    struct gm_problem problem;
    struct gm_wire_arena a[2];
    uint32_t count = 9;
    struct gm_wire_response r = a_response(&m, 1, RAW("\xa6" "arenas\x92" ROW_SHARED ROW_DEVICE));
    assert_int_equal(gm_wire_decode_arenas(&r, a, 2, &count, &problem), GM_OK);
    assert_int_equal(count, 2);
    assert_string_equal(a[0].name, "w");
    assert_int_equal(a[0].bytes, 4096);
    assert_false(a[0].device_memory);
    assert_false(a[0].has_uid);
    assert_int_equal(a[0].attached, 2);
    assert_string_equal(a[1].name, "x");
    assert_true(a[1].device_memory);
    assert_int_equal(a[1].device, 3);
    assert_int_equal(a[1].attached, 0);
    assert_true(a[1].has_uid);
    assert_int_equal(a[1].uid, 1000);
    memset(&a[1], 0xee, sizeof a[1]);
    assert_int_equal(gm_wire_decode_arenas(&r, a, 1, &count, &problem), GM_OK);
    assert_int_equal(count, 2);
    assert_int_equal((uint8_t)a[1].name[0], 0xee);
    r = a_response(&m, 1, RAW("\xa6" "arenas\x90"));
    assert_int_equal(gm_wire_decode_arenas(&r, NULL, 0, &count, &problem), GM_OK);
    assert_int_equal(count, 0);
}

static void lists_of_arenas_of_a_wrong_shape_are_malformed(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        const char *field;
    } cases[] = {
        {RAW("\xa5" "arena\x90"), "arenas"},
        {RAW("\xa6" "arenas\x80"), "arenas"},
        {RAW("\xa6" "arenas\x91\xc0"), "result"},
        {RAW("\xa6" "arenas\x91\x80"), "name"},
        {RAW("\xa6" "arenas\x91\x81\xa4name\x01"), "name"},
        {RAW("\xa6" "arenas\x91\x82\xa4name\xa1w\xa5" "bytes\xff"), "bytes"},
        {RAW("\xa6" "arenas\x91\x83\xa4name\xa1w\xa5" "bytes\x01\xa8" "attached\x00"), "kind"},
        {RAW("\xa6" "arenas\x91\x83\xa4name\xa1w\xa5" "bytes\x01\xa4kind\xa6shared"), "attached"},
        {RAW("\xa6" "arenas\x92" ROW_SHARED "\xc0"), "result"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct message m;
        struct gm_problem problem;
        struct gm_wire_arena a[2];
        uint32_t count;
        const struct gm_wire_response r = a_response(&m, 1, cases[i].bytes, cases[i].size);
        const int rc = gm_wire_decode_arenas(&r, a, 2, &count, &problem);
        if (rc != GM_EPROTO || strcmp(problem.field, cases[i].field) != 0)
            fail_msg("case %zu: %s, field \"%s\" (%s)", i, gm_error_name(rc), problem.field, problem.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_arenas_are_short_utf8_without_separators),
        cmocka_unit_test(a_name_arrives_whole),
        cmocka_unit_test(slots_of_a_lane_are_a_power_of_two_in_range),
        cmocka_unit_test(a_lane_may_leave_everything_to_the_daemon),
        cmocka_unit_test(a_lane_names_a_device_that_may_exist),
        cmocka_unit_test(a_lane_number_has_32_bits),
        cmocka_unit_test(a_cancel_names_a_request_or_a_place_in_a_lane),
        cmocka_unit_test(results_are_read_by_key_and_type),
        cmocka_unit_test(lists_of_arenas_are_read_as_far_as_there_is_room),
        cmocka_unit_test(lists_of_arenas_of_a_wrong_shape_are_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
