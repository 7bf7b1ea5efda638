/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients that die, dribble, flood and do not read: each harms itself at most, and the daemon is back where it was.
 */
#include "harness.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Death at every step ---- */

enum step {
    CONNECTED,
    HALF_A_HELLO,
    GREETED,
    HALF_A_JOB,
    JOBS_SENT,
    ARENA_MADE,
    JOBS_IN_ARENA,
    ARENA_BEING_FREED,
    STEPS
};

static void send_job_of(int fd, size_t bytes)
{
    const struct frame frame = raw_sum(7);

    raw_send(fd, frame.bytes, bytes < frame.size ? bytes : frame.size);
    free(frame.bytes);
}

/* In a child: does everything up to the step, then dies. */
static void die_at(const struct daemon *d, enum step step)
{
    static struct gm_job jobs[200];
    static const uint32_t numbers[64] = {1};
    struct gm_request sum = gm_request("sum", GM_U32, 64);
    struct gm_arena *arena = NULL;

    if (step <= HALF_A_HELLO) {
        const int fd = raw_connect(d);
        raw_send(fd, "\0\0\0\40\224", step == HALF_A_HELLO ? 5 : 0);
        kill(getpid(), SIGKILL);
    }
    if (step <= HALF_A_JOB) {
        const int fd = raw_session(d);
        send_job_of(fd, step == HALF_A_JOB ? 30 : 0);
        kill(getpid(), SIGKILL);
    }
    struct gm_client *const client = daemon_open(d);
    sum.in[0] = gm_in_memory(numbers, sizeof numbers);
    if (step >= ARENA_MADE) {
        const uint64_t end_ms = now_ms() + 60000;
        int status = GM_ETIMEDOUT;
        /* A device process that gets no processor for seconds is given up on: it is asked again. */
        while (status == GM_ETIMEDOUT && now_ms() < end_ms)
            status = gm_arena_create(client, 1 << 20, GM_MEMORY_SHARED, GM_DEVICE_ANY, in_ms(20000), &arena);
        if (status != GM_OK) {
            fprintf(stderr, "    | step %d: gm_arena_create: %s\n", (int)step, gm_status_name(status));
            _exit(1);
        }
        sum.in[0] = gm_in_arena(arena, 0, 256);
    }
    for (int i = 0; i < 200 && step != ARENA_MADE; i++)
        (void)gm_submit(client, &sum, &jobs[i]);
    if (step == ARENA_BEING_FREED)
        (void)gm_arena_free(arena, 0);
    kill(getpid(), SIGKILL);
}

static void die_and_look(const struct daemon *d, struct gm_client *client, enum step step)
{
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    const uint64_t start_ms = now_ms();
    int status;

    const pid_t child = fork();
    if (child == 0) {
        die_at(d, step);
        _exit(1);
    }
    assert_int_equal(child, waitpid(child, &status, 0));
    if (!WIFSIGNALED(status))
        fail_msg("step %d: the client ended by itself with %#x", (int)step, (unsigned)status);
    const uint64_t dead_ms = now_ms();
    const int ran = gm_run(client, &nop, in_ms(20000), NULL);
    if (ran != GM_OK || now_ms() - start_ms > 1000)
        fprintf(stderr, "    | step %d: the client lived %" PRIu64 " ms; the next no-op: %s in %" PRIu64 " ms\n",
                (int)step, dead_ms - start_ms, gm_status_name(ran), now_ms() - dead_ms);
    assert_int_equal(GM_OK, ran);
}

/* ---- What is there when nothing should be ---- */

static const struct {
    const char *path;
    uint64_t should;
} figures[] = {{"daemon.sessions", 1}, {"daemon.arenas", 0}, {"daemon.arena_bytes", 0}, {"devices.0.queue_depth", 0}};
enum { FIGURES = sizeof figures / sizeof *figures };

/* Its open descriptors, and what it has written. */
static void show_daemon(const struct daemon *d)
{
    char path[300], target[256];

    snprintf(path, sizeof path, "/proc/%d/fd", (int)d->pid);
    DIR *const folder = opendir(path);
    for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;) {
        snprintf(path, sizeof path, "/proc/%d/fd/%.20s", (int)d->pid, e->d_name);
        const ssize_t n = readlink(path, target, sizeof target - 1);
        if (n > 0)
            fprintf(stderr, "    | %s: %.*s\n", e->d_name, (int)n, target);
    }
    if (folder != NULL)
        closedir(folder);
    FILE *const log = fopen(d->log, "r");
    while (log != NULL && fgets(path, sizeof path, log) != NULL)
        fprintf(stderr, "    | %s", path);
    if (log != NULL)
        fclose(log);
}

