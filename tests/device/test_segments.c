/* SPDX-License-Identifier: Apache-2.0
 *
 * What the matrix cannot know of segmented reductions: offsets that are bad, or change while a job runs; segments as
 * uneven as can be; sums that end exactly where their type does; bits that must not depend on the number of workers.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../brief.h"
#include "args.h"
#include "atomic.h"
#include "place.h"
#include "wire.h"

static const uint32_t ops[] = {GM_OP_segmented_sum, GM_OP_segmented_min, GM_OP_segmented_max};
static const uint32_t indices[] = {GM_DTYPE_u32, GM_DTYPE_i32, GM_DTYPE_u64, GM_DTYPE_i64};

static struct gm_case case_of(uint32_t op, uint32_t dtype, uint32_t type2, uint64_t n, uint64_t segments)
{
    struct gm_case c = {.op = op, .dtype = dtype, .type2 = type2, .n = n, .pattern = GM_PATTERN_SMALL, .seed = n + 1u};
    c.value[0] = segments;
    return c;
}

static void put_offset(struct gm_seat *seat, uint64_t i, uint64_t offset)
{
    const uint32_t bytes = gm_dtype_bytes(seat->c.type2);
    memcpy(seat->in.data + seat->buffer[1].offset + i * bytes, &offset, bytes);
    memcpy(seat->copy + seat->buffer[1].copy + i * bytes, &offset, bytes);
}

static void ask(struct gm_seat *seat)
{
    seat->expected.status = GM_OK;
    if (seat->expected.slack)
        memset(seat->slack, 0, (seat->c.value[0] + 1u) * sizeof *seat->slack);
    if (seat->c.op == GM_OP_segmented_sum)
        gm_oracle_segmented_sum(&seat->expected);
    else if (seat->c.op == GM_OP_segmented_min)
        gm_oracle_segmented_min(&seat->expected);
    else
        gm_oracle_segmented_max(&seat->expected);
}

static void run_on(struct gm_seat *seat)
{
    ask(seat);
    gm_seat_submit(seat);
    gm_seat_check(seat);
}

/* A job with offsets that are good but for one. */
static void run_spoilt(struct place *p, struct gm_case c, uint64_t at, uint64_t offset)
{
    gm_seat_prepare(&p->seat, &c);
    for (uint64_t i = 0; i <= c.value[0]; i++)
        put_offset(&p->seat, i, c.value[0] != 0 ? c.n / c.value[0] * i : 0);
    put_offset(&p->seat, at, offset);
    ask(&p->seat);
    assert_int_equal(p->seat.expected.status, GM_EBOUNDS);
    gm_seat_submit(&p->seat);
    gm_seat_check(&p->seat);
}

static void bad_offsets_are_refused(void **state)
{
    struct place *p = *state;
    static const uint64_t sizes[][2] = {{100, 10}, {20000, 7}, {50000, 20000}, {300, 30000}};
    for (uint32_t i = 0; i < 4u * 4u * 3u; i++) {
        if (gm_left_out(i))
            continue;
        const uint64_t n = sizes[i % 4u][0], segments = sizes[i % 4u][1], each = n / segments;
        const uint32_t type2 = indices[i / 4u % 4u];
        const struct gm_case c = case_of(ops[i / 16u], GM_DTYPE_u32 + i % 2u, type2, n, segments);
        const uint64_t middles[] = {1, segments / 2u, segments - 1u};
        run_spoilt(p, c, segments, n + 1u);
        run_spoilt(p, c, segments, UINT64_MAX); /* -1 */
        run_spoilt(p, c, 0, each + 1u);         /* only the first two offsets are wrong */
        run_spoilt(p, c, 0, UINT64_C(1) << (gm_dtype_bytes(type2) * 8u - 1u));
        for (uint32_t k = 0; k < 3; k++) {
            run_spoilt(p, c, middles[k], each * (middles[k] + 1u) + 1u); /* above the next */
            run_spoilt(p, c, middles[k], UINT64_C(0x7fffffff));
            if (each != 0 && middles[k] > 1u)
                run_spoilt(p, c, middles[k], each * (middles[k] - 1u) - 1u); /* below the one before */
        }
    }
    for (uint32_t k = 0; k < 4; k++) { /* without segments there still is an offset */
        run_spoilt(p, case_of(ops[0], GM_DTYPE_i32, indices[k], 0, 0), 0, 1);
        run_spoilt(p, case_of(ops[1], GM_DTYPE_f64, indices[k], 5, 0), 0, 6);
        run_spoilt(p, case_of(ops[2], GM_DTYPE_f64, indices[k], 50000, 0), 0, 50001);
    }
}

