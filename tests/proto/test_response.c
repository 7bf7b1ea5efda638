/* SPDX-License-Identifier: Apache-2.0
 *
 * Responses: results of every type and errors of every number come back the same, the envelope and the typed results
 * are checked part by part, and keys of a newer daemon are passed over. One thread, no I/O.
 */
#include "message.h"

#define RAW(text) text, sizeof text - 1

static void strip_length(struct message *m)
{
    const uint32_t body = (uint32_t)m->bytes[0] << 24 | (uint32_t)m->bytes[1] << 16 | (uint32_t)m->bytes[2] << 8 |
                          m->bytes[3];
    assert_int_equal(body, m->out.size - GM_FRAME_HEADER);
    m->out.size = body;
    memmove(m->bytes, m->bytes + GM_FRAME_HEADER, body);
}

static void every_error_comes_back_the_same(void **state)
{
    (void)state;
#define E(name, number, retriable, text) number,
    static const int codes[] = {
#include "errors.def"
    };
#undef E
    for (size_t i = 1; i < sizeof codes / sizeof codes[0]; i++) {
        struct message m;
        struct gm_problem sent, problem;
        struct gm_wire_response response;
        gm_problem_set(&sent, codes[i], "in[0].offset", "text \xc3\xa9 of %d", codes[i]);
        message_clear(&m);
        assert_int_equal(gm_wire_encode_error(&m.out, UINT32_MAX, true, &sent), GM_OK);
        strip_length(&m);
        assert_int_equal(decode_response(&m, m.out.size, &response, &problem), GM_OK);
        assert_true(response.failed);
        assert_int_equal(response.id, UINT32_MAX);
        assert_int_equal(response.problem.code, codes[i]);
        assert_string_equal(response.problem.field, sent.field);
        assert_string_equal(response.problem.text, sent.text);
        for (size_t size = 0; size < m.out.size; size++)
            assert_int_equal(decode_response(&m, size, &response, &problem), GM_EPROTO);
    }
}

static void an_error_without_text_gets_the_one_of_its_number(void **state)
{
    (void)state;
    struct message m;
    const struct gm_problem sent = {.code = GM_EDRAINING};
    struct gm_problem problem;
    struct gm_wire_response response;
    message_clear(&m);
    assert_int_equal(gm_wire_encode_error(&m.out, 1, true, &sent), GM_OK);
    strip_length(&m);
    assert_int_equal(decode_response(&m, m.out.size, &response, &problem), GM_OK);
    assert_string_equal(response.problem.text, gm_error_text(GM_EDRAINING));
}

static void an_error_without_an_id_is_about_the_connection(void **state)
{
    (void)state;
    struct message m;
    struct gm_problem sent, problem;
    struct gm_wire_response response;
    gm_problem_set(&sent, GM_ETOODEEP, "", "nested");
    message_clear(&m);
    assert_int_equal(gm_wire_encode_error(&m.out, 5, false, &sent), GM_OK);
    strip_length(&m);
    assert_int_equal(decode_response(&m, m.out.size, &response, &problem), GM_ETOODEEP);
    assert_string_equal(problem.text, "nested");
}

static void a_done(struct message *m, const struct gm_wire_done *done)
{
    message_clear(m);
    assert_int_equal(gm_wire_encode_done(&m->out, 9, done), GM_OK);
    strip_length(m);
}

