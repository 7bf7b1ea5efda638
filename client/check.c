/* SPDX-License-Identifier: Apache-2.0
 *
 * What this side can see of a request: op, type, sizes, and buffers inside their memory. For clear errors early, with
 * the field named, and for the client's own memory; daemon and device check everything again. Any thread, under the
 * client's lock; on the way of every job, so it copies nothing.
 */
#include "client.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Ops by name. Programs use few of the many: what was found is looked at first. -1: none. */
static int find_op(struct gm_client *client, const char *name)
{
    uint32_t hash = 0;
    size_t size = 0;

    for (; name[size] != '\0'; size++)
        hash = hash * 31u + (unsigned char)name[size];
    uint8_t *const cached = &client->op_cache[hash & (OP_CACHE - 1u)];
    if (strcmp(gm_op_name(*cached), name) == 0)
        return *cached;
    const int op = gm_op_by_name(name, size);
    if (op >= 0)
        *cached = (uint8_t)op;
    return op;
}

/* Where the job can run when it uses this arena. What does not fit is the daemon's to say. */
GM_HOT void place(struct gm_checked *checked, const struct gm_arena *arena)
{
    if (arena->device == ARENA_EVERYWHERE || arena->device == checked->device)
        return;
    if (checked->device == GM_DEVICE_ANY && arena->device != ARENA_SOMEWHERE)
        checked->device = arena->device;
    else
        checked->by_lane = false;
}

/* What a buffer is called in failures, and what it must hold. */
struct need {
    const char *field, *offset_field;
    uint64_t bytes;
    uint32_t align; /* a power of two */
    bool written;
};

static int check_arena(const struct gm_client *client, const struct gm_buffer *buffer, const struct need *need,
                       struct gm_failure *failure)
{
    const struct gm_arena *const arena = buffer->arena;
    const char *const field = need->field;

    if (arena->client != client)
        return gm__report(failure, GM_EARENA, field, "%s: the arena belongs to another client", field);
    if (buffer->offset > arena->bytes || need->bytes > arena->bytes - buffer->offset)
        return gm__report(failure, GM_EBOUNDS, field,
                          "%s: %" PRIu64 " bytes at offset %" PRIu64 " reach outside an arena of %" PRIu64, field,
                          need->bytes, buffer->offset, arena->bytes);
    if ((buffer->offset & (need->align - 1u)) != 0)
        return gm__report(failure, GM_EALIGN, need->offset_field, "%s must be a multiple of %u", need->offset_field,
                          need->align);
    if (need->written && arena->readonly)
        return gm__report(failure, GM_EREADONLY, field, "%s: an attached arena is read-only", field);
    return GM_OK;
}

/* Says what is wrong with it, if anything. */
static int check_buffer(const struct gm_client *client, const struct gm_buffer *buffer, const struct need *need,
                        struct gm_checked *checked, struct gm_failure *failure)
{
    const char *const field = need->field;

    if (need->bytes > buffer->bytes)
        return gm__report(failure, GM_EBOUNDS, field,
                          "%s: the job touches %" PRIu64 " bytes, the buffer has %" PRIu64, field, need->bytes,
                          buffer->bytes);
    if (buffer->arena != NULL) {
        const int rc = check_arena(client, buffer, need, failure);
        if (rc == GM_OK)
            place(checked, buffer->arena);
        return rc;
    }
    checked->by_lane = false;
    if (buffer->data == NULL && need->bytes > 0)
        return gm__report(failure, GM_EINVAL, field, "%s: neither an arena nor memory", field);
    if (need->bytes > GM_INLINE_BYTES)
        return gm__report(failure, GM_ESIZE, field, "%s: %" PRIu64 " bytes do not ride in a message of at most %u; "
                          "use an arena", field, need->bytes, GM_INLINE_BYTES);
    return GM_OK;
}

GM_HOT bool is_given(const struct gm_buffer *buffer)
{
    return ((uintptr_t)buffer->arena | (uintptr_t)buffer->data) != 0;
}

