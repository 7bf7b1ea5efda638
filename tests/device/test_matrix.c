/* SPDX-License-Identifier: Apache-2.0
 *
 * Every op x its types x sizes x alignments x patterns against the oracles, through the real scheduler of the backend
 * that GRIDMILL_TEST_BACKEND names. A sample by default; GRIDMILL_MATRIX=full runs the whole product and inputs beyond
 * 2^31 bytes and elements; GRIDMILL_SEED=n draws another sample. GRIDMILL_MATRIX_PART=i/n runs every n-th case from the
 * i-th on, and what is no case of the product in the first part, the largest inputs in the last: all n parts together
 * are the whole. A failure prints the case with its seed. Data and answers are made by a crew of threads some cases
 * ahead.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "args.h"
#include "../brief.h"
#include "matrix.h"
#include "wire.h"

#define SIZES      11u
#define LARGE      100000u
#define SEAT_BYTES (17u << 20) /* two of the largest buffers */
#define SEATS_MOST 16u
#define SEATS      6u /* at least, on host memory */
#define OVERLAP    5u
#define AHEAD      4u /* jobs in flight: each with what it carries takes up to six of the lane's 64 slots */

struct fixture {
    struct gm_harness h;
    struct gm_harness_lane lane;
    struct gm_crew crew;
    struct gm_seat seat[SEATS_MOST]; /* where device memory is something else, the second half lies there */
    uint32_t seats, on_host;
    uint64_t put, sent, got; /* cases given to the crew, submitted, checked */
    uint64_t jobs, seed, cases;
    uint32_t part, parts; /* from 0 */
    bool full, brief;
};

