/* SPDX-License-Identifier: Apache-2.0
 *
 * Admin work beside wings, by hand: whatever looks at tables or changes them meets no lease, and finds what a wing has
 * started. One thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "lend.h"

static void a_leased_lane_is_closed_when_the_wings_jobs_are_answered(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    open_wings(&rig, 1);
    const uint32_t wing = lease(&rig, 1);
    drain(&rig, wing, 1, w);
    const uint64_t first = rig_submit_nop(&rig, 1);
    for (uint32_t i = 0; rig.d->lane[1].head == first; i++) {
        assert_true(i < 4u);
        rig_wing(&rig, wing);
    }
    assert_int_equal(rig_admin(&rig, GM_ADMIN_LANE_CLOSE, 1, NULL, NULL), GM_EBUSY);
    assert_int_equal(rig.d->lane[1].lease, 0);
    assert_false(rig_wing(&rig, wing));
    const uint64_t late = rig_submit_nop(&rig, 1);
    rig_settle(&rig, w, WORKERS);
    assert_int_equal(status_of(&rig, 1, first), GM_ECANCELLED); /* the close gives its jobs up */
    assert_int_equal(rig.d->lane[1].head, late);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_LANE_CLOSE, 1, NULL, NULL), GM_OK);
    rig_settle(&rig, w, WORKERS);
    assert_int_equal(rig.d->leased, 0);
    rig_close(&rig);
}

static void cancels_find_a_wings_jobs_wherever_they_are(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    open_wings(&rig, 1);
    const uint32_t wing = lease(&rig, 1);
    drain(&rig, wing, 1, w);
    const uint64_t out = rig_submit_nop(&rig, 1), other = rig_submit_nop(&rig, 1);
    for (uint32_t i = 0; rig.d->lane[1].head == out; i++) {
        assert_true(i < 4u);
        rig_wing(&rig, wing);
    }
    assert_int_equal(rig_cancel(&rig, 1, out), GM_OK);             /* in its slot */
    assert_int_equal(rig_cancel(&rig, 1, out + 3u), GM_OK);        /* not written yet */
    assert_int_equal(rig_cancel(&rig, 1, out - 1u), GM_ENOTFOUND); /* answered: its note says so */
    const uint64_t leases = rig.d->counters.leases;
    const uint64_t next = rig_submit_nop(&rig, 1), late = rig_submit_nop(&rig, 1);
    for (uint32_t i = 0; i < SLOTS; i++)
        rig_submit_nop(&rig, 2);
    gm_policy_aimed(rig.d, 2);
    for (uint32_t i = 0; i < 4u; i++)
        rig_turn(&rig);
    assert_true(rig.d->cancels == 0 || rig.d->counters.leases == leases);
    rig_settle(&rig, w, WORKERS);
    assert_int_equal(status_of(&rig, 1, out), GM_ECANCELLED);
    assert_int_equal(status_of(&rig, 1, other), GM_OK);
    assert_int_equal(status_of(&rig, 1, next), GM_OK);
    assert_int_equal(status_of(&rig, 1, late), GM_ECANCELLED);
    rig_assert_settled(&rig);
    rig_close(&rig);
}

static void a_cancel_that_waits_lets_no_lease_begin(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    open_wings(&rig, 1);
    assert_int_equal(rig_cancel(&rig, 1, START + 5u), GM_OK);
    for (uint32_t i = 0; i < SLOTS; i++)
        rig_submit_nop(&rig, 2);
    for (uint32_t i = 0; i < 20u; i++)
        rig_turn(&rig);
    assert_int_equal(rig.d->lane[2].head, rig.lane[2].position);
    assert_int_equal(rig.d->counters.leases, 0);
    for (uint32_t i = 0; i < 6u; i++)
        rig_submit_nop(&rig, 1);
    rig_settle(&rig, w, WORKERS);
    assert_int_equal(status_of(&rig, 1, START + 5u), GM_ECANCELLED);
    (void)lease(&rig, 2);
    rig_settle(&rig, w, WORKERS);
    rig_assert_settled(&rig);
    rig_close(&rig);
}

