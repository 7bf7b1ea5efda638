/* SPDX-License-Identifier: Apache-2.0
 *
 * params of submit at their bounds: sizes that would overflow, values that no element holds, edges of a histogram,
 * buffers in the wrong place or number. One thread, no I/O.
 */
#include "args.h"
#include "message.h"

#include <math.h>

/* A submit whose pairs are appended one by one; the head's count is filled in by expect(). */
static struct message m;
static uint32_t pairs;

static void begin(const char *op)
{
    message_begin(&m, "submit", 15);
    m.out.size--; /* its count, filled in by expect */
    pairs = 0;
    message_raw(&m, "\x80", 1);
    gm_wire_put_str(&m.out, "op");
    gm_wire_put_str(&m.out, op);
    pairs++;
}

static void key(const char *name)
{
    gm_wire_put_str(&m.out, name);
    pairs++;
}

static void key_u64(const char *name, uint64_t v)
{
    key(name);
    gm_wire_put_u64(&m.out, v);
}

static void key_str(const char *name, const char *v)
{
    key(name);
    gm_wire_put_str(&m.out, v);
}

static void key_f64(const char *name, double v)
{
    key(name);
    gm_wire_put_f64(&m.out, v);
}

static void typed(const char *op, const char *dtype, uint64_t n)
{
    begin(op);
    key_str("dtype", dtype);
    key_u64("n", n);
}

static void arena_buffer(uint64_t arena, uint64_t offset)
{
    gm_wire_put_map(&m.out, 2);
    gm_wire_put_str(&m.out, "arena");
    gm_wire_put_u64(&m.out, arena);
    gm_wire_put_str(&m.out, "offset");
    gm_wire_put_u64(&m.out, offset);
}

static void key_arena(const char *name, uint64_t arena, uint64_t offset)
{
    key(name);
    gm_wire_put_array(&m.out, 1);
    arena_buffer(arena, offset);
}

static struct gm_wire_request last;

static struct gm_problem problem; /* of the last that was expected */

static void expect(int code, const char *field)
{
    static const size_t count_at = 1 + 1 + 1 + 7; /* array, type, id, "submit" */
    bool has_id;
    m.bytes[count_at] = (uint8_t)(0x80 | pairs);
    const int rc = decode_request(&m, m.out.size, &last, &has_id, &problem);
    if (rc != code || strcmp(problem.field, field) != 0)
        fail_msg("%s field \"%s\" (%s) instead of %s field \"%s\"", gm_error_name(rc), problem.field, problem.text,
                 gm_error_name(code), field);
}

static void unknown_ops_and_types_have_errors_of_their_own(void **state)
{
    (void)state;
    begin("frobnicate");
    expect(GM_EOP, "op");
    begin("");
    expect(GM_EOP, "op");
    message_begin(&m, "submit", 1);
    gm_wire_put_str(&m.out, "op");
    gm_wire_put_u64(&m.out, GM_OP_COUNT);
    expect_request(&m, GM_EOP, "op");
    m.out.size -= 1;
    gm_wire_put_u64(&m.out, UINT64_C(0x100000000)); /* does not become op 0 */
    expect_request(&m, GM_EOP, "op");
    typed("sum", "f33", 1);
    key_arena("in", 1, 0);
    expect(GM_EDTYPE, "dtype");
    typed("sum", "u8", 1);
    key_arena("in", 1, 0);
    expect(GM_EDTYPE, "dtype");
    typed("sort", "bf16", 1);
    key_arena("in", 1, 0);
    key_arena("out", 1, 0);
    expect(GM_EDTYPE, "dtype");
}

