/* SPDX-License-Identifier: Apache-2.0
 *
 * Many lanes at one dispatcher, by hand: everything that comes is found within a bounded number of turns, nobody is
 * starved by lanes that are full, half written or hostile, sleepers are woken in every lane, and a lane that sends
 * nothing but what is refused is shut. One thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"

#define WORKERS 3u
#define LOG2    4u
#define SLOTS   (1u << LOG2)
#define START   (UINT64_C(0xfffffffe) << LOG2) /* of every lane: the lap wraps soon */
#define ARENA   (1u | 1u << 16)
#define BASE    UINT64_C(0x7f0000000000)
#define TILE    (UINT64_C(16384) / 4u)
/* Turns in which the sweep has been everywhere, and the lane that it found was served. */
#define FOUND   (RIG_LANES / GM_SWEEP_LANES + 1u + 2u)

static void open_lanes(struct rig *rig, uint32_t lanes)
{
    const struct gm_core_shape shape = {.tickets_log2 = 9,
                                        .entries_log2 = 8,
                                        .workers = WORKERS,
                                        .host_shares = WORKERS,
                                        .ticket_start = UINT64_C(0xfffffffd) << 9,
                                        .inbox_start = UINT64_C(0xfffffffd) << 8,
                                        .idle_ns = UINT64_MAX,
                                        .workspace_bytes = 1u << 20};
    rig_open(rig, &shape);
    rig_arena_set(rig, ARENA, BASE, UINT64_C(1) << 40, RIG_SESSION, 0);
    for (uint32_t i = 0; i < lanes; i++)
        rig_lane_open(rig, i, LOG2, START);
}

static bool answered(const struct rig *rig, uint32_t lane, uint64_t position)
{
    struct gm_granule g;
    return rig_answer(rig, lane, position, &g);
}
static int32_t status_of(const struct rig *rig, uint32_t lane, uint64_t position)
{
    struct gm_granule g;
    assert_true(rig_answer(rig, lane, position, &g));
    return gm_completion_status(g);
}

static uint64_t submit_sort(struct rig *rig, uint32_t lane, uint64_t n)
{
    uint32_t words[GM_DESC_WORDS];
    rig_words(words, GM_OP_sort, GM_DTYPE_u32, 0, n);
    rig_buffer(words, 0, ARENA, 0);
    rig_buffer(words, 1, ARENA, UINT64_C(1) << 39);
    return rig_submit(rig, lane, words);
}

static void work_all(struct rig *rig, struct rig_worker *w)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        while (rig_work(rig, &w[i])) {
        }
}

static void a_job_in_any_lane_is_found_within_one_sweep(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    open_lanes(&rig, RIG_LANES);
    for (uint32_t round = 0; round < 3u * RIG_LANES; round++) {
        const uint32_t lane = round * 7u % RIG_LANES;
        const uint64_t position = rig_submit_nop(&rig, lane);
        uint32_t turns = 0;
        do {
            assert_true(turns++ < FOUND);
            rig_turn(&rig);
            work_all(&rig, w);
        } while (!answered(&rig, lane, position));
    }
    assert_int_equal(rig.d->counters.started, 3u * RIG_LANES);
    rig_close(&rig);
}

static void a_hot_lane_is_served_every_turn(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    open_lanes(&rig, RIG_LANES);
    rig_submit_nop(&rig, 23);
    rig_settle(&rig, w, WORKERS);
    for (uint32_t round = 0; round < 100; round++) { /* beside 39 idle lanes: what was loaded before, then the job */
        const uint64_t position = rig_submit_nop(&rig, 23);
        rig_turn(&rig);
        rig_turn(&rig);
        work_all(&rig, w);
        assert_true(answered(&rig, 23, position));
    }
    rig_close(&rig);
}