static void an_arena_goes_after_the_wings_last_job_that_uses_it(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    open_wings(&rig, 1);
    const uint32_t wing = lease(&rig, 1);
    drain(&rig, wing, 1, w);
    const uint64_t sum = submit_sum(&rig, 1);
    for (uint32_t i = 0; rig.d->lane[1].head == sum; i++) {
        assert_true(i < 4u);
        assert_true(rig_wing(&rig, wing));
    }
    assert_int_equal(rig_admin(&rig, GM_ADMIN_ARENA_CLEAR, RIG_ARENA, NULL, NULL), GM_EBUSY);
    const uint64_t late = submit_sum(&rig, 1);
    rig_settle(&rig, w, WORKERS);
    assert_int_equal(status_of(&rig, 1, sum), GM_OK);
    assert_int_equal(status_of(&rig, 1, late), GM_EARENA);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_ARENA_CLEAR, RIG_ARENA, NULL, NULL), GM_OK);
    rig_assert_settled(&rig);
    rig_close(&rig);
}

static void a_ping_leaves_leases_alone_and_a_stop_ends_them(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    open_wings(&rig, 2);
    for (uint32_t round = 0; round < 6u; round++) { /* each a pause and a relaunch */
        const uint32_t wing = lease(&rig, 1);
        uint64_t result;
        assert_int_equal(rig_admin(&rig, GM_ADMIN_PING, 0, NULL, &result), GM_OK);
        assert_int_equal(rig.d->leased, 1u << wing);
        assert_true(rig_wing(&rig, wing));
        assert_int_equal(rig_admin(&rig, GM_ADMIN_STOP, 0, NULL, NULL), GM_OK);
        assert_int_equal(rig.d->leased, 0);
        for (uint32_t i = 0; i < WORKERS; i++)
            while (!w[i].stopped) {
                if (!rig_work(&rig, &w[i]))
                    (void)rig_turn(&rig);
                assert_false(rig_wing(&rig, wing));
            }
        assert_int_equal(rig.shared->ticket, rig.d->published); /* behind all that the wing published */
        memset(w, 0, sizeof w);
        rig_wake(&rig);
        rig_settle(&rig, w, WORKERS);
        assert_int_equal(status_of(&rig, 1, rig.lane[1].position - 1u), GM_OK);
        for (uint32_t i = 0; i < WORKERS; i++)
            if (w[i].holding)
                rig.shared->ticket--;
        memset(w, 0, sizeof w);
    }
    rig_close(&rig);
}

/* In one turn a look is full and the device is to stop. */
static void no_lease_begins_beside_a_stop(void **state)
{
    (void)state;
    struct rig rig;
    const uint32_t words[GM_DESC_WORDS] = {GM_ADMIN_STOP};
    open_wings(&rig, 1);
    for (uint32_t i = 0; i < SLOTS; i++)
        rig_submit_nop(&rig, 1);
    rig.d->lane[1].width = GM_POLL_MAX;
    gm_ready_set(rig.d, 1);
    rig_wake(&rig); /* what is there now is what the next turn finds */
    gm_desc_store(rig.admin_sq, GM_ADMIN_SLOTS_LOG2, rig.admin_position, words, 0);
    assert_int_equal(rig_turn(&rig), GM_TURN_STOP);
    assert_int_equal(rig.d->lane[1].head, START + GM_POLL_MAX);
    assert_int_equal(rig.d->counters.leases, 0);
    rig_close(&rig);
}

/* After a loss, gridmilld counts once more what the note of a lane that it holds does not say. */
static void a_lane_that_goes_leaves_its_count_behind(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker w[WORKERS] = {{0}};
    open_wings(&rig, 1);
    const uint64_t before = rig.d->lane[1].completed;
    for (uint32_t i = 0; i < 3u; i++)
        rig_submit_nop(&rig, 1);
    for (uint32_t i = 0; i < 8u; i++)
        rig_turn(&rig);
    work_all(&rig, w); /* answered, and nobody has counted it */
    assert_int_equal(rig.d->lane[1].taken, before + 3u);
    assert_int_equal(rig.d->lane[1].completed, before);
    assert_int_equal(rig_admin(&rig, GM_ADMIN_LANE_CLOSE, 1, NULL, NULL), GM_OK);
    assert_int_equal(rig.core->lane_notes[1].answered, before + 3u);
    assert_int_equal(rig.counters.lane_done, 3);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leased_lane_is_closed_when_the_wings_jobs_are_answered),
        cmocka_unit_test(cancels_find_a_wings_jobs_wherever_they_are),
        cmocka_unit_test(a_cancel_that_waits_lets_no_lease_begin),
        cmocka_unit_test(an_arena_goes_after_the_wings_last_job_that_uses_it),
        cmocka_unit_test(a_ping_leaves_leases_alone_and_a_stop_ends_them),
        cmocka_unit_test(no_lease_begins_beside_a_stop),
        cmocka_unit_test(a_lane_that_goes_leaves_its_count_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
