/* SPDX-License-Identifier: Apache-2.0
 *
 * What the matrix cannot know of the ops that go element by element, by neighbours or by indices: bad indices, clients
 * that change their indices, outputs that are the second input, ends of ranges, weights that an earlier job left, and
 * the same bits whatever the number of workers. One thread, but for those that flip words.
 */
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "args.h"
#include "matrix.h"

#define BYTES (4u << 20)
#define LARGE 200001u
#define FENCE 64u /* bytes around an output that must stay as they are */

struct fixture {
    struct gm_harness h;
    struct gm_harness_lane lane;
    struct gm_harness_arena data[GM_BUFFERS_MAX];
};

static void open_with(struct fixture *f, uint32_t workers)
{
    const struct gm_device_config config = {.idle_ns = UINT64_C(2000000000), .workers = workers};
    gm_harness_open(&f->h, &config);
    gm_harness_lane_open(&f->h, &f->lane, 1, 4, 0);
    for (uint32_t i = 0; i < GM_BUFFERS_MAX; i++)
        gm_harness_arena_open(&f->h, &f->data[i], BYTES, false);
}

static void close_fixture(struct fixture *f)
{
    gm_harness_idle(&f->h);
    gm_harness_close(&f->h);
}

static int open_all(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    if (!f)
        return -1;
    open_with(f, 0);
    *state = f;
    return 0;
}

static int close_all(void **state)
{
    close_fixture(*state);
    free(*state);
    return 0;
}

/* A buffer that ends where its arena does, before a page that nobody may touch. */
static void *buffer(struct fixture *f, uint32_t i, uint64_t bytes) { return f->data[i].data + BYTES - bytes; }

/* A job on buffers that end with their arenas; out: the arena of the output, if it is not its own. */
static struct gm_granule run_into(struct fixture *f, uint32_t op, const struct gm_args *args, uint32_t out)
{
    const struct gm_op_row row = gm_op_row(op);
    const uint32_t buffers = (uint32_t)row.inputs + row.outputs;
    uint32_t words[GM_DESC_WORDS] = {op};
    gm_args_put(words, &row, args);
    for (uint32_t i = 0; i < buffers; i++) {
        words[gm_buffer_word(i)] = f->data[i + 1u == buffers ? out : i].handle;
        gm_desc_put64(words, gm_buffer_word(i) + 1u, BYTES - gm_buffer_bytes(&row, i, args));
    }
    return gm_harness_wait(&f->lane, gm_harness_submit(&f->lane, words));
}

static struct gm_granule run(struct fixture *f, uint32_t op, const struct gm_args *args)
{
    const struct gm_op_row row = gm_op_row(op);
    return run_into(f, op, args, (uint32_t)row.inputs + row.outputs - 1u);
}

static int32_t status_of(struct gm_granule g) { return gm_completion_status(g); }

/* ---- indices ---- */

static void put_index(void *indices, uint32_t type, uint64_t i, uint64_t v)
{
    const uint32_t bytes = gm_dtype_bytes(type);
    memcpy((uint8_t *)indices + i * bytes, &v, bytes);
}

