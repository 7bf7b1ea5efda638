/* SPDX-License-Identifier: Apache-2.0
 *
 * Arenas of a device: shared memory that gridmilld sends by descriptor, device memory that is made here, other handles
 * of such memory, and rows that stand for memory that is gone. Main thread of the device process; an arena is a row of
 * gm_server.arena, at the index that its handle has.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "serve.h"

static struct gm_mapping *arena_find(struct gm_server *server, uint32_t handle)
{
    const uint32_t index = gm_handle_index(handle);
    return index < GM_ARENAS_MAX && handle != 0 && server->arena[index].handle == handle ? &server->arena[index] : NULL;
}

static int arena_alias(struct gm_server *server, struct gm_mapping *map, uint32_t handle)
{
    struct gm_mapping *base = arena_find(server, handle);
    if (!base || base->host || base->gone || base->base != 0 || base->drop.step != GM_DROP_NONE ||
        base->bytes != map->bytes)
        return GM_EINVAL;
    base->aliases++;
    map->base = handle;
    map->address = base->address;
    return GM_OK;
}

/* How much of the memory from an offset on is mapped and unmapped at once. */
static uint64_t piece_at(const struct gm_server *server, const struct gm_mapping *map, uint64_t offset)
{
    const uint64_t piece = server->backend->piece_bytes, left = map->bytes - offset;
    return piece != 0 && piece < left ? piece : left;
}

/* Maps host memory for the device, or unmaps it here too. */
static int arena_map(struct gm_server *server, struct gm_mapping *map, char *text)
{
    const uint64_t bytes = map->bytes;
    uint64_t mapped = 0, address;
    int status = GM_OK;
    while (mapped < bytes && status == GM_OK) {
        const uint64_t piece = piece_at(server, map, mapped);
        status = server->backend->map(server->device, (uint8_t *)map->host + mapped, piece, &address, text);
        if (status != GM_OK)
            break;
        if (mapped == 0)
            map->address = address;
        if (address != map->address + mapped) {
            snprintf(text, GM_ERROR_TEXT_MAX, "the pieces of an arena do not lie side by side");
            status = GM_ESYSTEM;
        }
        mapped += piece;
    }
    if (status == GM_OK)
        return GM_OK;
    map->bytes = mapped;
    if (mapped == 0 || gm_server_unmap_now(server, map) == GM_OK)
        munmap(map->host, bytes);
    return status;
}

/* The memory of a new arena, at an address that jobs use. */
static int arena_memory(struct gm_server *server, struct gm_mapping *map, const struct gm_control *m, int fd,
                        char *text)
{
    const struct gm_control_arena *arena = &m->u.arena;
    memset(map, 0, sizeof *map);
    map->gone = (arena->flags & GM_ARENA_GONE) != 0;
    map->bytes = arena->bytes;
    if (map->gone)
        return GM_OK;
    if (arena->flags & GM_ARENA_ALIAS)
        return arena_alias(server, map, (uint32_t)m->value);
    if (arena->kind == GM_ARENA_DEVICE)
        return server->backend->alloc(server->device, arena->bytes, &map->address, text);
    map->host = mmap(NULL, arena->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map->host == MAP_FAILED) {
        map->host = NULL;
        snprintf(text, GM_ERROR_TEXT_MAX, "mapping an arena: %s", strerror(errno));
        return GM_ESYSTEM;
    }
    return arena_map(server, map, text);
}

bool gm_server_arena_unmap(struct gm_server *server, struct gm_mapping *map, char *text)
{
    if (!map->host)
        return true;
    const uint64_t piece = piece_at(server, map, map->unmapped);
    const int status = server->backend->unmap(server->device, (uint8_t *)map->host + map->unmapped, piece, text);
    if (status != GM_OK)
        map->drop.status = status;
    map->unmapped += piece;
    return map->unmapped == map->bytes;
}

void gm_server_arena_release(struct gm_server *server, struct gm_mapping *map)
{
    const struct gm_drop drop = map->drop;
    if (map->host) {
        munmap(map->host, map->bytes);
    } else if (map->base != 0) {
        arena_find(server, map->base)->aliases--;
    } else if (!map->gone) {
        server->backend->free(server->device, map->address);
    }
    memset(map, 0, sizeof *map);
    gm_server_drop_answer(server, &drop, drop.status);
}

int gm_server_arena_add(struct gm_server *server, const struct gm_control *m, int fd, char *text)
{
    const struct gm_control_arena *arena = &m->u.arena;
    const uint32_t index = gm_handle_index(arena->handle);
    if (index >= GM_ARENAS_MAX || arena->handle == 0 || server->arena[index].handle != 0 ||
        arena->kind > GM_ARENA_DEVICE ||
        (arena->kind == GM_ARENA_SHARED && (arena->flags & (GM_ARENA_GONE | GM_ARENA_ALIAS))) ||
        arena->bytes == 0 || arena->bytes > GM_ARENA_BYTES_MAX)
        return GM_EINVAL;
    struct gm_mapping *map = &server->arena[index];
    int status = arena_memory(server, map, m, fd, text);
    if (status != GM_OK)
        return status;
    const uint32_t host = map->host && server->backend->marks_host(server->device) ? GM_ARENA_HOST : 0u;
    status = gm_admin_arena_set(&server->admin, arena, map->address, arena->flags | host);
    if (status != GM_OK)
        snprintf(text, GM_ERROR_TEXT_MAX, "the scheduler did not take the arena");
    /* A dispatcher that ran out of time may still take it: it is there until gridmilld drops it. */
    if (status == GM_OK || status == GM_ETIMEDOUT)
        map->handle = arena->handle;
    return status;
}

int gm_server_arena_close(struct gm_server *server, struct gm_mapping *map, char *text)
{
    int status = map->aliases == 0 ? gm_admin_arena_clear(&server->admin, map->handle) : GM_EBUSY;
    if (map->drop.late && status == GM_EINVAL)
        status = GM_OK; /* the try that nobody waited for any more has cleared it */
    map->drop.late |= status == GM_ETIMEDOUT;
    if (status == GM_EBUSY || status == GM_ETIMEDOUT || status == GM_EDEVICELOST)
        return status;
    server->closing--;
    if (status != GM_OK) {
        gm_server_drop_answer(server, &map->drop, status);
        map->drop.step = GM_DROP_NONE;
    } else if (!map->host || gm_server_drop_jobs_done(server, GM_LANE_TABLE + gm_handle_index(map->handle))) {
        while (!gm_server_arena_unmap(server, map, text)) {
        }
        gm_server_arena_release(server, map); /* device memory may be freed at any time */
    }
    return status;
}

int gm_server_arena_drop(struct gm_server *server, uint32_t handle, uint32_t sequence, char *text)
{
    struct gm_mapping *map = arena_find(server, handle);
    if (!map || map->drop.step != GM_DROP_NONE)
        return GM_EARENA;
    map->drop = (struct gm_drop){.step = GM_DROP_JOBS, .answer = true, .sequence = sequence};
    server->closing++;
    (void)gm_server_arena_close(server, map, text);
    return GM_OK;
}