static void results_of_every_type_come_back_the_same(void **state)
{
    (void)state;
    static const uint64_t patterns[] = {0, 1, 0x7f, 0x80, 0xff, 0x7fffffffu, 0x80000000u, 0xffffffffu, 0x7f800000u,
                                        0x7fc00000u, UINT64_C(0x7ff0000000000000), UINT64_C(0x7ff8000000000000),
                                        INT64_MAX, UINT64_C(1) << 63, UINT64_MAX};
    for (uint32_t dtype = 0; dtype < GM_DTYPE_COUNT; dtype++) {
        for (size_t i = 0; (GM_SCALAR_TYPES >> dtype & 1u) != 0 && i < sizeof patterns / sizeof patterns[0]; i++) {
            const uint64_t bits = patterns[i] & (UINT64_MAX >> (64 - 8 * gm_dtype_bytes(dtype)));
            const struct gm_wire_done sent = {dtype, bits, 3, UINT64_C(1) << 40, UINT64_MAX, 0, {{NULL, 0}}};
            struct gm_wire_done back;
            struct gm_wire_response response;
            struct gm_problem problem;
            struct message m;
            a_done(&m, &sent);
            assert_int_equal(gm_wire_decode_response(m.bytes, m.out.size, &response, &problem), GM_OK);
            assert_int_equal(response.id, 9);
            assert_int_equal(gm_wire_decode_done(&response, &back, &problem), GM_OK);
            assert_int_equal(back.result_dtype, dtype);
            assert_int_equal(back.result, bits);
            assert_int_equal(back.device, 3);
            assert_int_equal(back.wait_ns, UINT64_C(1) << 40);
            assert_true(back.run_ns == UINT64_MAX);
            assert_int_equal(back.outputs, 0);
            assert_null(back.out[0].bytes);
            assert_int_equal(back.out[0].size, 0);
        }
    }
}

/* All of them, by way of a float 32: denormals, infinities and the payloads of NaNs too. */
static void results_of_16_bits_come_back_the_same(void **state)
{
    (void)state;
    static const uint32_t dtypes[] = {GM_DTYPE_f16, GM_DTYPE_bf16};
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t bits = 0; bits < 65536u; bits++) {
            const struct gm_wire_done sent = {.result_dtype = dtypes[k], .result = bits, .device = 3, .wait_ns = 1,
                                              .run_ns = 2};
            struct gm_wire_done back;
            struct gm_wire_response response;
            struct gm_problem problem;
            struct message m;
            a_done(&m, &sent);
            assert_int_equal(gm_wire_decode_response(m.bytes, m.out.size, &response, &problem), GM_OK);
            assert_int_equal(gm_wire_decode_done(&response, &back, &problem), GM_OK);
            assert_int_equal(back.result, bits);
        }
}

static void an_output_stays_in_the_frame(void **state)
{
    (void)state;
    static const uint8_t bytes[300] = {1, 2, 3};
    const struct gm_wire_done sent = {GM_DTYPE_COUNT, 0, 0, 1, 2, 1, {{bytes, sizeof bytes}}};
    struct gm_wire_done back;
    struct gm_wire_response response;
    struct gm_problem problem;
    struct message m;
    a_done(&m, &sent);
    assert_int_equal(gm_wire_decode_response(m.bytes, m.out.size, &response, &problem), GM_OK);
    assert_int_equal(gm_wire_decode_done(&response, &back, &problem), GM_OK);
    assert_int_equal(back.result_dtype, GM_DTYPE_COUNT);
    assert_int_equal(back.outputs, 1);
    assert_int_equal(back.out[0].size, sizeof bytes);
    assert_true(back.out[0].bytes > m.bytes && back.out[0].bytes + back.out[0].size <= m.bytes + m.out.size);
    assert_memory_equal(back.out[0].bytes, bytes, sizeof bytes);
}

/* Of two outputs each comes in its place, or nil where it lies in an arena; one of no bytes is there all the same. */
static void two_outputs_come_in_their_places(void **state)
{
    (void)state;
    static const uint8_t first[24] = {7}, second[300] = {9, 8};
    for (uint32_t which = 1; which < 8; which++) {
        struct gm_wire_done sent = {GM_DTYPE_u64, 3, 0, 1, 2, 2, {{NULL, 0}, {NULL, 0}}}, back;
        struct gm_wire_response response;
        struct gm_problem problem;
        struct message m;
        if (which & 1u)
            sent.out[0] = (struct gm_wire_output){first, which & 4u ? 0 : sizeof first};
        if (which & 2u)
            sent.out[1] = (struct gm_wire_output){second, sizeof second};
        a_done(&m, &sent);
        assert_int_equal(gm_wire_decode_response(m.bytes, m.out.size, &response, &problem), GM_OK);
        assert_int_equal(gm_wire_decode_done(&response, &back, &problem), GM_OK);
        assert_int_equal(back.outputs, 2);
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(back.out[i].bytes != NULL, sent.out[i].bytes != NULL);
            assert_int_equal(back.out[i].size, sent.out[i].size);
            if (sent.out[i].size != 0)
                assert_memory_equal(back.out[i].bytes, sent.out[i].bytes, sent.out[i].size);
        }
    }
}

