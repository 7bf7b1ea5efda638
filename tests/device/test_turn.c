/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns of the dispatcher by hand, with workers that step when told: jobs of one and of many phases, cancellation at
 * every moment, stop, jobs that wait for a resource, the admin lane under load, wakes, and the counters. One thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"

#define ARENA  RIG_ARENA
#define HOST   (2u | 1u << 16)
#define BASE   RIG_BASE
#define BYTES  RIG_BYTES
#define TILE   (UINT64_C(16384) / 4u) /* elements of a sort tile of u32 */
#define WORKERS RIG_WORKERS

static uint64_t submit_sort(struct rig *rig, uint32_t lane, uint64_t n)
{
    uint32_t words[GM_DESC_WORDS];
    rig_words(words, GM_OP_sort, GM_DTYPE_u32, 0, n);
    words[GM_W_SESSION] = lane == 0 ? RIG_SESSION : 0;
    rig_buffer(words, 0, ARENA, 0);
    rig_buffer(words, 1, ARENA, BYTES / 2);
    return rig_submit(rig, lane, words);
}

static void assert_answer(struct rig *rig, uint32_t lane, uint64_t position, int32_t status)
{
    struct gm_granule g;
    assert_true(rig_answer(rig, lane, position, &g));
    assert_int_equal(gm_completion_status(g), status);
    assert_int_equal(gm_completion_result(g), status == GM_OK ? RIG_RESULT : 0);
}
static void assert_no_answer(struct rig *rig, uint32_t lane, uint64_t position)
{
    struct gm_granule g;
    assert_false(rig_answer(rig, lane, position, &g));
}

static void nop_completes(void **state)
{
    struct rig rig;
    struct rig_worker w = {0};
    (void)state;
    rig_open_small(&rig);
    const uint64_t p = rig_submit_nop(&rig, 1);
    uint32_t turns = 0;
    while (!rig_work(&rig, &w)) {
        assert_true(turns++ < 2u * RIG_LANES);
        rig_turn(&rig);
    }
    assert_answer(&rig, 1, p, GM_OK); /* the worker answers; no further turn is needed */
    assert_int_equal(rig.lane[1].journal[p & 15u], gm_lap(p, 4));
    rig_settle(&rig, &w, 1);
    assert_int_equal(rig.d->counters.lane_submitted, 1);
    rig_submit_nop(&rig, 0); /* no client's lane */
    rig_settle(&rig, &w, 1);
    rig_assert_settled(&rig);
    rig_close(&rig);
}

/* Alone and with another; the mark of one on host memory is written before its tickets, of others soon after. */
static void a_started_job_is_marked_wherever_its_memory_is(void **state)
{
    (void)state;
    for (uint32_t variant = 0; variant < 6; variant++) { /* the last two: a job of several shares */
        struct rig rig;
        struct rig_worker w[WORKERS] = {{0}};
        uint32_t words[GM_DESC_WORDS];
        struct gm_drawn slot;
        const uint32_t jobs = variant < 4 ? 1u + (variant >> 1) : 1u;
        rig_open_small(&rig);
        rig_arena_set(&rig, HOST, BASE + BYTES, UINT64_C(1) << 22, RIG_SESSION, GM_ARENA_HOST);
        rig_words(words, GM_OP_sum, GM_DTYPE_u32, 0, variant < 4 ? 16 : UINT64_C(1) << 20);
        rig_buffer(words, 0, variant & 1u ? HOST : ARENA, 0);
        const uint64_t first = rig.lane[1].position;
        for (uint32_t i = 0; i < jobs; i++)
            rig_submit(&rig, 1, words);
        while (!rig_take(&rig, &w[0], &slot))
            rig_turn(&rig);
        for (uint64_t p = first; p < first + jobs; p++)
            assert_int_equal(rig.lane[1].journal[p & 15u], gm_lap(p, 4));
        rig_run(&rig, &slot);
        rig_settle(&rig, w, WORKERS);
        rig_assert_settled(&rig);
        rig_close(&rig);
    }
}

