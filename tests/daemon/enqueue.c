/* SPDX-License-Identifier: Apache-2.0
 *
 * The fair queue: order, shares of greedy and polite users, removal from the middle. Single thread; no device.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "daemon.h"
#include "enqueue.h"

static struct gm_daemon *d;
static struct gm_device *v;

static int set_up(void **state)
{
    (void)state;
    d = calloc(1, sizeof *d);
    if (d == NULL)
        return -1;
    v = &d->devices.device[0];
    v->daemon = d;
    gm_list_init(&v->users);
    gm_jobs_init(d);
    for (uint32_t i = 0; i < 8; i++) {
        gm_list_init(&d->users.user[i].flow[0].sessions);
        gm_list_init(&d->sessions.session[i].flow[0].jobs);
        gm_list_init(&d->sessions.session[i].jobs);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(d);
    return 0;
}

static struct gm_job *push(uint32_t session, uint32_t user, uint32_t id, uint32_t cost)
{
    struct gm_job *job = gm_job_new(d, false);
    assert_non_null(job);
    job->session = &d->sessions.session[session];
    job->session->user = &d->users.user[user];
    job->device = v, job->id = id, job->cost = cost;
    gm_enqueue_push(v, job);
    return job;
}

static void one_session_is_first_in_first_out(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 1000; i++)
        push(0, 0, i, 1u + i % 5u * 300u);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(gm_enqueue_next(v)->id, i);
    assert_null(gm_enqueue_next(v));
    assert_int_equal(v->queued, 0);
}

static void polite_session_waits_for_one_quantum_of_a_greedy_one(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 10000; i++)
        push(0, 0, i, 1);
    for (int i = 0; i < 100; i++)
        gm_enqueue_next(v);
    push(1, 1, 77, 1);
    uint32_t before = 0;
    while (gm_enqueue_next(v)->session != &d->sessions.session[1])
        before++;
    assert_true(before <= (uint32_t)GM_QUANTUM);
}

static void many_sessions_of_one_user_get_the_share_of_one_user(void **state)
{
    (void)state;
    uint32_t served[8] = {0};
    for (uint32_t i = 0; i < 2000; i++) {
        for (uint32_t s = 0; s < 7; s++)
            push(s, 0, i, 1); /* seven connections of one user */
        push(7, 1, i, 1);     /* one of another */
    }
    for (uint32_t i = 0; i < 2000; i++) {
        struct gm_job *job = gm_enqueue_next(v);
        served[job->session - d->sessions.session]++;
    }
    assert_in_range(served[7], 1000 - GM_QUANTUM, 1000 + GM_QUANTUM);
    for (uint32_t s = 0; s < 7; s++)
        assert_in_range(served[s], 143 - 2 * GM_QUANTUM, 143 + 2 * GM_QUANTUM);
}

static void large_jobs_are_paid_for(void **state)
{
    (void)state;
    uint64_t cost[2] = {0};
    for (uint32_t i = 0; i < 500; i++)
        push(0, 0, i, GM_COST_MAX);
    for (uint32_t i = 0; i < 12000; i++)
        push(1, 1, i, 1);
    for (uint32_t i = 0; i < 8000; i++) {
        struct gm_job *job = gm_enqueue_next(v);
        cost[job->session - d->sessions.session] += job->cost;
    }
    /* Within one large job of each other. */
    assert_in_range(cost[0], cost[1] - 2 * GM_COST_MAX, cost[1] + 2 * GM_COST_MAX);
}

static void removal_from_the_middle_keeps_order_and_counts(void **state)
{
    (void)state;
    struct gm_job *jobs[300];
    uint64_t random = 11;
    for (uint32_t i = 0; i < 300; i++)
        jobs[i] = push(i % 3u, i % 3u == 2 ? 1 : 0, i, 1);
    uint32_t left = 300;
    bool removed[300] = {false};
    for (uint32_t i = 0; i < 150; i++) {
        const uint32_t at = (uint32_t)(unit_random(&random) % 300u);
        if (removed[at])
            continue;
        gm_enqueue_remove(jobs[at]);
        removed[at] = true;
        left--;
    }
    assert_int_equal(v->queued, left);
    int64_t last[3] = {-1, -1, -1};
    for (struct gm_job *job; (job = gm_enqueue_next(v)) != NULL; left--) {
        assert_false(removed[job->id]);
        assert_true((int64_t)job->id > last[job->id % 3u]);
        last[job->id % 3u] = job->id;
    }
    assert_int_equal(left, 0);
    assert_true(gm_list_empty(&v->users));
}

static void returned_jobs_stand_in_front_in_their_old_order_and_nobody_gets_a_longer_turn(void **state)
{
    (void)state;
    struct gm_job *taken[300];
    for (uint32_t i = 0; i < 400; i++) {
        push(0, 0, i, 1);
        push(1, 1, i, i % 50 == 0 ? GM_COST_MAX : 1);
    }
    for (int i = 0; i < 300; i++)
        taken[i] = gm_enqueue_next(v);
    for (int i = 300; i-- != 0;)
        gm_enqueue_return(v, taken[i]);
    assert_int_equal(v->queued, 800);
    uint32_t next[2] = {0}, turn = 0, longest = 0;
    for (const struct gm_session *last = NULL; next[0] < 400 && next[1] < 400;) {
        struct gm_job *job = gm_enqueue_next(v);
        assert_int_equal(job->id, next[job->session - d->sessions.session]++);
        turn = job->session == last ? turn + 1 : 1;
        last = job->session;
        if (next[0] != 0 && next[1] != 0 && job->session == &d->sessions.session[1])
            longest = turn > longest ? turn : longest;
    }
    assert_true(longest <= 2 * GM_QUANTUM);
}

static void cost_grows_with_bytes_and_is_capped(void **state)
{
    (void)state;
    assert_int_equal(gm_enqueue_cost(0), 1);
    assert_int_equal(gm_enqueue_cost(65535), 1);
    assert_int_equal(gm_enqueue_cost(65536), 2);
    assert_int_equal(gm_enqueue_cost(UINT64_MAX), GM_COST_MAX);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(one_session_is_first_in_first_out),
        CASE(polite_session_waits_for_one_quantum_of_a_greedy_one),
        CASE(many_sessions_of_one_user_get_the_share_of_one_user),
        CASE(large_jobs_are_paid_for),
        CASE(removal_from_the_middle_keeps_order_and_counts),
        CASE(returned_jobs_stand_in_front_in_their_old_order_and_nobody_gets_a_longer_turn),
        CASE(cost_grows_with_bytes_and_is_capped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
