/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of the copy engine, as the dispatcher sees them: which jobs go that way, what a request says, and the end of
 * one, also when it is cancelled, when the lane or an arena goes, behind a stop and before a sleep. The test is the
 * copy engine. One thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"

#define DEVICE RIG_ARENA
#define HOST (2u | 1u << 16)
#define HOST2 (3u | 1u << 16)
#define DEVICE2 (4u | 1u << 16)
#define BASE UINT64_C(0x7e0000000000)
#define LARGE UINT64_C(65536)
#define START UINT32_C(0xfffffffe) /* the turns of a place come around in these tests */
#define WORKERS RIG_WORKERS
#define LANE 2u

static struct rig rig;
static struct rig_worker worker[WORKERS];

static void open_with(uint64_t idle_ns)
{
    const struct gm_core_shape shape = {.tickets_log2 = 7,
                                        .entries_log2 = 6,
                                        .workers = WORKERS,
                                        .host_shares = WORKERS,
                                        .ticket_start = UINT64_C(0xfffffffd) << 7,
                                        .inbox_start = UINT64_C(0xfffffffd) << 6,
                                        .idle_ns = idle_ns,
                                        .workspace_bytes = 1u << 20,
                                        .park_in_flight = 1,
                                        .copy_start = START,
                                        .copy_bytes = LARGE};
    memset(worker, 0, sizeof worker);
    rig_open_shape(&rig, &shape);
    rig_arena_set(&rig, HOST, BASE, RIG_BYTES / 2, RIG_SESSION, GM_ARENA_HOST);
    rig_arena_set(&rig, HOST2, BASE + RIG_BYTES / 2, RIG_BYTES / 2, RIG_SESSION, GM_ARENA_HOST);
    rig_arena_set(&rig, DEVICE2, BASE + RIG_BYTES, RIG_BYTES, RIG_SESSION, 0);
    rig_lane_open(&rig, LANE, 6, 0);
}
static void open_rig(void)
{
    open_with(UINT64_MAX);
}

static void close_rig(void)
{
    rig_settle(&rig, worker, WORKERS);
    rig_assert_settled(&rig);
    rig_close(&rig);
}

static uint64_t submit(uint32_t from, uint64_t from_offset, uint32_t to, uint64_t to_offset, uint64_t bytes)
{
    uint32_t words[GM_DESC_WORDS];
    rig_words(words, GM_OP_copy, GM_DTYPE_u8, 0, bytes);
    rig_buffer(words, 0, from, from_offset);
    rig_buffer(words, 1, to, to_offset);
    return rig_submit(&rig, LANE, words);
}
static uint64_t submit_up(uint64_t bytes)
{
    return submit(HOST, 0, DEVICE, 0, bytes);
}

/* Turns without workers. */
static void turns(void)
{
    for (uint32_t i = 0; i < 8u * RIG_LANES; i++)
        rig_turn(&rig);
}

static uint32_t out(void)
{
    return rig.d->crew.copies_put ^ rig.d->crew.copies_done;
}

/* The engine says that it is done with the copy in a place. */
static void end(uint32_t at, int32_t status)
{
    struct gm_copy_place *place = &rig.core->copies->place[at];
    gm_store_release_sys_u32(&place->end, gm_copy_end(place->request[0].w[3], status));
    rig.answered++;
}

static void assert_answer(uint64_t position, int32_t status)
{
    struct gm_granule g;
    assert_true(rig_answer(&rig, LANE, position, &g));
    assert_int_equal(gm_completion_status(g), status);
    assert_int_equal(gm_completion_result(g), 0);
}
static void assert_no_answer(uint64_t position)
{
    struct gm_granule g;
    assert_false(rig_answer(&rig, LANE, position, &g));
}

static uint64_t payload64(const struct gm_copy_place *place, uint32_t word)
{
    const uint32_t low = place->request[word / 3u].w[word % 3u];
    return low | (uint64_t)place->request[(word + 1u) / 3u].w[(word + 1u) % 3u] << 32;
}

