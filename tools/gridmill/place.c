/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes room for the data of one job, and moves it to device memory and back with copy jobs. One thread; bounded by
 * the daemon's quota.
 */
#include "place.h"

#include <stdlib.h>
#include <string.h>

#define ALIGN 256u /* devices read from here in whole lines */

bool place_kind_by_name(const char *name, enum place_kind *kind)
{
    static const struct {
        const char *name;
        enum place_kind kind;
    } kinds[] = {{"auto", PLACE_AUTO}, {"inline", PLACE_INLINE}, {"shared", PLACE_SHARED}, {"device", PLACE_DEVICE}};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(name, kinds[i].name) == 0) {
            *kind = kinds[i].kind;
            return true;
        }
    return false;
}

static int make_inline(struct place *place)
{
    place->memory = calloc(1, place->bytes + 1);
    return place->memory != NULL ? EXIT_DONE : complain(EXIT_FAILED, "out of memory");
}

static int make_arena(struct gm_client *client, const struct common *common, const struct place *place,
                      enum gm_memory memory, struct gm_arena **arena)
{
    const uint64_t bytes = place->bytes > 0 ? place->bytes : 1;

    if (gm_arena_create(client, bytes, memory, place->device, command_deadline(common), arena) == GM_OK)
        return EXIT_DONE;
    return complain_last(client, memory == GM_MEMORY_SHARED ? "shared arena" : "device arena");
}

int place_attach(struct gm_client *client, const struct common *common, const char *name, uint32_t i,
                 struct place *place)
{
    if (gm_arena_attach(client, name, command_deadline(common), &place->buffer[i].named) == GM_OK)
        return EXIT_DONE;
    return complain_last(client, name);
}

/* Where each buffer begins, and whether all of them fit into messages. */
static bool lay_out(struct place *place)
{
    uint64_t ways[2] = {0, 0}; /* there and back */

    for (uint32_t i = 0; i < place->buffers; i++) {
        struct place_buffer *const buffer = &place->buffer[i];
        if (buffer->named != NULL)
            continue;
        buffer->offset = (place->bytes + ALIGN - 1) & ~(uint64_t)(ALIGN - 1);
        place->bytes = buffer->offset + buffer->bytes;
        ways[i >= place->inputs] += buffer->bytes;
    }
    return ways[0] <= GM_INLINE_BYTES && ways[1] <= GM_INLINE_BYTES;
}

int place_make(struct gm_client *client, const struct common *common, struct place *place)
{
    const bool fits = lay_out(place);
    int rc;

    if (place->kind == PLACE_AUTO)
        place->kind = fits ? PLACE_INLINE : PLACE_SHARED;
    if (place->kind == PLACE_INLINE)
        rc = make_inline(place);
    else
        rc = make_arena(client, common, place, GM_MEMORY_SHARED, &place->shared);
    if (rc == EXIT_DONE && place->kind == PLACE_DEVICE)
        rc = make_arena(client, common, place, GM_MEMORY_DEVICE, &place->on_device);
    if (rc != EXIT_DONE)
        return rc;
    char *const memory = place->kind == PLACE_INLINE ? place->memory : gm_arena_data(place->shared);
    for (uint32_t i = 0; i < place->buffers; i++)
        if (place->buffer[i].named == NULL)
            place->buffer[i].data = memory + place->buffer[i].offset;
    return EXIT_DONE;
}

static int copy(struct gm_client *client, const struct common *common, const struct gm_arena *from,
                const struct gm_arena *to, uint64_t offset, uint64_t bytes)
{
    struct gm_request request = gm_request("copy", GM_U8, bytes);

    if (bytes == 0)
        return EXIT_DONE;
    request.in[0] = gm_in_arena(from, offset, bytes);
    request.out[0] = gm_in_arena(to, offset, bytes);
    if (gm_run(client, &request, command_deadline(common), NULL) == GM_OK)
        return EXIT_DONE;
    return complain_last(client, "copy");
}

int place_upload(struct gm_client *client, const struct common *common, const struct place *place)
{
    int rc = EXIT_DONE;

    for (uint32_t i = 0; i < place->inputs && rc == EXIT_DONE; i++)
        if (place->kind == PLACE_DEVICE && place->buffer[i].named == NULL)
            rc = copy(client, common, place->shared, place->on_device, place->buffer[i].offset, place->buffer[i].bytes);
    return rc;
}

int place_download(struct gm_client *client, const struct common *common, const struct place *place)
{
    int rc = EXIT_DONE;

    for (uint32_t i = place->inputs; i < place->buffers && rc == EXIT_DONE; i++)
        if (place->kind == PLACE_DEVICE)
            rc = copy(client, common, place->on_device, place->shared, place->buffer[i].offset, place->buffer[i].bytes);
    return rc;
}

struct gm_buffer place_buffer(const struct place *place, uint32_t i)
{
    const struct place_buffer *const buffer = &place->buffer[i];

    if (buffer->named != NULL)
        return gm_in_arena(buffer->named, 0, buffer->bytes);
    if (place->kind == PLACE_INLINE)
        return gm_in_memory(buffer->data, buffer->bytes);
    return gm_in_arena(place->kind == PLACE_DEVICE ? place->on_device : place->shared, buffer->offset, buffer->bytes);
}

void place_free(struct place *place)
{
    const uint64_t second_ns = UINT64_C(1000000000);

    /* What the daemon does not answer in time goes with the session. */
    for (uint32_t i = 0; i < place->buffers; i++)
        (void)gm_arena_free(place->buffer[i].named, gm_deadline_in(second_ns));
    (void)gm_arena_free(place->on_device, gm_deadline_in(second_ns));
    (void)gm_arena_free(place->shared, gm_deadline_in(second_ns));
    free(place->memory);
    *place = (struct place){0};
}
