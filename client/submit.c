/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of the caller become messages. Any thread, under the client's lock; checks here are for clear errors early
 * and for the client's own memory, the daemon checks everything again. Bounded by the slots and the output buffer.
 */
#include "client.h"

#include <inttypes.h>
#include <string.h>

/* A submit without its inline data. */
#define SUBMIT_BYTES 1024u

static int fill_arena_buffer(const struct gm_client *client, const struct gm_buffer *from, uint64_t need,
                             const char *field, struct gm_wire_buffer *to, struct gm_failure *failure)
{
    const struct gm_arena *const arena = from->arena;

    if (arena->client != client)
        return gm__report(failure, GM_EARENA, field, "%s: the arena belongs to another client", field);
    if (from->offset > arena->bytes || need > arena->bytes - from->offset)
        return gm__report(failure, GM_EBOUNDS, field,
                          "%s: %" PRIu64 " bytes at offset %" PRIu64 " reach outside an arena of %" PRIu64, field, need,
                          from->offset, arena->bytes);
    *to = (struct gm_wire_buffer){.place = GM_PLACE_ARENA, .arena = arena->handle, .offset = from->offset};
    return GM_OK;
}

static int fill_buffer(const struct gm_client *client, const struct gm_buffer *from, uint64_t need, const char *field,
                       struct gm_wire_buffer *to, struct gm_failure *failure)
{
    if (need > from->bytes)
        return gm__report(failure, GM_EBOUNDS, field,
                          "%s: the job touches %" PRIu64 " bytes, the buffer has %" PRIu64, field, need, from->bytes);
    if (from->arena != NULL)
        return fill_arena_buffer(client, from, need, field, to, failure);
    if (from->data == NULL && need > 0)
        return gm__report(failure, GM_EINVAL, field, "%s: neither an arena nor memory", field);
    if (need > GM_INLINE_BYTES)
        return gm__report(failure, GM_ESIZE, field, "%s: %" PRIu64 " bytes do not ride in a message of at most %u; "
                          "use an arena", field, need, GM_INLINE_BYTES);
    *to = (struct gm_wire_buffer){.place = GM_PLACE_INLINE, .bytes = from->data, .size = need};
    return GM_OK;
}

static bool is_given(const struct gm_buffer *buffer)
{
    return buffer->arena != NULL || buffer->data != NULL;
}

#define INPUTS_MAX  (sizeof(((struct gm_request *)0)->in) / sizeof(struct gm_buffer))
#define OUTPUTS_MAX (sizeof(((struct gm_request *)0)->out) / sizeof(struct gm_buffer))
static_assert(INPUTS_MAX + OUTPUTS_MAX <= GM_BUFFERS_MAX, "the descriptor has room for them");

static int fill_buffers(const struct gm_client *client, const struct gm_request *request, const struct gm_op_row *row,
                        struct gm_wire_submit *submit, struct gm_failure *failure)
{
    static const char *const in_names[] = {"in[0]", "in[1]"}, *const out_names[] = {"out[0]"};
    static_assert(sizeof in_names / sizeof *in_names == INPUTS_MAX, "every input has a name");
    static_assert(sizeof out_names / sizeof *out_names == OUTPUTS_MAX, "every output has a name");
    const uint64_t in_bytes = request->n * gm_dtype_bytes(submit->dtype);
    const uint64_t out_bytes = gm_output_bytes(row->shape, request->n, request->bins, submit->dtype);
    int rc = GM_OK;

    for (uint32_t i = 0; i < INPUTS_MAX && rc == GM_OK; i++) {
        if (i < row->inputs)
            rc = fill_buffer(client, &request->in[i], in_bytes, in_names[i], &submit->buffer[i], failure);
        else if (is_given(&request->in[i]))
            rc = gm__report(failure, GM_EINVAL, in_names[i], "%s: the op has %u inputs", in_names[i], row->inputs);
    }
    for (uint32_t i = 0; i < OUTPUTS_MAX && rc == GM_OK; i++) {
        if (i < row->outputs)
            rc = fill_buffer(client, &request->out[i], out_bytes, out_names[i], &submit->buffer[row->inputs + i],
                             failure);
        else if (is_given(&request->out[i]))
            rc = gm__report(failure, GM_EINVAL, out_names[i], "%s: the op has %u outputs", out_names[i], row->outputs);
    }
    submit->buffers = (uint32_t)row->inputs + row->outputs;
    return rc;
}

static int fill_submit(const struct gm_client *client, const struct gm_request *request, struct gm_wire_submit *submit,
                       struct gm_failure *failure)
{
    const int op = request->op == NULL ? -1 : gm_op_by_name(request->op, strlen(request->op));

