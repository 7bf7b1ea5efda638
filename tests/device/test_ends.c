/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of jobs, by hand: the back counts them and frees what they held, and the front takes that when it is short.
 * One thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"

#define ARENA   RIG_ARENA
#define WORKERS RIG_WORKERS
#define MOST    200000u /* elements of a sort that takes most of the workspace pool */

static uint64_t submit_sort(struct rig *rig, uint32_t lane, uint64_t n)
{
    uint32_t words[GM_DESC_WORDS];
    rig_words(words, GM_OP_sort, GM_DTYPE_u32, 0, n);
    rig_buffer(words, 0, ARENA, 0);
    rig_buffer(words, 1, ARENA, RIG_BYTES / 2);
    return rig_submit(rig, lane, words);
}

static uint64_t submit_sum(struct rig *rig, uint32_t lane, uint64_t n)
{
    uint32_t words[GM_DESC_WORDS];
    rig_words(words, GM_OP_sum, GM_DTYPE_u32, 0, n);
    rig_buffer(words, 0, ARENA, 0);
    return rig_submit(rig, lane, words);
}

/* Works until the job is answered, turning only while no ticket is there. */
static void work_until_answered(struct rig *rig, struct rig_worker *w, uint64_t position)
{
    struct gm_granule g;
    for (uint32_t i = 0; !rig_answer(rig, 1, position, &g); i++) {
        assert_true(i < 1000);
        bool worked = false;
        for (uint32_t k = 0; k < WORKERS; k++)
            worked = rig_work(rig, &w[k]) || worked;
        if (!worked)
            rig_turn(rig);
    }
}

/* The back counts it and frees its entry; the front learns of it when it needs one. */
static void the_end_of_a_wide_job_does_not_call_for_the_front(void **state)
{
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    (void)state;
    rig_open_small(&rig);
    work_until_answered(&rig, w, submit_sum(&rig, 1, UINT64_C(1) << 20));
    const uint32_t free_before = rig.d->free_entries, collected = rig.d->collected;
    assert_int_equal(rig.d->counters.completed, 0);
    assert_true(gm_back_inbox(rig.core, rig.d));
    assert_int_equal(rig.d->crew.attention, 0);
    assert_int_equal(rig.d->crew.freed, collected + 1u);
    assert_int_equal(rig.d->counters.completed, 1);
    assert_int_equal(rig.d->lane[1].completed, 1);
    assert_int_equal(rig.d->free_entries, free_before);
    gm_back_collect(rig.d);
    assert_int_equal(rig.d->free_entries, free_before + 1u);
    assert_int_equal(rig.d->credit, (1u << rig.core->tickets_log2) - WORKERS);
    rig_settle(&rig, w, WORKERS);
    rig_assert_settled(&rig);
    rig_close(&rig);
}

/* Ring credit, and then the workspace pool, suffice for one of two jobs: the second begins in the turn in which the end
 * of the first is taken from the inbox. */
static void what_jobs_gave_back_is_there_for_the_next_one_at_once(void **state)
{
    (void)state;
    for (uint32_t variant = 0; variant < 2; variant++) {
        const struct gm_core_shape wide = {.tickets_log2 = 4, .entries_log2 = 2, .workers = WORKERS,
                                           .host_shares = WORKERS, .idle_ns = UINT64_MAX,
                                           .workspace_bytes = 1u << 20};
        struct rig rig;
        struct rig_worker w[WORKERS] = {{0}};
        if (variant == 0)
            rig_open_small(&rig);
        else
            rig_open_shape(&rig, &wide);
        for (uint32_t i = 0; i < 2; i++)
            (void)(variant == 0 ? submit_sum(&rig, 1, UINT64_C(1) << 20) : submit_sort(&rig, 1, MOST));
        work_until_answered(&rig, w, rig.lane[1].position - 2u);
        assert_int_equal(rig.d->counters.started, 1);
        for (uint32_t i = 0; rig.d->counters.completed == 0; i++) {
            assert_true(i < 20);
            rig_turn(&rig);
        }
        assert_int_equal(rig.d->counters.started, 2);
        rig_settle(&rig, w, WORKERS);
        rig_assert_settled(&rig);
        rig_close(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_a_wide_job_does_not_call_for_the_front),
        cmocka_unit_test(what_jobs_gave_back_is_there_for_the_next_one_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
