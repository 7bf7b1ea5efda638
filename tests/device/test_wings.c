/* SPDX-License-Identifier: Apache-2.0
 *
 * Wings by hand: a full lane is leased and served, everything that is not for them gives it back, entries and credit
 * come back to whose they are, and steps of front, wings and workers in any order answer every job once. One thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "lend.h"

static void a_full_lane_is_leased_and_its_wing_serves_it(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    open_wings(&rig, 1);
    const uint32_t wing = lease(&rig, 1);
    const uint64_t started = rig.d->counters.started, taken = rig.d->wing[wing].taken;
    assert_int_equal(rig.d->counters.leases, 1);
    assert_int_equal(rig.d->hot, 1); /* the front goes elsewhere */
    drain(&rig, wing, 1, w);
    for (uint32_t i = 0; i < 8; i++)
        rig_turn(&rig);
    assert_true(rig.d->wing[wing].taken != (uint32_t)taken);
    assert_int_equal(rig.d->counters.started - started, rig.d->wing[wing].taken - (uint32_t)taken);
    const uint64_t last = rig.lane[1].position - 1u;
    assert_int_equal(status_of(&rig, 1, last), GM_OK);
    assert_int_equal(rig.lane[1].journal[last & (SLOTS - 1u)], gm_lap(last, LOG2));
    assert_int_equal(rig.notes[1].head, rig.lane[1].position);
    assert_int_equal(rig.notes[1].taken, rig.lane[1].position - START);
    rig_settle(&rig, w, WORKERS);
    assert_int_equal(rig.d->lane[1].lease, 0);
    assert_int_equal(rig.d->counters.lane_submitted, rig.lane[1].position - START);
    rig_assert_settled(&rig);
    rig_close(&rig);
}

static void a_wing_ends_its_lease_when_nothing_comes(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    open_wings(&rig, 1);
    const uint32_t wing = lease(&rig, 1);
    drain(&rig, wing, 1, w);
    uint32_t turns = 0;
    while (rig.d->wing[wing].given != rig.d->wing[wing].returned) {
        assert_true(turns++ <= GM_WING_EMPTY + 1u);
        rig_wing(&rig, wing);
    }
    assert_true(turns > GM_WING_EMPTY - 1u);
    assert_true(rig.d->crew.attention & GM_ATTEND_WINGS);
    assert_false(rig_wing(&rig, wing)); /* and looks no more */
    rig_turn(&rig);
    assert_int_equal(rig.d->lane[1].lease, 0);
    assert_int_equal(rig.d->leased, 0);
    assert_int_equal(rig.d->hot, 1 + 1); /* the front's again, who looks at once */
    const uint64_t next = rig_submit_nop(&rig, 1);
    rig_turn(&rig);
    rig_turn(&rig);
    work_all(&rig, w);
    assert_int_equal(status_of(&rig, 1, next), GM_OK);
    rig_settle(&rig, w, WORKERS);
    rig_assert_settled(&rig);
    rig_close(&rig);
}

/* What comes between quick jobs: the wing starts those before it, and the front goes on in order. */
static void what_is_not_quick_gives_the_lane_back(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind < 3; kind++) {
        struct rig rig;
        struct rig_worker w[WORKERS] = {{0}};
        uint32_t words[GM_DESC_WORDS];
        open_wings(&rig, 1);
        const uint32_t wing = lease(&rig, 1);
        drain(&rig, wing, 1, w);
        rig_words(words, kind == 0 ? 999u : GM_OP_fill, kind == 0 ? 0 : GM_DTYPE_u32, kind == 0 ? 0 : GM_FLAG_WIDE, 16);
        if (kind != 0)
            rig_buffer(words, 0, RIG_ARENA, 0);
        const uint32_t taken = rig.d->wing[wing].taken;
        const uint64_t before = rig_submit_nop(&rig, 1);
        const uint64_t odd = kind == 2 ? submit_sort(&rig, 1, 20 * TILE) : rig_submit(&rig, 1, words);
        const uint64_t behind = rig_submit_nop(&rig, 1);
        for (uint32_t turns = 0; rig_wing(&rig, wing); turns++)
            assert_true(turns < 10u);
        assert_int_equal(rig.d->wing[wing].taken - taken, 1);
        assert_int_equal(rig.d->lane[1].head, odd);
        rig_settle(&rig, w, WORKERS);
        assert_int_equal(status_of(&rig, 1, before), GM_OK);
        assert_int_equal(status_of(&rig, 1, odd), kind == 0 ? GM_EOP : GM_OK);
        assert_int_equal(status_of(&rig, 1, behind), GM_OK);
        rig_assert_settled(&rig);
        rig_close(&rig);
    }
}