static void full_lanes_take_turns_and_do_not_starve_a_quiet_one(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    uint64_t longest = 0;
    open_lanes(&rig, RIG_LANES);
    for (uint32_t round = 0; round < 50; round++) {
        const uint64_t position = rig_submit_nop(&rig, 39);
        uint64_t turns = 0;
        for (; !answered(&rig, 39, position); turns++) {
            assert_true(turns < 10000);
            for (uint32_t lane = 0; lane < 38; lane++)
                while (rig.lane[lane].position - START - rig.d->lane[lane].completed < SLOTS)
                    rig_submit_nop(&rig, lane);
            rig_turn(&rig);
            work_all(&rig, w);
        }
        longest = turns > longest ? turns : longest;
    }
    assert_true(longest <= 3u * RIG_LANES); /* one turn for each of the others, and the sweep */
    uint64_t least = UINT64_MAX, most = 0;
    for (uint32_t lane = 0; lane < 38; lane++) {
        least = rig.d->lane[lane].completed < least ? rig.d->lane[lane].completed : least;
        most = rig.d->lane[lane].completed > most ? rig.d->lane[lane].completed : most;
    }
    assert_true(least > 0 && most - least <= most / 4u + 2u * SLOTS); /* equal shares */
    rig_close(&rig);
}

static void half_written_descriptors_cost_the_others_little(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    uint32_t words[GM_DESC_WORDS];
    open_lanes(&rig, RIG_LANES);
    for (uint32_t lane = 0; lane < RIG_LANES - 1u; lane++) { /* 39 clients of which one has died in each way */
        rig_words(words, GM_OP_fill, GM_DTYPE_u32, GM_FLAG_WIDE, 16);
        rig_buffer(words, 0, ARENA, 0);
        gm_desc_store(rig.lane[lane].sq, LOG2, rig.lane[lane].position, words, 0);
        if (lane % 2u)
            rig.lane[lane].sq[rig.lane[lane].position & (SLOTS - 1u)].g[3].w[3] = 0;
    }
    for (uint32_t turn = 0; turn < 2000; turn++)
        rig_turn(&rig);
    uint64_t turns = 0;
    for (uint32_t round = 0; round < 1000; round++) {
        const uint64_t position = rig_submit_nop(&rig, RIG_LANES - 1u);
        for (; !answered(&rig, RIG_LANES - 1u, position); turns++) {
            rig_turn(&rig);
            work_all(&rig, w);
        }
    }
    assert_true(turns < 1000u * 4u); /* on the average; the lanes of the dead are looked at in few turns only */
    assert_int_equal(rig.d->counters.refused, 0);
    /* One of them was only slow. */
    rig_words(words, GM_OP_fill, GM_DTYPE_u32, GM_FLAG_WIDE, 16);
    rig_buffer(words, 0, ARENA, 0);
    const uint64_t slow = rig_submit(&rig, 4, words);
    rig_settle(&rig, w, WORKERS);
    assert_int_equal(status_of(&rig, 4, slow), GM_OK);
    rig_close(&rig);
}

static void half_a_wide_descriptor_keeps_nobody_awake(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    uint32_t words[GM_DESC_WORDS];
    open_lanes(&rig, 2);
    rig.d->core.idle_ns = 0;
    rig_words(words, GM_OP_fill, GM_DTYPE_u32, GM_FLAG_WIDE, 16);
    rig_buffer(words, 0, ARENA, 0);
    gm_desc_store(rig.lane[1].sq, LOG2, rig.lane[1].position, words, 0);
    uint32_t turns = 0;
    while (rig_turn(&rig) != GM_TURN_PARK)
        assert_true(turns++ < 200);
    assert_int_equal(rig.lane[1].header->asleep, 1);
    gm_desc_store(rig.lane[1].sq, LOG2, rig.lane[1].position + 1u, words, 1);
    assert_false(gm_park(rig.core, rig.d)); /* whole: the last look finds it */
    rig_wake(&rig);
    for (turns = 0; !answered(&rig, 1, rig.lane[1].position); turns++) {
        assert_true(turns < 2u * GM_STRIKE_GAP);
        rig_turn(&rig);
        work_all(&rig, w);
    }
    rig_close(&rig);
}

