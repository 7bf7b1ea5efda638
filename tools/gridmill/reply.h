/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers of the daemon that are maps (stats, ops): unpacked, looked into, and printed as JSON. One thread; the client
 * library has bounded what is unpacked here.
 */
#ifndef GM_REPLY_H
#define GM_REPLY_H

#include "command.h"

#include <msgpack.h>

struct reply {
    msgpack_unpacked unpacked;
    const msgpack_object_map *map;
};

/* Unpacks a map that gm_stats or gm_ops gave, and frees the bytes. Returns an exit code. */
int reply_unpack(void *bytes, size_t size, struct reply *reply);
void reply_free(struct reply *reply);

/* NULL when the key is not there, or the value has another type. */
const msgpack_object *reply_get(const msgpack_object_map *map, const char *key);
const msgpack_object_map *reply_map(const msgpack_object_map *map, const char *key);
const msgpack_object_array *reply_array(const msgpack_object_map *map, const char *key);
bool reply_u64(const msgpack_object_map *map, const char *key, uint64_t *value);
bool reply_text_is(const msgpack_object *object, const char *text);

/* The whole map as JSON on standard output, in the daemon's order. Numbers that JSON lacks are null. */
int reply_print_json(const struct reply *reply);

/* The device that a user names: a number, the first one of a backend ("cpu", "cuda"), or any for NULL. Returns an exit
 * code. */
int reply_device(struct gm_client *client, const struct common *common, const char *which, int *device);

#endif
