/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries of users, and whose turn it is to be read. Single thread; no connection.
 */
#include "unit.h"

#include <stdlib.h>

#include "daemon.h"

static struct gm_daemon *d;

static int set_up(void **state)
{
    (void)state;
    d = calloc(1, sizeof *d);
    return d == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(d);
    return 0;
}

static void comes(struct gm_user *user)
{
    user->sessions++;
}

static void goes(struct gm_user *user)
{
    user->sessions--;
    gm_user_settle(d, user);
}

static void who_has_something_keeps_his_entry_whoever_comes(void **state)
{
    (void)state;
    struct gm_user *stays = gm_user_of(d, 7), *left = gm_user_of(d, 8), *last;
    comes(stays), comes(left);
    stays->counted.done = 3, left->counted.done = 5;
    goes(left);
    assert_ptr_equal(gm_user_of(d, 8), left);
    assert_int_equal(left->counted.done, 5); /* he comes back */
    for (uint32_t uid = 1000; uid < 1000 + 2 * GM_USERS_MAX; uid++) {
        comes(last = gm_user_of(d, uid));
        assert_int_equal(last->counted.done, 0);
        last->counted.done = uid;
        assert_int_equal(gm_users_count(d), 2);
        goes(last);
    }
    assert_int_equal(d->users.high, GM_USERS_MAX);
    assert_ptr_equal(gm_user_of(d, 7), stays);
    assert_int_equal(stays->counted.done, 3);
    assert_int_equal(gm_user_of(d, 999 + 2 * GM_USERS_MAX)->counted.done, 999 + 2 * GM_USERS_MAX);
    assert_int_equal(gm_user_of(d, 8)->counted.done, 0); /* of all that left he did so first */
}

static void every_user_that_can_be_has_an_entry(void **state)
{
    (void)state;
    for (uint32_t uid = 0; uid < GM_USERS_MAX; uid++) {
        struct gm_user *user = gm_user_of(d, uid);
        if (uid < GM_ARENAS_MAX)
            user->named++;
        else
            comes(user);
    }
    assert_int_equal(gm_users_count(d), GM_USERS_MAX);
    for (uint32_t uid = 0; uid < GM_USERS_MAX; uid++)
        assert_int_equal(gm_user_of(d, uid)->uid, uid);
}

#define SESSIONS 40u

/* Each has always something to be read, of this cost. */
static void turns_of(uint32_t cost)
{
    struct gm_user *greedy = gm_user_of(d, 1), *polite = gm_user_of(d, 2);
    uint64_t round[SESSIONS] = {0}, other = 0;
    uint32_t reads[SESSIONS] = {0};
    const uint32_t turns = 100 * SESSIONS;
    for (uint32_t t = 0; t < turns; t++) {
        uint32_t spent = 0;
        d->turn++;
        for (uint32_t i = 0; i < SESSIONS; i++) /* in the same order every time */
            if (gm_user_may_read(d, greedy, &round[i]))
                reads[i]++, greedy->spent += cost, spent += cost;
        assert_true(spent < GM_USER_TURN + cost);
        assert_true(gm_user_may_read(d, polite, &other)); /* he has his turn whatever the others do */
        polite->spent++;
    }
    for (uint32_t i = 0; i < SESSIONS; i++) {
        assert_true(reads[i] + 1 >= reads[0] && reads[i] <= reads[0]);
        assert_true(reads[i] >= 90);
    }
}

static void connections_of_a_user_take_turns_and_others_do_not_wait(void **state)
{
    (void)state;
    static const uint32_t costs[] = {1, GM_USER_TURN / SESSIONS, GM_USER_TURN / 3, GM_USER_TURN, 100 * GM_USER_TURN};
    for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++)
        turns_of(costs[i]);
}

static void one_that_was_put_off_and_left_holds_up_nobody(void **state)
{
    (void)state;
    struct gm_user *user = gm_user_of(d, 1);
    uint64_t first = 0, second = 0;
    d->turn++;
    assert_true(gm_user_may_read(d, user, &first));
    user->spent += GM_USER_TURN;
    assert_false(gm_user_may_read(d, user, &second));
    d->turn++; /* the second one is gone */
    assert_false(gm_user_may_read(d, user, &first));
    d->turn++;
    assert_true(gm_user_may_read(d, user, &first));
}

static void new_connections_are_read_after_those_that_were_there(void **state)
{
    (void)state;
    struct gm_user *user = gm_user_of(d, 1);
    uint64_t old = gm_user_round_begun(user);
    uint32_t reads = 0;
    d->turn++;
    assert_true(gm_user_may_read(d, user, &old)); /* a first one does not wait */
    for (uint32_t t = 0; t < 100; t++) { /* in every turn two are new, with more to be read than one turn takes */
        uint64_t first = gm_user_round_begun(user), second = gm_user_round_begun(user);
        d->turn++;
        if (gm_user_may_read(d, user, &first))
            user->spent += GM_USER_TURN;
        assert_false(gm_user_may_read(d, user, &second));
        reads += gm_user_may_read(d, user, &old); /* it stands behind them in every turn */
    }
    assert_int_equal(reads, 50); /* one turn is theirs, and one is its own */
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(who_has_something_keeps_his_entry_whoever_comes),
        CASE(every_user_that_can_be_has_an_entry),
        CASE(connections_of_a_user_take_turns_and_others_do_not_wait),
        CASE(one_that_was_put_off_and_left_holds_up_nobody),
        CASE(new_connections_are_read_after_those_that_were_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
