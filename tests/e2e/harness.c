/* SPDX-License-Identifier: Apache-2.0
 *
 * Life of the daemon under test, its figures, and waiting. One thread; every wait has a bound.
 */
#include "harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <msgpack.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_MS 60000 /* a CUDA context takes seconds, under sanitizers more */
#define PARK_MS  "150" /* longer than a device collects housekeeping, so that this happens beside a kernel too */
#define LOOK_MS  5     /* a kernel that is on its way in or out says so sooner */

uint64_t in_ms(uint64_t ms)
{
    return gm_deadline_in(ms * 1000000u);
}

uint64_t now_ms(void)
{
    return gm_now_ns() / 1000000u;
}

void sleep_ms(uint64_t ms)
{
    const struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};

    nanosleep(&t, NULL);
}

static const char *device_name(void)
{
    const char *const name = getenv("GRIDMILL_TEST_DEVICE");

    return name != NULL && name[0] != '\0' ? name : "cpu";
}

bool on_gpu(void)
{
    return strncmp(device_name(), "cuda", 4) == 0;
}

/* Beside this program, where the build puts everything, also after the folder was carried elsewhere. */
static void program_path(char *out, size_t size)
{
    const ssize_t n = readlink("/proc/self/exe", out, size - 1);

    assert_in_range(n, 1, size - 20);
    out[n] = '\0';
    char *const name = strrchr(out, '/') + 1;
    snprintf(name, size - (size_t)(name - out), "gridmilld");
}

void daemon_init(struct daemon *d)
{
    memset(d, 0, sizeof *d);
    snprintf(d->folder, sizeof d->folder, "/tmp/gm-e2e-XXXXXX");
    assert_non_null(mkdtemp(d->folder));
    snprintf(d->socket, sizeof d->socket, "%s/s", d->folder);
    snprintf(d->log, sizeof d->log, "%s/log", d->folder);
}

void daemon_remove(struct daemon *d)
{
    char path[400];
    DIR *const folder = opendir(d->folder);

    if (d->pid != 0)
        daemon_kill(d);
    for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", d->folder, e->d_name);
        unlink(path);
    }
    if (folder != NULL)
        closedir(folder);
    rmdir(d->folder);
}