    *submit = (struct gm_wire_submit){.op = (uint32_t)op, .dtype = request->dtype, .n = request->n,
                                      .value = request->value, .bins = request->bins, .lo = request->lo,
                                      .hi = request->hi, .descending = request->descending != 0};
    if (op < 0)
        return gm__report(failure, GM_EOP, "op", "unknown op \"%.64s\"", request->op == NULL ? "" : request->op);
    const struct gm_op_row row = gm_op_row((uint32_t)op);
    if (row.types == GM_NO_TYPES)
        submit->dtype = GM_DTYPE_COUNT;
    else if (request->dtype >= GM_DTYPE_COUNT || (row.types >> request->dtype & 1u) == 0)
        return gm__report(failure, GM_EDTYPE, "dtype", "%s does not take %s", request->op,
                          request->dtype >= GM_DTYPE_COUNT ? "this element type" : gm_dtype_name(request->dtype));
    if (request->n > GM_ELEMENTS_MAX)
        return gm__report(failure, GM_ESIZE, "n", "n is more than %" PRIu64, GM_ELEMENTS_MAX);
    if (request->descending != 0 && row.work != GM_WORK_SORT)
        return gm__report(failure, GM_EINVAL, "descending", "%s takes no descending", request->op);
    if (request->device < GM_DEVICE_ANY || request->device >= (int32_t)GM_DEVICES_MAX)
        return gm__report(failure, GM_ENODEVICE, "device", "no device can have the number %d", request->device);
    submit->has_device = request->device != GM_DEVICE_ANY;
    submit->device = submit->has_device ? (uint32_t)request->device : 0;
    return fill_buffers(client, request, &row, submit, failure);
}

static size_t inline_bytes(const struct gm_wire_submit *submit)
{
    const uint32_t inputs = gm_op_row(submit->op).inputs;
    size_t bytes = SUBMIT_BYTES;

    for (uint32_t i = 0; i < inputs; i++)
        bytes += submit->buffer[i].place == GM_PLACE_INLINE ? submit->buffer[i].size : 0;
    return bytes;
}

static void begin_job(struct gm_client *client, struct gm_job_inside *job, const struct gm_request *request,
                      const struct gm_wire_submit *submit)
{
    const uint32_t first_output = gm_op_row(submit->op).inputs;
    const bool has_inline_output =
        submit->buffers > first_output && submit->buffer[first_output].place == GM_PLACE_INLINE;

    job->client = client;
    job->next = job->previous = NULL;
    /* The caller gave us this memory to write: the const is there because inputs share the struct. */
    job->out = has_inline_output ? (void *)(uintptr_t)request->out[0].data : NULL;
    job->out_bytes = has_inline_output ? submit->buffer[first_output].size : 0;
    job->result = (struct gm_result){.dtype = GM_NO_ELEMENT};
    job->failure.status = GM_OK;
    job->failure.field[0] = job->failure.text[0] = '\0';
}

int gm__job_queue(struct gm_client *client, const struct gm_request *request, struct gm_job_inside *job)
{
    struct gm_failure *const failure = &client->last;
    struct gm_wire_request wire = {.method = GM_METHOD_SUBMIT};

    if (client->closed)
        return gm__report(failure, GM_ECLOSED, "", "%s", client->closing.text);
    if (job->client != NULL)
        return gm__report(failure, GM_EINVAL, "job", "the job was not zeroed, or has not been given back yet");
    int rc = fill_submit(client, request, &wire.u.submit, failure);
    if (rc != GM_OK)
        return rc;
    rc = gm__conn_prepare(client, inline_bytes(&wire.u.submit));
    if (rc == GM_ECLOSED)
        return gm__report(failure, rc, "", "%s", client->closing.text);
    if (rc != GM_OK)
        return gm__report(failure, rc, "", "the output buffer is full: the daemon does not keep up");
    const uint32_t slot = gm__slot_take(client, SLOT_JOB, &job->pending);
    if (slot == NO_SLOT)
        return gm__report(failure, GM_EBUSY, "", "%u jobs are pending", client->jobs);
    wire.id = gm__slot_id(client, slot);
    rc = gm_wire_encode_request(&client->output, &wire);
    if (rc != GM_OK) {
        gm__slot_return(client, slot);
        atomic_store_explicit(&job->pending.status, rc, memory_order_relaxed);
        return gm__report(failure, rc, "", "%s", gm_strerror(rc));
    }
    begin_job(client, job, request, &wire.u.submit);
    return GM_OK;
}

int gm_submit_batch(struct gm_client *client, const struct gm_request *requests, struct gm_job *const *jobs,
                    size_t count, size_t *accepted)
{
    int rc = gm__entry(client);
    size_t i = 0;

    if (accepted != NULL)
        *accepted = 0;
    if (rc != GM_OK)
        return rc;
    pthread_mutex_lock(&client->lock);
    while (i < count && (rc = gm__job_queue(client, &requests[i], gm__inside(jobs[i]))) == GM_OK)
        i++;
    gm__conn_push(client);
    pthread_mutex_unlock(&client->lock);
    if (accepted != NULL)
        *accepted = i;
    return rc;
}

int gm_submit(struct gm_client *client, const struct gm_request *request, struct gm_job *job)
{
    return gm_submit_batch(client, request, &job, 1, NULL);
}
