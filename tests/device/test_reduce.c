/* SPDX-License-Identifier: Apache-2.0
 *
 * What the matrix cannot know of reductions: bits that must not depend on the number of workers, ties across tiles,
 * and products and sums of products that end exactly where 64 bits do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "args.h"
#include "place.h"
#include "wire.h"

/* Runs a job on elements of the caller's; its status, and the result in seat.result. */
static int32_t run_on(struct place *p, uint32_t op, uint32_t dtype, const void *in, const void *in2, uint64_t n)
{
    const struct gm_case c = {.op = op, .dtype = dtype, .n = n, .pattern = GM_PATTERN_SMALL};
    struct gm_seat *seat = &p->seat;
    gm_seat_place(seat, &c);
    for (uint32_t i = 0; i < gm_op_row(op).inputs; i++)
        memcpy(seat->in.data + seat->buffer[i].offset, i == 0 ? in : in2, seat->buffer[i].bytes);
    gm_seat_submit(seat);
    const struct gm_granule done = gm_harness_wait(seat->lane, seat->position);
    seat->result = gm_completion_result(done);
    return gm_completion_status(done);
}

static void floats_are_the_same_for_any_number_of_workers(void **state)
{
    static const uint32_t ops[] = {GM_OP_sum, GM_OP_dot, GM_OP_norm2, GM_OP_prod}, crews[] = {1, 2, 3, 7};
    static const uint64_t sizes[] = {1, 40000, 150001};
    static const uint32_t dtypes[] = {GM_DTYPE_f16, GM_DTYPE_bf16, GM_DTYPE_f32, GM_DTYPE_f64};
    static uint64_t first[4][4][3];
    struct place *p = *state;
    for (uint32_t w = 0; w < 4; w++) {
        place_close(p); /* a GPU has one owner */
        place_open(p, crews[w]);
        for (uint32_t i = 0; i < 4u * 4u * 3u; i++) {
            const uint32_t op = i / 12u, type = i / 3u % 4u, size = i % 3u;
            const struct gm_case c = {.op = ops[op], .dtype = dtypes[type], .n = sizes[size], .align_in = w, .seed = i};
            gm_seat_run(&p->seat, &c);
            if (w == 0)
                first[op][type][size] = p->seat.result;
            assert_int_equal(p->seat.result, first[op][type][size]);
        }
    }
    place_close(p);
    place_open(p, 0);
}

/* The least element twice, in every pair of places around the edges of tiles and blocks. */
static void the_lowest_of_equal_elements_wins(void **state)
{
    struct place *p = *state;
    static const uint64_t at[] = {0, 1, 1023, 1024, 16383, 16384, 16385, 32768, 40000, 49999};
    enum { N = 50000, PLACES = sizeof at / sizeof *at };
    int32_t *in = malloc(N * sizeof *in);
    assert_non_null(in);
    for (uint32_t a = 0; a < PLACES; a++)
        for (uint32_t b = a; b < PLACES; b++)
            for (uint32_t op = GM_OP_argmin; op <= GM_OP_argmax; op++) {
                for (uint32_t i = 0; i < N; i++)
                    in[i] = 0;
                in[at[a]] = in[at[b]] = op == GM_OP_argmin ? -1 : 1;
                assert_int_equal(run_on(p, op, GM_DTYPE_i32, in, NULL, N), GM_OK);
                assert_int_equal(p->seat.result, at[a]);
            }
    free(in);
}

/* Whatever its sign and payload, and whatever is less or greater. */
static void the_first_nan_wins(void **state)
{
    struct place *p = *state;
    enum { N = 20000 };
    static const uint32_t nans[] = {0x7fc00000, 0xffc00000, 0x7f800001, 0xffffffff};
    uint32_t *in = malloc(N * sizeof *in);
    assert_non_null(in);
    for (uint32_t a = 0; a < 4; a++)
        for (uint32_t b = 0; b < 4; b++)
            for (uint32_t op = GM_OP_argmin; op <= GM_OP_argmax; op++) {
                for (uint32_t i = 0; i < N; i++)
                    in[i] = i % 2u ? 0xff800000 : 0x7f800000;
                in[7] = nans[a];
                in[9] = in[17000] = nans[b];
                assert_int_equal(run_on(p, op, GM_DTYPE_f32, in, NULL, N), GM_OK);
                assert_int_equal(p->seat.result, 7);
                in[7] = 0;
                in[9] = 0x80000000;
                assert_int_equal(run_on(p, op, GM_DTYPE_f32, in, NULL, N), GM_OK);
                assert_int_equal(p->seat.result, 17000);
            }
    for (uint32_t i = 0; i < N; i++)
        in[i] = i == 5 ? 0x80000000 : 0;
    assert_int_equal(run_on(p, GM_OP_argmin, GM_DTYPE_f32, in, NULL, N), GM_OK);
    assert_int_equal(p->seat.result, 5);
    assert_int_equal(run_on(p, GM_OP_argmax, GM_DTYPE_f32, in, NULL, N), GM_OK);
    assert_int_equal(p->seat.result, 0);
    free(in);
}

static int32_t product(struct place *p, uint32_t dtype, const int64_t *in, uint64_t n)
{
    return run_on(p, GM_OP_prod, dtype, in, NULL, n);
}