static void keys_of_other_ops_are_named(void **state)
{
    (void)state;
    begin("nop");
    key_str("dtype", "f32");
    expect(GM_EINVAL, "dtype");
    typed("copy", "f32", 1);
    key("descending");
    gm_wire_put_bool(&m.out, false);
    key_arena("in", 1, 0);
    key_arena("out", 1, 0);
    expect(GM_EINVAL, "descending");
    typed("sum", "f32", 1);
    key_arena("in", 1, 0);
    key_arena("out", 1, 0);
    expect(GM_EINVAL, "out");
    typed("fill", "f32", 1);
    key_u64("value", 1);
    key_arena("out", 1, 0);
    key("in");
    gm_wire_put_array(&m.out, 0);
    expect(GM_EINVAL, "in");
}

static void n_is_bounded_and_its_bytes_cannot_overflow(void **state)
{
    (void)state;
    static const uint64_t too_many[] = {GM_ELEMENTS_MAX + 1, UINT64_C(1) << 61, UINT64_C(0x2000000000000001),
                                        UINT64_MAX};
    for (size_t i = 0; i < sizeof too_many / sizeof too_many[0]; i++) {
        typed("sum", "f64", too_many[i]);
        key_arena("in", 1, 0);
        expect(GM_ESIZE, "n");
    }
    typed("sum", "f64", 0);
    key_arena("in", 1, 0);
    expect(GM_OK, "");
    begin("sum");
    key_str("dtype", "f32");
    key("n");
    gm_wire_put_i64(&m.out, INT64_MIN);
    key_arena("in", 1, 0);
    expect(GM_EINVAL, "n");
}

static void arena_buffers_end_inside_the_largest_arena(void **state)
{
    (void)state;
    typed("sum", "f64", 16);
    key_arena("in", 1, GM_ARENA_BYTES_MAX - 128);
    expect(GM_OK, "");
    assert_int_equal(last.u.submit.buffer[0].offset, GM_ARENA_BYTES_MAX - 128);
    typed("sum", "f64", 16);
    key_arena("in", 1, GM_ARENA_BYTES_MAX - 120);
    expect(GM_EBOUNDS, "in[0].offset");
    typed("sum", "f64", 16);
    key_arena("in", 1, UINT64_MAX - 7);
    expect(GM_EBOUNDS, "in[0].offset");
    typed("sum", "f64", GM_ELEMENTS_MAX); /* 8 TiB fit no arena */
    key_arena("in", 1, 0);
    expect(GM_EBOUNDS, "in[0].offset");
    typed("sum", "f64", 1);
    key_arena("in", 1, 4);
    expect(GM_EALIGN, "in[0].offset");
    typed("sum", "f64", 1);
    key_arena("in", UINT64_C(1) << 32, 0);
    expect(GM_EINVAL, "in[0].arena");
    typed("sum", "f64", 1);
    key_arena("in", UINT32_MAX, 0);
    expect(GM_OK, "");
}

static void counts_of_a_histogram_are_aligned_to_eight(void **state)
{
    (void)state;
    typed("histogram", "u8", 3);
    key_u64("bins", 4);
    key_u64("lo", 0);
    key_u64("hi", 256);
    key_arena("in", 1, 1);
    key_arena("out", 1, 12);
    expect(GM_EALIGN, "out[0].offset");
}

static void inline_inputs_have_exactly_their_size(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, 1, 7, 9, 16};
    static const uint8_t bytes[16];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        typed("sum", "f32", 2);
        key("in");
        gm_wire_put_array(&m.out, 1);
        gm_wire_put_bin(&m.out, bytes, sizes[i]);
        expect(GM_ESIZE, "in[0]");
    }
    typed("sum", "f32", GM_ELEMENTS_MAX);
    key("in");
    gm_wire_put_array(&m.out, 1);
    gm_wire_put_bin(&m.out, bytes, 0); /* 2^42 mod 2^32 is 0 */
    expect(GM_ESIZE, "in[0]");
    typed("sum", "f32", 0);
    key("in");
    gm_wire_put_array(&m.out, 1);
    gm_wire_put_bin(&m.out, bytes, 0);
    expect(GM_OK, "");
}

