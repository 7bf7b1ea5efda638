/* SPDX-License-Identifier: Apache-2.0
 *
 * Service under stress: stats when everything is full or stuck, devices that die or freeze, cancel, quotas of jobs,
 * arenas in use. The books balance in every snapshot.
 */
#include "harness.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct gm_request *nop(void)
{
    static struct gm_request request;

    request = gm_request("nop", GM_NO_ELEMENT, 0);
    return &request;
}

static bool books_balance(struct gm_client *client)
{
    const uint64_t depth = stat_of(client, "devices.0.queue_depth") - stat_of(client, "devices.0.waiting");
    const uint64_t submitted = stat_of(client, "devices.0.submitted");

    /* Taken from different snapshots, so only while nothing moves. */
    return submitted == stat_of(client, "devices.0.done") + stat_of(client, "devices.0.failed") +
                            stat_of(client, "devices.0.rejected") + stat_of(client, "devices.0.cancelled") + depth;
}

/* The counts of lanes come out when the dispatcher has a moment; then they stand. */
static void assert_books_balance(struct gm_client *client)
{
    const uint64_t end_ms = now_ms() + 20000;

    while (!books_balance(client)) {
        assert_true(now_ms() < end_ms);
        sleep_ms(2);
    }
}

/* One answer in time is enough: a machine may be busy for a while, a daemon that waits for a device is so for ever. */
static bool stats_answer_within(struct gm_client *client, uint64_t ms)
{
    const uint64_t end_ms = now_ms() + 20000;
    bool quick = false;

    while (!quick && now_ms() < end_ms) {
        const uint64_t start_ms = now_ms();
        (void)stat_of(client, "daemon.healthy");
        quick = now_ms() - start_ms < ms;
    }
    return quick;
}

static void stats_answer_while_the_device_is_frozen_and_the_queue_is_full(void **state)
{
    static struct gm_job jobs[GM_PENDING_JOBS];
    struct daemon *const d = *state;
    struct gm_client *const watcher = daemon_open(d), *const client = daemon_open_without_lanes(d);
    const pid_t device = device_pid(watcher);
    struct gm_failure failure;

    memset(jobs, 0, sizeof jobs);
    freeze(device);
    for (uint32_t i = 0; i < GM_PENDING_JOBS; i++)
        assert_int_equal(GM_OK, gm_submit(client, nop(), &jobs[i]));
    /* What did not fit the socket's buffer waits in the client's. */
    while (gm_events(client) & POLLOUT)
        assert_int_equal(GM_OK, gm_poll(client));
    wait_for_stat(watcher, "devices.0.queue_depth", GM_PENDING_JOBS, 20000);
    assert_true(stats_answer_within(watcher, 100));
    assert_books_balance(watcher);
    sleep_ms(20);
    assert_true(stat_of(watcher, "devices.0.oldest_ms") >= 20);
    thaw(device);
    for (uint32_t i = 0; i < GM_PENDING_JOBS; i++) {
        const int status = gm_wait(client, &jobs[i], in_ms(60000));
        gm_job_failure(&jobs[i], &failure);
        if (status != GM_OK)
            fail_msg("job %u: %s", i, failure.text);
    }
    assert_int_equal(0, stat_of(watcher, "devices.0.queue_depth"));
    assert_books_balance(watcher);
    gm_close(client);
    gm_close(watcher);
}

static void one_session_cannot_have_more_jobs_than_its_share(void **state)
{
    struct daemon *const d = *state;
    struct gm_client *const watcher = daemon_open(d);
    const pid_t device = device_pid(watcher);
    struct gm_wire_response response;
    const int fd = raw_session(d);

    /* The library refuses the 1025th itself, so the daemon's own bound is met with raw requests. */
    freeze(device);
    for (uint32_t i = 0; i <= GM_PENDING_JOBS; i++) {
        const struct gm_wire_request request = {.id = 10 + i, .method = GM_METHOD_SUBMIT,
                                                .u.submit = {.op = GM_OP_nop, .dtype = GM_DTYPE_COUNT}};
        uint8_t bytes[256];
        struct gm_wire_out out = {.bytes = bytes, .capacity = sizeof bytes};
        assert_int_equal(GM_OK, gm_wire_encode_request(&out, &request));
        raw_send(fd, bytes, out.size);
    }
    assert_true(raw_receive(fd, 20000, &response));
    assert_int_equal(10 + GM_PENDING_JOBS, response.id);
    assert_true(response.failed);
    assert_int_equal(GM_EBUSY, response.problem.code);
    assert_int_equal(1, stat_of(watcher, "daemon.rejected_busy"));
    thaw(device);
    for (uint32_t i = 0; i < GM_PENDING_JOBS; i++) {
        assert_true(raw_receive(fd, 60000, &response));
        assert_false(response.failed);
    }
    close(fd);
    gm_close(watcher);
}

