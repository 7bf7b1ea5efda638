/* SPDX-License-Identifier: Apache-2.0
 *
 * What the matrix cannot know of scans: where exactly a sum leaves its type, whatever tiles come to; offsets at the
 * edges of tiles, empty segments by the thousand, and offsets that are refused; the same bits for every number of
 * workers; clients that change their data while it is read.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../brief.h"
#include "matrix.h"
#include "wire.h"

#define ROOM (6u << 20)
#define EMPTY 70000u /* so many empty segments that a tile searches for those that are not */
#define TILES 75u    /* more than two windows of look_back.cuh */

struct fixture {
    struct gm_harness h;
    struct gm_harness_lane lane;
    struct gm_seat seat;
};

static void open_with(struct fixture *f, uint32_t workers)
{
    const struct gm_device_config config = {.idle_ns = UINT64_C(2000000000), .workers = workers};
    gm_harness_open(&f->h, &config);
    gm_harness_lane_open(&f->h, &f->lane, 1, 4, 0);
    gm_seat_open(&f->seat, &f->lane, ROOM, gm_harness_is_cuda());
}

static void close_it(struct fixture *f)
{
    gm_harness_idle(&f->h);
    gm_harness_close(&f->h);
    gm_seat_close(&f->seat);
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
    close_it(*state);
    free(*state);
    return 0;
}

static uint64_t tile_of(uint32_t op, uint32_t dtype)
{
    return gm_op_row(op).tile_bytes / gm_dtype_bytes(dtype);
}

static void *input(struct fixture *f, uint32_t i)
{
    return f->seat.in.data + f->seat.buffer[i].offset;
}
static const void *output(struct fixture *f)
{
    return f->seat.out.data + f->seat.buffer[gm_op_row(f->seat.c.op).inputs].offset;
}

static void put(void *data, uint64_t i, uint32_t dtype, uint64_t v)
{
    const uint32_t bytes = gm_dtype_bytes(dtype);
    memcpy((uint8_t *)data + i * bytes, &v, bytes);
}

/* The case with inputs as they are now: the oracle's answer, and the device's. */
static int32_t answer(struct fixture *f)
{
    struct gm_seat *seat = &f->seat;
    const struct gm_op_row row = gm_op_row(seat->c.op);
    for (uint32_t i = 0; i < row.inputs; i++)
        memcpy(seat->copy + seat->buffer[i].copy, input(f, i), seat->buffer[i].bytes);
    memset(seat->slack, 0, seat->c.n * sizeof *seat->slack);
    seat->expected.status = GM_OK;
    switch (seat->c.op) {
#define OP(id, name, shape, types, result, work, tile_bytes, tolerance, help)                                          \
    case id:                                                                                                           \
        gm_oracle_##name(&seat->expected);                                                                             \
        break;
#include "ops.def"
#undef OP
    }
    gm_seat_submit(seat);
    gm_seat_check(seat);
    return seat->expected.status;
}

static const uint32_t integers[] = {GM_DTYPE_i32, GM_DTYPE_u32, GM_DTYPE_i64, GM_DTYPE_u64};
static const uint32_t numbers[] = {GM_DTYPE_i32, GM_DTYPE_u32, GM_DTYPE_i64, GM_DTYPE_u64, GM_DTYPE_f32, GM_DTYPE_f64};
static const uint32_t sums[] = {GM_OP_scan_sum, GM_OP_segmented_scan_sum};

static uint64_t greatest(uint32_t dtype)
{
    const uint64_t all = gm_dtype_bytes(dtype) == 4 ? UINT32_MAX : UINT64_MAX;
    return gm_dtype_kind(dtype) == 'i' ? all >> 1 : all;
}

/* Zeroes of a scan over several tiles; segmented: one segment. */
static void zeroes(struct fixture *f, uint32_t op, uint32_t dtype, uint32_t flags)
{
    const struct gm_case c = {.op = op,
                              .dtype = dtype,
                              .flags = flags,
                              .n = 3 * tile_of(op, dtype) + 7,
                              .type2 = gm_op_row(op).inputs == 2 ? GM_DTYPE_u64 : 0,
                              .pattern = GM_PATTERN_SMALL};
    gm_seat_prepare(&f->seat, &c);
    memset(input(f, 0), 0, f->seat.buffer[0].bytes);
    if (gm_op_row(op).inputs == 2)
        put(input(f, 1), 0, GM_DTYPE_u64, 0);
}

