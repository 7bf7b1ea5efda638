/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs on small rings and near the wraps of every counter: each job is answered exactly once with its own result, at
 * every fill level, with wide descriptors across the end of the ring, cancelled at any moment.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "../brief.h"
#include "args.h"
#include "harness.h"
#include "least.h"

#define NUMBERS 4096u
#define BIG     (UINT32_C(2) << 20)

struct fixture {
    struct gm_harness h;
    struct gm_harness_arena numbers, out;
};

static void open_config(struct fixture *f, const struct gm_device_config *config)
{
    memset(f, 0, sizeof *f);
    gm_harness_open(&f->h, config);
    gm_harness_arena_open(&f->h, &f->numbers, BIG * 4u, false);
    gm_harness_arena_open(&f->h, &f->out, BIG * 4u, false);
    uint32_t *numbers = (uint32_t *)(void *)f->numbers.data;
    for (uint32_t i = 0; i < BIG; i++)
        numbers[i] = i < NUMBERS ? i + 1u : i * 2654435761u;
}

/* Small scheduler rings whose laps wrap after a few of them, or the product's. */
static void open_with(struct fixture *f, bool small)
{
    struct gm_device_config config = {.idle_ns = UINT64_C(2000000000)};
    if (small && !gm_harness_is_cuda()) {
        config.workers = 3;
        config.tickets_log2 = 3;
        config.entries_log2 = 2;
        config.ticket_start = ((UINT64_C(1) << 32) - 3u) << config.tickets_log2;
        config.inbox_start = ((UINT64_C(1) << 32) - 3u) << config.entries_log2;
    } else if (small) {
        config.workers = 16;
        config.tickets_log2 = 5;
        config.entries_log2 = 3;
        config.ticket_start = ((UINT64_C(1) << 32) - 3u) << config.tickets_log2;
        config.inbox_start = ((UINT64_C(1) << 32) - 3u) << config.entries_log2;
    }
    open_config(f, &config);
}

static void close_it(struct fixture *f)
{
    const struct gm_device_counters c = gm_harness_idle(&f->h);
    assert_int_equal(c.entries, 0);
    gm_harness_close(&f->h);
}

/* The sum of the first n numbers, a narrow descriptor. */
static uint64_t submit_sum(struct fixture *f, struct gm_harness_lane *lane, uint32_t n)
{
    uint32_t words[GM_DESC_WORDS] = {GM_OP_sum | GM_DTYPE_u32 << 16};
    words[GM_W_ARENA0] = f->numbers.handle;
    gm_desc_put64(words, GM_W_N, n);
    return gm_harness_submit(lane, words);
}

/* A fill of one word of out, a wide descriptor. */
static uint64_t submit_fill(struct fixture *f, struct gm_harness_lane *lane, uint32_t at, uint32_t value)
{
    uint32_t words[GM_DESC_WORDS] = {GM_OP_fill | GM_DTYPE_u32 << 16 | GM_FLAG_WIDE << 24};
    words[GM_W_ARENA0] = f->out.handle;
    gm_desc_put64(words, GM_W_OFFSET0, at * 4u);
    gm_desc_put64(words, GM_W_N, 1);
    words[GM_W_WIDE] = GM_DESC_WIDE_MARK;
    words[GM_W_VALUE0] = value;
    return gm_harness_submit(lane, words);
}

static void sum_is(struct gm_harness_lane *lane, uint64_t position, uint32_t n)
{
    const struct gm_granule done = gm_harness_wait(lane, position);
    assert_int_equal(gm_completion_status(done), GM_OK);
    assert_int_equal(gm_completion_result(done), (uint64_t)n * (n + 1u) / 2u);
}