static void a_reply_carries_a_bounded_output(void **state)
{
    (void)state;
    typed("fill", "u8", GM_INLINE_BYTES_MAX);
    key_u64("value", 1);
    key("out");
    gm_wire_put_array(&m.out, 1);
    gm_wire_put_nil(&m.out);
    expect(GM_OK, "");
    assert_int_equal(last.u.submit.buffer[0].place, GM_PLACE_INLINE);
    assert_int_equal(last.u.submit.buffer[0].size, GM_INLINE_BYTES_MAX);
    assert_null(last.u.submit.buffer[0].bytes);
    typed("fill", "u8", GM_INLINE_BYTES_MAX + 1);
    key_u64("value", 1);
    key("out");
    gm_wire_put_array(&m.out, 1);
    gm_wire_put_nil(&m.out);
    expect(GM_ESIZE, "out[0]");
}

static void an_inline_input_of_the_largest_size_is_taken(void **state)
{
    (void)state;
    static uint8_t frame[GM_FRAME_HEADER + GM_FRAME_BYTES_MAX], data[GM_INLINE_BYTES_MAX + 4];
    struct gm_wire_out out = {frame, 0, sizeof frame, false};
    struct gm_wire_request request = {.id = 1, .method = GM_METHOD_SUBMIT}, back;
    bool has_id;
    request.u.submit = (struct gm_wire_submit){.op = GM_OP_sum, .args.dtype = GM_DTYPE_f32, .buffers = 1};
    for (uint32_t more = 0; more < 2; more++) {
        out.size = 0;
        request.u.submit.args.n = GM_INLINE_BYTES_MAX / 4 + more;
        request.u.submit.buffer[0] = (struct gm_wire_buffer){GM_PLACE_INLINE, 0, 0, data, request.u.submit.args.n * 4};
        assert_int_equal(gm_wire_encode_request(&out, &request), GM_OK);
        const int rc = gm_wire_decode_request(frame + GM_FRAME_HEADER, out.size - GM_FRAME_HEADER, &back, &has_id,
                                              &problem);
        assert_int_equal(rc, more ? GM_ESIZE : GM_OK);
        assert_string_equal(problem.field, more ? "in[0]" : "");
    }
}

static void buffers_have_a_number_and_a_kind(void **state)
{
    (void)state;
    for (uint32_t count = 0; count < 4; count++) {
        typed("sum", "f32", 1);
        key("in");
        gm_wire_put_array(&m.out, count);
        for (uint32_t i = 0; i < count; i++)
            arena_buffer(1, 0);
        expect(count == 1 ? GM_OK : GM_EINVAL, count == 1 ? "" : "in");
    }
    typed("sum", "f32", 1);
    key("in");
    gm_wire_put_array(&m.out, 1);
    gm_wire_put_nil(&m.out); /* nil is for outputs */
    expect(GM_EINVAL, "in[0]");
    typed("fill", "f32", 1);
    key_u64("value", 0);
    key("out");
    gm_wire_put_array(&m.out, 1);
    gm_wire_put_bin(&m.out, "abcd", 4); /* bytes are for inputs */
    expect(GM_EINVAL, "out[0]");
    typed("sum", "f32", 1);
    key("in");
    gm_wire_put_array(&m.out, 1);
    gm_wire_put_str(&m.out, "abcd");
    expect(GM_EINVAL, "in[0]");
}

static void places_have_an_arena_and_an_offset(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        const char *field;
    } cases[] = {
        {"\x80", 1, "in[0].arena"},
        {"\x81\xa5" "arena\x01", 8, "in[0].offset"},
        {"\x81\xa6offset\x00", 9, "in[0].arena"},
        {"\x82\xa5" "arena\x01\xa5" "arena\x01", 15, "in[0].arena"},
        {"\x82\xa5" "arena\x01\xa6offset\xff", 16, "in[0].offset"},
        {"\x82\xa5" "arena\xc0\xa6offset\x00", 16, "in[0].arena"},
        {"\x83\xa5" "arena\x01\xa6offset\x00\xa6length\x00", 24, "in[0].length"},
        {"\x81\xa1" "\xff\x00", 4, "in[0].?"},
        {"\x81\x01\x00", 3, "in[0]"},
        {"\x81\xb6" "twenty-two_characters_\x00", 25, "twenty-two_characters_"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        typed("sum", "f32", 1);
        key("in");
        gm_wire_put_array(&m.out, 1);
        message_raw(&m, cases[i].bytes, cases[i].size);
        expect(GM_EINVAL, cases[i].field);
    }
}

