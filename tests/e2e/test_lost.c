/* SPDX-License-Identifier: Apache-2.0
 *
 * A device process dies: which jobs outlive it, which are lost and say so, and what became of memory. One thread; every
 * wait is bounded.
 */
#include "loss.h"

#include <signal.h>
#include <string.h>

static const struct gm_request *nop(void)
{
    static struct gm_request request;

    request = gm_request("nop", GM_NO_ELEMENT, 0);
    return &request;
}

static void jobs_that_did_not_start_outlive_their_device_process(void **state)
{
    enum { JOBS = 500 }; /* more than the lane holds: the rest waits in the daemon */
    static struct gm_job jobs[JOBS];
    struct daemon *const d = *state;
    struct gm_client *const client = daemon_open(d);
    const pid_t device = device_pid(client);

    memset(jobs, 0, sizeof jobs);
    freeze_device(client, device);
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(GM_OK, gm_submit(client, nop(), &jobs[i]));
    assert_int_equal(GM_OK, gm_ping(client, in_ms(20000)));
    kill(device, SIGKILL);
    assert_int_equal(0, wait_for_all(client, jobs, JOBS));
    assert_device_came_back(client, device, 1);
    gm_close(client);
}

static void device_killed_under_load_loses_no_answer(void **state)
{
    enum { JOBS = 1000 };
    static struct gm_job jobs[JOBS];
    static const uint32_t numbers[1024] = {1};
    struct daemon *const d = *state;
    struct gm_client *const client = daemon_open(d);
    const pid_t device = device_pid(client);
    struct gm_request sum = gm_request("sum", GM_U32, 1024);
    struct gm_result result;

    memset(jobs, 0, sizeof jobs);
    sum.in[0] = gm_in_memory(numbers, sizeof numbers);
    int submitted = 0;
    while (submitted < JOBS) {
        if (submitted == JOBS / 2)
            kill(device, SIGKILL);
        const int rc = gm_submit(client, &sum, &jobs[submitted]);
        submitted += rc == GM_OK;
        assert_true(rc == GM_OK || rc == GM_EBUSY);
        assert_int_equal(GM_OK, gm_poll(client));
    }
    assert_true(wait_for_all(client, jobs, JOBS) < JOBS / 2); /* only those that a worker was in, or about to be */
    for (int i = 0; i < JOBS; i++)
        if (gm_job_result(&jobs[i], &result) == GM_OK)
            assert_int_equal(1, result.value.u64);
    assert_device_came_back(client, device, 1);
    gm_close(client);
}

/* Jobs of op 0 that are in the counts, whatever became of them. */
static uint64_t counted(struct gm_client *client)
{
    return stat_of(client, "ops.0.done") + stat_of(client, "ops.0.failed");
}

/* The dispatcher's counters lag behind what it answers, and it dies at any moment: no job of a lane is missing from
 * them, none is there twice. */
static void device_killed_under_load_counts_every_job_of_a_lane_once(void **state)
{
    enum { WINDOW = 200, TURNS = 40000, ROUNDS = 4 };
    static struct gm_job jobs[WINDOW];
    struct daemon *const d = *state;
    const struct gm_options options = {.socket = d->socket, .lane_only = 1, .deadline_ns = in_ms(20000)};
    struct gm_client *const watcher = daemon_open_without_lanes(d), *client;

    assert_int_equal(GM_OK, gm_open(&options, &client, NULL));
    for (int round = 1; round <= ROUNDS; round++) {
        const pid_t device = device_pid(watcher);
        const uint64_t before = counted(watcher);
        memset(jobs, 0, sizeof jobs);
        for (int i = 0; i < WINDOW; i++)
            assert_int_equal(GM_OK, gm_submit(client, nop(), &jobs[i]));
        for (int i = 0; i < TURNS; i++) {
            if (i == TURNS / 2 + 777 * round)
                kill(device, SIGKILL);
            const int status = gm_wait(client, &jobs[i % WINDOW], in_ms(60000));
            assert_true(status == GM_OK || status == GM_EDEVICELOST);
            assert_int_equal(GM_OK, gm_submit(client, nop(), &jobs[i % WINDOW]));
        }
        wait_for_all(client, jobs, WINDOW);
        assert_device_came_back(watcher, device, (uint64_t)round);
        for (const uint64_t end_ms = now_ms() + 60000;
             counted(watcher) < before + WINDOW + TURNS + 1 && now_ms() < end_ms;)
            sleep_ms(10);
        assert_int_equal(before + WINDOW + TURNS + 1, counted(watcher)); /* one by whoever saw it come back */
    }
    gm_close(client);
    gm_close(watcher);
}

static void device_memory_is_lost_by_name_and_shared_memory_is_not(void **state)
{
    struct daemon *const d = *state;
    struct gm_client *const client = daemon_open(d);
    const pid_t device = device_pid(client);
    struct gm_arena *shared = NULL, *memory = NULL;
    struct gm_request sum = gm_request("sum", GM_U32, 1024);
    struct gm_result result;

    assert_int_equal(GM_OK, gm_arena_create(client, 4096, GM_MEMORY_SHARED, 0, in_ms(20000), &shared));
    assert_int_equal(GM_OK, gm_arena_create(client, 4096, GM_MEMORY_DEVICE, 0, in_ms(20000), &memory));
    for (uint32_t i = 0; i < 1024; i++)
        ((uint32_t *)gm_arena_data(shared))[i] = i;
    kill(device, SIGKILL);
    assert_device_came_back(client, device, 1);
    sum.in[0] = gm_in_arena(shared, 0, 4096);
    assert_int_equal(GM_OK, gm_run(client, &sum, in_ms(20000), &result));
    assert_int_equal(1024 * 1023 / 2, result.value.u64);
    sum.in[0] = gm_in_arena(memory, 0, 4096);
    assert_int_equal(GM_EDEVICELOST, gm_run(client, &sum, in_ms(20000), &result));
    assert_int_equal(GM_OK, gm_arena_free(memory, in_ms(20000)));
    assert_int_equal(GM_OK, gm_arena_create(client, 4096, GM_MEMORY_DEVICE, 0, in_ms(20000), &memory));
    sum.in[0] = gm_in_arena(memory, 0, 4096);
    assert_int_equal(GM_OK, gm_run(client, &sum, in_ms(20000), &result));
    assert_int_equal(0, result.value.u64);
    gm_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(jobs_that_did_not_start_outlive_their_device_process, daemon_setup_to_freeze,
                                        daemon_teardown),
        cmocka_unit_test_setup_teardown(device_killed_under_load_loses_no_answer, daemon_setup, daemon_teardown),
        cmocka_unit_test_setup_teardown(device_killed_under_load_counts_every_job_of_a_lane_once, daemon_setup,
                                        daemon_teardown),
        cmocka_unit_test_setup_teardown(device_memory_is_lost_by_name_and_shared_memory_is_not, daemon_setup,
                                        daemon_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
