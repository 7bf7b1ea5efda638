/* SPDX-License-Identifier: Apache-2.0
 *
 * That no user shuts others out of the real daemon: connections, shared memory and data of messages of one user, the
 * places that the admin socket has for itself, one user at all bounds beside another one, and what stats say of each.
 * Test thread and a child daemon with the fake device; the other user is a process of its own, which only root can
 * make.
 */
#include "lane_client.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

/* Until a snapshot of this client says so. */
static void wait_for(struct client *c, const char *path, uint64_t value)
{
    struct gm_wire_response r;
    uint64_t seen = 0;
    for (const uint64_t until = now_ms() + WAIT_MS; now_ms() < until; sleep_ms(5)) {
        snapshot(c, &r);
        if ((seen = response_u64(&r, path)) == value)
            return;
    }
    fail_msg("%s is %llu and does not become %llu", path, (unsigned long long)seen, (unsigned long long)value);
}

static void end_daemon(void)
{
    kill(child.pid, SIGKILL); /* a device that takes nothing cannot be drained */
    assert_int_equal(daemon_wait(&child), 128 + SIGKILL);
}

/* What a connection hears that is refused: an error about itself, and the end. */
static void refused_connection(bool admin, const char *text)
{
    char path[128];
    struct gm_wire_response r;
    snprintf(path, sizeof path, "%s%s", child.socket, admin ? ".admin" : "");
    struct client *c = client_raw(path);
    assert_non_null(c);
    assert_true(client_receive(c, &r));
    assert_int_equal(code_of(&r), GM_EBUSY);
    assert_string_equal(r.problem.text, text);
    assert_false(client_receive(c, &r));
    client_close(c);
}

static int opens_three(void)
{
    for (int i = 0; i < 3; i++) {
        struct gm_wire_response r;
        struct client *c = client_open(&child, false);
        if (client_code(c, request_nop(), &r) != GM_OK)
            return 1 + i;
    }
    return 0;
}

static void connections_of_a_user_are_bounded_and_come_back(void **state)
{
    (void)state;
    static const char *const args[] = {"--user-sessions", "3", NULL};
    struct gm_wire_response r;
    struct client *c[3];
    daemon_start(&child, "normal", args);
    struct client *admin = client_open(&child, true); /* counts, and is not held to it */
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 2; i++)
            c[i] = client_open(&child, false);
        c[2] = client_raw(child.socket); /* says nothing, and counts: with the admin's it is one too many */
        assert_true(client_receive(c[2], &r));
        assert_int_equal(code_of(&r), GM_EBUSY);
        refused_connection(false, "busy: the user has 3 of 3 connections (--user-sessions)");
        snapshot(admin, &r);
        assert_int_equal(response_u64(&r, "users.0.sessions"), 3);
        assert_int_equal(response_u64(&r, "users.0.refused"), 2 * (round + 1));
        assert_int_equal(response_u64(&r, "daemon.sessions_refused"), 2 * (round + 1));
        assert_int_equal(response_u64(&r, "limits.sessions_per_user"), 3);
        if (geteuid() == 0)
            assert_int_equal(as_another_user(opens_three), 0);
        struct client *second = client_open(&child, true);
        client_close(second);
        for (int i = 0; i < 3; i++)
            client_close(c[i]);
        wait_for(admin, "users.0.sessions", 1);
    }
    client_close(admin);
    assert_int_equal(daemon_stop(&child), 0);
}

