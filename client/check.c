/* SPDX-License-Identifier: Apache-2.0
 *
 * What this side can see of a request: op, type, sizes, and buffers inside their memory. For clear errors early, with
 * the field named, and for the client's own memory; daemon and device check everything again. Any thread, under the
 * client's lock; on the way of every job, so it copies nothing.
 */
#include "client.h"

#include <inttypes.h>
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
    if (buffer->offset != 0)
        return gm__report(failure, GM_EINVAL, need->offset_field, "%s must be 0: it is of an arena",
                          need->offset_field);
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

#define INPUTS_MAX  ((uint32_t)(sizeof(((struct gm_request *)0)->in) / sizeof(struct gm_buffer)))
#define OUTPUTS_MAX ((uint32_t)(sizeof(((struct gm_request *)0)->out) / sizeof(struct gm_buffer)))

static const char *const in_names[][2] = {{"in[0]", "in[0].offset"}, {"in[1]", "in[1].offset"}};
static const char *const out_names[][2] = {{"out[0]", "out[0].offset"}, {"out[1]", "out[1].offset"}};
static_assert(sizeof in_names / sizeof *in_names == INPUTS_MAX, "every input has a name");
static_assert(sizeof out_names / sizeof *out_names == OUTPUTS_MAX, "every output has a name");
static_assert(INPUTS_MAX == 2 && OUTPUTS_MAX == 2, "gm__check looks at each");

