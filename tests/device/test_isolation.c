/* SPDX-License-Identifier: Apache-2.0
 *
 * A client that changes its buffers while its jobs read and write them hurts nobody but itself: a second thread flips
 * words of input and output during sort and histogram, through every phase. Outputs end on a page that faults and lie
 * behind a canary; the workspace was left full of another client's data that must not show through.
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

/* On the CPU keys and counts fill whole pages of workspace, so that the next job's begins right behind. */
#define ELEMENTS 300032u
#define CANARY   0x5ec2e75au
#define BINS     65536u /* so many have one row for all shares */

struct flipper {
    pthread_t thread;
    uint32_t *words;
    uint64_t count;
    uint32_t mask; /* of the words it writes */
    uint32_t stop;
};

static void *flip(void *arg)
{
    struct flipper *f = arg;
    uint64_t state = 12345;
    while (gm_load_relaxed_u32(&f->stop) == 0)
        for (uint32_t i = 0; i < 64; i++) {
            const uint64_t r = gm_random(&state);
            gm_store_relaxed_u32(&f->words[r % f->count], (uint32_t)(r >> 32) & f->mask);
        }
    return NULL;
}

static void flipper_start(struct flipper *f, uint32_t *words, uint64_t count, uint32_t mask)
{
    *f = (struct flipper){.words = words, .count = count, .mask = mask};
    assert_int_equal(pthread_create(&f->thread, NULL, flip, f), 0);
}

static void flipper_stop(struct flipper *f)
{
    gm_store_relaxed_u32(&f->stop, 1);
    pthread_join(f->thread, NULL);
}

struct fixture {
    struct gm_harness h;
    struct gm_harness_lane lane;
    struct gm_harness_arena in, out, other_in, other_out;
    uint32_t *canary, *in_words, *out_words;
    uint64_t in_offset, out_offset;
};

/* Outputs reach up to the last byte before the guard page. */
static void place(struct fixture *f, uint64_t out_bytes)
{
    f->in_offset = f->in.bytes - ELEMENTS * 4u;
    f->out_offset = f->out.bytes - out_bytes;
    f->in_words = (uint32_t *)(void *)(f->in.data + f->in_offset);
    f->out_words = (uint32_t *)(void *)(f->out.data + f->out_offset);
    f->canary = f->out_words - 1024;
    for (uint32_t i = 0; i < 1024; i++)
        f->canary[i] = CANARY;
}

static void canary_is_whole(const struct fixture *f)
{
    for (uint32_t i = 0; i < 1024; i++)
        assert_int_equal(f->canary[i], CANARY);
}

static int open_all(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    const struct gm_device_config config = {.idle_ns = UINT64_C(2000000000)};
    if (!f)
        return -1;
    gm_harness_open(&f->h, &config);
    gm_harness_lane_open(&f->h, &f->lane, 1, 4, 0);
    gm_harness_arena_open(&f->h, &f->in, ELEMENTS * 4u, false);
    gm_harness_arena_open(&f->h, &f->out, BINS * 8u + ELEMENTS * 4u, false);
    gm_harness_arena_open(&f->h, &f->other_in, ELEMENTS * 4u, false);
    gm_harness_arena_open(&f->h, &f->other_out, ELEMENTS * 4u, false);
    *state = f;
    return 0;
}

static int close_all(void **state)
{
    struct fixture *f = *state;
    gm_harness_idle(&f->h);
    gm_harness_close(&f->h);
    free(f);
    return 0;
}

static uint64_t submit(struct fixture *f, uint32_t op, uint32_t dtype, uint32_t flags, uint32_t bins, double lo,
                             double hi)
{
    uint32_t words[GM_DESC_WORDS] = {op | dtype << 16 | flags << 24};
    words[GM_W_ARENA0] = f->in.handle;
    gm_desc_put64(words, GM_W_OFFSET0, f->in_offset);
    gm_desc_put64(words, GM_W_N, ELEMENTS * 4u / gm_dtype_bytes(dtype));
    words[GM_W_ARENA1] = f->out.handle;
    gm_desc_put64(words, GM_W_OFFSET1, f->out_offset);
    words[GM_W_COUNT] = bins;
    if (flags & GM_FLAG_WIDE) {
        uint64_t bits;
        words[GM_W_WIDE] = GM_DESC_WIDE_MARK;
        memcpy(&bits, &lo, sizeof bits);
        gm_desc_put64(words, GM_W_VALUE0, bits);
        memcpy(&bits, &hi, sizeof bits);
        gm_desc_put64(words, GM_W_VALUE1, bits);
    }
    return gm_harness_submit(&f->lane, words);
}

static struct gm_granule run(struct fixture *f, uint32_t op, uint32_t dtype, uint32_t flags, uint32_t bins, double lo,
                             double hi)
{
    return gm_harness_wait(&f->lane, submit(f, op, dtype, flags, bins, lo, hi));
}

static uint64_t submit_other(struct fixture *f)
{
    uint32_t words[GM_DESC_WORDS] = {GM_OP_sort | GM_DTYPE_u32 << 16};
    words[GM_W_ARENA0] = f->other_in.handle;
    gm_desc_put64(words, GM_W_N, ELEMENTS);
    words[GM_W_ARENA1] = f->other_out.handle;
    return gm_harness_submit(&f->lane, words);
}

