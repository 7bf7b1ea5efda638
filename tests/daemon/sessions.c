/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits, quotas, cancels and departures of clients of the real daemon. Test thread and a child daemon.
 */
#include "harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void jobs_over_the_limit_of_a_session_are_busy_and_others_are_not(void **state)
{
    (void)state;
    struct gm_wire_response response;
    daemon_start(&child, "hang", NULL);
    struct client *c = client_open(&child, false);
    client_send_nops(c, GM_INFLIGHT_PER_SESSION_MAX + 5);
    for (int i = 0; i < 5; i++) {
        assert_true(client_receive(c, &response));
        assert_true(response.failed);
        assert_int_equal(response.problem.code, GM_EBUSY);
        assert_int_equal(response.id, GM_INFLIGHT_PER_SESSION_MAX + 2 + (uint32_t)i);
    }
    assert_int_equal(stats_u64(&child, "daemon.rejected_busy"), 5);
    struct client *other = client_open(&child, false);
    client_send_nops(other, 1);
    stats_wait(&child, "devices.0.queue_depth", GM_INFLIGHT_PER_SESSION_MAX + 1);
    stats_add_up(&child);
    client_close(c), client_close(other);
    stats_wait(&child, "devices.0.queue_depth", 0);
    assert_int_equal(stats_u64(&child, "devices.0.cancelled"), GM_INFLIGHT_PER_SESSION_MAX + 1);
    stats_add_up(&child);
    assert_int_equal(daemon_stop(&child), 0);
}

static void clients_may_leave_at_any_moment(void **state)
{
    (void)state;
    daemon_start(&child, "slow", NULL);
    const uint64_t fds = stats_u64(&child, "daemon.fds");
    for (int i = 0; i < 60; i++) {
        struct client *c = client_open(&child, false);
        struct gm_wire_request create = request_of(GM_METHOD_ARENA_CREATE);
        create.u.arena_create.bytes = 1 << 16;
        create.u.arena_create.device_memory = i % 3 == 0;
        client_send(c, &create);
        client_send_nops(c, i % 7);
        if (i % 2 != 0)
            sleep_ms((unsigned)(i % 5));
        client_close(c);
    }
    stats_wait(&child, "devices.0.queue_depth", 0);
    stats_wait(&child, "daemon.arenas", 0);
    stats_wait(&child, "daemon.arena_bytes", 0);
    stats_wait(&child, "daemon.sessions", 1);
    stats_wait(&child, "daemon.fds", fds);
    stats_add_up(&child);
    assert_int_equal(daemon_stop(&child), 0);
}

