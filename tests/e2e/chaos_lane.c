/* SPDX-License-Identifier: Apache-2.0
 *
 * See chaos_lane.h. Descriptors are kept in the order of their arrival and given to the answer that they belong to.
 */
#include "chaos_lane.h"

#include "harness.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void keep_descriptors(struct raw *raw, struct msghdr *message)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (raw->fds_count < sizeof raw->fds / sizeof *raw->fds)
                raw->fds[raw->fds_count++] = fd;
            else
                close(fd);
        }
    }
}

static int take_descriptor(struct raw *raw)
{
    if (raw->fds_count == 0)
        return -1;
    const int fd = raw->fds[0];
    raw->fds_count--;
    memmove(raw->fds, raw->fds + 1, raw->fds_count * sizeof fd);
    return fd;
}

static int receive(struct raw *raw, uint8_t *to, size_t size, uint64_t end_ms)
{
    for (size_t at = 0; at < size;) {
        union {
            char bytes[CMSG_SPACE(GM_FDS_PER_FRAME_MAX * sizeof(int))];
            struct cmsghdr align;
        } control;
        struct iovec io = {to + at, size - at};
        struct msghdr message = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control.bytes,
                                 .msg_controllen = sizeof control.bytes};
        struct pollfd p = {.fd = raw->fd, .events = POLLIN};
        const uint64_t now = now_ms();
        const int ready = poll(&p, 1, now < end_ms ? (int)(end_ms - now) : 0);
        if (ready == 0)
            return GM_ETIMEDOUT;
        const ssize_t n = ready < 0 ? -1 : recvmsg(raw->fd, &message, MSG_CMSG_CLOEXEC);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return GM_ECLOSED;
        keep_descriptors(raw, &message);
        at += (size_t)n;
    }
    return GM_OK;
}

int raw_call(struct raw *raw, struct gm_wire_request *request, struct gm_wire_response *response, uint64_t ms)
{
    static _Thread_local uint8_t body[65536 + GM_STATS_BYTES_MAX];
    const uint64_t end_ms = now_ms() + ms;
    struct gm_problem problem;
    uint8_t head[4];

    request->id = ++raw->id;
    const struct frame frame = raw_encode(request);
    raw_send(raw->fd, frame.bytes, frame.size);
    free(frame.bytes);
    do {
        int rc = receive(raw, head, sizeof head, end_ms);
        if (rc != GM_OK)
            return rc;
        const size_t size = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
        if (size == 0 || size > sizeof body)
            return GM_EPROTO;
        rc = receive(raw, body, size, end_ms);
        if (rc != GM_OK)
            return rc;
        rc = gm_wire_decode_response(body, size, response, &problem);
        if (rc != GM_OK)
            return rc;
    } while (response->id != raw->id); /* of a call that was given up */
    return response->failed ? response->problem.code : GM_OK;
}