static void who_looks_after_the_daemon_gets_in_when_all_connections_are_in_use(void **state)
{
    (void)state;
    static const char *const args[] = {"--user-sessions", "1024", NULL};
    static struct client *c[GM_SESSIONS_MAX], *admin[GM_SESSIONS_ADMIN];
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max < 2 * GM_SESSIONS_MAX)
        skip();
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    daemon_start(&child, "normal", args);
    c[0] = client_open(&child, false);
    for (uint32_t i = 1; i < GM_SESSIONS_MAX; i++)
        assert_non_null(c[i] = client_raw(child.socket)); /* none of them ever says hello */
    wait_for(c[0], "daemon.sessions", GM_SESSIONS_MAX);
    refused_connection(false, "busy: the user has 1024 of 1024 connections (--user-sessions)");
    for (uint32_t i = 0; i < GM_SESSIONS_ADMIN; i++)
        admin[i] = client_open(&child, true);
    refused_connection(true, "busy: all 1024 connections are in use, 1032 by the user");
    client_close(c[1]);
    wait_for(admin[0], "daemon.sessions", GM_SESSIONS_ADMIN + GM_SESSIONS_MAX - 1);
    c[1] = client_open(&child, true); /* an admin may have what is everybody's, too */
    for (uint32_t i = 0; i < GM_SESSIONS_ADMIN; i++)
        client_close(admin[i]);
    for (uint32_t i = 0; i < GM_SESSIONS_MAX; i++)
        client_close(c[i]);
    stats_wait(&child, "daemon.sessions", 1);
    assert_int_equal(daemon_stop(&child), 0);
}

/* ---- memory ---- */

static int has_the_rest_of_the_budget(void)
{
    struct gm_wire_response r;
    struct client *c = client_open(&child, false);
    if (client_code(c, request_create("", 16 * MIB, false), &r) != GM_OK)
        return 1;
    if (client_code(c, request_create("", 4096, false), &r) != GM_ENOMEM)
        return 2;
    return strcmp(r.problem.text, "67108864 of all 67108864 bytes are taken (--memory), 16777216 by the user") != 0;
}

static void one_user_cannot_have_all_shared_memory(void **state)
{
    (void)state;
    struct gm_wire_response r;
    daemon_start(&child, "normal", NULL); /* the budget is 64 MiB, and the quota 8 GiB */
    struct client *c = client_open(&child, false), *other = client_open(&child, false);
    assert_int_equal(client_code(c, request_create("", 40 * MIB, false), &r), GM_OK);
    assert_int_equal(client_code(other, request_create("w", 8 * MIB, false), &r), GM_OK);
    assert_int_equal(client_code(other, request_create("", 4096, false), &r), GM_EQUOTA);
    assert_true(gm_error_is_retriable(r.problem.code));
    assert_string_equal(r.problem.field, "bytes");
    assert_string_equal(r.problem.text, "the user has 50331648 of 50331648 bytes of shared memory (--user-memory)");
    struct lane lane;
    assert_int_equal(lane_open(other, 0, 0, &lane), GM_EQUOTA);                      /* whose memory counts too */
    assert_int_equal(client_code(c, request_create("", 80 * MIB, true), &r), GM_OK); /* on the device: another matter */
    snapshot(c, &r);
    assert_int_equal(response_u64(&r, "users.0.shared_bytes"), 48 * MIB);
    assert_int_equal(response_u64(&r, "users.0.arena_bytes"), 128 * MIB);
    assert_int_equal(response_u64(&r, "users.0.refused"), 2);
    assert_int_equal(response_u64(&r, "limits.shared_bytes_per_user"), 48 * MIB);
    if (geteuid() == 0)
        assert_int_equal(as_another_user(has_the_rest_of_the_budget), 0);
    client_close(c);
    stats_wait(&child, "users.0.arena_bytes", 8 * MIB);
    assert_int_equal(client_code(other, request_create("", 40 * MIB, false), &r), GM_OK);
    client_close(other);
    assert_int_equal(daemon_stop(&child), 0);
}

static float data[GM_INLINE_BYTES_MAX / sizeof(float)];

static int has_room_for_data(void)
{
    struct gm_wire_request sum = request_sum(data, sizeof data / sizeof *data);
    struct client *c = client_open(&child, false);
    struct gm_wire_response r;
    client_send(c, &sum);
    snapshot(c, &r); /* requests are read in order */
    return response_u64(&r, "users.0.inflight") == 1 ? 0 : 1;
}

