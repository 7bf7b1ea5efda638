/* SPDX-License-Identifier: Apache-2.0
 *
 * See serve.h. Unregistering host memory waits for a stop of the kernel, so drops are collected and one pause serves
 * them all, at most one in GM_PAUSE_GAP_MS.
 */
#include "serve.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define GM_PAUSE_COLLECT_MS 5u
#define GM_PAUSE_GAP_MS     100u
#define GM_PING_CALL_MS     2000u

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

static int send_message(int fd, const struct gm_control *message)
{
    ssize_t n;
    do
        n = send(fd, message, sizeof *message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof *message ? GM_OK : GM_ECLOSED;
}

int gm_server_send_ready(int control_fd, const struct gm_control_hello *hello)
{
    struct gm_control m = {.type = GM_CONTROL_READY};
    m.u.hello = *hello;
    return send_message(control_fd, &m);
}

void gm_server_send_failed(int control_fd, int status, const char *text)
{
    struct gm_control m = {.type = GM_CONTROL_FAILED, .status = status};
    snprintf(m.u.text, sizeof m.u.text, "%s", text);
    (void)send_message(control_fd, &m); /* gridmilld may be gone; then nobody needs to know */
}

static int reply(struct gm_server *server, uint32_t sequence, int status, uint64_t value, const char *text)
{
    struct gm_control m = {.type = GM_CONTROL_REPLY, .sequence = sequence, .status = status, .value = value};
    snprintf(m.u.text, sizeof m.u.text, "%s", text);
    return send_message(server->control_fd, &m);
}

static int receive_message(int control_fd, struct gm_control *message, int *fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec io = {.iov_base = message, .iov_len = sizeof *message};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t n;
    *fd = -1;
    do
        n = recvmsg(control_fd, &m, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return GM_ECLOSED;
    const struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(fd, CMSG_DATA(c), sizeof(int));
    return n == (ssize_t)sizeof *message && !(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) ? GM_OK : GM_EPROTO;
}

/* The memory of a new arena, at an address that jobs use. */
static int arena_memory(struct gm_server *server, struct gm_mapping *map, const struct gm_control_arena *arena, int fd,
                        char *text)
{
    map->device_memory = arena->kind == GM_ARENA_DEVICE;
    map->bytes = arena->bytes;
    map->host = NULL;
    if (map->device_memory)
        return server->backend->alloc(server->device, arena->bytes, &map->address, text);
    map->host = mmap(NULL, arena->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map->host == MAP_FAILED) {
        snprintf(text, GM_ERROR_TEXT_MAX, "mapping an arena: %s", strerror(errno));
        return GM_ESYSTEM;
    }
    const int status = server->backend->map(server->device, map->host, arena->bytes, &map->address, text);
    if (status != GM_OK)
        munmap(map->host, arena->bytes);
    return status;
}

static void arena_release(struct gm_server *server, struct gm_mapping *map, char *text)
{
    if (map->device_memory) {
        server->backend->free(server->device, map->address);
    } else {
        (void)server->backend->unmap(server->device, map->host, map->bytes, text);
        munmap(map->host, map->bytes);
    }
    memset(map, 0, sizeof *map);
}

static int arena_add(struct gm_server *server, const struct gm_control_arena *arena, int fd, char *text)
{
    const uint32_t index = gm_handle_index(arena->handle);
    if (index >= GM_ARENAS_MAX || arena->handle == 0 || server->arena[index].handle != 0 ||
        (arena->kind == GM_ARENA_SHARED && fd < 0) || arena->bytes == 0 || arena->bytes > GM_ARENA_BYTES_MAX)
        return GM_EINVAL;
    struct gm_mapping *map = &server->arena[index];
    int status = arena_memory(server, map, arena, fd, text);
    if (status != GM_OK)
        return status;
    const uint32_t host = !map->device_memory && server->backend->unmap_needs_stop ? GM_ARENA_HOST : 0u;
    status = gm_admin_arena_set(&server->admin, arena, map->address, arena->flags | host);
    if (status != GM_OK) {
        /* The table was not changed, but a dispatcher that does not answer may still read it later: keep the memory. */
        snprintf(text, GM_ERROR_TEXT_MAX, "the scheduler did not take the arena");
        return status;
    }
    map->handle = arena->handle;
    return GM_OK;
}

/* Takes the arena out of the table; true when the reply has to wait for a stop. */
static int arena_drop(struct gm_server *server, uint32_t handle, uint32_t sequence, bool *waits, char *text)
{
    const uint32_t index = gm_handle_index(handle);
    *waits = false;
    if (index >= GM_ARENAS_MAX || server->arena[index].handle != handle || server->arena[index].dropping)
        return GM_EARENA;
    struct gm_mapping *map = &server->arena[index];
    const int status = gm_admin_arena_clear(&server->admin, handle);
    if (status != GM_OK)
        return status;
    if (!map->device_memory && server->backend->unmap_needs_stop) {
        map->dropping = true;
        map->drop_sequence = sequence;
        if (server->drops++ == 0)
            server->first_drop_ms = now_ms();
        *waits = true;
        return GM_OK;
    }
    arena_release(server, map, text);
    return GM_OK;
}

static void release_drops(struct gm_server *server, char *text)
{
    for (uint32_t i = 0; i < GM_ARENAS_MAX && server->drops != 0; i++) {
        struct gm_mapping *map = &server->arena[i];
        if (!map->dropping)
            continue;
        const uint32_t sequence = map->drop_sequence;
        arena_release(server, map, text);
        server->drops--;
        (void)reply(server, sequence, GM_OK, 0, ""); /* a closed socket shows at the next receive */
    }
}

static int pause_device(struct gm_server *server, char *text)
{
    int status = gm_admin_stop(&server->admin, text);
    if (status != GM_OK)
        return status;
    release_drops(server, text);
    server->last_pause_ms = now_ms();
    return server->backend->start(server->device, text);
}

int gm_server_housekeeping(struct gm_server *server, char *text)
{
    if (server->drops == 0)
        return -1;
    if (!server->backend->running(server->device)) {
        release_drops(server, text);
        return -1;
    }
    const uint64_t now = now_ms(), due = server->first_drop_ms + GM_PAUSE_COLLECT_MS;
    const uint64_t allowed = server->last_pause_ms + GM_PAUSE_GAP_MS, when = due > allowed ? due : allowed;
    if (now < when)
        return (int)(when - now);
    const int status = pause_device(server, text);
    if (status != GM_OK)
        fprintf(stderr, "<3>gridmill-device: pause failed status=%d %s\n", status, text);
    return status == GM_OK ? -1 : (int)GM_PAUSE_GAP_MS;
}

int gm_server_receive(struct gm_server *server, char *text)
{
    struct gm_control m;
    int fd = -1;
    int status = receive_message(server->control_fd, &m, &fd);
    bool waits = false;
    uint64_t value = 0;
    text[0] = 0;
    if (status != GM_OK) {
        if (fd >= 0)
            close(fd);
        return status;
    }
    switch (m.type) {
    case GM_CONTROL_ARENA_ADD:
        status = arena_add(server, &m.u.arena, fd, text);
        break;
    case GM_CONTROL_ARENA_DROP:
        status = arena_drop(server, m.u.arena.handle, m.sequence, &waits, text);
        break;
    case GM_CONTROL_CANCEL:
        status = gm_admin_cancel(&server->admin, 0, m.u.position);
        break;
    case GM_CONTROL_PING:
        value = gm_load_relaxed_sys_u64(&server->counters->turns); /* the dispatcher stores it meanwhile */
        if (server->backend->running(server->device))
            status = gm_admin_ping(&server->admin, &value, GM_PING_CALL_MS);
        break;
    case GM_CONTROL_PAUSE:
        status = pause_device(server, text);
        break;
    case GM_CONTROL_STOP:
        status = gm_admin_stop(&server->admin, text);
        server->stopping = true;
        break;
    default:
        status = GM_EMETHOD;
        break;
    }
    if (fd >= 0)
        close(fd);
    return waits ? GM_OK : reply(server, m.sequence, status, value, text);
}