static uint64_t number_from_env(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static bool env_is(const char *name, const char *value)
{
    const char *text = getenv(name);
    return text && strcmp(text, value) == 0;
}

/* From 0; not below *parts when there is no such part. */
static uint32_t chosen_part(uint32_t *parts)
{
    const char *text = getenv("GRIDMILL_MATRIX_PART");
    uint32_t part = *parts = 1;
    char end;
    if (text && *text && sscanf(text, "%u/%u%c", &part, parts, &end) != 2)
        part = 0;
    return part - 1u;
}

/* Workspace that holds anything: a sort of all ones leaves ones wherever later jobs will look first. */
static void poison_workspace(struct fixture *f)
{
    struct gm_seat *seat = &f->seat[0];
    const struct gm_case c = {
        .op = GM_OP_sort, .dtype = GM_DTYPE_u32, .n = SEAT_BYTES / 16u, .pattern = GM_PATTERN_BITS};
    gm_seat_prepare(seat, &c);
    memset(seat->in.data + seat->buffer[0].offset, 0xff, seat->buffer[0].bytes);
    memset(seat->copy, 0xff, seat->buffer[0].bytes);
    memset(seat->answer, 0xff, seat->buffer[1].bytes);
    gm_seat_submit(seat);
    gm_seat_check(seat);
}

static int open_all(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    const struct gm_device_config config = {.idle_ns = UINT64_C(2000000000)};
    if (!f)
        return -1;
    f->full = env_is("GRIDMILL_MATRIX", "full");
    f->brief = gm_brief();
    f->seed = number_from_env("GRIDMILL_SEED", 1);
    f->part = chosen_part(&f->parts);
    gm_harness_open(&f->h, &config);
    gm_harness_lane_open(&f->h, &f->lane, 1, 6, 0);
    const uint32_t crew = gm_crew_processors(), wanted = crew + 2u < SEATS ? SEATS : crew + 2u;
    f->seats = gm_harness_is_cuda() || wanted > SEATS_MOST ? SEATS_MOST : wanted;
    f->on_host = gm_harness_is_cuda() ? SEATS_MOST / 2u : f->seats;
    for (uint32_t i = 0; i < f->seats; i++)
        gm_seat_open(&f->seat[i], &f->lane, SEAT_BYTES, i >= f->on_host);
    assert_true(gm_crew_open(&f->crew, crew));
    printf("# %s, %u workers, %s, part %u of %u, seed %llu, %u threads for %u seats\n", f->h.hello.name,
           f->h.hello.workers,
           f->full    ? "full"
           : f->brief ? "brief"
                      : "sampled",
           f->part + 1u, f->parts, (unsigned long long)f->seed, crew, f->seats);
    poison_workspace(f);
    *state = f;
    return 0;
}

static int close_all(void **state)
{
    struct fixture *f = *state;
    printf("# %llu jobs checked\n", (unsigned long long)f->jobs);
    gm_crew_close(&f->crew);
    gm_harness_idle(&f->h);
    gm_harness_close(&f->h);
    for (uint32_t i = 0; i < f->seats; i++)
        gm_seat_close(&f->seat[i]);
    free(f);
    return 0;
}

/* Bytes that the widest buffer has for each element of the input, where the type alone does not say. */
static uint32_t widest_of(const struct gm_op_row *row, uint32_t dtype)
{
    uint32_t widest = row->types2 != GM_NO_TYPES ? 8u : gm_dtype_bytes(dtype);
    for (uint32_t i = 0; i < (uint32_t)row->inputs + row->outputs; i++)
        if (gm_buffer_extent(row->buffer[i]) <= GM_EXTENT_RESULT &&
            gm_buffer_content(row->buffer[i]) == GM_CONTENT_U64)
            widest = 8;
    return widest;
}

static uint64_t size_of(uint32_t index, uint32_t op, uint32_t dtype, uint64_t *state)
{
    const struct gm_op_row row = gm_op_row(op);
    const uint64_t tile = row.tile_bytes / gm_dtype_bytes(dtype);
    const bool pixels = row.args >> GM_A_channels & 1u; /* of several elements each */
    const uint64_t sizes[SIZES] = {0, 1, 31, 32, 33, tile - 1, tile, tile + 1, 3 * tile + 7, 0, 0};
    if (index == SIZES - 2u)
        return LARGE + 1u + gm_random(state) % 100000u * 2u;
    if (index == SIZES - 1u) /* enough for every worker to have several tiles */
        return (pixels ? 500001u : widest_of(&row, dtype) == 1 ? 5000001u : 1000001u) + gm_random(state) % 10000u * 2u;
    return sizes[index];
}

/* The seats in turn, host and device memory alternating. */
static struct gm_seat *seat_of(struct fixture *f, uint64_t number)
{
    const uint32_t k = (uint32_t)(number % f->seats);
    return &f->seat[f->on_host == f->seats ? k : k / 2u + (k % 2u != 0 ? f->on_host : 0u)];
}

/* Checks the oldest case, and submits those behind it that are ready, so that the device has something to do. */
static void check_oldest(struct fixture *f)
{
    while (f->sent < f->put && f->sent < f->got + AHEAD) {
        struct gm_seat *seat = seat_of(f, f->sent);
        if (f->sent == f->got)
            gm_crew_wait(&f->crew, &seat->task);
        else if (!gm_crew_is_done(&f->crew, &seat->task))
            break;
        f->sent++;
        gm_seat_submit(seat);
    }
    gm_seat_check(seat_of(f, f->got++));
    f->jobs++;
}

static void check_all(struct fixture *f)
{
    while (f->got < f->put)
        check_oldest(f);
}

static void run_case(struct fixture *f, struct gm_case *c)
{
    if (f->cases++ % f->parts != f->part)
        return;
    if (f->put - f->got == f->seats)
        check_oldest(f);
    struct gm_seat *seat = seat_of(f, f->put++);
    gm_case_choose(c);
    gm_seat_place(seat, c);
    seat->task.run = gm_seat_fill;
    seat->task.context = seat;
    gm_crew_add(&f->crew, &seat->task);
}

/* The whole product of one op, type and size. */
static void run_product(struct fixture *f, const struct gm_case *base, uint32_t patterns)
{
    static const uint32_t aligns[] = {0, 1, 3};
    struct gm_case c = *base;
    const bool map = gm_op_row(c.op).alias == GM_ALIAS_SAME;
    for (uint32_t p = 0; p < patterns; p++)
        for (uint32_t in = 0; in < 3; in++)
            for (uint32_t out = 0; out < 3; out++)
                for (uint32_t place = 0; place < (map ? 3u : 2u); place++) {
                    c.pattern = (enum gm_pattern)p;
                    c.align_in = aligns[in];
                    c.align_out = aligns[out];
                    c.at_end = place == 1;
                    c.same_buffer = place == 2;
                    c.seed++;
                    run_case(f, &c);
                }
}

/* Some of it, chosen by the seed; every pattern in turn. */
static void run_sample(struct fixture *f, const struct gm_case *base, uint32_t patterns, uint32_t count,
                       uint64_t *state)
{
    static const uint32_t aligns[] = {0, 1, 3};
    struct gm_case c = *base;
    const uint32_t first = (uint32_t)(gm_random(state) % patterns);
    for (uint32_t k = 0; k < count; k++) {
        const uint64_t r = gm_random(state);
        c.pattern = (enum gm_pattern)((first + k) % patterns);
        c.align_in = aligns[r % 3u];
        c.align_out = aligns[r / 3u % 3u];
        c.at_end = r >> 8 & 1u;
        c.same_buffer = gm_op_row(c.op).alias == GM_ALIAS_SAME && (r >> 9 & 3u) == 0;
        c.seed = r;
        run_case(f, &c);
    }
}

static void run_op(struct fixture *f, uint32_t op)
{
    const struct gm_op_row row = gm_op_row(op);
    const uint32_t flag = gm_args_flags(&row) & ~(uint32_t)GM_FLAG_WIDE; /* one at most */
    uint64_t state = f->seed * 1000003u + op;
    if (row.shape == GM_SHAPE_NONE) {
        struct gm_case c = {.op = op};
        for (uint32_t i = 0; i < 100; i++)
            run_case(f, &c);
        return;
    }
    for (uint32_t dtype = 0; dtype < GM_DTYPE_COUNT; dtype++) {
        if (!(row.types >> dtype & 1u))
            continue;
        for (uint32_t i = 0; i < SIZES; i++)
            for (uint32_t flagged = 0; flagged < (flag != 0 ? 2u : 1u); flagged++) {
                const struct gm_case c = {.op = op,
                                          .dtype = dtype,
                                          .flags = flagged ? flag : 0,
                                          .n = size_of(i, op, dtype, &state),
                                          .seed = gm_random(&state)};
                const uint32_t patterns = row.inputs ? GM_PATTERN_COUNT : 1u;
                if (f->brief && i >= SIZES - 2u && (op + dtype + f->seed) % 3u != 0)
                    continue; /* what is large costs most, and takes the same way for a third of the types */
                const uint32_t count = i == SIZES - 1u || f->brief ? 1u : c.n > 3000u ? 4u : 12u;
                if (f->full)
                    run_product(f, &c, patterns);
                else
                    run_sample(f, &c, patterns, count, &state);
            }
    }
}

static void answers_are_the_oracles(void **state)
{
    struct fixture *f = *state;
    for (uint32_t op = 0; op < GM_OP_COUNT; op++) {
        const uint64_t before = f->jobs, ms = gm_harness_now_ms();
        run_op(f, op);
        check_all(f);
        printf("# %-10s %6llu jobs %6llu ms\n", gm_op_name(op), (unsigned long long)(f->jobs - before),
               (unsigned long long)(gm_harness_now_ms() - ms));
    }
}

/* The same bits from run to run, wherever the data lies. */
static void float_sums_repeat_bit_for_bit(void **state)
{
    struct fixture *f = *state;
    static const uint32_t dtypes[] = {GM_DTYPE_f32, GM_DTYPE_f64};
    for (uint32_t i = 0; i < 2; i++)
        for (uint64_t n = 1000; n <= 1000000; n *= 10) {
            uint64_t first = 0;
            for (uint32_t run = 0; run < 12; run++) {
                struct gm_seat *seat = seat_of(f, run);
                const struct gm_case c = {.op = GM_OP_sum, .dtype = dtypes[i], .n = n, .align_in = run / 2u, .seed = n};
                gm_seat_prepare(seat, &c);
                gm_seat_submit(seat);
                gm_seat_check(seat);
                f->jobs++;
                if (run == 0)
                    first = seat->result;
                /* Host and device memory are cut into different numbers of shares, never into different tiles. */
                assert_int_equal(seat->result, first);
            }
        }
}

/* Two jobs of every op in flight at once, and then jobs of all ops: workspaces must not meet. */
static void overlapped_jobs_do_not_meet(void **state)
{
    struct fixture *f = *state;
    uint64_t random = f->seed + 77u;
    for (uint32_t round = 0; round < (f->full ? 500u : 40u); round++) {
        for (uint32_t i = 0; i < OVERLAP; i++) {
            const uint32_t any = 1u + (uint32_t)(gm_random(&random) % (GM_OP_COUNT - 1u));
            const uint32_t op = round % 2u ? any : 1u + (round / 2u) % (GM_OP_COUNT - 1u);
            struct gm_case c = {.op = op,
                                .n = 1u + gm_random(&random) % 60000u,
                                .align_in = i & 3u,
                                .pattern = (enum gm_pattern)(gm_random(&random) % GM_PATTERN_COUNT),
                                .seed = gm_random(&random)};
            do
                c.dtype = (uint32_t)(gm_random(&random) % GM_DTYPE_COUNT);
            while (!(gm_op_row(op).types >> c.dtype & 1u));
            gm_case_choose(&c);
            gm_seat_prepare(&f->seat[i], &c);
        }
        for (uint32_t i = 0; i < OVERLAP; i++)
            gm_seat_submit(&f->seat[i]);
        for (uint32_t i = 0; i < OVERLAP; i++, f->jobs++)
            gm_seat_check(&f->seat[OVERLAP - 1u - i]);
    }
}

/* Values exactly on every edge, one step to either side of it, and beyond the ends. */
static void histogram_edges_belong_to_the_bin_above(void **state)
{
    struct fixture *f = *state;
    static const double range[][2] = {{0, 100}, {-3, 7}, {0.1, 0.7}, {1e15, 1e15 + 3}, {0, 15e-324}};
    for (uint32_t i = 0; i < sizeof range / sizeof *range; i++) {
        for (uint32_t bins = 1; bins <= 1000; bins = bins * 3u + 1u) {
            struct gm_seat *seat = &f->seat[0];
            struct gm_case c = {.op = GM_OP_histogram, .dtype = GM_DTYPE_f64, .bins = bins, .n = 3u * (bins + 3u)};
            memcpy(c.value, range[i], sizeof range[i]);
            gm_seat_prepare(seat, &c);
            double *in = (double *)(void *)(seat->in.data + seat->buffer[0].offset);
            for (uint32_t k = 0; k < bins + 3u; k++) {
                const double edge = range[i][0] + ((double)k - 1) * ((range[i][1] - range[i][0]) / (double)bins);
                uint64_t bits;
                memcpy(&bits, &edge, sizeof bits);
                for (int step = -1; step <= 1; step++) {
                    const uint64_t near = bits + (uint64_t)(int64_t)step;
                    memcpy(&in[3u * k + (uint32_t)(step + 1)], &near, sizeof near);
                }
            }
            in[0] = range[i][1];
            memcpy(seat->copy, in, seat->buffer[0].bytes);
            seat->expected.result = 0;
            gm_oracle_histogram(&seat->expected);
            gm_seat_submit(seat);
            gm_seat_check(seat);
            f->jobs++;
        }
    }
}

/* n just over 2^31 bytes and over 2^31 elements. The oracle needs as much memory again. */
static void sizes_over_2_to_31_are_right(void **state)
{
    struct fixture *f = *state;
    const uint64_t bytes = (UINT64_C(1) << 31) + 5u;
    if (!f->full || (uint64_t)sysconf(_SC_AVPHYS_PAGES) * 4096u < 5u * bytes) {
        printf("# skipped: GRIDMILL_MATRIX=full and 11 GB of free memory are needed\n");
        skip();
    }
    struct gm_seat *seat = calloc(1, sizeof *seat);
    assert_non_null(seat);
    gm_seat_open(seat, &f->lane, bytes + 64u, gm_harness_is_cuda());
    struct gm_case cases[] = {{.op = GM_OP_copy, .dtype = GM_DTYPE_u8, .n = bytes},
                              {.op = GM_OP_fill, .dtype = GM_DTYPE_u8, .n = bytes},
                              {.op = GM_OP_histogram, .dtype = GM_DTYPE_u8, .n = bytes},
                              {.op = GM_OP_sum, .dtype = GM_DTYPE_f32, .n = bytes / 4u},
                              {.op = GM_OP_min, .dtype = GM_DTYPE_i32, .n = bytes / 4u},
                              {.op = GM_OP_max, .dtype = GM_DTYPE_f64, .n = bytes / 8u},
                              {.op = GM_OP_sort, .dtype = GM_DTYPE_u32, .n = bytes / 4u}};
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++, f->jobs++) {
        const uint64_t ms = gm_harness_now_ms();
        gm_case_choose(&cases[i]);
        gm_seat_run(seat, &cases[i]);
        printf("# %-10s %6llu ms\n", gm_op_name(cases[i].op), (unsigned long long)(gm_harness_now_ms() - ms));
    }
    gm_seat_close(seat);
    free(seat);
}

