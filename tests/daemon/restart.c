/* SPDX-License-Identifier: Apache-2.0
 *
 * A device process dies, lies or stops answering, and is replaced: which jobs fail and which go on, what becomes of
 * arenas and lanes, when it is enough. Test thread and a child daemon with the fake device.
 */
#include "lane_client.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void out_of_service(const char *reason)
{
    struct gm_wire_request nop = request_nop();
    struct gm_wire_response response;
    struct lane lane;
    stats_wait_text(&child, "devices.0.state", "lost");
    stats_wait_text(&child, "devices.0.reason", "out of service after 5 losses");
    stats_wait_text(&child, "devices.0.reason", reason);
    assert_int_equal(stats_u64(&child, "daemon.healthy"), 0);
    struct client *c = client_open(&child, false);
    client_call(c, &nop, &response);
    assert_true(response.failed);
    assert_int_equal(response.problem.code, GM_EDEVICELOST);
    assert_int_equal(lane_open(c, 0, 0, &lane), GM_EDEVICELOST);
    client_close(c);
    stats_add_up(&child);
}

static void started_job_fails_and_the_queued_ones_run_on_the_next_process(void **state)
{
    (void)state;
    struct gm_wire_response response;
    daemon_start(&child, "once:die", NULL);
    const pid_t first = daemon_device_pid(&child);
    struct client *c = client_open(&child, false);
    client_send_nops(c, 900);
    int failed = 0;
    for (int i = 0; i < 900; i++) {
        assert_true(client_receive(c, &response));
        if (!response.failed)
            continue;
        failed++;
        assert_int_equal(response.id, 4); /* hello, and two jobs before it */
        assert_int_equal(response.problem.code, GM_EDEVICELOST);
        assert_string_equal(response.problem.text, "the device was lost while the job ran");
    }
    assert_int_equal(failed, 1);
    daemon_back(&child, 1);
    assert_int_not_equal(daemon_device_pid(&child), first);
    assert_true(daemon_log_has(&child, "device_lost device=0"));
    assert_true(daemon_log_has(&child, "device_suspect device=0 worker=0 lane=0"));
    assert_true(daemon_log_has(&child, "device_back device=0"));
    assert_int_equal(stats_u64(&child, "devices.0.failed"), 1);
    assert_int_equal(stats_u64(&child, "devices.0.done"), 899 + 5);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static void device_that_keeps_dying_is_out_of_service_with_the_reason(void **state)
{
    (void)state;
    struct gm_wire_response response;
    struct lane lane;
    daemon_start(&child, "die", NULL);
    struct client *c = client_open(&child, false);
    assert_int_equal(lane_open(c, 0, 0, &lane), GM_OK);
    client_send_nops(c, 900);
    int done = 0, started = 0;
    for (int i = 0; i < 900; i++) {
        assert_true(client_receive(c, &response));
        if (!response.failed) {
            done++;
            continue;
        }
        assert_int_equal(response.problem.code, GM_EDEVICELOST);
        started += strcmp(response.problem.text, "the device was lost while the job ran") == 0;
    }
    assert_int_equal(done, 2 * (int)GM_RESTARTS_MAX);
    assert_int_equal(started, GM_RESTARTS_MAX);
    lane_wait_state(&lane, GM_LANE_LOST);
    assert_int_equal(lane.header->reason, GM_EDEVICELOST);
    out_of_service("the device process exited with status 9");
    assert_int_equal(stats_u64(&child, "devices.0.restarts"), GM_RESTARTS_MAX - 1);
    assert_int_equal(lane_close(c, &lane), GM_OK);
    lane_unmap(&lane);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static void completions_in_the_ring_count_although_the_process_is_dead(void **state)
{
    (void)state;
    daemon_start(&child, "once:last", NULL);
    struct client *c = client_open(&child, false);
    client_send_nops(c, 3);
    assert_int_equal(client_receive_done(c, 3, 0), 3);
    daemon_back(&child, 1);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static void broken_control_protocol_loses_the_process(void **state)
{
    (void)state;
    daemon_start(&child, "once:garbage", NULL);
    struct client *c = client_open(&child, false);
    client_send_nops(c, 3);
    assert_int_equal(client_receive_done(c, 3, GM_EDEVICELOST), 2);
    daemon_back(&child, 1);
    assert_true(daemon_log_has(&child, "reason=\"the device process broke the control protocol\""));
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static void killed_process_keeps_what_it_had_not_taken(void **state)
{
    (void)state;
    daemon_start(&child, "once:hang", NULL);
    struct client *c = client_open(&child, false);
    client_send_nops(c, 700); /* some in the lane, some in the queue */
    stats_wait(&child, "devices.0.queue_depth", 700);
    kill(daemon_device_pid(&child), SIGKILL);
    assert_int_equal(client_receive_done(c, 700, 0), 700);
    daemon_back(&child, 1);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static void killed_process_loses_what_it_had_started(void **state)
{
    (void)state;
    daemon_start(&child, "once:hold", NULL);
    struct client *c = client_open(&child, false);
    client_send_nops(c, 10);
    stats_wait(&child, "devices.0.started", 10);
    kill(daemon_device_pid(&child), SIGKILL);
    assert_int_equal(client_receive_done(c, 10, GM_EDEVICELOST), 0);
    daemon_back(&child, 1);
    stats_wait_text(&child, "devices.0.state", "");
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static void unanswered_ping_ends_the_process(void **state)
{
    (void)state;
    daemon_start(&child, "once:deaf", NULL);
    struct client *c = client_open(&child, false);
    const uint64_t start = now_ms();
    client_send_nops(c, 2);
    assert_int_equal(client_receive_done(c, 2, GM_EDEVICELOST), 1);
    assert_true(now_ms() - start >= GM_PING_KILL_MS - GM_PING_DEADLINE_MS); /* a ping may have been on its way */
    daemon_back(&child, 1);
    assert_true(daemon_log_has(&child, "no answer to a ping for"));
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static void failure_to_start_again_counts_as_a_loss(void **state)
{
    (void)state;
    daemon_start(&child, "later:fail", NULL);
    struct client *c = client_open(&child, false);
    client_send_nops(c, 5);
    assert_int_equal(client_receive_done(c, 5, 0), 5);
    kill(daemon_device_pid(&child), SIGKILL);
    out_of_service("the fake device has no luck");
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static uint32_t arena_of(struct client *c, bool device)
{
    struct gm_wire_response response;
    assert_int_equal(client_code(c, request_create("", 4096, device), &response), GM_OK);
    return (uint32_t)response_u64(&response, "arena");
}

static int sum_of(struct client *c, uint32_t arena, char *field)
{
    struct gm_wire_request sum = request_of(GM_METHOD_SUBMIT);
    struct gm_wire_response response;
    sum.u.submit.op = GM_OP_sum, sum.u.submit.args.dtype = GM_DTYPE_f32, sum.u.submit.args.n = 10;
    sum.u.submit.buffers = 1;
    sum.u.submit.buffer[0] = (struct gm_wire_buffer){.place = GM_PLACE_ARENA, .arena = arena};
    client_call(c, &sum, &response);
    memcpy(field, response.problem.field, GM_FIELD_BYTES_MAX);
    return response.failed ? response.problem.code : GM_OK;
}

static void shared_arenas_come_back_and_device_arenas_say_that_they_are_gone(void **state)
{
    (void)state;
    char field[GM_FIELD_BYTES_MAX];
    struct gm_wire_response response;
    daemon_start(&child, "normal", NULL);
    struct client *c = client_open(&child, false);
    const uint32_t shared = arena_of(c, false), device = arena_of(c, true), other = arena_of(c, true);
    struct lane lane;
    assert_int_equal(lane_open(c, 0, 0, &lane), GM_OK);
    assert_int_equal(lane_wait(&lane, lane_put_on(&lane, GM_OP_sum, device, 1)), GM_OK);
    for (uint64_t round = 1; round <= 2; round++) {
        kill(daemon_device_pid(&child), SIGKILL);
        stats_wait(&child, "devices.0.restarts", round);
        assert_int_equal(sum_of(c, shared, field), GM_OK);
        assert_int_equal(sum_of(c, device, field), GM_EDEVICELOST);
        assert_string_equal(field, "in[0].arena");
        assert_int_equal(lane_wait(&lane, lane_put_on(&lane, GM_OP_sum, shared, 1)), GM_OK);
        assert_int_equal(lane_wait(&lane, lane_put_on(&lane, GM_OP_sum, device, 1)), GM_EDEVICELOST);
    }
    struct gm_wire_request release = request_of(GM_METHOD_ARENA_FREE);
    release.u.arena_free.arena = device;
    client_call(c, &release, &response);
    assert_false(response.failed);
    assert_int_equal(sum_of(c, device, field), GM_ESTALE);
    const uint32_t fresh = arena_of(c, true);
    assert_int_equal(sum_of(c, fresh, field), GM_OK);
    assert_int_equal(sum_of(c, other, field), GM_EDEVICELOST);
    assert_int_equal(lane_wait(&lane, lane_put_on(&lane, GM_OP_sum, device, 1)), GM_EARENA);
    lane_unmap(&lane);
    client_close(c);
    stats_wait(&child, "daemon.arenas", 0);
    stats_wait(&child, "daemon.arena_bytes", 0);
    assert_false(daemon_log_has(&child, "arena_drop")); /* no row stayed behind, and none was missing */
    assert_int_equal(daemon_stop(&child), 0);
}

static uint32_t named_of(struct client *c, const char *name, bool device, bool attach)
{
    struct gm_wire_response response;
    const int status = client_code(
        c, attach ? request_by_name(GM_METHOD_ARENA_ATTACH, name) : request_create(name, 4096, device), &response);
    if (status != GM_OK)
        return (uint32_t)-status; /* less than any handle */
    return (uint32_t)response_u64(&response, "arena");
}

static void handles_on_named_arenas_follow_their_memory(void **state)
{
    (void)state;
    char field[GM_FIELD_BYTES_MAX];
    struct gm_wire_response response;
    daemon_start(&child, "normal", NULL);
    struct client *c = client_open(&child, false), *d = client_open(&child, false);
    const uint32_t shared = named_of(c, "shared", false, false), device = named_of(c, "device", true, false);
    const uint32_t shared_too = named_of(d, "shared", false, true), device_too = named_of(d, "device", true, true);
    assert_int_equal(sum_of(d, device_too, field), GM_OK);
    kill(daemon_device_pid(&child), SIGKILL);
    stats_wait(&child, "devices.0.restarts", 1);
    assert_int_equal(sum_of(c, shared, field), GM_OK);
    assert_int_equal(sum_of(d, shared_too, field), GM_OK);
    assert_int_equal(sum_of(c, device, field), GM_EDEVICELOST);
    assert_int_equal(sum_of(d, device_too, field), GM_EDEVICELOST);
    assert_int_equal(named_of(d, "device", true, true), -GM_EDEVICELOST);
    struct gm_wire_request release = request_of(GM_METHOD_ARENA_REMOVE);
    memcpy(release.u.arena_remove.name, "device", sizeof "device");
    client_call(c, &release, &response);
    assert_false(response.failed);
    client_close(d), client_close(c);
    stats_wait(&child, "daemon.arenas", 1); /* the shared one has its name still */
    c = client_open(&child, false);
    assert_int_equal(sum_of(c, named_of(c, "device", true, false), field), GM_OK);
    assert_int_equal(sum_of(c, named_of(c, "shared", false, true), field), GM_OK);
    client_close(c);
    assert_false(daemon_log_has(&child, "arena_drop"));
    assert_int_equal(daemon_stop(&child), 0);
}

static void requests_wait_for_a_device_that_is_coming_back(void **state)
{
    (void)state;
    struct gm_wire_request nop = request_nop();
    daemon_start(&child, "normal", NULL);
    struct client *c = client_open(&child, false);
    const pid_t device = daemon_device_pid(&child);
    process_stop(device);
    lane_ask(c, 0, 0); /* on its way to a process that dies first */
    client_send(c, &nop);
    stats_wait(&child, "devices.0.queue_depth", 1);
    kill(device, SIGKILL);
    int answered = 0;
    for (int i = 0; i < 2; i++) {
        struct gm_wire_response response;
        assert_true(client_receive(c, &response));
        assert_false(response.failed);
        answered += response.id == nop.id;
        assert_int_equal(c->passed_count, response.id == nop.id ? 0 : 3);
        for (uint32_t k = 1; k < c->passed_count; k++)
            close(c->passed[k]);
    }
    assert_int_equal(answered, 1);
    daemon_back(&child, 1);
    client_close(c);
    stats_wait(&child, "devices.0.lanes", 0);
    assert_int_equal(daemon_stop(&child), 0);
}

static void clients_may_leave_and_come_while_the_device_is_coming_back(void **state)
{
    (void)state;
    struct lane lane;
    struct gm_wire_response response;
    struct gm_wire_request cancel = request_of(GM_METHOD_CANCEL), release = request_of(GM_METHOD_ARENA_FREE);
    daemon_start(&child, "later:mute", NULL); /* it takes its time */
    struct client *c = client_open(&child, false), *d = client_open(&child, false);
    const uint32_t shared = arena_of(c, false), device = arena_of(c, true);
    assert_int_equal(lane_open(c, 0, 0, &lane), GM_OK);
    kill(daemon_device_pid(&child), SIGKILL);
    lane_wait_state(&lane, GM_LANE_RECOVERING);
    stats_wait_text(&child, "devices.0.state", "recovering");
    stats_wait_text(&child, "devices.0.reason", "signal 9");
    assert_int_equal(stats_u64(&child, "daemon.healthy"), 0);
    arena_of(c, false); /* is there at once, for jobs that wait */
    client_send_nops(c, 20), client_send_nops(d, 20);
    lane_ask(d, 0, 0);
    stats_wait(&child, "devices.0.queue_depth", 40);
    cancel.u.cancel.id = d->next_id - 2; /* its last job */
    client_send(d, &cancel);
    assert_true(client_receive(d, &response) && client_receive(d, &response));
    assert_int_equal(stats_u64(&child, "devices.0.cancelled"), 1);
    release.u.arena_free.arena = shared;
    client_call(c, &release, &response);
    assert_false(response.failed);
    release.id = 0, release.u.arena_free.arena = device;
    client_call(c, &release, &response);
    assert_false(response.failed);
    client_close(c), client_close(d);
    stats_wait(&child, "devices.0.queue_depth", 0);
    stats_wait(&child, "devices.0.lanes", 0);
    stats_wait(&child, "daemon.arenas", 0);
    stats_wait(&child, "daemon.sessions", 1);
    stats_add_up(&child);
    lane_unmap(&lane);
    assert_int_equal(daemon_stop(&child), 0); /* nothing is left to do */
}

static void sigterm_while_the_device_comes_back_ends_cleanly(void **state)
{
    (void)state;
    static const char *const short_drain[] = {"--drain-ms", "500", NULL};
    struct gm_wire_response response;
    for (int jobs = 0; jobs < 2; jobs++) {
        struct lane lane;
        daemon_start(&child, "later:mute", short_drain);
        struct client *c = client_open(&child, false);
        assert_int_equal(lane_open(c, 0, 0, &lane), GM_OK);
        kill(daemon_device_pid(&child), SIGKILL);
        lane_wait_state(&lane, GM_LANE_RECOVERING);
        client_send_nops(c, jobs * 3);
        stats_wait(&child, "devices.0.queue_depth", (uint64_t)jobs * 3u);
        kill(child.pid, SIGTERM);
        for (int i = 0; i < jobs * 3; i++) {
            assert_true(client_receive(c, &response));
            assert_int_equal(response.problem.code, GM_EDRAINING);
        }
        lane_wait_state(&lane, GM_LANE_CLOSED);
        assert_int_equal(daemon_wait(&child), jobs != 0 ? 1 : 0);
        lane_unmap(&lane);
        client_close(c);
    }
    daemon_start(&child, "once:hang", NULL); /* when it comes back in time, what was accepted is finished */
    const pid_t device = daemon_device_pid(&child);
    struct client *c = client_open(&child, false);
    client_send_nops(c, 30);
    stats_wait(&child, "devices.0.queue_depth", 30);
    kill(child.pid, SIGTERM);
    kill(device, SIGKILL);
    assert_int_equal(client_receive_done(c, 30, 0), 30);
    assert_int_equal(daemon_wait(&child), 0);
    client_close(c);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(started_job_fails_and_the_queued_ones_run_on_the_next_process),
        CASE(device_that_keeps_dying_is_out_of_service_with_the_reason),
        CASE(completions_in_the_ring_count_although_the_process_is_dead),
        CASE(broken_control_protocol_loses_the_process),
        CASE(killed_process_keeps_what_it_had_not_taken),
        CASE(killed_process_loses_what_it_had_started),
        CASE(unanswered_ping_ends_the_process),
        CASE(failure_to_start_again_counts_as_a_loss),
        CASE(shared_arenas_come_back_and_device_arenas_say_that_they_are_gone),
        CASE(handles_on_named_arenas_follow_their_memory),
        CASE(requests_wait_for_a_device_that_is_coming_back),
        CASE(clients_may_leave_and_come_while_the_device_is_coming_back),
        CASE(sigterm_while_the_device_comes_back_ends_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