static void large_copy_becomes_a_request_and_its_end_an_answer(void **state)
{
    (void)state;
    for (uint32_t down = 0; down < 2u; down++) {
        open_rig();
        const struct gm_copy_place *place = &rig.core->copies->place[0];
        const uint64_t host = UINT64_C(0x123456789a), device = UINT64_C(0x23456789ab), bytes = UINT64_C(0x3456789abc);
        const uint64_t published = rig.d->published;
        const uint32_t credit = rig.d->credit;
        const uint64_t p = down ? submit(DEVICE, device, HOST, host, bytes) : submit(HOST, host, DEVICE, device, bytes);
        turns();
        assert_int_equal(out(), 1);
        assert_int_equal(rig.d->copies_told, rig.d->crew.copies_put);
        assert_int_equal(rig.d->wake, 1); /* whoever copies is told */
        for (uint32_t i = 0; i < GM_COPY_GRANULES; i++)
            assert_int_equal(place->request[i].w[3], START + 1u);
        assert_int_equal(place->abort, START);
        assert_int_equal(payload64(place, GM_C_SOURCE), down ? RIG_BASE + device : BASE + host);
        assert_int_equal(payload64(place, GM_C_TARGET), down ? BASE + host : RIG_BASE + device);
        assert_int_equal(payload64(place, GM_C_BYTES), bytes);
        assert_int_equal(payload64(place, GM_C_OFFSET), host);
        assert_int_equal(place->request[2].w[2], down ? GM_COPY_DOWN : GM_COPY_UP);
        assert_int_equal(rig.d->published, published); /* no worker has anything to do with it */
        assert_int_equal(rig.d->credit, credit);
        assert_int_equal(rig.lane[LANE].journal[p & 63u], gm_lap(p, 6));
        assert_no_answer(p);
        end(0, GM_OK);
        rig_turn(&rig);
        assert_answer(p, GM_OK);
        assert_int_equal(out(), 0);
        close_rig();
        assert_int_equal(rig.counters.engine_copies, 1);
        assert_int_equal(rig.counters.engine_full, 0);
    }
}

/* Between one memory and itself, below the size, and other ops of the same shape, workers do it. */
static void other_jobs_are_the_workers(void **state)
{
    (void)state;
    static const struct {
        uint32_t op, from, to;
        uint64_t bytes;
    } jobs[] = {{GM_OP_copy, HOST, HOST2, LARGE},       {GM_OP_copy, DEVICE, DEVICE2, LARGE},
                {GM_OP_copy, HOST, DEVICE, LARGE - 1u}, {GM_OP_copy, DEVICE, HOST, LARGE - 1u},
                {GM_OP_copy, HOST, DEVICE, 0},          {GM_OP_unique, HOST, DEVICE, LARGE}};
    for (uint32_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        uint32_t words[GM_DESC_WORDS];
        open_rig();
        rig_words(words, jobs[i].op, GM_DTYPE_u8, 0, jobs[i].bytes);
        rig_buffer(words, 0, jobs[i].from, 0);
        rig_buffer(words, 1, jobs[i].to, 0);
        rig_submit(&rig, LANE, words);
        turns();
        assert_int_equal(rig.d->crew.copies_put, 0);
        assert_int_equal(rig.d->counters.started, 1);
        assert_int_not_equal(rig.d->counters.tickets, 0);
        assert_int_equal(rig.d->counters.engine_copies, 0);
        assert_int_equal(rig.d->counters.engine_full, 0);
        close_rig();
    }
}

/* The size is in bytes, whatever the type. */
static void size_counts_in_bytes(void **state)
{
    (void)state;
    open_rig();
    for (uint32_t k = 0; k < 2u; k++) {
        uint32_t words[GM_DESC_WORDS];
        rig_words(words, GM_OP_copy, GM_DTYPE_u64, 0, LARGE / 8u - 1u + k);
        rig_buffer(words, 0, HOST, 0);
        rig_buffer(words, 1, DEVICE, 0);
        rig_submit(&rig, LANE, words);
        turns();
        assert_int_equal(out(), k);
    }
    end(0, GM_OK);
    close_rig();
}

static void without_a_free_place_workers_do_it(void **state)
{
    (void)state;
    uint64_t p[GM_COPIES_MAX];
    open_rig();
    for (uint32_t i = 0; i < GM_COPIES_MAX; i++)
        p[i] = submit_up(LARGE + i);
    turns();
    assert_int_equal(out(), UINT32_MAX >> (32u - GM_COPIES_MAX));
    assert_int_equal(rig.d->counters.tickets, 0);
    const uint64_t more = submit_up(LARGE);
    rig_settle(&rig, worker, WORKERS);
    struct gm_granule g;
    assert_true(rig_answer(&rig, LANE, more, &g)); /* it did not wait, and nor do others */
    assert_int_equal(rig.d->counters.engine_full, 1);
    assert_int_equal(rig.d->counters.engine_copies, GM_COPIES_MAX);
    const uint64_t nop = rig_submit_nop(&rig, LANE);
    rig_settle(&rig, worker, WORKERS);
    assert_true(rig_answer(&rig, LANE, nop, &g));
    end(7, GM_OK); /* they end in any order, and a place is used again at once */
    rig_turn(&rig);
    assert_answer(p[7], GM_OK);
    assert_no_answer(p[6]);
    const uint64_t again = submit_up(LARGE);
    turns();
    assert_int_equal(rig.core->copies->place[7].request[0].w[3], START + 2u);
    assert_int_equal(rig.d->counters.engine_full, 1);
    for (uint32_t i = GM_COPIES_MAX; i-- > 0;)
        end(i, GM_OK);
    rig_turn(&rig);
    assert_answer(again, GM_OK);
    close_rig();
}