/* Another client's keys, all ones, stay behind in the workspace. */
static void leave_ones_in_the_workspace(struct fixture *f)
{
    place(f, ELEMENTS * 4u);
    memset(f->in_words, 0xff, ELEMENTS * 4u);
    assert_int_equal(gm_completion_status(run(f, GM_OP_sort, GM_DTYPE_u32, 0, 0, 0, 0)), GM_OK);
    assert_int_equal(f->out_words[ELEMENTS - 1u], UINT32_MAX);
}

static void sort_of_flipping_input_shows_nobody_elses_keys(void **state)
{
    struct fixture *f = *state;
    struct flipper flipper;
    uint64_t random = 99;
    leave_ones_in_the_workspace(f);
    for (uint32_t i = 0; i < ELEMENTS; i++)
        f->in_words[i] = (uint32_t)gm_random(&random) >> 1;
    flipper_start(&flipper, f->in_words, ELEMENTS, 0x7fffffffu);
    for (uint32_t round = 0; round < gm_rounds(30); round++) {
        memset(f->out_words, 0x22, ELEMENTS * 4u);
        assert_int_equal(gm_completion_status(run(f, GM_OP_sort, GM_DTYPE_u32, 0, 0, 0, 0)), GM_OK);
        for (uint32_t i = 0; i < ELEMENTS; i++)
            if (f->out_words[i] == UINT32_MAX)
                fail_msg("round %u: a key of an earlier job at %u", round, i);
        canary_is_whole(f);
    }
    flipper_stop(&flipper);
}

static void sort_of_flipping_output_stays_inside(void **state)
{
    static const uint32_t dtypes[] = {GM_DTYPE_f32, GM_DTYPE_i32};
    struct fixture *f = *state;
    struct flipper in, out;
    place(f, ELEMENTS * 4u);
    flipper_start(&in, f->in_words, ELEMENTS, UINT32_MAX);
    flipper_start(&out, f->out_words, ELEMENTS, UINT32_MAX);
    for (uint32_t round = 0; round < gm_rounds(30); round++) {
        const uint32_t flags = round & 2u ? GM_FLAG_DESCENDING : 0;
        assert_int_equal(gm_completion_status(run(f, GM_OP_sort, dtypes[round & 1u], flags, 0, 0, 0)), GM_OK);
        canary_is_whole(f);
    }
    flipper_stop(&in);
    flipper_stop(&out);
}

/* Keys that turn up where none were counted would be stored behind the job's workspace, where the next job's counts
 * are. */
static void sort_of_flipping_input_leaves_its_neighbour_alone(void **state)
{
    struct fixture *f = *state;
    struct flipper in, out;
    uint32_t *other = (uint32_t *)(void *)f->other_in.data;
    const uint32_t *sorted = (const uint32_t *)(const void *)f->other_out.data;
    place(f, ELEMENTS * 4u);
    for (uint32_t i = 0; i < ELEMENTS; i++)
        other[i] = ELEMENTS - i;
    flipper_start(&in, f->in_words + ELEMENTS - 1000u, 1000, UINT32_MAX);
    flipper_start(&out, f->out_words + ELEMENTS - 1000u, 1000, UINT32_MAX);
    for (uint32_t round = 0; round < gm_rounds(30); round++) {
        const uint64_t mine = submit(f, GM_OP_sort, GM_DTYPE_u32, 0, 0, 0, 0), others = submit_other(f);
        assert_int_equal(gm_completion_status(gm_harness_wait(&f->lane, mine)), GM_OK);
        assert_int_equal(gm_completion_status(gm_harness_wait(&f->lane, others)), GM_OK);
        for (uint32_t i = 0; i < ELEMENTS; i++)
            if (sorted[i] != i + 1u)
                fail_msg("round %u: %u at %u of another job", round, sorted[i], i);
        gm_harness_idle(&f->h); /* the pool is one piece again */
    }
    flipper_stop(&in);
    flipper_stop(&out);
}

static void histogram_of_flipping_input_counts_what_it_read(void **state)
{
    struct fixture *f = *state;
    struct flipper in;
    static const uint32_t bins[] = {1, 7, 256, 4096, BINS};
    flipper_start(&in, (uint32_t *)(void *)(f->in.data + f->in.bytes - ELEMENTS * 4u), ELEMENTS, UINT32_MAX);
    for (uint32_t round = 0; round < gm_rounds(30); round++) {
        const uint32_t b = bins[round % 5u];
        place(f, b * 8u);
        const struct gm_granule done =
            run(f, GM_OP_histogram, round & 1u ? GM_DTYPE_f32 : GM_DTYPE_u32, GM_FLAG_WIDE, b, 0, 4294967295.0);
        const uint64_t *counts = (const uint64_t *)(const void *)f->out_words;
        uint64_t sum = 0;
        assert_int_equal(gm_completion_status(done), GM_OK);
        for (uint32_t i = 0; i < b; i++)
            sum += counts[i];
        assert_int_equal(gm_completion_result(done), sum);
        if (!(round & 1u))
            assert_int_equal(sum, ELEMENTS);
        canary_is_whole(f);
    }
    flipper_stop(&in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sort_of_flipping_input_shows_nobody_elses_keys),
        cmocka_unit_test(sort_of_flipping_output_stays_inside),
        cmocka_unit_test(sort_of_flipping_input_leaves_its_neighbour_alone),
        cmocka_unit_test(histogram_of_flipping_input_counts_what_it_read),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