#define PRODUCT cmocka_unit_test(answers_are_the_oracles)
#define APART                                                                                                          \
    cmocka_unit_test(float_sums_repeat_bit_for_bit), cmocka_unit_test(histogram_edges_belong_to_the_bin_above),        \
        cmocka_unit_test(overlapped_jobs_do_not_meet)
#define LARGEST cmocka_unit_test(sizes_over_2_to_31_are_right)

int main(void)
{
    const struct CMUnitTest whole[] = {PRODUCT, APART, LARGEST}, first[] = {PRODUCT, APART}, middle[] = {PRODUCT},
                            last[] = {PRODUCT, LARGEST};
    uint32_t parts;
    const uint32_t part = chosen_part(&parts);
    setvbuf(stdout, NULL, _IOLBF, 0); /* how far it came, also when it is stopped */
    if (part >= parts) {
        fprintf(stderr, "GRIDMILL_MATRIX_PART is not i/n\n");
        return 2;
    }
    if (parts == 1)
        return cmocka_run_group_tests(whole, open_all, close_all);
    if (part == 0)
        return cmocka_run_group_tests(first, open_all, close_all);
    return part + 1u == parts ? cmocka_run_group_tests(last, open_all, close_all)
                              : cmocka_run_group_tests(middle, open_all, close_all);
}