enum shape { ALL_IN_FIRST, ALL_IN_LAST, ALL_IN_MIDDLE, NONE_OUTSIDE, FIRST_AND_LAST, SHAPES };

static uint64_t uneven(enum shape shape, uint64_t i, uint64_t n, uint64_t segments)
{
    switch (shape) {
    case ALL_IN_FIRST:
        return i == 0 ? 0 : n;
    case ALL_IN_LAST:
        return i == segments ? n : 0;
    case ALL_IN_MIDDLE: /* one huge segment beside one of one element each */
        if (i <= segments / 2u)
            return i < n / 2u ? i : n / 2u;
        return n - (segments - i < n - n / 2u ? segments - i : n - n / 2u);
    case NONE_OUTSIDE: /* what belongs to no segment on both sides */
        return n / 3u;
    default:
        return i == 0 ? n / 4u : n / 4u + (n / 2u) / segments * i;
    }
}

static void segments_may_be_as_uneven_as_can_be(void **state)
{
    struct place *p = *state;
    static const uint64_t sizes[][2] = {{0, 1}, {0, 100000}, {1, 1}, {1, 50000}, {300000, 1}, {300000, 2},
                                        {200000, 50000}, {8191, 1}, {8192, 1}, {16383, 8192}, {100, 8092}};
    static const uint32_t dtypes[] = {GM_DTYPE_i32, GM_DTYPE_i64, GM_DTYPE_f32, GM_DTYPE_f64};
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint32_t shape = 0; shape < SHAPES; shape++)
            for (uint32_t k = 0; k < 12; k++) {
                if (gm_left_out(i + shape + k))
                    continue;
                const struct gm_case c =
                    case_of(ops[k % 3u], dtypes[k / 3u], indices[(i + k) % 4u], sizes[i][0], sizes[i][1]);
                gm_seat_prepare(&p->seat, &c);
                for (uint64_t s = 0; s <= c.value[0]; s++)
                    put_offset(&p->seat, s, uneven((enum shape)shape, s, c.n, c.value[0]));
                run_on(&p->seat);
                assert_int_equal(p->seat.expected.status, GM_OK);
            }
}

/* The whole input in one segment, beside an empty one: the largest sum that fits, and one more. */
static void sums_end_where_their_type_does(void **state)
{
    struct place *p = *state;
    static const struct {
        uint32_t dtype;
        uint64_t first, other; /* an element, and the one far behind that just fits */
    } cases[] = {{GM_DTYPE_i32, 0x7ffffff0u, 15}, {GM_DTYPE_u32, 0xfffffff0u, 15},
                 {GM_DTYPE_i64, UINT64_C(0x7ffffffffffffff0), 15}, {GM_DTYPE_u64, UINT64_C(0xfffffffffffffff0), 15},
                 {GM_DTYPE_i32, 0x80000005u, (uint64_t)-5}, {GM_DTYPE_i64, (UINT64_C(1) << 63) + 5u, (uint64_t)-5}};
    enum { N = 40000 };
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint32_t over = 0; over < 2; over++)
            for (uint32_t far = 0; far < 2; far++) {
                const uint32_t bytes = gm_dtype_bytes(cases[i].dtype);
                const struct gm_case c = case_of(ops[0], cases[i].dtype, GM_DTYPE_u32, N, 2);
                const uint64_t step = (int64_t)cases[i].other < 0 ? (uint64_t)-1 : 1;
                gm_seat_prepare(&p->seat, &c);
                uint8_t *in = p->seat.in.data + p->seat.buffer[0].offset;
                memset(in, 0, N * bytes);
                memcpy(in, &cases[i].first, bytes);
                memcpy(in + (far ? N - 1u : 1u) * bytes, &cases[i].other, bytes);
                if (over)
                    memcpy(in + N / 2u * bytes, &step, bytes);
                memcpy(p->seat.copy + p->seat.buffer[0].copy, in, N * bytes);
                put_offset(&p->seat, 0, 0);
                put_offset(&p->seat, 1, 0);
                put_offset(&p->seat, 2, N);
                run_on(&p->seat);
                assert_int_equal(p->seat.expected.status, over ? GM_EOVERFLOW : GM_OK);
            }
}

