/* SPDX-License-Identifier: Apache-2.0
 *
 * Start, second instance, restart after a crash, drain and stop of the real daemon. Test thread and a child.
 */
#include "harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED false
#endif

static mode_t mode_of(const char *suffix)
{
    char path[128];
    struct stat there;
    snprintf(path, sizeof path, "%s%s", child.socket, suffix);
    assert_int_equal(lstat(path, &there), 0);
    return there.st_mode & 0777;
}

static void start_and_sigterm_leave_nothing_behind(void **state)
{
    (void)state;
    char path[128];
    daemon_start(&child, "normal", NULL);
    assert_int_equal(mode_of(""), 0660);
    assert_int_equal(mode_of(".admin"), 0600);
    const pid_t device = daemon_device_pid(&child);
    assert_int_equal(kill(device, 0), 0);
    assert_int_equal(daemon_stop(&child), 0);
    assert_int_equal(access(child.socket, F_OK), -1);
    snprintf(path, sizeof path, "%s.admin", child.socket);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(kill(device, 0), -1);
    assert_true(daemon_log_has(&child, "info gridmilld: device 0: cpu, 1 workers"));
    assert_true(daemon_log_has(&child, "info gridmilld: ready socket="));
}

static void second_instance_refuses_even_when_the_first_is_stopped(void **state)
{
    (void)state;
    daemon_start(&child, "normal", NULL);
    for (int stopped = 0; stopped < 2; stopped++) {
        struct daemon_child second = child;
        if (stopped)
            kill(child.pid, SIGSTOP);
        daemon_spawn(&second, "normal", NULL);
        assert_int_equal(daemon_wait(&second), 3);
        kill(child.pid, SIGCONT);
    }
    assert_true(daemon_log_has(&child, "another gridmilld (pid "));
    assert_int_equal(stats_u64(&child, "daemon.healthy"), 1); /* and the first one serves on */
    assert_int_equal(daemon_stop(&child), 0);
}

/* Noticed before a device is started, which in this mode would never be ready; and it is left as it is. */
static void file_in_the_place_of_a_socket_is_noticed_at_once_and_kept(void **state)
{
    (void)state;
    char path[128], text[8] = "";
    daemon_start(&child, "normal", NULL);
    assert_int_equal(daemon_stop(&child), 0);
    for (int admin = 0; admin < 2; admin++) {
        snprintf(path, sizeof path, "%s%s", child.socket, admin ? ".admin" : "");
        FILE *file = fopen(path, "w");
        assert_true(file != NULL && fputs("keep me", file) >= 0 && fclose(file) == 0);
        assert_int_equal(unlink(child.log), 0);
        daemon_spawn(&child, "mute", NULL);
        assert_int_equal(daemon_wait(&child), 1);
        assert_true(daemon_log_has(&child, path));
        assert_true(daemon_log_has(&child, "exists and is no socket"));
        assert_false(daemon_log_has(&child, "device"));
        file = fopen(path, "r");
        assert_true(file != NULL && fgets(text, sizeof text, file) != NULL && fclose(file) == 0);
        assert_string_equal(text, "keep me");
        assert_int_equal(unlink(path), 0);
    }
    daemon_start(&child, "normal", NULL);
    assert_int_equal(daemon_stop(&child), 0);
}

static void killed_daemon_leaves_no_device_and_restarts_over_its_socket(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        daemon_start(&child, "normal", NULL);
        const pid_t device = daemon_device_pid(&child);
        daemon_kill(&child);
        assert_int_equal(access(child.socket, F_OK), 0);
        for (const uint64_t until = now_ms() + WAIT_MS; kill(device, 0) == 0 && now_ms() < until;)
            sleep_ms(5);
        /* A zombie of ours it is not: init reaps it. */
        assert_int_equal(kill(device, 0), -1);
    }
    daemon_start(&child, "normal", NULL);
    assert_int_equal(stats_u64(&child, "daemon.healthy"), 1);
    assert_int_equal(daemon_stop(&child), 0);
}