/* Each alone fits a message; together they may not. */
static void data_of_one_direction_fits_a_message_together(void **state)
{
    (void)state;
    static const struct {
        uint64_t n;
        uint32_t nils;
        int code;
        const char *field;
    } cases[] = {
        {GM_INLINE_BYTES_MAX / 12, 2, GM_OK, ""},
        {GM_INLINE_BYTES_MAX / 12 + 1, 2, GM_ESIZE, "out[1]"},
        {GM_INLINE_BYTES_MAX / 8, 2, GM_ESIZE, "out[1]"},
        {GM_INLINE_BYTES_MAX / 8, 1, GM_OK, ""},
        {GM_INLINE_BYTES_MAX / 4 + 1, 2, GM_ESIZE, "out[0]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        typed("run_length", "f32", cases[i].n);
        key_arena("in", 1, 0);
        key("out");
        gm_wire_put_array(&m.out, 2);
        if (cases[i].nils < 2)
            message_raw(&m, "\x82\xa5" "arena\x01\xa6offset\x00", 16);
        for (uint32_t k = 0; k < cases[i].nils; k++)
            gm_wire_put_nil(&m.out);
        expect(cases[i].code, cases[i].field);
    }
}

static void histogram(uint64_t bins, double lo, double hi)
{
    typed("histogram", "f32", 1);
    key_u64("bins", bins);
    key_f64("lo", lo);
    key_f64("hi", hi);
    key_arena("in", 1, 0);
    key_arena("out", 2, 0);
}

static void histograms_have_bins_and_finite_edges(void **state)
{
    (void)state;
    static const struct {
        uint64_t bins;
        double lo, hi;
        int code;
        const char *field;
    } cases[] = {
        {1, 0, 1, GM_OK, ""},
        {GM_HIST_BINS_MAX, -1e308, 0, GM_OK, ""},
        {0, 0, 1, GM_ESIZE, "bins"},
        {GM_HIST_BINS_MAX + 1, 0, 1, GM_ESIZE, "bins"},
        {UINT64_MAX, 0, 1, GM_ESIZE, "bins"},
        {4, 1, 1, GM_EINVAL, "hi"},
        {4, 1, 0, GM_EINVAL, "hi"},
        {4, -0.0, 0.0, GM_EINVAL, "hi"},
        {4, -1e308, 1e308, GM_EINVAL, "hi"},
        {4, (double)NAN, 1, GM_EINVAL, "lo"},
        {4, 0, (double)NAN, GM_EINVAL, "hi"},
        {4, -(double)INFINITY, 1, GM_EINVAL, "lo"},
        {4, 0, (double)INFINITY, GM_EINVAL, "hi"},
    };
    char bound[64];
    snprintf(bound, sizeof bound, "bins must be 1 to %u", (unsigned)GM_HIST_BINS_MAX);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        histogram(cases[i].bins, cases[i].lo, cases[i].hi);
        expect(cases[i].code, cases[i].field);
        if (cases[i].code == GM_ESIZE) /* the bound that counts, and not that of a descriptor's field */
            assert_string_equal(problem.text, bound);
    }
    typed("histogram", "i64", 1);
    key_u64("bins", 2);
    key("lo");
    gm_wire_put_i64(&m.out, INT64_MIN);
    key_u64("hi", UINT64_MAX);
    key_arena("in", 1, 0);
    key_arena("out", 2, 0);
    expect(GM_OK, "");
    assert_true(gm_f64_of(last.u.submit.args.value[0]) == -0x1p63);
    assert_true(gm_f64_of(last.u.submit.args.value[1]) == 0x1p64);
}