static void cancel_answers_both_requests_once(void **state)
{
    (void)state;
    struct gm_wire_response response;
    daemon_start(&child, "hang", NULL);
    struct client *c = client_open(&child, false);
    client_send_nops(c, 700); /* ids 2 .. 701: the first ones are in the lane, the last ones in the queue */
    stats_wait(&child, "devices.0.queue_depth", 700);
    static const uint32_t victims[] = {2, 701, 300, 650};
    for (size_t i = 0; i < 4; i++) {
        struct gm_wire_request cancel = request_of(GM_METHOD_CANCEL);
        cancel.u.cancel.id = victims[i];
        client_send(c, &cancel);
        bool job = false, answered = false;
        for (int k = 0; k < 2; k++) {
            assert_true(client_receive(c, &response));
            if (response.id == victims[i]) {
                assert_int_equal(response.problem.code, GM_ECANCELLED);
                assert_false(job);
                job = true;
            } else {
                assert_int_equal(response.id, cancel.id);
                assert_false(response.failed);
                answered = true;
            }
        }
        assert_true(job && answered);
        cancel.id = 0; /* again: it is gone */
        client_call(c, &cancel, &response);
        assert_int_equal(response.problem.code, GM_ENOTFOUND);
    }
    assert_int_equal(stats_u64(&child, "devices.0.cancelled"), 4);
    assert_int_equal(stats_u64(&child, "devices.0.queue_depth"), 696);
    stats_add_up(&child);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static void arenas_are_admitted_against_quota_and_budget(void **state)
{
    (void)state;
    static const char *const args[] = {"--quota", "40m", NULL};
    struct gm_wire_response response;
    daemon_start(&child, "normal", args); /* the budget is 64 MiB */
    struct client *c = client_open(&child, false);
    struct gm_wire_request create = request_of(GM_METHOD_ARENA_CREATE);
    create.u.arena_create.bytes = 40 << 20;
    client_call(c, &create, &response);
    assert_false(response.failed);
    create.id = 0, create.u.arena_create.bytes = 1;
    client_call(c, &create, &response);
    assert_int_equal(response.problem.code, GM_EQUOTA);
    create.id = 0, create.u.arena_create.bytes = (40 << 20) + 4096; /* waiting would not help */
    client_call(c, &create, &response);
    assert_int_equal(response.problem.code, GM_ESIZE);
    assert_string_equal(response.problem.field, "bytes");
    assert_string_equal(response.problem.text, "41947136 bytes are more than the 41943040 of a user (--quota)");
    create.id = 0, create.u.arena_create.bytes = 0;
    client_call(c, &create, &response);
    assert_int_equal(response.problem.code, GM_ESIZE);
    assert_string_equal(response.problem.field, "bytes");
    create.id = 0, create.u.arena_create.bytes = UINT64_MAX;
    client_call(c, &create, &response);
    assert_int_equal(response.problem.code, GM_ESIZE);
    assert_int_equal(stats_u64(&child, "daemon.rejected_quota"), 2);
    client_close(c); /* with its arena: the quota comes back */
    stats_wait(&child, "daemon.arena_bytes", 0);
    assert_int_equal(daemon_stop(&child), 0);
    static const char *const budget[] = {"--quota", "1g", "--user-memory", "1g", NULL};
    daemon_start(&child, "normal", budget);
    c = client_open(&child, false);
    create.id = 0, create.u.arena_create.bytes = (64 << 20) + 4096;
    client_call(c, &create, &response);
    assert_int_equal(response.problem.code, GM_ESIZE);
    assert_string_equal(response.problem.text, "67112960 bytes are more than the 67108864 of all (--memory)");
    create.id = 0, create.u.arena_create.device_memory = true; /* not host memory */
    client_call(c, &create, &response);
    assert_false(response.failed);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static struct gm_wire_request request_copy(uint32_t arena, uint64_t in, uint64_t out, uint64_t n)
{
    struct gm_wire_request request = request_of(GM_METHOD_SUBMIT);
    request.u.submit.op = GM_OP_copy, request.u.submit.args.dtype = GM_DTYPE_u32, request.u.submit.args.n = n;
    request.u.submit.buffers = 2;
    request.u.submit.buffer[0] = (struct gm_wire_buffer){.place = GM_PLACE_ARENA, .arena = arena, .offset = in};
    request.u.submit.buffer[1] = (struct gm_wire_buffer){.place = GM_PLACE_ARENA, .arena = arena, .offset = out};
    return request;
}

static void bad_buffers_are_refused_and_named(void **state)
{
    (void)state;
    static const struct {
        uint64_t in, out, n;
        int code;
        const char *field;
    } cases[] = {
        {0, 2048, 512, GM_OK, ""},
        {0, 0, 1024, GM_OK, ""}, /* in place */
        {0, 4, 512, GM_EALIAS, "out[0].offset"},
        {0, 2049, 4, GM_EALIGN, "out[0].offset"},
        {0, 2048, 513, GM_EBOUNDS, "out[0].offset"},
        {4096, 0, 1, GM_EBOUNDS, "in[0].offset"},
        {4096, 4096, 0, GM_OK, ""}, /* nothing, at the very end */
        {UINT64_MAX - 3, 0, 1, GM_EBOUNDS, "in[0].offset"},
        {0, UINT64_MAX - 3, 1, GM_EBOUNDS, "out[0].offset"},
        {0, 0, UINT64_MAX, GM_ESIZE, "n"},
        {0, 0, GM_ELEMENTS_MAX, GM_EBOUNDS, "in[0].offset"},
    };
    struct gm_wire_response response;
    struct gm_problem problem;
    uint64_t handle = 0;
    daemon_start(&child, "normal", NULL);
    struct client *c = client_open(&child, false), *other = client_open(&child, false);
    struct gm_wire_request create = request_of(GM_METHOD_ARENA_CREATE);
    create.u.arena_create.bytes = 4096;
    client_call(c, &create, &response);
    assert_int_equal(gm_wire_result_u64(&response, "arena", &handle, &problem), GM_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gm_wire_request copy = request_copy((uint32_t)handle, cases[i].in, cases[i].out, cases[i].n);
        client_call(c, &copy, &response);
        if ((response.failed ? response.problem.code : GM_OK) != cases[i].code)
            fail_msg("case %zu: %d %s", i, response.problem.code, response.problem.text);
        if (response.failed)
            assert_string_equal(response.problem.field, cases[i].field);
    }
    const uint32_t handles[] = {0, 1, (uint32_t)handle ^ 0x10000u, 0xffffu, UINT32_MAX, (uint32_t)handle + 1};
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++) {
        struct gm_wire_request copy = request_copy(handles[i], 0, 2048, 1);
        client_call(c, &copy, &response);
        assert_int_equal(response.problem.code, GM_EARENA);
        assert_string_equal(response.problem.field, "in[0].arena");
    }
    struct gm_wire_request theft = request_copy((uint32_t)handle, 0, 2048, 1);
    client_call(other, &theft, &response);
    assert_int_equal(response.problem.code, GM_EARENA);
    struct gm_wire_request release = request_of(GM_METHOD_ARENA_FREE);
    release.u.arena_free.arena = (uint32_t)handle;
    client_call(other, &release, &response);
    assert_int_equal(response.problem.code, GM_EARENA);
    client_close(c), client_close(other);
    stats_add_up(&child);
    assert_int_equal(daemon_stop(&child), 0);
}

static void arena_with_a_job_in_flight_is_busy(void **state)
{
    (void)state;
    struct gm_wire_response response;
    struct gm_problem problem;
    uint64_t handle = 0;
    daemon_start(&child, "hang", NULL);
    struct client *c = client_open(&child, false);
    struct gm_wire_request create = request_of(GM_METHOD_ARENA_CREATE);
    create.u.arena_create.bytes = 4096;
    client_call(c, &create, &response);
    assert_int_equal(gm_wire_result_u64(&response, "arena", &handle, &problem), GM_OK);
    struct gm_wire_request copy = request_copy((uint32_t)handle, 0, 2048, 1);
    client_send(c, &copy);
    struct gm_wire_request release = request_of(GM_METHOD_ARENA_FREE);
    release.u.arena_free.arena = (uint32_t)handle;
    client_call(c, &release, &response);
    assert_int_equal(response.problem.code, GM_EBUSY);
    assert_int_equal(stats_u64(&child, "daemon.arenas"), 1);
    client_close(c); /* the job is cancelled, then the arena goes */
    stats_wait(&child, "daemon.arenas", 0);
    assert_int_equal(daemon_stop(&child), 0);
}

static void inline_data_is_bounded_per_session(void **state)
{
    (void)state;
    static float zeros[GM_INLINE_BYTES_MAX / sizeof(float)];
    struct gm_wire_response response;
    daemon_start(&child, "hang", NULL);
    struct client *c = client_open(&child, false);
    int busy = 0;
    for (int i = 0; i < 10; i++) {
        struct gm_wire_request sum = request_sum(zeros, GM_INLINE_BYTES_MAX / sizeof(float));
        client_send(c, &sum);
    }
    for (; busy < 2; busy++) { /* 8 MiB are one session's share */
        assert_true(client_receive(c, &response));
        assert_int_equal(response.problem.code, GM_EBUSY);
    }
    assert_int_equal(stats_u64(&child, "devices.0.queue_depth"), 8);
    struct client *other = client_open(&child, false);
    struct gm_wire_request sum = request_sum(zeros, 1000);
    client_send(other, &sum);
    stats_wait(&child, "devices.0.queue_depth", 9);
    client_close(c), client_close(other);
    stats_wait(&child, "devices.0.queue_depth", 0);
    assert_int_equal(daemon_stop(&child), 0);
}

static void hello_comes_first_and_versions_must_meet(void **state)
{
    (void)state;
    struct gm_wire_response response;
    daemon_start(&child, "normal", NULL);
    struct client *c = client_raw(child.socket);
    struct gm_wire_request nop = request_nop();
    client_call(c, &nop, &response);
    assert_int_equal(response.problem.code, GM_EPROTO);
    assert_false(client_receive(c, &response));
    client_close(c);
    c = client_raw(child.socket);
    struct gm_wire_request hello = request_of(GM_METHOD_HELLO);
    hello.u.hello.version_min = GM_WIRE_VERSION_MAX + 1, hello.u.hello.version_max = GM_WIRE_VERSION_MAX + 9;
    client_call(c, &hello, &response);
    assert_int_equal(response.problem.code, GM_EVERSION);
    assert_false(client_receive(c, &response));
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static void admin_methods_need_the_admin_socket(void **state)
{
    (void)state;
    static const enum gm_method methods[] = {GM_METHOD_DRAIN, GM_METHOD_PAUSE};
    struct gm_wire_response response;
    daemon_start(&child, "normal", NULL);
    struct client *c = client_open(&child, false), *admin = client_open(&child, true);
    for (size_t i = 0; i < 2; i++) {
        struct gm_wire_request request = request_of(methods[i]);
        client_call(c, &request, &response);
        assert_int_equal(response.problem.code, GM_EPERM);
    }
    struct gm_wire_request pause = request_of(GM_METHOD_PAUSE);
    client_call(admin, &pause, &response);
    assert_false(response.failed);
    pause.id = 0, pause.u.pause.has_device = true, pause.u.pause.device = 3;
    client_call(admin, &pause, &response);
    assert_int_equal(response.problem.code, GM_ENODEVICE);
    client_close(c), client_close(admin);
    assert_int_equal(daemon_stop(&child), 0);
}

/* Lines of the daemon's log with both texts. */
static uint32_t log_lines(const char *text, const char *more)
{
    char line[1024];
    uint32_t count = 0;
    FILE *log = fopen(child.log, "r");
    while (log != NULL && fgets(line, sizeof line, log) != NULL)
        count += strstr(line, text) != NULL && strstr(line, more) != NULL;
    if (log != NULL)
        fclose(log);
    return count;
}

static void out_of_descriptors_served_clients_go_on_and_new_ones_get_in_later(void **state)
{
    (void)state;
    struct rlimit before, few = {64, 64};
    struct client *clients[100];
    struct gm_wire_response response;
    const uint64_t start = now_ms();
    getrlimit(RLIMIT_NOFILE, &before);
    few.rlim_max = before.rlim_max;
    /* The daemon raises the soft limit, so the hard one is set too; root may raise ours again. */
    few.rlim_max = 64;
    daemon_spawn(&child, "normal", NULL);
    assert_int_equal(prlimit(child.pid, RLIMIT_NOFILE, &few, NULL), 0);
    for (const uint64_t until = now_ms() + WAIT_MS; now_ms() < until; sleep_ms(5))
        if ((clients[0] = client_raw(child.socket)) != NULL)
            break;
    assert_int_equal(prlimit(child.pid, RLIMIT_NOFILE, &few, NULL), 0);
    struct gm_wire_request hello = request_of(GM_METHOD_HELLO);
    client_call(clients[0], &hello, &response);
    for (int i = 1; i < 100; i++) {
        clients[i] = client_raw(child.socket);
        assert_non_null(clients[i]);
        hello.id = 0;
        client_send(clients[i], &hello);
    }
    log_wait(&child, "out of file descriptors: new clients wait; failed=1 ");
    for (int i = 0; i < 20; i++) {
        struct gm_wire_request nop = request_nop();
        client_call(clients[0], &nop, &response);
        assert_false(response.failed);
    }
    struct client *admin = client_open(&child, true); /* for whom descriptors are kept */
    client_close(admin);
    /* One line, and the next one after seconds, with the number of those that it stands for. */
    uint32_t lines = 0;
    for (const uint64_t until = now_ms() + WAIT_MS; lines < 2 && now_ms() < until; sleep_ms(50)) {
        lines = log_lines("out of file descriptors", "");
        assert_true(lines <= 1 + (now_ms() - start) / 5000);
    }
    assert_true(lines >= 2);
    /* The log's own limit had nothing to drop; of the many hellos it may, when they fall into two of its seconds. */
    assert_int_equal(log_lines("gridmilld: accept ", "suppressed="), 0);
    for (int i = 1; i < 70; i++)
        client_close(clients[i]);
    for (int i = 70; i < 100; i++) { /* they waited in the backlog */
        assert_true(client_receive(clients[i], &response));
        assert_false(response.failed);
        client_close(clients[i]);
    }
    client_close(clients[0]);
    assert_int_equal(daemon_stop(&child), 0);
}

static void every_snapshot_adds_up_under_load(void **state)
{
    (void)state;
    struct gm_wire_response response;
    daemon_start(&child, "normal", NULL);
    struct client *c = client_open(&child, false);
    for (int round = 0; round < 20; round++) {
        client_send_nops(c, 400);
        stats_add_up(&child);
        for (int i = 0; i < 400; i++)
            assert_true(client_receive(c, &response));
    }
    assert_int_equal(stats_u64(&child, "devices.0.done"), 8000);
    assert_int_equal(stats_u64(&child, "ops.0.done"), 8000);
    assert_int_equal(stats_u64(&child, "ops.0.wait.count"), 8000);
    assert_int_equal(stats_u64(&child, "ops.0.run.count"), 8000);
    assert_int_equal(stats_u64(&child, "ops.0.run.p50"), 1000);
    assert_int_equal(stats_u64(&child, "limits.inflight_per_session"), GM_INFLIGHT_PER_SESSION_MAX);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

#define GREEDY 1000

/* Jobs of the greedy client that are still there when five of the polite one, sent behind them, are done. */
static uint64_t left_when_five_were_served(struct client *greedy, struct client *polite)
{
    struct gm_wire_response response;
    client_send_nops(greedy, GREEDY);
    sleep_ms(300); /* the window has adapted to the device */
    for (int i = 0; i < 5; i++) {
        struct gm_wire_request nop = request_nop();
        client_call(polite, &nop, &response);
        assert_false(response.failed);
    }
    return stats_u64(&child, "devices.0.queue_depth");
}

static void late_client_does_not_wait_for_everything_that_a_greedy_one_sent(void **state)
{
    (void)state;
    daemon_start(&child, "slow", NULL); /* 2 ms a job: what the greedy one sends takes two seconds */
    struct client *greedy = client_open(&child, false), *polite = client_open(&child, false);
    /* Once is enough: where this process stands still for a while, it sees nothing left of a queue with turns too. */
    const uint64_t until = now_ms() + WAIT_MS;
    uint64_t left = left_when_five_were_served(greedy, polite);
    while (left <= GREEDY / 3 && now_ms() < until) {
        assert_int_equal(client_receive_done(greedy, GREEDY, GM_OK), GREEDY);
        left = left_when_five_were_served(greedy, polite);
    }
    assert_true(left > GREEDY / 3);
    client_close(greedy), client_close(polite);
    stats_wait(&child, "devices.0.queue_depth", 0);
    assert_int_equal(daemon_stop(&child), 0);
}

static void client_that_does_not_read_is_closed_and_others_are_served(void **state)
{
    (void)state;
    struct gm_wire_response response;
    daemon_start(&child, "normal", NULL);
    struct client *deaf = client_open(&child, false), *other = client_open(&child, false);
    struct gm_wire_request ops = request_of(GM_METHOD_OPS);
    for (int i = 0; i < 4000; i++) { /* some 2 KB each */
        uint8_t bytes[128];
        struct gm_wire_out out = {.bytes = bytes, .capacity = sizeof bytes};
        ops.id = 100;
        assert_int_equal(gm_wire_encode_request(&out, &ops), GM_OK);
        if (send(deaf->fd, bytes, out.size, MSG_NOSIGNAL) < 0)
            break;
    }
    struct gm_wire_request nop = request_nop();
    client_call(other, &nop, &response);
    assert_false(response.failed);
    stats_wait(&child, "daemon.slow_readers", 1);
    assert_true(daemon_log_has(&child, "slow_reader session="));
    sleep_ms(1500); /* its buffers are gone */
    client_close(deaf), client_close(other);
    assert_int_equal(daemon_stop(&child), 0);
}

/* A job whose answer carries a mebibyte. */
static struct gm_wire_request request_large_answer(void)
{
    struct gm_wire_request request = request_of(GM_METHOD_SUBMIT);
    request.u.submit = (struct gm_wire_submit){
        .op = GM_OP_fill, .args.dtype = GM_DTYPE_u8, .args.n = GM_INLINE_BYTES_MAX, .buffers = 1, .args.value[0] = 7};
    request.u.submit.buffer[0].place = GM_PLACE_INLINE;
    return request;
}

static void client_that_pipelines_large_answers_and_reads_gets_them_all(void **state)
{
    (void)state;
    struct gm_wire_response response;
    struct gm_wire_done done;
    struct gm_problem problem;
    daemon_start(&child, "normal", NULL);
    struct client *c = client_open(&child, false);
    struct gm_wire_request stats = request_of(GM_METHOD_STATS);
    for (int i = 0; i < 100; i++) {
        struct gm_wire_request fill = request_large_answer();
        client_send(c, &fill);
        client_send(c, &stats);
    }
    sleep_ms(300); /* everything that has room is in the daemon by then, and answered */
    int large = 0;
    for (int i = 0; i < 200; i++) {
        assert_true(client_receive(c, &response));
        assert_false(response.failed);
        large += gm_wire_decode_done(&response, &done, &problem) == GM_OK && done.out[0].size == GM_INLINE_BYTES_MAX;
    }
    assert_int_equal(large, 100);
    assert_int_equal(stats_u64(&child, "daemon.slow_readers"), 0);
    assert_int_equal(stats_u64(&child, "daemon.rejected_busy"), 0);
    stats_add_up(&child);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static void cancel_is_not_stuck_behind_jobs_that_find_no_room(void **state)
{
    (void)state;
    struct gm_wire_response response;
    struct gm_wire_request fill[12], cancel = request_of(GM_METHOD_CANCEL);
    daemon_start(&child, "hold", NULL); /* its jobs end when they are cancelled */
    struct client *c = client_open(&child, false);
    int answers[4] = {0}; /* busy, cancelled, done, other */
    for (int i = 0; i < 12; i++) {
        fill[i] = request_large_answer();
        client_send(c, &fill[i]);
    }
    cancel.u.cancel.id = fill[0].id;
    client_send(c, &cancel);
    /* Four are in flight, eight find no room; then the cancel, its job, and the connection is as good as ever. */
    for (int i = 0; i < 8 + 2; i++) {
        assert_true(client_receive(c, &response));
        const int code = code_of(&response);
        answers[code == GM_EBUSY ? 0 : code == GM_ECANCELLED ? 1 : code == GM_OK ? 2 : 3]++;
    }
    assert_int_equal(answers[0], 8);
    assert_int_equal(answers[1], 1);
    assert_int_equal(answers[2], 1);
    assert_int_equal(stats_u64(&child, "daemon.rejected_busy"), 8);
    client_send(c, &fill[0]); /* there is room for one again */
    stats_wait(&child, "devices.0.queue_depth", 4);
    client_close(c);
    stats_wait(&child, "devices.0.queue_depth", 0);
    assert_int_equal(daemon_stop(&child), 0);
}

static void malformed_messages_are_answered_counted_and_end_the_session(void **state)
{
    (void)state;
    static const uint8_t bombs[][9] = {{0, 0, 0, 5, 0xdf, 0x0f, 0xff, 0xff, 0xff}, {0, 0, 0, 1, 0xc1}, {0, 0, 0, 0}};
    static const size_t sizes[] = {9, 5, 4};
    struct gm_wire_response response;
    daemon_start(&child, "normal", NULL);
    for (size_t i = 0; i < 3; i++) {
        struct client *c = client_raw(child.socket);
        assert_int_equal(send(c->fd, bombs[i], sizes[i], MSG_NOSIGNAL), (ssize_t)sizes[i]);
        assert_true(client_receive(c, &response));
        assert_true(response.failed);
        assert_false(client_receive(c, &response));
        client_close(c);
    }
    assert_int_equal(stats_u64(&child, "daemon.protocol_errors"), 3);
    assert_int_equal(daemon_stop(&child), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(jobs_over_the_limit_of_a_session_are_busy_and_others_are_not),
        CASE(clients_may_leave_at_any_moment),
        CASE(cancel_answers_both_requests_once),
        CASE(arenas_are_admitted_against_quota_and_budget),
        CASE(bad_buffers_are_refused_and_named),
        CASE(arena_with_a_job_in_flight_is_busy),
        CASE(inline_data_is_bounded_per_session),
        CASE(hello_comes_first_and_versions_must_meet),
        CASE(admin_methods_need_the_admin_socket),
        CASE(out_of_descriptors_served_clients_go_on_and_new_ones_get_in_later),
        CASE(every_snapshot_adds_up_under_load),
        CASE(late_client_does_not_wait_for_everything_that_a_greedy_one_sent),
        CASE(client_that_does_not_read_is_closed_and_others_are_served),
        CASE(client_that_pipelines_large_answers_and_reads_gets_them_all),
        CASE(cancel_is_not_stuck_behind_jobs_that_find_no_room),
        CASE(malformed_messages_are_answered_counted_and_end_the_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