/* The greatest number and a one: too much where the later one is, which an exclusive scan writes one element on. */
static void a_sum_that_does_not_fit_is_found_wherever_it_is(void **state)
{
    struct fixture *f = *state;
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t d = 0; d < 4; d++) {
            if (gm_left_out(k + d))
                continue;
            const uint64_t tile = tile_of(sums[k], integers[d]), n = 3 * tile + 7;
            const uint64_t places[] = {0, 1, 31, 100, tile - 1, tile, tile + 1, 2 * tile, 3 * tile, n - 2, n - 1};
            for (uint32_t p = 1; p < sizeof places / sizeof *places; p++) {
                zeroes(f, sums[k], integers[d], 0);
                put(input(f, 0), places[p - 1], integers[d], greatest(integers[d]));
                assert_int_equal(answer(f), GM_OK);
                put(input(f, 0), places[p], integers[d], 1);
                assert_int_equal(answer(f), GM_EOVERFLOW);
                f->seat.c.flags = f->seat.expected.flags = GM_FLAG_EXCLUSIVE;
                assert_int_equal(answer(f), places[p] == n - 1 ? GM_OK : GM_EOVERFLOW);
            }
        }
}

/* Below the least and back: the last sum fits, one on the way does not. */
static void a_sum_that_comes_back_did_not_fit_all_the_same(void **state)
{
    struct fixture *f = *state;
    for (uint32_t d = 0; d < 4; d += 2) {
        const uint64_t tile = tile_of(GM_OP_scan_sum, integers[d]);
        zeroes(f, GM_OP_scan_sum, integers[d], 0);
        put(input(f, 0), tile - 1, integers[d], greatest(integers[d]) + 1u);
        assert_int_equal(answer(f), GM_OK);
        put(input(f, 0), tile, integers[d], UINT64_MAX);
        put(input(f, 0), tile + 1, integers[d], 1);
        assert_int_equal(answer(f), GM_EOVERFLOW);
        put(input(f, 0), tile, integers[d], 1);
        put(input(f, 0), tile + 1, integers[d], UINT64_MAX);
        assert_int_equal(answer(f), GM_OK);
    }
}

/* Each tile comes to more than the type holds, and no sum does: half the range below zero first. */
static void a_tile_that_does_not_fit_by_itself_is_no_error(void **state)
{
    struct fixture *f = *state;
    for (uint32_t d = 0; d < 4; d += 2) {
        const uint64_t tile = tile_of(GM_OP_scan_sum, integers[d]), most = greatest(integers[d]);
        zeroes(f, GM_OP_scan_sum, integers[d], 0);
        put(input(f, 0), tile - 1, integers[d], most + 1u);
        put(input(f, 0), tile + 5, integers[d], most);
        put(input(f, 0), tile + 900, integers[d], most);
        put(input(f, 0), 2 * tile + 5, integers[d], 0u - most);
        put(input(f, 0), 2 * tile + 6, integers[d], 0u - most);
        put(input(f, 0), 3 * tile + 1, integers[d], most);
        assert_int_equal(answer(f), GM_OK);
    }
}

/* Segments keep their overflows apart, and the last element of one counts for nothing in an exclusive scan. */
static void a_segment_that_does_not_fit_is_found_alone(void **state)
{
    struct fixture *f = *state;
    for (uint32_t d = 0; d < 4; d++) {
        if (gm_left_out(d))
            continue;
        const uint32_t op = GM_OP_segmented_scan_sum;
        const uint64_t tile = tile_of(op, integers[d]), begins[] = {1, 2, 40, tile - 1, tile, tile + 1, 3 * tile};
        for (uint32_t b = 0; b < sizeof begins / sizeof *begins; b++)
            for (uint32_t flags = 0; flags <= GM_FLAG_EXCLUSIVE; flags += GM_FLAG_EXCLUSIVE) {
                zeroes(f, op, integers[d], flags);
                put(input(f, 1), 0, GM_DTYPE_u64, begins[b]);
                put(input(f, 0), begins[b] - 1, integers[d], greatest(integers[d]));
                put(input(f, 0), begins[b], integers[d], greatest(integers[d]));
                assert_int_equal(answer(f), GM_OK);
                if (begins[b] < 2)
                    continue;
                put(input(f, 0), begins[b] - 2, integers[d], 1);
                assert_int_equal(answer(f), flags ? GM_OK : GM_EOVERFLOW);
            }
    }
}

/* What a scan of nothing gives, where a segment begins, also as bits: +0, the ends of the type, no NaN with a payload.
 */