static uint64_t published_in_turns(struct rig *rig)
{
    const uint64_t before = rig->d->published;
    for (uint32_t i = 0; i < 20; i++)
        rig_turn(rig);
    return rig->d->published - before;
}

/* The quick way is for a job that has everything, and of which nothing special is known. */
static void a_lone_job_starts_only_when_nothing_is_to_be_thought_of(void **state)
{
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    uint32_t words[GM_DESC_WORDS];
    (void)state;
    rig_open_small(&rig);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t *const needed = i == 0 ? &rig.d->credit : &rig.d->free_entries, there = *needed;
        *needed = 0;
        rig_submit_nop(&rig, 1);
        assert_int_equal(published_in_turns(&rig), 0);
        *needed = there;
        rig_settle(&rig, w, 1);
    }
    assert_int_equal(rig_cancel(&rig, 1, rig.lane[1].position), GM_OK);
    rig_submit_nop(&rig, 1);
    assert_int_equal(published_in_turns(&rig), 0);
    rig_words(words, GM_OP_sum, GM_DTYPE_u32, GM_FLAG_WIDE, 16); /* no sum is wide, but its second half may come */
    rig_buffer(words, 0, ARENA, 0);
    gm_desc_store(rig.lane[1].sq, 4, rig.lane[1].position, words, 0);
    assert_int_equal(published_in_turns(&rig), 0);
    const uint64_t half = rig_submit(&rig, 1, words);
    rig_settle(&rig, w, 1);
    assert_answer(&rig, 1, half, GM_EINVAL);
    assert_int_equal(w[0].ticket, rig.d->published); /* the next ticket's reader, and it is slow */
    for (uint32_t i = 0; i < 1u << rig.core->tickets_log2; i++) {
        rig_submit_nop(&rig, 1);
        assert_int_equal(published_in_turns(&rig), 1);
        assert_int_equal(rig_work(&rig, &w[1]), i != 0);
    }
    rig_submit_nop(&rig, 1);
    assert_int_equal(published_in_turns(&rig), 0);
    assert_true(rig_work(&rig, &w[0]));
    assert_int_equal(published_in_turns(&rig), 1);
    rig_settle(&rig, w, WORKERS);
    rig_assert_settled(&rig);
    rig_close(&rig);
}

static void phases_go_through_the_inbox_one_after_another(void **state)
{
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    (void)state;
    rig_open_small(&rig);
    const uint64_t p = submit_sort(&rig, 1, 20 * TILE);
    rig_settle(&rig, w, WORKERS);
    assert_answer(&rig, 1, p, GM_OK);
    assert_int_equal(rig.d->counters.phases, 8); /* two for each byte of a u32 */
    assert_int_equal(rig.d->counters.tickets, 8 * WORKERS);
    assert_true(rig.d->counters.workspace_high >= 20 * TILE * 4);
    rig_assert_settled(&rig);
    rig_close(&rig);
}

/* Of a lone job and of several at a time: a granule for each tile, one more, and not a byte of anything else. */
static void what_tiles_say_is_cleared_before_their_tickets(void **state)
{
    const uint64_t tile = gm_op_row(GM_OP_scan_sum).tile_bytes / 4u;
    (void)state;
    for (uint32_t jobs = 1; jobs <= 3; jobs++) {
        struct rig rig;
        struct rig_worker w[WORKERS] = {{0}};
        struct gm_drawn slot;
        uint32_t words[GM_DESC_WORDS];
        rig_open_small(&rig);
        rig.d->core.looks_back = 1;
        memset(rig.core->scratch, 0xa5, (size_t)rig.core->entries_count * GM_ENTRY_SCRATCH);
        for (uint32_t i = 0; i < jobs; i++) {
            rig_words(words, GM_OP_scan_sum, GM_DTYPE_u32, 0, (1u + i) * tile + 1u);
            rig_buffer(words, 0, ARENA, 0);
            rig_buffer(words, 1, ARENA, BYTES / 2);
            rig_submit(&rig, 1, words);
        }
        while (!rig_take(&rig, &w[0], &slot))
            rig_turn(&rig);
        const struct gm_job *job = &gm_entry_at(rig.core, gm_ticket_entry(slot.word))->job;
        const uint8_t *bytes = (const uint8_t *)(uintptr_t)job->workspace;
        assert_true(job->phases == 1 && job->tiles == 2 && job->workspace_bytes == 3u * GM_PARTIAL_BYTES);
        for (uint32_t i = 0; i < GM_ENTRY_SCRATCH; i++)
            assert_int_equal(bytes[i], i < job->workspace_bytes ? 0 : 0xa5);
        rig_run(&rig, &slot);
        rig_settle(&rig, w, WORKERS);
        rig_assert_settled(&rig);
        rig_close(&rig);
    }
}

