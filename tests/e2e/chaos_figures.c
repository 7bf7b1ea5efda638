/* SPDX-License-Identifier: Apache-2.0
 *
 * One snapshot of the daemon's figures, and what must hold in each. Any thread of any process.
 */
#include "chaos.h"

#include <msgpack.h>
#include <string.h>

static const msgpack_object *member(const msgpack_object *map, const char *name)
{
    if (map == NULL || map->type != MSGPACK_OBJECT_MAP)
        return NULL;
    for (uint32_t i = 0; i < map->via.map.size; i++) {
        const msgpack_object *const key = &map->via.map.ptr[i].key;
        if (key->type == MSGPACK_OBJECT_STR && key->via.str.size == strlen(name) &&
            memcmp(key->via.str.ptr, name, key->via.str.size) == 0)
            return &map->via.map.ptr[i].val;
    }
    return NULL;
}

static uint64_t number(const msgpack_object *map, const char *name)
{
    const msgpack_object *const value = member(map, name);

    return value != NULL && value->type == MSGPACK_OBJECT_POSITIVE_INTEGER ? value->via.u64 : 0;
}

static void text(const msgpack_object *map, const char *name, char *to, size_t size)
{
    const msgpack_object *const value = member(map, name);

    to[0] = '\0';
    if (value != NULL && value->type == MSGPACK_OBJECT_STR)
        snprintf(to, size, "%.*s", (int)value->via.str.size, value->via.str.ptr);
}

static void take_device(const msgpack_object *map, struct figures *f, uint32_t i)
{
    f->device[i].submitted = number(map, "submitted");
    f->device[i].done = number(map, "done");
    f->device[i].failed = number(map, "failed");
    f->device[i].rejected = number(map, "rejected");
    f->device[i].cancelled = number(map, "cancelled");
    f->device[i].depth = number(map, "queue_depth") - number(map, "waiting"); /* not yet submitted */
    f->device[i].pid = number(map, "pid");
    f->device[i].lanes = number(map, "lanes");
    text(map, "backend", f->device[i].backend, sizeof f->device[i].backend);
    text(map, "state", f->device[i].state, sizeof f->device[i].state);
    text(map, "reason", f->device[i].reason, sizeof f->device[i].reason);
}

static void take(const msgpack_object *map, struct figures *f)
{
    const msgpack_object *const daemon = member(map, "daemon"), *const devices = member(map, "devices"),
                               *const ops = member(map, "ops");

    f->sessions = number(daemon, "sessions");
    f->arenas = number(daemon, "arenas");
    f->arena_bytes = number(daemon, "arena_bytes");
    f->fds = number(daemon, "fds");
    f->protocol_errors = number(daemon, "protocol_errors");
    for (uint32_t i = 0; devices != NULL && devices->type == MSGPACK_OBJECT_ARRAY && i < devices->via.array.size; i++)
        if (i < DEVICES_HERE)
            take_device(&devices->via.array.ptr[i], f, f->devices++);
    for (uint32_t i = 0; ops != NULL && ops->type == MSGPACK_OBJECT_ARRAY && i < ops->via.array.size; i++) {
        f->op_done += number(&ops->via.array.ptr[i], "done");
        f->op_failed += number(&ops->via.array.ptr[i], "failed");
    }
}

bool figures_get(struct gm_client *client, struct figures *figures)
{
    msgpack_unpacked unpacked;
    void *bytes;
    size_t size, at = 0;

    memset(figures, 0, sizeof *figures);
    if (gm_stats(client, in_ms(WAIT_MS), &bytes, &size) != GM_OK)
        return false;
    msgpack_unpacked_init(&unpacked);
    const bool good = msgpack_unpack_next(&unpacked, bytes, size, &at) == MSGPACK_UNPACK_SUCCESS;
    if (good)
        take(&unpacked.data, figures);
    msgpack_unpacked_destroy(&unpacked);
    gm_free(bytes);
    return good && figures->devices != 0;
}

bool figures_named(struct gm_client *client, struct named *named)
{
    msgpack_unpacked unpacked;
    void *bytes;
    size_t size, at = 0;

    memset(named, 0, sizeof *named);
    if (gm_arena_list(client, in_ms(WAIT_MS), &bytes, &size) != GM_OK)
        return false;
    msgpack_unpacked_init(&unpacked);
    const bool good = msgpack_unpack_next(&unpacked, bytes, size, &at) == MSGPACK_UNPACK_SUCCESS;
    const msgpack_object *const list = good ? member(&unpacked.data, "arenas") : NULL;
    for (uint32_t i = 0; list != NULL && list->type == MSGPACK_OBJECT_ARRAY && i < list->via.array.size; i++) {
        named->bytes += number(&list->via.array.ptr[i], "bytes");
        named->attached += number(&list->via.array.ptr[i], "attached");
        if (named->count < NAMED_MAX)
            text(&list->via.array.ptr[i], "name", named->name[named->count], sizeof named->name[0]);
        named->count++;
    }
    msgpack_unpacked_destroy(&unpacked);
    gm_free(bytes);
    return list != NULL && named->count <= NAMED_MAX;
}

const char *figures_wrong(const struct figures *f, const struct figures *earlier)
{
    static _Thread_local char words[300];

    for (uint32_t i = 0; i < f->devices; i++) {
        snprintf(words, sizeof words,
                 "device %u: submitted %" PRIu64 " done %" PRIu64 " failed %" PRIu64 " rejected %" PRIu64
                 " cancelled %" PRIu64 " queue_depth %" PRIu64,
                 i, f->device[i].submitted, f->device[i].done, f->device[i].failed, f->device[i].rejected,
                 f->device[i].cancelled, f->device[i].depth);
        if (f->device[i].submitted != f->device[i].done + f->device[i].failed + f->device[i].rejected +
                                          f->device[i].cancelled + f->device[i].depth)
            return words;
        if (f->device[i].depth > UINT32_MAX || f->device[i].submitted > UINT32_MAX)
            return words;
        if (earlier != NULL && (f->device[i].submitted < earlier->device[i].submitted ||
                                f->device[i].done < earlier->device[i].done ||
                                f->device[i].failed < earlier->device[i].failed ||
                                f->device[i].rejected < earlier->device[i].rejected ||
                                f->device[i].cancelled < earlier->device[i].cancelled)) {
            const size_t at = strlen(words);
            snprintf(words + at, sizeof words - at, " after submitted %" PRIu64 " done %" PRIu64 " failed %" PRIu64,
                     earlier->device[i].submitted, earlier->device[i].done, earlier->device[i].failed);
            return words;
        }
    }
    return NULL;
}