static void cancelled_job_is_answered_once_and_counted(void **state)
{
    enum { JOBS = 100 };
    static struct gm_job jobs[JOBS];
    struct daemon *const d = *state;
    struct gm_client *const client = daemon_open(d);
    const pid_t device = device_pid(client);
    uint64_t done = 0, cancelled = 0;

    memset(jobs, 0, sizeof jobs);
    freeze(device);
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(GM_OK, gm_submit(client, nop(), &jobs[i]));
    for (int i = 0; i < JOBS; i += 2)
        assert_int_equal(GM_OK, gm_cancel(client, &jobs[i]));
    assert_int_equal(GM_OK, gm_ping(client, in_ms(20000)));
    thaw(device);
    for (int i = 0; i < JOBS; i++) {
        const int status = gm_wait(client, &jobs[i], in_ms(60000));
        assert_true(status == GM_OK || (status == GM_ECANCELLED && i % 2 == 0));
        done += status == GM_OK;
        cancelled += status == GM_ECANCELLED;
    }
    assert_int_equal(JOBS, done + cancelled);
    wait_for_stat(client, "devices.0.queue_depth", 0, 20000);
    wait_for_stat(client, "devices.0.cancelled", cancelled, 20000);
    assert_books_balance(client);
    /* Cancel against completion, many times: never lost, never twice. */
    for (int i = 0; i < 500; i++) {
        assert_int_equal(GM_OK, gm_submit(client, nop(), &jobs[0]));
        const int rc = gm_cancel(client, &jobs[0]);
        assert_true(rc == GM_OK || rc == GM_ENOTFOUND);
        const int status = gm_wait(client, &jobs[0], in_ms(20000));
        assert_true(status == GM_OK || status == GM_ECANCELLED);
    }
    wait_for_stat(client, "devices.0.queue_depth", 0, 20000);
    assert_books_balance(client);
    gm_close(client);
}

static void arena_in_use_is_not_freed(void **state)
{
    struct daemon *const d = *state;
    struct gm_client *const client = daemon_open(d);
    const pid_t device = device_pid(client);
    struct gm_request request = gm_request("sum", GM_U32, 256);
    struct gm_arena *arena;
    struct gm_job job = {0};

    assert_int_equal(GM_OK, gm_arena_create(client, 4096, GM_MEMORY_SHARED, GM_DEVICE_ANY, in_ms(20000), &arena));
    request.in[0] = gm_in_arena(arena, 0, 1024);
    freeze(device);
    assert_int_equal(GM_OK, gm_submit(client, &request, &job));
    const int rc = gm_arena_free(arena, in_ms(1000));
    thaw(device);
    assert_int_equal(GM_EBUSY, rc);
    assert_int_equal(GM_OK, gm_wait(client, &job, in_ms(20000)));
    assert_int_equal(GM_OK, gm_arena_free(arena, in_ms(20000)));
    wait_for_stat(client, "daemon.arenas", 0, 20000);
    gm_close(client);
}