static void assert_nothing_is_left(const struct daemon *d, struct gm_client *client, size_t descriptors)
{
    enum { PATIENCE_MS = 20000 };
    const uint64_t start_ms = now_ms();
    uint64_t is[FIGURES], back_ms[FIGURES + 1] = {0};
    bool all = false;

    while (!all && now_ms() - start_ms < PATIENCE_MS) {
        all = descriptors_of(d->pid) == descriptors;
        if (!all)
            back_ms[FIGURES] = now_ms() - start_ms;
        for (int i = 0; i < FIGURES; i++) {
            is[i] = stat_of(client, figures[i].path);
            all &= is[i] == figures[i].should;
            if (is[i] != figures[i].should)
                back_ms[i] = now_ms() - start_ms;
        }
        if (!all)
            sleep_ms(2);
    }
    if (all)
        return;
    for (int i = 0; i < FIGURES; i++)
        fprintf(stderr, "    | %s: %" PRIu64 ", should be %" PRIu64 ", was wrong for %" PRIu64 " ms\n", figures[i].path,
                is[i], figures[i].should, back_ms[i]);
    fprintf(stderr, "    | descriptors: %zu, should be %zu, were wrong for %" PRIu64 " ms\n", descriptors_of(d->pid),
            descriptors, back_ms[FIGURES]);
    show_daemon(d);
    fail_msg("something is left after %d ms", PATIENCE_MS);
}

/* Nobody else has a lane: of a client that is gone, descriptors stay until the device has let go of its lane. */
static void wait_until_alone(struct gm_client *client)
{
    wait_for_stat(client, "daemon.sessions", 1, 20000);
    wait_for_stat(client, "devices.0.lanes", (uint64_t)gm_lanes(client), 20000);
}

static void client_killed_at_any_step_leaves_nothing_behind(void **state)
{
    struct daemon *const d = *state;
    struct gm_client *const client = daemon_open(d);

    wait_until_alone(client);
    const size_t descriptors = descriptors_of(d->pid);
    for (int round = 0; round < 3; round++)
        for (enum step step = 0; step < STEPS; step++)
            die_and_look(d, client, step);
    assert_nothing_is_left(d, client, descriptors);
    gm_close(client);
}

/* ---- Bytes ---- */

static void assert_sum_arrives(int fd, uint32_t id)
{
    struct gm_wire_response response;
    struct gm_wire_done done;
    struct gm_problem problem;

    assert_true(raw_receive(fd, 20000, &response));
    assert_int_equal(id, response.id);
    assert_false(response.failed);
    assert_int_equal(GM_OK, gm_wire_decode_done(&response, &done, &problem));
    assert_int_equal(10, done.result);
}

static void request_cut_at_any_byte_is_done_or_forgotten(void **state)
{
    struct daemon *const d = *state;
    struct gm_client *const client = daemon_open(d);
    const struct frame frame = raw_sum(3);

    for (size_t cut = 0; cut <= frame.size; cut++) {
        const int fd = raw_session(d);
        raw_send(fd, frame.bytes, cut);
        /* The daemon has read the first piece when it has answered somebody else's request. */
        assert_int_equal(GM_OK, gm_ping(client, in_ms(20000)));
        raw_send(fd, frame.bytes + cut, frame.size - cut);
        assert_sum_arrives(fd, 3);
        raw_send(fd, frame.bytes, cut);
        close(fd);
    }
    wait_for_stat(client, "daemon.sessions", 1, 20000);
    wait_for_stat(client, "devices.0.queue_depth", 0, 20000);
    free(frame.bytes);
    gm_close(client);
}

