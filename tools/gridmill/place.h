/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the data of one job lies while it runs: in its messages, in a shared arena, or in device memory with a shared
 * arena as the way in and out. One thread; everything is freed by place_free or with the client.
 */
#ifndef GM_PLACE_H
#define GM_PLACE_H

#include "command.h"

enum place_kind { PLACE_AUTO, PLACE_INLINE, PLACE_SHARED, PLACE_DEVICE };

struct place {
    enum place_kind kind;
    int device;
    uint64_t in_bytes, out_bytes, out_offset;
    void *in, *out; /* what the command fills, and reads */
    void *memory;   /* from malloc, when inline */
    struct gm_arena *shared, *on_device;
    struct gm_arena *named; /* the input is this arena, and is not brought anywhere */
};

bool place_kind_by_name(const char *name, enum place_kind *kind);
/* Takes a named arena for the input. Before place_make. Returns an exit code. */
int place_attach(struct gm_client *client, const struct common *common, const char *name, struct place *place);
/* Finds room for both buffers, and decides AUTO. Returns an exit code. */
int place_make(struct gm_client *client, const struct common *common, struct place *place);
/* Brings the input to where the job reads it. */
int place_upload(struct gm_client *client, const struct common *common, const struct place *place);
int place_download(struct gm_client *client, const struct common *common, const struct place *place);
struct gm_buffer place_input(const struct place *place);
struct gm_buffer place_output(const struct place *place);
void place_free(struct place *place);

#endif
