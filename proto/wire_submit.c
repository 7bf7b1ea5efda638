/* SPDX-License-Identifier: Apache-2.0
 *
 * params of submit, validated against the op table: which keys the op takes, its types, sizes and buffers. What needs
 * the session (does the arena exist, does the buffer end inside it) is the daemon's. Any thread; bounded by the scan.
 */
#include "args.h"
#include "wire_cursor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The keys that many ops take; behind them, the arguments of ops.def. */
#define SUBMIT_KEYS(K)                                                                                      \
    K(op)                                                                                                   \
    K(device)                                                                                               \
    K(dtype)                                                                                                \
    K(n)                                                                                                    \
    K(in)                                                                                                   \
    K(out)

enum submit_key {
#define K(name) KEY_##name,
    SUBMIT_KEYS(K)
#undef K
    KEY_ARGS,
    KEYS = (int)KEY_ARGS + (int)GM_ARGS
};
static const char *const key_names[KEYS] = {
#define K(name) #name,
    SUBMIT_KEYS(K)
#undef K
#define ARG(name, type, place, help) #name,
#include "ops.def"
#undef ARG
};
static_assert(KEYS <= 64, "a set of keys is a word");

static_assert(GM_ELEMENTS_MAX <= UINT64_MAX / 8, "elements times their size cannot overflow");
static_assert((uint64_t)GM_HIST_BINS_MAX * 8 <= GM_ARENA_BYTES_MAX, "and neither can bins");

static uint64_t bit(uint32_t key)
{
    return UINT64_C(1) << key;
}

/* The keys an op takes. */
static uint64_t keys_of(const struct gm_op_row *row)
{
    uint64_t keys = bit(KEY_op) | bit(KEY_device) | (uint64_t)row->args << KEY_ARGS;
    if (row->types != GM_NO_TYPES)
        keys |= bit(KEY_dtype) | bit(KEY_n);
    if (row->inputs > 0)
        keys |= bit(KEY_in);
    if (row->outputs > 0)
        keys |= bit(KEY_out);
    return keys;
}

/* Those that may be left out. */
static bool is_optional(uint32_t key)
{
    return key == KEY_device || (key >= KEY_ARGS && gm_arg_is_optional(key - KEY_ARGS));
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
    const uint64_t taken = keys_of(row);
    for (uint32_t key = 0; key < KEYS; key++) {
        if (gm_map_has(map, key) && (taken >> key & 1u) == 0)
            return gm_problem_set(problem, GM_EINVAL, key_names[key], "%s takes no %s", gm_op_name(op),
                                  key_names[key]);
        if (!gm_map_has(map, key) && (taken >> key & 1u) != 0 && !is_optional(key))
            return gm_problem_set(problem, GM_EINVAL, key_names[key], "%s needs %s", gm_op_name(op), key_names[key]);
    }
    return GM_OK;
}

/* The name of a type, one of these. */
static int decode_type(const struct gm_map *map, uint32_t key, uint32_t op, uint32_t types, uint8_t *dtype,
                       struct gm_problem *problem)
{
    struct gm_item item;
    char name[GM_NAME_BYTES_MAX];
    const int rc = gm_map_item(map, key, GM_ITEM_STR, &item, problem);
    if (rc != GM_OK)
        return rc;
    const int found = gm_dtype_by_name((const char *)item.bytes, item.u);
    if (found < 0) {
        gm_printable(name, sizeof name, item.bytes, item.u);
        return gm_problem_set(problem, GM_EDTYPE, key_names[key], "unknown dtype \"%s\"", name);
    }
    if ((types >> found & 1u) == 0)
        return gm_problem_set(problem, GM_EDTYPE, key_names[key], "%s does not take %s", gm_op_name(op),
                              gm_dtype_name((uint32_t)found));
    *dtype = (uint8_t)found;
    return GM_OK;
}