static void start_up_fails_with(const char *mode, const char *text)
{
    daemon_spawn(&child, mode, NULL);
    assert_int_equal(daemon_wait(&child), 1);
    if (!daemon_log_has(&child, text))
        fail_msg("%s: the log does not say '%s'", mode, text);
    assert_int_equal(access(child.socket, F_OK), -1);
}

static void device_that_does_not_start_ends_the_daemon_with_its_reason(void **state)
{
    (void)state;
    start_up_fails_with("fail", "the fake device has no luck");
    start_up_fails_with("exit", "exited with status 7 before it was ready");
    start_up_fails_with("build", "is of another build");
}

static void automatic_device_says_why_it_is_not_the_gpu_and_an_explicit_gpu_has_no_substitute(void **state)
{
    (void)state;
    static const char *const automatic[] = {"--device", "auto", NULL}, *const gpu[] = {"--device", "cuda:0", NULL};
    char backend[16];
    daemon_start(&child, "nogpu", automatic);
    assert_true(daemon_log_has(&child, "device 0: cpu, 1 workers (cuda:0: the fake device has no luck)"));
    stats_text(&child, "devices.0.backend", backend, sizeof backend);
    assert_string_equal(backend, "cpu");
    struct client *c = client_open(&child, false);
    struct gm_wire_request nop = request_nop();
    struct gm_wire_response response;
    client_call(c, &nop, &response);
    assert_false(response.failed);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
    daemon_spawn(&child, "nogpu", gpu);
    assert_int_equal(daemon_wait(&child), 1);
    assert_true(daemon_log_has(&child, "error gridmilld: start failed: the fake device has no luck"));
}

/* A folder in which only the CPU's device program is. */
static void device_folder(char *folder, char *program, size_t size)
{
    char self[512], device[600];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = 0;
    *strrchr(self, '/') = 0;
    snprintf(device, sizeof device, "%s/fake_device", self);
    assert_non_null(mkdtemp(folder));
    snprintf(program, size, "%s/gridmill-device-cpu", folder);
    assert_int_equal(symlink(device, program), 0);
}

static void missing_device_program_is_named_and_an_idle_gpu_is_a_warning(void **state)
{
    (void)state;
    char folder[] = "/tmp/gridmill-test-XXXXXX", program[64];
    device_folder(folder, program, sizeof program);
    const char *const automatic[] = {"--device", "auto", "--device-program", folder, NULL};
    const char *const gpu[] = {"--device", "cuda:0", "--device-program", folder, NULL};
    daemon_start(&child, "normal", automatic);
    assert_true(daemon_log_has(&child, access("/dev/nvidiactl", F_OK) == 0
                                           ? "warn gridmilld: device 0: cpu, 1 workers (a GPU is here, but "
                                             "gridmill-device-cuda was not built or installed)"
                                           : "info gridmilld: device 0: cpu, 1 workers (no GPU here: there is no "
                                             "/dev/nvidiactl)"));
    assert_int_equal(daemon_stop(&child), 0);
    daemon_spawn(&child, "normal", gpu);
    assert_int_equal(daemon_wait(&child), 1);
    assert_true(daemon_log_has(&child, "there is no device program /tmp/gridmill-test-"));
    assert_true(daemon_log_has(&child, ": build with nvcc, or --device-program says where it is"));
    unlink(program);
    rmdir(folder);
}

/* As the kernel says; before, it would simply be its end. */
static bool catches(pid_t pid, int number)
{
    char path[64], line[256];
    unsigned long long caught = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL && sscanf(line, "SigCgt: %llx", &caught) != 1)
        continue;
    fclose(file);
    return (caught >> (number - 1) & 1u) != 0;
}