/* The second half of a look counts behind the first only. */
static void a_wing_does_not_pass_a_hole(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    const uint32_t words[GM_DESC_WORDS] = {GM_OP_nop};
    open_wings(&rig, 1);
    const uint32_t wing = lease(&rig, 1);
    drain(&rig, wing, 1, w);
    const uint64_t head = rig.lane[1].position, published = rig.d->published;
    rig_submit_nop(&rig, 1);
    gm_desc_store(rig.lane[1].sq, LOG2, head + GM_POLL_MAX, words, 0);
    while (rig_wing(&rig, wing)) {
    }
    assert_int_equal(rig.d->published, published + 1u);
    assert_int_equal(rig.d->lane[1].head, head + 1u);
    for (uint32_t i = 0; i < GM_POLL_MAX; i++)
        rig_submit_nop(&rig, 1);
    rig_settle(&rig, w, WORKERS);
    assert_int_equal(status_of(&rig, 1, head + GM_POLL_MAX), GM_OK);
    rig_assert_settled(&rig);
    rig_close(&rig);
}

/* Its own entries, and no others: with so many jobs in flight it starts none, and in the end it gives the lane back. */
static void a_wing_has_its_own_entries_and_no_more(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    open_wings(&rig, 2);
    const uint32_t wing = lease(&rig, 1), free = rig.d->free_entries, credit = rig.d->credit;
    drain(&rig, wing, 1, w);
    const uint64_t first = rig.lane[1].position, published = rig.d->published;
    for (uint32_t i = 0; i < SLOTS; i++)
        rig_submit_nop(&rig, 1);
    uint32_t turns = 0;
    for (; rig_wing(&rig, wing); turns++)
        assert_true(turns <= GM_WING_SHORT + 4u);
    assert_true(turns >= GM_WING_SHORT);
    assert_int_equal(rig.d->published - published, PART);
    assert_int_equal(rig.d->lane[1].head, first + PART);
    assert_int_equal(rig.d->free_entries, free);
    assert_int_equal(rig.d->credit, credit);
    for (uint32_t i = 0; i < 8; i++) /* the front has entries, and a wing without any gets no lease */
        rig_turn(&rig);
    assert_int_equal(rig.d->lane[1].head, first + SLOTS);
    assert_int_equal(rig.d->leased & 1u << wing, 0);
    rig_settle(&rig, w, WORKERS);
    rig_assert_settled(&rig);
    rig_close(&rig);
}

static void without_room_nothing_is_started_and_the_lease_ends(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    open_wings(&rig, 1);
    const uint32_t wing = lease(&rig, 1);
    drain(&rig, wing, 1, w);
    while (gm_back_inbox(rig.core, rig.d)) {
    }
    const uint64_t floor = rig.d->crew.ack_floor, first = rig_submit_nop(&rig, 1);
    rig.d->crew.apart = 1; /* only the back makes room, and it does not run */
    rig.d->crew.ack_floor = rig.d->published - (1u << rig.core->tickets_log2);
    const uint32_t taken = rig.d->wing[wing].taken;
    for (uint32_t turns = 0; rig_wing(&rig, wing); turns++)
        assert_true(turns <= GM_WING_SHORT + 4u);
    assert_int_equal(rig.d->wing[wing].taken, taken);
    assert_int_equal(rig.d->lane[1].head, first);
    rig.d->crew.apart = 0;
    rig.d->crew.ack_floor = floor;
    rig_settle(&rig, w, WORKERS);
    assert_int_equal(status_of(&rig, 1, first), GM_OK);
    rig_assert_settled(&rig);
    rig_close(&rig);
}