/* A number as bits of an element, or of an f64. */
static int decode_number(const struct gm_map *map, uint32_t key, bool is_element, uint32_t dtype, uint64_t *bits,
                         struct gm_problem *problem)
{
    struct gm_cursor c = map->values[key];
    struct gm_item item;
    double number;
    if (!gm_cursor_next(&c, &item) || !gm_scalar_f64(&item, &number))
        return gm_map_problem(map, key, GM_EINVAL, "must be a number", problem);
    if (!is_element)
        memcpy(bits, &number, sizeof number);
    else if (!gm_scalar_bits(&item, dtype, bits))
        return gm_problem_set(problem, GM_EINVAL, key_names[key], "%s is not representable as %s", key_names[key],
                              gm_dtype_name(dtype));
    return GM_OK;
}

static int decode_size(const struct gm_map *map, uint32_t key, uint64_t *size, struct gm_problem *problem)
{
    const int rc = gm_map_u64(map, key, size, problem);
    if (rc == GM_OK && *size > GM_ELEMENTS_MAX)
        return gm_problem_set(problem, GM_ESIZE, key_names[key], "%s is more than %" PRIu64, key_names[key],
                              GM_ELEMENTS_MAX);
    return rc;
}

/* What 32 bits do not hold is more than any count may be, so the check of arguments says how many these are. */
static int decode_count(const struct gm_map *map, uint32_t key, uint64_t *count, struct gm_problem *problem)
{
    const int rc = gm_map_u64(map, key, count, problem);
    if (*count > UINT32_MAX)
        *count = UINT32_MAX;
    return rc;
}

static int decode_compare(const struct gm_map *map, uint32_t key, uint64_t *compare, struct gm_problem *problem)
{
    struct gm_item item;
    char name[GM_NAME_BYTES_MAX];
    const int rc = gm_map_item(map, key, GM_ITEM_STR, &item, problem);
    if (rc != GM_OK)
        return rc;
    const int found = gm_compare_by_name((const char *)item.bytes, item.u);
    if (found < 0) {
        gm_printable(name, sizeof name, item.bytes, item.u);
        return gm_problem_set(problem, GM_EINVAL, key_names[key], "unknown comparison \"%s\"", name);
    }
    *compare = (uint64_t)found;
    return GM_OK;
}

static int decode_flag(const struct gm_map *map, uint32_t key, uint8_t flag, uint8_t *flags,
                       struct gm_problem *problem)
{
    bool set = false;
    const int rc = gm_map_bool(map, key, &set, problem);
    *flags |= set ? flag : 0u;
    return rc;
}

/* One argument to its place. */
static int decode_arg(const struct gm_map *map, uint32_t arg, const struct gm_op_row *row,
                      struct gm_wire_submit *submit, struct gm_problem *problem)
{
    const uint32_t key = KEY_ARGS + arg, type = gm_arg_type(arg), place = gm_arg_place(arg);
    struct gm_args *const args = &submit->args;
    uint64_t number = 0;
    int rc;

    if (type == GM_ARG_FLAG)
        return decode_flag(map, key, gm_place_flag(place), &args->flags, problem);
    if (type == GM_ARG_TYPE)
        return decode_type(map, key, submit->op, row->types2, &args->type2, problem);
    if (type == GM_ARG_COMPARE)
        rc = decode_compare(map, key, &number, problem);
    else if (type == GM_ARG_ELEMENT || type == GM_ARG_F64)
        rc = decode_number(map, key, type == GM_ARG_ELEMENT, args->dtype, &number, problem);
    else if (type == GM_ARG_COUNT)
        rc = decode_count(map, key, &number, problem);
    else
        rc = decode_size(map, key, &number, problem);
    if (place == GM_AT_COUNT)
        args->count = (uint32_t)number;
    else if (place == GM_AT_COUNT2)
        args->count2 = (uint32_t)number;
    else
        args->value[place - GM_AT_VALUE0] = number;
    return rc;
}

