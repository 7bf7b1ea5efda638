/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the scan against msgpack-c: what the scan accepts, msgpack-c reads as one value of exactly that length, with
 * the depth and the number of items that the scan promised. One thread; memory is bounded because the scan was first.
 */
#include "fuzz.h"
#include "wire_cursor.h"

#include <msgpack/unpack.h>

/* Items in a value, and its depth. Recursion is bounded by what the scan promised. */
static uint64_t measure(const msgpack_object *object, uint32_t depth, uint32_t *deepest)
{
    uint64_t items = 1;
    must(depth <= GM_MSGPACK_DEPTH_MAX);
    if (object->type == MSGPACK_OBJECT_ARRAY || object->type == MSGPACK_OBJECT_MAP)
        *deepest = depth + 1 > *deepest ? depth + 1 : *deepest;
    if (object->type == MSGPACK_OBJECT_ARRAY)
        for (uint32_t i = 0; i < object->via.array.size; i++)
            items += measure(&object->via.array.ptr[i], depth + 1, deepest);
    if (object->type == MSGPACK_OBJECT_MAP)
        for (uint32_t i = 0; i < object->via.map.size; i++) {
            items += measure(&object->via.map.ptr[i].key, depth + 1, deepest);
            items += measure(&object->via.map.ptr[i].val, depth + 1, deepest);
        }
    return items;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gm_problem problem = {0};
    struct gm_cursor c = {data, data + size};
    msgpack_unpacked unpacked;
    uint32_t deepest = 0;
    size_t offset = 0;

    const int rc = gm_wire_scan(data, size, &problem);
    must_be_whole(&problem, rc);
    must(rc == GM_OK || rc == GM_EPROTO || rc == GM_ETOODEEP || rc == GM_ETOOMANY);
    const bool whole = gm_cursor_skip(&c) && c.at == c.end;
    if (rc != GM_OK) {
        must(rc != GM_EPROTO || !whole);
        return 0;
    }
    must(whole);
    msgpack_unpacked_init(&unpacked);
    must(msgpack_unpack_next(&unpacked, (const char *)data, size, &offset) == MSGPACK_UNPACK_SUCCESS);
    must(offset == size);
    must(measure(&unpacked.data, 0, &deepest) <= GM_MSGPACK_ITEMS_MAX);
    must(deepest <= GM_MSGPACK_DEPTH_MAX);
    msgpack_unpacked_destroy(&unpacked);
    return 0;
}