static void a_shared_phase_ends_with_its_last_share_in_any_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct rig rig;
        struct rig_worker w[WORKERS] = {{0}};
        uint64_t random = seed, positions[6];
        struct gm_drawn slot[WORKERS];
        bool has[WORKERS] = {false};
        rig_open_small(&rig);
        for (uint32_t i = 0; i < 6; i++)
            positions[i] = i % 2u ? submit_sort(&rig, i % 3u ? 1 : 0, (3 + rig_random(&random) % 9u) * TILE)
                                  : rig_submit_nop(&rig, i % 3u ? 1 : 0);
        for (uint32_t step = 0; step < 4000; step++) { /* a worker may sit on its share for long */
            const uint32_t i = (uint32_t)(rig_random(&random) % (WORKERS + 1u));
            if (i == WORKERS)
                rig_turn(&rig);
            else if (has[i])
                has[i] = (rig_run(&rig, &slot[i]), false);
            else
                has[i] = rig_take(&rig, &w[i], &slot[i]);
        }
        for (uint32_t i = 0; i < WORKERS; i++)
            if (has[i])
                rig_run(&rig, &slot[i]);
        rig_settle(&rig, w, WORKERS);
        for (uint32_t i = 0; i < 6; i++)
            assert_answer(&rig, i % 3u ? 1 : 0, positions[i], GM_OK);
        rig_assert_settled(&rig);
        rig_close(&rig);
    }
}

static void a_job_cancelled_before_it_was_polled_never_starts(void **state)
{
    struct rig rig;
    struct rig_worker w = {0};
    (void)state;
    rig_open_small(&rig);
    const uint64_t at = rig.lane[1].position;
    assert_int_equal(rig_cancel(&rig, 1, at + 1), GM_OK); /* not even written yet */
    assert_int_equal(rig_cancel(&rig, 1, at - 1), GM_ENOTFOUND);
    assert_int_equal(rig_cancel(&rig, 1, at + 16), GM_ENOTFOUND); /* beyond what the lane can hold */
    assert_int_equal(rig_cancel(&rig, 3, at), GM_ENOTFOUND);      /* no such lane */
    assert_int_equal(rig_cancel(&rig, 9999, at), GM_ENOTFOUND);
    const uint64_t a = rig_submit_nop(&rig, 1), b = rig_submit_nop(&rig, 1), c = rig_submit_nop(&rig, 1);
    rig_settle(&rig, &w, 1);
    assert_answer(&rig, 1, a, GM_OK);
    assert_answer(&rig, 1, b, GM_ECANCELLED);
    assert_answer(&rig, 1, c, GM_OK);
    assert_int_equal(rig.d->counters.refused, 1);
    rig_assert_settled(&rig);
    rig_close(&rig);
}

static void a_job_cancelled_in_flight_ends_with_its_phase(void **state)
{
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    struct gm_drawn slot;
    (void)state;
    rig_open_small(&rig);
    const uint64_t p = submit_sort(&rig, 1, 20 * TILE);
    while (!rig_take(&rig, &w[0], &slot))
        rig_turn(&rig);
    assert_int_equal(rig_cancel(&rig, 1, p), GM_OK);
    assert_no_answer(&rig, 1, p); /* its shares are out: they arrive first */
    rig_run(&rig, &slot);
    rig_settle(&rig, w, WORKERS);
    assert_answer(&rig, 1, p, GM_ECANCELLED);
    assert_int_equal(rig.d->counters.phases, 1);
    rig_assert_settled(&rig);
    rig_close(&rig);
}

