/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA tiles of every op, run on the CPU: a block is 512 fibers (block.h), a job is cut as the dispatcher cuts it
 * (job.h). Every op x its types x sizes x alignments x patterns, a sample of them, each under several orders of
 * threads, cuts, and orders of shares: the answer must be the oracle's, and the same bits whatever the order. Buffers
 * end where the address sanitizer sees the next byte. GRIDMILL_SEED=n draws another sample, GRIDMILL_SIMT_TIMES=n draws
 * n times as many, GRIDMILL_MATRIX=brief runs each under one setting; GRIDMILL_SIMT_OP names one op. A failure prints
 * the case and its setting. Ops that have no tiles here, because those of another architecture are theirs too, are left
 * out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "../brief.h"
#include "args.h"
#include "core/plan.h"
#include "job.h"
#include "wire.h"

#ifdef GM_SIMT_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, bytes) ((void)(p), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(p, bytes) ((void)(p), (void)(bytes))
#endif

#define CANARY 0xa5
#define POISON 0xc3
#define MARGIN 256u /* bytes of canaries on either side; nobody may even read them where the sanitizer looks */
#define SETTINGS 3u

/* A buffer of a case. */
struct room {
    uint8_t *base, *data, *before; /* before: what an input holds, or what an output should */
    uint64_t bytes, all;
    uint8_t canary; /* another one for each, so that copies from one to the other show */
};

struct fixture {
    uint64_t seed, times, jobs;
    struct room room[GM_BUFFERS_MAX];
    uint8_t *first[GM_BUFFERS_MAX]; /* outputs under the first setting */
    double *slack;
    struct gm_oracle_job expected;
    char what[768];
};