/* One bad index among good ones, at the beginning, the end and in between; one tile and several. */
static void indices_out_of_range_fail_the_job(void **state)
{
    struct fixture *f = *state;
    static const uint32_t types[] = {GM_DTYPE_i32, GM_DTYPE_u32, GM_DTYPE_i64, GM_DTYPE_u64};
    static const uint64_t sizes[] = {1, 1000, LARGE}, length = 500;
    static const uint64_t bad[] = {500, UINT64_MAX, UINT64_C(1) << 31, UINT64_C(1) << 63, (UINT64_C(1) << 63) + 7u,
                                   UINT64_C(0xfffffffe), UINT64_C(0x100000000)};
    for (uint32_t t = 0; t < 4; t++)
        for (uint32_t s = 0; s < 3; s++)
            for (uint32_t b = 0; b < sizeof bad / sizeof *bad; b++)
                for (uint32_t place = 0; place < 3; place++)
                    for (uint32_t op = GM_OP_gather; op <= GM_OP_scatter; op++) {
                        const uint64_t n = sizes[s], at = place == 0 ? 0 : place == 1 ? n - 1u : n / 2u;
                        const bool fits = gm_dtype_bytes(types[t]) == 8u || bad[b] >> 32 == 0 || bad[b] == UINT64_MAX;
                        const struct gm_args args = {
                            .n = n, .value = {length}, .dtype = GM_DTYPE_f32, .type2 = (uint8_t)types[t]};
                        const uint64_t out_bytes = (op == GM_OP_gather ? n : length) * 4u;
                        uint8_t *out = buffer(f, 2, out_bytes);
                        void *indices = buffer(f, 1, n * gm_dtype_bytes(types[t]));
                        if (!fits)
                            continue;
                        for (uint64_t i = 0; i < n; i++)
                            put_index(indices, types[t], i, i % length);
                        put_index(indices, types[t], at, bad[b]);
                        memset(out - FENCE, 0x5a, out_bytes + FENCE);
                        assert_int_equal(status_of(run(f, op, &args)), GM_EBOUNDS);
                        for (uint32_t k = 1; k <= FENCE; k++)
                            assert_int_equal(out[-(int)k], 0x5a);
                        for (uint64_t k = 0; op == GM_OP_scatter && k < out_bytes; k++)
                            assert_int_equal(out[k], 0x5a); /* before anything is written */
                        put_index(indices, types[t], at, length - 1u);
                        assert_int_equal(status_of(run(f, op, &args)), GM_OK);
                    }
}

/* Of a buffer without elements every index is outside; of no indices none is. */
static void nothing_has_no_indices(void **state)
{
    struct fixture *f = *state;
    for (uint32_t op = GM_OP_gather; op <= GM_OP_scatter; op++) {
        struct gm_args args = {.n = 0, .value = {0}, .dtype = GM_DTYPE_u8, .type2 = GM_DTYPE_u32};
        assert_int_equal(status_of(run(f, op, &args)), GM_OK);
        args.value[0] = 10;
        assert_int_equal(status_of(run(f, op, &args)), GM_OK);
        args.value[0] = 0;
        args.n = 1;
        memset(buffer(f, 1, 4), 0, 4);
        assert_int_equal(status_of(run(f, op, &args)), GM_EBOUNDS);
    }
}

/* The least i32 has the bits of 2^31, which is inside here; it is an index out of range all the same. */
static void negative_indices_are_no_large_ones(void **state)
{
    struct fixture *f = *state;
    struct gm_harness_arena large;
    const uint64_t length = (UINT64_C(1) << 31) + 1u;
    gm_harness_arena_open(&f->h, &large, (UINT64_C(1) << 31) + 4096u, true);
    for (uint32_t op = GM_OP_gather; op <= GM_OP_scatter; op++)
        for (uint32_t type = 0; type < 2; type++) {
            const struct gm_op_row row = gm_op_row(op);
            const struct gm_args args = {.n = 1, .value = {length}, .dtype = GM_DTYPE_u8,
                                         .type2 = type ? GM_DTYPE_u32 : GM_DTYPE_i32};
            const uint32_t least = 0x80000000u;
            uint32_t words[GM_DESC_WORDS] = {op};
            memcpy(f->data[1].data, &least, sizeof least);
            gm_args_put(words, &row, &args);
            for (uint32_t i = 0; i < 3; i++)
                words[gm_buffer_word(i)] = i == (op == GM_OP_gather ? 0u : 2u) ? large.handle : f->data[i].handle;
            assert_int_equal(status_of(gm_harness_wait(&f->lane, gm_harness_submit(&f->lane, words))),
                             type ? GM_OK : GM_EBOUNDS);
        }
}

