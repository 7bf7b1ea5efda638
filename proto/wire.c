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
        rc = gm_decode_params(&c, request, problem);
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

/* A bin, or an array of what is bin or nil. */
static int decode_outputs(const struct gm_map *map, uint32_t key, struct gm_wire_done *done, struct gm_problem *problem)
{
    struct gm_cursor c = map->values[key];
    struct gm_item item;
    if (!gm_cursor_next(&c, &item))
        return gm_map_problem(map, key, GM_EPROTO, "is cut", problem);
    done->outputs = 1;
    if (item.type == GM_ITEM_ARRAY) {
        if (item.u == 0 || item.u > GM_OUTPUTS_MAX)
            return gm_map_problem(map, key, GM_EPROTO, "has as many buffers as no op has", problem);
        done->outputs = (uint32_t)item.u;
    } else if (item.type == GM_ITEM_BIN) {
        c = map->values[key];
    } else {
        return gm_map_problem(map, key, GM_EPROTO, "must be binary data, or an array", problem);
    }
    for (uint32_t i = 0; i < done->outputs; i++) {
        if (!gm_cursor_next(&c, &item) || (item.type != GM_ITEM_BIN && item.type != GM_ITEM_NIL))
            return gm_map_problem(map, key, GM_EPROTO, "must hold binary data, or nil", problem);
        if (item.type == GM_ITEM_BIN)
            done->out[i] = (struct gm_wire_output){item.bytes, item.u};
    }
    return GM_OK;
}

int gm_wire_decode_done(const struct gm_wire_response *response, struct gm_wire_done *done, struct gm_problem *problem)
{
    enum { RESULT, DTYPE, DEVICE, WAIT, RUN, OUT, KEYS };
    static const char *const names[KEYS] = {"result", "dtype", "device", "wait_ns", "run_ns", "out"};
    struct gm_cursor values[KEYS], c = {response->result, response->result + response->result_bytes};
    struct gm_map map = {names, KEYS, false, "", values};

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
    return rc == GM_OK && gm_map_has(&map, OUT) ? decode_outputs(&map, OUT, done, problem) : rc;
}

static int read_result(const struct gm_wire_response *response, struct gm_map *map, struct gm_problem *problem)
{
    struct gm_cursor c = {response->result, response->result + response->result_bytes};
    memset(problem, 0, sizeof *problem);
    return gm_map_read(map, &c, problem);
}

int gm_wire_result_u64(const struct gm_wire_response *response, const char *key, uint64_t *value,
                       struct gm_problem *problem)
{
    struct gm_cursor values[1];
    struct gm_map map = {&key, 1, false, "", values};
    int rc = read_result(response, &map, problem);
    if (rc == GM_OK)
        rc = gm_map_u64(&map, 0, value, problem);
    return rc;
}

int gm_wire_result_bool(const struct gm_wire_response *response, const char *key, bool *value,
                        struct gm_problem *problem)
{
    struct gm_cursor values[1];
    struct gm_map map = {&key, 1, false, "", values};
    int rc = read_result(response, &map, problem);
    if (rc == GM_OK)
        rc = gm_map_bool(&map, 0, value, problem);
    return rc;
}

int gm_wire_result_text(const struct gm_wire_response *response, const char *key, char *text, size_t capacity,
                        struct gm_problem *problem)
{
    struct gm_cursor values[1];
    struct gm_map map = {&key, 1, false, "", values};
    struct gm_item item;
    int rc = read_result(response, &map, problem);
    if (rc == GM_OK)
        rc = gm_map_item(&map, 0, GM_ITEM_STR, &item, problem);
    if (rc == GM_OK)
        copy_text(text, capacity, &map, 0);
    return rc;
}

static int decode_arena(struct gm_cursor *c, struct gm_wire_arena *arena, struct gm_problem *problem)
{
    enum { NAME, BYTES, KIND, DEVICE, ATTACHED, UID, KEYS };
    static const char *const names[KEYS] = {"name", "bytes", "kind", "device", "attached", "uid"};
    struct gm_cursor values[KEYS];
    struct gm_map map = {names, KEYS, false, "", values};
    struct gm_item name, kind;
    int rc = gm_map_read(&map, c, problem);
    if (rc == GM_OK)
        rc = gm_map_item(&map, NAME, GM_ITEM_STR, &name, problem);
    if (rc == GM_OK)
        rc = gm_map_u64(&map, BYTES, &arena->bytes, problem);
    if (rc == GM_OK)
        rc = gm_map_item(&map, KIND, GM_ITEM_STR, &kind, problem);
    if (rc == GM_OK && gm_map_has(&map, DEVICE))
        rc = gm_map_u32(&map, DEVICE, &arena->device, problem);
    if (rc == GM_OK)
        rc = gm_map_u32(&map, ATTACHED, &arena->attached, problem);
    if (rc == GM_OK && gm_map_has(&map, UID))
        rc = gm_map_u32(&map, UID, &arena->uid, problem);
    if (rc != GM_OK)
        return rc;
    copy_text(arena->name, sizeof arena->name, &map, NAME);
    arena->device_memory = gm_same_text("device", kind.bytes, kind.u);
    arena->has_uid = gm_map_has(&map, UID);
    return GM_OK;
}

int gm_wire_decode_arenas(const struct gm_wire_response *response, struct gm_wire_arena *arenas, uint32_t capacity,
                          uint32_t *count, struct gm_problem *problem)
{
    static const char *const key = "arenas";
    struct gm_cursor values[1];
    struct gm_map map = {&key, 1, false, "", values};
    struct gm_item rows;
    int rc = read_result(response, &map, problem);
    if (rc == GM_OK)
        rc = gm_map_item(&map, 0, GM_ITEM_ARRAY, &rows, problem);
    if (rc != GM_OK)
        return rc;
    gm_cursor_next(&values[0], &rows);
    for (uint64_t i = 0; rc == GM_OK && i < rows.u; i++) {
        struct gm_wire_arena row = {.bytes = 0};
        rc = decode_arena(&values[0], &row, problem);
        if (rc == GM_OK && i < capacity)
            arenas[i] = row;
    }
    *count = rc == GM_OK ? (uint32_t)rows.u : 0;
    return rc;
}
