/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts gridmilld as a child and talks to it in raw frames. Test thread only; every wait ends after WAIT_MS.
 */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <msgpack.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGS_MAX 24

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

void daemon_spawn(struct daemon_child *child, const char *mode, const char *const *args)
{
    char daemon_path[512], device_path[512];
    const char *list[ARGS_MAX] = {NULL};
    int count = 0;
    if (child->folder[0] == 0) {
        memcpy(child->folder, "/tmp/gridmill-test-XXXXXX", sizeof "/tmp/gridmill-test-XXXXXX");
        assert_non_null(mkdtemp(child->folder));
        snprintf(child->socket, sizeof child->socket, "%s/s", child->folder);
        snprintf(child->log, sizeof child->log, "%s/log", child->folder);
        snprintf(child->once, sizeof child->once, "%s/once", child->folder);
    }
    program_path(child->program != NULL ? child->program : "gridmilld", daemon_path, sizeof daemon_path);
    program_path("fake_device", device_path, sizeof device_path);
    list[count++] = daemon_path;
    list[count++] = "--socket", list[count++] = child->socket;
    const bool own_device = args != NULL && args[0] != NULL && strcmp(args[0], "--device") == 0;
    if (!own_device)
        list[count++] = "--device", list[count++] = "cpu";
    list[count++] = "--device-program", list[count++] = device_path;
    list[count++] = "--memory", list[count++] = "64m";
    list[count++] = "--log-level", list[count++] = "debug";
    for (int i = 0; args != NULL && args[i] != NULL && count < ARGS_MAX - 1; i++)
        list[count++] = args[i];
    unlink(child->once);
    child->pid = fork();
    assert_true(child->pid >= 0);
    if (child->pid != 0)
        return;
    const int log = open(child->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(log, STDERR_FILENO);
    setenv("FAKE_DEVICE", mode, 1);
    setenv("FAKE_DEVICE_ONCE", child->once, 1);
    setenv("GATED_FOLDER", child->folder, 1);
    execv(daemon_path, (char *const *)(uintptr_t)list);
    _exit(127);
}

struct client *client_raw(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        return NULL;
    }
    struct client *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->fd = fd, c->next_id = 1, c->passed_fd = -1;
    return c;
}

void daemon_start(struct daemon_child *child, const char *mode, const char *const *args)
{
    daemon_spawn(child, mode, args);
    for (const uint64_t until = now_ms() + WAIT_MS; now_ms() < until; sleep_ms(5)) {
        struct client *c = client_raw(child->socket);
        int status;
        if (c != NULL) {
            client_close(c);
            return;
        }
        if (waitpid(child->pid, &status, WNOHANG) == child->pid)
            fail_msg("gridmilld ended with %x before it served; see %s", status, child->log);
    }
    fail_msg("gridmilld does not serve; see %s", child->log);
}

int daemon_wait(struct daemon_child *child)
{
    for (const uint64_t until = now_ms() + WAIT_MS; now_ms() < until; sleep_ms(5)) {
        int status;
        if (waitpid(child->pid, &status, WNOHANG) == child->pid) {
            child->pid = 0;
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
    }
    kill(child->pid, SIGKILL);
    fail_msg("gridmilld does not end");
    return -1;
}

int daemon_stop(struct daemon_child *child)
{
    assert_int_equal(kill(child->pid, SIGTERM), 0);
    return daemon_wait(child);
}

void daemon_clean(struct daemon_child *child)
{
    static const char *const names[] = {"", ".lock", ".admin"};
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s%s", child->socket, names[i]);
        unlink(path);
    }
    unlink(child->log), unlink(child->once);
    assert_int_equal(rmdir(child->folder), 0);
    child->folder[0] = 0;
}

bool daemon_log_has(const struct daemon_child *child, const char *text)
{
    static char log[1 << 20];
    FILE *file = fopen(child->log, "r");
    assert_non_null(file);
    log[fread(log, 1, sizeof log - 1, file)] = 0;
    fclose(file);
    return strstr(log, text) != NULL;
}

void client_close(struct client *c)
{
    close(c->fd);
    if (c->passed_fd >= 0)
        close(c->passed_fd);
    free(c);
}

void client_send(struct client *c, struct gm_wire_request *request)
{
    static uint8_t bytes[GM_FRAME_HEADER + GM_FRAME_BYTES_MAX];
    struct gm_wire_out out = {.bytes = bytes, .capacity = sizeof bytes};
    if (request->id == 0)
        request->id = c->next_id++;
    assert_int_equal(gm_wire_encode_request(&out, request), GM_OK);
    for (size_t sent = 0; sent < out.size;) {
        const ssize_t n = send(c->fd, bytes + sent, out.size - sent, MSG_NOSIGNAL);
        assert_true(n > 0);
        sent += (size_t)n;
    }
}