static void signal_while_the_device_starts_ends_at_once(void **state)
{
    (void)state;
    daemon_spawn(&child, "mute", NULL);
    for (const uint64_t until = now_ms() + WAIT_MS; !catches(child.pid, SIGTERM) && now_ms() < until;)
        sleep_ms(5);
    const uint64_t start = now_ms();
    assert_int_equal(daemon_stop(&child), 0);
    assert_true(now_ms() - start < GM_HELLO_MS); /* and not when the device is late */
}

static void send_jobs(struct client *c, int count)
{
    for (int i = 0; i < count; i++) {
        struct gm_wire_request nop = request_nop();
        client_send(c, &nop);
    }
}

static void sigterm_finishes_accepted_jobs_and_refuses_new_ones(void **state)
{
    (void)state;
    struct gm_wire_response response;
    daemon_start(&child, "normal", NULL);
    const pid_t device = daemon_device_pid(&child);
    struct client *c = client_open(&child, false);
    process_stop(device); /* so that it has something to finish for as long as this takes */
    send_jobs(c, 200);
    stats_wait(&child, "devices.0.queue_depth", 200);
    kill(child.pid, SIGTERM);
    struct client *late;
    for (const uint64_t until = now_ms() + WAIT_MS; (late = client_raw(child.socket)) != NULL; sleep_ms(5)) {
        client_close(late); /* it stops accepting in a moment */
        assert_true(now_ms() < until);
    }
    send_jobs(c, 1);
    assert_true(client_receive(c, &response));
    assert_true(response.failed);
    assert_int_equal(response.problem.code, GM_EDRAINING);
    kill(device, SIGCONT);
    assert_int_equal(client_receive_done(c, 200, 0), 200);
    assert_false(client_receive(c, &response));
    assert_int_equal(daemon_wait(&child), 0);
    client_close(c);
}

static void drain_deadline_and_second_signal_fail_the_rest(void **state)
{
    (void)state;
    static const char *const short_drain[] = {"--drain-ms", "300", NULL};
    for (int second = 0; second < 2; second++) {
        struct gm_wire_response response;
        daemon_start(&child, "hang", second ? NULL : short_drain);
        struct client *c = client_open(&child, false);
        send_jobs(c, 700); /* more than the lane's window: some are still queued */
        stats_wait(&child, "devices.0.queue_depth", 700);
        kill(child.pid, SIGTERM);
        log_wait(&child, "stop finishing jobs=");
        sleep_ms(600); /* sooner it would be the same signal again */
        if (second)
            kill(child.pid, SIGINT);
        for (int i = 0; i < 700; i++) {
            assert_true(client_receive(c, &response));
            assert_true(response.failed);
            assert_int_equal(response.problem.code, GM_EDRAINING);
        }
        assert_false(client_receive(c, &response));
        assert_int_equal(daemon_wait(&child), 1);
        client_close(c);
    }
}

static void signals_in_the_same_moment_are_one(void **state)
{
    (void)state;
    daemon_start(&child, "slow", NULL);
    struct client *c = client_open(&child, false);
    send_jobs(c, 200);
    stats_wait(&child, "devices.0.submitted", 200);
    /* Those that come while it is stopped are handled in one turn, however slow the machine is. */
    kill(child.pid, SIGSTOP);
    kill(child.pid, SIGTERM);
    kill(child.pid, SIGINT);
    kill(child.pid, SIGCONT);
    assert_int_equal(client_receive_done(c, 200, 0), 200);
    assert_int_equal(daemon_wait(&child), 0);
    assert_false(daemon_log_has(&child, "second signal"));
    client_close(c);
}

static void device_that_ignores_stop_is_killed(void **state)
{
    (void)state;
    daemon_start(&child, "stuck", NULL);
    const uint64_t start = now_ms();
    assert_int_equal(daemon_stop(&child), 0);
    assert_true(now_ms() - start >= 4000);
}