#define INPUTS_MAX  (sizeof(((struct gm_request *)0)->in) / sizeof(struct gm_buffer))
#define OUTPUTS_MAX (sizeof(((struct gm_request *)0)->out) / sizeof(struct gm_buffer))
static_assert(INPUTS_MAX + OUTPUTS_MAX <= GM_BUFFERS_MAX, "the descriptor has room for them");

static const char *const in_names[][2] = {{"in[0]", "in[0].offset"}, {"in[1]", "in[1].offset"}};
static const char *const out_names[][2] = {{"out[0]", "out[0].offset"}};
static_assert(sizeof in_names / sizeof *in_names == INPUTS_MAX, "every input has a name");
static_assert(sizeof out_names / sizeof *out_names == OUTPUTS_MAX, "every output has a name");
static_assert(INPUTS_MAX == 2 && OUTPUTS_MAX == 1, "gm__check looks at each");

/* The common case of check_buffer in a few compares: an arena that the buffer fits into. */
GM_HOT bool is_in_arena(const struct gm_client *client, const struct gm_buffer *buffer, uint64_t bytes, uint32_t align,
                        bool written)
{
    const struct gm_arena *const arena = buffer->arena;

    return arena != NULL && arena->client == client && bytes <= buffer->bytes && buffer->offset <= arena->bytes &&
           bytes <= arena->bytes - buffer->offset && (buffer->offset & (align - 1u)) == 0 &&
           !(written && arena->readonly);
}

/* A buffer that is refused, or does not go by a lane; i counts inputs, then outputs. */
static GM_RARE int check_other(const struct gm_client *client, const struct gm_request *request, uint32_t i,
                               struct gm_checked *checked, uint32_t element, struct gm_failure *failure)
{
    const struct gm_op_row *const row = checked->row;
    const bool written = i >= INPUTS_MAX;
    const uint32_t at = written ? i - (uint32_t)INPUTS_MAX : i;
    const char *const *const names = written ? out_names[at] : in_names[at];
    const struct gm_buffer *const buffer = written ? &request->out[at] : &request->in[at];
    const struct need need = {names[0], names[1], written ? checked->out_bytes : checked->in_bytes, element, written};

    if (at < (written ? row->outputs : row->inputs))
        return check_buffer(client, buffer, &need, checked, failure);
    return gm__report(failure, GM_EINVAL, need.field, "%s: the op has %u %s", need.field,
                      written ? row->outputs : row->inputs, written ? "outputs" : "inputs");
}

GM_HOT int check_input(const struct gm_client *client, const struct gm_request *request, uint32_t i,
                       struct gm_checked *checked, uint32_t element, struct gm_failure *failure)
{
    const struct gm_buffer *const buffer = &request->in[i];

    if (i >= checked->row->inputs && !is_given(buffer))
        return GM_OK;
    if (i >= checked->row->inputs || !is_in_arena(client, buffer, checked->in_bytes, element, false))
        return check_other(client, request, i, checked, element, failure);
    place(checked, buffer->arena);
    return GM_OK;
}

GM_HOT int check_output(const struct gm_client *client, const struct gm_request *request, struct gm_checked *checked,
                        uint32_t element, struct gm_failure *failure)
{
    const struct gm_buffer *const buffer = &request->out[0];

    if (checked->row->outputs == 0 && !is_given(buffer))
        return GM_OK;
    if (checked->row->outputs == 0 || !is_in_arena(client, buffer, checked->out_bytes, element, true))
        return check_other(client, request, INPUTS_MAX, checked, element, failure);
    place(checked, buffer->arena);
    return GM_OK;
}

/* The same buffer, where the op says so; or apart. */
static int check_overlap(const struct gm_request *request, const struct gm_checked *checked,
                         struct gm_failure *failure)
{
    const struct gm_op_row *const row = checked->row;
    const struct gm_buffer *const in = &request->in[0], *const out = &request->out[0];