static void products_of_integers_end_where_64_bits_do(void **state)
{
    struct place *p = *state;
    enum { N = 30000 }; /* several tiles */
    int64_t *in = malloc(N * sizeof *in);
    assert_non_null(in);
    for (uint32_t twos = 62; twos <= 65; twos++)
        for (uint32_t minus = 0; minus < 3; minus++) {
            for (uint32_t i = 0; i < N; i++)
                in[i] = i % (N / 65u) == 3u && i / (N / 65u) < twos ? 2 : 1;
            for (uint32_t i = 0; i < minus; i++)
                in[N - 1u - i * 20000u] = -1;
            const bool negative = minus == 1;
            const bool fits = twos < 63 || (twos == 63 && negative);
            assert_int_equal(product(p, GM_DTYPE_i64, in, N), fits ? GM_OK : GM_EOVERFLOW);
            if (fits)
                assert_int_equal(p->seat.result, negative ? UINT64_C(0) - (UINT64_C(1) << twos) : UINT64_C(1) << twos);
            if (minus == 0) {
                assert_int_equal(product(p, GM_DTYPE_u64, in, N), twos < 64 ? GM_OK : GM_EOVERFLOW);
                assert_true(twos >= 64 || p->seat.result == UINT64_C(1) << twos);
            }
            in[(twos * 7919u + minus) % N] = 0; /* wherever it is */
            assert_int_equal(product(p, GM_DTYPE_i64, in, N), GM_OK);
            assert_int_equal(p->seat.result, 0);
        }
    /* Magnitudes whose low 64 bits are 0 when they have left them. */
    for (uint32_t i = 0; i < N; i++)
        in[i] = INT64_MIN;
    assert_int_equal(product(p, GM_DTYPE_i64, in, N), GM_EOVERFLOW);
    assert_int_equal(product(p, GM_DTYPE_i64, in, 1), GM_OK);
    assert_int_equal(p->seat.result, UINT64_C(1) << 63);
    in[N - 1] = 0;
    assert_int_equal(product(p, GM_DTYPE_i64, in, N), GM_OK);
    assert_int_equal(p->seat.result, 0);
    free(in);
}

static uint64_t float_product(struct place *p, const double *in, uint64_t n)
{
    assert_int_equal(run_on(p, GM_OP_prod, GM_DTYPE_f64, in, NULL, n), GM_OK);
    return p->seat.result;
}

/* To 10^-9000000 and back: nothing vanishes or overflows on the way. */
static void products_of_floats_survive_the_way(void **state)
{
    struct place *p = *state;
    enum { N = 60000 };
    double *in = malloc(N * sizeof *in), value = 1.5;
    uint64_t bits;
    assert_non_null(in);
    for (uint32_t i = 0; i < N; i++)
        in[i] = i < N / 2 ? 0x1p-1023 : 0x1p1023;
    in[100] = 0x1.8p-1023;
    memcpy(&bits, &value, sizeof bits);
    assert_int_equal(float_product(p, in, N), bits);
    in[200] = in[300] = in[400] = 0x1p-1074; /* 2^-51 times as much, each */
    value = 0x1.8p-153;
    memcpy(&bits, &value, sizeof bits);
    assert_int_equal(float_product(p, in, N), bits);
    in[0] = -0x1p-1023;
    in[N - 1] = 0x1p102; /* 1.5 * 2^-1074, rounded to even */
    assert_int_equal(float_product(p, in, N), UINT64_C(0x8000000000000002));
    in[N - 1] = 0x1p100; /* 1.5 * 2^-1076, nothing is left but the sign */
    assert_int_equal(float_product(p, in, N), UINT64_C(0x8000000000000000));
    in[N - 2] = __builtin_inf();
    assert_int_equal(float_product(p, in, N), UINT64_C(0xfff0000000000000));
    in[1] = 0;
    assert_int_equal(float_product(p, in, N), UINT64_C(0x7ff8000000000000));
    free(in);
}

static void sums_of_products_end_where_64_bits_do(void **state)
{
    struct place *p = *state;
    enum { N = 20000 };
    int32_t *a = calloc(N, sizeof *a), *b = calloc(N, sizeof *b);
    assert_non_null(a);
    assert_non_null(b);
    /* -2^31 * -2^31 = 2^62, twice: one too many; less one fits. */
    a[1] = b[1] = a[N - 2] = b[N - 2] = INT32_MIN;
    assert_int_equal(run_on(p, GM_OP_dot, GM_DTYPE_i32, a, b, N), GM_EOVERFLOW);
    a[N - 1] = 1, b[N - 1] = -1;
    assert_int_equal(run_on(p, GM_OP_dot, GM_DTYPE_i32, a, b, N), GM_OK);
    assert_int_equal(p->seat.result, INT64_MAX);
    /* (2^32 - 1)^2 = 2^64 - 2^33 + 1; 2^33 - 2 more fits, 2^33 - 1 does not. */
    memset(a, 0, N * sizeof *a), memset(b, 0, N * sizeof *b);
    a[5] = b[5] = -1;
    a[N - 1] = -1, b[N - 1] = 2;
    assert_int_equal(run_on(p, GM_OP_dot, GM_DTYPE_u32, a, b, N), GM_OK);
    assert_int_equal(p->seat.result, UINT64_MAX);
    a[9000] = b[9000] = 1;
    assert_int_equal(run_on(p, GM_OP_dot, GM_DTYPE_u32, a, b, N), GM_EOVERFLOW);
    free(a);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_of_equal_elements_wins),
        cmocka_unit_test(the_first_nan_wins),
        cmocka_unit_test(products_of_integers_end_where_64_bits_do),
        cmocka_unit_test(products_of_floats_survive_the_way),
        cmocka_unit_test(sums_of_products_end_where_64_bits_do),
        cmocka_unit_test(floats_are_the_same_for_any_number_of_workers),
    };
    return cmocka_run_group_tests(tests, place_setup, place_teardown);
}
