/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes message bodies: requests on the daemon's side, responses on the client's. Any thread; every decoder scans
 * the whole body first, never allocates, and leaves binary data where it is.
 */
#include "wire_cursor.h"

#include <string.h>

static int bad_envelope(struct gm_problem *problem, const char *field, const char *text)
{
    return gm_problem_set(problem, GM_EPROTO, field, "%s", text);
}

/* Reads [0, id: the part of a request that an answer needs, wherever the rest goes wrong. */
static bool peek_id(const uint8_t *body, size_t size, uint32_t *id)
{
    struct gm_cursor c = {body, body + size};
    struct gm_item item;
    if (!gm_cursor_next(&c, &item) || item.type != GM_ITEM_ARRAY || item.u < 2)
        return false;
    if (!gm_cursor_next(&c, &item) || item.type != GM_ITEM_UINT || item.u != 0)
        return false;
    if (!gm_cursor_next(&c, &item) || item.type != GM_ITEM_UINT || item.u > UINT32_MAX)
        return false;
    *id = (uint32_t)item.u;
    return true;
}

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

/* The name goes into logs and tables, so it must not be able to break their lines. */
static int decode_client_name(const struct gm_map *map, uint32_t key, char name[GM_NAME_BYTES_MAX],
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
    for (uint64_t i = 0; i < item.u; i++)
        if (item.bytes[i] < 0x20 || item.bytes[i] == 0x7f)
            return gm_map_problem(map, key, GM_EINVAL, "must not contain control characters", problem);
    memcpy(name, item.bytes, item.u);
    name[item.u] = '\0';
    return GM_OK;
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
        rc = decode_client_name(&map, 2, request->u.hello.client, problem);
    return rc;
}