static void data_of_messages_is_bounded_for_a_user(void **state)
{
    (void)state;
    struct gm_wire_response r;
    struct client *c[4];
    daemon_start(&child, "hang", NULL);
    for (int i = 0; i < 4; i++)
        c[i] = client_open(&child, false);
    for (int i = 0; i < 24; i++) {
        struct gm_wire_request sum = request_sum(data, sizeof data / sizeof *data);
        client_send(c[i % 4], &sum);
    }
    stats_wait(&child, "users.0.inflight", 24);
    assert_int_equal(client_code(c[3], request_sum(data, 1), &r), GM_EBUSY); /* 8 MiB are a session's, it has 6 */
    assert_string_equal(r.problem.text, "busy: too much data of messages is in flight, 25165824 bytes of the user");
    snapshot(c[3], &r);
    assert_int_equal(response_u64(&r, "users.0.refused"), 1);
    assert_int_equal(response_u64(&r, "users.0.rejected"), 1);
    assert_int_equal(response_u64(&r, "limits.staging_bytes_per_user"), 24 * MIB);
    if (geteuid() == 0)
        assert_int_equal(as_another_user(has_room_for_data), 0);
    client_close(c[0]);
    stats_wait(&child, "users.0.inflight", 18);
    struct gm_wire_request sum = request_sum(data, 1);
    client_send(c[3], &sum);
    stats_wait(&child, "users.0.inflight", 19);
    for (int i = 1; i < 4; i++)
        client_close(c[i]);
    end_daemon();
}

/* ---- what the daemon holds for a user ---- */

#define HELD_MAX (128 * MIB) /* GM_USER_BUFFERED_MAX of the daemon */

static int has_a_job(void)
{
    struct gm_wire_response r;
    struct client *c = client_open(&child, false);
    return client_code(c, request_sum(data, sizeof data / sizeof *data), &r);
}

static void unfinished_messages_of_a_user_are_bounded(void **state)
{
    (void)state;
    enum { COUNT = 150 };
    const uint8_t header[GM_FRAME_HEADER] = {0, 0x10, 0, 8}; /* of 1 MiB and 8 bytes */
    struct client *c[COUNT];
    struct gm_wire_response r;
    uint32_t ended = 0;
    int last = 0;
    daemon_start(&child, "normal", NULL);
    for (int i = 0; i < COUNT; i++) {
        c[i] = client_open(&child, false);
        assert_int_equal(send(c[i]->fd, header, sizeof header, MSG_NOSIGNAL), sizeof header);
        for (size_t sent = 0; sent < sizeof data;) {
            const ssize_t n = send(c[i]->fd, (const uint8_t *)data + sent, sizeof data - sent, MSG_NOSIGNAL);
            if (n < 0)
                break; /* it was told goodbye */
            sent += (size_t)n;
        }
    }
    for (const uint64_t until = now_ms() + WAIT_MS; now_ms() < until && ended < COUNT - HELD_MAX / MIB; sleep_ms(5)) {
        ended = 0; /* of the others the rest of the message may still come */
        for (int i = 0; i < COUNT; i++) {
            struct pollfd ready = {.fd = c[i]->fd, .events = POLLIN};
            if (poll(&ready, 1, 0) == 1)
                last = i, ended++;
        }
    }
    assert_true(ended >= COUNT - HELD_MAX / MIB && ended <= COUNT / 2);
    if (client_receive(c[last], &r)) /* unless that was lost with what the daemon did not read */
        assert_int_equal(code_of(&r), GM_EBUSY);
    if (geteuid() == 0)
        assert_int_equal(as_another_user(has_a_job), GM_OK);
    for (int i = 0; i < COUNT; i++)
        client_close(c[i]);
    stats_wait(&child, "daemon.sessions", 1);
    assert_int_equal(has_a_job(), GM_OK);
    assert_int_equal(daemon_stop(&child), 0);
}

/* What comes with the answer is a MiB of zeros. */
static struct gm_wire_request request_zeros(void)
{
    struct gm_wire_request fill = request_of(GM_METHOD_SUBMIT);
    fill.u.submit.op = GM_OP_fill, fill.u.submit.args.dtype = GM_DTYPE_u8, fill.u.submit.args.n = MIB;
    fill.u.submit.buffers = 1;
    fill.u.submit.buffer[0] = (struct gm_wire_buffer){.place = GM_PLACE_INLINE};
    return fill;
}