static void segments_begin_as_documented(void **state)
{
    struct fixture *f = *state;
    const struct {
        uint32_t op, flags;
        uint32_t in[4], out[4];
    } cases[] = {
        {GM_OP_scan_sum, 0, {0x80000000, 0x80000000, 0xff800123, 1}, {0, 0, 0x7fc00000, 0x7fc00000}},
        {GM_OP_scan_sum, GM_FLAG_EXCLUSIVE, {0x80000000, 0x7f800000, 0xff800000, 0}, {0, 0, 0x7f800000, 0x7fc00000}},
        {GM_OP_segmented_scan_sum, 0, {0xffc00001, 0, 0x80000000, 0x80000000}, {0x7fc00000, 0x7fc00000, 0, 0}},
        {GM_OP_segmented_scan_sum, GM_FLAG_EXCLUSIVE, {1, 1, 0x80000000, 0xffc00001}, {0, 1, 0, 0}},
        {GM_OP_scan_min, 0, {0, 0x80000000, 0, 0xff800123}, {0, 0x80000000, 0x80000000, 0x7fc00000}},
        {GM_OP_scan_min, GM_FLAG_EXCLUSIVE, {0x3f800000, 0, 0, 0}, {0x7f800000, 0x3f800000, 0, 0}},
        {GM_OP_scan_max, GM_FLAG_EXCLUSIVE, {0x80000000, 0, 0xffc00001, 0}, {0xff800000, 0x80000000, 0, 0x7fc00000}},
        {GM_OP_segmented_scan_max, 0, {0x7fffffff, 0, 0x80000000, 0}, {0x7fc00000, 0x7fc00000, 0x80000000, 0}},
        {GM_OP_segmented_scan_min,
         GM_FLAG_EXCLUSIVE,
         {0x7fffffff, 0, 0x80000000, 0},
         {0x7f800000, 0x7fc00000, 0x7f800000, 0x80000000}},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bool segmented = gm_op_row(cases[i].op).inputs == 2;
        const struct gm_case c = {.op = cases[i].op,
                                  .dtype = GM_DTYPE_f32,
                                  .flags = cases[i].flags,
                                  .n = 4,
                                  .type2 = segmented ? GM_DTYPE_i32 : 0};
        gm_seat_prepare(&f->seat, &c);
        memcpy(input(f, 0), cases[i].in, sizeof cases[i].in);
        if (segmented)
            put(input(f, 1), 0, GM_DTYPE_i32, 2);
        assert_int_equal(answer(f), GM_OK);
        assert_memory_equal(output(f), cases[i].out, sizeof cases[i].out);
    }
}

enum layout { EMPTY_ALL, EMPTY_FRONT, EMPTY_BACK, EDGES, ONES, LAYOUTS };

/* Offsets of a layout, and how many more than one. */
static uint64_t layout_segments(enum layout layout, uint64_t n)
{
    return layout == EDGES ? 11 : layout == ONES ? n : EMPTY;
}
static uint64_t layout_offset(enum layout layout, uint64_t j, uint64_t tile, uint64_t n)
{
    const uint64_t edges[] = {1,         1,        tile - 1, tile - 1, tile,  tile + 1,
                              tile + 33, 2 * tile, 2 * tile, 3 * tile, n - 1, n};
    switch (layout) {
    case EMPTY_ALL:
        return tile + 1;
    case EMPTY_FRONT:
        return j < EMPTY - 1u ? tile : j == EMPTY - 1u ? tile + 1 : n;
    case EMPTY_BACK:
        return j < 2 ? j * 3 : n;
    case EDGES:
        return edges[j];
    default:
        return j;
    }
}