/* All into one place, all into two, and neighbours into one: of every pair the higher number stays. */
static void the_highest_of_a_place_stays(void **state)
{
    struct fixture *f = *state;
    static const uint64_t sizes[] = {2, 31, 33, 511, 513, 8191, 8192, 8193, 16384, 16385, 50000, LARGE};
    const uint64_t length = 300000;
    for (uint32_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (uint32_t way = 0; way < 4; way++) {
            const uint64_t n = sizes[s];
            const struct gm_args args = {.n = n, .value = {length}, .dtype = GM_DTYPE_u32, .type2 = GM_DTYPE_u32};
            uint32_t *in = buffer(f, 0, n * 4u), *index = buffer(f, 1, n * 4u), *out = buffer(f, 2, length * 4u);
            uint32_t *should = malloc(length * 4u);
            assert_non_null(should);
            memset(out, 0xee, length * 4u);
            memset(should, 0xee, length * 4u);
            for (uint32_t i = 0; i < n; i++) {
                in[i] = ~i;
                index[i] = way == 0   ? 299999u
                           : way == 1 ? i % 2u * 299999u
                           : way == 2 ? i / 2u
                                      : (uint32_t)((n - 1u - i) / 3u); /* falling */
                should[index[i]] = ~i;
            }
            assert_int_equal(status_of(run(f, GM_OP_scatter, &args)), GM_OK);
            assert_memory_equal(out, should, length * 4u);
            free(should);
        }
}

struct flipper {
    pthread_t thread;
    uint32_t *words;
    uint64_t count;
    uint32_t stop;
};

static void *flip(void *arg)
{
    struct flipper *f = arg;
    uint64_t state = 4711;
    while (gm_load_relaxed_u32(&f->stop) == 0)
        for (uint32_t i = 0; i < 64; i++) {
            const uint64_t r = gm_random(&state);
            /* Mostly inside; now and then anything. */
            gm_store_relaxed_u32(&f->words[r % f->count], r >> 20 & 255u ? (uint32_t)(r >> 40) % 1000u
                                                                         : (uint32_t)(r >> 32));
        }
    return NULL;
}

/* Indices change all the time, between the phases of a scatter too: what is written lies inside and is an element. */
static void flipping_indices_write_nothing_outside(void **state)
{
    struct fixture *f = *state;
    const uint64_t length = 1000;
    const struct gm_args args = {.n = LARGE, .value = {length}, .dtype = GM_DTYPE_u32, .type2 = GM_DTYPE_u32};
    uint32_t *in = buffer(f, 0, LARGE * 4u), *index = buffer(f, 1, LARGE * 4u);
    struct flipper flipper = {.words = index, .count = LARGE};
    for (uint32_t i = 0; i < LARGE; i++)
        in[i] = 0xabcd0000u | (i & 0xffffu), index[i] = i % length;
    assert_int_equal(pthread_create(&flipper.thread, NULL, flip, &flipper), 0);
    for (uint32_t round = 0; round < 40; round++) {
        const uint32_t op = round % 4u ? GM_OP_scatter : GM_OP_gather;
        const uint64_t count = op == GM_OP_scatter ? length : LARGE;
        uint32_t *out = buffer(f, 2, count * 4u);
        memset(out - FENCE / 4u, 0x11, count * 4u + FENCE);
        const int32_t status = status_of(run(f, op, &args));
        assert_true(status == GM_OK || status == GM_EBOUNDS);
        for (uint64_t k = 0; k < count; k++)
            assert_true(out[k] == 0x11111111u || out[k] >> 16 == 0xabcdu);
        for (uint32_t k = 1; k <= FENCE / 4u; k++)
            assert_int_equal(out[-(int)k], 0x11111111u);
    }
    gm_store_relaxed_u32(&flipper.stop, 1);
    pthread_join(flipper.thread, NULL);
}

/* ---- elements ---- */

static uint64_t bits_of_f32(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

/* The output of axpby is the first input, the second one, or both at once. */
static void axpby_into_its_inputs(void **state)
{
    struct fixture *f = *state;
    const uint64_t n = LARGE;
    const struct gm_args args = {.n = n, .value = {3, (uint64_t)-2}, .dtype = GM_DTYPE_i64};
    int64_t *x = buffer(f, 0, n * 8u), *y = buffer(f, 1, n * 8u);
    for (uint32_t into = 0; into < 3; into++) {
        for (uint64_t i = 0; i < n; i++)
            x[i] = (int64_t)i - 100000, y[i] = 7 * (int64_t)i;
        if (into == 2) { /* one buffer for all */
            uint32_t words[GM_DESC_WORDS] = {GM_OP_axpby};
            const struct gm_op_row row = gm_op_row(GM_OP_axpby);
            gm_args_put(words, &row, &args);
            for (uint32_t i = 0; i < 3; i++) {
                words[gm_buffer_word(i)] = f->data[0].handle;
                gm_desc_put64(words, gm_buffer_word(i) + 1u, BYTES - n * 8u);
            }
            assert_int_equal(status_of(gm_harness_wait(&f->lane, gm_harness_submit(&f->lane, words))), GM_OK);
        } else {
            assert_int_equal(status_of(run_into(f, GM_OP_axpby, &args, into)), GM_OK);
        }
        const int64_t *out = into == 1 ? y : x;
        for (int64_t i = 0; i < (int64_t)n; i++)
            assert_int_equal(out[i], into == 2 ? i - 100000 : 3 * (i - 100000) - 2 * 7 * i);
    }
}

static uint32_t clamped(struct fixture *f, uint32_t x, float lower, float upper)
{
    const struct gm_args args = {
        .n = 1, .value = {bits_of_f32(lower), bits_of_f32(upper)}, .dtype = GM_DTYPE_f32};
    memcpy(buffer(f, 0, 4), &x, 4);
    assert_int_equal(status_of(run(f, GM_OP_clamp, &args)), GM_OK);
    return *(const uint32_t *)buffer(f, 1, 4);
}

static void clamp_keeps_nans_and_zeros(void **state)
{
    struct fixture *f = *state;
    const uint32_t minus_zero = 0x80000000u, signaling = 0xff812345u, five = (uint32_t)bits_of_f32(5);
    assert_int_equal(clamped(f, signaling, -1, 1), signaling);
    assert_int_equal(clamped(f, signaling, NAN, NAN), signaling);
    assert_int_equal(clamped(f, minus_zero, 0, 1), minus_zero);
    assert_int_equal(clamped(f, 0, -1, -0.0f), 0);
    assert_int_equal(clamped(f, five, NAN, 3), bits_of_f32(3));
    assert_int_equal(clamped(f, five, 7, NAN), bits_of_f32(7));
    assert_int_equal(clamped(f, five, NAN, NAN), five);
    assert_int_equal(clamped(f, five, 9, 2), bits_of_f32(2)); /* upper wins */
    assert_int_equal(clamped(f, (uint32_t)bits_of_f32(-INFINITY), -FLT_MAX, FLT_MAX), bits_of_f32(-FLT_MAX));
}

static const struct {
    double x;
    int32_t i32;
    uint32_t u32;
    int64_t i64;
    uint64_t u64;
} ends[] = {
    {NAN, 0, 0, 0, 0},
    {-NAN, 0, 0, 0, 0},
    {INFINITY, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX},
    {-INFINITY, INT32_MIN, 0, INT64_MIN, 0},
    {-0.0, 0, 0, 0, 0},
    {0.9999, 0, 0, 0, 0},
    {-0.9999, 0, 0, 0, 0},
    {-1, -1, 0, -1, 0},
    {2.5, 2, 2, 2, 2},
    {-2.5, -2, 0, -2, 0},
    {0x1p31, INT32_MAX, 0x80000000u, INT64_C(1) << 31, UINT64_C(1) << 31},
    {-0x1p31, INT32_MIN, 0, -(INT64_C(1) << 31), 0},
    {0x1p32, INT32_MAX, UINT32_MAX, INT64_C(1) << 32, UINT64_C(1) << 32},
    {0x1p63, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_C(1) << 63},
    {-0x1p63, INT32_MIN, 0, INT64_MIN, 0},
    {0x1p64, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX},
    {0x1.fffffep63, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_C(0xffffff0000000000)},
    {1e300, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX}, /* infinite in f32 */
};

static void cast_stops_at_the_ends(void **state)
{
    struct fixture *f = *state;
    for (uint32_t i = 0; i < sizeof ends / sizeof *ends; i++)
        for (uint32_t wide = 0; wide < 2; wide++) {
            const float narrow = (float)ends[i].x;
            struct gm_args args = {.n = 1, .dtype = wide ? GM_DTYPE_f64 : GM_DTYPE_f32, .type2 = GM_DTYPE_i32};
            memcpy(buffer(f, 0, wide ? 8 : 4), wide ? (const void *)&ends[i].x : &narrow, wide ? 8 : 4);
            assert_int_equal(status_of(run(f, GM_OP_cast, &args)), GM_OK);
            assert_int_equal(*(int32_t *)buffer(f, 1, 4), ends[i].i32);
            args.type2 = GM_DTYPE_u32;
            assert_int_equal(status_of(run(f, GM_OP_cast, &args)), GM_OK);
            assert_int_equal(*(uint32_t *)buffer(f, 1, 4), ends[i].u32);
            args.type2 = GM_DTYPE_i64;
            assert_int_equal(status_of(run(f, GM_OP_cast, &args)), GM_OK);
            assert_true(*(int64_t *)buffer(f, 1, 8) == ends[i].i64);
            args.type2 = GM_DTYPE_u64;
            assert_int_equal(status_of(run(f, GM_OP_cast, &args)), GM_OK);
            assert_true(*(uint64_t *)buffer(f, 1, 8) == ends[i].u64);
        }
}

static uint64_t cast_bits(struct fixture *f, uint32_t from, uint32_t to, uint64_t bits)
{
    const uint32_t in_bytes = gm_dtype_bytes(from), out_bytes = gm_dtype_bytes(to);
    const struct gm_args args = {.n = 1, .dtype = (uint8_t)from, .type2 = (uint8_t)to};
    uint64_t out = 0;
    memcpy(buffer(f, 0, in_bytes), &bits, in_bytes);
    assert_int_equal(status_of(run(f, GM_OP_cast, &args)), GM_OK);
    memcpy(&out, buffer(f, 1, out_bytes), out_bytes);
    return out;
}

static void cast_rounds_to_even(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(cast_bits(f, GM_DTYPE_i32, GM_DTYPE_f32, 0x1000001), 0x4b800000);  /* down to even */
    assert_int_equal(cast_bits(f, GM_DTYPE_i32, GM_DTYPE_f32, 0x1000003), 0x4b800002);  /* up to even */
    assert_int_equal(cast_bits(f, GM_DTYPE_u64, GM_DTYPE_f32, UINT64_MAX), 0x5f800000); /* 2^64 */
    assert_int_equal(cast_bits(f, GM_DTYPE_i64, GM_DTYPE_f32, UINT64_C(0x4000004000000001)), 0x5e800001); /* once */
    assert_int_equal(cast_bits(f, GM_DTYPE_f64, GM_DTYPE_f32, UINT64_C(0x47efffffefffffff)), 0x7f7fffff);
    assert_int_equal(cast_bits(f, GM_DTYPE_f64, GM_DTYPE_f32, UINT64_C(0x47effffff0000000)), 0x7f800000);
    assert_int_equal(cast_bits(f, GM_DTYPE_f64, GM_DTYPE_f32, UINT64_C(0xfff0000000000001)), 0x7fc00000);
    assert_int_equal(cast_bits(f, GM_DTYPE_f64, GM_DTYPE_f32, UINT64_C(0x8000000000000001)), 0x80000000);
    assert_true(cast_bits(f, GM_DTYPE_f32, GM_DTYPE_f64, 0xff800001) == UINT64_C(0x7ff8000000000000));
    assert_int_equal(cast_bits(f, GM_DTYPE_f32, GM_DTYPE_f32, 0xff800001), 0xff800001); /* the same type: bits */
    assert_true(cast_bits(f, GM_DTYPE_i32, GM_DTYPE_u64, 0xfffffffe) == UINT64_MAX - 1u);
    assert_true(cast_bits(f, GM_DTYPE_u32, GM_DTYPE_i64, 0xfffffffe) == 0xfffffffe);
    assert_int_equal(cast_bits(f, GM_DTYPE_i64, GM_DTYPE_i32, UINT64_C(0x123456789abcdef0)), 0x9abcdef0);
}

/* What would come out otherwise if it went through f32, or f64, by rounding there to nearest first. */
static void cast_rounds_once(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(cast_bits(f, GM_DTYPE_f64, GM_DTYPE_bf16, UINT64_C(0x3ff0100000000001)), 0x3f81);
    assert_int_equal(cast_bits(f, GM_DTYPE_f64, GM_DTYPE_bf16, UINT64_C(0x3ff0100000000000)), 0x3f80);
    assert_int_equal(cast_bits(f, GM_DTYPE_f64, GM_DTYPE_f16, UINT64_C(0x3ff0020000000001)), 0x3c01);
    assert_int_equal(cast_bits(f, GM_DTYPE_f64, GM_DTYPE_f16, UINT64_C(0x3ff005ffffffffff)), 0x3c01);
    assert_int_equal(cast_bits(f, GM_DTYPE_f64, GM_DTYPE_f16, UINT64_C(0xbe60000000000001)), 0x8001); /* over half */
    assert_int_equal(cast_bits(f, GM_DTYPE_f64, GM_DTYPE_f16, UINT64_C(0xbe60000000000000)), 0x8000);
    assert_int_equal(cast_bits(f, GM_DTYPE_f64, GM_DTYPE_f16, 1), 0);
    assert_int_equal(cast_bits(f, GM_DTYPE_i64, GM_DTYPE_bf16, UINT64_C(0x4040000000000001)), 0x5e81);
    assert_int_equal(cast_bits(f, GM_DTYPE_i64, GM_DTYPE_bf16, UINT64_C(0x4040000000000000)), 0x5e80);
    assert_int_equal(cast_bits(f, GM_DTYPE_u64, GM_DTYPE_bf16, UINT64_MAX), 0x5f80);
    assert_int_equal(cast_bits(f, GM_DTYPE_i32, GM_DTYPE_f16, 65519), 0x7bff);
    assert_int_equal(cast_bits(f, GM_DTYPE_i32, GM_DTYPE_f16, 65520), 0x7c00);
    assert_int_equal(cast_bits(f, GM_DTYPE_f64, GM_DTYPE_bf16, UINT64_C(0x47efefffffffffff)), 0x7f7f);
    assert_int_equal(cast_bits(f, GM_DTYPE_f64, GM_DTYPE_bf16, UINT64_C(0x47eff00000000000)), 0x7f80);
    assert_int_equal(cast_bits(f, GM_DTYPE_f32, GM_DTYPE_f16, 0x38800000), 0x0400);
    assert_int_equal(cast_bits(f, GM_DTYPE_f32, GM_DTYPE_f16, 0x387fffff), 0x0400);
    assert_int_equal(cast_bits(f, GM_DTYPE_f16, GM_DTYPE_f32, 0x0001), 0x33800000);
    assert_int_equal(cast_bits(f, GM_DTYPE_f16, GM_DTYPE_f32, 0xfc01), 0x7fc00000);
    assert_int_equal(cast_bits(f, GM_DTYPE_bf16, GM_DTYPE_f16, 0xff81), 0x7e00);
    assert_int_equal(cast_bits(f, GM_DTYPE_f16, GM_DTYPE_f16, 0xfc01), 0xfc01);
    assert_int_equal(cast_bits(f, GM_DTYPE_f16, GM_DTYPE_i8, 0xd800), 0x80); /* -128 */
    assert_int_equal(cast_bits(f, GM_DTYPE_f16, GM_DTYPE_u8, 0x5bff), 255);
    assert_int_equal(cast_bits(f, GM_DTYPE_i8, GM_DTYPE_u32, 0x80), 0xffffff80);
}

/* Every f16 and every bf16 to f32 and back is what it was, unless it is no number. */
static void narrow_floats_come_back(void **state)
{
    struct fixture *f = *state;
    static const uint32_t types[] = {GM_DTYPE_f16, GM_DTYPE_bf16, GM_DTYPE_f64, GM_DTYPE_f32};
    for (uint32_t t = 0; t < 4; t++) {
        const uint32_t narrow = types[t & 1u], wide = types[2u + t / 2u], bytes = gm_dtype_bytes(wide);
        struct gm_args args = {.n = 65536, .dtype = (uint8_t)narrow, .type2 = (uint8_t)wide};
        uint16_t *in = buffer(f, 0, 131072);
        for (uint32_t i = 0; i < 65536; i++)
            in[i] = (uint16_t)i;
        assert_int_equal(status_of(run(f, GM_OP_cast, &args)), GM_OK);
        args.dtype = (uint8_t)wide, args.type2 = (uint8_t)narrow;
        memcpy(buffer(f, 0, 65536u * bytes), buffer(f, 1, 65536u * bytes), 65536u * bytes);
        assert_int_equal(status_of(run(f, GM_OP_cast, &args)), GM_OK);
        const uint16_t *out = buffer(f, 1, 131072), infinity = narrow == GM_DTYPE_f16 ? 0x7c00 : 0x7f80;
        for (uint32_t i = 0; i < 65536; i++)
            assert_int_equal(out[i], (i & 0x7fffu) > infinity ? narrow == GM_DTYPE_f16 ? 0x7e00u : 0x7fc0u : i);
    }
}

/* ---- neighbours ---- */

/* A weight of zero is no word of the descriptor that an entry has to keep: what an earlier job left must not count. */
static void weights_of_an_earlier_job_do_not_count(void **state)
{
    struct fixture *f = *state;
    const uint64_t sizes[] = {5, LARGE};
    for (uint32_t s = 0; s < 2; s++) {
        const uint64_t n = sizes[s];
        struct gm_args args = {.n = n, .value = {1, 10, 1000}, .dtype = GM_DTYPE_u32};
        uint32_t *in = buffer(f, 0, n * 4u), *out = buffer(f, 1, n * 4u);
        for (uint64_t i = 0; i < n; i++)
            in[i] = 1;
        for (uint32_t round = 0; round < 20; round++) {
            args.value[2] = round % 2u ? 0 : 1000;
            assert_int_equal(status_of(run(f, GM_OP_stencil3_weighted, &args)), GM_OK);
            for (uint64_t i = 0; i < n; i++)
                assert_int_equal(out[i], 10u + (i != 0 ? 1u : 0) + (i + 1u != n ? args.value[2] : 0));
        }
    }
}

/* Rows of every length: shorter than a tile, as long, longer, one alone, columns alone. */
static void grids_of_any_width(void **state)
{
    struct fixture *f = *state;
    const uint64_t tile = gm_op_row(GM_OP_stencil5).tile_bytes / 4u;
    const uint64_t widths[] = {1, 2, 31, 511, 512, 513, 1000, tile - 1u, tile, tile + 1u, 2u * tile + 3u, 40000};
    for (uint32_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (uint32_t height = 1; height <= 60; height = height * 5u + 1u) {
            const uint64_t width = widths[w], n = width * height;
            const struct gm_args args = {.n = n, .value = {width}, .dtype = GM_DTYPE_i32};
            if (n * 4u > BYTES - 4096u)
                continue;
            int32_t *in = buffer(f, 0, n * 4u), *weights = buffer(f, 1, 20), *out = buffer(f, 2, n * 4u);
            for (int32_t k = 0; k < 5; k++)
                weights[k] = 3 + 10 * k;
            for (uint64_t i = 0; i < n; i++)
                in[i] = (int32_t)(i % 1009u) - 500;
            assert_int_equal(status_of(run(f, GM_OP_stencil5, &args)), GM_OK);
            for (uint64_t i = 0; i < n; i++) {
                const uint64_t x = i % width, y = i / width;
                const int32_t should = 3 * in[i] + (x != 0 ? 13 * in[i - 1u] : 0) +
                                       (x + 1u != width ? 23 * in[i + 1u] : 0) + (y != 0 ? 33 * in[i - width] : 0) +
                                       (y + 1u != height ? 43 * in[i + width] : 0);
                if (out[i] != should)
                    fail_msg("width %u, height %u, element %u", (unsigned)width, height, (unsigned)i);
            }
        }
    struct gm_args args = {.n = 10, .value = {0}, .dtype = GM_DTYPE_i32};
    assert_int_equal(status_of(run(f, GM_OP_stencil5, &args)), GM_ESIZE);
    args.value[0] = 3; /* no whole rows */
    assert_int_equal(status_of(run(f, GM_OP_stencil5, &args)), GM_ESIZE);
}

/* ---- workers ---- */

#define OPS 6u
static const uint32_t ops_of_floats[OPS] = {GM_OP_axpby,    GM_OP_cast,   GM_OP_stencil3, GM_OP_stencil3_weighted,
                                            GM_OP_stencil5, GM_OP_scatter};

static void workers_change_no_bit(void **state)
{
    (void)state;
    static const uint32_t workers[] = {1, 2, 3, 7};
    uint8_t *first = malloc(OPS * LARGE * 8u);
    assert_non_null(first);
    for (uint32_t w = 0; w < sizeof workers / sizeof *workers; w++) {
        struct fixture f;
        memset(&f, 0, sizeof f);
        open_with(&f, workers[w]);
        for (uint32_t k = 0; k < OPS; k++) {
            struct gm_case c = {.op = ops_of_floats[k], .dtype = GM_DTYPE_f32, .n = LARGE - 1u,
                                .pattern = GM_PATTERN_RANDOM, .seed = 5};
            const struct gm_op_row row = gm_op_row(c.op);
            gm_case_choose(&c);
            c.type2 = c.op == GM_OP_cast ? (uint32_t)GM_DTYPE_f64 : c.type2;
            const struct gm_args args = gm_case_args(&c);
            for (uint32_t i = 0; i < row.inputs; i++)
                gm_case_fill(&c, i, buffer(&f, i, gm_buffer_bytes(&row, i, &args)));
            const uint64_t bytes = gm_buffer_bytes(&row, row.inputs, &args);
            uint8_t *out = buffer(&f, row.inputs, bytes), *should = first + k * LARGE * 8u;
            memset(out, 0x77, bytes);
            assert_int_equal(status_of(run(&f, c.op, &args)), GM_OK);
            if (w == 0)
                memcpy(should, out, bytes);
            else
                assert_memory_equal(out, should, bytes);
        }
        close_fixture(&f);
    }
    free(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(indices_out_of_range_fail_the_job),
        cmocka_unit_test(nothing_has_no_indices),
        cmocka_unit_test(the_highest_of_a_place_stays),
        cmocka_unit_test(flipping_indices_write_nothing_outside),
        cmocka_unit_test(axpby_into_its_inputs),
        cmocka_unit_test(clamp_keeps_nans_and_zeros),
        cmocka_unit_test(cast_stops_at_the_ends),
        cmocka_unit_test(cast_rounds_to_even),
        cmocka_unit_test(cast_rounds_once),
        cmocka_unit_test(narrow_floats_come_back),
        cmocka_unit_test(negative_indices_are_no_large_ones),
        cmocka_unit_test(weights_of_an_earlier_job_do_not_count),
        cmocka_unit_test(grids_of_any_width),
    };
    const struct CMUnitTest alone[] = {cmocka_unit_test(workers_change_no_bit)}; /* opens devices of its own */
    const int failed = cmocka_run_group_tests(tests, open_all, close_all);
    return failed + cmocka_run_group_tests(alone, NULL, NULL);
}