/* A fill with a value given as raw msgpack, and the element bits that must come out; REFUSED: the value is named. */
struct value_case {
    const char *dtype, *bytes;
    size_t size;
    bool refused;
    uint64_t bits;
};
#define V(dtype, raw, bits) {dtype, raw, sizeof raw - 1, false, bits}
#define NOT(dtype, raw) {dtype, raw, sizeof raw - 1, true, 0}
static const struct value_case values[] = {
    V("u8", "\x00", 0),
    V("u8", "\xcc\xff", 255),
    NOT("u8", "\xcd\x01\x00"),
    NOT("u8", "\xff"),
    V("u8", "\xcb\x40\x6f\xe0\x00\x00\x00\x00\x00", 255), /* 255.0 */
    NOT("u8", "\xcb\x40\x6f\xf0\x00\x00\x00\x00\x00"),    /* 255.5 */
    V("i32", "\xd2\x80\x00\x00\x00", 0x80000000u),
    NOT("i32", "\xd3\xff\xff\xff\xff\x7f\xff\xff\xff"),
    V("i32", "\xce\x7f\xff\xff\xff", 0x7fffffffu),
    NOT("i32", "\xce\x80\x00\x00\x00"),
    V("i32", "\xff", 0xffffffffu),
    V("u32", "\xce\xff\xff\xff\xff", 0xffffffffu),
    NOT("u32", "\xcf\x00\x00\x00\x01\x00\x00\x00\x00"),
    NOT("u32", "\xff"),
    V("i64", "\xd3\x80\x00\x00\x00\x00\x00\x00\x00", UINT64_C(1) << 63),
    V("i64", "\xcf\x7f\xff\xff\xff\xff\xff\xff\xff", INT64_MAX),
    NOT("i64", "\xcf\x80\x00\x00\x00\x00\x00\x00\x00"),
    V("i64", "\xcb\xc3\xe0\x00\x00\x00\x00\x00\x00", UINT64_C(1) << 63), /* -2^63 */
    NOT("i64", "\xcb\xc3\xe0\x00\x00\x00\x00\x00\x01"),
    NOT("i64", "\xcb\x43\xe0\x00\x00\x00\x00\x00\x00"), /* 2^63 */
    V("u64", "\xcf\xff\xff\xff\xff\xff\xff\xff\xff", UINT64_MAX),
    NOT("u64", "\xcb\x43\xf0\x00\x00\x00\x00\x00\x00"), /* 2^64 */
    V("u64", "\xcb\x43\xef\xff\xff\xff\xff\xff\xff", UINT64_C(0xfffffffffffff800)),
    NOT("u64", "\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00"), /* NaN */
    NOT("u64", "\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00"),
    V("u64", "\xcb\x80\x00\x00\x00\x00\x00\x00\x00", 0), /* -0.0 is zero */
    V("f32", "\xca\x7f\xa0\x00\x01", 0x7fa00001u),       /* a signalling NaN stays what it is */
    V("f32", "\xca\x7f\x80\x00\x00", 0x7f800000u),
    V("f32", "\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00", 0x7f800000u),
    V("f32", "\xcb\xff\xf0\x00\x00\x00\x00\x00\x00", 0xff800000u),
    V("f32", "\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00", 0x7fc00000u),
    V("f32", "\xcb\x3f\xb9\x99\x99\x99\x99\x99\x9a", 0x3dcccccdu), /* 0.1, rounded */
    V("f32", "\xcb\x80\x00\x00\x00\x00\x00\x00\x00", 0x80000000u),
    V("f32", "\xcb\x36\x90\x00\x00\x00\x00\x00\x00", 0),            /* 2^-150 rounds to even */
    NOT("f32", "\xcb\x47\xef\xff\xff\xff\xff\xff\xff"),             /* would round to infinity */
    V("f32", "\xcb\x47\xef\xff\xff\xe0\x00\x00\x00", 0x7f7fffffu),
    V("f32", "\xce\x01\x00\x00\x01", 0x4b800000u),                  /* 2^24 + 1 rounds to even */
    V("f32", "\xcf\x00\x20\x00\x00\x20\x00\x00\x01", 0x5a000001u), /* rounded once, not by way of f64 */
    V("f32", "\xff", 0xbf800000u),
    V("f64", "\xca\x3f\x80\x00\x00", UINT64_C(0x3ff0000000000000)),
    V("f64", "\xcb\x7f\xf4\x00\x00\x00\x00\x00\x01", UINT64_C(0x7ff4000000000001)),
    V("f64", "\xcf\xff\xff\xff\xff\xff\xff\xff\xff", UINT64_C(0x43f0000000000000)),
    V("f64", "\xd3\x80\x00\x00\x00\x00\x00\x00\x00", UINT64_C(0xc3e0000000000000)),
};

