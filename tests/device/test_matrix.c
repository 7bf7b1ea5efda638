/* SPDX-License-Identifier: Apache-2.0
 *
 * Every op x its types x sizes x alignments x patterns against the oracles, through the real scheduler of the backend
 * that GRIDMILL_TEST_BACKEND names. A sample by default; GRIDMILL_MATRIX=full runs the whole product and inputs beyond
 * 2^31 bytes and elements; GRIDMILL_SEED=n draws another sample. GRIDMILL_MATRIX_PART=i/n runs every n-th case from the
 * i-th on, and every n-th of the largest inputs, and what is no case of the product in the first part: all n parts
 * together are the whole. A failure prints the case with its seed. Data and answers are made by a crew of threads some
 * cases ahead.
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

/* ---- inputs beyond 2^31 bytes, and beyond 2^32 elements ---- */

#define BYTES_LARGE    ((UINT64_C(1) << 31) + 5u)
#define ELEMENTS_LARGE ((UINT64_C(1) << 32) + 5u)
#define WIDTH_LARGE    4096u

/* The type of so large an input: f32 where the op has it, or its narrowest; sorts are u32, which matrix.c can check
 * without an oracle. */
static uint32_t large_type(const struct gm_op_row *row, bool narrowest)
{
    uint32_t best = row->work != GM_WORK_SORT && (row->types & GM_TYPE(f32)) ? GM_DTYPE_f32 : GM_DTYPE_u32;
    for (uint32_t dtype = 0; dtype < GM_DTYPE_COUNT && narrowest; dtype++)
        if ((row->types >> dtype & 1u) && gm_dtype_bytes(dtype) < gm_dtype_bytes(best))
            best = dtype;
    return best;
}

/* What the seed chose is replaced where an oracle would take hours, or where it leaves a buffer small. */
static void large_arguments(const struct gm_op_row *row, struct gm_case *c)
{
    if (gm_args_takes(row, GM_A_bins)) {
        c->bins = row->shape == GM_SHAPE_EDGES ? 20u : 100u;
        c->count2 = c->count2 != 0 ? 3u : 0;
    }
    if (gm_args_takes(row, GM_A_channels))
        c->n = c->n / c->count2 + 1u;
    if (gm_args_takes(row, GM_A_length))
        c->value[0] = c->n;
    if (gm_args_takes(row, GM_A_segments))
        c->value[0] = c->n / 3u;
    if (gm_args_takes(row, GM_A_width)) {
        c->n = (c->n / WIDTH_LARGE + 1u) * WIDTH_LARGE;
        c->value[0] = WIDTH_LARGE;
    }
    if (row->types2 != GM_NO_TYPES) /* the narrowest: of indices, and what bytes become */
        c->type2 = gm_args_takes(row, GM_A_to) && c->n >> 32 != 0 ? GM_DTYPE_i8 : GM_DTYPE_u32;
}

/* False where the op has no such case: none without elements, and of 2^32 none of types wider than a byte, or two where
 * the result is an index. What is least or greatest comes last, so that an index is large too. */
static bool large_case(uint32_t op, bool most, struct gm_case *c)
{
    const struct gm_op_row row = gm_op_row(op);
    const uint32_t dtype = row.shape == GM_SHAPE_NONE ? 0 : large_type(&row, most), bytes = gm_dtype_bytes(dtype);
    if (row.shape == GM_SHAPE_NONE || (most && bytes > (row.result == GM_RESULT_INDEX ? 2u : 1u)))
        return false;
    *c = (struct gm_case){.op = op, .dtype = dtype, .n = most ? ELEMENTS_LARGE : BYTES_LARGE / bytes + 1u, .seed = op};
    c->pattern = row.work == GM_WORK_SORT ? GM_PATTERN_BITS
                 : op == GM_OP_argmin || op == GM_OP_min ? GM_PATTERN_REVERSED
                                                         : GM_PATTERN_SORTED;
    gm_case_choose(c);
    large_arguments(&row, c);
    return true;
}

/* The case of this number; false behind the last. Histograms of many bins, in words of 4 and 8 bytes, end the row. */
static bool large_number(uint32_t number, struct gm_case *c)
{
    for (uint32_t op = 0; op < GM_OP_COUNT; op++)
        for (uint32_t most = 0; most < 2; most++)
            if (large_case(op, most != 0, c) && number-- == 0)
                return true;
    if (number > 1u || !large_case(GM_OP_histogram, false, c))
        return false;
    c->n = number != 0 ? (UINT64_C(1) << 30) + 5u : c->n;
    c->bins = GM_CASE_BINS_MAX - number;
    return true;
}

/* Bytes of a seat's side that it needs: of its inputs, or of its outputs if they are more. */
static uint64_t large_needs(const struct gm_case *c)
{
    const struct gm_op_row row = gm_op_row(c->op);
    const struct gm_args args = gm_case_args(c);
    uint64_t bytes[2] = {0, 0};
    for (uint32_t i = 0; i < (uint32_t)row.inputs + row.outputs; i++)
        bytes[i >= row.inputs] += gm_buffer_bytes(&row, i, &args) + 1024u;
    return bytes[0] > bytes[1] ? bytes[0] : bytes[1];
}

/* Of every op an input just over 2^31 bytes, and of those of bytes one of more than 2^32 elements, as far as there is
 * memory: both sides of a seat and copies of them, and some for what an output may be off. */
static void sizes_over_2_to_31_are_right(void **state)
{
    struct fixture *f = *state;
    struct gm_case c;
    const uint64_t room = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 5u;
    uint64_t bytes = 0;
    for (uint32_t i = 0; f->full && large_number(i, &c); i++)
        if (i % f->parts == f->part && large_needs(&c) <= room && large_needs(&c) > bytes)
            bytes = large_needs(&c);
    if (bytes == 0) {
        printf("# skipped: GRIDMILL_MATRIX=full and 11 GB of free memory are needed\n");
        skip();
    }
    struct gm_seat *seat = calloc(1, sizeof *seat);
    assert_non_null(seat);
    gm_seat_open(seat, &f->lane, bytes, gm_harness_is_cuda());
    for (uint32_t i = 0; large_number(i, &c); i++) {
        const uint64_t ms = gm_harness_now_ms();
        if (i % f->parts != f->part)
            continue;
        if (large_needs(&c) > bytes) {
            printf("# %-20s n %llu left out: too little memory\n", gm_op_name(c.op), (unsigned long long)c.n);
            continue;
        }
        gm_seat_run(seat, &c);
        f->jobs++;
        printf("# %-20s n %llu %6llu ms\n", gm_op_name(c.op), (unsigned long long)c.n,
               (unsigned long long)(gm_harness_now_ms() - ms));
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
    const struct CMUnitTest first[] = {PRODUCT, APART, LARGEST}, others[] = {PRODUCT, LARGEST};
    uint32_t parts;
    const uint32_t part = chosen_part(&parts);
    setvbuf(stdout, NULL, _IOLBF, 0); /* how far it came, also when it is stopped */
    if (part >= parts) {
        fprintf(stderr, "GRIDMILL_MATRIX_PART is not i/n\n");
        return 2;
    }
    return part == 0 ? cmocka_run_group_tests(first, open_all, close_all)
                     : cmocka_run_group_tests(others, open_all, close_all);
}