/* A quantum is over only for others. */
static void others_that_wait_end_a_lease_after_its_quantum(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    open_wings(&rig, 1);
    const uint32_t wing = lease(&rig, 1);
    for (uint32_t turn = 0; turn < 3u * GM_WING_QUANTUM; turn++) {
        rig_submit_nop(&rig, 1);
        assert_true(rig_wing(&rig, wing));
        work_all(&rig, w);
        while (gm_back_inbox(rig.core, rig.d)) {
        }
    }
    assert_int_not_equal(rig.d->wing[wing].given, rig.d->wing[wing].returned);
    gm_ready_set(rig.d, 2);
    rig_wing(&rig, wing);
    assert_int_equal(rig.d->wing[wing].given, rig.d->wing[wing].returned);
    rig_settle(&rig, w, WORKERS);
    (void)lease(&rig, 1);
    gm_ready_set(rig.d, 2);
    for (uint32_t turn = 0; turn < GM_WING_QUANTUM; turn++) { /* but each lease has one */
        rig_submit_nop(&rig, 1);
        rig_wing(&rig, wing);
        assert_int_not_equal(rig.d->wing[wing].given, rig.d->wing[wing].returned);
        work_all(&rig, w);
        while (gm_back_inbox(rig.core, rig.d)) {
        }
    }
    rig_settle(&rig, w, WORKERS);
    rig_assert_settled(&rig);
    rig_close(&rig);
}

/* While a lane's job waits for what there is too little of, nobody takes it by another way. */
static void a_held_job_ends_leases_and_lets_none_begin(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    struct gm_drawn slot;
    open_wings(&rig, 1);
    const uint32_t wing = lease(&rig, 1);
    drain(&rig, wing, 1, w);
    const uint64_t a = submit_sort(&rig, 2, 40 * TILE);
    while (!rig_take(&rig, &w[0], &slot))
        rig_turn(&rig);
    const uint64_t b = submit_sort(&rig, 3, 40 * TILE);
    for (uint32_t i = 0; i < 20u && rig.d->held_lane == 0; i++)
        rig_turn(&rig);
    assert_int_equal(rig.d->held_lane, 3 + 1);
    assert_true(rig_wing(&rig, wing));
    assert_int_equal(rig.d->wing[wing].given, rig.d->wing[wing].returned);
    for (uint32_t i = 0; i < SLOTS; i++)
        rig_submit_nop(&rig, 4);
    const uint64_t leases = rig.d->counters.leases;
    for (uint32_t i = 0; i < 20u; i++)
        rig_turn(&rig);
    assert_int_equal(rig.d->lane[4].head, rig.lane[4].position);
    assert_int_equal(rig.d->counters.leases, leases);
    rig_run(&rig, &slot);
    rig_settle(&rig, w, WORKERS);
    assert_int_equal(status_of(&rig, 2, a), GM_OK);
    assert_int_equal(status_of(&rig, 3, b), GM_OK);
    rig_assert_settled(&rig);
    rig_close(&rig);
}

static void a_lease_is_work(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    open_wings(&rig, 1);
    const uint32_t wing = lease(&rig, 1);
    drain(&rig, wing, 1, w);
    rig.d->core.idle_ns = 0;
    rig.d->core.park_in_flight = 1; /* whatever is in flight */
    for (uint32_t i = 0; i < 20u; i++)
        assert_int_not_equal(rig_turn(&rig), GM_TURN_PARK);
    rig.d->core.park_in_flight = 0;
    const uint64_t last = rig_submit_nop(&rig, 1);
    while (rig.d->lane[1].head == last)
        rig_wing(&rig, wing);
    while (rig_wing(&rig, wing)) {
    }
    for (uint32_t i = 0; i < 20u; i++) /* and so is a job of a wing that is in flight */
        assert_int_not_equal(rig_turn(&rig), GM_TURN_PARK);
    work_all(&rig, w);
    uint32_t turns = 0;
    while (rig_turn(&rig) != GM_TURN_PARK)
        assert_true(turns++ < 200u);
    rig_assert_settled(&rig);
    rig_close(&rig);
}

