/* SPDX-License-Identifier: Apache-2.0
 *
 * msgpack maps of the daemon, by msgpack-c, and JSON by jansson. One thread; depth is bounded by the protocol, which
 * the client library has checked.
 */
#include "reply.h"

#include "limits.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int reply_unpack(void *bytes, size_t size, struct reply *reply)
{
    size_t at = 0;

    msgpack_unpacked_init(&reply->unpacked);
    const msgpack_unpack_return rc = msgpack_unpack_next(&reply->unpacked, bytes, size, &at);
    if (rc == MSGPACK_UNPACK_SUCCESS && at == size && reply->unpacked.data.type == MSGPACK_OBJECT_MAP) {
        reply->map = &reply->unpacked.data.via.map;
        return EXIT_DONE;
    }
    return complain(EXIT_FAILED, "the daemon's answer cannot be read");
}

void reply_free(struct reply *reply)
{
    msgpack_unpacked_destroy(&reply->unpacked);
    reply->map = NULL;
}

bool reply_text_is(const msgpack_object *object, const char *text)
{
    return object != NULL && object->type == MSGPACK_OBJECT_STR && object->via.str.size == strlen(text) &&
           memcmp(object->via.str.ptr, text, object->via.str.size) == 0;
}

const msgpack_object *reply_get(const msgpack_object_map *map, const char *key)
{
    for (uint32_t i = 0; map != NULL && i < map->size; i++)
        if (reply_text_is(&map->ptr[i].key, key))
            return &map->ptr[i].val;
    return NULL;
}

const msgpack_object_map *reply_map(const msgpack_object_map *map, const char *key)
{
    const msgpack_object *const object = reply_get(map, key);

    return object != NULL && object->type == MSGPACK_OBJECT_MAP ? &object->via.map : NULL;
}

const msgpack_object_array *reply_array(const msgpack_object_map *map, const char *key)
{
    const msgpack_object *const object = reply_get(map, key);

    return object != NULL && object->type == MSGPACK_OBJECT_ARRAY ? &object->via.array : NULL;
}

bool reply_u64(const msgpack_object_map *map, const char *key, uint64_t *value)
{
    const msgpack_object *const object = reply_get(map, key);

    if (object == NULL || object->type != MSGPACK_OBJECT_POSITIVE_INTEGER)
        return false;
    *value = object->via.u64;
    return true;
}

static json_t *json_of(const msgpack_object *object);

static json_t *json_of_map(const msgpack_object_map *map)
{
    json_t *const object = json_object();

    for (uint32_t i = 0; object != NULL && i < map->size; i++) {
        const msgpack_object *const key = &map->ptr[i].key;
        char name[256];
        if (key->type != MSGPACK_OBJECT_STR || key->via.str.size >= sizeof name)
            continue;
        memcpy(name, key->via.str.ptr, key->via.str.size);
        name[key->via.str.size] = '\0';
        if (json_object_set_new(object, name, json_of(&map->ptr[i].val)) != 0)
            json_object_set_new(object, name, json_null());
    }
    return object;
}

static json_t *json_of_array(const msgpack_object_array *items)
{
    json_t *const array = json_array();

    for (uint32_t i = 0; array != NULL && i < items->size; i++)
        if (json_array_append_new(array, json_of(&items->ptr[i])) != 0)
            json_array_append_new(array, json_null());
    return array;
}

/* NULL for what JSON cannot say; the callers write null for it. */
static json_t *json_of(const msgpack_object *object)
{
    switch (object->type) {
    case MSGPACK_OBJECT_BOOLEAN:
        return json_boolean(object->via.boolean);
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        /* jansson's integers are signed; counters do not get that far. */
        return object->via.u64 <= INT64_MAX ? json_integer((json_int_t)object->via.u64)
                                            : json_real((double)object->via.u64);
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        return json_integer(object->via.i64);
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        return json_real(object->via.f64);
    case MSGPACK_OBJECT_STR:
        return json_stringn(object->via.str.ptr, object->via.str.size);
    case MSGPACK_OBJECT_ARRAY:
        return json_of_array(&object->via.array);
    case MSGPACK_OBJECT_MAP:
        return json_of_map(&object->via.map);
    default:
        return json_null();
    }
}

int reply_print_json(const struct reply *reply)
{
    json_t *const json = json_of_map(reply->map);

    if (json == NULL)
        return complain(EXIT_FAILED, "the reply is none that JSON can hold");
    const int rc = json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) == 0
                       ? EXIT_DONE
                       : complain(EXIT_FAILED, "standard output: %s", command_stream_error(STDOUT_FILENO));
    json_decref(json);
    if (rc != EXIT_DONE)
        return rc;
    putchar('\n');
    return EXIT_DONE;
}

static int device_of_backend(struct gm_client *client, const struct common *common, const char *backend, int *device)
{
    struct reply reply;
    void *bytes;
    size_t size;
    uint64_t index;

    if (gm_stats(client, command_deadline(common), &bytes, &size) != GM_OK)
        return complain_last(client, "stats");
    int rc = reply_unpack(bytes, size, &reply);
    if (rc == EXIT_DONE) {
        const msgpack_object_array *const devices = reply_array(reply.map, "devices");
        rc = EXIT_FAILED;
        for (uint32_t i = 0; devices != NULL && i < devices->size && rc != EXIT_DONE; i++) {
            const msgpack_object *const row = &devices->ptr[i];
            if (row->type == MSGPACK_OBJECT_MAP && reply_text_is(reply_get(&row->via.map, "backend"), backend) &&
                reply_u64(&row->via.map, "index", &index)) {
                *device = (int)index;
                rc = EXIT_DONE;
            }
        }
        if (rc != EXIT_DONE)
            complain(rc, "the daemon has no device \"%s\"; `gridmill stats` lists them", backend);
    }
    reply_free(&reply);
    gm_free(bytes);
    return rc;
}

int reply_device(struct gm_client *client, const struct common *common, const char *which, int *device)
{
    uint64_t number;

    *device = GM_DEVICE_ANY;
    if (which == NULL)
        return EXIT_DONE;
    if (!parse_u64(which, GM_DEVICES_MAX - 1, &number))
        return device_of_backend(client, common, which, device);
    *device = (int)number;
    return EXIT_DONE;
}