static void every_part_of_the_envelope_is_checked(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        int code;
        const char *field;
    } cases[] = {
        {RAW("\x94\x01\x07\xc0\x80"), GM_OK, ""},
        {RAW("\x94\x01\x07\x81\xa4" "code\xff\xc0"), GM_OK, ""},
        {RAW("\xc0"), GM_EPROTO, ""},
        {RAW("\x93\x01\x07\xc0"), GM_EPROTO, ""},
        {RAW("\x95\x01\x07\xc0\x80\xc0"), GM_EPROTO, ""},
        {RAW("\x94\x00\x07\xc0\x80"), GM_EPROTO, "type"},
        {RAW("\x94\x02\x07\xc0\x80"), GM_EPROTO, "type"},
        {RAW("\x94\xa1" "1\x07\xc0\x80"), GM_EPROTO, "type"},
        {RAW("\x94\x01\xff\xc0\x80"), GM_EPROTO, "id"},
        {RAW("\x94\x01\xcf\x00\x00\x00\x01\x00\x00\x00\x00\xc0\x80"), GM_EPROTO, "id"},
        {RAW("\x94\x01\xc0\xc0\x80"), GM_EPROTO, "id"}, /* a result for nobody */
        {RAW("\x94\x01\x07\xc0\xc0"), GM_EPROTO, "result"},
        {RAW("\x94\x01\x07\xc0\x90"), GM_EPROTO, "result"},
        {RAW("\x94\x01\x07\x81\xa4" "code\xff\x80"), GM_EPROTO, "result"},
        {RAW("\x94\x01\x07\xa4oops\xc0"), GM_EPROTO, "result"}, /* an error that is no map */
        {RAW("\x94\x01\x07\x80\xc0"), GM_EPROTO, "code"},
        {RAW("\x94\x01\x07\x81\xa4" "code\x00\xc0"), GM_EPROTO, "code"},
        {RAW("\x94\x01\x07\x81\xa4" "code\xd3\x80\x00\x00\x00\x00\x00\x00\x00\xc0"), GM_EPROTO, "code"},
        {RAW("\x94\x01\x07\x82\xa4" "code\xff\xa4" "code\xff\xc0"), GM_EPROTO, "code"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct message m;
        struct gm_wire_response response;
        struct gm_problem problem;
        message_clear(&m);
        message_raw(&m, cases[i].bytes, cases[i].size);
        const int rc = decode_response(&m, m.out.size, &response, &problem);
        if (rc != cases[i].code || strcmp(problem.field, cases[i].field) != 0)
            fail_msg("case %zu: %s, field \"%s\" (%s)", i, gm_error_name(rc), problem.field, problem.text);
    }
}