static void a_sleeper_of_a_leased_lane_is_woken(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    open_wings(&rig, 1);
    const uint32_t wing = lease(&rig, 1);
    drain(&rig, wing, 1, w);
    const uint64_t reaped = rig.d->lane[1].completed;
    const struct gm_granule wait = {{(uint32_t)reaped, (uint32_t)(reaped >> 32), 1, 0}};
    gm_store16_sys(&rig.lane[1].header->wait, wait);
    rig_submit_nop(&rig, 1);
    gm_scout_turn(rig.core, rig.d);
    assert_int_equal(rig.d->wake, 0);
    assert_int_equal(rig.d->ready_words, 0); /* what is at its head is the wing's to find */
    drain(&rig, wing, 1, w);
    gm_scout_turn(rig.core, rig.d);
    assert_int_equal(rig.d->wake_lanes[0], 1u << 1);
    assert_int_equal(rig.d->lane[1].lease, wing + 1u);
    rig_settle(&rig, w, WORKERS);
    rig_assert_settled(&rig);
    rig_close(&rig);
}

/* A step of somebody, as a number says. */
static void any_step(struct rig *rig, struct rig_worker *w, uint64_t random)
{
    const uint32_t lane = (uint32_t)(random >> 8) % LANES, kind = (uint32_t)(random >> 16) % 100u;
    switch (random % 10u) {
    case 0:
    case 1:
    case 2:
        rig_turn(rig);
        break;
    case 3:
    case 4:
    case 5:
        rig_wing(rig, (uint32_t)(random >> 8) % rig->core->wings);
        break;
    case 6:
        if (kind == 0)
            (void)rig_cancel(rig, lane, rig->lane[lane].position - (random >> 32) % 3u);
        break;
    case 7:
        for (uint32_t i = (uint32_t)(random >> 24) % SLOTS; i > 0; i--)
            if (rig->lane[lane].position - START - rig->d->lane[lane].completed + 2u <= SLOTS)
                (void)(kind == 0 && lane != 0 ? submit_sum(rig, lane) : rig_submit_nop(rig, lane));
        if (kind == 1 && lane != 0 && rig->lane[lane].position - START - rig->d->lane[lane].completed + 2u <= SLOTS)
            submit_sort(rig, lane, 8 * TILE);
        break;
    default:
        for (uint32_t i = (uint32_t)(random >> 24) % 64u; i > 0 && rig_work(rig, &w[random % WORKERS]); i--) {
        }
        break;
    }
}

static void any_order_of_steps_answers_every_job_once(void **state)
{
    (void)state;
    uint64_t leases = 0;
    for (uint64_t seed = 1; seed <= 40u; seed++) {
        struct rig rig;
        struct rig_worker w[WORKERS] = {{0}};
        uint64_t random = seed, submitted = 0;
        open_wings(&rig, 1u + (uint32_t)seed % GM_WINGS_MAX);
        for (uint32_t i = 0; i < 3000u; i++)
            any_step(&rig, w, rig_random(&random));
        rig_settle(&rig, w, WORKERS);
        for (uint32_t lane = 0; lane < LANES; lane++) { /* a cancel of a job that never came */
            while (rig.d->cancels != 0 && rig.lane[lane].position - START < 100000u &&
                   gm_cancel_find(rig.d, lane, rig.lane[lane].position))
                rig_submit_nop(&rig, lane);
        }
        rig_settle(&rig, w, WORKERS);
        for (uint32_t lane = 0; lane < LANES; lane++)
            submitted += rig.lane[lane].position - START;
        assert_int_equal(rig.d->counters.polled, submitted);
        rig_assert_settled(&rig);
        leases += rig.d->counters.leases;
        rig_close(&rig);
    }
    assert_true(leases > 40u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_lane_is_leased_and_its_wing_serves_it),
        cmocka_unit_test(a_wing_ends_its_lease_when_nothing_comes),
        cmocka_unit_test(what_is_not_quick_gives_the_lane_back),
        cmocka_unit_test(a_wing_does_not_pass_a_hole),
        cmocka_unit_test(a_wing_has_its_own_entries_and_no_more),
        cmocka_unit_test(without_room_nothing_is_started_and_the_lease_ends),
        cmocka_unit_test(others_that_wait_end_a_lease_after_its_quantum),
        cmocka_unit_test(a_held_job_ends_leases_and_lets_none_begin),
        cmocka_unit_test(a_lease_is_work),
        cmocka_unit_test(a_sleeper_of_a_leased_lane_is_woken),
        cmocka_unit_test(any_order_of_steps_answers_every_job_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