/* Two lanes at the same position. */
static void a_cancel_is_for_one_lane(void **state)
{
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    struct gm_drawn slot;
    (void)state;
    rig_open_small(&rig);
    const uint64_t start = rig.lane[1].position;
    rig_lane_open(&rig, 2, 4, start);
    assert_int_equal(rig_cancel(&rig, 2, start + 1u), GM_OK); /* not even written yet */
    submit_sort(&rig, 1, 20 * TILE);
    while (!rig_take(&rig, &w[0], &slot))
        rig_turn(&rig);
    assert_int_equal(rig_cancel(&rig, 2, start), GM_OK); /* of the other one the job is in flight */
    rig_submit_nop(&rig, 1);
    for (uint32_t i = 0; i < 3; i++)
        rig_submit_nop(&rig, 2);
    rig_run(&rig, &slot);
    rig_settle(&rig, w, WORKERS);
    assert_answer(&rig, 1, start, GM_OK);
    assert_answer(&rig, 1, start + 1u, GM_OK);
    assert_answer(&rig, 2, start, GM_ECANCELLED);
    assert_answer(&rig, 2, start + 1u, GM_ECANCELLED);
    assert_answer(&rig, 2, start + 2u, GM_OK);
    rig_assert_settled(&rig);
    rig_close(&rig);
}

static void cancelling_an_answered_job_finds_nothing(void **state)
{
    struct rig rig;
    struct rig_worker w = {0};
    (void)state;
    rig_open_small(&rig);
    const uint64_t p = rig_submit_nop(&rig, 1);
    rig_settle(&rig, &w, 1);
    assert_int_equal(rig_cancel(&rig, 1, p), GM_ENOTFOUND);
    /* The job that gets the same entry and the same slot afterwards is not hit by it. */
    for (uint32_t i = 0; i < 20; i++) {
        const uint64_t next = rig_submit_nop(&rig, 1);
        rig_settle(&rig, &w, 1);
        assert_answer(&rig, 1, next, GM_OK);
    }
    rig_assert_settled(&rig);
    rig_close(&rig);
}

static void cancels_in_waiting_are_bounded(void **state)
{
    struct rig rig;
    struct rig_worker w = {0};
    (void)state;
    const struct gm_core_shape shape = {.tickets_log2 = 8, .entries_log2 = 7, .workers = WORKERS, .host_shares = 1,
                                        .idle_ns = UINT64_MAX, .workspace_bytes = 1u << 20};
    rig_open(&rig, &shape);
    rig_lane_open(&rig, 1, 8, 0);
    for (uint32_t i = 0; i < GM_CANCELS_MAX; i++)
        assert_int_equal(rig_cancel(&rig, 1, i * 2u), GM_OK);
    assert_int_equal(rig_cancel(&rig, 1, 1), GM_EBUSY);
    for (uint32_t i = 0; i < 2u * GM_CANCELS_MAX; i++)
        rig_submit_nop(&rig, 1);
    rig_settle(&rig, &w, 1);
    for (uint32_t i = 0; i < 2u * GM_CANCELS_MAX; i++)
        assert_answer(&rig, 1, i, i % 2u ? GM_OK : GM_ECANCELLED);
    rig_assert_settled(&rig);
    rig_close(&rig);
}