static void every_layout_of_segments_is_right(void **state)
{
    static const uint32_t ops[] = {GM_OP_segmented_scan_sum, GM_OP_segmented_scan_min, GM_OP_segmented_scan_max};
    static const uint32_t types2[] = {GM_DTYPE_i32, GM_DTYPE_u32, GM_DTYPE_i64, GM_DTYPE_u64};
    struct fixture *f = *state;
    uint32_t count = 0;
    for (uint32_t o = 0; o < 3; o++)
        for (uint32_t d = 0; d < 6; d++)
            for (uint32_t layout = 0; layout < LAYOUTS; layout++)
                for (uint32_t flags = 0; flags <= GM_FLAG_EXCLUSIVE; flags += GM_FLAG_EXCLUSIVE) {
                    const uint64_t tile = tile_of(ops[o], numbers[d]), n = 3 * tile + 7;
                    const struct gm_case c = {.op = ops[o],
                                              .dtype = numbers[d],
                                              .type2 = types2[count % 4u],
                                              .flags = flags,
                                              .n = n,
                                              .pattern = GM_PATTERN_SMALL,
                                              .seed = count,
                                              .value = {layout_segments((enum layout)layout, n)}};
                    if (gm_left_out(count++))
                        continue;
                    gm_seat_prepare(&f->seat, &c);
                    for (uint64_t j = 0; j <= c.value[0]; j++)
                        put(input(f, 1), j, c.type2, layout_offset((enum layout)layout, j, tile, n));
                    assert_int_equal(answer(f), GM_OK);
                }
}

/* Of offsets 0, 2, 4 ..: one that is below the one before it, below zero or above n, first, in the middle, or last. */
static void bad_offsets_are_refused(void **state)
{
    static const uint32_t types2[] = {GM_DTYPE_i32, GM_DTYPE_u32, GM_DTYPE_i64, GM_DTYPE_u64};
    static const uint64_t sizes[] = {0, 1, 100, 50000};
    struct fixture *f = *state;
    for (uint32_t t = 0; t < 4; t++)
        for (uint32_t s = 0; s < 4; s++) {
            if (gm_left_out(t + s))
                continue;
            const uint64_t n = sizes[s], last = n / 2, places[] = {0, last / 2, last};
            const uint64_t bad[] = {n + 1, UINT64_MAX, UINT64_C(1) << (gm_dtype_bytes(types2[t]) * 8 - 1)};
            for (uint32_t p = 0; p < 3; p++)
                for (uint32_t b = 0; b < 3; b++) {
                    const struct gm_case c = {.op = GM_OP_segmented_scan_sum,
                                              .dtype = GM_DTYPE_i64,
                                              .type2 = types2[t],
                                              .n = n,
                                              .pattern = GM_PATTERN_SMALL,
                                              .value = {last}};
                    gm_seat_prepare(&f->seat, &c);
                    for (uint64_t j = 0; j <= last; j++)
                        put(input(f, 1), j, c.type2, j * 2);
                    assert_int_equal(answer(f), GM_OK);
                    put(input(f, 1), places[p], c.type2, bad[b]);
                    assert_int_equal(answer(f), GM_EBOUNDS);
                    if (places[p] == 0)
                        continue;
                    put(input(f, 1), places[p], c.type2, places[p] * 2 - 3);
                    assert_int_equal(answer(f), GM_EBOUNDS);
                }
        }
}

/* The same bits however many workers there are, on floats of which no sum is exact; on a GPU over several windows. */
static void floats_are_the_same_bits_for_every_number_of_workers(void **state)
{
    static const uint32_t floats[] = {GM_DTYPE_f32, GM_DTYPE_f64}, workers[] = {1, 2, 3, 4, 7};
    uint8_t *first = malloc(ROOM);
    struct fixture *f = *state;
    assert_non_null(first);
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t d = 0; d < 2; d++)
            for (uint32_t w = 0; w < sizeof workers / sizeof *workers; w++) {
                struct gm_case c = {.op = sums[k],
                                    .dtype = floats[d],
                                    .n = gm_harness_is_cuda() ? TILES * tile_of(sums[k], floats[d]) - 3u : 100003,
                                    .seed = 5 + d,
                                    .pattern = GM_PATTERN_RANDOM,
                                    .align_in = w % 4u,
                                    .align_out = w % 2u};
                close_it(f); /* a GPU has one owner */
                open_with(f, workers[w]);
                gm_case_choose(&c);
                gm_seat_run(&f->seat, &c);
                if (w == 0)
                    memcpy(first, output(f), c.n * gm_dtype_bytes(c.dtype));
                assert_memory_equal(output(f), first, c.n * gm_dtype_bytes(c.dtype));
            }
    free(first);
    close_it(f);
    open_with(f, 0);
}

