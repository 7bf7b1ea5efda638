/* SPDX-License-Identifier: Apache-2.0
 *
 * The encoder: the shortest forms, exact bytes of a whole message, and what happens when memory is short by any number
 * of bytes. One thread, no I/O.
 */
#include "message.h"

static struct gm_wire_out out_of(uint8_t *bytes, size_t capacity)
{
    return (struct gm_wire_out){bytes, 0, capacity, false};
}

static void expect_bytes(const struct gm_wire_out *out, const char *bytes, size_t size)
{
    assert_int_equal(out->size, size);
    assert_memory_equal(out->bytes, bytes, size);
}
#define EXPECT_BYTES(out, text) expect_bytes(out, text, sizeof text - 1)

static void a_request_has_these_bytes(void **state)
{
    (void)state;
    uint8_t bytes[64];
    struct gm_wire_out out = out_of(bytes, sizeof bytes);
    const struct gm_wire_request ping = {.id = 300, .method = GM_METHOD_PING};
    assert_int_equal(gm_wire_encode_request(&out, &ping), GM_OK);
    EXPECT_BYTES(&out, "\x00\x00\x00\x0b\x94\x00\xcd\x01\x2c\xa4ping\x80");
}

static void scalars_have_the_form_of_their_type(void **state)
{
    (void)state;
    static const struct {
        uint32_t dtype;
        uint64_t bits;
        const char *bytes;
        size_t size;
    } cases[] = {
        {GM_DTYPE_u8, 255, "\xcc\xff", 2},
        {GM_DTYPE_i8, 0x80, "\xd0\x80", 2},
        {GM_DTYPE_i32, 0xffffffffu, "\xff", 1},
        {GM_DTYPE_u32, 0xffffffffu, "\xce\xff\xff\xff\xff", 5},
        {GM_DTYPE_i64, UINT64_C(1) << 63, "\xd3\x80\x00\x00\x00\x00\x00\x00\x00", 9},
        {GM_DTYPE_u64, UINT64_MAX, "\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 9},
        {GM_DTYPE_f32, 0x3f800000u, "\xca\x3f\x80\x00\x00", 5},
        {GM_DTYPE_f64, UINT64_C(0x3ff0000000000000), "\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00", 9},
        {GM_DTYPE_f16, 0xbc00u, "\xca\xbf\x80\x00\x00", 5},
        {GM_DTYPE_f16, 0x0001u, "\xca\x33\x80\x00\x00", 5}, /* 2^-24 */
        {GM_DTYPE_f16, 0x03ffu, "\xca\x38\x7f\xc0\x00", 5}, /* the largest denormal */
        {GM_DTYPE_f16, 0x7bffu, "\xca\x47\x7f\xe0\x00", 5}, /* 65504 */
        {GM_DTYPE_f16, 0x8000u, "\xca\x80\x00\x00\x00", 5},
        {GM_DTYPE_f16, 0xfc00u, "\xca\xff\x80\x00\x00", 5},
        {GM_DTYPE_f16, 0x7e01u, "\xca\x7f\xc0\x20\x00", 5},
        {GM_DTYPE_bf16, 0xc049u, "\xca\xc0\x49\x00\x00", 5},
        {GM_DTYPE_bf16, 0x0001u, "\xca\x00\x01\x00\x00", 5},
        {GM_DTYPE_i32, UINT64_MAX, "\xff", 1}, /* bits that the type does not have do not matter */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t bytes[16];
        struct gm_wire_out out = out_of(bytes, sizeof bytes);
        gm_wire_put_scalar(&out, cases[i].dtype, cases[i].bits);
        expect_bytes(&out, cases[i].bytes, cases[i].size);
    }
}

static void primitives_read_back(void **state)
{
    (void)state;
    uint8_t bytes[128];
    struct gm_wire_out out = out_of(bytes, sizeof bytes);
    gm_wire_put_map(&out, 2);
    gm_wire_put_str(&out, "");
    gm_wire_put_bool(&out, true);
    gm_wire_put_bool(&out, false);
    gm_wire_put_nil(&out);
    gm_wire_put_array(&out, 0);
    gm_wire_put_f64(&out, -0.0);
    gm_wire_put_bin(&out, NULL, 0);
    gm_wire_put_i64(&out, -33);
    EXPECT_BYTES(&out, "\x82\xa0\xc3\xc2\xc0\x90\xcb\x80\x00\x00\x00\x00\x00\x00\x00\xc4\x00\xd0\xdf");
    assert_false(out.overflow);
}

static void a_message_too_long_leaves_no_trace(void **state)
{
    (void)state;
    static struct good list[GOOD_REQUESTS_MAX];
    const size_t count = good_requests(list);
    for (size_t i = 0; i < count; i++) {
        uint8_t enough[512];
        struct gm_wire_out whole = out_of(enough, sizeof enough);
        assert_int_equal(gm_wire_encode_request(&whole, &list[i].request), GM_OK);
        for (size_t capacity = 0; capacity < whole.size; capacity++) {
            uint8_t *const exact = malloc(capacity + 1);
            assert_non_null(exact);
            struct gm_wire_out out = out_of(exact, capacity);
            assert_int_equal(gm_wire_encode_request(&out, &list[i].request), GM_ETOOLARGE);
            assert_int_equal(out.size, 0);
            assert_false(out.overflow);
            free(exact);
        }
        struct gm_wire_out exactly = out_of(enough, whole.size);
        assert_int_equal(gm_wire_encode_request(&exactly, &list[i].request), GM_OK);
        assert_int_equal(exactly.size, whole.size);
    }
}

static void frames_queue_behind_each_other(void **state)
{
    (void)state;
    uint8_t bytes[40];
    struct gm_wire_out out = out_of(bytes, sizeof bytes);
    const struct gm_wire_request ping = {.id = 1, .method = GM_METHOD_PING};
    assert_int_equal(gm_wire_encode_request(&out, &ping), GM_OK);
    const size_t one = out.size;
    assert_int_equal(gm_wire_encode_request(&out, &ping), GM_OK);
    assert_int_equal(out.size, 2 * one);
    assert_memory_equal(bytes, bytes + one, one);
    assert_int_equal(gm_wire_encode_request(&out, &ping), GM_OK);
    assert_int_equal(gm_wire_encode_request(&out, &ping), GM_ETOOLARGE);
    assert_int_equal(out.size, 3 * one);
}

static void after_an_overflow_nothing_more_is_written(void **state)
{
    (void)state;
    uint8_t bytes[8] = {0};
    struct gm_wire_out out = out_of(bytes, 2);
    gm_wire_put_u64(&out, UINT64_MAX);
    assert_true(out.overflow);
    gm_wire_put_nil(&out); /* would fit */
    assert_int_equal(out.size, 0);
    assert_int_equal(bytes[0], 0);
}

static void a_frame_is_bounded_exactly(void **state)
{
    (void)state;
    static uint8_t bytes[GM_FRAME_HEADER + GM_FRAME_BYTES_MAX + 16], payload[GM_FRAME_BYTES_MAX];
    for (uint32_t more = 0; more < 2; more++) {
        struct gm_wire_out out = out_of(bytes, sizeof bytes);
        const size_t start = gm_wire_begin(&out);
        gm_wire_put_bin(&out, payload, GM_FRAME_BYTES_MAX - 5 + more); /* behind its own head of 5 bytes */
        assert_int_equal(gm_wire_end(&out, start), more ? GM_ETOOLARGE : GM_OK);
        assert_int_equal(out.size, more ? 0 : GM_FRAME_HEADER + GM_FRAME_BYTES_MAX);
    }
}

static void the_largest_reply_fits_a_frame(void **state)
{
    (void)state;
    static uint8_t bytes[GM_FRAME_HEADER + GM_FRAME_BYTES_MAX], payload[GM_INLINE_BYTES_MAX];
    struct gm_wire_out out = out_of(bytes, sizeof bytes);
    const struct gm_wire_done done = {GM_DTYPE_f64, UINT64_MAX, UINT32_MAX, UINT64_MAX, UINT64_MAX,
                                      1,            {{payload, sizeof payload}}};
    assert_int_equal(gm_wire_encode_done(&out, UINT32_MAX, &done), GM_OK);
    /* In two pieces. */
    struct gm_wire_done two = done;
    two.outputs = 2;
    two.out[0].size = 8;
    two.out[1] = (struct gm_wire_output){payload, sizeof payload - 8};
    out = out_of(bytes, sizeof bytes);
    assert_int_equal(gm_wire_encode_done(&out, UINT32_MAX, &two), GM_OK);
}

static void what_cannot_be_said_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[64];
    struct gm_wire_out out = out_of(bytes, sizeof bytes);
    struct gm_wire_request request = {.method = GM_METHOD_COUNT};
    assert_int_equal(gm_wire_encode_request(&out, &request), GM_EMETHOD);
    request.method = GM_METHOD_SUBMIT;
    request.u.submit.op = GM_OP_COUNT;
    assert_int_equal(gm_wire_encode_request(&out, &request), GM_EOP);
    request.u.submit.op = GM_OP_fill;
    request.u.submit.args.dtype = GM_DTYPE_f16;
    assert_int_equal(gm_wire_encode_request(&out, &request), GM_EDTYPE);
    request.u.submit.args.dtype = GM_DTYPE_COUNT;
    assert_int_equal(gm_wire_encode_request(&out, &request), GM_EDTYPE);
    assert_int_equal(out.size, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_has_these_bytes),
        cmocka_unit_test(scalars_have_the_form_of_their_type),
        cmocka_unit_test(primitives_read_back),
        cmocka_unit_test(a_message_too_long_leaves_no_trace),
        cmocka_unit_test(frames_queue_behind_each_other),
        cmocka_unit_test(after_an_overflow_nothing_more_is_written),
        cmocka_unit_test(a_frame_is_bounded_exactly),
        cmocka_unit_test(the_largest_reply_fits_a_frame),
        cmocka_unit_test(what_cannot_be_said_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