int raw_open(struct raw *raw, const char *path, uint64_t ms)
{
    struct gm_wire_request hello = {
        .method = GM_METHOD_HELLO, .u.hello = {.version_min = 1, .version_max = 1, .client = "raw lane"}};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct gm_wire_response response;

    *raw = (struct raw){.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    snprintf(address.sun_path, sizeof address.sun_path, "%.107s", path);
    if (raw->fd < 0)
        return GM_EFDS;
    const int rc = connect(raw->fd, (struct sockaddr *)&address, sizeof address) != 0
                       ? GM_ECONNECT
                       : raw_call(raw, &hello, &response, ms);
    if (rc != GM_OK)
        raw_close(raw);
    return rc;
}

void raw_close(struct raw *raw)
{
    for (int fd; (fd = take_descriptor(raw)) >= 0;)
        close(fd);
    if (raw->fd >= 0)
        close(raw->fd);
    raw->fd = -1;
}

static uint64_t result_of(const struct gm_wire_response *response, const char *key)
{
    struct gm_problem problem;
    uint64_t value = 0;

    return gm_wire_result_u64(response, key, &value, &problem) == GM_OK ? value : 0;
}

static void *map(int fd, uint64_t bytes)
{
    void *const at = fd < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return at != MAP_FAILED ? at : NULL;
}

int raw_arena_create(struct raw *raw, uint64_t bytes, struct raw_arena *arena, uint64_t ms)
{
    struct gm_wire_request request = {.method = GM_METHOD_ARENA_CREATE, .u.arena_create.bytes = bytes};
    struct gm_wire_response response;
    const int rc = raw_call(raw, &request, &response, ms);

    if (rc != GM_OK)
        return rc;
    arena->handle = (uint32_t)result_of(&response, "arena");
    arena->bytes = result_of(&response, "bytes");
    arena->memory = take_descriptor(raw);
    arena->data = map(arena->memory, arena->bytes);
    return arena->data != NULL ? GM_OK : GM_ESYSTEM;
}

void raw_arena_unmap(struct raw_arena *arena)
{
    if (arena->data == NULL)
        return;
    munmap(arena->data, arena->bytes);
    close(arena->memory);
    arena->data = NULL;
}

int raw_lane_open(struct raw *raw, int device, uint32_t slots, struct raw_lane *lane, uint64_t ms)
{
    struct gm_wire_request request = {.method = GM_METHOD_LANE_OPEN};
    struct gm_wire_response response;
    struct gm_problem problem;

    request.u.lane_open.has_device = device >= 0;
    request.u.lane_open.device = device >= 0 ? (uint32_t)device : 0;
    request.u.lane_open.slots = slots;
    const int rc = raw_call(raw, &request, &response, ms);
    if (rc != GM_OK)
        return rc;
    *lane = (struct raw_lane){.number = (uint32_t)result_of(&response, "lane"),
                              .device = (uint32_t)result_of(&response, "device"),
                              .slots = (uint32_t)result_of(&response, "slots"),
                              .start = result_of(&response, "start"),
                              .bytes = result_of(&response, "bytes")};
    if (gm_wire_result_bool(&response, "skip", &lane->skip, &problem) != GM_OK || !GM_IS_POW2(lane->slots) ||
        lane->bytes != gm_lane_bytes(lane->slots) || raw->fds_count != 3)
        return GM_EPROTO;
    lane->log2 = (uint32_t)__builtin_ctz(lane->slots);
    lane->memory = take_descriptor(raw);
    uint8_t *const memory = map(lane->memory, lane->bytes);
    lane->bell = take_descriptor(raw);
    lane->wake = take_descriptor(raw);
    lane->header = (struct gm_lane_header *)(void *)memory;
    if (memory == NULL)
        return GM_ESYSTEM;
    lane->sq = (struct gm_desc_slot *)(void *)(memory + gm_lane_sq_offset());
    lane->cq = (struct gm_granule *)(void *)(memory + gm_lane_cq_offset(lane->slots));
    return lane->header->magic == GM_LANE_MAGIC && lane->header->slots == lane->slots ? GM_OK : GM_EPROTO;
}

void raw_lane_unmap(struct raw_lane *lane)
{
    if (lane->header == NULL)
        return;
    munmap(lane->header, lane->bytes);
    close(lane->memory);
    close(lane->bell);
    close(lane->wake);
    lane->header = NULL;
}

int raw_lane_close(struct raw *raw, struct raw_lane *lane, uint64_t ms)
{
    struct gm_wire_request request = {.method = GM_METHOD_LANE_CLOSE, .u.lane_close.lane = lane->number};
    struct gm_wire_response response;

    return raw_call(raw, &request, &response, ms);
}

int raw_cancel(struct raw *raw, const struct raw_lane *lane, uint64_t position, uint64_t ms)
{
    struct gm_wire_request request = {.method = GM_METHOD_CANCEL,
                                      .u.cancel = {.has_lane = true, .lane = lane->number, .position = position}};
    struct gm_wire_response response;

    return raw_call(raw, &request, &response, ms);
}

bool raw_ended(const struct raw *raw)
{
    struct pollfd p = {.fd = raw->fd, .events = POLLIN | POLLRDHUP};

    return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void raw_ring_anyway(const struct raw_lane *lane, uint64_t count)
{
    const ssize_t n = write(lane->bell, &count, sizeof count);

    (void)n; /* EAGAIN: it is rung already */
}

void raw_ring(const struct raw_lane *lane)
{
    gm_fence_sys();
    if (gm_load_relaxed_sys_u32(&lane->header->asleep) != 0)
        raw_ring_anyway(lane, 1);
}
