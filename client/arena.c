/* SPDX-License-Identifier: Apache-2.0
 *
 * Arenas: the daemon makes the memory, its descriptor arrives with the reply and is mapped here. Any thread, under the
 * client's lock; the daemon's quota bounds them.
 */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
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
    arena->map = mmap(NULL, (size_t)arena->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (arena->map == MAP_FAILED) {
        arena->map = NULL;
        return gm__report_errno(failure, "mapping the arena", errno);
    }
    return GM_OK;
}

static int take(struct gm_client *client, struct gm_arena *arena, const struct gm_call *call, uint64_t bytes)
{
    if (call->arena > UINT32_MAX || call->arena_bytes < bytes)
        return gm__report(&client->last, GM_EPROTO, "bytes", "the daemon made an arena of %" PRIu64 " bytes",
                          call->arena_bytes);
    arena->client = client;
    arena->handle = (uint32_t)call->arena;
    arena->bytes = call->arena_bytes;
    if (arena->memory == GM_MEMORY_SHARED) {
        if (call->fd < 0)
            return gm__report(&client->last, GM_EPROTO, "", "the arena came without its descriptor");
        const int rc = map_shared(arena, call->fd, &client->last);
        if (rc != GM_OK)
            return rc;
    }
    arena->next = client->arenas;
    if (arena->next != NULL)
        arena->next->previous = arena;
    client->arenas = arena;
    return GM_OK;
}

static int create(struct gm_client *client, uint64_t bytes, int device, uint64_t deadline_ns, struct gm_arena *arena)
{
    struct gm_wire_request request = {.method = GM_METHOD_ARENA_CREATE};
    struct gm_call call = {0};

    if (device < GM_DEVICE_ANY || device >= (int)GM_DEVICES_MAX)
        return gm__report(&client->last, GM_ENODEVICE, "device", "no device can have the number %d", device);
    request.u.arena_create.bytes = bytes;
    request.u.arena_create.device_memory = arena->memory == GM_MEMORY_DEVICE;
    request.u.arena_create.has_device = arena->memory == GM_MEMORY_DEVICE && device != GM_DEVICE_ANY;
    request.u.arena_create.device = request.u.arena_create.has_device ? (uint32_t)device : 0;
    int rc = gm__call(client, &request, &call, deadline_ns);
    const bool made = rc == GM_OK || rc == GM_EFDS;
    if (rc == GM_OK)
        rc = take(client, arena, &call, bytes);
    if (call.fd >= 0)
        close(call.fd);
    if (rc != GM_OK && made && call.arena != 0) {
        struct gm_wire_request back = {.method = GM_METHOD_ARENA_FREE};
        back.u.arena_free.arena = (uint32_t)call.arena;
        (void)gm__post(client, &back, SLOT_ORPHAN);
        gm__conn_push(client);
    }
    return rc;
}

int gm_arena_create(struct gm_client *client, uint64_t bytes, enum gm_memory memory, int device, uint64_t deadline_ns,
                    struct gm_arena **arena)
{
    int rc = gm__entry(client);

    *arena = NULL;
    if (rc != GM_OK)
        return rc;
    struct gm_arena *const made = calloc(1, sizeof *made);
    pthread_mutex_lock(&client->lock);
    if (made == NULL) {
        rc = gm__report(&client->last, GM_ENOMEM, "", "%s", gm_strerror(GM_ENOMEM));
    } else {
        made->memory = memory;
        rc = create(client, bytes, device, deadline_ns, made);
    }
    pthread_mutex_unlock(&client->lock);
    if (rc == GM_OK)
        *arena = made;
    else
        free(made);
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
    rc = gm__call(client, &request, &call, deadline_ns);
    /* An earlier try whose answer came too late has freed it. */
    if (rc == GM_EARENA || rc == GM_ESTALE)
        rc = GM_OK;
    if (rc == GM_OK || rc == GM_ECLOSED)
        destroy(arena);
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