static void admin_drain_answers_when_nothing_is_in_flight_and_the_daemon_stays(void **state)
{
    (void)state;
    struct gm_wire_request drain = request_of(GM_METHOD_DRAIN);
    struct gm_wire_response response;
    daemon_start(&child, "slow", NULL);
    struct client *c = client_open(&child, false), *admin = client_open(&child, true);
    send_jobs(c, 50);
    stats_wait(&child, "devices.0.submitted", 50); /* the two sockets are read in any order */
    client_call(admin, &drain, &response);
    assert_false(response.failed);
    assert_int_equal(stats_u64(&child, "devices.0.queue_depth"), 0);
    assert_int_equal(stats_u64(&child, "devices.0.done"), 50);
    assert_int_equal(stats_u64(&child, "daemon.draining"), 1);
    for (int i = 0; i < 50; i++)
        assert_true(client_receive(c, &response));
    struct gm_wire_request nop = request_nop();
    client_call(c, &nop, &response);
    assert_true(response.failed);
    assert_int_equal(response.problem.code, GM_EDRAINING);
    assert_int_equal(stats_u64(&child, "daemon.rejected_draining"), 1);
    client_close(c), client_close(admin);
    assert_int_equal(daemon_stop(&child), 0);
}

static void admin_that_ended_its_side_still_gets_the_answers_to_pause_and_drain(void **state)
{
    (void)state;
    static const enum gm_method methods[] = {GM_METHOD_PAUSE, GM_METHOD_DRAIN};
    struct gm_wire_response response;
    daemon_start(&child, "hang", NULL);
    const pid_t device = daemon_device_pid(&child);
    struct client *c = client_open(&child, false);
    send_jobs(c, 1);
    stats_wait(&child, "devices.0.queue_depth", 1);
    process_stop(device);
    for (int i = 0; i < 2; i++) {
        struct gm_wire_request request = request_of(methods[i]);
        struct client *admin = client_open(&child, true);
        client_send(admin, &request);
        assert_int_equal(shutdown(admin->fd, SHUT_WR), 0);
        stats_wait(&child, "daemon.sessions", 3);
        if (methods[i] == GM_METHOD_PAUSE)
            kill(device, SIGCONT);
        else
            client_close(c); /* and its job ends */
        assert_true(client_receive(admin, &response));
        assert_int_equal(response.id, request.id);
        assert_false(response.failed);
        assert_false(client_receive(admin, &response));
        client_close(admin);
        stats_wait(&child, "daemon.sessions", methods[i] == GM_METHOD_PAUSE ? 2 : 1);
    }
    assert_int_equal(daemon_stop(&child), 0);
}

static void drains_of_admins_who_left_leave_room_for_the_next_one(void **state)
{
    (void)state;
    struct gm_wire_request drain = request_of(GM_METHOD_DRAIN);
    struct gm_wire_response response;
    daemon_start(&child, "hang", NULL);
    struct client *c = client_open(&child, false);
    send_jobs(c, 1);
    stats_wait(&child, "devices.0.queue_depth", 1);
    for (int i = 0; i < 20; i++) { /* more than can wait at a time */
        struct gm_wire_request ping = request_of(GM_METHOD_PING);
        struct client *admin = client_open(&child, true);
        drain.id = 0;
        client_send(admin, &drain);
        client_call(admin, &ping, &response); /* and the drain before it was not refused */
        assert_false(response.failed);
        client_close(admin);
        stats_wait(&child, "daemon.sessions", 2);
    }
    struct client *admin = client_open(&child, true);
    drain.id = 0;
    client_send(admin, &drain);
    client_close(c); /* and its job ends */
    assert_true(client_receive(admin, &response));
    assert_false(response.failed);
    client_close(admin);
    assert_int_equal(daemon_stop(&child), 0);
}