/* Fills the lane with k slots of jobs, some wide, and reaps them; last first in every other round. */
static void fill_and_drain(struct fixture *f, struct gm_harness_lane *lane, uint32_t k, uint32_t round)
{
    const uint32_t *out = (const uint32_t *)(const void *)f->out.data;
    struct {
        uint64_t position;
        uint32_t n, at;
        bool wide;
    } job[64];
    uint32_t jobs = 0, used = 0;
    while (used < k && jobs < 64u) {
        job[jobs].wide = k - used >= 2 && (round + jobs) % 3u == 0;
        job[jobs].n = 1u + (round * 31u + jobs * 7u) % NUMBERS;
        job[jobs].at = jobs;
        job[jobs].position = job[jobs].wide ? submit_fill(f, lane, job[jobs].at, round * 64u + jobs + 1u)
                                            : submit_sum(f, lane, job[jobs].n);
        used += job[jobs].wide ? 2u : 1u;
        jobs++;
    }
    for (uint32_t i = 0; i < jobs; i++) {
        const uint32_t j = round & 1u ? jobs - 1u - i : i;
        if (!job[j].wide) {
            sum_is(lane, job[j].position, job[j].n);
            continue;
        }
        assert_int_equal(gm_completion_status(gm_harness_wait(lane, job[j].position)), GM_OK);
        assert_int_equal(gm_load_relaxed_u32(&out[job[j].at]), round * 64u + j + 1u);
    }
}

static void every_fill_level_on(bool small)
{
    static const uint32_t log2s[] = {1, 2, 3, 5};
    struct fixture f;
    open_with(&f, small);
    for (uint32_t i = 0; i < 4; i++) {
        struct gm_harness_lane lane;
        const uint32_t slots = 1u << log2s[i];
        /* The lap of a slot wraps in the fourth round of the ring. */
        gm_harness_lane_open(&f.h, &lane, 1u + i, log2s[i], ((UINT64_C(1) << 32) - 4u) << log2s[i]);
        for (uint32_t round = 0; round < gm_rounds(300); round++)
            fill_and_drain(&f, &lane, round % slots + 1u, round);
    }
    close_it(&f);
}

static void jobs_are_answered_at_every_fill_level(void **state)
{
    (void)state;
    every_fill_level_on(false);
}

static void small_rings_and_wrapping_laps_lose_nothing(void **state)
{
    (void)state;
    every_fill_level_on(true);
}

/* Many phases and many shares through a ring that holds hardly more than one phase. */
static void sorts_go_through_a_small_ticket_ring(void **state)
{
    struct fixture f;
    struct gm_harness_lane lane;
    (void)state;
    open_with(&f, true);
    gm_harness_lane_open(&f.h, &lane, 1, 2, 0);
    for (uint32_t round = 0; round < gm_rounds(20); round++) {
        uint64_t position[4];
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t words[GM_DESC_WORDS] = {GM_OP_sort | GM_DTYPE_u32 << 16};
            words[GM_W_ARENA0] = f.numbers.handle;
            gm_desc_put64(words, GM_W_N, 70001);
            words[GM_W_ARENA1] = f.out.handle;
            gm_desc_put64(words, GM_W_OFFSET1, i * 400000u);
            position[i] = gm_harness_submit(&lane, words);
        }
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t *sorted = (const uint32_t *)(const void *)(f.out.data + i * 400000u);
            assert_int_equal(gm_completion_status(gm_harness_wait(&lane, position[i])), GM_OK);
            for (uint32_t k = 1; k < 70001; k++)
                assert_true(sorted[k - 1u] <= sorted[k]);
        }
    }
    close_it(&f);
}

static void nap_ns(uint64_t ns)
{
    const struct timespec t = {0, (long)ns};
    nanosleep(&t, NULL);
}

