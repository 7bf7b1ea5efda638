/* SPDX-License-Identifier: Apache-2.0
 *
 * Talks to gridmilld in raw frames, and reads what is in them. Test thread only; every wait ends after WAIT_MS.
 */
#include "harness.h"

#include <errno.h>
#include <msgpack.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

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
    return request;
}

struct gm_wire_request request_sum(const float *values, uint64_t n)
{
    struct gm_wire_request request = request_of(GM_METHOD_SUBMIT);
    request.u.submit.op = GM_OP_sum, request.u.submit.args.dtype = GM_DTYPE_f32, request.u.submit.args.n = n;
    request.u.submit.buffers = 1;
    request.u.submit.buffer[0] =
        (struct gm_wire_buffer){.place = GM_PLACE_INLINE, .bytes = (const uint8_t *)values, .size = n * sizeof *values};
    return request;
}

struct gm_wire_request request_create(const char *name, uint64_t bytes, bool device)
{
    struct gm_wire_request request = request_of(GM_METHOD_ARENA_CREATE);
    request.u.arena_create.bytes = bytes, request.u.arena_create.device_memory = device;
    memcpy(request.u.arena_create.name, name, strlen(name));
    return request;
}

struct gm_wire_request request_by_name(enum gm_method method, const char *name)
{
    struct gm_wire_request request = request_of(method);
    char *to = method == GM_METHOD_ARENA_ATTACH ? request.u.arena_attach.name : request.u.arena_remove.name;
    memcpy(to, name, strlen(name));
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

struct client *client_open(const struct daemon_child *d, bool admin)
{
    char path[128];
    struct gm_wire_request hello = request_of(GM_METHOD_HELLO);
    struct gm_wire_response response;
    snprintf(path, sizeof path, "%s%s", d->socket, admin ? ".admin" : "");
    struct client *c = client_raw(path);
    assert_non_null(c);
    client_call(c, &hello, &response);
    assert_false(response.failed);
    return c;
}

int code_of(const struct gm_wire_response *response)
{
    return response->failed ? response->problem.code : GM_OK;
}

int client_code(struct client *c, struct gm_wire_request request, struct gm_wire_response *response)
{
    client_call(c, &request, response);
    return code_of(response);
}

void snapshot(struct client *c, struct gm_wire_response *response)
{
    assert_int_equal(client_code(c, request_of(GM_METHOD_STATS), response), GM_OK);
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

uint32_t response_count(const struct gm_wire_response *response, const char *path)
{
    msgpack_unpacked result;
    unpack(response, &result);
    const msgpack_object *object = object_at(&result.data, path);
    assert_int_equal(object->type, MSGPACK_OBJECT_ARRAY);
    const uint32_t count = object->via.array.size;
    msgpack_unpacked_destroy(&result);
    return count;
}

void response_text(const struct gm_wire_response *response, const char *path, char *text, size_t size)
{
    msgpack_unpacked result;
    unpack(response, &result);
    const msgpack_object *object = object_at(&result.data, path);
    assert_int_equal(object->type, MSGPACK_OBJECT_STR);
    snprintf(text, size, "%.*s", (int)object->via.str.size, object->via.str.ptr);
    msgpack_unpacked_destroy(&result);
}