static uint64_t number_from_env(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static bool chosen(uint32_t op)
{
    const char *only = getenv("GRIDMILL_SIMT_OP");
    return gm_simt_has(op) && (only == NULL || strcmp(only, gm_op_name(op)) == 0);
}

static void *memory(uint64_t bytes)
{
    void *p = NULL;
    assert_int_equal(posix_memalign(&p, 4096, bytes + 1u), 0);
    return p;
}

static void room_open(struct room *r, uint8_t canary, uint64_t bytes, uint64_t shift)
{
    r->canary = canary;
    r->bytes = bytes;
    r->all = (MARGIN + shift + bytes + MARGIN + 15u) / 16u * 16u;
    r->base = memory(r->all);
    r->data = r->base + MARGIN + shift;
    r->before = memory(bytes);
    memset(r->base, canary, r->all);
    memset(r->before, POISON, bytes);
}

static void room_guard(const struct room *r)
{
    ASAN_POISON_MEMORY_REGION(r->base, (size_t)(r->data - r->base));
    ASAN_POISON_MEMORY_REGION(r->data + r->bytes, (size_t)(r->base + r->all - (r->data + r->bytes)));
}

static void room_check(const struct room *r, const char *what)
{
    uint8_t canary[MARGIN];
    memset(canary, r->canary, sizeof canary);
    gm_case_check_bytes(r->data - MARGIN, canary, MARGIN, what, "memory before a buffer");
    gm_case_check_bytes(r->data + r->bytes, canary, MARGIN, what, "memory after a buffer");
}

static void room_close(struct room *r)
{
    ASAN_UNPOISON_MEMORY_REGION(r->base, r->all);
    free(r->base);
    free(r->before);
}

static uint32_t buffers_of(const struct gm_op_row *row)
{
    return (uint32_t)row->inputs + row->outputs;
}

/* Buffers, data, and what the oracle says. */
static void prepare(struct fixture *f, const struct gm_case *c)
{
    const struct gm_op_row row = gm_op_row(c->op);
    const struct gm_args args = gm_case_args(c);
    uint8_t *at[4] = {NULL, NULL, NULL, NULL}; /* inputs, outputs */
    for (uint32_t i = 0; i < buffers_of(&row); i++) {
        struct room *r = &f->room[i];
        const bool input = i < row.inputs;
        room_open(r, (uint8_t)(CANARY + i), gm_buffer_bytes(&row, i, &args),
                  (input ? c->align_in : c->align_out) * gm_buffer_element(&row, i, &args));
        f->first[i] = input ? NULL : memory(r->bytes);
        if (input) {
            gm_case_fill(c, i, r->data);
            memcpy(r->before, r->data, r->bytes);
        }
        at[input ? i : 2u + i - row.inputs] = r->before;
    }
    f->expected = gm_case_question(c, at[0], at[1], at[2], at[3]);
    f->slack = NULL;
    if (gm_case_wants_slack(c)) {
        f->slack = calloc(gm_buffer_count(&row, row.inputs, &args) + 1u, sizeof *f->slack);
        assert_non_null(f->slack);
        f->expected.slack = f->slack;
    }
    gm_case_ask(c->op, &f->expected);
}

static void dismantle(struct fixture *f, const struct gm_case *c)
{
    const struct gm_op_row row = gm_op_row(c->op);
    for (uint32_t i = 0; i < buffers_of(&row); i++) {
        room_close(&f->room[i]);
        free(f->first[i]);
    }
    free(f->slack);
}

/* The answer under one setting; result: the first one's, or to be like it. */
static void run_once(struct fixture *f, const struct gm_case *c, const struct gm_simt_setting *s, bool first,
                     uint64_t *first_result)
{
    const struct gm_op_row row = gm_op_row(c->op);
    void *buffer[GM_BUFFERS_MAX] = {NULL};
    char why[1024] = "";
    int32_t status = 0;
    uint64_t result = 0;
    for (uint32_t i = 0; i < buffers_of(&row); i++) {
        buffer[i] = f->room[i].data;
        if (i >= row.inputs)
            memset(f->room[i].data, POISON, f->room[i].bytes);
    }
    if (c->same_buffer) { /* the first input where the output will be */
        buffer[0] = buffer[row.inputs];
        memcpy(buffer[0], f->room[0].before, f->room[0].bytes);
    }
    for (uint32_t i = 0; i < buffers_of(&row); i++)
        room_guard(&f->room[i]);
    const bool good = gm_simt_job_run(c, buffer, s, &status, &result, why, sizeof why);
    for (uint32_t i = 0; i < buffers_of(&row); i++)
        ASAN_UNPOISON_MEMORY_REGION(f->room[i].base, f->room[i].all);
    f->jobs++;
    if (!good)
        fail_msg("%s: %s", f->what, why);
    gm_case_check_result(c, &f->expected, status, result, f->what);
    for (uint32_t i = 0; i < buffers_of(&row); i++) {
        const struct room *r = &f->room[i];
        room_check(r, f->what);
        if (i < row.inputs) {
            gm_case_check_bytes(r->data, r->before, r->bytes, f->what, "input");
        } else if (status == GM_OK) {
            gm_case_check_output(c, i, r->data, r->before, f->slack, f->what);
            if (first)
                memcpy(f->first[i], r->data, r->bytes);
            gm_case_check_bytes(r->data, f->first[i], r->bytes, f->what, "output, from setting to setting,");
        }
    }
    if (first)
        *first_result = result;
    else if (status == GM_OK && row.result != GM_RESULT_NONE && result != *first_result)
        fail_msg("%s: result %016llx, and %016llx under another setting", f->what, (unsigned long long)result,
                 (unsigned long long)*first_result);
}

/* Sorts of whole tiles cost as much as everything else together: the types and flags that take the same way as others
 * get one setting. GRIDMILL_MATRIX=brief: all get one, and some of those none. */
static uint32_t settings_of(const struct gm_case *c)
{
    const struct gm_op_row row = gm_op_row(c->op);
    const bool large = row.work == GM_WORK_SORT && c->n * gm_dtype_bytes(c->dtype) > row.tile_bytes / 2u;
    const bool alike = large && (c->flags != 0 || gm_dtype_kind(c->dtype) != 'u');
    if (alike && gm_left_out(c->seed))
        return 0;
    return alike || gm_brief() ? 1u : SETTINGS;
}

static void run_case(struct fixture *f, struct gm_case *c)
{
    static const uint32_t workers[] = {1, 3, 7, 132};
    uint64_t state = c->seed, result = 0;
    const uint32_t settings = settings_of(c);
    if (settings == 0)
        return;
    gm_case_choose(c);
    prepare(f, c);
    const uint64_t r = gm_random(&state);
    for (uint32_t i = 0; i < settings; i++) {
        const uint64_t q = gm_random(&state);
        const struct gm_simt_setting s = {.workers = workers[(r + i) % 4u],
                                          .blocks =
                                              (q & 3u) != 0 ? 1u : 2u + (q >> 2 & 1u) * (gm_simt_blocks_most() - 2u),
                                          .bulk = q >> 3 & 1u,
                                          .host = (q >> 4 & 7u) == 0,
                                          .order = (uint32_t)(r / 4u + i) % gm_simt_orders(),
                                          .shares = (enum gm_simt_shares)(q >> 8) % 3u,
                                          .sorted = q >> 16 & 1u,
                                          .looks_back = (q >> 17 & 3u) != 0,
                                          .seed = q};
        gm_case_describe(c, f->what, sizeof f->what);
        const size_t at = strlen(f->what);
        snprintf(f->what + at, sizeof f->what - at,
                 " | workers=%u blocks=%u bulk=%u host=%u order=%u shares=%d sorted=%d looks_back=%d", s.workers,
                 s.blocks, s.bulk, s.host, s.order, (int)s.shares, s.sorted, s.looks_back);
        run_once(f, c, &s, i == 0, &result);
    }
    dismantle(f, c);
}

#define SIZES 10u
/* The last: enough for bulk copies. A sort of it would take as long as everything else. */
static uint64_t size_of(uint32_t index, uint32_t op, uint32_t dtype)
{
    const uint64_t tile = gm_op_row(op).tile_bytes / gm_dtype_bytes(dtype);
    const uint64_t last = gm_op_row(op).work == GM_WORK_SORT ? tile / 2 + 1 : 9 * tile - 3;
    const uint64_t sizes[SIZES] = {0, 1, 31, 32, 33, tile - 1, tile, tile + 1, 3 * tile + 7, last};
    return sizes[index];
}

/* Some cases of one op, type, flag and size; patterns and alignments in turn. */
static void run_sample(struct fixture *f, struct gm_case c, uint32_t count, uint64_t *state)
{
    static const uint32_t aligns[] = {0, 1, 3};
    const struct gm_op_row row = gm_op_row(c.op);
    for (uint32_t k = 0; k < count; k++) {
        const uint64_t r = gm_random(state);
        c.pattern = row.inputs != 0 ? (enum gm_pattern)(r % GM_PATTERN_COUNT) : GM_PATTERN_RANDOM;
        c.align_in = (r >> 8 & 1u) != 0 ? 0 : aligns[(r >> 9) % 3u];
        c.align_out = (r >> 16 & 1u) != 0 ? 0 : aligns[(r >> 17) % 3u];
        c.same_buffer = row.alias == GM_ALIAS_SAME && (r >> 24 & 3u) == 0;
        c.seed = r;
        run_case(f, &c);
    }
}

static void run_op(struct fixture *f, uint32_t op)
{
    const struct gm_op_row row = gm_op_row(op);
    const uint32_t flag = gm_args_flags(&row) & ~(uint32_t)GM_FLAG_WIDE;
    uint64_t state = f->seed * 1000003u + op;
    if (row.shape == GM_SHAPE_NONE) {
        struct gm_case c = {.op = op, .seed = f->seed};
        run_case(f, &c);
        return;
    }
    for (uint32_t dtype = 0; dtype < GM_DTYPE_COUNT; dtype++)
        for (uint32_t i = 0; i < SIZES && (row.types >> dtype & 1u) != 0; i++)
            for (uint32_t flagged = 0; flagged < (flag != 0 ? 2u : 1u); flagged++) {
                const struct gm_case c = {
                    .op = op, .dtype = dtype, .flags = flagged ? flag : 0, .n = size_of(i, op, dtype)};
                run_sample(f, c, (uint32_t)f->times * (i < 5u ? 2u : 1u), &state);
            }
}

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

static void cuda_answers_are_the_oracles(void **state)
{
    struct fixture *f = *state;
    for (uint32_t op = 0; op < GM_OP_COUNT; op++) {
        const uint64_t before = f->jobs, ms = now_ms();
        if (!chosen(op))
            continue;
        run_op(f, op);
        printf("# %-10s %6llu jobs %6llu ms\n", gm_op_name(op), (unsigned long long)(f->jobs - before),
               (unsigned long long)(now_ms() - ms));
    }
}

/* More counts than one block scans in one piece. */
static void sort_of_many_chunks_is_right(void **state)
{
    struct fixture *f = *state;
    const uint64_t granule = gm_op_row(GM_OP_sort).tile_bytes / 4u / 2u;
    struct gm_case c = {
        .op = GM_OP_sort, .dtype = GM_DTYPE_u32, .n = 65u * granule + 1u, .seed = f->seed, .pattern = GM_PATTERN_BITS};
    const struct gm_simt_setting s = {.workers = 132, .blocks = 1, .order = (uint32_t)f->seed % gm_simt_orders()};
    uint64_t result = 0;
    if (!chosen(c.op))
        return;
    gm_case_describe(&c, f->what, sizeof f->what);
    prepare(f, &c);
    run_once(f, &c, &s, true, &result);
    dismantle(f, &c);
}

/* So many that looking at them is worth more shares than there are tiles. */
static void segmented_scans_of_many_offsets_are_right(void **state)
{
    struct fixture *f = *state;
    for (uint32_t k = 0; k < 4; k++) {
        struct gm_case c = {.op = GM_OP_segmented_scan_sum + k % 3u,
                            .dtype = GM_DTYPE_u32,
                            .type2 = GM_DTYPE_u32,
                            .n = k == 0 ? 0 : 100u * k,
                            .value = {2u * GM_OFFSETS_SHARE + k},
                            .seed = f->seed + k,
                            .pattern = GM_PATTERN_SMALL};
        const struct gm_simt_setting s = {.workers = 1u + k,
                                          .blocks = 1u + k % 2u,
                                          .order = (uint32_t)(f->seed + k) % gm_simt_orders(),
                                          .seed = c.seed};
        uint64_t result = 0;
        if (!chosen(c.op))
            continue;
        gm_case_describe(&c, f->what, sizeof f->what);
        prepare(f, &c);
        run_once(f, &c, &s, true, &result);
        dismantle(f, &c);
    }
}

/* Both ways of counting, and digits of twice as many bins as shared memory holds; values all over the bins, and in few
 * of them. */
static void histograms_of_many_bins_are_right(void **state)
{
    static const struct {
        uint32_t op, dtype, bins, count2;
        uint64_t n;
        double range[4];
        bool few;
    } cases[] = {
        {GM_OP_histogram, GM_DTYPE_u32, 100000, 0, 40001, {0, 0x1p32}, false},
        {GM_OP_histogram, GM_DTYPE_u64, GM_HIST_ROW_BINS + 1u, 0, 20001, {0, 0x1p64}, false},
        {GM_OP_histogram, GM_DTYPE_u8, 100000, 0, 70001, {1, 250}, false},
        {GM_OP_histogram, GM_DTYPE_u32, GM_RADIX << 15, 0, 9001, {-0x1p40, 0x1p32}, false}, /* in the last digit */
        {GM_OP_histogram, GM_DTYPE_u32, (GM_RADIX << 15) + 1u, 0, 9001, {0, 0x1p32}, true},
        {GM_OP_histogram_channels, GM_DTYPE_u32, 20000, 3, 20001, {0, 0x1p32}, false},
        {GM_OP_histogram_2d, GM_DTYPE_u32, 300, 200, 40001, {0, 0x1p32, 0, 0x1p31}, false},
    };
    struct fixture *f = *state;
    for (uint32_t k = 0; k < 2u * sizeof cases / sizeof *cases; k++) {
        const uint32_t at = k / 2u;
        struct gm_case c = {.op = cases[at].op,
                            .dtype = cases[at].dtype,
                            .bins = cases[at].bins,
                            .count2 = cases[at].count2,
                            .n = cases[at].n,
                            .align_in = k % 3u,
                            .seed = f->seed + k,
                            .pattern = cases[at].few ? GM_PATTERN_CONCENTRATED : GM_PATTERN_BITS};
        const struct gm_simt_setting s = {.workers = k % 3u == 0 ? 132 : 3,
                                          .blocks = 1u + k % 2u,
                                          .order = (uint32_t)(f->seed + k) % gm_simt_orders(),
                                          .seed = c.seed,
                                          .sorted = k % 2u};
        uint64_t result = 0;
        if (!chosen(c.op))
            continue;
        memcpy(c.value, cases[at].range, (c.op == GM_OP_histogram_2d ? 4u : 2u) * sizeof *c.value);
        gm_case_describe(&c, f->what, sizeof f->what);
        prepare(f, &c);
        run_once(f, &c, &s, true, &result);
        dismantle(f, &c);
    }
}

/* More tiles than two windows of look_back.cuh, blocks that are at work on several of them, and floats of which no sum
 * is exact: the same bits under two settings. Of segmented reductions: so many that a thread looks up where each
 * begins, and then so few that a warp does. */
static void tiles_of_several_windows_are_right(void **state)
{
    static const struct {
        uint32_t op, dtype, flags, workers;
    } jobs[] = {{GM_OP_scan_sum, GM_DTYPE_f64, 0, 7},
                {GM_OP_segmented_scan_sum, GM_DTYPE_f64, GM_FLAG_EXCLUSIVE, 7},
                {GM_OP_segmented_sum, GM_DTYPE_f64, 0, 1},
                {GM_OP_unique, GM_DTYPE_u64, 0, 7},
                {GM_OP_run_length, GM_DTYPE_u64, 0, 7}};
    struct fixture *f = *state;
    for (uint32_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        struct gm_case c = {.op = jobs[i].op,
                            .dtype = jobs[i].dtype,
                            .flags = jobs[i].flags,
                            .n = 66u * (gm_op_row(jobs[i].op).tile_bytes / gm_dtype_bytes(jobs[i].dtype)) + 5u,
                            .pattern = GM_PATTERN_RANDOM,
                            .align_in = i % 2u,
                            .seed = f->seed + i};
        struct gm_simt_setting s = {.workers = jobs[i].workers, .blocks = 2, .seed = f->seed};
        uint64_t result = 0;
        if (!chosen(c.op))
            continue;
        gm_case_choose(&c);
        prepare(f, &c);
        gm_case_describe(&c, f->what, sizeof f->what);
        run_once(f, &c, &s, true, &result);
        s = (struct gm_simt_setting){.workers = 132,
                                     .blocks = gm_simt_blocks_most(),
                                     .order = 1u + (uint32_t)f->seed % (gm_simt_orders() - 1u),
                                     .shares = GM_SIMT_SHARES_SHUFFLED,
                                     .looks_back = true,
                                     .seed = f->seed + 1u};
        run_once(f, &c, &s, false, &result);
        dismantle(f, &c);
    }
}

/* ---- clients that change what a job works on ---- */

static struct {
    struct fixture *f;
    uint32_t inputs;
    uint64_t state, times;
} client;

/* Something else in some input. */
static void change_an_input(void)
{
    const uint64_t r = gm_random(&client.state);
    const struct room *room = &client.f->room[r % client.inputs];
    if (room->bytes == 0)
        return;
    uint64_t at = gm_random(&client.state) % room->bytes, some = r >> 8 & 1u ? 1u : 64u;
    for (; at < room->bytes && some != 0; at++, some--)
        room->data[at] = (uint8_t)(r >> 16 & 3u ? gm_random(&client.state) : 0xffu);
    client.times++;
}

/* Whatever comes out: it ends, and nothing outside the outputs is written, or read where the sanitizer looks. */
static void run_disturbed(struct fixture *f, struct gm_case *c)
{
    const struct gm_op_row row = gm_op_row(c->op);
    const struct gm_simt_setting s = {.workers = c->seed & 1u ? 3 : 132,
                                      .blocks = 1u + (c->seed >> 1 & 1u),
                                      .bulk = c->seed >> 2 & 1u,
                                      .order = (uint32_t)(c->seed >> 3) % gm_simt_orders(),
                                      .shares = GM_SIMT_SHARES_SHUFFLED,
                                      .sorted = c->seed >> 16 & 1u,
                                      .looks_back = c->seed >> 17 & 1u,
                                      .seed = c->seed,
                                      .disturb = change_an_input};
    void *buffer[GM_BUFFERS_MAX] = {NULL};
    char why[1024] = "";
    int32_t status;
    uint64_t result;
    prepare(f, c);
    gm_case_describe(c, f->what, sizeof f->what);
    client.f = f;
    client.inputs = row.inputs;
    client.state = c->seed;
    for (uint32_t i = 0; i < buffers_of(&row); i++) {
        buffer[i] = f->room[i].data;
        room_guard(&f->room[i]);
    }
    const bool good = gm_simt_job_run(c, buffer, &s, &status, &result, why, sizeof why);
    for (uint32_t i = 0; i < buffers_of(&row); i++)
        ASAN_UNPOISON_MEMORY_REGION(f->room[i].base, f->room[i].all);
    if (!good)
        fail_msg("%s, its inputs changing: %s", f->what, why);
    for (uint32_t i = 0; i < buffers_of(&row); i++)
        room_check(&f->room[i], f->what);
    dismantle(f, c);
    f->jobs++;
}

static void inputs_that_change_do_no_harm(void **state)
{
    struct fixture *f = *state;
    static const uint32_t sizes[] = {4, 7, 8};
    uint64_t random = f->seed * 7919u;
    client.times = 0;
    for (uint32_t op = 0; op < GM_OP_COUNT; op++) {
        const struct gm_op_row row = gm_op_row(op);
        if (row.inputs == 0 || !chosen(op))
            continue;
        for (uint32_t dtype = 0; dtype < GM_DTYPE_COUNT; dtype++)
            for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes && (row.types >> dtype & 1u) != 0; i++) {
                struct gm_case c = {.op = op,
                                    .dtype = dtype,
                                    .n = size_of(sizes[i], op, dtype),
                                    .pattern = (enum gm_pattern)(gm_random(&random) % GM_PATTERN_COUNT),
                                    .seed = gm_random(&random)};
                gm_case_choose(&c);
                if (row.work != GM_WORK_SORT || gm_dtype_kind(dtype) == 'u')
                    run_disturbed(f, &c);
            }
    }
    printf("# inputs changed %llu times\n", (unsigned long long)client.times);
    assert_true(client.times != 0 || getenv("GRIDMILL_SIMT_OP") != NULL);
}

