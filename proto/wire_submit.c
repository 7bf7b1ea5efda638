/* SPDX-License-Identifier: Apache-2.0
 *
 * params of submit, validated against the op table: which keys the op takes, its types, sizes and buffers. What needs
 * the session (does the arena exist, does the buffer end inside it) is the daemon's. Any thread; bounded by the scan.
 */
#include "wire_cursor.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SUBMIT_KEYS(K)                                                                                      \
    K(op)                                                                                                   \
    K(device)                                                                                               \
    K(dtype)                                                                                                \
    K(n)                                                                                                    \
    K(descending)                                                                                           \
    K(value)                                                                                                \
    K(bins)                                                                                                 \
    K(lo)                                                                                                   \
    K(hi)                                                                                                   \
    K(in)                                                                                                   \
    K(out)

enum submit_key {
#define K(name) KEY_##name,
    SUBMIT_KEYS(K)
#undef K
    KEYS
};
static const char *const key_names[KEYS] = {
#define K(name) #name,
    SUBMIT_KEYS(K)
#undef K
};

static_assert(GM_ELEMENTS_MAX <= UINT64_MAX / 8, "elements times their size cannot overflow");
static_assert((uint64_t)GM_HIST_BINS_MAX * 8 <= GM_ARENA_BYTES_MAX, "and neither can bins");

/* The keys an op takes; all but device and descending must be there. */
static uint32_t keys_of(const struct gm_op_row *row)
{
    uint32_t keys = 1u << KEY_op | 1u << KEY_device;
    if (row->types != GM_NO_TYPES)
        keys |= 1u << KEY_dtype | 1u << KEY_n;
    if (row->work == GM_WORK_SORT)
        keys |= 1u << KEY_descending;
    if (row->shape == GM_SHAPE_FILL)
        keys |= 1u << KEY_value;
    if (row->shape == GM_SHAPE_HISTOGRAM)
        keys |= 1u << KEY_bins | 1u << KEY_lo | 1u << KEY_hi;
    if (row->inputs > 0)
        keys |= 1u << KEY_in;
    if (row->outputs > 0)
        keys |= 1u << KEY_out;
    return keys;
}

static int decode_op(const struct gm_map *map, uint32_t *op, struct gm_problem *problem)
{
    struct gm_cursor c = map->values[KEY_op];
    struct gm_item item;
    char name[GM_NAME_BYTES_MAX];

    if (c.at == NULL)
        return gm_map_problem(map, KEY_op, GM_EINVAL, "is missing", problem);
    if (!gm_cursor_next(&c, &item) || (item.type != GM_ITEM_STR && item.type != GM_ITEM_UINT))
        return gm_map_problem(map, KEY_op, GM_EINVAL, "must be a name or a number", problem);
    if (item.type == GM_ITEM_UINT) {
        if (item.u >= GM_OP_COUNT || !gm_op_row((uint32_t)item.u).known)
            return gm_problem_set(problem, GM_EOP, "op", "no op has the number %" PRIu64, item.u);
        *op = (uint32_t)item.u;
        return GM_OK;
    }
    const int found = gm_op_by_name((const char *)item.bytes, item.u);
    if (found < 0) {
        gm_printable(name, sizeof name, item.bytes, item.u);
        return gm_problem_set(problem, GM_EOP, "op", "unknown op \"%s\"", name);
    }
    *op = (uint32_t)found;
    return GM_OK;
}

static int check_keys(const struct gm_map *map, uint32_t op, const struct gm_op_row *row, struct gm_problem *problem)
{
    const uint32_t taken = keys_of(row);
    for (uint32_t key = 0; key < KEYS; key++) {
        if (gm_map_has(map, key) && (taken >> key & 1u) == 0)
            return gm_problem_set(problem, GM_EINVAL, key_names[key], "%s takes no %s", gm_op_name(op),
                                  key_names[key]);
        if (!gm_map_has(map, key) && (taken >> key & 1u) != 0 && key != KEY_device && key != KEY_descending)
            return gm_problem_set(problem, GM_EINVAL, key_names[key], "%s needs %s", gm_op_name(op), key_names[key]);
    }
    return GM_OK;
}

static int decode_dtype(const struct gm_map *map, const struct gm_op_row *row, struct gm_wire_submit *submit,
                        struct gm_problem *problem)
{
    struct gm_item item;
    char name[GM_NAME_BYTES_MAX];
    const int rc = gm_map_item(map, KEY_dtype, GM_ITEM_STR, &item, problem);
    if (rc != GM_OK)
        return rc;
    const int found = gm_dtype_by_name((const char *)item.bytes, item.u);
    if (found < 0) {
        gm_printable(name, sizeof name, item.bytes, item.u);
        return gm_problem_set(problem, GM_EDTYPE, "dtype", "unknown dtype \"%s\"", name);
    }
    if ((row->types >> found & 1u) == 0)
        return gm_problem_set(problem, GM_EDTYPE, "dtype", "%s does not take %s", gm_op_name(submit->op),
                              gm_dtype_name((uint32_t)found));
    submit->dtype = (uint32_t)found;
    return GM_OK;
}