/* The lane that is looked at in every turn is nothing that the sweep finds. */
static void half_a_descriptor_in_the_hot_lane_is_no_work(void **state)
{
    (void)state;
    struct rig rig;
    uint32_t words[GM_DESC_WORDS];
    open_lanes(&rig, 2);
    rig_words(words, GM_OP_fill, GM_DTYPE_u32, GM_FLAG_WIDE, 16);
    rig_buffer(words, 0, ARENA, 0);
    gm_desc_store(rig.lane[1].sq, LOG2, rig.lane[1].position, words, 0);
    for (uint32_t turn = 0; turn < 2u * GM_STRIKE_GAP; turn++)
        rig_turn(&rig);
    assert_int_equal(rig.d->hot, 1 + 1);
    rig.d->lane[1].strikes = 0;
    gm_scout_turn(rig.core, rig.d);
    assert_int_equal(rig.d->ready_words, 0);
    rig.d->last_work_ns = 7;
    for (uint32_t turn = 0; turn < 10u * GM_STRIKE_GAP; turn++)
        rig_turn(&rig);
    assert_int_equal(rig.d->last_work_ns, 7);
    rig_close(&rig);
}

static void sleepers_are_woken_in_every_lane_once(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    uint32_t wakes[RIG_LANES] = {0};
    open_lanes(&rig, RIG_LANES);
    for (uint32_t lane = 0; lane < RIG_LANES; lane++) {
        const struct gm_granule wait = {{0, 0, 1, 0}};
        rig_submit_nop(&rig, lane);
        gm_store16_sys(&rig.lane[lane].header->wait, wait);
    }
    for (uint32_t turn = 0; turn < 10u * RIG_LANES; turn++) {
        rig_turn(&rig);
        work_all(&rig, w);
        for (uint32_t lane = 0; lane < RIG_LANES; lane++)
            if ((rig.d->wake_lanes[lane / 32u] >> (lane & 31u) & 1u) != 0) {
                assert_int_equal(rig.d->wake, 1);
                assert_true(answered(&rig, lane, rig.lane[lane].position - 1u));
                wakes[lane]++;
            }
        memset(rig.d->wake_lanes, 0, sizeof rig.d->wake_lanes);
        rig.d->wake = 0;
    }
    for (uint32_t lane = 0; lane < RIG_LANES; lane++)
        assert_int_equal(wakes[lane], 1);
    assert_int_equal(rig.d->counters.wakes, RIG_LANES);
    /* Woken and not come back, as the dead do: the device may park all the same. */
    rig.d->core.idle_ns = 0;
    uint32_t turns = 0;
    while (rig_turn(&rig) != GM_TURN_PARK)
        assert_true(turns++ < 200);
    rig_close(&rig);
}

/* A lane goes on at another dispatcher, where its client counts from the beginning of the lane. */
static void a_sleeper_is_woken_after_its_lane_went_on_elsewhere(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    uint32_t words[GM_DESC_WORDS] = {0};
    open_lanes(&rig, 2);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_LANE_CLOSE, 1, NULL, NULL), GM_OK);
    words[GM_A_SESSION] = RIG_SESSION;
    gm_desc_put64(words, GM_A_ADDRESS, (uint64_t)(uintptr_t)rig.lane[1].memory);
    gm_desc_put64(words, GM_A_BYTES, START);
    words[GM_A_FLAGS] = LOG2;
    gm_desc_put64(words, GM_A_POSITION, (uint64_t)(uintptr_t)rig.lane[1].journal);
    gm_desc_put64(words, GM_A_COUNT, 100);
    rig.lane[1].header->asleep = 1; /* the one before it died asleep */
    assert_int_equal(rig_admin(&rig, GM_ADMIN_LANE_OPEN, 1, words, NULL), GM_OK);
    assert_int_equal(rig.lane[1].header->asleep, 0);
    for (uint32_t reaped = 100; reaped < 103; reaped++) {
        const struct gm_granule wait = {{reaped, 0, 1, 0}};
        gm_store16_sys(&rig.lane[1].header->wait, wait);
        rig_settle(&rig, w, WORKERS);
        assert_int_equal(rig.d->wake, 0);
        rig_submit_nop(&rig, 1);
        rig_settle(&rig, w, WORKERS);
        assert_int_equal(rig.d->wake, 1);
        assert_int_equal(rig.notes[1].head, START + reaped - 99u);
        assert_int_equal(rig.notes[1].taken, reaped + 1u);
        memset(rig.d->wake_lanes, 0, sizeof rig.d->wake_lanes);
        rig.d->wake = 0;
    }
    rig_close(&rig);
}

