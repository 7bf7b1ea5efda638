/* SPDX-License-Identifier: Apache-2.0
 *
 * What the matrix cannot know of the histograms: values on edges of the client's own by NumPy's rule, edges that are
 * refused or change while jobs run, which counter a channel or a pair belongs to, and every way of counting with any
 * number of workers. Outputs end on a page that faults.
 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../brief.h"
#include "args.h"
#include "matrix.h"

#define BYTES (4u << 20)
#define CANARY 0x5ec2e75a5ec2e75au

struct fixture {
    struct gm_harness h;
    struct gm_harness_lane lane;
    struct gm_harness_arena in, edges, out;
    uint64_t *counts; /* of the last job: up to the end of out */
};

static void open_device(struct fixture *f, uint32_t workers)
{
    const struct gm_device_config config = {.idle_ns = UINT64_C(2000000000), .workers = workers};
    memset(f, 0, sizeof *f);
    gm_harness_open(&f->h, &config);
    gm_harness_lane_open(&f->h, &f->lane, 1, 4, 0);
    gm_harness_arena_open(&f->h, &f->in, BYTES, false);
    gm_harness_arena_open(&f->h, &f->edges, BYTES, false);
    gm_harness_arena_open(&f->h, &f->out, BYTES, false);
}

static void close_device(struct fixture *f)
{
    gm_harness_idle(&f->h);
    gm_harness_close(&f->h);
}

static int open_all(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    if (!f)
        return -1;
    open_device(f, 0);
    *state = f;
    return 0;
}

static int close_all(void **state)
{
    close_device(*state);
    free(*state);
    return 0;
}

/* Runs a job on inputs at these offsets, its output up to the end of the arena behind a canary. */
static struct gm_granule run(struct fixture *f, uint32_t op, const struct gm_args *args, uint64_t in, uint64_t edges)
{
    const struct gm_op_row row = gm_op_row(op);
    const uint64_t bytes = gm_buffer_bytes(&row, row.inputs, args);
    uint32_t words[GM_DESC_WORDS] = {op};
    f->counts = (uint64_t *)(void *)(f->out.data + f->out.bytes - bytes);
    f->counts[-1] = CANARY;
    memset(f->counts, 0xee, bytes);
    gm_args_put(words, &row, args);
    words[GM_W_ARENA0] = f->in.handle;
    gm_desc_put64(words, GM_W_OFFSET0, in);
    if (row.inputs == 2) {
        words[gm_buffer_word(1)] = f->edges.handle;
        gm_desc_put64(words, gm_buffer_word(1) + 1u, edges);
    }
    words[gm_buffer_word(row.inputs)] = f->out.handle;
    gm_desc_put64(words, gm_buffer_word(row.inputs) + 1u, f->out.bytes - bytes);
    const struct gm_granule done = gm_harness_wait(&f->lane, gm_harness_submit(&f->lane, words));
    assert_true(f->counts[-1] == CANARY);
    return done;
}

static uint64_t sum_of(const uint64_t *counts, uint64_t count)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += counts[i];
    return sum;
}

static void expect_edges(struct fixture *f, uint32_t dtype, const void *x, uint64_t n, const void *edges, uint32_t bins,
                         const uint64_t *counts)
{
    const struct gm_args args = {.n = n, .count = bins, .dtype = (uint8_t)dtype};
    const uint32_t size = gm_dtype_bytes(dtype);
    memcpy(f->in.data, x, n * size);
    memcpy(f->edges.data, edges, (bins + 1u) * size);
    const struct gm_granule done = run(f, GM_OP_histogram_edges, &args, 0, 0);
    assert_int_equal(gm_completion_status(done), GM_OK);
    for (uint32_t i = 0; i < bins; i++)
        if (f->counts[i] != counts[i])
            fail_msg("dtype %u: bin %u holds %llu, not %llu", dtype, i, (unsigned long long)f->counts[i],
                     (unsigned long long)counts[i]);
    assert_int_equal(gm_completion_result(done), sum_of(counts, bins));
}