/* A running sort: it ends as cancelled, or had ended, and gives back what it held. */
static void cancelled_sort_ends_and_gives_everything_back(void **state)
{
    struct fixture f;
    struct gm_harness_lane lane;
    uint32_t cancelled = 0, late = 0;
    (void)state;
    open_with(&f, false);
    gm_harness_lane_open(&f.h, &lane, 1, 3, 0);
    for (uint32_t round = 0; round < 40; round += gm_brief() ? 3u : 1u) {
        uint32_t words[GM_DESC_WORDS] = {GM_OP_sort | GM_DTYPE_u32 << 16};
        words[GM_W_ARENA0] = f.numbers.handle;
        gm_desc_put64(words, GM_W_N, BIG / 8u);
        words[GM_W_ARENA1] = f.out.handle;
        const uint64_t position = gm_harness_submit(&lane, words);
        nap_ns(round * 400000u);
        const int answer = gm_admin_cancel(&f.h.admin, 1, position);
        const int32_t status = gm_completion_status(gm_harness_wait(&lane, position));
        assert_true(answer == GM_OK || answer == GM_ENOTFOUND);
        assert_true(status == GM_ECANCELLED || status == GM_OK);
        if (answer == GM_ENOTFOUND)
            assert_int_equal(status, GM_OK);
        cancelled += status == GM_ECANCELLED ? 1u : 0u;
        late += status == GM_OK ? 1u : 0u;
        sum_is(&lane, submit_sum(&f, &lane, NUMBERS), NUMBERS);
    }
    printf("# %u cancelled, %u had finished\n", cancelled, late);
    assert_true(cancelled > 0);
    const struct gm_device_counters c = gm_harness_idle(&f.h);
    assert_int_equal(c.workspace, 0);
    assert_int_equal(c.started, c.completed);
    close_it(&f);
}

/* A job that waits behind others is cancelled before it starts. */
static void cancelled_before_it_starts_never_runs(void **state)
{
    struct fixture f;
    struct gm_harness_lane lane;
    uint32_t refused = 0;
    (void)state;
    open_with(&f, true);
    gm_harness_lane_open(&f.h, &lane, 1, 5, 0);
    uint32_t *out = (uint32_t *)(void *)f.out.data;
    const uint32_t rounds = gm_rounds(20);
    for (uint32_t round = 0; round < rounds; round++) {
        uint64_t sorts[14];
        for (uint32_t i = 0; i < 14; i++) {
            uint32_t words[GM_DESC_WORDS] = {GM_OP_sort | GM_DTYPE_u32 << 16};
            words[GM_W_ARENA0] = f.numbers.handle;
            gm_desc_put64(words, GM_W_N, 50000);
            words[GM_W_ARENA1] = f.out.handle;
            gm_desc_put64(words, GM_W_OFFSET1, 4096u + i * 200000u);
            sorts[i] = gm_harness_submit(&lane, words);
        }
        gm_store_relaxed_u32(out, 0);
        const uint64_t position = submit_fill(&f, &lane, 0, 7);
        const int answer = gm_admin_cancel(&f.h.admin, 1, position);
        const int32_t status = gm_completion_status(gm_harness_wait(&lane, position));
        if (status == GM_ECANCELLED) {
            assert_int_equal(answer, GM_OK);
            refused++;
        }
        for (uint32_t i = 0; i < 14; i++)
            assert_int_equal(gm_completion_status(gm_harness_wait(&lane, sorts[i])), GM_OK);
        if (status == GM_ECANCELLED)
            assert_int_equal(gm_load_relaxed_u32(out), 0);
    }
    printf("# %u of %u cancelled in the lane\n", refused, rounds);
    assert_true(refused > 0);
    close_it(&f);
}