static bool client_read(struct client *c, uint8_t *bytes, size_t size)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(GM_FDS_PER_FRAME_MAX * sizeof(int))];
    } control;
    while (size != 0) {
        struct pollfd ready = {.fd = c->fd, .events = POLLIN};
        struct iovec piece = {.iov_base = bytes, .iov_len = size};
        struct msghdr message = {
            .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
        if (poll(&ready, 1, WAIT_MS) == 0)
            fail_msg("no answer");
        const ssize_t n = recvmsg(c->fd, &message, MSG_CMSG_CLOEXEC);
        if (n <= 0)
            return false;
        const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        if (header != NULL) {
            if (c->passed_fd >= 0)
                close(c->passed_fd);
            c->passed_count = (uint32_t)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
            memcpy(c->passed, CMSG_DATA(header), c->passed_count * sizeof(int));
            c->passed_fd = c->passed[0];
        }
        bytes += n, size -= (size_t)n;
    }
    return true;
}

bool client_receive(struct client *c, struct gm_wire_response *response)
{
    struct gm_problem problem;
    uint8_t *h = c->frame;
    c->passed_count = 0;
    if (!client_read(c, h, GM_FRAME_HEADER))
        return false;
    c->size = (size_t)h[0] << 24 | (size_t)h[1] << 16 | (size_t)h[2] << 8 | h[3];
    assert_true(c->size <= GM_FRAME_BYTES_MAX);
    assert_true(client_read(c, c->frame + GM_FRAME_HEADER, c->size));
    /* An error without an id, about the connection, is failed and not OK. */
    if (gm_wire_decode_response(c->frame + GM_FRAME_HEADER, c->size, response, &problem) != GM_OK && !response->failed)
        fail_msg("bad response: %s", problem.text);
    return true;
}

void client_call(struct client *c, struct gm_wire_request *request, struct gm_wire_response *response)
{
    client_send(c, request);
    assert_true(client_receive(c, response));
    assert_int_equal(response->id, request->id);
}

struct gm_wire_request request_of(enum gm_method method)
{
    struct gm_wire_request request;
    memset(&request, 0, sizeof request);
    request.method = method;
    if (method == GM_METHOD_HELLO) {
        request.u.hello.version_min = GM_WIRE_VERSION_MIN, request.u.hello.version_max = GM_WIRE_VERSION_MAX;
        memcpy(request.u.hello.client, "test", sizeof "test");
    }
    return request;
}

struct gm_wire_request request_nop(void)
{
    struct gm_wire_request request = request_of(GM_METHOD_SUBMIT);
    request.u.submit.op = GM_OP_nop;
    request.u.submit.dtype = GM_DTYPE_COUNT;
    return request;
}

struct gm_wire_request request_sum(const float *values, uint64_t n)
{
    struct gm_wire_request request = request_of(GM_METHOD_SUBMIT);
    request.u.submit.op = GM_OP_sum, request.u.submit.dtype = GM_DTYPE_f32, request.u.submit.n = n;
    request.u.submit.buffers = 1;
    request.u.submit.buffer[0] =
        (struct gm_wire_buffer){.place = GM_PLACE_INLINE, .bytes = (const uint8_t *)values, .size = n * sizeof *values};
    return request;
}

void client_send_nops(struct client *c, int count)
{
    for (int i = 0; i < count; i++) {
        struct gm_wire_request nop = request_nop();
        client_send(c, &nop);
    }
}

int client_receive_done(struct client *c, int count, int error)
{
    struct gm_wire_response response;
    int done = 0;
    for (int i = 0; i < count; i++) {
        assert_true(client_receive(c, &response));
        if (response.failed)
            assert_int_equal(response.problem.code, error);
        done += !response.failed;
    }
    return done;
}

struct client *client_open(const struct daemon_child *child, bool admin)
{
    char path[128];
    struct gm_wire_request hello = request_of(GM_METHOD_HELLO);
    struct gm_wire_response response;
    snprintf(path, sizeof path, "%s%s", child->socket, admin ? ".admin" : "");
    struct client *c = client_raw(path);
    assert_non_null(c);
    client_call(c, &hello, &response);
    assert_false(response.failed);
    return c;
}

