/* SPDX-License-Identifier: Apache-2.0
 *
 * The bounded scan of a message, and the cursor under all decoders. Any thread. The work is linear in the bytes that
 * are there, whatever counts they claim, and nothing recurses.
 */
#include "wire_cursor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint64_t big_endian(const uint8_t *p, uint32_t bytes)
{
    uint64_t v = 0;
    for (uint32_t i = 0; i < bytes; i++)
        v = v << 8 | p[i];
    return v;
}

static uint64_t sign_extend(uint64_t v, uint32_t bytes)
{
    const uint64_t sign = UINT64_C(1) << (8 * bytes - 1);
    return (v ^ sign) - sign;
}

/* Heads with a value or a count behind the first byte: how many bytes, and what they mean. */
struct head {
    enum gm_item_type type;
    uint8_t bytes;
    bool is_signed;
};

/* Indexed by first byte - 0xc4; 0xc0 to 0xc3 carry nothing. */
static const struct head heads[] = {
    {GM_ITEM_BIN, 1, false},   {GM_ITEM_BIN, 2, false},   {GM_ITEM_BIN, 4, false},  /* c4 */
    {GM_ITEM_EXT, 1, false},   {GM_ITEM_EXT, 2, false},   {GM_ITEM_EXT, 4, false},  /* c7 */
    {GM_ITEM_F32, 4, false},   {GM_ITEM_F64, 8, false},                             /* ca */
    {GM_ITEM_UINT, 1, false},  {GM_ITEM_UINT, 2, false},                            /* cc */
    {GM_ITEM_UINT, 4, false},  {GM_ITEM_UINT, 8, false},                            /* ce */
    {GM_ITEM_INT, 1, true},    {GM_ITEM_INT, 2, true},                              /* d0 */
    {GM_ITEM_INT, 4, true},    {GM_ITEM_INT, 8, true},                              /* d2 */
    {GM_ITEM_EXT, 0, false},   {GM_ITEM_EXT, 0, false},   {GM_ITEM_EXT, 0, false},  /* d4: 1, 2, 4 ... */
    {GM_ITEM_EXT, 0, false},   {GM_ITEM_EXT, 0, false},                             /* ... 8 and 16 bytes */
    {GM_ITEM_STR, 1, false},   {GM_ITEM_STR, 2, false},   {GM_ITEM_STR, 4, false},  /* d9 */
    {GM_ITEM_ARRAY, 2, false}, {GM_ITEM_ARRAY, 4, false},                           /* dc */
    {GM_ITEM_MAP, 2, false},   {GM_ITEM_MAP, 4, false},                             /* de */
};
static_assert(sizeof heads / sizeof heads[0] == 0xdf - 0xc4 + 1, "one for every first byte from c4 to df");

/* Reads the head of an item; for str, bin and ext, u is the length of what follows. */
static bool read_head(struct gm_cursor *c, struct gm_item *item)
{
    if (c->at == c->end)
        return false;
    const uint8_t b = *c->at++;
    item->bytes = NULL;
    if (b < 0x80 || b >= 0xe0) {
        item->type = b < 0x80 ? GM_ITEM_UINT : GM_ITEM_INT;
        item->u = b < 0x80 ? b : sign_extend(b, 1);
    } else if (b < 0xc0) {
        item->type = b < 0x90 ? GM_ITEM_MAP : b < 0xa0 ? GM_ITEM_ARRAY : GM_ITEM_STR;
        item->u = b < 0xa0 ? b & 15u : b & 31u;
    } else if (b < 0xc4) {
        item->type = b == 0xc0 ? GM_ITEM_NIL : GM_ITEM_BOOL;
        item->u = b & 1u;
        return b != 0xc1;
    } else {
        const struct head h = heads[b - 0xc4];
        if ((size_t)(c->end - c->at) < h.bytes)
            return false;
        item->type = h.type;
        item->u = h.bytes != 0 ? big_endian(c->at, h.bytes) : UINT64_C(1) << (b - 0xd4);
        c->at += h.bytes;
        if (h.is_signed)
            item->u = sign_extend(item->u, h.bytes);
        if (h.is_signed && (int64_t)item->u >= 0)
            item->type = GM_ITEM_UINT;
        if (h.type == GM_ITEM_EXT)
            item->u += 1; /* its type byte */
    }
    return true;
}

bool gm_cursor_next(struct gm_cursor *c, struct gm_item *item)
{
    if (!read_head(c, item))
        return false;
    if (item->type == GM_ITEM_STR || item->type == GM_ITEM_BIN || item->type == GM_ITEM_EXT) {
        if (item->u > (uint64_t)(c->end - c->at))
            return false;
        item->bytes = c->at;
        c->at += item->u;
    }
    return true;
}

static uint64_t children(const struct gm_item *item)
{
    return item->type == GM_ITEM_ARRAY ? item->u : item->type == GM_ITEM_MAP ? 2 * item->u : 0;
}

bool gm_cursor_skip(struct gm_cursor *c)
{
    /* Cannot wrap: each of at most 2^32 steps adds less than 2^34, and real messages were scanned before. */
    uint64_t left = 1;
    while (left > 0) {
        struct gm_item item;
        if (!gm_cursor_next(c, &item))
            return false;
        left += children(&item) - 1;
    }
    return true;
}

int gm_scan(const uint8_t *body, size_t size, uint64_t items_max, struct gm_problem *problem)
{
    struct gm_cursor c = {body, body + size};
    uint64_t left[GM_MSGPACK_DEPTH_MAX + 1] = {1}; /* items missing in each open container; [0] is the message */
    uint64_t items = 1;
    uint32_t depth = 0;

    for (;;) {
        struct gm_item item;
        const uint8_t *const start = c.at;
        while (left[depth] == 0 && depth > 0)
            depth--;
        if (left[depth] == 0)
            break;
        left[depth]--;
        if (!gm_cursor_next(&c, &item)) {
            if (start < c.end && *start == 0xc1)
                return gm_problem_set(problem, GM_EPROTO, "", "byte %zu is 0xc1, which msgpack does not use",
                                      (size_t)(start - body));
            return gm_problem_set(problem, GM_EPROTO, "", "the message ends inside a value");
        }
        if (item.type != GM_ITEM_ARRAY && item.type != GM_ITEM_MAP)
            continue;
        items += children(&item);
        if (items > items_max)
            return gm_problem_set(problem, GM_ETOOMANY, "", "more than %" PRIu64 " items in one message", items_max);
        if (depth == GM_MSGPACK_DEPTH_MAX)
            return gm_problem_set(problem, GM_ETOODEEP, "", "nested more than %u deep", GM_MSGPACK_DEPTH_MAX);
        left[++depth] = children(&item);
    }
    if (c.at != c.end)
        return gm_problem_set(problem, GM_EPROTO, "", "%zu bytes after the message", (size_t)(c.end - c.at));
    return GM_OK;
}

int gm_wire_scan(const uint8_t *body, size_t size, struct gm_problem *problem)
{
    return gm_scan(body, size, GM_MSGPACK_ITEMS_MAX, problem);
}