/* One worker is busy with what came before, and the job's ticket is in the ring already. */
static void cancelled_behind_its_ticket_never_runs(void **state)
{
    enum { LONG = 6 };
    const uint32_t rounds = gm_rounds(30);
    const struct gm_device_config config = {.idle_ns = UINT64_C(2000000000), .workers = 1};
    struct fixture f;
    struct gm_harness_lane lane;
    uint32_t cancelled = 0, round = 0;
    uint64_t never = 0;
    (void)state;
    if (gm_harness_is_cuda())
        skip(); /* jobs on host memory have no ticket of this kind there */
    open_config(&f, &config);
    gm_harness_lane_open(&f.h, &lane, 1, 5, 0);
    uint32_t *out = (uint32_t *)(void *)f.out.data;
    const uint64_t before = gm_harness_idle(&f.h).started;
    /* A test that gets no processor for long comes too late with all of them, a dispatcher that gets none hears of the
     * cancels first. */
    for (; round < rounds || (cancelled <= never && round < 20u * rounds); round++) {
        uint64_t sums[LONG];
        for (uint32_t i = 0; i < LONG; i++)
            sums[i] = submit_sum(&f, &lane, BIG);
        gm_store_relaxed_u32(out, 0);
        const uint64_t position = submit_fill(&f, &lane, 0, 7);
        nap_ns(round % 4u * 200000u);
        const int answer = gm_admin_cancel(&f.h.admin, 1, position);
        const int32_t status = gm_completion_status(gm_harness_wait(&lane, position));
        assert_true(status == GM_ECANCELLED ? answer == GM_OK : status == GM_OK);
        assert_int_equal(gm_load_relaxed_u32(out), status == GM_OK ? 7 : 0);
        cancelled += status == GM_ECANCELLED ? 1u : 0u;
        for (uint32_t i = 0; i < LONG; i++)
            assert_int_equal(gm_completion_status(gm_harness_wait(&lane, sums[i])), GM_OK);
        if (round + 1u >= rounds) { /* of the fills, those that were not started */
            const uint64_t fills = gm_harness_idle(&f.h).started - before - (round + 1u) * LONG;
            never = round + 1u - fills;
        }
    }
    printf("# %u of %u cancelled, %u before they had a ticket\n", cancelled, round, (uint32_t)never);
    assert_true(cancelled > never);
    close_it(&f);
}

/* Empty input to every op: done, or the documented error. */
static void empty_input_has_a_documented_answer(void **state)
{
    struct fixture f;
    struct gm_harness_lane lane;
    (void)state;
    open_with(&f, false);
    gm_harness_lane_open(&f.h, &lane, 1, 3, 0);
    for (uint32_t op = 1; op < GM_OP_COUNT; op++) {
        const struct gm_op_row row = gm_op_row(op);
        const struct gm_args args = gm_least_args(&row, GM_DTYPE_f32, 0);
        uint32_t words[GM_DESC_WORDS] = {op};
        gm_args_put(words, &row, &args);
        memset(f.numbers.data, 0, 4096); /* inputs that are not empty when n is 0 */
        for (uint32_t i = 0; i < (uint32_t)row.inputs + row.outputs; i++) {
            words[gm_buffer_word(i)] = i < row.inputs ? f.numbers.handle : f.out.handle;
            gm_desc_put64(words, gm_buffer_word(i) + 1u, i < row.inputs ? 256u * i : 32u * (i - row.inputs));
        }
        memset(f.out.data, 0xee, 64);
        const struct gm_granule done = gm_harness_wait(&lane, gm_harness_submit(&lane, words));
        const bool undefined = op == GM_OP_min || op == GM_OP_max || op == GM_OP_argmin || op == GM_OP_argmax;
        assert_int_equal(gm_completion_status(done), undefined ? GM_EEMPTY : GM_OK);
        assert_int_equal(gm_completion_result(done), op == GM_OP_prod ? UINT64_C(0x3ff0000000000000) : 0); /* 1.0 */
        /* One count is 0, and one segment is empty; what would have n elements stays as it was. */
        const bool counts = row.outputs == 1 && gm_buffer_content(row.buffer[row.inputs]) == GM_CONTENT_U64;
        const bool segment = row.shape == GM_SHAPE_SEGMENTED;
        const float nothing = op == GM_OP_segmented_min ? INFINITY : op == GM_OP_segmented_max ? -INFINITY : 0.0f;
        uint8_t expected[64];
        memset(expected, 0xee, sizeof expected);
        memset(expected, counts ? 0 : 0xee, 8);
        if (segment)
            memcpy(expected, &nothing, sizeof nothing);
        assert_memory_equal(f.out.data, expected, sizeof expected);
    }
    close_it(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_input_has_a_documented_answer),
        cmocka_unit_test(jobs_are_answered_at_every_fill_level),
        cmocka_unit_test(small_rings_and_wrapping_laps_lose_nothing),
        cmocka_unit_test(sorts_go_through_a_small_ticket_ring),
        cmocka_unit_test(cancelled_sort_ends_and_gives_everything_back),
        cmocka_unit_test(cancelled_before_it_starts_never_runs),
        cmocka_unit_test(cancelled_behind_its_ticket_never_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