static void values_on_edges_follow_numpys_rule(void **state)
{
    struct fixture *f = *state;
    /* numpy.histogram of the same, where edges may be equal and a NaN is nowhere. */
    const double edges[] = {-INFINITY, 0, 0.25, 1, 1, 2};
    const double x[] = {-INFINITY, -1, -0.0, 0.0, 0.25, 0.999, 1, 1, 2, 2.0000000000000004, INFINITY, NAN};
    const uint64_t counts[] = {2, 2, 2, 0, 3};
    expect_edges(f, GM_DTYPE_f64, x, sizeof x / sizeof *x, edges, 5, counts);
    const float narrow_edges[] = {0.0f, 1e-45f, INFINITY}, narrow[] = {0, -0.0f, -1e-45f, 1e-45f, INFINITY, NAN, -1};
    const uint64_t narrow_counts[] = {2, 2};
    expect_edges(f, GM_DTYPE_f32, narrow, 7, narrow_edges, 2, narrow_counts);
    /* The last bin alone: nothing but its edge. */
    const int32_t point[] = {-5, -5, -5}, near[] = {-6, -5, -4, -5};
    const uint64_t point_counts[] = {0, 2};
    expect_edges(f, GM_DTYPE_i32, near, 4, point, 2, point_counts);
    const int64_t long_edges[] = {INT64_MIN, -1, INT64_MAX}, longs[] = {INT64_MIN, -2, -1, 0, INT64_MAX};
    const uint64_t long_counts[] = {2, 3};
    expect_edges(f, GM_DTYPE_i64, longs, 5, long_edges, 2, long_counts);
    /* Not by way of f64, which does not know them apart. */
    const uint64_t wide_edges[] = {UINT64_MAX - 2u, UINT64_MAX - 1u, UINT64_MAX},
                   wide[] = {UINT64_MAX - 3u, UINT64_MAX - 2u, UINT64_MAX - 1u, UINT64_MAX};
    const uint64_t wide_counts[] = {1, 2};
    expect_edges(f, GM_DTYPE_u64, wide, 4, wide_edges, 2, wide_counts);
    const uint32_t word_edges[] = {0x7fffffffu, 0x80000000u, 0xffffffffu}, word[] = {0x7fffffffu, 0x80000000u, 0};
    const uint64_t word_counts[] = {1, 1};
    expect_edges(f, GM_DTYPE_u32, word, 3, word_edges, 2, word_counts);
    const uint8_t byte_edges[] = {1, 1, 255, 255}, byte[] = {0, 1, 254, 255, 255};
    const uint64_t byte_counts[] = {0, 2, 2};
    expect_edges(f, GM_DTYPE_u8, byte, 5, byte_edges, 3, byte_counts);
}

/* Edge i of this many that rise, as an element. */
static void put_edge(struct fixture *f, uint32_t dtype, uint32_t i, double v)
{
    const float narrow = (float)v;
    const uint64_t whole = dtype == GM_DTYPE_f32 || dtype == GM_DTYPE_f64 ? 0 : (uint64_t)(int64_t)v;
    uint8_t *to = f->edges.data + (uint64_t)i * gm_dtype_bytes(dtype);
    if (dtype == GM_DTYPE_f32)
        memcpy(to, &narrow, 4);
    else if (dtype == GM_DTYPE_f64)
        memcpy(to, &v, 8);
    else
        memcpy(to, &whole, gm_dtype_bytes(dtype));
}

static void put_edges(struct fixture *f, uint32_t dtype, uint32_t bins)
{
    for (uint32_t i = 0; i <= bins; i++)
        put_edge(f, dtype, i, dtype == GM_DTYPE_u8 ? 255.0 * i / bins : (double)i + 1);
}