static void stop_tickets_come_behind_everything_and_state_survives(void **state)
{
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    (void)state;
    rig_open_small(&rig);
    for (uint32_t round = 0; round < 10; round++) { /* each a pause and a relaunch, through the wrap of the lap */
        const uint64_t p = submit_sort(&rig, 1, 20 * TILE);
        while (rig.d->counters.started == round)
            rig_turn(&rig);
        assert_int_equal(rig_admin(&rig, GM_ADMIN_STOP, 0, NULL, NULL), GM_OK);
        for (uint32_t i = 0; i < WORKERS; i++) {
            while (!w[i].stopped)
                if (!rig_work(&rig, &w[i]))
                    assert_int_not_equal(rig_turn(&rig), GM_TURN_PARK);
        }
        assert_int_equal(rig.shared->ticket, rig.d->published); /* every worker left with its own stop ticket */
        assert_no_answer(&rig, 1, p);                           /* only its first phase was out */
        for (uint32_t i = 0; i < WORKERS; i++)
            w[i] = (struct rig_worker){0};
        rig_wake(&rig); /* the launch after the pause */
        for (uint32_t turn = 0; turn < 1000; turn++) {
            rig_turn(&rig);
            for (uint32_t i = 0; i < WORKERS; i++)
                rig_work(&rig, &w[i]);
        }
        assert_answer(&rig, 1, p, GM_OK);
    }
    rig_close(&rig);
}

static void a_job_that_waits_for_workspace_goes_first(void **state)
{
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    struct gm_drawn slot;
    (void)state;
    rig_open_small(&rig);
    const uint64_t a = submit_sort(&rig, 1, 40 * TILE); /* 640 KiB of keys: the pool holds one */
    while (!rig_take(&rig, &w[0], &slot))
        rig_turn(&rig);
    const uint64_t b = submit_sort(&rig, 1, 40 * TILE), c = rig_submit_nop(&rig, 1);
    for (uint32_t i = 0; i < 20; i++)
        rig_turn(&rig);
    assert_int_equal(rig.d->held_lane, 1 + 1); /* and nobody else takes what it waits for */
    assert_true(rig.d->counters.held > 0);
    const uint64_t other = submit_sort(&rig, 0, 20 * TILE);
    for (uint32_t i = 0; i < 20; i++)
        rig_turn(&rig);
    assert_int_equal(rig.d->counters.started, 1);
    assert_no_answer(&rig, 1, c); /* a lane is served in order */
    rig_run(&rig, &slot);
    rig_settle(&rig, w, WORKERS);
    assert_answer(&rig, 1, a, GM_OK);
    assert_answer(&rig, 1, b, GM_OK);
    assert_answer(&rig, 1, c, GM_OK);
    assert_answer(&rig, 0, other, GM_OK);
    rig_assert_settled(&rig);
    rig_close(&rig);
}

static void wide_jobs_are_not_starved_by_narrow_ones(void **state)
{
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    (void)state;
    rig_open_small(&rig);
    uint64_t nops = 0, wide = UINT64_MAX;
    struct gm_granule g;
    for (uint32_t step = 0; step < 2000; step++) {
        for (; rig.lane[0].position - rig.d->lane[0].completed < 16; nops++) /* lane 0 is always full of narrow jobs */
            rig_submit_nop(&rig, 0);
        if (step == 10)
            wide = submit_sort(&rig, 1, 20 * TILE);
        rig_turn(&rig);
        rig_work(&rig, &w[step % WORKERS]);
    }
    assert_true(rig_answer(&rig, 1, wide, &g));
    assert_true(nops > 100);
    rig_settle(&rig, w, WORKERS);
    rig_assert_settled(&rig);
    rig_close(&rig);
}

static void admin_lane_is_served_while_lanes_are_full_and_nobody_works(void **state)
{
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    uint64_t turns_before = 0;
    (void)state;
    rig_open_small(&rig);
    for (uint32_t i = 0; i < 16; i++) {
        submit_sort(&rig, 0, 40 * TILE);
        submit_sort(&rig, 1, 40 * TILE);
    }
    for (uint32_t i = 0; i < 200; i++) { /* more than the admin ring has slots; rig_admin allows one turn each */
        uint64_t turns;
        assert_int_equal(rig_admin(&rig, GM_ADMIN_PING, 0, NULL, &turns), GM_OK);
        assert_true(turns >= turns_before);
        turns_before = turns;
    }
    rig_settle(&rig, w, WORKERS);
    assert_int_equal(rig.answered, 32);
    rig_assert_settled(&rig);
    rig_close(&rig);
}

