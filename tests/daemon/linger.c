/* SPDX-License-Identifier: Apache-2.0
 *
 * When the loop stays awake for the next request, with a clock of the test's own.
 */
#include "linger.h"

#include "unit.h"

#define LIMIT 30000u

/* A loop that answers at once and has nothing to do then: a request comes gap after the last answer. */
struct world {
    struct gm_linger linger;
    uint64_t now, frames;
};

static bool request_after(struct world *w, uint64_t gap)
{
    w->now += gap;
    gm_linger_frames(&w->linger, ++w->frames, w->now, LIMIT);
    w->now += 5000;
    return gm_linger_stays(&w->linger, w->now, LIMIT);
}

/* Another turn, in which nothing came. */
static bool turn_after(struct world *w, uint64_t gap)
{
    w->now += gap;
    gm_linger_frames(&w->linger, w->frames, w->now, LIMIT);
    return gm_linger_stays(&w->linger, w->now, LIMIT);
}

static struct world world_awake(void)
{
    struct world w = {.now = 1000000000};
    assert_false(request_after(&w, 0));
    for (uint32_t i = 1; i < GM_LINGER_CLOSE; i++)
        assert_false(request_after(&w, 10000));
    assert_true(request_after(&w, 10000));
    return w;
}

static void close_requests_keep_the_loop_awake_for_the_next(void **state)
{
    (void)state;
    struct world w = world_awake();
    for (int i = 0; i < 1000; i++) {
        assert_true(turn_after(&w, 9000));
        assert_true(request_after(&w, 20999)); /* just in time */
    }
}

static void it_ends_by_itself_and_stays_ended(void **state)
{
    (void)state;
    struct world w = world_awake();
    assert_true(turn_after(&w, LIMIT - 1));
    assert_false(turn_after(&w, 1));
    for (int i = 0; i < 1000; i++)
        assert_false(turn_after(&w, 1000000));
}

static void late_request_needs_as_many_close_ones_again(void **state)
{
    (void)state;
    struct world w = world_awake();
    assert_false(turn_after(&w, LIMIT));
    assert_false(request_after(&w, 1));
    for (uint32_t i = 1; i < GM_LINGER_CLOSE; i++)
        assert_false(request_after(&w, 10000));
    assert_true(request_after(&w, 10000));
}

static void request_now_and_then_never_keeps_it_awake(void **state)
{
    (void)state;
    struct world w = {.now = 1};
    for (int i = 0; i < 1000; i++) {
        assert_false(request_after(&w, 1000000));
        assert_false(turn_after(&w, 1000));
    }
}

/* Requests that come while jobs are in flight say nothing about how long the loop would have slept. */
static void requests_behind_each_other_without_rest_are_not_counted(void **state)
{
    (void)state;
    struct world w = {.now = 1};
    for (int i = 0; i < 1000; i++)
        gm_linger_frames(&w.linger, ++w.frames, ++w.now, LIMIT);
    assert_false(gm_linger_stays(&w.linger, w.now, LIMIT));
    for (uint32_t i = 1; i < GM_LINGER_CLOSE; i++)
        assert_false(request_after(&w, 1));
    assert_true(request_after(&w, 1));
}

/* Where spinning is not wanted the limit is 0. */
static void limit_of_nothing_never_keeps_it_awake(void **state)
{
    (void)state;
    struct gm_linger linger = {0};
    for (uint64_t i = 1; i < 1000; i++) {
        gm_linger_frames(&linger, i, i, 0);
        assert_false(gm_linger_stays(&linger, i, 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(close_requests_keep_the_loop_awake_for_the_next),
        cmocka_unit_test(it_ends_by_itself_and_stays_ended),
        cmocka_unit_test(late_request_needs_as_many_close_ones_again),
        cmocka_unit_test(request_now_and_then_never_keeps_it_awake),
        cmocka_unit_test(requests_behind_each_other_without_rest_are_not_counted),
        cmocka_unit_test(limit_of_nothing_never_keeps_it_awake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