static void a_value_becomes_element_bits_or_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        typed("fill", values[i].dtype, 1);
        key("value");
        message_raw(&m, values[i].bytes, values[i].size);
        key_arena("out", 1, 0);
        expect(values[i].refused ? GM_EINVAL : GM_OK, values[i].refused ? "value" : "");
        if (!values[i].refused && last.u.submit.args.value[0] != values[i].bits)
            fail_msg("value %zu (%s): %llx instead of %llx", i, values[i].dtype,
                     (unsigned long long)last.u.submit.args.value[0], (unsigned long long)values[i].bits);
    }
}

/* 16 bits: rounded once to nearest and even, from whatever number the message has. */
static void a_value_of_16_bits_is_rounded_once(void **state)
{
    (void)state;
    static const struct {
        uint32_t dtype;
        struct gm_item item;
        uint64_t bits; /* REFUSED: none */
    } cases[] = {
#define REFUSED UINT64_MAX
#define F(v)    {.type = GM_ITEM_F64, .u = (v)}
        {GM_DTYPE_f16, F(UINT64_C(0x3ff0000000000000)), 0x3c00},
        {GM_DTYPE_f16, F(UINT64_C(0xbff0020000000000)), 0xbc00}, /* 1 + 2^-11: a half, to even */
        {GM_DTYPE_f16, F(UINT64_C(0x3ff0020000000001)), 0x3c01}, /* and a bit more */
        {GM_DTYPE_f16, F(UINT64_C(0x3ff0060000000000)), 0x3c02},
        {GM_DTYPE_f16, F(UINT64_C(0x40effc0000000000)), 0x7bff}, /* 65504 */
        {GM_DTYPE_f16, F(UINT64_C(0x40effdffffffffff)), 0x7bff},
        {GM_DTYPE_f16, F(UINT64_C(0x40effe0000000000)), REFUSED}, /* 65520 would round to infinity */
        {GM_DTYPE_f16, F(UINT64_C(0x7fefffffffffffff)), REFUSED},
        {GM_DTYPE_f16, F(UINT64_C(0xfff0000000000000)), 0xfc00},
        {GM_DTYPE_f16, F(UINT64_C(0x3e60000000000000)), 0},      /* 2^-25: a half of the least */
        {GM_DTYPE_f16, F(UINT64_C(0xbe60000000000001)), 0x8001},
        {GM_DTYPE_f16, F(UINT64_C(0x3f0ffc0000000000)), 0x0400}, /* below the least normal, to it */
        {GM_DTYPE_f16, F(UINT64_C(0x0000000000000001)), 0},
        {GM_DTYPE_f16, F(UINT64_C(0x8000000000000000)), 0x8000},
        {GM_DTYPE_f16, F(UINT64_C(0x7ff8000000000000)), 0x7e00},
        {GM_DTYPE_f16, F(UINT64_C(0xfff0000000000001)), 0xfe00}, /* a payload that is lost stays a NaN */
        {GM_DTYPE_f16, {.type = GM_ITEM_F32, .u = 0x7fa02000u}, 0x7d01},
        {GM_DTYPE_f16, {.type = GM_ITEM_UINT, .u = 2049}, 0x6800},
        {GM_DTYPE_f16, {.type = GM_ITEM_INT, .u = (uint64_t)-2051}, 0xe802},
        {GM_DTYPE_f16, {.type = GM_ITEM_UINT, .u = 65519}, 0x7bff},
        {GM_DTYPE_f16, {.type = GM_ITEM_UINT, .u = 65520}, REFUSED},
        {GM_DTYPE_bf16, F(UINT64_C(0x3ff0100000000000)), 0x3f80}, /* 1 + 2^-8 */
        {GM_DTYPE_bf16, F(UINT64_C(0x3ff0100000000001)), 0x3f81},
        {GM_DTYPE_bf16, F(UINT64_C(0x47efe00000000000)), 0x7f7f},
        {GM_DTYPE_bf16, F(UINT64_C(0x47eff00000000000)), REFUSED},
        {GM_DTYPE_bf16, F(UINT64_C(0x3790000000000000)), 0},
        {GM_DTYPE_bf16, F(UINT64_C(0x3790000000000001)), 0x0001}, /* above a half of 2^-133 */
        {GM_DTYPE_bf16, {.type = GM_ITEM_UINT, .u = UINT64_C(0x8080000000000000)}, 0x5f00},
        {GM_DTYPE_bf16, {.type = GM_ITEM_UINT, .u = UINT64_C(0x8080000000000001)}, 0x5f01}, /* not by way of f64 */
        {GM_DTYPE_bf16, {.type = GM_ITEM_INT, .u = UINT64_C(0) - UINT64_C(0x4040000000000001)}, 0xde81},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t bits = REFUSED;
        const bool taken = gm_scalar_bits(&cases[i].item, cases[i].dtype, &bits);
        assert_int_equal(taken, cases[i].bits != REFUSED);
        if (taken && bits != cases[i].bits)
            fail_msg("case %zu: %llx instead of %llx", i, (unsigned long long)bits, (unsigned long long)cases[i].bits);
    }
}