static int decode_n(const struct gm_map *map, struct gm_wire_submit *submit, struct gm_problem *problem)
{
    const int rc = gm_map_u64(map, KEY_n, &submit->n, problem);
    if (rc != GM_OK)
        return rc;
    if (submit->n > GM_ELEMENTS_MAX)
        return gm_problem_set(problem, GM_ESIZE, "n", "n is more than %" PRIu64, GM_ELEMENTS_MAX);
    return GM_OK;
}

static int decode_value(const struct gm_map *map, struct gm_wire_submit *submit, struct gm_problem *problem)
{
    struct gm_cursor c = map->values[KEY_value];
    struct gm_item item;
    double ignored;
    if (!gm_cursor_next(&c, &item) || !gm_scalar_f64(&item, &ignored))
        return gm_map_problem(map, KEY_value, GM_EINVAL, "must be a number", problem);
    if (!gm_scalar_bits(&item, submit->dtype, &submit->value))
        return gm_problem_set(problem, GM_EINVAL, "value", "value is not representable as %s",
                              gm_dtype_name(submit->dtype));
    return GM_OK;
}

static int decode_edge(const struct gm_map *map, uint32_t key, double *edge, struct gm_problem *problem)
{
    struct gm_cursor c = map->values[key];
    struct gm_item item;
    if (!gm_cursor_next(&c, &item) || !gm_scalar_f64(&item, edge))
        return gm_map_problem(map, key, GM_EINVAL, "must be a number", problem);
    if (!isfinite(*edge))
        return gm_map_problem(map, key, GM_EINVAL, "must be finite", problem);
    return GM_OK;
}

static int decode_bins(const struct gm_map *map, struct gm_wire_submit *submit, struct gm_problem *problem)
{
    int rc = gm_map_u64(map, KEY_bins, &submit->bins, problem);
    if (rc != GM_OK)
        return rc;
    if (submit->bins < 1 || submit->bins > GM_HIST_BINS_MAX)
        return gm_problem_set(problem, GM_ESIZE, "bins", "bins must be 1 to %u", GM_HIST_BINS_MAX);
    rc = decode_edge(map, KEY_lo, &submit->lo, problem);
    if (rc == GM_OK)
        rc = decode_edge(map, KEY_hi, &submit->hi, problem);
    if (rc != GM_OK)
        return rc;
    if (!(submit->lo < submit->hi))
        return gm_problem_set(problem, GM_EINVAL, "hi", "hi must be more than lo");
    if (!isfinite(submit->hi - submit->lo))
        return gm_problem_set(problem, GM_EINVAL, "hi", "hi - lo must be finite");
    return GM_OK;
}

/* What a buffer must hold, and what errors call it. */
struct need {
    const char *name;
    uint64_t bytes, align;
};
static const char *const input_names[] = {"in[0]", "in[1]", "in[2]"};
static const char *const output_names[] = {"out[0]", "out[1]", "out[2]"};
static_assert(sizeof input_names / sizeof input_names[0] == GM_BUFFERS_MAX, "a name for every buffer");

static int decode_place(struct gm_cursor *c, const struct need *need, struct gm_wire_buffer *buffer,
                        struct gm_problem *problem)
{
    static const char *const names[] = {"arena", "offset"};
    struct gm_cursor values[2];
    struct gm_map map = {names, 2, true, need->name, values};

    int rc = gm_map_read(&map, c, problem);
    if (rc == GM_OK)
        rc = gm_map_u32(&map, 0, &buffer->arena, problem);
    if (rc == GM_OK)
        rc = gm_map_u64(&map, 1, &buffer->offset, problem);
    if (rc != GM_OK)
        return rc;
    if (buffer->offset % need->align != 0)
        return gm_map_problem(&map, 1, GM_EALIGN, "must be a multiple of the element size", problem);
    if (need->bytes > GM_ARENA_BYTES_MAX || buffer->offset > GM_ARENA_BYTES_MAX - need->bytes)
        return gm_map_problem(&map, 1, GM_EBOUNDS, "lies outside of any arena", problem);
    buffer->place = GM_PLACE_ARENA;
    return GM_OK;
}