static void edges_that_fall_or_are_nan_are_refused(void **state)
{
    static const uint32_t dtypes[] = {GM_DTYPE_u8,  GM_DTYPE_i32, GM_DTYPE_u32, GM_DTYPE_i64,
                                      GM_DTYPE_u64, GM_DTYPE_f32, GM_DTYPE_f64};
    static const uint32_t bins[] = {1, 2, 8, 100, 40000};
    static const uint64_t sizes[] = {0, 5, 300001};
    struct fixture *f = *state;
    memset(f->in.data, 1, BYTES);
    for (uint32_t k = 0; k < 7u * 5u * 3u; k++) {
        if (gm_left_out(k))
            continue;
        const uint32_t dtype = dtypes[k % 7u], b = bins[k / 7u % 5u];
        const struct gm_args args = {.n = sizes[k / 35u], .count = b, .dtype = (uint8_t)dtype};
        const uint32_t at[] = {0, b / 2u, b};
        put_edges(f, dtype, b);
        assert_int_equal(gm_completion_status(run(f, GM_OP_histogram_edges, &args, 0, 0)), GM_OK);
        for (uint32_t p = 0; p < 3; p++) {
            /* The first edge above the next, or any other below the one before it. */
            put_edges(f, dtype, b);
            put_edge(f, dtype, at[p], at[p] == 0 ? 100000.0 + (dtype == GM_DTYPE_u8 ? -100000.0 + 255.0 : 0.0) : 0.0);
            if (at[p] == 0 && dtype == GM_DTYPE_u8)
                put_edge(f, dtype, 1, 254.0);
            if (at[p] != 0 && dtype == GM_DTYPE_u8)
                put_edge(f, dtype, at[p] - 1u, 1.0);
            assert_int_equal(gm_completion_status(run(f, GM_OP_histogram_edges, &args, 0, 0)), GM_EINVAL);
            if (gm_dtype_kind(dtype) != 'f')
                continue;
            for (int sign = 0; sign < 2; sign++) {
                put_edges(f, dtype, b);
                put_edge(f, dtype, at[p], sign ? -(double)NAN : (double)NAN);
                assert_int_equal(gm_completion_status(run(f, GM_OP_histogram_edges, &args, 0, 0)), GM_EINVAL);
            }
        }
    }
}

struct flipper {
    pthread_t thread;
    struct fixture *f;
    uint32_t stop;
};

/* The least significant bits of edges, now and then something that is no edge, and the input. */
static void *flip(void *arg)
{
    struct flipper *flipper = arg;
    uint32_t *edges = (uint32_t *)(void *)flipper->f->edges.data, *in = (uint32_t *)(void *)flipper->f->in.data;
    uint64_t state = 4711;
    while (gm_load_relaxed_u32(&flipper->stop) == 0) {
        const uint64_t r = gm_random(&state);
        const uint32_t i = (uint32_t)(r >> 8) % 1000u;
        gm_store_relaxed_u32(&edges[i],
                             (r & 0xffu) == 0 ? (uint32_t)(r >> 32) : i * 1000u + ((uint32_t)(r >> 32) & 7u));
        gm_store_relaxed_u32(&in[r >> 20 & 0xffffu], (uint32_t)(r >> 32) % 1100000u);
    }
    return NULL;
}

static void edges_that_change_hurt_nobody(void **state)
{
    static const uint32_t bins[] = {1, 8, 9, 999, GM_HIST_EDGES_MAX};
    struct fixture *f = *state;
    struct flipper flipper = {.f = f};
    uint32_t *edges = (uint32_t *)(void *)f->edges.data, good = 0;
    const uint64_t n = 200001;
    for (uint32_t i = 0; i <= GM_HIST_EDGES_MAX; i++)
        edges[i] = i * 1000u;
    assert_int_equal(pthread_create(&flipper.thread, NULL, flip, &flipper), 0);
    for (uint32_t round = 0; round < 100; round++) {
        const struct gm_args args = {.n = n, .count = bins[round % 5u], .dtype = GM_DTYPE_u32};
        const struct gm_granule done = run(f, GM_OP_histogram_edges, &args, 0, 0);
        const int32_t status = gm_completion_status(done);
        assert_true(status == GM_OK || status == GM_EINVAL);
        if (status != GM_OK)
            continue;
        good++;
        assert_int_equal(gm_completion_result(done), sum_of(f->counts, args.count));
        assert_true(gm_completion_result(done) <= n);
    }
    gm_store_relaxed_u32(&flipper.stop, 1);
    pthread_join(flipper.thread, NULL);
    assert_true(good != 0);
}

