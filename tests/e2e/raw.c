/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections to the daemon without the client library: bytes in any cut, and whatever a library would not send. One
 * thread; reading is bounded by its deadline.
 */
#include "harness.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int raw_connect(const struct daemon *d)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_true(strlen(d->socket) < sizeof address.sun_path);
    snprintf(address.sun_path, sizeof address.sun_path, "%.107s", d->socket);
    assert_int_equal(0, connect(fd, (struct sockaddr *)&address, sizeof address));
    return fd;
}

void raw_send(int fd, const void *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        const ssize_t n = send(fd, (const uint8_t *)bytes + at, size - at, MSG_NOSIGNAL);
        if (n <= 0)
            return; /* the daemon closed: what the test sees next */
        at += (size_t)n;
    }
}

static bool receive_whole(int fd, uint8_t *to, size_t size, uint64_t end_ms)
{
    for (size_t at = 0; at < size;) {
        const uint64_t now = now_ms();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, now < end_ms ? (int)(end_ms - now) : 0) == 0)
            fail_msg("no response in time");
        const ssize_t n = recv(fd, to + at, size - at, 0);
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

bool raw_receive(int fd, uint64_t ms, struct gm_wire_response *response)
{
    static uint8_t body[GM_FRAME_BYTES_MAX];
    const uint64_t end_ms = now_ms() + ms;
    struct gm_problem problem;
    uint8_t head[4];

    if (!receive_whole(fd, head, sizeof head, end_ms))
        return false;
    const size_t size = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
    assert_in_range(size, 1, sizeof body);
    if (!receive_whole(fd, body, size, end_ms))
        return false;
    const int rc = gm_wire_decode_response(body, size, response, &problem);
    /* An error without an id is returned as such, and is in the response as well. */
    if (rc != GM_OK && !(response->failed && response->problem.code == rc))
        fail_msg("malformed response: %s", problem.text);
    return true;
}

struct frame raw_encode(const struct gm_wire_request *request)
{
    struct gm_wire_out out = {.capacity = GM_FRAME_HEADER + GM_FRAME_BYTES_MAX};

    out.bytes = malloc(out.capacity);
    assert_non_null(out.bytes);
    assert_int_equal(GM_OK, gm_wire_encode_request(&out, request));
    return (struct frame){out.bytes, out.size};
}

struct frame raw_sum(uint32_t id)
{
    static const uint32_t numbers[4] = {1, 2, 3, 4};
    const struct gm_wire_request request = {
        .id = id,
        .method = GM_METHOD_SUBMIT,
        .u.submit = {.op = GM_OP_sum, .args = {.dtype = GM_DTYPE_u32, .n = 4}, .buffers = 1,
                     .buffer[0] = {.place = GM_PLACE_INLINE, .bytes = (const uint8_t *)numbers, .size = 16}}};

    return raw_encode(&request);
}

int raw_session(const struct daemon *d)
{
    const struct gm_wire_request hello = {
        .id = 1, .method = GM_METHOD_HELLO, .u.hello = {.version_min = 1, .version_max = 1, .client = "raw"}};
    struct gm_wire_response response;
    const struct frame frame = raw_encode(&hello);
    const int fd = raw_connect(d);

    raw_send(fd, frame.bytes, frame.size);
    free(frame.bytes);
    assert_true(raw_receive(fd, 20000, &response));
    assert_false(response.failed);
    return fd;
}
