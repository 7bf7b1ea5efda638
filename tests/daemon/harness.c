/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts gridmilld as a child, reads its stats and ends it. Test thread only; every wait ends after WAIT_MS.
 */
#include "harness.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGS_MAX 24

struct daemon_child child;

int set_up(void **state)
{
    (void)state;
    memset(&child, 0, sizeof child);
    return 0;
}

int tear_down(void **state)
{
    (void)state;
    unsetenv("GRIDMILL_LANE_START");
    if (child.pid > 0) {
        kill(child.pid, SIGKILL);
        waitpid(child.pid, NULL, 0);
    }
    if (child.folder[0] != 0)
        daemon_clean(&child);
    return 0;
}

uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

void sleep_ms(unsigned ms)
{
    usleep(ms * 1000u);
}

void program_path(const char *name, char *path, size_t size)
{
    char self[512];
    const ssize_t got = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(got > 0);
    self[got] = 0;
    *strrchr(self, '/') = 0;
    snprintf(path, size, "%.400s/%s", self, name);
}

void daemon_spawn(struct daemon_child *d, const char *mode, const char *const *args)
{
    char daemon_path[512], device_path[512];
    const char *list[ARGS_MAX] = {NULL};
    int count = 0;
    if (d->folder[0] == 0) {
        memcpy(d->folder, "/tmp/gridmill-test-XXXXXX", sizeof "/tmp/gridmill-test-XXXXXX");
        assert_non_null(mkdtemp(d->folder));
        snprintf(d->socket, sizeof d->socket, "%s/s", d->folder);
        snprintf(d->log, sizeof d->log, "%s/log", d->folder);
        snprintf(d->once, sizeof d->once, "%s/once", d->folder);
    }
    program_path(d->program != NULL ? d->program : "gridmilld", daemon_path, sizeof daemon_path);
    program_path("fake_device", device_path, sizeof device_path);
    list[count++] = daemon_path;
    list[count++] = "--socket", list[count++] = d->socket;
    const bool own_device = args != NULL && args[0] != NULL && strcmp(args[0], "--device") == 0;
    if (!own_device)
        list[count++] = "--device", list[count++] = "cpu";
    list[count++] = "--device-program", list[count++] = device_path;
    list[count++] = "--memory", list[count++] = "64m";
    list[count++] = "--log-level", list[count++] = "debug";
    for (int i = 0; args != NULL && args[i] != NULL && count < ARGS_MAX - 1; i++)
        list[count++] = args[i];
    unlink(d->once);
    d->pid = fork();
    assert_true(d->pid >= 0);
    if (d->pid != 0)
        return;
    const int log = open(d->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(log, STDERR_FILENO);
    setenv("FAKE_DEVICE", mode, 1);
    setenv("FAKE_DEVICE_ONCE", d->once, 1);
    setenv("GATED_FOLDER", d->folder, 1);
    execv(daemon_path, (char *const *)(uintptr_t)list);
    _exit(127);
}

void daemon_start(struct daemon_child *d, const char *mode, const char *const *args)
{
    daemon_spawn(d, mode, args);
    for (const uint64_t until = now_ms() + WAIT_MS; now_ms() < until; sleep_ms(5)) {
        struct client *c = client_raw(d->socket);
        int status;
        if (c != NULL) {
            client_close(c);
            return;
        }
        if (waitpid(d->pid, &status, WNOHANG) == d->pid)
            fail_msg("gridmilld ended with %x before it served; see %s", status, d->log);
    }
    fail_msg("gridmilld does not serve; see %s", d->log);
}

int daemon_wait(struct daemon_child *d)
{
    for (const uint64_t until = now_ms() + WAIT_MS; now_ms() < until; sleep_ms(5)) {
        int status;
        if (waitpid(d->pid, &status, WNOHANG) == d->pid) {
            d->pid = 0;
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
    }
    kill(d->pid, SIGKILL);
    fail_msg("gridmilld does not end");
    return -1;
}

int daemon_stop(struct daemon_child *d)
{
    assert_int_equal(kill(d->pid, SIGTERM), 0);
    return daemon_wait(d);
}

void daemon_kill(struct daemon_child *d)
{
    assert_int_equal(kill(d->pid, SIGKILL), 0);
    assert_int_equal(daemon_wait(d), 128 + SIGKILL);
}

void daemon_clean(struct daemon_child *d)
{
    /* Those of the daemon, ours, and the gates of gated.c. */
    static const char *const names[] = {"s",    "s.lock", "s.admin",   "log",        "once",
                                        "make", "punch",  "held.make", "held.punch", "fail"};
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", d->folder, names[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(d->folder), 0);
    d->folder[0] = 0;
}

bool daemon_log_has(const struct daemon_child *d, const char *text)
{
    static char log[1 << 20];
    FILE *file = fopen(d->log, "r");
    assert_non_null(file);
    log[fread(log, 1, sizeof log - 1, file)] = 0;
    fclose(file);
    return strstr(log, text) != NULL;
}

void needs_root(void)
{
    if (geteuid() != 0)
        skip();
}

pid_t other_user_starts(void)
{
    assert_int_equal(chmod(child.folder, 0755), 0);
    assert_int_equal(chmod(child.socket, 0666), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0 && (setgid(OTHER_UID) != 0 || setuid(OTHER_UID) != 0))
        _exit(255);
    return pid;
}

int as_another_user(int (*what)(void))
{
    int status;
    const pid_t pid = other_user_starts();
    if (pid == 0)
        _exit(what());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

uint64_t stats_u64(const struct daemon_child *d, const char *path)
{
    struct client *c = client_open(d, false);
    struct gm_wire_response response;
    snapshot(c, &response);
    const uint64_t value = response_u64(&response, path);
    client_close(c);
    return value;
}

void stats_text(const struct daemon_child *d, const char *path, char *text, size_t size)
{
    struct client *c = client_open(d, false);
    struct gm_wire_response response;
    snapshot(c, &response);
    response_text(&response, path, text, size);
    client_close(c);
}

void stats_wait(const struct daemon_child *d, const char *path, uint64_t value)
{
    uint64_t seen = 0;
    for (const uint64_t until = now_ms() + WAIT_MS; now_ms() < until; sleep_ms(10))
        if ((seen = stats_u64(d, path)) == value)
            return;
    fail_msg("%s is %llu and does not become %llu", path, (unsigned long long)seen, (unsigned long long)value);
}

void stats_wait_text(const struct daemon_child *d, const char *path, const char *part)
{
    char text[256] = "";
    for (const uint64_t until = now_ms() + WAIT_MS; now_ms() < until; sleep_ms(10)) {
        stats_text(d, path, text, sizeof text);
        if (strstr(text, part) != NULL)
            return;
    }
    fail_msg("%s is '%s' and does not become '%s'", path, text, part);
}

void log_wait(const struct daemon_child *d, const char *text)
{
    for (const uint64_t until = now_ms() + WAIT_MS; !daemon_log_has(d, text); sleep_ms(10))
        if (now_ms() > until)
            fail_msg("the log does not come to say '%s'", text);
}

void stats_add_up(const struct daemon_child *d)
{
    struct client *c = client_open(d, false);
    struct gm_wire_response r;
    snapshot(c, &r);
    assert_int_equal(response_u64(&r, "devices.0.submitted"),
                     response_u64(&r, "devices.0.done") + response_u64(&r, "devices.0.failed") +
                         response_u64(&r, "devices.0.rejected") + response_u64(&r, "devices.0.cancelled") +
                         response_u64(&r, "devices.0.queue_depth") - response_u64(&r, "devices.0.waiting"));
    client_close(c);
}

void daemon_back(const struct daemon_child *d, uint64_t restarts)
{
    stats_wait(d, "devices.0.restarts", restarts);
    stats_wait(d, "daemon.healthy", 1);
    struct client *c = client_open(d, false);
    client_send_nops(c, 5);
    assert_int_equal(client_receive_done(c, 5, 0), 5);
    client_close(c);
    stats_add_up(d);
}

pid_t daemon_device_pid(const struct daemon_child *d)
{
    return (pid_t)stats_u64(d, "devices.0.pid");
}

static void process_wait_state(pid_t pid, char state)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    for (const uint64_t until = now_ms() + WAIT_MS; now_ms() < until; sleep_ms(1)) {
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        assert_non_null(fgets(line, sizeof line, file));
        fclose(file);
        if (strrchr(line, ')')[2] == state)
            return;
    }
    fail_msg("process %d does not come into state %c", (int)pid, state);
}

void process_stop(pid_t pid)
{
    process_wait_state(pid, 'S');
    assert_int_equal(kill(pid, SIGSTOP), 0);
    process_wait_state(pid, 'T');
}