static void admin_refuses_what_it_cannot_do(void **state)
{
    struct rig rig;
    struct rig_worker w = {0};
    uint32_t words[GM_DESC_WORDS] = {0};
    (void)state;
    rig_open_small(&rig);
    assert_int_equal(rig_admin(&rig, 0x1ff, 0, NULL, NULL), GM_EOP);
    words[GM_A_FLAGS] = 4;
    gm_desc_put64(words, GM_A_ADDRESS, (uint64_t)(uintptr_t)rig.lane[1].memory);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_LANE_OPEN, 1, words, NULL), GM_EINVAL); /* is open */
    assert_int_equal(rig_admin(&rig, GM_ADMIN_LANE_OPEN, GM_LANE_TABLE, words, NULL), GM_EINVAL);
    words[GM_A_FLAGS] = 0;
    assert_int_equal(rig_admin(&rig, GM_ADMIN_LANE_OPEN, 2, words, NULL), GM_EINVAL); /* one slot is no ring */
    words[GM_A_FLAGS] = 13;
    assert_int_equal(rig_admin(&rig, GM_ADMIN_LANE_OPEN, 2, words, NULL), GM_EINVAL);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_LANE_CLOSE, 2, NULL, NULL), GM_EINVAL);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_ARENA_SET, ARENA, NULL, NULL), GM_EINVAL); /* is set */
    assert_int_equal(rig_admin(&rig, GM_ADMIN_ARENA_SET, 3, NULL, NULL), GM_EINVAL);     /* generation 0 */
    assert_int_equal(rig_admin(&rig, GM_ADMIN_ARENA_SET, GM_ARENAS_MAX | 1u << 16, NULL, NULL), GM_EINVAL);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_ARENA_CLEAR, 1u | 2u << 16, NULL, NULL), GM_ESTALE);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_ARENA_CLEAR, ARENA, NULL, NULL), GM_OK);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_ARENA_CLEAR, ARENA, NULL, NULL), GM_EINVAL);
    const uint64_t p = submit_sort(&rig, 1, 1);
    rig_settle(&rig, &w, 1);
    assert_answer(&rig, 1, p, GM_EARENA);
    rig_close(&rig);
}

static void a_lane_closes_when_its_jobs_are_answered(void **state)
{
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    struct gm_drawn slot;
    (void)state;
    rig_open_small(&rig);
    submit_sort(&rig, 1, 20 * TILE);
    while (!rig_take(&rig, &w[0], &slot))
        rig_turn(&rig);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_LANE_CLOSE, 1, NULL, NULL), GM_EBUSY);
    rig_run(&rig, &slot);
    rig_settle(&rig, w, WORKERS);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_LANE_CLOSE, 1, NULL, NULL), GM_OK);
    assert_int_equal(rig.d->lane_top, 1);
    rig_submit_nop(&rig, 1);
    rig_settle(&rig, w, WORKERS);
    assert_int_equal(rig.d->counters.started, 1); /* nobody looks there any more */
    rig_close(&rig);
}

static void a_sleeping_client_is_woken_once_for_each_sleep(void **state)
{
    struct rig rig;
    struct rig_worker w = {0};
    uint32_t wakes = 0;
    (void)state;
    rig_open_small(&rig);
    for (uint64_t reaped = 0; reaped < 5; reaped++) {
        const struct gm_granule wait = {{(uint32_t)reaped, 0, 1, 0}};
        rig_submit_nop(&rig, 0);
        if (reaped % 2u)
            rig_settle(&rig, &w, 1); /* armed after the completion, or before it */
        gm_store16_sys(&rig.lane[0].header->wait, wait);
        for (uint32_t turn = 0; turn < 40; turn++) {
            rig_turn(&rig);
            wakes += rig.d->wake;
            rig.d->wake = 0; /* as a backend does when it has woken the client */
            rig_work(&rig, &w);
        }
        assert_int_equal(wakes, reaped + 1u);
    }
    assert_int_equal(rig.d->counters.wakes, 5);
    rig_close(&rig);
}