    if (row->inputs == 0 || row->outputs == 0 || in->arena != out->arena || in->arena == NULL ||
        checked->in_bytes == 0 || checked->out_bytes == 0 || in->offset + checked->in_bytes <= out->offset ||
        out->offset + checked->out_bytes <= in->offset || (in->offset == out->offset && row->shape == GM_SHAPE_MAP))
        return GM_OK;
    return gm__report(failure, GM_EALIAS, out_names[0][1], "%s", gm_strerror(GM_EALIAS));
}

static int check_histogram(const struct gm_request *request, struct gm_failure *failure)
{
    if (request->bins < 1 || request->bins > GM_HIST_BINS_MAX)
        return gm__report(failure, GM_ESIZE, "bins", "bins must be 1 to %u", GM_HIST_BINS_MAX);
    if (!isfinite(request->lo))
        return gm__report(failure, GM_EINVAL, "lo", "lo must be finite");
    if (!isfinite(request->hi))
        return gm__report(failure, GM_EINVAL, "hi", "hi must be finite");
    if (!(request->lo < request->hi))
        return gm__report(failure, GM_EINVAL, "hi", "hi must be more than lo");
    if (!isfinite(request->hi - request->lo))
        return gm__report(failure, GM_EINVAL, "hi", "hi - lo must be finite");
    return GM_OK;
}

/* Of the batch, after this; false: there is none of that name. */
static bool know_op(struct gm_client *client, const char *name, struct gm_batch *batch)
{
    const int op = name == NULL ? -1 : find_op(client, name);

    if (op < 0)
        return false;
    batch->op_name = name;
    batch->op = (uint32_t)op;
    return true;
}

int gm__check(struct gm_client *client, const struct gm_request *request, struct gm_batch *batch,
              struct gm_checked *checked, struct gm_failure *failure)
{
    if ((request->op == NULL || request->op != batch->op_name) && !know_op(client, request->op, batch))
        return gm__report(failure, GM_EOP, "op", "unknown op \"%.64s\"", request->op == NULL ? "" : request->op);
    const uint32_t op = batch->op;
    const struct gm_op_row *const row = &client->op_row[op];
    checked->row = row;
    checked->op = op;
    checked->dtype = row->types == GM_NO_TYPES ? (uint32_t)GM_DTYPE_COUNT : request->dtype;
    checked->device = request->device;
    checked->by_lane = true;
    if (row->types != GM_NO_TYPES && (request->dtype >= GM_DTYPE_COUNT || (row->types >> request->dtype & 1u) == 0))
        return gm__report(failure, GM_EDTYPE, "dtype", "%s does not take %s", request->op,
                          request->dtype >= GM_DTYPE_COUNT ? "this element type" : gm_dtype_name(request->dtype));
    if (request->n > GM_ELEMENTS_MAX)
        return gm__report(failure, GM_ESIZE, "n", "n is more than %" PRIu64, GM_ELEMENTS_MAX);
    if (request->descending != 0 && row->work != GM_WORK_SORT)
        return gm__report(failure, GM_EINVAL, "descending", "%s takes no descending", request->op);
    if (request->device < GM_DEVICE_ANY || request->device >= (int32_t)GM_DEVICES_MAX)
        return gm__report(failure, GM_ENODEVICE, "device", "no device can have the number %d", request->device);
    const bool counts = row->shape == GM_SHAPE_HISTOGRAM;
    const uint32_t element = row->types == GM_NO_TYPES ? 1u : gm_dtype_bytes(checked->dtype);
    checked->in_bytes = request->n * element;
    checked->out_bytes = gm_output_bytes(row->shape, request->n, request->bins, checked->dtype);
    int rc = counts ? check_histogram(request, failure) : GM_OK;
    if (rc == GM_OK)
        rc = check_input(client, request, 0, checked, element, failure);
    if (rc == GM_OK)
        rc = check_input(client, request, 1, checked, element, failure);
    if (rc == GM_OK)
        rc = check_output(client, request, checked, counts ? (uint32_t)sizeof(uint64_t) : element, failure);
    return rc == GM_OK ? check_overlap(request, checked, failure) : rc;
}