static void a_job_that_waits_for_workspace_holds_up_only_those_that_want_it_too(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    struct gm_drawn slot;
    open_lanes(&rig, 4);
    const uint64_t n = 30 * TILE; /* about half the pool */
    const uint64_t first = submit_sort(&rig, 1, n + n / 2u);
    while (!rig_take(&rig, &w[0], &slot))
        rig_turn(&rig);
    const uint64_t big = submit_sort(&rig, 2, n);
    for (uint32_t i = 0; i < 20; i++)
        rig_turn(&rig);
    assert_int_equal(rig.d->held_lane, 3);
    const uint64_t small = submit_sort(&rig, 3, 8 * TILE); /* would fit, but came later */
    const uint64_t nop = rig_submit_nop(&rig, 0);
    for (uint32_t i = 0; i < 40; i++) {
        rig_turn(&rig);
        for (uint32_t k = 1; k < WORKERS; k++) {
            struct gm_drawn other;
            if (!answered(&rig, 0, nop) && rig_take(&rig, &w[k], &other))
                rig_run(&rig, &other);
        }
    }
    assert_true(answered(&rig, 0, nop));
    assert_false(answered(&rig, 1, first));
    assert_int_equal(rig.d->counters.started, 2); /* the first sort and the nop */
    rig_run(&rig, &slot);
    rig_settle(&rig, w, WORKERS);
    assert_true(answered(&rig, 1, first) && answered(&rig, 2, big) && answered(&rig, 3, small));
    assert_int_equal(rig.d->held_lane, 0);
    rig_close(&rig);
}

/* How many looks came before the sweep's first lane decides which lanes it meets when. */
static void find_slow_writer(uint32_t lanes, uint32_t ahead)
{
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    uint32_t words[GM_DESC_WORDS], turns = 0;
    open_lanes(&rig, lanes);
    rig.d->sweeps += ahead;
    struct rig_lane *slow = &rig.lane[lanes - 1u];
    rig_words(words, GM_OP_nop, 0, 0, 0);
    gm_desc_store(slow->sq, LOG2, START, words, 0);
    slow->sq[START & (SLOTS - 1u)].g[3].w[3] = 0;
    for (uint32_t turn = 0; turn < 2u * GM_STRIKE_GAP; turn++)
        rig_turn(&rig);
    const uint64_t other = rig_submit_nop(&rig, 0); /* which becomes the hot lane */
    while (!answered(&rig, 0, other)) {
        rig_turn(&rig);
        work_all(&rig, w);
    }
    slow->sq[START & (SLOTS - 1u)].g[3].w[3] = gm_lap(START, LOG2);
    for (; !answered(&rig, lanes - 1u, START); turns++) {
        assert_true(turns < GM_STRIKE_GAP * 2u * (lanes / GM_SWEEP_LANES + 2u));
        rig_turn(&rig);
        work_all(&rig, w);
    }
    rig_close(&rig);
}

/* Lanes with strikes are looked at in few turns, and the sweep is somewhere else in most: the two must meet. */
static void a_slow_writer_is_found_among_any_number_of_lanes(void **state)
{
    (void)state;
    for (uint32_t lanes = 2; lanes <= RIG_LANES; lanes++)
        for (uint32_t ahead = 0; ahead <= RIG_LANES / GM_SWEEP_LANES; ahead++)
            find_slow_writer(lanes, ahead);
}