static void arenas_come_and_go_without_a_trace(void **state)
{
    struct daemon *const d = *state;
    struct gm_client *const client = daemon_open(d);
    const pid_t device = device_pid(client);
    struct gm_request request = gm_request("sum", GM_U32, 256);
    struct gm_result result;
    struct gm_arena *arena;
    size_t daemon_fds = 0, device_fds = 0, own_fds = 0;

    for (uint32_t i = 0; i < 200; i++) {
        if (i == 10) { /* what is opened once, by a process or by its sanitizer, is open now */
            daemon_fds = descriptors_of(d->pid);
            device_fds = descriptors_of(device);
            own_fds = descriptors_of(getpid());
        }
        assert_int_equal(GM_OK,
                         gm_arena_create(client, 1 << 20, GM_MEMORY_SHARED, GM_DEVICE_ANY, in_ms(20000), &arena));
        uint32_t *const numbers = gm_arena_data(arena);
        assert_int_equal(0, numbers[255]); /* of nobody before */
        for (uint32_t j = 0; j < 256; j++)
            numbers[j] = i;
        request.in[0] = gm_in_arena(arena, 0, 1024);
        assert_int_equal(GM_OK, gm_run(client, &request, in_ms(20000), &result));
        assert_int_equal(256u * i, result.value.u64);
        assert_int_equal(GM_OK, gm_arena_free(arena, in_ms(20000)));
    }
    assert_int_equal(0, stat_of(client, "daemon.arenas"));
    assert_int_equal(0, stat_of(client, "daemon.arena_bytes"));
    assert_int_equal(daemon_fds, descriptors_of(d->pid));
    assert_in_range(descriptors_of(device), device_fds, device_fds + (SANITIZED ? 4 : 0));
    assert_int_equal(own_fds, descriptors_of(getpid()));
    gm_close(client);
}

static void quota_of_a_user_is_kept(void **state)
{
    struct daemon *const d = *state;
    struct gm_client *const client = daemon_open(d);
    struct gm_arena *first, *second;

    assert_int_equal(GM_OK, gm_arena_create(client, 48 << 20, GM_MEMORY_SHARED, GM_DEVICE_ANY, in_ms(20000), &first));
    assert_int_equal(GM_EQUOTA,
                     gm_arena_create(client, 48 << 20, GM_MEMORY_SHARED, GM_DEVICE_ANY, in_ms(20000), &second));
    assert_int_equal(1, stat_of(client, "daemon.rejected_quota"));
    assert_int_equal(GM_OK, gm_arena_free(first, in_ms(20000)));
    assert_int_equal(GM_OK, gm_arena_create(client, 48 << 20, GM_MEMORY_SHARED, GM_DEVICE_ANY, in_ms(20000), &second));
    gm_close(client);
}

static int setup_with_quota(void **state)
{
    static struct daemon d;

    daemon_init(&d);
    d.arguments[0] = "--quota";
    d.arguments[1] = "64m";
    daemon_start(&d);
    *state = &d;
    return 0;
}

static int teardown_static(void **state)
{
    daemon_stop(*state);
    daemon_remove(*state);
    return 0;
}

/* Every job is answered: it was done, or the device was lost while it ran. How many were lost. */
static int wait_for_all(struct gm_client *client, struct gm_job *jobs, int count)
{
    struct gm_failure failure;
    int lost = 0;

    for (int i = 0; i < count; i++) {
        const int status = gm_wait(client, &jobs[i], in_ms(60000));
        gm_job_failure(&jobs[i], &failure);
        if (status != GM_OK && status != GM_EDEVICELOST)
            fail_msg("job %d: %s", i, failure.text);
        lost += status == GM_EDEVICELOST;
    }
    return lost;
}

/* Another process serves the device, and it is as good as the first. */
static void assert_device_came_back(struct gm_client *client, pid_t before, uint64_t restarts)
{
    wait_for_stat(client, "devices.0.restarts", restarts, 60000);
    wait_for_stat(client, "daemon.healthy", 1, 60000);
    assert_int_equal(GM_OK, gm_run(client, nop(), in_ms(20000), NULL));
    assert_int_not_equal(before, device_pid(client));
    wait_for_stat(client, "devices.0.queue_depth", 0, 20000);
    assert_books_balance(client);
}