static void request_byte_by_byte_and_two_in_one_write_are_done(void **state)
{
    struct daemon *const d = *state;
    const struct frame frame = raw_sum(3);
    const int fd = raw_session(d);
    uint8_t both[1024];

    for (size_t i = 0; i < frame.size; i++) {
        raw_send(fd, frame.bytes + i, 1);
        sleep_ms(1);
    }
    assert_sum_arrives(fd, 3);
    memcpy(both, frame.bytes, frame.size);
    memcpy(both + frame.size, frame.bytes, frame.size);
    raw_send(fd, both, 2 * frame.size);
    assert_sum_arrives(fd, 3);
    assert_sum_arrives(fd, 3);
    close(fd);
    free(frame.bytes);
}

static void half_closed_connection_still_gets_its_answers(void **state)
{
    struct daemon *const d = *state;
    struct gm_wire_response response;
    const struct frame frame = raw_sum(3);
    const int fd = raw_session(d);

    raw_send(fd, frame.bytes, frame.size);
    assert_int_equal(0, shutdown(fd, SHUT_WR));
    assert_sum_arrives(fd, 3);
    assert_false(raw_receive(fd, 20000, &response));
    close(fd);
    free(frame.bytes);
}

static void malformed_messages_get_a_reason_and_the_end(void **state)
{
    static const struct {
        const char *bytes;
        size_t size;
        int code;
    } bad[] = {{"\xff\xff\xff\xff", 4, GM_ETOOLARGE},
               {"\0\0\0\0", 4, GM_EPROTO},
               {"\0\0\0\1\xc1", 5, GM_EPROTO},
               {"\0\0\0\5\xdd\x0f\xff\xff\xff", 9, GM_ETOOMANY},
               {"\0\0\0\5\xdf\x0f\xff\xff\xff", 9, GM_ETOOMANY},
               {"\0\0\0\14\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\xc0", 16, GM_ETOODEEP},
               {"\0\0\0\1\x80", 5, GM_EPROTO},
               {"\0\0\0\6\x93\2\xa1x\x80\0", 10, GM_EPROTO}};
    struct daemon *const d = *state;
    struct gm_client *const client = daemon_open(d);
    struct gm_wire_response response;

    const uint64_t before = stat_of(client, "daemon.protocol_errors");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const int fd = raw_session(d);
        raw_send(fd, bad[i].bytes, bad[i].size);
        assert_true(raw_receive(fd, 20000, &response));
        assert_true(response.failed);
        if (response.problem.code != bad[i].code)
            fail_msg("message %zu: %s", i, gm_error_name(response.problem.code));
        assert_false(raw_receive(fd, 20000, &response));
        close(fd);
    }
    assert_int_equal(before + sizeof bad / sizeof *bad, stat_of(client, "daemon.protocol_errors"));
    gm_close(client);
}

/* ---- Floods ---- */

static void send_with_descriptors(int fd, const struct frame *frame, int passed, size_t count)
{
    static char control[CMSG_SPACE(253 * sizeof(int))];
    struct iovec io = {frame->bytes, frame->size};
    struct msghdr message = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *const c = CMSG_FIRSTHDR(&message);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(count * sizeof(int));
    for (size_t i = 0; i < count; i++)
        memcpy(CMSG_DATA(c) + i * sizeof(int), &passed, sizeof passed);
    if (sendmsg(fd, &message, MSG_NOSIGNAL) != (ssize_t)frame->size)
        fail_msg("sendmsg");
}

static void descriptors_that_nobody_asked_for_are_closed(void **state)
{
    enum { MESSAGES = 1000, CONNECTIONS = 30 };
    struct daemon *const d = *state;
    struct gm_client *const client = daemon_open(d);
    struct gm_wire_response response;
    const struct frame frame = raw_sum(3);
    const int passed = open("/dev/null", O_RDONLY | O_CLOEXEC);

    wait_until_alone(client);
    const size_t before = descriptors_of(d->pid);
    const int fd = raw_session(d);
    for (int i = 0; i < MESSAGES; i++) {
        send_with_descriptors(fd, &frame, passed, GM_FDS_PER_FRAME_MAX);
        assert_sum_arrives(fd, 3);
    }
    assert_int_equal(before + 1, descriptors_of(d->pid));
    close(fd);
    /* More than a frame may have at all: the reason, and the end. */
    for (int i = 0; i < CONNECTIONS; i++) {
        const int flood = raw_session(d);
        send_with_descriptors(flood, &frame, passed, 253);
        assert_true(raw_receive(flood, 20000, &response));
        assert_true(response.failed);
        assert_int_equal(GM_EPROTO, response.problem.code);
        assert_false(raw_receive(flood, 20000, &response));
        close(flood);
    }
    close(passed);
    wait_for_stat(client, "daemon.sessions", 1, 20000);
    assert_int_equal(before, descriptors_of(d->pid));
    free(frame.bytes);
    gm_close(client);
}

