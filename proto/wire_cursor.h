/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to proto/: a bounds-checked walk over msgpack bytes, and maps with known keys. The bytes are walked by hand
 * because msgpack-c builds a tree in allocated memory sized by counts that the sender claims, while everything here
 * goes straight into fixed structs; gm_wire_scan has bounded depth and items before. No state, any thread.
 */
#ifndef GM_PROTO_WIRE_CURSOR_H
#define GM_PROTO_WIRE_CURSOR_H

#include "wire.h"

enum gm_item_type {
    GM_ITEM_NIL,
    GM_ITEM_BOOL,
    GM_ITEM_UINT, /* every integer that is not negative, however it was encoded */
    GM_ITEM_INT,  /* every negative integer */
    GM_ITEM_F32,
    GM_ITEM_F64,
    GM_ITEM_STR,
    GM_ITEM_BIN,
    GM_ITEM_EXT,
    GM_ITEM_ARRAY,
    GM_ITEM_MAP
};

/* One msgpack item. Of a container only the head: its children follow. */
struct gm_item {
    enum gm_item_type type;
    uint64_t u;           /* value (two's complement, or float bits), length of bytes, or number of elements or pairs */
    const uint8_t *bytes; /* of str, bin and ext */
};

struct gm_cursor {
    const uint8_t *at, *end;
};

/* Whether bytes of a message are a known name. Most names differ in their first byte, so it is looked at first. */
static inline bool gm_same_text(const char *known, const void *bytes, uint64_t size)
{
    const char *const text = (const char *)bytes;
    for (uint64_t i = 0; i < size; i++)
        if (known[i] == '\0' || known[i] != text[i])
            return false;
    return known[size] == '\0';
}

/* Reads the next item; false when the bytes end inside it or are no msgpack (0xc1). */
bool gm_cursor_next(struct gm_cursor *cursor, struct gm_item *item);
/* Skips a whole value with everything inside it. Ends after at most as many steps as there are bytes. */
bool gm_cursor_skip(struct gm_cursor *cursor);
/* gm_wire_scan with another bound for the items. */
int gm_scan(const uint8_t *body, size_t size, uint64_t items_max, struct gm_problem *problem);

/* A map with known keys. Values stay in the message; they are interpreted in the order the decoder wants, whatever
 * the order of the sender was. In a request an unknown key is an error; in a response it is skipped, so that an old
 * client understands a new daemon. */
struct gm_map {
    const char *const *names;
    uint32_t count;
    bool request;
    const char *name;         /* what errors call it; "" for params and results */
    struct gm_cursor *values; /* count of them; at is NULL for a key that is absent */
};

int gm_map_read(struct gm_map *map, struct gm_cursor *cursor, struct gm_problem *problem);
static inline bool gm_map_has(const struct gm_map *map, uint32_t key) { return map->values[key].at != NULL; }
/* Fills a problem about a key: EINVAL in requests and EPROTO in responses, unless code says otherwise. */
int gm_map_problem(const struct gm_map *map, uint32_t key, int code, const char *text, struct gm_problem *problem);
/* The value of a key that must be there and of this type. */
int gm_map_item(const struct gm_map *map, uint32_t key, enum gm_item_type type, struct gm_item *item,
                struct gm_problem *problem);
int gm_map_u64(const struct gm_map *map, uint32_t key, uint64_t *value, struct gm_problem *problem);
int gm_map_u32(const struct gm_map *map, uint32_t key, uint32_t *value, struct gm_problem *problem);
int gm_map_bool(const struct gm_map *map, uint32_t key, bool *value, struct gm_problem *problem);
/* A device index, when the key is there. */
int gm_map_device(const struct gm_map *map, uint32_t key, bool *has, uint32_t *device, struct gm_problem *problem);

/* Copies text that may be anything into a C string that may be printed: other bytes than printable ASCII become '?',
 * and a text that was cut ends in "..". */
void gm_printable(char *to, size_t capacity, const uint8_t *from, size_t size);

/* Bits of a number as an element of dtype, zero-extended. Integers must be representable (a float with an integral
 * value is); for float types numbers are rounded to nearest, and only those that would become infinite are refused. */
bool gm_scalar_bits(const struct gm_item *item, uint32_t dtype, uint64_t *bits);
bool gm_scalar_f64(const struct gm_item *item, double *value);

/* params of the method in the request. */
int gm_decode_params(struct gm_cursor *cursor, struct gm_wire_request *request, struct gm_problem *problem);
/* params of submit. */
int gm_decode_submit(struct gm_cursor *cursor, struct gm_wire_submit *submit, struct gm_problem *problem);

/* Element types that a number in a message can stand for. A row of ops.def with another type does not compile until
 * gm_scalar_bits and gm_wire_put_scalar know it. */
#define GM_SCALAR_TYPES                                                                                     \
    (GM_TYPE(u8) | GM_TYPE(i8) | GM_TYPE(u32) | GM_TYPE(i32) | GM_TYPE(u64) | GM_TYPE(i64) | GM_TYPE(f16) | \
     GM_TYPE(bf16) | GM_TYPE(f32) | GM_TYPE(f64))
#define OP(id, name, shape, types, result, work, tile_bytes, tolerance, help)                               \
    static_assert((GM_##types & ~GM_SCALAR_TYPES) == 0, #name ": a type without a number form on the wire");
#include "ops.def"
#undef OP

#endif