static void sigusr1_dumps_and_goes_on(void **state)
{
    (void)state;
    daemon_start(&child, "normal", NULL);
    struct client *c = client_open(&child, false);
    kill(child.pid, SIGUSR1);
    log_wait(&child, "dump_session session=");
    log_wait(&child, "dump_device device=0 state=");
    assert_int_equal(stats_u64(&child, "daemon.healthy"), 1);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static uint64_t cpu_ms(pid_t pid)
{
    char path[64], line[1024];
    unsigned long user, kernel;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    assert_int_equal(
        sscanf(strrchr(line, ')') + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel), 2);
    return (user + kernel) * 1000u / (uint64_t)sysconf(_SC_CLK_TCK);
}

static void idle_daemon_uses_no_cpu_and_little_memory(void **state)
{
    (void)state;
    static const char *const spins[] = {"--spin-us", "100", NULL};
    daemon_start(&child, "normal", spins);
    struct client *c = client_open(&child, false);
    for (int i = 0; i < 1000; i++) { /* so close behind each other that it stayed awake for the next one */
        struct gm_wire_request ping = request_of(GM_METHOD_PING);
        struct gm_wire_response response;
        client_call(c, &ping, &response);
        assert_false(response.failed);
    }
    if (!SANITIZED) /* their shadow memory is not ours */
        assert_true(stats_u64(&child, "daemon.rss_bytes") <= 16u << 20);
    /* 1 %. Once is enough: a busy machine makes what little it does dearer, and one that spins spins always. */
    uint64_t used = UINT64_MAX;
    for (int i = 0; i < 5 && used > 20; i++) {
        const uint64_t before = cpu_ms(child.pid);
        sleep_ms(2000);
        used = cpu_ms(child.pid) - before;
    }
    assert_true(used <= 20);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static void ready_and_stopping_are_told_to_the_service_manager(void **state)
{
    (void)state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char text[512] = "";
    snprintf(address.sun_path, sizeof address.sun_path, "/tmp/gridmill-notify-%ld", (long)getpid());
    unlink(address.sun_path); /* of a process before that had this number and did not get so far */
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    setenv("NOTIFY_SOCKET", address.sun_path, 1);
    daemon_start(&child, "normal", NULL);
    unsetenv("NOTIFY_SOCKET");
    assert_true(recv(fd, text, sizeof text - 1, 0) > 0);
    assert_non_null(strstr(text, "READY=1"));
    assert_int_equal(daemon_stop(&child), 0);
    bool stopping = false;
    while (memset(text, 0, sizeof text), recv(fd, text, sizeof text - 1, MSG_DONTWAIT) > 0)
        stopping |= strstr(text, "STOPPING=1") != NULL;
    assert_true(stopping);
    close(fd);
    unlink(address.sun_path);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(start_and_sigterm_leave_nothing_behind),
        CASE(second_instance_refuses_even_when_the_first_is_stopped),
        CASE(file_in_the_place_of_a_socket_is_noticed_at_once_and_kept),
        CASE(killed_daemon_leaves_no_device_and_restarts_over_its_socket),
        CASE(device_that_does_not_start_ends_the_daemon_with_its_reason),
        CASE(automatic_device_says_why_it_is_not_the_gpu_and_an_explicit_gpu_has_no_substitute),
        CASE(missing_device_program_is_named_and_an_idle_gpu_is_a_warning),
        CASE(signal_while_the_device_starts_ends_at_once),
        CASE(sigterm_finishes_accepted_jobs_and_refuses_new_ones),
        CASE(drain_deadline_and_second_signal_fail_the_rest),
        CASE(signals_in_the_same_moment_are_one),
        CASE(device_that_ignores_stop_is_killed),
        CASE(admin_drain_answers_when_nothing_is_in_flight_and_the_daemon_stays),
        CASE(admin_that_ended_its_side_still_gets_the_answers_to_pause_and_drain),
        CASE(drains_of_admins_who_left_leave_room_for_the_next_one),
        CASE(sigusr1_dumps_and_goes_on),
        CASE(idle_daemon_uses_no_cpu_and_little_memory),
        CASE(ready_and_stopping_are_told_to_the_service_manager),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
