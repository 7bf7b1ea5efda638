/* SPDX-License-Identifier: Apache-2.0
 *
 * Service under stress: stats when everything is full or stuck, cancel, quotas of jobs, arenas in use. The books
 * balance in every snapshot.
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
    freeze_device(watcher, device);
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
    freeze_device(watcher, device);
    for (uint32_t i = 0; i <= GM_PENDING_JOBS; i++) {
        const struct gm_wire_request request = {
            .id = 10 + i, .method = GM_METHOD_SUBMIT, .u.submit = {.op = GM_OP_nop}};
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
    freeze_device(client, device);
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
    freeze_device(client, device);
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
    const uint32_t times = on_gpu() ? 60 : 200; /* there each free waits for the next pause */

    wait_for_stat(client, "devices.0.lanes", (uint64_t)gm_lanes(client), 20000);
    for (uint32_t i = 0; i < times; i++) {
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

static void zeros_are_summed(struct gm_client *client)
{
    struct gm_arena *arena;
    struct gm_result result;

    assert_int_equal(GM_OK, gm_arena_create(client, 4096, GM_MEMORY_SHARED, GM_DEVICE_ANY, in_ms(20000), &arena));
    struct gm_request sum = gm_request("sum", GM_F32, 1024);
    sum.in[0] = gm_in_arena(arena, 0, 4096);
    assert_int_equal(GM_OK, gm_run(client, &sum, in_ms(20000), &result));
    assert_int_equal(GM_OK, gm_arena_free(arena, in_ms(20000)));
}

static void whoever_gets_no_lane_goes_by_the_socket(void **state)
{
    struct daemon *const d = *state;
    struct gm_client *const watcher = daemon_open_without_lanes(d);

    wait_for_stat(watcher, "users.0.lanes", 0, 20000); /* that of the start */
    const uint64_t refused = stat_of(watcher, "users.0.refused");
    struct gm_client *const client = daemon_open(d), *const other = daemon_open(d);
    assert_int_equal(1, gm_lanes(client));
    assert_int_equal(0, gm_lanes(other)); /* a user may have one */
    assert_int_equal(refused + 1, stat_of(client, "users.0.refused"));
    const uint64_t by_socket = stat_of(client, "users.0.done"), answered = stat_of(client, "users.0.lane_answered");
    zeros_are_summed(client);
    assert_int_equal(by_socket, stat_of(client, "users.0.done"));
    zeros_are_summed(other);
    assert_int_equal(by_socket + 1, stat_of(client, "users.0.done"));
    gm_close(client);
    wait_for_stat(other, "users.0.lanes", 0, 20000);
    struct gm_client *const next = daemon_open(d); /* there is room again */
    assert_int_equal(1, gm_lanes(next));
    zeros_are_summed(next);
    zeros_are_summed(other); /* which stays as it is */
    assert_int_equal(by_socket + 2, stat_of(next, "users.0.done"));
    wait_for_stat(next, "users.0.lane_answered", answered + 2, 20000); /* of the lane that is gone, too */
    gm_close(next);
    gm_close(other);
    gm_close(watcher);
}

static int setup_with(void **state, const char *option, const char *value)
{
    static struct daemon d;

    daemon_init(&d);
    d.arguments[0] = option;
    d.arguments[1] = value;
    daemon_start(&d);
    *state = &d;
    return 0;
}

static int setup_with_quota(void **state)
{
    return setup_with(state, "--quota", "64m");
}

static int setup_with_one_lane(void **state)
{
    return setup_with(state, "--user-lanes", "1");
}

static int teardown_static(void **state)
{
    daemon_stop(*state);
    daemon_remove(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(stats_answer_while_the_device_is_frozen_and_the_queue_is_full,
                                        daemon_setup_to_freeze, daemon_teardown),
        cmocka_unit_test_setup_teardown(one_session_cannot_have_more_jobs_than_its_share, daemon_setup_to_freeze,
                                        daemon_teardown),
        cmocka_unit_test_setup_teardown(cancelled_job_is_answered_once_and_counted, daemon_setup_to_freeze,
                                        daemon_teardown),
        cmocka_unit_test_setup_teardown(arena_in_use_is_not_freed, daemon_setup_to_freeze, daemon_teardown),
        cmocka_unit_test_setup_teardown(arenas_come_and_go_without_a_trace, daemon_setup, daemon_teardown),
        cmocka_unit_test_setup_teardown(quota_of_a_user_is_kept, setup_with_quota, teardown_static),
        cmocka_unit_test_setup_teardown(whoever_gets_no_lane_goes_by_the_socket, setup_with_one_lane, teardown_static),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
