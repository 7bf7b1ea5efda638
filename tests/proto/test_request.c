/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests: whatever the encoder writes, the decoder reads back, for every method and every op, type and placement;
 * and the envelope around params is checked part by part. One thread, no I/O.
 */
#include "message.h"

static void expect_same_buffer(const struct gm_wire_buffer *a, const struct gm_wire_buffer *b)
{
    assert_int_equal(a->place, b->place);
    assert_int_equal(a->arena, b->arena);
    assert_int_equal(a->offset, b->offset);
    assert_int_equal(a->size, b->size);
    assert_int_equal(a->bytes != NULL, b->bytes != NULL);
}

static void expect_same_submit(const struct gm_wire_submit *a, const struct gm_wire_submit *b)
{
    assert_int_equal(a->op, b->op);
    assert_int_equal(a->has_device, b->has_device);
    assert_int_equal(a->device, b->device);
    assert_int_equal(a->args.dtype, b->args.dtype);
    assert_int_equal(a->args.type2, b->args.type2);
    assert_int_equal(a->args.flags, b->args.flags);
    assert_int_equal(a->args.n, b->args.n);
    assert_int_equal(a->args.count, b->args.count);
    assert_int_equal(a->args.count2, b->args.count2);
    assert_memory_equal(a->args.value, b->args.value, sizeof a->args.value);
    assert_int_equal(a->buffers, b->buffers);
    for (uint32_t i = 0; i < a->buffers; i++)
        expect_same_buffer(&a->buffer[i], &b->buffer[i]);
}

static void every_request_comes_back_the_same(void **state)
{
    (void)state;
    static struct good list[GOOD_REQUESTS_MAX];
    const size_t count = good_requests(list);
    assert_true(count > GM_METHOD_COUNT + GM_OP_COUNT);
    for (size_t i = 0; i < count; i++) {
        struct message m, again;
        struct gm_wire_request back;
        struct gm_problem problem;
        bool has_id;
        message_request(&m, &list[i].request);
        if (decode_request(&m, m.out.size, &back, &has_id, &problem) != GM_OK)
            fail_msg("%s: %s", list[i].name, problem.text);
        assert_true(has_id);
        assert_int_equal(back.id, 7);
        assert_int_equal(back.method, list[i].request.method);
        if (back.method == GM_METHOD_SUBMIT)
            expect_same_submit(&back.u.submit, &list[i].request.u.submit);
        if (strstr(list[i].name, "inline") != NULL)
            continue; /* its bytes were in the copy that is gone */
        message_request(&again, &back);
        assert_int_equal(again.out.size, m.out.size);
        assert_memory_equal(again.bytes, m.bytes, m.out.size);
    }
}

static void inline_data_stays_in_the_frame(void **state)
{
    (void)state;
    struct message m;
    struct gm_wire_request request;
    struct gm_problem problem;
    bool has_id;
    message_begin(&m, "submit", 4);
    gm_wire_put_str(&m.out, "in");
    gm_wire_put_array(&m.out, 1);
    gm_wire_put_bin(&m.out, "abcdefgh", 8);
    gm_wire_put_str(&m.out, "op");
    gm_wire_put_str(&m.out, "sum");
    gm_wire_put_str(&m.out, "n");
    gm_wire_put_u64(&m.out, 2);
    gm_wire_put_str(&m.out, "dtype");
    gm_wire_put_str(&m.out, "f32");
    assert_int_equal(gm_wire_decode_request(m.bytes, m.out.size, &request, &has_id, &problem), GM_OK);
    const struct gm_wire_buffer *const b = &request.u.submit.buffer[0];
    assert_int_equal(b->place, GM_PLACE_INLINE);
    assert_true(b->bytes > m.bytes && b->bytes + 8 < m.bytes + m.out.size);
    assert_memory_equal(b->bytes, "abcdefgh", 8);
    assert_int_equal(b->size, 8);
    assert_false(request.u.submit.has_device);
}