static void client_that_does_not_read_is_bounded_and_disconnected(void **state)
{
    struct daemon *const d = *state;
    struct gm_client *const client = daemon_open(d);
    const struct gm_wire_request request = {.id = 9, .method = GM_METHOD_STATS};
    const struct frame frame = raw_encode(&request);
    const int fd = raw_session(d);

    const uint64_t before = stat_of(client, "daemon.rss_bytes"), end_ms = now_ms() + 60000;
    /* Some kilobytes per answer: thousands of requests go over any bound. */
    while (now_ms() < end_ms && stat_of(client, "daemon.slow_readers") == 0) {
        for (int i = 0; i < 100; i++)
            if (send(fd, frame.bytes, frame.size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
                break;
        assert_int_equal(GM_OK, gm_ping(client, in_ms(20000)));
        if (!SANITIZED)
            assert_true(stat_of(client, "daemon.rss_bytes") < before + 4u * GM_OUTPUT_BYTES_MAX);
    }
    assert_int_equal(1, stat_of(client, "daemon.slow_readers"));
    close(fd);
    wait_for_stat(client, "daemon.sessions", 1, 20000);
    free(frame.bytes);
    gm_close(client);
}

/* ---- Descriptors run out ---- */

static void hundred_clients_of_a_daemon_with_64_descriptors(void **state)
{
    enum { CLIENTS = 100 };
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    struct gm_client *clients[CLIENTS] = {0};
    struct gm_failure failure;
    struct daemon d;
    int served = 0, late = 0;

    (void)state;
    daemon_init(&d);
    d.descriptors = 64;
    daemon_start(&d);
    for (int i = 0; i < CLIENTS; i++) {
        const struct gm_options options = {.socket = d.socket, .deadline_ns = in_ms(served < 10 ? 20000 : 50)};
        if (gm_open(&options, &clients[served], &failure) == GM_OK)
            served++;
        else if (failure.status != GM_ETIMEDOUT && failure.status != GM_EFDS)
            fail_msg("client %d: %s (%s)", i, failure.text, gm_status_name(failure.status));
    }
    assert_in_range(served, 10, 64);
    /* No spinning while nobody can be accepted, and those who are in are served. */
    const uint64_t cpu_ms = cpu_ms_of(d.pid);
    sleep_ms(1000);
    assert_true(cpu_ms_of(d.pid) - cpu_ms < 300);
    for (int i = 0; i < served; i++)
        assert_int_equal(GM_OK, gm_run(clients[i], &nop, in_ms(20000), NULL));
    /* Room for others when some leave. */
    for (int i = 0; i < 5; i++) {
        gm_close(clients[i]);
        clients[i] = daemon_open(&d);
        late++;
    }
    assert_int_equal(5, late);
    for (int i = 0; i < served; i++)
        gm_close(clients[i]);
    daemon_stop(&d);
    daemon_remove(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(client_killed_at_any_step_leaves_nothing_behind, daemon_setup,
                                        daemon_teardown),
        cmocka_unit_test_setup_teardown(request_cut_at_any_byte_is_done_or_forgotten, daemon_setup, daemon_teardown),
        cmocka_unit_test_setup_teardown(request_byte_by_byte_and_two_in_one_write_are_done, daemon_setup,
                                        daemon_teardown),
        cmocka_unit_test_setup_teardown(half_closed_connection_still_gets_its_answers, daemon_setup, daemon_teardown),
        cmocka_unit_test_setup_teardown(malformed_messages_get_a_reason_and_the_end, daemon_setup, daemon_teardown),
        cmocka_unit_test_setup_teardown(descriptors_that_nobody_asked_for_are_closed, daemon_setup, daemon_teardown),
        cmocka_unit_test_setup_teardown(client_that_does_not_read_is_bounded_and_disconnected, daemon_setup,
                                        daemon_teardown),
        cmocka_unit_test(hundred_clients_of_a_daemon_with_64_descriptors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
