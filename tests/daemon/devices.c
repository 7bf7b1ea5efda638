/* SPDX-License-Identifier: Apache-2.0
 *
 * What clients see of a device that refuses, stops answering or is slow, and of several devices. Test thread and a
 * child daemon.
 */
#include "harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void refused_arena_is_an_error_and_gives_the_quota_back(void **state)
{
    (void)state;
    struct gm_wire_response response;
    daemon_start(&child, "refuse", NULL);
    struct client *c = client_open(&child, false);
    for (int i = 0; i < 50; i++) {
        struct gm_wire_request create = request_of(GM_METHOD_ARENA_CREATE);
        create.u.arena_create.bytes = 32 << 20; /* two of them would be over the budget */
        create.u.arena_create.device_memory = i % 2 != 0;
        client_call(c, &create, &response);
        assert_true(response.failed);
        assert_int_equal(response.problem.code, GM_ENOMEM);
        assert_int_equal(c->passed_fd, -1);
        stats_wait(&child, "daemon.arena_bytes", 0);
    }
    assert_int_equal(stats_u64(&child, "daemon.arenas"), 0);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static void stopped_device_is_unresponsive_and_stats_stay_quick(void **state)
{
    (void)state;
    char text[64];
    daemon_start(&child, "normal", NULL);
    const pid_t device = daemon_device_pid(&child);
    struct client *c = client_open(&child, false);
    process_stop(device);
    client_send_nops(c, 1000);
    uint64_t fastest = UINT64_MAX; /* a busy machine is not to be taken for a slow daemon */
    const uint64_t until = now_ms() + GM_PING_KILL_MS; /* when it is killed for it */
    do {
        const uint64_t before = now_ms();
        stats_text(&child, "devices.0.state", text, sizeof text);
        if (now_ms() - before < fastest)
            fastest = now_ms() - before;
        sleep_ms(50);
    } while (strcmp(text, "unresponsive") != 0 && now_ms() < until);
    assert_string_equal(text, "unresponsive");
    assert_true(fastest <= 100);
    assert_int_equal(stats_u64(&child, "daemon.healthy"), 0);
    assert_true(stats_u64(&child, "devices.0.ping_ms") >= 3000);
    stats_add_up(&child);
    kill(device, SIGCONT);
    assert_int_equal(client_receive_done(c, 1000, GM_OK), 1000);
    stats_wait(&child, "daemon.healthy", 1);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static void shared_arena_comes_with_its_descriptor_and_is_sealed(void **state)
{
    (void)state;
    struct gm_wire_response response;
    uint64_t handle = 0, bytes = 0;
    struct gm_problem problem;
    daemon_start(&child, "normal", NULL);
    struct client *c = client_open(&child, false);
    struct gm_wire_request create = request_of(GM_METHOD_ARENA_CREATE);
    create.u.arena_create.bytes = 5000;
    client_call(c, &create, &response);
    assert_int_equal(gm_wire_result_u64(&response, "arena", &handle, &problem), GM_OK);
    assert_int_equal(gm_wire_result_u64(&response, "bytes", &bytes, &problem), GM_OK);
    assert_int_equal(bytes, 8192);
    assert_true(c->passed_fd >= 0);
    assert_int_equal(ftruncate(c->passed_fd, 0), -1);
    assert_int_equal(ftruncate(c->passed_fd, 1 << 20), -1);
    struct gm_wire_request release = request_of(GM_METHOD_ARENA_FREE);
    release.u.arena_free.arena = (uint32_t)handle;
    client_call(c, &release, &response);
    assert_false(response.failed);
    release.id = 0;
    client_call(c, &release, &response);
    assert_int_equal(response.problem.code, GM_ESTALE);
    assert_int_equal(stats_u64(&child, "daemon.arenas"), 0);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static void wraps_of_position_and_lap_are_crossed(void **state)
{
    (void)state;
    /* The lap is 32 bits: position 2^44 - 10000 has lap 2^32 - 2 and less than three laps to go. */
    setenv("GRIDMILL_LANE_START", "17592186034416", 1);
    daemon_start(&child, "normal", NULL);
    setenv("GRIDMILL_LANE_START", "18446744073709541616", 1); /* 2^64 - 10000 */
    struct client *c = client_open(&child, false);
    for (int round = 0; round < 2; round++) {
        for (int sent = 0; sent < 20000; sent += 500) {
            client_send_nops(c, 500);
            assert_int_equal(client_receive_done(c, 500, GM_OK), 500);
        }
        client_close(c);
        assert_int_equal(daemon_stop(&child), 0);
        if (round == 0) {
            daemon_start(&child, "normal", NULL);
            c = client_open(&child, false);
        }
    }
    unsetenv("GRIDMILL_LANE_START");
}

static void a_job_that_lasts_does_not_hold_up_the_lane(void **state)
{
    (void)state;
    struct gm_wire_response response;
    daemon_start(&child, "first", NULL);
    struct client *slow = client_open(&child, false), *quick = client_open(&child, false);
    client_send_nops(slow, 1);
    stats_wait(&child, "devices.0.queue_depth", 1);
    for (int sent = 0; sent < 20000; sent += 500) { /* nearly five laps of the lane */
        client_send_nops(quick, 500);
        assert_int_equal(client_receive_done(quick, 500, GM_OK), 500);
    }
    assert_int_equal(stats_u64(&child, "devices.0.queue_depth"), 1);
    struct gm_wire_request cancel = request_of(GM_METHOD_CANCEL);
    cancel.u.cancel.id = 2;
    client_send(slow, &cancel);
    assert_true(client_receive(slow, &response));
    assert_true(client_receive(slow, &response));
    stats_wait(&child, "devices.0.cancelled", 1);
    client_close(slow), client_close(quick);
    assert_int_equal(daemon_stop(&child), 0);
}

static void several_devices_share_the_work_and_one_death_is_not_the_others(void **state)
{
    (void)state;
    static const char *const three[] = {"--device", "cpu", "--device", "cpu:2", "--device", "cpu", NULL};
    struct gm_wire_response response;
    struct gm_problem problem;
    struct gm_wire_done done;
    uint64_t handle = 0;
    daemon_start(&child, "slow", three);
    struct client *c = client_open(&child, false);
    pid_t device[3];
    for (int i = 0; i < 3; i++) { /* while they stand, a queue is as long as what it was given */
        char path[32];
        snprintf(path, sizeof path, "devices.%d.pid", i);
        process_stop(device[i] = (pid_t)stats_u64(&child, path));
    }
    client_send_nops(c, 300);
    stats_wait(&child, "devices.0.submitted", 100); /* the shortest queue gets the next job */
    stats_wait(&child, "devices.1.submitted", 100);
    stats_wait(&child, "devices.2.submitted", 100);
    for (int i = 0; i < 3; i++)
        kill(device[i], SIGCONT);
    assert_int_equal(client_receive_done(c, 300, GM_OK), 300);
    struct gm_wire_request named = request_nop();
    named.u.submit.has_device = true, named.u.submit.device = 2;
    client_call(c, &named, &response);
    assert_int_equal(gm_wire_decode_done(&response, &done, &problem), GM_OK);
    assert_int_equal(done.device, 2);
    named.id = 0, named.u.submit.device = 3;
    client_call(c, &named, &response);
    assert_int_equal(response.problem.code, GM_ENODEVICE);
    struct gm_wire_request create = request_of(GM_METHOD_ARENA_CREATE); /* memory of device 1 draws its jobs there */
    create.u.arena_create.bytes = 4096, create.u.arena_create.device_memory = true;
    create.u.arena_create.has_device = true, create.u.arena_create.device = 1;
    client_call(c, &create, &response);
    assert_int_equal(gm_wire_result_u64(&response, "arena", &handle, &problem), GM_OK);
    struct gm_wire_request sum = request_of(GM_METHOD_SUBMIT);
    sum.u.submit.op = GM_OP_sum, sum.u.submit.args.dtype = GM_DTYPE_f32, sum.u.submit.args.n = 10;
    sum.u.submit.buffers = 1;
    sum.u.submit.buffer[0] = (struct gm_wire_buffer){.place = GM_PLACE_ARENA, .arena = (uint32_t)handle};
    client_call(c, &sum, &response);
    assert_int_equal(gm_wire_decode_done(&response, &done, &problem), GM_OK);
    assert_int_equal(done.device, 1);
    sum.id = 0, sum.u.submit.has_device = true, sum.u.submit.device = 0;
    client_call(c, &sum, &response);
    assert_int_equal(response.problem.code, GM_ENODEVICE);
    struct gm_wire_request dot = sum; /* nothing is lost where two devices that serve have an arena each */
    create.id = 0, create.u.arena_create.device = 2;
    client_call(c, &create, &response);
    assert_int_equal(gm_wire_result_u64(&response, "arena", &handle, &problem), GM_OK);
    dot.id = 0, dot.u.submit.has_device = false, dot.u.submit.op = GM_OP_dot, dot.u.submit.buffers = 2;
    dot.u.submit.buffer[1] = (struct gm_wire_buffer){.place = GM_PLACE_ARENA, .arena = (uint32_t)handle};
    client_call(c, &dot, &response);
    assert_int_equal(response.problem.code, GM_ENODEVICE);
    assert_string_equal(response.problem.field, "in[1].arena");
    kill((pid_t)stats_u64(&child, "devices.1.pid"), SIGKILL);
    stats_wait(&child, "devices.1.restarts", 1);
    assert_int_equal(stats_u64(&child, "devices.0.restarts"), 0);
    assert_int_equal(stats_u64(&child, "devices.2.restarts"), 0);
    sum.id = 0, sum.u.submit.has_device = false;
    client_call(c, &sum, &response);
    assert_int_equal(response.problem.code, GM_EDEVICELOST);
    assert_string_equal(response.problem.field, "in[0].arena");
    client_send_nops(c, 100);
    assert_int_equal(client_receive_done(c, 100, GM_OK), 100);
    client_close(c);
    stats_wait(&child, "daemon.arenas", 0);
    assert_int_equal(daemon_stop(&child), 0);
}

static void spinning_loop_serves_and_goes_to_sleep(void **state)
{
    (void)state;
    static const char *const spin[] = {"--spin-us", "200", NULL};
    daemon_start(&child, "normal", spin);
    struct client *c = client_open(&child, false);
    for (int i = 0; i < 20; i++) {
        client_send_nops(c, 500);
        assert_int_equal(client_receive_done(c, 500, GM_OK), 500);
        sleep_ms(2);
    }
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(refused_arena_is_an_error_and_gives_the_quota_back),
        CASE(stopped_device_is_unresponsive_and_stats_stay_quick),
        CASE(shared_arena_comes_with_its_descriptor_and_is_sealed),
        CASE(a_job_that_lasts_does_not_hold_up_the_lane),
        CASE(several_devices_share_the_work_and_one_death_is_not_the_others),
        CASE(spinning_loop_serves_and_goes_to_sleep),
        CASE(wraps_of_position_and_lap_are_crossed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