static void devices_are_counted_from_zero(void **state)
{
    (void)state;
    begin("nop");
    key_u64("device", GM_DEVICES_MAX - 1);
    expect(GM_OK, "");
    assert_true(last.u.submit.has_device);
    begin("nop");
    key_u64("device", GM_DEVICES_MAX);
    expect(GM_ENODEVICE, "device");
    begin("nop");
    key_u64("device", UINT64_C(1) << 32);
    expect(GM_ENODEVICE, "device");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_ops_and_types_have_errors_of_their_own),
        cmocka_unit_test(keys_of_other_ops_are_named),
        cmocka_unit_test(n_is_bounded_and_its_bytes_cannot_overflow),
        cmocka_unit_test(arena_buffers_end_inside_the_largest_arena),
        cmocka_unit_test(counts_of_a_histogram_are_aligned_to_eight),
        cmocka_unit_test(inline_inputs_have_exactly_their_size),
        cmocka_unit_test(a_reply_carries_a_bounded_output),
        cmocka_unit_test(an_inline_input_of_the_largest_size_is_taken),
        cmocka_unit_test(buffers_have_a_number_and_a_kind),
        cmocka_unit_test(places_have_an_arena_and_an_offset),
        cmocka_unit_test(data_of_one_direction_fits_a_message_together),
        cmocka_unit_test(histograms_have_bins_and_finite_edges),
        cmocka_unit_test(a_value_becomes_element_bits_or_is_named),
        cmocka_unit_test(a_value_of_16_bits_is_rounded_once),
        cmocka_unit_test(devices_are_counted_from_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