/* Also where the number of a turn comes around, and where a turn has the number 0. */
static void turns_of_a_place_are_told_apart(void **state)
{
    (void)state;
    open_rig();
    struct gm_copy_place *place = &rig.core->copies->place[0];
    for (uint32_t i = 0; i < 5u; i++) {
        const uint64_t p = submit_up(LARGE);
        turns();
        assert_int_equal(out(), 1);
        assert_int_equal(place->request[0].w[3], START + 1u + i);
        assert_int_not_equal(place->abort, place->request[0].w[3]);
        turns();
        assert_no_answer(p); /* the end of the one before is not its */
        end(0, GM_OK);
        rig_turn(&rig);
        assert_answer(p, GM_OK);
    }
    close_rig();
}

static void cancelled_copy_is_answered_when_it_has_ended(void **state)
{
    (void)state;
    open_rig();
    const uint64_t p = submit_up(LARGE), other = submit_up(LARGE);
    turns();
    assert_int_equal(rig_cancel(&rig, LANE, p), GM_OK);
    const struct gm_copy_place *place = rig.core->copies->place;
    assert_int_equal(place[0].abort, place[0].request[0].w[3]);
    assert_int_not_equal(place[1].abort, place[1].request[0].w[3]);
    turns();
    assert_no_answer(p); /* something of it may still be on the way */
    end(0, GM_ECANCELLED);
    rig_turn(&rig);
    assert_answer(p, GM_ECANCELLED);
    assert_no_answer(other);
    assert_int_equal(rig_cancel(&rig, LANE, other), GM_OK);
    end(1, GM_OK); /* too late: it was whole by then */
    rig_turn(&rig);
    assert_answer(other, GM_OK);
    close_rig();
    assert_int_equal(rig.answered, 2);
}

static void copy_that_fails_says_why(void **state)
{
    (void)state;
    open_rig();
    const uint64_t p = submit_up(LARGE);
    turns();
    end(0, GM_ESYSTEM);
    turns();
    assert_answer(p, GM_ESYSTEM);
    assert_int_equal(rig.d->counters.lane_failed, 1);
    close_rig();
}

/* The first one is answered, and its entry has not come back, when the second has the place. */
static void abort_of_an_answered_copy_leaves_the_next_one_alone(void **state)
{
    (void)state;
    open_rig();
    const uint64_t first = submit_up(LARGE);
    turns();
    const uint32_t entry = rig.d->copy_entry[0];
    end(0, GM_OK);
    gm_copies_turn(rig.d);
    assert_answer(first, GM_OK);
    submit_up(LARGE);
    gm_poll_aim(rig.d, LANE, &rig.fetch);
    gm_poll_issue(rig.d, &rig.fetch);
    rig_turn(&rig);
    assert_int_equal(out(), 1);
    assert_int_not_equal(rig.d->copy_entry[0], entry);
    assert_int_equal(rig.d->note[entry].copy, 1); /* what is left of the first */
    const struct gm_copy_place *place = &rig.core->copies->place[0];
    gm_copy_abort(rig.core, rig.d, entry);
    assert_int_not_equal(place->abort, place->request[0].w[3]);
    gm_copy_abort(rig.core, rig.d, rig.d->copy_entry[0]);
    assert_int_equal(place->abort, place->request[0].w[3]);
    end(0, GM_ECANCELLED);
    close_rig();
}

static void lane_and_arenas_go_when_the_copy_has_ended(void **state)
{
    (void)state;
    open_rig();
    submit(HOST, RIG_BYTES / 4, DEVICE2, RIG_BYTES / 2, LARGE);
    turns();
    assert_int_equal(rig_admin(&rig, GM_ADMIN_ARENA_CLEAR, HOST2, NULL, NULL), GM_OK);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_ARENA_CLEAR, HOST, NULL, NULL), GM_EBUSY);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_ARENA_CLEAR, DEVICE2, NULL, NULL), GM_EBUSY);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_LANE_CLOSE, LANE, NULL, NULL), GM_EBUSY);
    const struct gm_copy_place *place = &rig.core->copies->place[0];
    assert_int_equal(place->abort, place->request[0].w[3]); /* a client that is gone waits for nothing */
    turns();
    assert_int_equal(rig_admin(&rig, GM_ADMIN_ARENA_CLEAR, HOST, NULL, NULL), GM_EBUSY);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_LANE_CLOSE, LANE, NULL, NULL), GM_EBUSY);
    end(0, GM_ECANCELLED);
    rig_turn(&rig);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_ARENA_CLEAR, HOST, NULL, NULL), GM_OK);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_ARENA_CLEAR, DEVICE2, NULL, NULL), GM_OK);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_LANE_CLOSE, LANE, NULL, NULL), GM_OK);
    rig_close(&rig);
}

