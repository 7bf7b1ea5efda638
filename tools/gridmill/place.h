/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the data of one job lies while it runs: in its messages, in a shared arena, or in device memory with a shared
 * arena as the way in and out. One thread; everything is freed by place_free or with the client.
 */
#ifndef GM_PLACE_H
#define GM_PLACE_H

#include "command.h"
#include "limits.h"

enum place_kind { PLACE_AUTO, PLACE_INLINE, PLACE_SHARED, PLACE_DEVICE };

struct place {
    enum place_kind kind;
    int device;
    uint32_t inputs, buffers; /* of the job: inputs, then outputs */
    struct place_buffer {
        uint64_t bytes, offset;
        void *data;             /* what the command fills, or reads */
        struct gm_arena *named; /* the input is this arena, and is not brought anywhere */
    } buffer[GM_BUFFERS_MAX];
    uint64_t bytes; /* of all that are brought */
    void *memory;   /* from malloc, when inline */
    struct gm_arena *shared, *on_device;
};

bool place_kind_by_name(const char *name, enum place_kind *kind);
/* Takes a named arena for input i. Before place_make. Returns an exit code. */
int place_attach(struct gm_client *client, const struct common *common, const char *name, uint32_t i,
                 struct place *place);
/* Finds room for every buffer, and decides AUTO. Returns an exit code. */
int place_make(struct gm_client *client, const struct common *common, struct place *place);
/* Brings the inputs to where the job reads them, and the outputs back. */
int place_upload(struct gm_client *client, const struct common *common, const struct place *place);
int place_download(struct gm_client *client, const struct common *common, const struct place *place);
struct gm_buffer place_buffer(const struct place *place, uint32_t i);
void place_free(struct place *place);

#endif
