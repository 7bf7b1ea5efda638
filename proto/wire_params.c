/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes the params of every method but submit. Any thread; the message was scanned before, and nothing is allocated.
 */
#include "wire_cursor.h"

#include <string.h>

static bool valid_utf8(const uint8_t *p, size_t size)
{
    for (size_t i = 0; i < size;) {
        const uint8_t b = p[i];
        const uint32_t more = b < 0x80 ? 0 : b >= 0xc2 && b < 0xe0 ? 1 : b >= 0xe0 && b < 0xf0 ? 2 : 3;
        const uint8_t second = i + 1 < size ? p[i + 1] : 0;
        if ((b >= 0x80 && b < 0xc2) || b > 0xf4 || size - i <= more)
            return false;
        /* Overlong forms, surrogates, and beyond U+10FFFF show in the second byte. */
        if ((b == 0xe0 && second < 0xa0) || (b == 0xed && second > 0x9f) || (b == 0xf0 && second < 0x90) ||
            (b == 0xf4 && second > 0x8f))
            return false;
        for (uint32_t k = 1; k <= more; k++)
            if ((p[i + k] & 0xc0) != 0x80)
                return false;
        i += more + 1;
    }
    return true;
}

/* C0, DEL, and C1 in its two bytes. */
static bool has_control_character(const uint8_t *p, uint64_t size)
{
    for (uint64_t i = 0; i < size; i++)
        if (p[i] < 0x20 || p[i] == 0x7f || (p[i] == 0xc2 && p[i + 1] < 0xa0)) /* UTF-8: a 0xc2 is not the last one */
            return true;
    return false;
}

/* Names go into logs and tables, so they must not be able to break their lines. */
static int decode_name(const struct gm_map *map, uint32_t key, char name[GM_NAME_BYTES_MAX],
                       struct gm_problem *problem)
{
    struct gm_item item;
    const int rc = gm_map_item(map, key, GM_ITEM_STR, &item, problem);
    if (rc != GM_OK)
        return rc;
    if (item.u >= GM_NAME_BYTES_MAX)
        return gm_map_problem(map, key, GM_ESIZE, "is too long", problem);
    if (!valid_utf8(item.bytes, item.u))
        return gm_map_problem(map, key, GM_EINVAL, "must be UTF-8", problem);
    if (has_control_character(item.bytes, item.u))
        return gm_map_problem(map, key, GM_EINVAL, "must not contain control characters", problem);
    memcpy(name, item.bytes, item.u);
    name[item.u] = '\0';
    return GM_OK;
}

/* No '/': whoever shows or stores arenas by user and name has a separator. */
static int decode_arena_name(const struct gm_map *map, uint32_t key, char name[GM_NAME_BYTES_MAX],
                             struct gm_problem *problem)
{
    const int rc = decode_name(map, key, name, problem);
    if (rc == GM_OK && name[0] == '\0')
        return gm_map_problem(map, key, GM_ESIZE, "must not be empty", problem);
    if (rc == GM_OK && strchr(name, '/') != NULL)
        return gm_map_problem(map, key, GM_EINVAL, "must not contain '/'", problem);
    return rc;
}

static int decode_hello(struct gm_cursor *c, struct gm_wire_request *request, struct gm_problem *problem)
{
    static const char *const names[] = {"version_min", "version_max", "client"};
    struct gm_cursor values[3];
    struct gm_map map = {names, 3, true, "", values};

    int rc = gm_map_read(&map, c, problem);
    if (rc == GM_OK)
        rc = gm_map_u32(&map, 0, &request->u.hello.version_min, problem);
    if (rc == GM_OK)
        rc = gm_map_u32(&map, 1, &request->u.hello.version_max, problem);
    if (rc == GM_OK && request->u.hello.version_min > request->u.hello.version_max)
        rc = gm_map_problem(&map, 1, GM_EINVAL, "must not be less than version_min", problem);
    if (rc == GM_OK && gm_map_has(&map, 2))
        rc = decode_name(&map, 2, request->u.hello.client, problem);
    return rc;
}

static int decode_arena_create(struct gm_cursor *c, struct gm_wire_request *request, struct gm_problem *problem)
{
    static const char *const names[] = {"bytes", "kind", "device", "name"};
    struct gm_cursor values[4];
    struct gm_map map = {names, 4, true, "", values};
    struct gm_item kind;

    int rc = gm_map_read(&map, c, problem);
    if (rc == GM_OK)
        rc = gm_map_u64(&map, 0, &request->u.arena_create.bytes, problem);
    if (rc != GM_OK)
        return rc;
    if (request->u.arena_create.bytes < 1 || request->u.arena_create.bytes > GM_ARENA_BYTES_MAX)
        return gm_map_problem(&map, 0, GM_ESIZE, "must be 1 to 2^40", problem);
    if (gm_map_has(&map, 1)) {
        rc = gm_map_item(&map, 1, GM_ITEM_STR, &kind, problem);
        if (rc != GM_OK)
            return rc;
        request->u.arena_create.device_memory = gm_same_text("device", kind.bytes, kind.u);
        if (!request->u.arena_create.device_memory && !gm_same_text("shared", kind.bytes, kind.u))
            return gm_map_problem(&map, 1, GM_EINVAL, "must be \"shared\" or \"device\"", problem);
    }
    rc = gm_map_device(&map, 2, &request->u.arena_create.has_device, &request->u.arena_create.device, problem);
    if (rc == GM_OK && gm_map_has(&map, 3))
        rc = decode_arena_name(&map, 3, request->u.arena_create.name, problem);
    return rc;
}
static_assert(GM_ARENA_BYTES_MAX == UINT64_C(1) << 40, "as the text above says");

