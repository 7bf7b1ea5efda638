/* SPDX-License-Identifier: Apache-2.0
 *
 * Arenas: the daemon makes the memory, or knows it by name; its descriptor arrives with the reply and is mapped here.
 * Any thread, under the client's lock; the daemon's quota bounds them.
 */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A memory file that could shrink would end this process by SIGBUS, so both the size and the seal are looked at. */
static int map_shared(struct gm_arena *arena, int fd, struct gm_failure *failure)
{
    struct stat st;
    const int seals = fcntl(fd, F_GET_SEALS);

    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &st) != 0)
        return gm__report(failure, GM_EPROTO, "", "the descriptor of the arena is not sealed memory");
    if (arena->bytes > SIZE_MAX || (uint64_t)st.st_size < arena->bytes)
        return gm__report(failure, GM_EPROTO, "bytes", "the arena's memory is smaller than its size");
    arena->map = mmap(NULL, (size_t)arena->bytes, arena->readonly ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                      0);
    if (arena->map == MAP_FAILED) {
        arena->map = NULL;
        return gm__report_errno(failure, "mapping the arena", errno);
    }
    return GM_OK;
}

static int take(struct gm_client *client, struct gm_arena *arena, const struct gm_call *call, uint64_t bytes)
{
    if (call->u.arena.handle > UINT32_MAX || call->u.arena.bytes < bytes)
        return gm__report(&client->last, GM_EPROTO, "bytes", "the daemon made an arena of %" PRIu64 " bytes",
                          call->u.arena.bytes);
    arena->client = client;
    arena->handle = (uint32_t)call->u.arena.handle;
    arena->bytes = call->u.arena.bytes;
    if (arena->memory == GM_MEMORY_SHARED) {
        if (call->fds[0] < 0)
            return gm__report(&client->last, GM_EPROTO, "", "the arena came without its descriptor");
        const int rc = map_shared(arena, call->fds[0], &client->last);
        if (rc != GM_OK)
            return rc;
    }
    arena->next = client->arenas;
    if (arena->next != NULL)
        arena->next->previous = arena;
    client->arenas = arena;
    return GM_OK;
}

/* Where an arena lies that the daemon, or this request, puts on a device. */
static int device_of(const struct gm_client *client, const struct gm_call *call, int asked)
{
    if (call->u.arena.device != ARENA_SOMEWHERE)
        return call->u.arena.device;
    if (asked != GM_DEVICE_ANY)
        return asked;
    return client->devices == 1 ? 0 : ARENA_SOMEWHERE;
}

/* Sends the request for an arena and takes what comes. bytes: that it must have at least. */
static int obtain(struct gm_client *client, struct gm_wire_request *request, uint64_t bytes, int device,
                  uint64_t deadline_ns, struct gm_arena *arena)
{
    struct gm_call call = {0};
    int rc = gm__call(client, request, &call, deadline_ns);
    const bool made = rc == GM_OK || rc == GM_EFDS;

    if (rc == GM_OK) {
        if (request->method == GM_METHOD_ARENA_ATTACH)
            arena->memory = call.u.arena.memory;
        arena->device = arena->memory == GM_MEMORY_SHARED ? ARENA_EVERYWHERE : device_of(client, &call, device);
        rc = take(client, arena, &call, bytes);
    }
    gm__close_fds(call.fds, GM_FDS_PER_FRAME_MAX);
    if (rc != GM_OK && made && call.u.arena.handle != 0) {
        struct gm_wire_request back = {.method = GM_METHOD_ARENA_FREE};
        back.u.arena_free.arena = (uint32_t)call.u.arena.handle;
        (void)gm__post(client, &back, SLOT_ORPHAN);
        gm__conn_push(client);
    }
    return rc;
}

/* name "": none. */
static int create(struct gm_client *client, const char *name, uint64_t bytes, int device, uint64_t deadline_ns,
                  struct gm_arena *arena)
{
    struct gm_wire_request request = {.method = GM_METHOD_ARENA_CREATE};

    if (arena->memory != GM_MEMORY_SHARED && arena->memory != GM_MEMORY_DEVICE)
        return gm__report(&client->last, GM_EINVAL, "memory", "there is no memory %d", (int)arena->memory);
    if (device < GM_DEVICE_ANY || device >= (int)GM_DEVICES_MAX)
        return gm__report(&client->last, GM_ENODEVICE, "device", "no device can have the number %d", device);
    request.u.arena_create.bytes = bytes;
    request.u.arena_create.device_memory = arena->memory == GM_MEMORY_DEVICE;
    request.u.arena_create.has_device = arena->memory == GM_MEMORY_DEVICE && device != GM_DEVICE_ANY;
    request.u.arena_create.device = request.u.arena_create.has_device ? (uint32_t)device : 0;
    snprintf(request.u.arena_create.name, sizeof request.u.arena_create.name, "%s", name);
    return obtain(client, &request, bytes, device, deadline_ns, arena);
}

static int attach(struct gm_client *client, const char *name, uint64_t deadline_ns, struct gm_arena *arena)
{
    struct gm_wire_request request = {.method = GM_METHOD_ARENA_ATTACH};

    arena->readonly = true;
    snprintf(request.u.arena_attach.name, sizeof request.u.arena_attach.name, "%s", name);
    return obtain(client, &request, 0, GM_DEVICE_ANY, deadline_ns, arena);
}