static int decode_buffer(struct gm_cursor *c, const struct need *need, bool is_input, struct gm_wire_buffer *buffer,
                         struct gm_problem *problem)
{
    struct gm_cursor value = *c;
    struct gm_item item;

    if (!gm_cursor_next(&value, &item))
        return gm_problem_set(problem, GM_EPROTO, need->name, "the message ends inside %s", need->name);
    if (item.type == GM_ITEM_MAP)
        return decode_place(c, need, buffer, problem);
    if (item.type != (is_input ? GM_ITEM_BIN : GM_ITEM_NIL))
        return gm_problem_set(problem, GM_EINVAL, need->name, "%s must be {arena, offset} or %s", need->name,
                              is_input ? "binary data" : "nil");
    *c = value;
    if (is_input && item.u != need->bytes)
        return gm_problem_set(problem, GM_ESIZE, need->name, "%s has %" PRIu64 " bytes instead of %" PRIu64,
                              need->name, item.u, need->bytes);
    if (need->bytes > GM_INLINE_BYTES_MAX)
        return gm_problem_set(problem, GM_ESIZE, need->name, "%s needs %" PRIu64 " bytes; a message carries %u",
                              need->name, need->bytes, GM_INLINE_BYTES_MAX);
    buffer->place = GM_PLACE_INLINE;
    buffer->bytes = is_input ? item.bytes : NULL;
    buffer->size = need->bytes;
    return GM_OK;
}

static int decode_buffers(const struct gm_map *map, uint32_t key, uint32_t count, struct gm_wire_submit *submit,
                          struct gm_problem *problem)
{
    const struct gm_op_row row = gm_op_row(submit->op);
    const bool is_input = key == KEY_in;
    struct gm_cursor c = map->values[key];
    struct gm_item head;
    char text[GM_NAME_BYTES_MAX];

    int rc = gm_map_item(map, key, GM_ITEM_ARRAY, &head, problem);
    if (rc != GM_OK)
        return rc;
    if (head.u != count) {
        snprintf(text, sizeof text, "must have %u buffer%s", count, count == 1 ? "" : "s");
        return gm_map_problem(map, key, GM_EINVAL, text, problem);
    }
    struct need need = {NULL, submit->n * gm_dtype_bytes(submit->dtype), gm_dtype_bytes(submit->dtype)};
    if (!is_input && row.shape == GM_SHAPE_HISTOGRAM)
        need.align = sizeof(uint64_t);
    if (!is_input)
        need.bytes = gm_output_bytes(row.shape, submit->n, submit->bins, submit->dtype);
    if (!gm_cursor_next(&c, &head))
        return gm_map_problem(map, key, GM_EPROTO, "is cut", problem);
    for (uint32_t i = 0; i < count && rc == GM_OK; i++) {
        need.name = is_input ? input_names[i] : output_names[i];
        rc = decode_buffer(&c, &need, is_input, &submit->buffer[submit->buffers], problem);
        submit->buffers++;
    }
    return rc;
}

int gm_decode_submit(struct gm_cursor *cursor, struct gm_wire_submit *submit, struct gm_problem *problem)
{
    struct gm_cursor values[KEYS];
    struct gm_map map = {key_names, KEYS, true, "", values};
    struct gm_op_row row;

    memset(submit, 0, sizeof *submit);
    submit->dtype = GM_DTYPE_COUNT;
    int rc = gm_map_read(&map, cursor, problem);
    if (rc == GM_OK)
        rc = decode_op(&map, &submit->op, problem);
    if (rc != GM_OK)
        return rc;
    row = gm_op_row(submit->op);
    rc = check_keys(&map, submit->op, &row, problem);
    if (rc == GM_OK)
        rc = gm_map_device(&map, KEY_device, &submit->has_device, &submit->device, problem);
    if (rc == GM_OK && row.types != GM_NO_TYPES)
        rc = decode_dtype(&map, &row, submit, problem);
    if (rc == GM_OK && row.types != GM_NO_TYPES)
        rc = decode_n(&map, submit, problem);
    if (rc == GM_OK && gm_map_has(&map, KEY_descending))
        rc = gm_map_bool(&map, KEY_descending, &submit->descending, problem);
    if (rc == GM_OK && row.shape == GM_SHAPE_FILL)
        rc = decode_value(&map, submit, problem);
    if (rc == GM_OK && row.shape == GM_SHAPE_HISTOGRAM)
        rc = decode_bins(&map, submit, problem);
    if (rc == GM_OK && row.inputs > 0)
        rc = decode_buffers(&map, KEY_in, row.inputs, submit, problem);
    if (rc == GM_OK && row.outputs > 0)
        rc = decode_buffers(&map, KEY_out, row.outputs, submit, problem);
    return rc;
}