static void unread_answers_of_a_user_are_bounded(void **state)
{
    (void)state;
    enum { EACH = 4, COUNT = 150 }; /* of some that a connection asks for the answers lie there, one at least */
    struct client *c[COUNT];
    struct gm_wire_response r;
    int i = 0;
    daemon_start(&child, "normal", NULL);
    struct client *watcher = client_open(&child, false);
    for (; i < COUNT; i++) {
        c[i] = client_open(&child, false);
        for (int k = 0; k < EACH; k++) {
            struct gm_wire_request zeros = request_zeros();
            client_send(c[i], &zeros);
        }
        wait_for(watcher, "users.0.inflight", 0);
        snapshot(watcher, &r);
        if (response_u64(&r, "users.0.refused") != 0)
            break;
    }
    assert_true(i < COUNT);
    struct client *next = client_open(&child, false); /* to which nothing is due */
    assert_int_equal(client_code(next, request_zeros(), &r), GM_EBUSY);
    assert_non_null(strstr(r.problem.text, " of 134217728 bytes of answers to the user are due"));
    snapshot(next, &r); /* it is served as before */
    if (geteuid() == 0)
        assert_int_equal(as_another_user(has_a_job), GM_OK);
    assert_true(i > 3 && client_receive(c[i - 1], &r)); /* what was accepted is there */
    assert_int_equal(code_of(&r), GM_OK);
    for (int k = 0; k < 3; k++)
        client_close(c[k]); /* and makes room */
    for (const uint64_t until = now_ms() + WAIT_MS; now_ms() < until; sleep_ms(5))
        if (client_code(next, request_zeros(), &r) == GM_OK)
            break;
    assert_int_equal(code_of(&r), GM_OK);
    for (; i >= 3; i--)
        client_close(c[i]);
    client_close(next), client_close(watcher);
    assert_int_equal(daemon_stop(&child), 0);
}

/* ---- cancels, which the devices have to answer ---- */

#define CANCELS 150 /* GM_CONTROL_AT_WILL_PER_USER of the daemon */

static int may_cancel(void)
{
    struct gm_wire_request cancel = request_of(GM_METHOD_CANCEL), ping = request_of(GM_METHOD_PING);
    struct gm_wire_response r;
    struct client *c = client_open(&child, false);
    client_send_nops(c, 1); /* id 2; it goes into the lane, where the device does not look */
    stats_wait(&child, "users.0.inflight", 1);
    cancel.u.cancel.id = 2;
    client_send(c, &cancel), client_send(c, &ping);
    return client_receive(c, &r) && r.id == ping.id ? 0 : 1; /* the cancel was not refused, and waits for the device */
}

static void cancels_of_a_user_leave_room_for_those_of_others(void **state)
{
    (void)state;
    struct gm_wire_request cancel = request_of(GM_METHOD_CANCEL);
    struct gm_wire_response r;
    daemon_start(&child, "hold", NULL);
    struct client *c = client_open(&child, false);
    const pid_t device = daemon_device_pid(&child);
    client_send_nops(c, 1);
    stats_wait(&child, "users.0.inflight", 1);
    kill(device, SIGSTOP);
    cancel.u.cancel.id = 2;
    for (int i = 0; i < CANCELS; i++) {
        cancel.id = 0;
        client_send(c, &cancel);
    }
    cancel.id = 0;
    client_call(c, &cancel, &r); /* this one alone is answered now */
    assert_int_equal(code_of(&r), GM_EBUSY);
    if (geteuid() == 0)
        assert_int_equal(as_another_user(may_cancel), 0);
    assert_int_equal(stats_u64(&child, "users.0.refused"), 1);
    kill(device, SIGCONT);
    for (int i = 0; i < CANCELS; i++)
        assert_true(client_receive(c, &r));
    cancel.id = 0;
    client_send(c, &cancel); /* whatever the answer is, it is the device's */
    assert_true(client_receive(c, &r));
    assert_int_not_equal(code_of(&r), GM_EBUSY);
    client_close(c);
    end_daemon();
}

/* ---- what stats say of a user ---- */

static void row_is(const struct gm_wire_response *r, const char *key, uint64_t value)
{
    char path[64];
    snprintf(path, sizeof path, "users.0.%s", key);
    if (response_u64(r, path) != value)
        fail_msg("%s is %llu and not %llu", path, (unsigned long long)response_u64(r, path), (unsigned long long)value);
}