static struct gm_args even_args(uint32_t dtype, uint64_t n, uint32_t bins, uint32_t count2)
{
    const double ranges[4] = {0, 8, 0, 8};
    struct gm_args args = {.n = n, .count = bins, .count2 = count2, .dtype = (uint8_t)dtype};
    memcpy(args.value, ranges, sizeof ranges);
    return args;
}

static void put_small(uint8_t *to, uint64_t i, uint32_t dtype, uint32_t v)
{
    const float narrow = (float)v;
    const double wide = v;
    const uint64_t whole = v;
    const uint32_t size = gm_dtype_bytes(dtype);
    memcpy(to + i * size,
           dtype == GM_DTYPE_f32   ? (const void *)&narrow
           : dtype == GM_DTYPE_f64 ? (const void *)&wide
                                   : &whole,
           size);
}

/* Each channel has a value of its own, so a channel at a wrong place shows. */
static void a_channel_is_counted_at_its_place(void **state)
{
    static const uint32_t dtypes[] = {GM_DTYPE_u8, GM_DTYPE_f32, GM_DTYPE_i64};
    struct fixture *f = *state;
    for (uint32_t d = 0; d < 3; d++)
        for (uint32_t channels = 1; channels <= GM_CHANNELS_MAX; channels++)
            for (uint32_t k = 0; k < 12; k++) {
                if (gm_left_out(d + channels + k))
                    continue;
                const uint32_t size = gm_dtype_bytes(dtypes[d]);
                const uint64_t tile = gm_op_row(GM_OP_histogram_channels).tile_bytes / size;
                const uint64_t sizes[] = {1, 2, 5, 7, 15, 17, tile - 1, tile, tile + 1, 2 * tile + 11, 3 * tile, 4099};
                const uint64_t n = sizes[k], first = k % 5u;
                struct gm_args args = even_args(dtypes[d], n, 8, channels);
                args.value[2] = args.value[3] = 0;
                for (uint64_t i = 0; i < n * channels; i++)
                    put_small(f->in.data, first + i, dtypes[d], (uint32_t)(i % channels) + 2u);
                const struct gm_granule done = run(f, GM_OP_histogram_channels, &args, first * size, 0);
                assert_int_equal(gm_completion_status(done), GM_OK);
                assert_int_equal(gm_completion_result(done), n * channels);
                for (uint32_t i = 0; i < 8u * channels; i++)
                    assert_int_equal(f->counts[i], i % 8u == i / 8u + 2u ? n : 0);
            }
}

/* x and y differ, and so do their bins; a pair with one value outside is nowhere. */
static void a_pair_is_counted_in_its_cell(void **state)
{
    static const uint32_t dtypes[] = {GM_DTYPE_u8, GM_DTYPE_f32, GM_DTYPE_i64};
    static const uint64_t sizes[] = {1, 31, 8191, 8193, 65537, 140003};
    struct fixture *f = *state;
    for (uint32_t k = 0; k < 3u * 6u * 4u; k++) {
        if (gm_left_out(k + k / 3u))
            continue;
        const uint32_t dtype = dtypes[k % 3u], size = gm_dtype_bytes(dtype);
        const uint64_t n = sizes[k / 3u % 6u], first = k / 18u % 2u, second = k / 36u;
        const struct gm_args args = even_args(dtype, n, 8, 4);
        uint64_t expected[32] = {0}, counted = 0;
        for (uint64_t i = 0; i < n; i++) {
            const uint32_t x = (uint32_t)(i % 11u), y = (uint32_t)(i % 13u % 10u);
            put_small(f->in.data, first + i, dtype, x);
            put_small(f->edges.data, second + i, dtype, y);
            if (x > 8u || y > 8u)
                continue;
            expected[(x == 8u ? 7u : x) * 4u + (y == 8u ? 3u : y / 2u)]++;
            counted++;
        }
        const struct gm_granule done = run(f, GM_OP_histogram_2d, &args, first * size, second * size);
        assert_int_equal(gm_completion_status(done), GM_OK);
        assert_int_equal(gm_completion_result(done), counted);
        assert_memory_equal(f->counts, expected, sizeof expected);
    }
}