static void a_descriptor_that_is_taken_back_holds_up_nobody(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    struct gm_drawn slot;
    open_lanes(&rig, 4);
    const uint64_t first = submit_sort(&rig, 1, 45 * TILE);
    while (!rig_take(&rig, &w[0], &slot))
        rig_turn(&rig);
    const uint64_t second = submit_sort(&rig, 2, 45 * TILE);
    for (uint32_t i = 0; i < 20; i++)
        rig_turn(&rig);
    assert_int_equal(rig.d->held_lane, 3);
    memset(&rig.lane[2].sq[second & (SLOTS - 1u)], 0, sizeof *rig.lane[2].sq);
    const uint64_t third = submit_sort(&rig, 3, 2 * TILE);
    for (uint32_t i = 0; i < 20; i++)
        rig_turn(&rig);
    assert_int_equal(rig.d->held_lane, 0);
    assert_int_equal(rig.d->counters.started, 2); /* the third goes past the one that is gone */
    rig_run(&rig, &slot);
    rig_settle(&rig, w, WORKERS);
    assert_true(answered(&rig, 1, first) && answered(&rig, 3, third));
    rig_close(&rig);
}

static void an_arena_goes_after_the_last_job_that_uses_it(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    uint32_t words[GM_DESC_WORDS];
    struct gm_drawn slot;
    const uint32_t other = 3u | 1u << 16, alias = 4u | 1u << 16;
    open_lanes(&rig, 2);
    rig_arena_set(&rig, alias, BASE, UINT64_C(1) << 40, RIG_SESSION, GM_ARENA_ALIAS); /* the memory is another's */
    rig_arena_set(&rig, other, BASE + (UINT64_C(1) << 40), 4096, RIG_SESSION, 0); /* begins where the first one ends */
    const uint64_t p = submit_sort(&rig, 1, 20 * TILE);
    while (!rig_take(&rig, &w[0], &slot))
        rig_turn(&rig);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_ARENA_CLEAR, other, NULL, NULL), GM_OK);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_ARENA_CLEAR, alias, NULL, NULL), GM_OK);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_ARENA_CLEAR, ARENA, NULL, NULL), GM_EBUSY);
    rig_words(words, GM_OP_sum, GM_DTYPE_u32, 0, 16);
    rig_buffer(words, 0, ARENA, 0);
    const uint64_t late = rig_submit(&rig, 1, words);
    rig_turn(&rig);
    rig_turn(&rig);
    assert_int_equal(status_of(&rig, 1, late), GM_EARENA); /* and nothing new begins */
    assert_int_equal(rig_admin(&rig, GM_ADMIN_ARENA_CLEAR, ARENA, NULL, NULL), GM_EBUSY);
    rig_run(&rig, &slot);
    rig_settle(&rig, w, WORKERS);
    assert_int_equal(status_of(&rig, 1, p), GM_OK);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_ARENA_CLEAR, ARENA, NULL, NULL), GM_OK);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_ARENA_CLEAR, ARENA, NULL, NULL), GM_EINVAL);
    rig_close(&rig);
}