static void pairs_that_change_while_they_are_sorted_do_no_harm(void **state)
{
    const double range[] = {0, 4294967295.0, 0, 4294967295.0};
    for (uint32_t k = 0; k < 8 && chosen(GM_OP_histogram_2d); k++) {
        struct gm_case c = {.op = GM_OP_histogram_2d,
                            .dtype = GM_DTYPE_u32,
                            .bins = 300,
                            .count2 = 200,
                            .n = 20000u + k,
                            .pattern = k & 1u ? GM_PATTERN_CONCENTRATED : GM_PATTERN_BITS,
                            .seed = 1u << 16 | k};
        memcpy(c.value, range, sizeof range);
        run_disturbed(*state, &c);
    }
}

static int open_all(void **state)
{
    static struct fixture f;
    f.seed = number_from_env("GRIDMILL_SEED", 1);
    f.times = number_from_env("GRIDMILL_SIMT_TIMES", 1);
    printf("# seed %llu\n", (unsigned long long)f.seed);
    *state = &f;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(histograms_of_many_bins_are_right),
        cmocka_unit_test(segmented_scans_of_many_offsets_are_right),
        cmocka_unit_test(cuda_answers_are_the_oracles),
        cmocka_unit_test(sort_of_many_chunks_is_right),
        cmocka_unit_test(tiles_of_several_windows_are_right),
        cmocka_unit_test(inputs_that_change_do_no_harm),
        cmocka_unit_test(pairs_that_change_while_they_are_sorted_do_no_harm),
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    return cmocka_run_group_tests(tests, open_all, NULL);
}