/* Few counters, as many as fit shared memory, more; spread and concentrated; on one worker and on several. */
static void every_way_of_counting_is_right_on_any_number_of_workers(void **state)
{
    static const uint32_t ops[] = {GM_OP_histogram, GM_OP_histogram_edges, GM_OP_histogram_channels,
                                   GM_OP_histogram_2d};
    static const uint32_t dtypes[] = {GM_DTYPE_u8, GM_DTYPE_f32, GM_DTYPE_u64};
    static const uint32_t bins[] = {8, 9, 300, 16000, 32768, 32769, GM_HIST_EDGES_MAX};
    static const enum gm_pattern patterns[] = {GM_PATTERN_SMALL, GM_PATTERN_EQUAL, GM_PATTERN_CONCENTRATED};
    static const uint32_t workers[] = {1, 3};
    struct fixture *f = calloc(1, sizeof *f);
    struct gm_seat *seat = calloc(1, sizeof *seat);
    (void)state;
    assert_true(f != NULL && seat != NULL);
    for (uint32_t w = 0; w < 2; w++) {
        open_device(f, workers[w]);
        gm_seat_open(seat, &f->lane, BYTES, gm_harness_is_cuda());
        for (uint32_t k = 0; k < 4u * 3u * 7u * 3u; k++) {
            if (gm_left_out(k))
                continue;
            const uint32_t op = ops[k % 4u], dtype = dtypes[k / 4u % 3u], b = bins[k / 12u % 7u];
            const uint32_t second = op == GM_OP_histogram_channels ? 1u + b % 4u : op == GM_OP_histogram_2d ? 5u : 0;
            const struct gm_args args = even_args(dtype, 0, b, second);
            struct gm_case c = {.op = op,
                                .dtype = dtype,
                                .n = 40001,
                                .bins = second ? b / second : b,
                                .count2 = second,
                                .align_in = k % 4u,
                                .pattern = patterns[k / 84u],
                                .seed = k + 1u};
            c.bins = c.bins != 0 ? c.bins : 1u;
            if (op != GM_OP_histogram_edges)
                memcpy(c.value, args.value, (op == GM_OP_histogram_2d ? 4u : 2u) * sizeof *c.value);
            gm_seat_run(seat, &c);
        }
        close_device(f);
        gm_seat_close(seat);
    }
    free(seat);
    free(f);
}

/* So many elements are sorted by their bins first (proto/ops.def). */
static void bins_of_millions_of_elements_are_right(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct gm_seat *seat = calloc(1, sizeof *seat);
    const double range[] = {0, 4294967295.0};
    struct gm_case c = {.op = GM_OP_histogram,
                        .dtype = GM_DTYPE_u32,
                        .n = (1u << 22) + 77u,
                        .bins = 100000,
                        .align_in = 1,
                        .pattern = GM_PATTERN_BITS,
                        .seed = 5};
    (void)state;
    assert_true(f != NULL && seat != NULL);
    memcpy(c.value, range, sizeof range);
    open_device(f, 3);
    gm_seat_open(seat, &f->lane, c.n * 4u, gm_harness_is_cuda());
    gm_seat_run(seat, &c);
    close_device(f);
    gm_seat_close(seat);
    free(seat);
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_on_edges_follow_numpys_rule), cmocka_unit_test(edges_that_fall_or_are_nan_are_refused),
        cmocka_unit_test(edges_that_change_hurt_nobody),      cmocka_unit_test(a_channel_is_counted_at_its_place),
        cmocka_unit_test(a_pair_is_counted_in_its_cell),
    };
    const struct CMUnitTest alone[] = {
        cmocka_unit_test(every_way_of_counting_is_right_on_any_number_of_workers), /* open devices of their own */
        cmocka_unit_test(bins_of_millions_of_elements_are_right),
    };
    const int failed = cmocka_run_group_tests(tests, open_all, close_all);
    return failed + cmocka_run_group_tests(alone, NULL, NULL);
}