static void a_newer_daemon_may_say_more(void **state)
{
    (void)state;
    struct message m;
    struct gm_wire_response response;
    struct gm_wire_done done;
    struct gm_problem problem;
    uint64_t value;
    message_clear(&m);
    gm_wire_put_array(&m.out, 4);
    gm_wire_put_u64(&m.out, 1);
    gm_wire_put_u64(&m.out, 3);
    gm_wire_put_nil(&m.out);
    gm_wire_put_map(&m.out, 5);
    gm_wire_put_str(&m.out, "news");
    message_raw(&m, "\x82\x01\x91\xc0\xa1k\xc4\x01z", 9);
    gm_wire_put_str(&m.out, "run_ns");
    gm_wire_put_u64(&m.out, 5);
    gm_wire_put_str(&m.out, "wait_ns");
    gm_wire_put_u64(&m.out, UINT64_MAX);
    gm_wire_put_str(&m.out, "device");
    gm_wire_put_u64(&m.out, 2);
    gm_wire_put_str(&m.out, "more");
    gm_wire_put_nil(&m.out);
    assert_int_equal(gm_wire_decode_response(m.bytes, m.out.size, &response, &problem), GM_OK);
    assert_int_equal(gm_wire_decode_done(&response, &done, &problem), GM_OK);
    assert_int_equal(done.device, 2);
    assert_int_equal(done.result_dtype, GM_DTYPE_COUNT);
    assert_int_equal(gm_wire_result_u64(&response, "wait_ns", &value, &problem), GM_OK);
    assert_true(value == UINT64_MAX);
    assert_int_equal(gm_wire_result_u64(&response, "session", &value, &problem), GM_EPROTO);
    assert_string_equal(problem.field, "session");
    assert_int_equal(gm_wire_result_u64(&response, "more", &value, &problem), GM_EPROTO);
    assert_string_equal(problem.field, "more");
}