/* A longer name would be cut to somebody else's. */
static int check_name(struct gm_client *client, const char *name)
{
    if (name != NULL && name[0] != '\0' && strlen(name) < GM_NAME_BYTES_MAX)
        return GM_OK;
    return gm__report(&client->last, GM_EINVAL, "name", "the name of an arena has 1 to %u bytes",
                      GM_NAME_BYTES_MAX - 1);
}

static int begin(struct gm_client *client, struct gm_arena **made)
{
    *made = calloc(1, sizeof **made);
    return *made != NULL ? GM_OK : gm__report(&client->last, GM_ENOMEM, "", "%s", gm_strerror(GM_ENOMEM));
}

/* Under the lock, which it gives back. */
static int end(struct gm_client *client, int rc, struct gm_arena *made, struct gm_arena **arena)
{
    pthread_mutex_unlock(&client->lock);
    if (rc == GM_OK)
        *arena = made;
    else
        free(made);
    return rc;
}

int gm_arena_create(struct gm_client *client, uint64_t bytes, enum gm_memory memory, int device, uint64_t deadline_ns,
                    struct gm_arena **arena)
{
    struct gm_arena *made;
    int rc = gm__entry(client);

    *arena = NULL;
    if (rc != GM_OK)
        return rc;
    pthread_mutex_lock(&client->lock);
    rc = begin(client, &made);
    if (rc == GM_OK) {
        made->memory = memory;
        rc = create(client, "", bytes, device, deadline_ns, made);
    }
    return end(client, rc, made, arena);
}

int gm_arena_create_named(struct gm_client *client, const char *name, uint64_t bytes, enum gm_memory memory,
                          int device, uint64_t deadline_ns, struct gm_arena **arena)
{
    struct gm_arena *made = NULL;
    int rc = gm__entry(client);

    *arena = NULL;
    if (rc != GM_OK)
        return rc;
    pthread_mutex_lock(&client->lock);
    rc = check_name(client, name);
    if (rc == GM_OK)
        rc = begin(client, &made);
    if (rc == GM_OK) {
        made->memory = memory;
        rc = create(client, name, bytes, device, deadline_ns, made);
    }
    return end(client, rc, made, arena);
}

int gm_arena_attach(struct gm_client *client, const char *name, uint64_t deadline_ns, struct gm_arena **arena)
{
    struct gm_arena *made = NULL;
    int rc = gm__entry(client);

    *arena = NULL;
    if (rc != GM_OK)
        return rc;
    pthread_mutex_lock(&client->lock);
    rc = check_name(client, name);
    if (rc == GM_OK)
        rc = begin(client, &made);
    if (rc == GM_OK)
        rc = attach(client, name, deadline_ns, made);
    return end(client, rc, made, arena);
}

int gm_arena_remove(struct gm_client *client, const char *name, uint64_t deadline_ns)
{
    struct gm_wire_request request = {.method = GM_METHOD_ARENA_REMOVE};
    struct gm_call call = {0};
    int rc = gm__entry(client);

    if (rc != GM_OK)
        return rc;
    pthread_mutex_lock(&client->lock);
    rc = check_name(client, name);
    if (rc == GM_OK) {
        snprintf(request.u.arena_remove.name, sizeof request.u.arena_remove.name, "%s", name);
        rc = gm__call(client, &request, &call, deadline_ns);
    }
    pthread_mutex_unlock(&client->lock);
    return rc;
}

static void destroy(struct gm_arena *arena)
{
    if (arena->previous != NULL)
        arena->previous->next = arena->next;
    else
        arena->client->arenas = arena->next;
    if (arena->next != NULL)
        arena->next->previous = arena->previous;
    if (arena->map != NULL)
        munmap(arena->map, (size_t)arena->bytes);
    free(arena);
}

int gm_arena_free(struct gm_arena *arena, uint64_t deadline_ns)
{
    struct gm_wire_request request = {.method = GM_METHOD_ARENA_FREE};
    struct gm_call call = {0};

    if (arena == NULL)
        return GM_OK;
    struct gm_client *const client = arena->client;
    int rc = gm__entry(client);
    if (rc != GM_OK)
        return rc;
    pthread_mutex_lock(&client->lock);
    request.u.arena_free.arena = arena->handle;
    /* The daemon knows nothing of jobs in lanes. */
    gm__lanes_reap(client);
    rc = gm__lanes_use(client, arena->handle)
             ? gm__report(&client->last, GM_EBUSY, "arena", "jobs that use the arena are pending")
             : gm__call(client, &request, &call, deadline_ns);
    /* An earlier try whose answer came too late has freed it. */
    if (rc == GM_EARENA || rc == GM_ESTALE)
        rc = GM_OK;
    if (rc == GM_OK || rc == GM_ECLOSED)
        destroy(arena);
    gm__event_kick(client);
    pthread_mutex_unlock(&client->lock);
    return rc;
}

void gm__arenas_unmap(struct gm_client *client)
{
    while (client->arenas != NULL)
        destroy(client->arenas);
}

void *gm_arena_data(const struct gm_arena *arena)
{
    return arena->map;
}

uint64_t gm_arena_bytes(const struct gm_arena *arena)
{
    return arena->bytes;
}
