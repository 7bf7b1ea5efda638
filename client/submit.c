/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of the caller go their way: into a lane, or as messages to the socket. Any thread, under the client's lock;
 * bounded by the lanes, the slots and the output buffer.
 */
#include "client.h"

/* A submit without its inline data. */
#define SUBMIT_BYTES 1024u

static void fill_buffer(const struct gm_buffer *from, uint64_t need, struct gm_wire_buffer *to)
{
    if (from->arena != NULL)
        *to = (struct gm_wire_buffer){.place = GM_PLACE_ARENA, .arena = from->arena->handle, .offset = from->offset};
    else
        *to = (struct gm_wire_buffer){.place = GM_PLACE_INLINE, .bytes = from->data, .size = need};
}

static void fill_submit(const struct gm_request *request, const struct gm_checked *checked,
                        struct gm_wire_submit *submit)
{
    const struct gm_op_row *const row = checked->row;

    *submit = (struct gm_wire_submit){.op = checked->op};
    if (row->args != 0)
        submit->args = checked->args;
    submit->args.n = checked->args.n;
    submit->args.dtype = checked->args.dtype;
    submit->has_device = request->device != GM_DEVICE_ANY;
    submit->device = submit->has_device ? (uint32_t)request->device : 0;
    for (uint32_t i = 0; i < row->inputs; i++)
        fill_buffer(&request->in[i], checked->bytes[i], &submit->buffer[i]);
    for (uint32_t i = 0; i < row->outputs; i++)
        fill_buffer(&request->out[i], checked->bytes[row->inputs + i], &submit->buffer[row->inputs + i]);
    submit->buffers = (uint32_t)row->inputs + row->outputs;
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
    const struct gm_op_row *const row = &client->op_row[submit->op];

    job->client = client;
    job->lane = NULL;
    for (uint32_t i = 0; i < GM_OUTPUTS_MAX; i++) {
        const uint32_t at = row->inputs + i;
        job->out[i] = (struct gm_inline_out){.memory = NULL};
        if (at >= submit->buffers || submit->buffer[at].place != GM_PLACE_INLINE)
            continue;
        /* The caller gave us this memory to write: the const is there because inputs share the struct. */
        job->out[i].memory = (void *)(uintptr_t)request->out[i].data;
        job->out[i].bytes = submit->buffer[at].size;
        if (gm_buffer_extent(row->buffer[at]) == GM_EXTENT_RESULT)
            job->out[i].element = gm_buffer_element(row, at, &submit->args);
    }
    job->result.dtype = GM_NO_ELEMENT;
}

static GM_RARE int queue_message(struct gm_client *client, const struct gm_request *request,
                                 const struct gm_checked *checked, struct gm_job_inside *job,
                                 struct gm_failure *failure)
{
    struct gm_wire_request wire = {.method = GM_METHOD_SUBMIT};

    fill_submit(request, checked, &wire.u.submit);
    int rc = gm__conn_prepare(client, inline_bytes(&wire.u.submit));
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

GM_HOT int queue_in_lane(struct gm_client *client, const struct gm_request *request, const struct gm_checked *checked,
                         struct gm_job_inside *job, struct gm_batch *batch)
{
    struct gm_lane *lane = batch->lane;

    if (lane == NULL || !lane->open || batch->device != checked->device) {
        lane = gm__lane_pick(client, checked->device);
        if (lane == NULL)
            return GM_ENODEVICE;
        /* Of several lanes, the one with the fewest jobs may be another for the next job. */
        batch->lane = checked->device != GM_DEVICE_ANY || client->lane_count == 1 ? lane : NULL;
        batch->device = checked->device;
    }
    if (batch->now_ns == 0)
        batch->now_ns = gm_now_ns();
    return gm__lane_put(client, lane, request, checked, job, batch->now_ns);
}

GM_HOT int queue_job(struct gm_client *client, const struct gm_request *request, struct gm_job_inside *job,
                     struct gm_batch *batch)
{
    struct gm_failure *const failure = &client->last;
    struct gm_checked checked;

    if (client->closed)
        return gm__report(failure, GM_ECLOSED, "", "%s", client->closing.text);
    if (job->client != NULL)
        return gm__report(failure, GM_EINVAL, "job", "the job was not zeroed, or has not been given back yet");
    int rc = gm__check(client, request, batch, &checked, failure);
    if (rc != GM_OK)
        return rc;
    if (checked.by_lane && client->lane_count > 0) {
        rc = queue_in_lane(client, request, &checked, job, batch);
        if (rc == GM_OK)
            return GM_OK;
        if (rc == GM_EBUSY && client->lane_only)
            return gm__report(failure, GM_EBUSY, "", "the lane is full");
    }
    return queue_message(client, request, &checked, job, failure);
}

int gm__job_queue(struct gm_client *client, const struct gm_request *request, struct gm_job_inside *job,
                  struct gm_batch *batch)
{
    return queue_job(client, request, job, batch);
}

void gm__submit_end(struct gm_client *client)
{
    if (client->rings != 0)
        gm__lanes_ring(client);
    if (gm__conn_has_output(client))
        gm__conn_push(client);
}

int gm_submit_batch(struct gm_client *client, const struct gm_request *requests, struct gm_job *const *jobs,
                    size_t count, size_t *accepted)
{
    struct gm_batch batch = {0};
    int rc = gm__entry(client);
    size_t i = 0;

    if (accepted != NULL)
        *accepted = 0;
    if (rc != GM_OK)
        return rc;
    pthread_mutex_lock(&client->lock);
    while (i < count && (rc = queue_job(client, &requests[i], gm__inside(jobs[i]), &batch)) == GM_OK)
        i++;
    gm__submit_end(client);
    pthread_mutex_unlock(&client->lock);
    if (accepted != NULL)
        *accepted = i;
    return rc;
}

int gm_submit(struct gm_client *client, const struct gm_request *request, struct gm_job *job)
{
    return gm_submit_batch(client, request, &job, 1, NULL);
}