static void nothing_but_refusals_shuts_a_lane_and_no_other(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    uint32_t words[GM_DESC_WORDS], refused = 0;
    open_lanes(&rig, 3);
    rig_words(words, 999, 0, 0, 0);
    for (uint32_t i = 0; i + 1u < GM_LANE_ABUSE_MAX; i++, refused++) {
        rig_submit(&rig, 1, words);
        rig_settle(&rig, w, WORKERS);
    }
    assert_int_equal(rig.d->lane[1].shut, 0);
    rig_submit_nop(&rig, 1); /* one good job, and the count begins again */
    rig_settle(&rig, w, WORKERS);
    for (uint32_t i = 0; i < GM_LANE_ABUSE_MAX; i++, refused++) {
        assert_int_equal(rig.notes[1].closed, 0);
        rig_submit(&rig, 1, words);
        rig_submit(&rig, 0, words); /* lane 0 speaks for many clients and is never shut */
        rig_settle(&rig, w, WORKERS);
    }
    assert_int_equal(rig.notes[1].closed, GM_EOP);
    assert_int_equal(rig.d->counters.lanes_abused, 1);
    assert_int_equal(rig.d->counters.lane_rejected, refused);
    const uint64_t late = rig_submit_nop(&rig, 1), other = rig_submit_nop(&rig, 2);
    rig_settle(&rig, w, WORKERS);
    assert_false(answered(&rig, 1, late));
    assert_int_equal(status_of(&rig, 2, other), GM_OK);
    assert_int_equal(rig.d->counters.lanes, 2);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_LANE_CLOSE, 1, NULL, NULL), GM_OK);
    assert_int_equal(rig.d->counters.lanes, 1);
    rig_close(&rig);
}

static void cancelled_jobs_are_no_abuse(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    uint64_t cancelled = 0;
    open_lanes(&rig, 2);
    while (cancelled < GM_LANE_ABUSE_MAX + 10u) {
        /* Behind a job that has to wait, so that they are cancelled before they are taken. */
        const uint32_t batch = 1u + (uint32_t)(cancelled % 5u);
        const uint32_t credit = rig.d->credit;
        rig.d->credit = 0; /* nothing can start */
        for (uint32_t i = 0; i < batch; i++) {
            const uint64_t position = rig_submit_nop(&rig, 1);
            assert_int_equal(rig_cancel(&rig, 1, position), GM_OK);
        }
        rig.d->credit = credit;
        rig_settle(&rig, w, WORKERS);
        cancelled += batch;
    }
    assert_int_equal(rig.d->lane[1].shut, 0);
    assert_int_equal(rig.d->counters.lane_rejected, 0);
    assert_int_equal(rig.d->counters.lane_cancelled, cancelled);
    assert_int_equal(rig.d->counters.lane_submitted, cancelled);
    rig_close(&rig);
}

static void a_closing_lane_aborts_its_jobs_and_takes_no_more(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    struct gm_drawn slot;
    open_lanes(&rig, 3);
    const uint64_t running = submit_sort(&rig, 1, 20 * TILE), kept = submit_sort(&rig, 2, 20 * TILE);
    while (!rig_take(&rig, &w[0], &slot))
        rig_turn(&rig);
    for (uint32_t i = 0; i < 20; i++)
        rig_turn(&rig);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_LANE_CLOSE, 1, NULL, NULL), GM_EBUSY);
    const uint64_t late = rig_submit_nop(&rig, 1);
    rig_run(&rig, &slot);
    rig_settle(&rig, w, WORKERS);
    assert_int_equal(status_of(&rig, 1, running), GM_ECANCELLED);
    assert_int_equal(status_of(&rig, 2, kept), GM_OK);
    assert_false(answered(&rig, 1, late));
    assert_int_equal(rig.d->counters.lane_done, 1);
    assert_int_equal(rig.d->counters.lane_cancelled, 1);
    assert_int_equal(rig.d->counters.op_done[GM_OP_sort], 1);
    assert_int_equal(rig.d->counters.op_failed[GM_OP_sort], 1);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_LANE_CLOSE, 1, NULL, NULL), GM_OK);
    rig_close(&rig);
}

