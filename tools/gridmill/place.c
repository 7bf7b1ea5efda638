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
    place->memory = calloc(1, place->out_offset + place->out_bytes + 1);
    if (place->memory == NULL)
        return complain(EXIT_FAILED, "out of memory");
    place->in = place->memory;
    place->out = (char *)place->memory + place->out_offset;
    return EXIT_DONE;
}

static int make_arena(struct gm_client *client, const struct common *common, const struct place *place,
                      enum gm_memory memory, struct gm_arena **arena)
{
    const uint64_t bytes = place->out_offset + place->out_bytes;

    if (gm_arena_create(client, bytes > 0 ? bytes : 1, memory, place->device, command_deadline(common), arena) == GM_OK)
        return EXIT_DONE;
    return complain_last(client, memory == GM_MEMORY_SHARED ? "shared arena" : "device arena");
}

int place_attach(struct gm_client *client, const struct common *common, const char *name, struct place *place)
{
    if (gm_arena_attach(client, name, command_deadline(common), &place->named) == GM_OK)
        return EXIT_DONE;
    return complain_last(client, name);
}

int place_make(struct gm_client *client, const struct common *common, struct place *place)
{
    const uint64_t in_bytes = place->named != NULL ? 0 : place->in_bytes;

    place->out_offset = (in_bytes + ALIGN - 1) & ~(uint64_t)(ALIGN - 1);
    if (place->kind == PLACE_AUTO)
        place->kind = in_bytes <= GM_INLINE_BYTES && place->out_bytes <= GM_INLINE_BYTES ? PLACE_INLINE
                                                                                               : PLACE_SHARED;
    if (place->kind == PLACE_INLINE)
        return make_inline(place);
    int rc = make_arena(client, common, place, GM_MEMORY_SHARED, &place->shared);
    if (rc == EXIT_DONE && place->kind == PLACE_DEVICE)
        rc = make_arena(client, common, place, GM_MEMORY_DEVICE, &place->on_device);
    if (rc != EXIT_DONE)
        return rc;
    place->in = gm_arena_data(place->shared);
    place->out = (char *)place->in + place->out_offset;
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
    if (place->kind != PLACE_DEVICE || place->named != NULL)
        return EXIT_DONE;
    return copy(client, common, place->shared, place->on_device, 0, place->in_bytes);
}

int place_download(struct gm_client *client, const struct common *common, const struct place *place)
{
    if (place->kind != PLACE_DEVICE)
        return EXIT_DONE;
    return copy(client, common, place->on_device, place->shared, place->out_offset, place->out_bytes);
}

static const struct gm_arena *job_arena(const struct place *place)
{
    return place->kind == PLACE_DEVICE ? place->on_device : place->shared;
}

struct gm_buffer place_input(const struct place *place)
{
    if (place->named != NULL)
        return gm_in_arena(place->named, 0, place->in_bytes);
    if (place->kind == PLACE_INLINE)
        return gm_in_memory(place->in, place->in_bytes);
    return gm_in_arena(job_arena(place), 0, place->in_bytes);
}

struct gm_buffer place_output(const struct place *place)
{
    if (place->kind == PLACE_INLINE)
        return gm_in_memory(place->out, place->out_bytes);
    return gm_in_arena(job_arena(place), place->out_offset, place->out_bytes);
}

void place_free(struct place *place)
{
    const uint64_t second_ns = UINT64_C(1000000000);

    /* What the daemon does not answer in time goes with the session. */
    (void)gm_arena_free(place->named, gm_deadline_in(second_ns));
    (void)gm_arena_free(place->on_device, gm_deadline_in(second_ns));
    (void)gm_arena_free(place->shared, gm_deadline_in(second_ns));
    free(place->memory);
    *place = (struct place){0};
}