static void floats_are_the_same_for_any_number_of_workers(void **state)
{
    static const uint32_t crews[] = {1, 2, 3, 7};
    static const uint64_t sizes[][2] = {{300000, 1}, {250001, 3000}, {100000, 100000}};
    static uint8_t first[6][100000u * 8u];
    struct place *p = *state;
    for (uint32_t w = 0; w < 4; w++) {
        place_close(p); /* a GPU has one owner */
        place_open(p, crews[w]);
        for (uint32_t i = 0; i < 6; i++) {
            struct gm_case c = case_of(ops[0], i % 2u ? GM_DTYPE_f64 : GM_DTYPE_f32, GM_DTYPE_u64, sizes[i / 2u][0],
                                       sizes[i / 2u][1]);
            c.pattern = GM_PATTERN_RANDOM;
            c.align_in = w;
            gm_seat_run(&p->seat, &c);
            const uint8_t *out = p->seat.out.data + p->seat.buffer[2].offset;
            assert_true(p->seat.buffer[2].bytes <= sizeof first[i]);
            if (w == 0)
                memcpy(first[i], out, p->seat.buffer[2].bytes);
            assert_memory_equal(first[i], out, p->seat.buffer[2].bytes);
        }
    }
    place_close(p);
    place_open(p, 0);
}

struct scribbler {
    uint32_t *offsets;
    uint64_t count;
    uint32_t n, stop;
};

/* Mostly offsets that might be right a moment later, some that never are. */
static void *scribble(void *context)
{
    struct scribbler *s = context;
    uint64_t state = 5;
    while (gm_load_acquire_u32(&s->stop) == 0) {
        const uint64_t r = gm_random(&state), i = gm_random(&state) % s->count;
        gm_store_relaxed_u32(&s->offsets[i], r % 64u == 0 ? (uint32_t)(r >> 32) : (uint32_t)((r >> 32) % (s->n + 1u)));
        if (r % 4096u == 0)
            for (uint64_t k = 0; k < s->count; k++)
                gm_store_relaxed_u32(&s->offsets[k], (uint32_t)(s->n * k / (s->count - 1u)));
    }
    return NULL;
}

/* Whatever the answers are: nothing outside of the buffers is read, which a page behind the arena would tell, or
 * written, which the canaries would. */
static void offsets_that_change_do_no_harm(void **state)
{
    struct place *p = *state;
    const uint32_t n = 200000, segments = 60000;
    for (uint32_t k = 0; k < 3; k++) {
        struct gm_case c = case_of(ops[k], GM_DTYPE_u32, GM_DTYPE_u32, n, segments);
        struct gm_seat *seat = &p->seat;
        c.at_end = true;
        gm_seat_prepare(seat, &c);
        struct scribbler s = {(uint32_t *)(void *)(seat->in.data + seat->buffer[1].offset), segments + 1u, n, 0};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, scribble, &s), 0);
        for (uint32_t round = 0; round < gm_rounds(100); round++) {
            gm_seat_submit(seat);
            const int32_t status = gm_completion_status(gm_harness_wait(seat->lane, seat->position));
            assert_true(status == GM_OK || status == GM_EBOUNDS || (k == 0 && status == GM_EOVERFLOW));
        }
        gm_store_release_u32(&s.stop, 1);
        assert_int_equal(pthread_join(thread, NULL), 0);
        for (uint32_t i = 0; i < 256; i++) {
            const uint8_t *out = seat->out.data + seat->buffer[2].offset;
            assert_int_equal(out[-1 - (int64_t)i], 0xa5);
            if (seat->buffer[2].offset + seat->buffer[2].bytes + i < seat->out.bytes)
                assert_int_equal(out[seat->buffer[2].bytes + i], 0xa5);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_offsets_are_refused),
        cmocka_unit_test(segments_may_be_as_uneven_as_can_be),
        cmocka_unit_test(sums_end_where_their_type_does),
        cmocka_unit_test(offsets_that_change_do_no_harm),
        cmocka_unit_test(floats_are_the_same_for_any_number_of_workers),
    };
    return cmocka_run_group_tests(tests, place_setup, place_teardown);
}