static void an_op_may_be_given_by_number(void **state)
{
    (void)state;
    struct message m;
    struct gm_wire_request request;
    struct gm_problem problem;
    bool has_id;
    message_begin(&m, "submit", 1);
    gm_wire_put_str(&m.out, "op");
    gm_wire_put_u64(&m.out, GM_OP_nop);
    assert_int_equal(decode_request(&m, m.out.size, &request, &has_id, &problem), GM_OK);
    assert_int_equal(request.u.submit.op, GM_OP_nop);
    assert_int_equal(request.u.submit.buffers, 0);
}

/* A body of raw bytes, and what the decoder must say to it. */
struct envelope {
    const char *bytes;
    size_t size;
    int code;
    const char *field;
    bool has_id;
};
#define RAW(text) text, sizeof text - 1

static void every_part_of_the_envelope_is_checked(void **state)
{
    (void)state;
    static const struct envelope cases[] = {
        {RAW("\x94\x00\x07\xa4ping\x80"), GM_OK, "", true},
        {RAW("\x94\x00\xce\xff\xff\xff\xff\xa4ping\x80"), GM_OK, "", true},
        {RAW("\x94\x00\x07\xd9\x04ping\xde\x00\x00"), GM_OK, "", true}, /* longer forms than needed */
        {RAW("\xc0"), GM_EPROTO, "", false},
        {RAW("\x80"), GM_EPROTO, "", false},
        {RAW("\x90"), GM_EPROTO, "type", false},
        {RAW("\x91\xa4ping"), GM_EPROTO, "type", false},
        {RAW("\x93\x02\xa4ping\x80"), GM_EPROTO, "type", false}, /* a notification */
        {RAW("\x94\x02\x07\xa4ping\x80"), GM_EPROTO, "type", false},
        {RAW("\x94\x01\x07\xc0\x80"), GM_EPROTO, "type", false}, /* a response */
        {RAW("\x94\xff\x07\xa4ping\x80"), GM_EPROTO, "type", false},
        {RAW("\x94\xc0\x07\xa4ping\x80"), GM_EPROTO, "type", false},
        {RAW("\x91\x00"), GM_EPROTO, "", false},
        {RAW("\x93\x00\x07\xa4ping"), GM_EPROTO, "", true},
        {RAW("\x95\x00\x07\xa4ping\x80\x80"), GM_EPROTO, "", true},
        {RAW("\x94\x00\xff\xa4ping\x80"), GM_EPROTO, "id", false},
        {RAW("\x94\x00\xcf\x00\x00\x00\x01\x00\x00\x00\x00\xa4ping\x80"), GM_EPROTO, "id", false},
        {RAW("\x94\x00\xa1x\xa4ping\x80"), GM_EPROTO, "id", false},
        {RAW("\x94\x00\x07\x05\x80"), GM_EPROTO, "method", true},
        {RAW("\x94\x00\x07\xc4\x04ping\x80"), GM_EPROTO, "method", true},
        {RAW("\x94\x00\x07\xa0\x80"), GM_EMETHOD, "method", true},
        {RAW("\x94\x00\x07\xa3pin\x80"), GM_EMETHOD, "method", true},
        {RAW("\x94\x00\x07\xa5ping\0\x80"), GM_EMETHOD, "method", true},
        {RAW("\x94\x00\x07\xa4\xff\xfe\x0a\x00\x80"), GM_EMETHOD, "method", true},
        {RAW("\x94\x00\x07\xa4ping\x90"), GM_EINVAL, "params", true},
        {RAW("\x94\x00\x07\xa4ping\xc0"), GM_EINVAL, "params", true},
        {RAW("\x94\x00\x07\xa4ping\x81\xa1x\xc0"), GM_EINVAL, "x", true},
        {RAW("\x94\x00\x07\xa4ping\x81\x05\xc0"), GM_EINVAL, "params", true},
        {RAW("\x94\x00\x07\xa4ping\x81\xc4\x01x\xc0"), GM_EINVAL, "params", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct message m;
        struct gm_wire_request request;
        struct gm_problem problem;
        bool has_id;
        message_clear(&m);
        message_raw(&m, cases[i].bytes, cases[i].size);
        const int rc = decode_request(&m, m.out.size, &request, &has_id, &problem);
        if (rc != cases[i].code || strcmp(problem.field, cases[i].field) != 0 || has_id != cases[i].has_id)
            fail_msg("case %zu: %s, field \"%s\", id %d (%s)", i, gm_error_name(rc), problem.field, has_id,
                     problem.text);
        if (has_id)
            assert_true(request.id == 7 || request.id == UINT32_MAX);
    }
}

static void a_notification_hears_why_it_is_refused(void **state)
{
    (void)state;
    struct message m;
    struct gm_wire_request request;
    struct gm_problem problem;
    bool has_id;
    message_clear(&m);
    message_raw(&m, RAW("\x93\x02\xa4ping\x80"));
    assert_int_equal(decode_request(&m, m.out.size, &request, &has_id, &problem), GM_EPROTO);
    assert_false(has_id);
    assert_non_null(strstr(problem.text, "notifications"));
}

static void the_id_survives_what_the_scan_refuses(void **state)
{
    (void)state;
    static const struct envelope cases[] = {
        {RAW("\x94\x00\x07\xa4ping\xdf\x0f\xff\xff\xff"), GM_ETOOMANY, "", true},
        {RAW("\x94\x00\x07\xa4ping\x91\x91\x91\x91\x91\x91\x91\x91\xc0"), GM_ETOODEEP, "", true},
        {RAW("\x94\x00\x07\xa4ping\xc1"), GM_EPROTO, "", true},
        {RAW("\x94\x00\x07"), GM_EPROTO, "", true},
        {RAW("\xdd\x0f\xff\xff\xff\x00\x07"), GM_ETOOMANY, "", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct message m;
        struct gm_wire_request request;
        struct gm_problem problem;
        bool has_id;
        message_clear(&m);
        message_raw(&m, cases[i].bytes, cases[i].size);
        assert_int_equal(decode_request(&m, m.out.size, &request, &has_id, &problem), cases[i].code);
        assert_true(has_id);
        assert_int_equal(request.id, 7);
    }
}

static void names_from_the_other_side_are_made_printable(void **state)
{
    (void)state;
    struct message m;
    struct gm_wire_request request;
    struct gm_problem problem;
    bool has_id;
    message_begin(&m, "ping", 1);
    gm_wire_put_str(&m.out, "bad\x1b[2J\n\xff");
    gm_wire_put_nil(&m.out);
    assert_int_equal(decode_request(&m, m.out.size, &request, &has_id, &problem), GM_EINVAL);
    assert_string_equal(problem.field, "bad?[2J??");
    message_begin(&m, "ping", 1);
    gm_wire_put_str(&m.out, "a key that is longer than a field may be");
    gm_wire_put_nil(&m.out);
    assert_int_equal(decode_request(&m, m.out.size, &request, &has_id, &problem), GM_EINVAL);
    assert_string_equal(problem.field, "a key that is longer ..");
}

static void a_hello(struct message *m, uint64_t low, uint64_t high, const char *name, size_t size)
{
    message_begin(m, "hello", 3);
    gm_wire_put_str(&m->out, "version_min");
    gm_wire_put_u64(&m->out, low);
    gm_wire_put_str(&m->out, "version_max");
    gm_wire_put_u64(&m->out, high);
    gm_wire_put_str(&m->out, "client");
    message_raw(m, (const uint8_t[]){0xd9, (uint8_t)size}, 2);
    message_raw(m, name, size);
}

static void hello_checks_versions_and_name(void **state)
{
    (void)state;
    struct message m;
    char name[GM_NAME_BYTES_MAX];
    memset(name, 'n', sizeof name);
    a_hello(&m, 1, 1, name, sizeof name - 1);
    expect_request(&m, GM_OK, "");
    a_hello(&m, 1, 1, name, sizeof name);
    expect_request(&m, GM_ESIZE, "client");
    a_hello(&m, 2, 1, "x", 1);
    expect_request(&m, GM_EINVAL, "version_max");
    a_hello(&m, 1, UINT64_C(1) << 32, "x", 1);
    expect_request(&m, GM_EINVAL, "version_max");

    static const struct {
        const char *text;
        size_t size;
        int code;
    } names[] = {
        {RAW("")          , GM_OK},     {RAW("\xc3\xa9")        , GM_OK},     {RAW("\xe2\x82\xac")    , GM_OK},
        {RAW("\xf0\x9f\x98\x80"), GM_OK}, {RAW("\x80")          , GM_EINVAL}, {RAW("\xc3")            , GM_EINVAL},
        {RAW("\xc0\x80")  , GM_EINVAL}, {RAW("\xe0\x80\x80")    , GM_EINVAL}, {RAW("\xed\xa0\x80")    , GM_EINVAL},
        {RAW("\xf4\x90\x80\x80"), GM_EINVAL}, {RAW("\xf0\x80\x80\x80"), GM_EINVAL}, {RAW("\xff")      , GM_EINVAL},
        {RAW("\xe2\x82")  , GM_EINVAL}, {RAW("a\nb")            , GM_EINVAL}, {RAW("a\0b")            , GM_EINVAL},
        {RAW("\x7f")      , GM_EINVAL}, {RAW("\xe2\x28\xa1")    , GM_EINVAL}, {RAW("\xc1\xbf\xbf\xbf"), GM_EINVAL},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        a_hello(&m, 1, 1, names[i].text, names[i].size);
        expect_request(&m, names[i].code, names[i].code == GM_OK ? "" : "client");
    }
}

static void an_arena(struct message *m, uint64_t bytes, const char *kind, int device)
{
    message_begin(m, "arena.create", 1u + (kind != NULL) + (device >= 0));
    gm_wire_put_str(&m->out, "bytes");
    gm_wire_put_u64(&m->out, bytes);
    if (kind != NULL) {
        gm_wire_put_str(&m->out, "kind");
        gm_wire_put_str(&m->out, kind);
    }
    if (device >= 0) {
        gm_wire_put_str(&m->out, "device");
        gm_wire_put_i64(&m->out, device);
    }
}

static void arenas_have_a_size_and_a_kind(void **state)
{
    (void)state;
    struct message m;
    an_arena(&m, 1, NULL, -1);
    expect_request(&m, GM_OK, "");
    an_arena(&m, GM_ARENA_BYTES_MAX, "shared", -1);
    expect_request(&m, GM_OK, "");
    an_arena(&m, 0, NULL, -1);
    expect_request(&m, GM_ESIZE, "bytes");
    an_arena(&m, GM_ARENA_BYTES_MAX + 1, NULL, -1);
    expect_request(&m, GM_ESIZE, "bytes");
    an_arena(&m, 1, "mapped", -1);
    expect_request(&m, GM_EINVAL, "kind");
    an_arena(&m, 1, "devices", -1);
    expect_request(&m, GM_EINVAL, "kind");
    an_arena(&m, 1, "device", GM_DEVICES_MAX - 1);
    expect_request(&m, GM_OK, "");
    an_arena(&m, 1, "device", GM_DEVICES_MAX);
    expect_request(&m, GM_ENODEVICE, "device");
    an_arena(&m, 1, "shared", 0);
    expect_request(&m, GM_OK, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_comes_back_the_same),
        cmocka_unit_test(inline_data_stays_in_the_frame),
        cmocka_unit_test(an_op_may_be_given_by_number),
        cmocka_unit_test(every_part_of_the_envelope_is_checked),
        cmocka_unit_test(a_notification_hears_why_it_is_refused),
        cmocka_unit_test(the_id_survives_what_the_scan_refuses),
        cmocka_unit_test(names_from_the_other_side_are_made_printable),
        cmocka_unit_test(hello_checks_versions_and_name),
        cmocka_unit_test(arenas_have_a_size_and_a_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