static int decode_arena_create(struct gm_cursor *c, struct gm_wire_request *request, struct gm_problem *problem)
{
    static const char *const names[] = {"bytes", "kind", "device"};
    struct gm_cursor values[3];
    struct gm_map map = {names, 3, true, "", values};
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
    return gm_map_device(&map, 2, &request->u.arena_create.has_device, &request->u.arena_create.device, problem);
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

static int decode_params(struct gm_cursor *c, struct gm_wire_request *request, struct gm_problem *problem)
{
    switch (request->method) {
    case GM_METHOD_HELLO:
        return decode_hello(c, request, problem);
    case GM_METHOD_SUBMIT:
        return gm_decode_submit(c, &request->u.submit, problem);
    case GM_METHOD_CANCEL:
        return decode_one_u32(c, "id", &request->u.cancel.id, problem);
    case GM_METHOD_ARENA_CREATE:
        return decode_arena_create(c, request, problem);
    case GM_METHOD_ARENA_FREE:
        return decode_one_u32(c, "arena", &request->u.arena_free.arena, problem);
    case GM_METHOD_PAUSE:
        return decode_pause(c, request, problem);
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

static int decode_method(struct gm_cursor *c, enum gm_method *method, struct gm_problem *problem)
{
    struct gm_item item;
    char name[GM_METHOD_BYTES_MAX];
    if (!gm_cursor_next(c, &item) || item.type != GM_ITEM_STR)
        return bad_envelope(problem, "method", "the method must be a string");
    for (uint32_t m = 0; m < GM_METHOD_COUNT; m++) {
        if (gm_same_text(gm_method_name(m), item.bytes, item.u)) {
            *method = (enum gm_method)m;
            return GM_OK;
        }
    }
    gm_printable(name, sizeof name, item.bytes, item.u);
    return gm_problem_set(problem, GM_EMETHOD, "method", "unknown method \"%s\"", name);
}

int gm_wire_decode_request(const uint8_t *body, size_t size, struct gm_wire_request *request, bool *has_id,
                           struct gm_problem *problem)
{
    struct gm_cursor c = {body, body + size};
    struct gm_item item;

    memset(request, 0, sizeof *request);
    memset(problem, 0, sizeof *problem);
    *has_id = peek_id(body, size, &request->id);
    int rc = gm_wire_scan(body, size, problem);
    if (rc != GM_OK)
        return rc;
    if (!gm_cursor_next(&c, &item) || item.type != GM_ITEM_ARRAY)
        return bad_envelope(problem, "", "a message must be an array");
    const uint64_t length = item.u;
    if (length == 0 || !gm_cursor_next(&c, &item) || item.type != GM_ITEM_UINT)
        return bad_envelope(problem, "type", "a message must begin with its type");
    if (item.u == 2)
        return bad_envelope(problem, "type", "notifications are not accepted: every request gets a response");
    if (item.u != 0)
        return bad_envelope(problem, "type", "the type of a request is 0");
    if (length != 4)
        return bad_envelope(problem, "", "a request must be [0, id, method, params]");
    if (!gm_cursor_next(&c, &item) || item.type != GM_ITEM_UINT || item.u > UINT32_MAX)
        return bad_envelope(problem, "id", "the id must be an unsigned integer of 32 bits");
    rc = decode_method(&c, &request->method, problem);
    if (rc == GM_OK)
        rc = decode_params(&c, request, problem);
    return rc;
}

/* Text of the other side into a field of fixed size; cut where a character begins. */
static void copy_text(char *to, size_t capacity, const struct gm_map *map, uint32_t key)
{
    struct gm_cursor c = map->values[key];
    struct gm_item item;
    if (c.at == NULL || !gm_cursor_next(&c, &item) || item.type != GM_ITEM_STR)
        return;
    size_t size = item.u < capacity ? item.u : capacity - 1;
    while (size > 0 && size < item.u && (item.bytes[size] & 0xc0) == 0x80)
        size--;
    for (size_t i = 0; i < size; i++)
        to[i] = item.bytes[i] < 0x20 || item.bytes[i] == 0x7f ? '?' : (char)item.bytes[i];
    to[size] = '\0';
}

static int decode_error(struct gm_cursor *c, struct gm_problem *error, struct gm_problem *problem)
{
    static const char *const names[] = {"code", "text", "field"};
    struct gm_cursor values[3];
    struct gm_map map = {names, 3, false, "", values};
    struct gm_item item;

    const int rc = gm_map_read(&map, c, problem);
    if (rc != GM_OK)
        return rc;
    if (!gm_map_has(&map, 0) || !gm_cursor_next(&values[0], &item) || item.type != GM_ITEM_INT ||
        (int64_t)item.u < INT32_MIN)
        return gm_problem_set(problem, GM_EPROTO, "code", "the code of an error must be a negative number");
    error->code = (int)(int64_t)item.u;
    copy_text(error->text, sizeof error->text, &map, 1);
    copy_text(error->field, sizeof error->field, &map, 2);
    return GM_OK;
}

int gm_wire_decode_response(const uint8_t *body, size_t size, struct gm_wire_response *response,
                            struct gm_problem *problem)
{
    struct gm_cursor c = {body, body + size};
    struct gm_item item;
    bool has_id;

    memset(response, 0, sizeof *response);
    memset(problem, 0, sizeof *problem);
    /* The daemon's stats may have more items than a request; one per byte at the most, and nothing is allocated. */
    int rc = gm_scan(body, size, GM_FRAME_BYTES_MAX, problem);
    if (rc != GM_OK)
        return rc;
    if (!gm_cursor_next(&c, &item) || item.type != GM_ITEM_ARRAY || item.u != 4)
        return bad_envelope(problem, "", "a response must be [1, id, error, result]");
    if (!gm_cursor_next(&c, &item) || item.type != GM_ITEM_UINT || item.u != 1)
        return bad_envelope(problem, "type", "the type of a response is 1");
    if (!gm_cursor_next(&c, &item) || (item.type != GM_ITEM_UINT && item.type != GM_ITEM_NIL) || item.u > UINT32_MAX)
        return bad_envelope(problem, "id", "the id must be an unsigned integer of 32 bits");
    has_id = item.type == GM_ITEM_UINT;
    response->id = (uint32_t)item.u;

    const uint8_t *const error = c.at;
    if (!gm_cursor_next(&c, &item))
        return bad_envelope(problem, "error", "the message ends inside the error");
    response->failed = item.type != GM_ITEM_NIL;
    if (response->failed) {
        c.at = error;
        rc = decode_error(&c, &response->problem, problem);
        if (rc != GM_OK)
            return rc;
    }
    response->result = c.at;
    response->result_bytes = (size_t)(c.end - c.at);
    if (!gm_cursor_next(&c, &item) || item.type != (response->failed ? GM_ITEM_NIL : GM_ITEM_MAP))
        return bad_envelope(problem, "result", "the result must be a map, or nil beside an error");
    if (has_id)
        return GM_OK;
    /* An error without an id is about the connection, which the daemon closes after it. */
    if (!response->failed)
        return bad_envelope(problem, "id", "a result without an id");
    *problem = response->problem;
    return problem->code;
}

static int decode_result(const struct gm_map *map, struct gm_wire_done *done, struct gm_problem *problem)
{
    enum { RESULT, DTYPE };
    struct gm_cursor c = map->values[RESULT];
    struct gm_item item;

    done->result_dtype = GM_DTYPE_COUNT;
    if (c.at == NULL)
        return GM_OK;
    const int rc = gm_map_item(map, DTYPE, GM_ITEM_STR, &item, problem);
    if (rc != GM_OK)
        return rc;
    const int dtype = gm_dtype_by_name((const char *)item.bytes, item.u);
    if (dtype < 0)
        return gm_map_problem(map, DTYPE, GM_EPROTO, "is unknown", problem);
    if (!gm_cursor_next(&c, &item) || !gm_scalar_bits(&item, (uint32_t)dtype, &done->result))
        return gm_map_problem(map, RESULT, GM_EPROTO, "is no number of its dtype", problem);
    done->result_dtype = (uint32_t)dtype;
    return GM_OK;
}

int gm_wire_decode_done(const struct gm_wire_response *response, struct gm_wire_done *done, struct gm_problem *problem)
{
    enum { RESULT, DTYPE, DEVICE, WAIT, RUN, OUT, KEYS };
    static const char *const names[KEYS] = {"result", "dtype", "device", "wait_ns", "run_ns", "out"};
    struct gm_cursor values[KEYS], c = {response->result, response->result + response->result_bytes};
    struct gm_map map = {names, KEYS, false, "", values};
    struct gm_item item;

    memset(done, 0, sizeof *done);
    memset(problem, 0, sizeof *problem);
    int rc = gm_map_read(&map, &c, problem);
    if (rc == GM_OK)
        rc = gm_map_u32(&map, DEVICE, &done->device, problem);
    if (rc == GM_OK)
        rc = gm_map_u64(&map, WAIT, &done->wait_ns, problem);
    if (rc == GM_OK)
        rc = gm_map_u64(&map, RUN, &done->run_ns, problem);
    if (rc == GM_OK)
        rc = decode_result(&map, done, problem);
    if (rc != GM_OK || !gm_map_has(&map, OUT))
        return rc;
    rc = gm_map_item(&map, OUT, GM_ITEM_BIN, &item, problem);
    if (rc == GM_OK)
        done->out = item.bytes, done->out_bytes = item.u;
    return rc;
}

int gm_wire_result_u64(const struct gm_wire_response *response, const char *key, uint64_t *value,
                       struct gm_problem *problem)
{
    struct gm_cursor values[1], c = {response->result, response->result + response->result_bytes};
    struct gm_map map = {&key, 1, false, "", values};

    memset(problem, 0, sizeof *problem);
    int rc = gm_map_read(&map, &c, problem);
    if (rc == GM_OK)
        rc = gm_map_u64(&map, 0, value, problem);
    return rc;
}