static int does_three_jobs(void)
{
    struct client *c = client_open(&child, false);
    struct gm_wire_response r;
    client_send_nops(c, 3);
    client_receive_done(c, 3, 0);
    snapshot(c, &r);
    return (int)response_u64(&r, "users.0.done");
}

static void rows_of_users_count_their_jobs(void **state)
{
    (void)state;
    static const char *const args[] = {"--user-jobs", "6", NULL};
    struct gm_wire_request bad = request_nop();
    struct gm_wire_response r;
    struct lane lane;
    daemon_start(&child, "first", args); /* the first job of a lane is never answered */
    struct client *c = client_open(&child, false), *other = client_open(&child, false);
    client_send_nops(other, 1);
    stats_wait(&child, "users.0.inflight", 1);
    client_send_nops(c, 5);
    assert_int_equal(client_receive_done(c, 5, 0), 5);
    bad.u.submit.has_device = true, bad.u.submit.device = 7;
    assert_int_equal(client_code(c, bad, &r), GM_ENODEVICE);
    struct gm_wire_request large = request_sum(data, 1);
    large.u.submit.args.n = 2;
    assert_int_equal(client_code(c, large, &r), GM_ESIZE); /* what the decoder refuses counts too */
    assert_int_equal(lane_open(c, 0, 0, &lane), GM_OK);
    lane_put(&lane, GM_OP_nop, 1);
    assert_int_equal(lane_wait(&lane, lane_put(&lane, GM_OP_nop, 1)), GM_OK);
    stats_wait(&child, "users.0.lane_answered", 2);
    snapshot(c, &r);
    row_is(&r, "submitted", 8), row_is(&r, "done", 5), row_is(&r, "failed", 0), row_is(&r, "rejected", 2);
    row_is(&r, "cancelled", 0), row_is(&r, "inflight", 1), row_is(&r, "run_ns", 5000), row_is(&r, "refused", 0);
    row_is(&r, "lane_submitted", 2);
    lane_unmap(&lane);
    client_close(other); /* its job is cancelled */
    stats_wait(&child, "users.0.cancelled", 1);
    client_close(c); /* and the lane is gone */
    stats_wait(&child, "users.0.lanes", 0);
    assert_int_equal(stats_u64(&child, "users.0.lane_answered"), 2);
    assert_int_equal(stats_u64(&child, "users.0.done"), 5); /* goes on, although nobody was there in between */
    if (geteuid() == 0)
        for (int i = 1; i <= 3; i++)
            assert_int_equal(as_another_user(does_three_jobs), 3 * i);
    end_daemon();
}

/* ---- a user at all bounds ---- */

#define GREEDY_JOBS 3000
#define GREEDY_ARENAS 12

static int has_memory_and_a_lane(void)
{
    struct gm_wire_response r;
    struct lane lane;
    struct client *c = client_open(&child, false);
    if (client_code(c, request_create("", 4096, false), &r) != GM_OK)
        return 1;
    if (client_code(c, request_create("", 4096, true), &r) != GM_OK)
        return 2;
    if (lane_open(c, 0, 0, &lane) != GM_OK)
        return 3;
    return lane_wait(&lane, lane_put(&lane, GM_OP_nop, 1)) == GM_OK ? 0 : 4;
}

static int has_his_first_result(void)
{
    struct gm_wire_response r;
    struct client *c = client_open(&child, false);
    if (client_code(c, request_nop(), &r) != GM_OK)
        return 1;
    /* What the others sent takes six seconds; of that no more went by than stood in the device's lane. */
    snapshot(c, &r);
    return response_u64(&r, "devices.0.queue_depth") > GREEDY_JOBS * 2 / 3 ? 0 : 2;
}