/* Its descriptors stand there, and nobody looks at them any more: neither the sweep, nor the last look. */
static void a_shut_lane_full_of_descriptors_costs_nobody_anything(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    struct gm_drawn slot;
    open_lanes(&rig, 4);
    submit_sort(&rig, 1, 20 * TILE);
    while (!rig_take(&rig, &w[0], &slot))
        rig_turn(&rig);
    for (uint32_t turn = 0; turn < 20; turn++) { /* another lane is hot */
        if (turn == 0)
            rig_submit_nop(&rig, 2);
        rig_turn(&rig);
    }
    for (uint32_t i = 0; i < SLOTS - 1u; i++)
        rig_submit_nop(&rig, 1);
    /* The turn that finds them is the one that shuts it. */
    assert_int_equal(rig_admin(&rig, GM_ADMIN_LANE_CLOSE, 1, NULL, NULL), GM_EBUSY);
    rig_run(&rig, &slot);
    rig_settle(&rig, w, WORKERS);
    for (uint32_t round = 0; round < 12; round++) {
        const uint32_t lane = (3u + 3u * round) % 4u; /* 3, 2, 1, 0, 3 ... */
        if (lane == 1)
            continue;
        const uint64_t position = rig_submit_nop(&rig, lane);
        for (uint32_t turns = 0; !answered(&rig, lane, position); turns++) {
            assert_true(turns < FOUND);
            rig_turn(&rig);
            work_all(&rig, w);
        }
    }
    assert_int_equal(rig.d->lane[1].head, START + 1u);
    rig.d->core.idle_ns = 0;
    uint32_t turns = 0;
    while (rig_turn(&rig) != GM_TURN_PARK)
        assert_true(turns++ < 200);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_LANE_CLOSE, 1, NULL, NULL), GM_OK);
    rig_close(&rig);
}

static void the_note_says_how_far_the_dispatcher_has_come(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    uint32_t words[GM_DESC_WORDS];
    open_lanes(&rig, 3);
    for (uint32_t i = 0; i < 100; i++) {
        const uint32_t lane = i % 3u;
        rig_words(words, i % 4u == 0 ? 999u : GM_OP_fill, GM_DTYPE_u32, i % 4u == 0 ? 0 : GM_FLAG_WIDE, 16);
        if (i % 4u != 0)
            rig_buffer(words, 0, ARENA, 0);
        words[GM_W_SESSION] = lane == 0 ? RIG_SESSION : 0;
        rig_submit(&rig, lane, words);
        rig_settle(&rig, w, WORKERS);
        assert_int_equal(rig.notes[lane].head, rig.lane[lane].position);
    }
    gm_counters_store(rig.d);
    assert_int_equal(rig.notes[0].answered + rig.notes[1].answered + rig.notes[2].answered, 100);
    assert_int_equal(rig.d->counters.lane_submitted, rig.notes[1].answered + rig.notes[2].answered);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_in_any_lane_is_found_within_one_sweep),
        cmocka_unit_test(a_hot_lane_is_served_every_turn),
        cmocka_unit_test(full_lanes_take_turns_and_do_not_starve_a_quiet_one),
        cmocka_unit_test(half_written_descriptors_cost_the_others_little),
        cmocka_unit_test(half_a_wide_descriptor_keeps_nobody_awake),
        cmocka_unit_test(half_a_descriptor_in_the_hot_lane_is_no_work),
        cmocka_unit_test(sleepers_are_woken_in_every_lane_once),
        cmocka_unit_test(a_sleeper_is_woken_after_its_lane_went_on_elsewhere),
        cmocka_unit_test(a_job_that_waits_for_workspace_holds_up_only_those_that_want_it_too),
        cmocka_unit_test(a_slow_writer_is_found_among_any_number_of_lanes),
        cmocka_unit_test(a_descriptor_that_is_taken_back_holds_up_nobody),
        cmocka_unit_test(an_arena_goes_after_the_last_job_that_uses_it),
        cmocka_unit_test(nothing_but_refusals_shuts_a_lane_and_no_other),
        cmocka_unit_test(cancelled_jobs_are_no_abuse),
        cmocka_unit_test(a_closing_lane_aborts_its_jobs_and_takes_no_more),
        cmocka_unit_test(a_shut_lane_full_of_descriptors_costs_nobody_anything),
        cmocka_unit_test(the_note_says_how_far_the_dispatcher_has_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