/* The workers go, whatever is copied; what ends meanwhile is found by the next dispatcher. */
static void stop_does_not_wait_for_a_copy(void **state)
{
    (void)state;
    for (uint32_t meanwhile = 0; meanwhile < 2u; meanwhile++) {
        open_rig();
        const uint64_t p = submit_up(LARGE);
        turns();
        assert_int_equal(out(), 1);
        assert_int_equal(rig_admin(&rig, GM_ADMIN_STOP, 0, NULL, NULL), GM_OK);
        for (uint32_t i = 0; i < WORKERS; i++)
            while (!worker[i].stopped)
                assert_true(rig_work(&rig, &worker[i]));
        assert_no_answer(p);
        if (meanwhile)
            end(0, GM_OK);
        memset(worker, 0, sizeof worker);
        rig_wake(&rig);
        rig_turn(&rig);
        if (!meanwhile) {
            assert_no_answer(p);
            end(0, GM_OK);
            rig_turn(&rig);
        }
        assert_answer(p, GM_OK);
        close_rig();
    }
}

/* The dispatcher of a CPU sleeps with a copy under way, since who ends it rings; an end that came just before is found
 * by the last look. */
static void no_sleep_over_an_end(void **state)
{
    (void)state;
    open_with(0);
    const uint64_t p = submit_up(LARGE);
    enum gm_turn_result result = GM_TURN_EMPTY;
    for (uint32_t i = 0; i < 8u * RIG_LANES && result != GM_TURN_PARK; i++)
        result = rig_turn(&rig);
    assert_int_equal(result, GM_TURN_PARK);
    assert_int_equal(out(), 1);
    assert_int_equal(rig.d->copies_told, rig.d->crew.copies_put); /* and not before the request was told */
    rig_wake(&rig);
    end(0, GM_OK);
    assert_false(gm_park(rig.core, rig.d));
    assert_int_equal(rig.core->admin_header->asleep, 0);
    rig_turn(&rig);
    assert_answer(p, GM_OK);
    assert_true(gm_park(rig.core, rig.d) || rig.d->crew.attention != 0);
    rig_wake(&rig);
    for (uint32_t i = 0; i < 8u; i++) /* what the end has left to do, without a sleep */
        rig_turn(&rig);
    rig_assert_settled(&rig);
    rig_close(&rig);
}

/* A device without an engine, which is what a shape says by itself. */
static void without_a_size_no_copy_is_the_engines(void **state)
{
    (void)state;
    struct gm_core core;
    struct gm_counters counters;
    static struct gm_disp d;
    const struct gm_core_shape shape = {
        .tickets_log2 = 3, .entries_log2 = 2, .workers = WORKERS, .host_shares = WORKERS, .workspace_bytes = 1u << 20};
    assert_int_equal(gm_core_init(&core, &counters, &d, &shape), GM_OK);
    const struct gm_job job = {.op = GM_OP_copy,
                               .dtype = GM_DTYPE_u64,
                               .n = GM_ELEMENTS_MAX,
                               .marks = GM_MARK_HOST | GM_MARK_HOST_IN | GM_MARK_OUT};
    assert_false(gm_copy_large(&core, &job));
    core.copy_bytes = GM_ELEMENTS_MAX * 8u;
    assert_true(gm_copy_large(&core, &job));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_copy_becomes_a_request_and_its_end_an_answer),
        cmocka_unit_test(other_jobs_are_the_workers),
        cmocka_unit_test(size_counts_in_bytes),
        cmocka_unit_test(without_a_free_place_workers_do_it),
        cmocka_unit_test(turns_of_a_place_are_told_apart),
        cmocka_unit_test(cancelled_copy_is_answered_when_it_has_ended),
        cmocka_unit_test(copy_that_fails_says_why),
        cmocka_unit_test(abort_of_an_answered_copy_leaves_the_next_one_alone),
        cmocka_unit_test(lane_and_arenas_go_when_the_copy_has_ended),
        cmocka_unit_test(stop_does_not_wait_for_a_copy),
        cmocka_unit_test(no_sleep_over_an_end),
        cmocka_unit_test(without_a_size_no_copy_is_the_engines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