static void a_user_at_all_bounds_is_not_in_the_way_of_another(void **state)
{
    (void)state;
    static const char *const args[] = {"--user-sessions", "3",  "--user-jobs", "3000", "--user-lanes", "3",
                                       "--user-arenas",   "12", NULL};
    struct gm_wire_response r;
    struct client *c[3];
    struct lane lane[3];
    needs_root();
    daemon_start(&child, "slow", args);
    for (int i = 0; i < 3; i++) {
        c[i] = client_open(&child, false);
        assert_int_equal(lane_open(c[i], 0, 0, &lane[i]), GM_OK);
        for (int k = 0; k < GREEDY_ARENAS / 3; k++)
            assert_int_equal(client_code(c[i], request_create("", 4 * MIB - 32768, false), &r), GM_OK);
    }
    assert_int_equal(client_code(c[0], request_create("", 4096, true), &r), GM_EQUOTA);
    refused_connection(false, "busy: the user has 3 of 3 connections (--user-sessions)");
    assert_int_equal(as_another_user(has_memory_and_a_lane), 0);
    for (int i = 0; i < 3; i++)
        client_send_nops(c[i], GREEDY_JOBS / 3 + 20); /* some are answered meanwhile */
    assert_int_equal(as_another_user(has_his_first_result), 0);
    for (int i = 0; i < 3; i++) {
        lane_unmap(&lane[i]);
        client_close(c[i]);
    }
    end_daemon();
}

/* ---- a user who sends more than the daemon can do ---- */

#define FLOOD 60
#define FLOOD_SEEN 3000u /* frames: a few turns of the loop; each connection holds as many */

static void say(int fd)
{
    assert_int_equal(write(fd, "", 1), 1);
}

static void hear(int fd)
{
    char byte;
    assert_int_equal(read(fd, &byte, 1), 1);
}

/* The other user: opens connections, and fills them with bad requests when told so. */
static void flood(int told, int tell)
{
    static uint8_t bytes[64 * 1024];
    struct gm_wire_out out = {.bytes = bytes, .capacity = sizeof bytes};
    struct gm_wire_request bad = request_sum(data, 1);
    struct client *c[FLOOD];
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* it does not outlive a test that fails */
    bad.u.submit.args.n = 2, bad.id = 2;
    while (out.size < sizeof bytes - 256) /* a whole number of frames */
        assert_int_equal(gm_wire_encode_request(&out, &bad), GM_OK);
    for (int i = 0; i < FLOOD; i++)
        c[i] = client_open(&child, false);
    say(tell), hear(told);
    for (int i = 0; i < FLOOD; i++)
        while (send(c[i]->fd, bytes, out.size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)out.size) {
        }
    say(tell), hear(told);
    _exit(0);
}

static void nobody_stands_behind_everything_that_another_user_sent(void **state)
{
    (void)state;
    struct gm_wire_request nop = request_nop(), stats = request_of(GM_METHOD_STATS);
    struct gm_wire_response r;
    int down[2], up[2];
    needs_root();
    daemon_start(&child, "normal", NULL);
    assert_true(pipe(down) == 0 && pipe(up) == 0);
    const pid_t pid = other_user_starts();
    if (pid == 0)
        flood(down[0], up[1]);
    hear(up[0]);
    struct client *c = client_open(&child, false); /* the last one to be looked at */
    kill(child.pid, SIGSTOP);
    say(down[1]), hear(up[0]);
    client_send(c, &nop), client_send(c, &stats);
    kill(child.pid, SIGCONT);
    for (int i = 0; i < 2; i++) {
        assert_true(client_receive(c, &r));
        assert_int_equal(code_of(&r), GM_OK);
        if (r.id == stats.id && response_u64(&r, "daemon.rejected_bad") > FLOOD_SEEN)
            fail_msg("%llu bad requests came before", (unsigned long long)response_u64(&r, "daemon.rejected_bad"));
    }
    wait_for(c, "daemon.healthy", 1);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    wait_for(c, "daemon.users", 1);
    client_close(c);
    for (int i = 0; i < 2; i++)
        close(down[i]), close(up[i]);
    assert_int_equal(daemon_stop(&child), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(connections_of_a_user_are_bounded_and_come_back),
        T(who_looks_after_the_daemon_gets_in_when_all_connections_are_in_use),
        T(one_user_cannot_have_all_shared_memory),
        T(data_of_messages_is_bounded_for_a_user),
        T(unfinished_messages_of_a_user_are_bounded),
        T(unread_answers_of_a_user_are_bounded),
        T(cancels_of_a_user_leave_room_for_those_of_others),
        T(rows_of_users_count_their_jobs),
        T(a_user_at_all_bounds_is_not_in_the_way_of_another),
        T(nobody_stands_behind_everything_that_another_user_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