/* Sums that fit and keep rising, least elements that come late, segments that are longer than many tiles. */
static void many_tiles_are_right(void **state)
{
    static const uint32_t ops[] = {GM_OP_scan_sum,           GM_OP_scan_min,           GM_OP_scan_max,
                                   GM_OP_segmented_scan_sum, GM_OP_segmented_scan_min, GM_OP_segmented_scan_max};
    struct fixture *f = *state;
    uint32_t count = 0;
    for (uint32_t o = 0; o < 6; o++)
        for (uint32_t d = 0; d < 6; d++)
            for (uint32_t flags = 0; flags <= GM_FLAG_EXCLUSIVE; flags += GM_FLAG_EXCLUSIVE) {
                const bool segmented = gm_op_row(ops[o]).inputs == 2;
                const uint64_t tile = tile_of(ops[o], numbers[d]), n = TILES * tile - 5;
                const struct gm_case c = {.op = ops[o],
                                          .dtype = numbers[d],
                                          .flags = flags,
                                          .n = n,
                                          .seed = o + d,
                                          .type2 = segmented ? GM_DTYPE_u32 : 0,
                                          .value = {segmented ? 3 : 0},
                                          .same_buffer = !segmented && d % 2u,
                                          .pattern = GM_PATTERN_SMALL};
                const uint64_t offsets[] = {2 * tile + 1, 2 * tile + 1, 40 * tile + 7, 74 * tile};
                if (gm_left_out(count++))
                    continue;
                gm_seat_prepare(&f->seat, &c);
                for (uint64_t t = 0; t < TILES; t++) /* a value of its own in each tile, falling and then rising */
                    put(input(f, 0), t * tile + 11 * t, numbers[d], t < 60 ? 200 - t : 300 + t);
                for (uint64_t j = 0; segmented && j < 4; j++)
                    put(input(f, 1), j, GM_DTYPE_u32, offsets[j]);
                assert_int_equal(answer(f), GM_OK);
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
    uint64_t random = 3;
    while (gm_load_relaxed_u32(&f->stop) == 0) {
        const uint64_t r = gm_random(&random);
        gm_store_relaxed_u32(&f->words[r % f->count], r & 0x300000000u ? (uint32_t)(r >> 34) % 60000u : (uint32_t)r);
    }
    return NULL;
}

/* Offsets that say something else at every look: no byte outside of the output is touched, which ends on a page that
 * faults, and every job ends. */
static void offsets_that_change_hurt_nobody(void **state)
{
    static const uint32_t types2[] = {GM_DTYPE_i32, GM_DTYPE_u64};
    struct fixture *f = *state;
    uint32_t refused = 0;
    if (gm_harness_is_cuda())
        skip(); /* the data is carried to where no thread of ours reaches it */
    for (uint32_t round = 0; round < gm_rounds(60); round++) {
        const struct gm_case c = {.op = GM_OP_segmented_scan_sum,
                                  .dtype = GM_DTYPE_f32,
                                  .type2 = types2[round & 1u],
                                  .flags = round & 2u ? GM_FLAG_EXCLUSIVE : 0,
                                  .n = 50000,
                                  .value = {3000},
                                  .at_end = true,
                                  .pattern = GM_PATTERN_SMALL,
                                  .seed = round};
        uint8_t canary[256];
        gm_seat_prepare(&f->seat, &c);
        struct flipper flipper = {.words = input(f, 1), .count = f->seat.buffer[1].bytes / 4u};
        assert_int_equal(pthread_create(&flipper.thread, NULL, flip, &flipper), 0);
        memset(canary, 0xa5, sizeof canary);
        for (uint32_t k = 0; k < 20; k++) {
            gm_seat_submit(&f->seat);
            const int32_t status = gm_completion_status(gm_harness_wait(&f->lane, f->seat.position));
            refused += status == GM_EBOUNDS;
            assert_true(status == GM_EBOUNDS || status == GM_OK);
            assert_memory_equal((const uint8_t *)output(f) - sizeof canary, canary, sizeof canary);
        }
        gm_store_relaxed_u32(&flipper.stop, 1);
        pthread_join(flipper.thread, NULL);
    }
    assert_true(refused > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sum_that_does_not_fit_is_found_wherever_it_is),
        cmocka_unit_test(a_sum_that_comes_back_did_not_fit_all_the_same),
        cmocka_unit_test(a_tile_that_does_not_fit_by_itself_is_no_error),
        cmocka_unit_test(a_segment_that_does_not_fit_is_found_alone),
        cmocka_unit_test(segments_begin_as_documented),
        cmocka_unit_test(every_layout_of_segments_is_right),
        cmocka_unit_test(many_tiles_are_right),
        cmocka_unit_test(bad_offsets_are_refused),
        cmocka_unit_test(floats_are_the_same_bits_for_every_number_of_workers),
        cmocka_unit_test(offsets_that_change_hurt_nobody),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