/* A map with the one key that the method needs. */
static int decode_one_u32(struct gm_cursor *c, const char *key, uint32_t *value, struct gm_problem *problem)
{
    struct gm_cursor values[1];
    struct gm_map map = {&key, 1, true, "", values};
    int rc = gm_map_read(&map, c, problem);
    if (rc == GM_OK)
        rc = gm_map_u32(&map, 0, value, problem);
    return rc;
}

/* arena.attach and arena.remove. */
static int decode_one_name(struct gm_cursor *c, char name[GM_NAME_BYTES_MAX], struct gm_problem *problem)
{
    static const char *const names[] = {"name"};
    struct gm_cursor values[1];
    struct gm_map map = {names, 1, true, "", values};
    int rc = gm_map_read(&map, c, problem);
    if (rc == GM_OK)
        rc = decode_arena_name(&map, 0, name, problem);
    return rc;
}

static int decode_cancel(struct gm_cursor *c, struct gm_wire_request *request, struct gm_problem *problem)
{
    static const char *const names[] = {"id", "lane", "position"};
    struct gm_cursor values[3];
    struct gm_map map = {names, 3, true, "", values};
    int rc = gm_map_read(&map, c, problem);
    if (rc != GM_OK)
        return rc;
    if (!gm_map_has(&map, 1) && !gm_map_has(&map, 2))
        return gm_map_u32(&map, 0, &request->u.cancel.id, problem);
    if (gm_map_has(&map, 0))
        return gm_map_problem(&map, 0, GM_EINVAL, "must not stand beside lane and position", problem);
    request->u.cancel.has_lane = true;
    rc = gm_map_u32(&map, 1, &request->u.cancel.lane, problem);
    if (rc == GM_OK)
        rc = gm_map_u64(&map, 2, &request->u.cancel.position, problem);
    return rc;
}

static int decode_lane_open(struct gm_cursor *c, struct gm_wire_request *request, struct gm_problem *problem)
{
    static const char *const names[] = {"device", "slots"};
    struct gm_cursor values[2];
    struct gm_map map = {names, 2, true, "", values};
    uint64_t slots = 0;
    int rc = gm_map_read(&map, c, problem);
    if (rc == GM_OK)
        rc = gm_map_device(&map, 0, &request->u.lane_open.has_device, &request->u.lane_open.device, problem);
    if (rc != GM_OK || !gm_map_has(&map, 1))
        return rc;
    rc = gm_map_u64(&map, 1, &slots, problem);
    if (rc != GM_OK)
        return rc;
    if (slots < GM_LANE_SLOTS_MIN || slots > GM_CLIENT_LANE_SLOTS_MAX || !GM_IS_POW2(slots))
        return gm_map_problem(&map, 1, GM_ESIZE, "must be a power of two from 2 to 1024", problem);
    request->u.lane_open.slots = (uint32_t)slots;
    return GM_OK;
}
static_assert(GM_LANE_SLOTS_MIN == 2 && GM_CLIENT_LANE_SLOTS_MAX == 1024, "as the text above says");

static int decode_pause(struct gm_cursor *c, struct gm_wire_request *request, struct gm_problem *problem)
{
    static const char *const names[] = {"device"};
    struct gm_cursor values[1];
    struct gm_map map = {names, 1, true, "", values};
    int rc = gm_map_read(&map, c, problem);
    if (rc == GM_OK)
        rc = gm_map_device(&map, 0, &request->u.pause.has_device, &request->u.pause.device, problem);
    return rc;
}

static int decode_nothing(struct gm_cursor *c, struct gm_problem *problem)
{
    struct gm_map map = {NULL, 0, true, "", NULL};
    return gm_map_read(&map, c, problem);
}

int gm_decode_params(struct gm_cursor *c, struct gm_wire_request *request, struct gm_problem *problem)
{
    switch (request->method) {
    case GM_METHOD_HELLO:
        return decode_hello(c, request, problem);
    case GM_METHOD_SUBMIT:
        return gm_decode_submit(c, &request->u.submit, problem);
    case GM_METHOD_CANCEL:
        return decode_cancel(c, request, problem);
    case GM_METHOD_ARENA_CREATE:
        return decode_arena_create(c, request, problem);
    case GM_METHOD_ARENA_FREE:
        return decode_one_u32(c, "arena", &request->u.arena_free.arena, problem);
    case GM_METHOD_ARENA_ATTACH:
        return decode_one_name(c, request->u.arena_attach.name, problem);
    case GM_METHOD_ARENA_REMOVE:
        return decode_one_name(c, request->u.arena_remove.name, problem);
    case GM_METHOD_LANE_OPEN:
        return decode_lane_open(c, request, problem);
    case GM_METHOD_LANE_CLOSE:
        return decode_one_u32(c, "lane", &request->u.lane_close.lane, problem);
    case GM_METHOD_PAUSE:
        return decode_pause(c, request, problem);
    case GM_METHOD_ARENA_LIST:
    case GM_METHOD_STATS:
    case GM_METHOD_OPS:
    case GM_METHOD_PING:
    case GM_METHOD_DRAIN:
        return decode_nothing(c, problem);
    case GM_METHOD_COUNT:
        break;
    }
    return gm_problem_set(problem, GM_EINTERNAL, "method", "no decoder for this method");
}