static void jobs_that_did_not_start_outlive_their_device_process(void **state)
{
    enum { JOBS = 500 }; /* more than the lane holds: the rest waits in the daemon */
    static struct gm_job jobs[JOBS];
    struct daemon *const d = *state;
    struct gm_client *const client = daemon_open(d);
    const pid_t device = device_pid(client);

    memset(jobs, 0, sizeof jobs);
    freeze(device);
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

static void frozen_device_is_unhealthy_and_then_replaced(void **state)
{
    enum { JOBS = 50 };
    static struct gm_job jobs[JOBS];
    struct daemon *const d = *state;
    struct gm_client *const client = daemon_open(d);
    const pid_t device = device_pid(client);
    char text[STAT_TEXT_BYTES];

    memset(jobs, 0, sizeof jobs);
    assert_int_equal(1, stat_of(client, "daemon.healthy"));
    freeze(device);
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(GM_OK, gm_submit(client, nop(), &jobs[i]));
    wait_for_stat(client, "daemon.healthy", 0, GM_PING_DEADLINE_MS + 20000);
    stat_text(client, "devices.0.state", text);
    assert_string_equal("unresponsive", text);
    assert_int_equal(0, wait_for_all(client, jobs, JOBS));
    assert_device_came_back(client, device, 1);
    gm_close(client);
}

/* False: it is out of service. */
static bool comes_back(struct gm_client *client, uint64_t restarts)
{
    const uint64_t end_ms = now_ms() + 60000;
    char state[STAT_TEXT_BYTES];

    for (;;) {
        stat_text(client, "devices.0.state", state);
        if (strcmp(state, "lost") == 0)
            return false;
        if (stat_of(client, "devices.0.restarts") == restarts && stat_of(client, "daemon.healthy") == 1)
            return true;
        if (now_ms() > end_ms)
            fail_msg("the device is %s after %u losses", state, (uint32_t)restarts);
        sleep_ms(2);
    }
}

static void device_that_keeps_failing_is_taken_out_of_service(void **state)
{
    struct daemon *const d = *state;
    struct gm_client *const client = daemon_open(d);
    const uint64_t start_ms = now_ms();
    uint32_t kills = 0;
    char text[STAT_TEXT_BYTES];

    /* On a slow machine the first of them may be out of the window when the last one comes. */
    do {
        kill(device_pid(client), SIGKILL);
        kills++;
    } while (comes_back(client, kills));
    assert_true(kills >= GM_RESTARTS_MAX);
    assert_true(kills == GM_RESTARTS_MAX || now_ms() - start_ms > GM_RESTART_WINDOW_MS);
    stat_text(client, "devices.0.reason", text);
    assert_true(text[0] != '\0');
    assert_int_equal(0, stat_of(client, "daemon.healthy"));
    assert_int_equal(GM_EDEVICELOST, gm_run(client, nop(), in_ms(20000), NULL));
    assert_books_balance(client);
    gm_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(stats_answer_while_the_device_is_frozen_and_the_queue_is_full, daemon_setup,
                                        daemon_teardown),
        cmocka_unit_test_setup_teardown(one_session_cannot_have_more_jobs_than_its_share, daemon_setup,
                                        daemon_teardown),
        cmocka_unit_test_setup_teardown(cancelled_job_is_answered_once_and_counted, daemon_setup, daemon_teardown),
        cmocka_unit_test_setup_teardown(arena_in_use_is_not_freed, daemon_setup, daemon_teardown),
        cmocka_unit_test_setup_teardown(arenas_come_and_go_without_a_trace, daemon_setup, daemon_teardown),
        cmocka_unit_test_setup_teardown(quota_of_a_user_is_kept, setup_with_quota, teardown_static),
        cmocka_unit_test_setup_teardown(jobs_that_did_not_start_outlive_their_device_process, daemon_setup,
                                        daemon_teardown),
        cmocka_unit_test_setup_teardown(device_killed_under_load_loses_no_answer, daemon_setup, daemon_teardown),
        cmocka_unit_test_setup_teardown(device_memory_is_lost_by_name_and_shared_memory_is_not, daemon_setup,
                                        daemon_teardown),
        cmocka_unit_test_setup_teardown(frozen_device_is_unhealthy_and_then_replaced, daemon_setup, daemon_teardown),
        cmocka_unit_test_setup_teardown(device_that_keeps_failing_is_taken_out_of_service, daemon_setup,
                                        daemon_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