/* Every argument has a member of its name, and those of one place are one. */
#define PLACE_VALUE0     offsetof(struct gm_request, value)
#define PLACE_VALUE1     offsetof(struct gm_request, high)
#define PLACE_VALUE2     offsetof(struct gm_request, right)
#define PLACE_VALUE3     offsetof(struct gm_request, hi_y)
#define PLACE_COUNT      offsetof(struct gm_request, bins)
#define PLACE_COUNT2     offsetof(struct gm_request, bins_y)
#define PLACE_TYPE2      offsetof(struct gm_request, to)
#define PLACE_DESCENDING offsetof(struct gm_request, descending)
#define PLACE_EXCLUSIVE  offsetof(struct gm_request, exclusive)
#define ARG(name, type, place, help)                                                                        \
    static_assert(offsetof(struct gm_request, name) == PLACE_##place, #name " is where ops.def has it");
#include "ops.def"
#undef ARG
#define X(name) (int)GM_COMPARE_##name
static_assert((int)GM_EQ == X(eq) && (int)GM_NE == X(ne) && (int)GM_LT == X(lt) && (int)GM_LE == X(le) &&
                  (int)GM_GT == X(gt) && (int)GM_GE == X(ge) && (int)GM_BETWEEN == X(between) &&
                  (int)GM_OUTSIDE == X(outside) && GM_OUTSIDE + 1 == (int)GM_COMPARE_COUNT,
              "comparisons have the numbers of the protocol");
#undef X

/* The common case of check_buffer in a few compares: an arena that the buffer fits into. */
GM_HOT bool is_in_arena(const struct gm_client *client, const struct gm_buffer *buffer, uint64_t bytes, uint32_t align,
                        bool written)
{
    const struct gm_arena *const arena = buffer->arena;

    return arena != NULL && arena->client == client && bytes <= buffer->bytes && buffer->offset <= arena->bytes &&
           bytes <= arena->bytes - buffer->offset && (buffer->offset & (align - 1u)) == 0 &&
           !(written && arena->readonly);
}

/* A buffer that is refused, or does not go by a lane. */
static GM_RARE int check_other(const struct gm_client *client, const struct gm_buffer *buffer, uint32_t i, bool written,
                               struct gm_checked *checked, struct gm_failure *failure)
{
    const struct gm_op_row *const row = checked->row;
    const char *const *const names = written ? out_names[i] : in_names[i];
    const uint32_t have = written ? row->outputs : row->inputs, at = written ? row->inputs + i : i;

    if (i >= have)
        return gm__report(failure, GM_EINVAL, names[0], "%s: the op has %u %s", names[0], have,
                          written ? "outputs" : "inputs");
    const struct need need = {names[0], names[1], checked->bytes[at], gm_buffer_element(row, at, &checked->args),
                              written};
    return check_buffer(client, buffer, &need, checked, failure);
}

/* Input, or output, i. */
GM_HOT int check_one(const struct gm_client *client, const struct gm_buffer *buffer, uint32_t i, bool written,
                     struct gm_checked *checked, struct gm_failure *failure)
{
    const struct gm_op_row *const row = checked->row;
    const uint32_t have = written ? row->outputs : row->inputs, at = written ? row->inputs + i : i;

    if (i >= have)
        return is_given(buffer) ? check_other(client, buffer, i, written, checked, failure) : GM_OK;
    checked->bytes[at] = gm_buffer_bytes(row, at, &checked->args);
    if (!is_in_arena(client, buffer, checked->bytes[at], gm_buffer_element(row, at, &checked->args), written))
        return check_other(client, buffer, i, written, checked, failure);
    place(checked, buffer->arena);
    return GM_OK;
}

GM_HOT const struct gm_buffer *buffer_at(const struct gm_request *request, const struct gm_op_row *row, uint32_t at)
{
    return at < row->inputs ? &request->in[at] : &request->out[at - row->inputs];
}

/* Outputs overlap neither each other nor an input; but where the op says so, an output may be an input, whole. */
GM_HOT int check_overlap(const struct gm_request *request, const struct gm_checked *checked,
                         struct gm_failure *failure)
{
    const struct gm_op_row *const row = checked->row;
    const uint32_t buffers = (uint32_t)row->inputs + row->outputs;

    for (uint32_t j = row->inputs; j < buffers; j++)
        for (uint32_t i = 0; i < j; i++) {
            const struct gm_buffer *const a = buffer_at(request, row, i), *const b = buffer_at(request, row, j);
            const uint64_t a_bytes = checked->bytes[i], b_bytes = checked->bytes[j];
            if (a->arena != b->arena || a->arena == NULL || a_bytes == 0 || b_bytes == 0 ||
                a->offset + a_bytes <= b->offset || b->offset + b_bytes <= a->offset ||
                (a->offset == b->offset && i < row->inputs && row->alias == GM_ALIAS_SAME))
                continue;
            return gm__report(failure, GM_EALIAS, out_names[j - row->inputs][1], "%s overlaps %s",
                              out_names[j - row->inputs][0],
                              i < row->inputs ? in_names[i][0] : out_names[i - row->inputs][0]);
        }
    return GM_OK;
}

static uint64_t bits_of(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

/* The arguments by their places; what the op does not take is left out. */
static GM_RARE int check_args(const struct gm_request *request, struct gm_checked *checked, struct gm_failure *failure)
{
    const struct gm_op_row *const row = checked->row;
    struct gm_args *const args = &checked->args;
    struct gm_problem problem;

#define TAKEN(place, v) (row->places >> GM_AT_##place & 1u ? (v) : 0)
    args->value[0] = TAKEN(VALUE0, request->value);
    args->value[1] = TAKEN(VALUE1, request->high);
    args->value[2] = TAKEN(VALUE2, request->right);
    args->value[3] = TAKEN(VALUE3, bits_of(request->hi_y));
    args->count = TAKEN(COUNT, request->bins);
    args->count2 = TAKEN(COUNT2, request->bins_y);
    args->type2 = (uint8_t)TAKEN(TYPE2, request->to < GM_DTYPE_COUNT ? request->to : (uint32_t)GM_DTYPE_COUNT);
    args->flags = TAKEN(DESCENDING, request->descending != 0 ? GM_FLAG_DESCENDING : 0) |
                  TAKEN(EXCLUSIVE, request->exclusive != 0 ? GM_FLAG_EXCLUSIVE : 0);
#undef TAKEN
    const enum gm_complaint complaint = gm_args_check(row, args);
    if (complaint == GM_COMPLAINT_NONE)
        return GM_OK;
    if (complaint == GM_COMPLAINT_TYPE2)
        return gm__report(failure, GM_EDTYPE, gm_args_takes(row, GM_A_to) ? "to" : "index", "%s does not take %s",
                          request->op,
                          request->to < GM_DTYPE_COUNT ? gm_dtype_name(request->to) : "this element type");
    gm_complaint_problem(&problem, complaint);
    return gm__report_problem(failure, &problem);
}

/* What rides in messages, together: each buffer alone has been looked at. */
static GM_RARE int check_carried(const struct gm_request *request, const struct gm_checked *checked,
                                 struct gm_failure *failure)
{
    const struct gm_op_row *const row = checked->row;
    uint64_t carried = 0;

    for (uint32_t at = 0; at < (uint32_t)row->inputs + row->outputs; at++) {
        const bool written = at >= row->inputs;
        const char *const field = written ? out_names[at - row->inputs][0] : in_names[at][0];
        carried = at == row->inputs ? 0 : carried;
        if (buffer_at(request, row, at)->arena != NULL)
            continue;
        if (checked->bytes[at] > GM_INLINE_BYTES - carried)
            return gm__report(failure, GM_ESIZE, field, "%s: %" PRIu64 " bytes beside %" PRIu64 " do not ride in a "
                              "message of at most %u; use an arena", field, checked->bytes[at], carried,
                              GM_INLINE_BYTES);
        carried += checked->bytes[at];
    }
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
    if (request->descending != 0 && (row->places >> GM_AT_DESCENDING & 1u) == 0)
        return gm__report(failure, GM_EINVAL, "descending", "%s takes no descending", request->op);
    if (request->exclusive != 0 && (row->places >> GM_AT_EXCLUSIVE & 1u) == 0)
        return gm__report(failure, GM_EINVAL, "exclusive", "%s takes no exclusive", request->op);
    if ((request->pad | request->reserved[0] | request->reserved[1] | request->reserved[2] | request->reserved[3]) != 0)
        return gm__report(failure, GM_EINVAL, "reserved", "what is reserved must be zero");
    if (request->device < GM_DEVICE_ANY || request->device >= (int32_t)GM_DEVICES_MAX)
        return gm__report(failure, GM_ENODEVICE, "device", "no device can have the number %d", request->device);
    checked->args.n = row->types == GM_NO_TYPES ? 0 : request->n;
    checked->args.dtype = row->types == GM_NO_TYPES ? 0 : (uint8_t)request->dtype;
    int rc = row->args != 0 ? check_args(request, checked, failure) : GM_OK;
    if (rc == GM_OK)
        rc = check_one(client, &request->in[0], 0, false, checked, failure);
    if (rc == GM_OK)
        rc = check_one(client, &request->in[1], 1, false, checked, failure);
    if (rc == GM_OK)
        rc = check_one(client, &request->out[0], 0, true, checked, failure);
    if (rc == GM_OK)
        rc = check_one(client, &request->out[1], 1, true, checked, failure);
    if (rc == GM_OK && row->outputs != 0)
        rc = check_overlap(request, checked, failure);
    return rc == GM_OK && !checked->by_lane ? check_carried(request, checked, failure) : rc;
}