static void become_daemon(const struct daemon *d, const char *program)
{
    const char *argv[6 + DAEMON_ARGUMENTS_MAX] = {program, "--socket", d->socket, "--device", device_name()};
    const int log = open(d->log, O_WRONLY | O_CREAT | O_APPEND, 0600);

    for (int i = 0; i < DAEMON_ARGUMENTS_MAX && d->arguments[i] != NULL; i++)
        argv[5 + i] = d->arguments[i];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (d->descriptors != 0) {
        const struct rlimit limit = {d->descriptors, d->descriptors};
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    dup2(log, STDERR_FILENO);
    dup2(log, STDOUT_FILENO);
    execv(program, (char *const *)argv);
    _exit(127);
}

void daemon_spawn(struct daemon *d)
{
    char program[1024];

    assert_int_equal(0, d->pid);
    program_path(program, sizeof program);
    d->pid = fork();
    assert_true(d->pid >= 0);
    if (d->pid == 0)
        become_daemon(d, program);
}

static void show_log(const struct daemon *d)
{
    char line[512];
    FILE *const log = fopen(d->log, "r");

    while (log != NULL && fgets(line, sizeof line, log) != NULL)
        fprintf(stderr, "    | %s", line);
    if (log != NULL)
        fclose(log);
}

void daemon_start(struct daemon *d)
{
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    const uint64_t end_ms = now_ms() + START_MS;
    bool done = false;

    daemon_spawn(d);
    while (!done && now_ms() < end_ms && daemon_wait(d, 0) == -1) {
        const struct gm_options options = {.socket = d->socket, .deadline_ns = in_ms(1000)};
        struct gm_client *client;
        if (gm_open(&options, &client, NULL) == GM_OK) {
            done = gm_run(client, &nop, in_ms(5000), NULL) == GM_OK;
            gm_close(client);
        }
        if (!done)
            sleep_ms(5);
    }
    if (!done) {
        show_log(d);
        fail_msg("gridmilld did not come up");
    }
}

int daemon_wait(struct daemon *d, uint64_t ms)
{
    const uint64_t end_ms = now_ms() + ms;
    int status;

    for (;;) {
        const pid_t pid = d->pid == 0 ? -1 : waitpid(d->pid, &status, WNOHANG);
        if (pid == d->pid) {
            d->pid = 0;
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        if (pid < 0 || now_ms() >= end_ms)
            return -1;
        sleep_ms(1);
    }
}

void daemon_stop(struct daemon *d)
{
    if (d->pid == 0)
        return;
    kill(d->pid, SIGTERM);
    const int status = daemon_wait(d, 40000);
    if (status != 0)
        show_log(d);
    assert_int_equal(0, status);
}

void daemon_kill(struct daemon *d)
{
    kill(d->pid, SIGKILL);
    assert_int_equal(128 + SIGKILL, daemon_wait(d, 40000));
}

bool daemon_logged(const struct daemon *d, const char *text)
{
    char line[1024];
    bool found = false;
    FILE *const log = fopen(d->log, "r");

    while (log != NULL && !found && fgets(line, sizeof line, log) != NULL)
        found = strstr(line, text) != NULL;
    if (log != NULL)
        fclose(log);
    return found;
}

int daemon_setup(void **state)
{
    struct daemon *const d = malloc(sizeof *d);

    assert_non_null(d);
    daemon_init(d);
    *state = d;
    daemon_start(d);
    return 0;
}

int daemon_setup_to_freeze(void **state)
{
    struct daemon *const d = malloc(sizeof *d);

    assert_non_null(d);
    daemon_init(d);
    if (on_gpu())
        d->arguments[0] = "--idle-park-ms", d->arguments[1] = PARK_MS;
    *state = d;
    daemon_start(d);
    return 0;
}

int daemon_teardown(void **state)
{
    struct daemon *const d = *state;

    daemon_stop(d);
    daemon_remove(d);
    free(d);
    return 0;
}

static struct gm_client *open_with(const struct daemon *d, uint32_t lane_slots)
{
    const struct gm_options options = {.socket = d->socket, .deadline_ns = in_ms(20000), .lane_slots = lane_slots};
    struct gm_client *client;
    struct gm_failure failure;

    if (gm_open(&options, &client, &failure) != GM_OK)
        fail_msg("gm_open: %s", failure.text);
    return client;
}

struct gm_client *daemon_open(const struct daemon *d)
{
    return open_with(d, 0);
}

struct gm_client *daemon_open_without_lanes(const struct daemon *d)
{
    return open_with(d, GM_NO_LANE);
}

/* ---- Figures ---- */

static const msgpack_object *step(const msgpack_object *object, const char *name, size_t size)
{
    if (object->type == MSGPACK_OBJECT_ARRAY) {
        const size_t i = strtoull(name, NULL, 10);
        return i < object->via.array.size ? &object->via.array.ptr[i] : NULL;
    }
    if (object->type != MSGPACK_OBJECT_MAP)
        return NULL;
    for (uint32_t i = 0; i < object->via.map.size; i++) {
        const msgpack_object *const key = &object->via.map.ptr[i].key;
        if (key->type == MSGPACK_OBJECT_STR && key->via.str.size == size && memcmp(key->via.str.ptr, name, size) == 0)
            return &object->via.map.ptr[i].val;
    }
    return NULL;
}

/* Finds a figure and hands it to take while its memory is there. */
static void with_stat(struct gm_client *client, const char *path, void (*take)(const msgpack_object *, void *),
                      void *to)
{
    msgpack_unpacked unpacked;
    void *bytes;
    size_t size, at = 0;

    assert_int_equal(GM_OK, gm_stats(client, in_ms(20000), &bytes, &size));
    msgpack_unpacked_init(&unpacked);
    assert_int_equal(MSGPACK_UNPACK_SUCCESS, msgpack_unpack_next(&unpacked, bytes, size, &at));
    const msgpack_object *found = &unpacked.data;
    for (const char *name = path; found != NULL && *name != '\0';) {
        const size_t length = strcspn(name, ".");
        found = step(found, name, length);
        name += length + (name[length] == '.');
    }
    if (found == NULL)
        fail_msg("stats have no %s", path);
    take(found, to);
    msgpack_unpacked_destroy(&unpacked);
    gm_free(bytes);
}

static void take_u64(const msgpack_object *object, void *to)
{
    assert_int_equal(MSGPACK_OBJECT_POSITIVE_INTEGER, object->type);
    *(uint64_t *)to = object->via.u64;
}

uint64_t stat_of(struct gm_client *client, const char *path)
{
    uint64_t value = 0;

    with_stat(client, path, take_u64, &value);
    return value;
}

static void take_text(const msgpack_object *object, void *to)
{
    char *const text = to;

    assert_int_equal(MSGPACK_OBJECT_STR, object->type);
    snprintf(text, STAT_TEXT_BYTES, "%.*s", (int)object->via.str.size, object->via.str.ptr);
}

void stat_text(struct gm_client *client, const char *path, char text[STAT_TEXT_BYTES])
{
    with_stat(client, path, take_text, text);
}

void wait_for_stat(struct gm_client *client, const char *path, uint64_t value, uint64_t ms)
{
    const uint64_t end_ms = now_ms() + ms;
    uint64_t is;

    while ((is = stat_of(client, path)) != value)
        if (now_ms() > end_ms)
            fail_msg("%s is %" PRIu64 " instead of %" PRIu64 " after %" PRIu64 " ms", path, is, value, ms);
        else
            sleep_ms(2);
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
void assert_books_balance(struct gm_client *client)
{
    const uint64_t end_ms = now_ms() + 20000;

    while (!books_balance(client)) {
        assert_true(now_ms() < end_ms);
        sleep_ms(2);
    }
}

pid_t device_pid(struct gm_client *client)
{
    return (pid_t)stat_of(client, "devices.0.pid");
}

/* ---- Processes ---- */

bool eventually(bool (*holds)(void *argument), void *argument, uint64_t ms)
{
    const uint64_t end_ms = now_ms() + ms;

    while (!holds(argument)) {
        if (now_ms() > end_ms)
            return false;
        sleep_ms(2);
    }
    return true;
}

size_t descriptors_of(pid_t pid)
{
    char path[64];
    size_t count = 0;

    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *const folder = opendir(path);
    assert_non_null(folder);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count - 2;
}

uint64_t cpu_ms_of(pid_t pid)
{
    char path[64], line[1024];
    unsigned long user = 0, system = 0;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *const file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    assert_int_equal(2, sscanf(strrchr(line, ')') + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                               &system));
    return (uint64_t)(user + system) * 1000u / (uint64_t)sysconf(_SC_CLK_TCK);
}

static char state_of_thread(pid_t pid, const char *thread)
{
    char path[128], line[1024];
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/task/%.20s/stat", pid, thread);
    file = fopen(path, "r");
    if (file == NULL)
        return 'X';
    const char *const end = fgets(line, sizeof line, file) != NULL ? strrchr(line, ')') : NULL;
    fclose(file);
    return end != NULL ? end[2] : 'X';
}

static bool stands_still(void *argument)
{
    const pid_t pid = *(const pid_t *)argument;
    char path[64];
    bool still = true;

    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *const folder = opendir(path);
    if (folder == NULL)
        return false;
    for (struct dirent *e; (e = readdir(folder)) != NULL;)
        still &= e->d_name[0] == '.' || state_of_thread(pid, e->d_name) == 'T';
    closedir(folder);
    return still;
}

void freeze(pid_t pid)
{
    assert_int_equal(0, kill(pid, SIGSTOP));
    assert_true(eventually(stands_still, &pid, 10000));
}

void thaw(pid_t pid)
{
    kill(pid, SIGCONT);
}

static bool is_asleep(void *watcher)
{
    char state[STAT_TEXT_BYTES];

    stat_text(watcher, "devices.0.state", state);
    return strcmp(state, "asleep") == 0;
}

void freeze_device(struct gm_client *watcher, pid_t device)
{
    const uint64_t end_ms = now_ms() + START_MS;
    bool done = false;

    while (!done) {
        if (on_gpu())
            assert_true(eventually(is_asleep, watcher, START_MS));
        freeze(device);
        if (on_gpu())
            sleep_ms(LOOK_MS);
        done = !on_gpu() || is_asleep(watcher);
        if (done)
            continue;
        thaw(device); /* it was just woken */
        assert_true(now_ms() < end_ms);
    }
}