static void an_idle_device_parks_and_one_with_work_does_not(void **state)
{
    struct rig rig;
    struct rig_worker w = {0};
    struct gm_drawn slot;
    (void)state;
    const struct gm_core_shape shape = {.tickets_log2 = 3, .entries_log2 = 2, .workers = 1, .host_shares = 1,
                                        .idle_ns = 0, .workspace_bytes = 1u << 20};
    rig_open_shape(&rig, &shape);
    assert_int_equal(rig_turn(&rig), GM_TURN_PARK);
    rig_wake(&rig);
    rig_submit_nop(&rig, 1);
    while (!rig_take(&rig, &w, &slot))
        assert_int_not_equal(rig_turn(&rig), GM_TURN_PARK);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(rig_turn(&rig), GM_TURN_EMPTY); /* the job is in flight: its end needs a turn */
    rig.d->core.park_in_flight = 1; /* unless the push of its end wakes the dispatcher */
    assert_int_equal(rig_turn(&rig), GM_TURN_PARK);
    rig_run(&rig, &slot);
    rig_wake(&rig);
    assert_int_equal(rig_turn(&rig), GM_TURN_PARK); /* the back has counted it, and nothing is left */
    rig_assert_settled(&rig);
    rig_close(&rig);
}

static void counters_go_out_and_add_up(void **state)
{
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    uint32_t words[GM_DESC_WORDS];
    (void)state;
    rig_open_small(&rig);
    for (uint32_t i = 0; i < 200; i++) {
        rig_words(words, i % 5u == 0 ? 999u : GM_OP_nop, 0, 0, 0);
        rig_submit(&rig, i & 1u, words);
        if (i % 16u == 0 || i % 16u == 9)
            submit_sort(&rig, i & 1u, 8 * TILE);
        rig_settle(&rig, w, WORKERS);
    }
    rig_assert_settled(&rig);
    assert_int_equal(rig.d->counters.refused, 40);
    assert_int_equal(rig.d->counters.started, 160 + 25);
    assert_true(rig.d->counters.entries_high >= 1 && rig.d->counters.entries_high <= rig.core->entries_count);
    gm_counters_store(rig.d);
    assert_memory_equal(&rig.counters, &rig.d->counters, sizeof rig.counters);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nop_completes),
        cmocka_unit_test(a_started_job_is_marked_wherever_its_memory_is),
        cmocka_unit_test(a_lone_job_starts_only_when_nothing_is_to_be_thought_of),
        cmocka_unit_test(phases_go_through_the_inbox_one_after_another),
        cmocka_unit_test(what_tiles_say_is_cleared_before_their_tickets),
        cmocka_unit_test(a_shared_phase_ends_with_its_last_share_in_any_order),
        cmocka_unit_test(a_job_cancelled_before_it_was_polled_never_starts),
        cmocka_unit_test(a_job_cancelled_in_flight_ends_with_its_phase),
        cmocka_unit_test(a_cancel_is_for_one_lane),
        cmocka_unit_test(cancelling_an_answered_job_finds_nothing),
        cmocka_unit_test(cancels_in_waiting_are_bounded),
        cmocka_unit_test(stop_tickets_come_behind_everything_and_state_survives),
        cmocka_unit_test(a_job_that_waits_for_workspace_goes_first),
        cmocka_unit_test(wide_jobs_are_not_starved_by_narrow_ones),
        cmocka_unit_test(admin_lane_is_served_while_lanes_are_full_and_nobody_works),
        cmocka_unit_test(admin_refuses_what_it_cannot_do),
        cmocka_unit_test(a_lane_closes_when_its_jobs_are_answered),
        cmocka_unit_test(a_sleeping_client_is_woken_once_for_each_sleep),
        cmocka_unit_test(an_idle_device_parks_and_one_with_work_does_not),
        cmocka_unit_test(counters_go_out_and_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