static int decode_args(const struct gm_map *map, const struct gm_op_row *row, struct gm_wire_submit *submit,
                       struct gm_problem *problem)
{
    int rc = gm_map_u64(map, KEY_n, &submit->args.n, problem);
    for (uint32_t arg = 0; arg < GM_ARGS && rc == GM_OK; arg++)
        if (gm_map_has(map, KEY_ARGS + arg))
            rc = decode_arg(map, arg, row, submit, problem);
    if (rc == GM_OK && gm_map_has(map, KEY_ARGS + GM_A_compare) && gm_compare_takes_high(submit->args.count) &&
        !gm_map_has(map, KEY_ARGS + GM_A_high))
        return gm_problem_set(problem, GM_EINVAL, "high", "%s needs high", gm_compare_name(submit->args.count));
    const enum gm_complaint complaint = rc == GM_OK ? gm_args_check(row, &submit->args) : GM_COMPLAINT_NONE;
    /* That there is nothing to reduce is the job's failure, as for every other client. */
    if (complaint != GM_COMPLAINT_NONE && complaint != GM_COMPLAINT_EMPTY)
        return gm_complaint_problem(problem, complaint);
    return rc;
}

/* What a buffer must hold, and what errors call it. */
struct need {
    const char *name;
    uint64_t bytes, align;
};

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

/* carried: bytes of the buffers before it that ride in the same message. */
static int decode_buffer(struct gm_cursor *c, const struct need *need, bool is_input, uint64_t carried,
                         struct gm_wire_buffer *buffer, struct gm_problem *problem)
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
    if (need->bytes > GM_INLINE_BYTES_MAX - carried)
        return gm_problem_set(problem, GM_ESIZE, need->name,
                              "%s needs %" PRIu64 " bytes beside %" PRIu64 "; a message carries %u", need->name,
                              need->bytes, carried, GM_INLINE_BYTES_MAX);
    buffer->place = GM_PLACE_INLINE;
    buffer->bytes = is_input ? item.bytes : NULL;
    buffer->size = need->bytes;
    return GM_OK;
}

static int decode_buffers(const struct gm_map *map, uint32_t key, uint32_t count, const struct gm_op_row *row,
                          struct gm_wire_submit *submit, struct gm_problem *problem)
{
    struct gm_cursor c = map->values[key];
    struct gm_item head;
    char text[GM_NAME_BYTES_MAX], name[GM_FIELD_BYTES_MAX];

    int rc = gm_map_item(map, key, GM_ITEM_ARRAY, &head, problem);
    if (rc != GM_OK)
        return rc;
    if (head.u != count) {
        snprintf(text, sizeof text, "must have %u buffer%s", count, count == 1 ? "" : "s");
        return gm_map_problem(map, key, GM_EINVAL, text, problem);
    }
    if (!gm_cursor_next(&c, &head))
        return gm_map_problem(map, key, GM_EPROTO, "is cut", problem);
    uint64_t carried = 0;
    for (uint32_t i = 0; i < count && rc == GM_OK; i++) {
        const uint32_t at = submit->buffers;
        const struct need need = {name, gm_buffer_bytes(row, at, &submit->args),
                                  gm_buffer_element(row, at, &submit->args)};
        gm_buffer_name(row, at, "", name);
        rc = decode_buffer(&c, &need, key == KEY_in, carried, &submit->buffer[at], problem);
        carried += rc == GM_OK && submit->buffer[at].place == GM_PLACE_INLINE ? submit->buffer[at].size : 0;
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
        rc = decode_type(&map, KEY_dtype, submit->op, row.types, &submit->args.dtype, problem);
    if (rc == GM_OK && row.types != GM_NO_TYPES)
        rc = decode_args(&map, &row, submit, problem);
    if (rc == GM_OK && row.inputs > 0)
        rc = decode_buffers(&map, KEY_in, row.inputs, &row, submit, problem);
    if (rc == GM_OK && row.outputs > 0)
        rc = decode_buffers(&map, KEY_out, row.outputs, &row, submit, problem);
    return rc;
}