static const msgpack_object *object_at(const msgpack_object *at, const char *path)
{
    while (*path != 0) {
        const size_t size = strcspn(path, ".");
        const msgpack_object *next = NULL;
        if (at->type == MSGPACK_OBJECT_ARRAY) {
            const unsigned long index = strtoul(path, NULL, 10);
            assert_true(index < at->via.array.size);
            next = &at->via.array.ptr[index];
        } else {
            assert_int_equal(at->type, MSGPACK_OBJECT_MAP);
            for (uint32_t i = 0; i < at->via.map.size && next == NULL; i++) {
                const msgpack_object *key = &at->via.map.ptr[i].key;
                if (key->via.str.size == size && memcmp(key->via.str.ptr, path, size) == 0)
                    next = &at->via.map.ptr[i].val;
            }
        }
        if (next == NULL)
            fail_msg("the answer has no %s", path);
        at = next;
        path += size + (path[size] == '.');
    }
    return at;
}

static void unpack(const struct gm_wire_response *response, msgpack_unpacked *result)
{
    size_t offset = 0;
    assert_false(response->failed);
    msgpack_unpacked_init(result);
    assert_int_equal(msgpack_unpack_next(result, (const char *)response->result, response->result_bytes, &offset),
                     MSGPACK_UNPACK_SUCCESS);
}

uint64_t response_u64(const struct gm_wire_response *response, const char *path)
{
    msgpack_unpacked result;
    unpack(response, &result);
    const msgpack_object *object = object_at(&result.data, path);
    assert_int_equal(object->type, MSGPACK_OBJECT_POSITIVE_INTEGER);
    const uint64_t value = object->via.u64;
    msgpack_unpacked_destroy(&result);
    return value;
}

uint64_t stats_u64(const struct daemon_child *child, const char *path)
{
    struct client *c = client_open(child, false);
    struct gm_wire_request stats = request_of(GM_METHOD_STATS);
    struct gm_wire_response response;
    client_call(c, &stats, &response);
    const uint64_t value = response_u64(&response, path);
    client_close(c);
    return value;
}

void stats_text(const struct daemon_child *child, const char *path, char *text, size_t size)
{
    struct client *c = client_open(child, false);
    struct gm_wire_request stats = request_of(GM_METHOD_STATS);
    struct gm_wire_response response;
    msgpack_unpacked result;
    client_call(c, &stats, &response);
    unpack(&response, &result);
    const msgpack_object *object = object_at(&result.data, path);
    assert_int_equal(object->type, MSGPACK_OBJECT_STR);
    snprintf(text, size, "%.*s", (int)object->via.str.size, object->via.str.ptr);
    msgpack_unpacked_destroy(&result);
    client_close(c);
}

void stats_wait(const struct daemon_child *child, const char *path, uint64_t value)
{
    uint64_t seen = 0;
    for (const uint64_t until = now_ms() + WAIT_MS; now_ms() < until; sleep_ms(10))
        if ((seen = stats_u64(child, path)) == value)
            return;
    fail_msg("%s is %llu and does not become %llu", path, (unsigned long long)seen, (unsigned long long)value);
}

void stats_wait_text(const struct daemon_child *child, const char *path, const char *part)
{
    char text[256] = "";
    for (const uint64_t until = now_ms() + WAIT_MS; now_ms() < until; sleep_ms(10)) {
        stats_text(child, path, text, sizeof text);
        if (strstr(text, part) != NULL)
            return;
    }
    fail_msg("%s is '%s' and does not become '%s'", path, text, part);
}

void stats_add_up(const struct daemon_child *child)
{
    struct client *c = client_open(child, false);
    struct gm_wire_request stats = request_of(GM_METHOD_STATS);
    struct gm_wire_response r;
    client_call(c, &stats, &r);
    assert_int_equal(response_u64(&r, "devices.0.submitted"),
                     response_u64(&r, "devices.0.done") + response_u64(&r, "devices.0.failed") +
                         response_u64(&r, "devices.0.rejected") + response_u64(&r, "devices.0.cancelled") +
                         response_u64(&r, "devices.0.queue_depth") - response_u64(&r, "devices.0.waiting"));
    client_close(c);
}

void daemon_back(const struct daemon_child *child, uint64_t restarts)
{
    stats_wait(child, "devices.0.restarts", restarts);
    stats_wait(child, "daemon.healthy", 1);
    struct client *c = client_open(child, false);
    client_send_nops(c, 5);
    assert_int_equal(client_receive_done(c, 5, 0), 5);
    client_close(c);
    stats_add_up(child);
}

pid_t daemon_device_pid(const struct daemon_child *child)
{
    return (pid_t)stats_u64(child, "devices.0.pid");
}