/* A done with one pair replaced by raw bytes. */
static void a_done_of_a_wrong_shape_is_malformed(void **state)
{
    (void)state;
    static const struct {
        const char *pairs;
        size_t size;
        uint32_t count;
        const char *field;
    } cases[] = {
        {RAW("\xa7wait_ns\x00\xa6run_ns\x00"), 2, "device"},
        {RAW("\xa6" "device\x00\xa6run_ns\x00"), 2, "wait_ns"},
        {RAW("\xa6" "device\x00\xa7wait_ns\x00"), 2, "run_ns"},
        {RAW("\xa6" "device\xff\xa7wait_ns\x00\xa6run_ns\x00"), 3, "device"},
        {RAW("\xa6" "device\xcf\x00\x00\x00\x01\x00\x00\x00\x00\xa7wait_ns\x00\xa6run_ns\x00"), 3, "device"},
        {RAW("\xa6" "device\x00\xa7wait_ns\xc0\xa6run_ns\x00"), 3, "wait_ns"},
        {RAW("\xa6" "device\x00\xa7wait_ns\x00\xa6run_ns\x00\xa6run_ns\x00"), 4, "run_ns"},
        {RAW("\xa6" "device\x00\xa7wait_ns\x00\xa6run_ns\x00\xa6result\x00"), 4, "dtype"},
        {RAW("\xa6" "device\x00\xa7wait_ns\x00\xa6run_ns\x00\xa6result\x00\xa5" "dtype\xa3" "f33"), 5, "dtype"},
        {RAW("\xa6" "device\x00\xa7wait_ns\x00\xa6run_ns\x00\xa6result\xff\xa5" "dtype\xa3u64"), 5, "result"},
        {RAW("\xa6" "device\x00\xa7wait_ns\x00\xa6run_ns\x00\xa6result\xc0\xa5" "dtype\xa3u64"), 5, "result"},
        {RAW("\xa6" "device\x00\xa7wait_ns\x00\xa6run_ns\x00\xa6result\xc3\xa5" "dtype\xa3" "f16"), 5, "result"},
        {RAW("\xa6" "device\x00\xa7wait_ns\x00\xa6run_ns\x00\xa3out\xa1x"), 4, "out"},
        {RAW("\xa6" "device\x00\xa7wait_ns\x00\xa6run_ns\x00\xa3out\xc0"), 4, "out"},
        {RAW("\xa6" "device\x00\xa7wait_ns\x00\xa6run_ns\x00\xa3out\x90"), 4, "out"},
        {RAW("\xa6" "device\x00\xa7wait_ns\x00\xa6run_ns\x00\xa3out\x92\xc4\x00\x01"), 4, "out"},
        {RAW("\xa6" "device\x00\xa7wait_ns\x00\xa6run_ns\x00\xa3out\x93\xc0\xc0\xc0"), 4, "out"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct message m;
        struct gm_wire_response response;
        struct gm_wire_done done;
        struct gm_problem problem;
        message_clear(&m);
        message_raw(&m, "\x94\x01\x07\xc0", 4);
        gm_wire_put_map(&m.out, cases[i].count);
        message_raw(&m, cases[i].pairs, cases[i].size);
        assert_int_equal(gm_wire_decode_response(m.bytes, m.out.size, &response, &problem), GM_OK);
        const int rc = gm_wire_decode_done(&response, &done, &problem);
        if (rc != GM_EPROTO || strcmp(problem.field, cases[i].field) != 0)
            fail_msg("case %zu: %s, field \"%s\" (%s)", i, gm_error_name(rc), problem.field, problem.text);
    }
}

static void texts_of_the_other_side_are_cut_at_a_character(void **state)
{
    (void)state;
    struct message m;
    struct gm_wire_response response;
    struct gm_problem problem;
    char text[2 * GM_ERROR_TEXT_MAX];
    for (size_t i = 0; i + 2 < sizeof text; i += 2)
        memcpy(text + i, "\xc3\xa9", 2);
    text[0] = '\n';
    text[1] = 'x';
    text[sizeof text - 2] = text[sizeof text - 1] = '\0';
    message_clear(&m);
    message_raw(&m, "\x94\x01\x07\x83\xa4" "code\xff\xa4text", 15);
    gm_wire_put_str(&m.out, text);
    gm_wire_put_str(&m.out, "field");
    gm_wire_put_str(&m.out, "a field with a name that is much too long");
    gm_wire_put_nil(&m.out);
    assert_int_equal(decode_response(&m, m.out.size, &response, &problem), GM_OK);
    assert_int_equal(response.problem.text[0], '?');
    assert_int_equal(strlen(response.problem.text), GM_ERROR_TEXT_MAX - 2); /* the last one would be half */
    assert_int_equal(strlen(response.problem.field), GM_FIELD_BYTES_MAX - 1);
}

static void a_response_may_have_more_items_than_a_request(void **state)
{
    (void)state;
    struct message m;
    struct gm_wire_response response;
    struct gm_problem problem;
    message_clear(&m);
    message_raw(&m, "\x94\x01\x07\xc0\x81\xa1k", 7);
    gm_wire_put_array(&m.out, GM_MSGPACK_ITEMS_MAX + 1);
    for (uint32_t i = 0; i < GM_MSGPACK_ITEMS_MAX + 1; i++)
        gm_wire_put_nil(&m.out);
    assert_int_equal(decode_response(&m, m.out.size, &response, &problem), GM_OK);
    message_clear(&m);
    message_raw(&m, "\x94\x01\x07\xc0\x81\xa1k\xdd\x0f\xff\xff\xff", 12);
    assert_int_equal(decode_response(&m, m.out.size, &response, &problem), GM_ETOOMANY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_error_comes_back_the_same),
        cmocka_unit_test(an_error_without_text_gets_the_one_of_its_number),
        cmocka_unit_test(an_error_without_an_id_is_about_the_connection),
        cmocka_unit_test(results_of_every_type_come_back_the_same),
        cmocka_unit_test(results_of_16_bits_come_back_the_same),
        cmocka_unit_test(an_output_stays_in_the_frame),
        cmocka_unit_test(two_outputs_come_in_their_places),
        cmocka_unit_test(every_part_of_the_envelope_is_checked),
        cmocka_unit_test(a_newer_daemon_may_say_more),
        cmocka_unit_test(a_done_of_a_wrong_shape_is_malformed),
        cmocka_unit_test(texts_of_the_other_side_are_cut_at_a_character),
        cmocka_unit_test(a_response_may_have_more_items_than_a_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
