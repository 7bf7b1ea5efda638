/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a job: its completion is copied into the caller's memory, and the job is given back by gm_wait or gm_next.
 * Any thread; under the client's lock but for the accessors, which see a finished job.
 */
#include "client.h"

#include <inttypes.h>
#include <string.h>

static void remove_completed(struct gm_client *client, struct gm_job_inside *job)
{
    if (job->previous != NULL)
        job->previous->next = job->next;
    else
        client->completed_first = job->next;
    if (job->next != NULL)
        job->next->previous = job->previous;
    else
        client->completed_last = job->previous;
}

void gm__job_fail(struct gm_client *client, struct gm_job_inside *job, int status, const char *text)
{
    gm__report(&job->failure, status, "", "%s", text);
    gm__job_finish(client, job, status);
}

/* Bytes that an output must have; more than there is room for when the result is none of this job's. */
static uint64_t out_bytes(const struct gm_inline_out *out, uint64_t result)
{
    if (out->element == 0)
        return out->bytes;
    return result <= out->bytes / out->element ? result * out->element : UINT64_MAX;
}

static int take_done(struct gm_job_inside *job, const struct gm_wire_done *done)
{
    for (uint32_t i = 0; i < GM_OUTPUTS_MAX; i++) {
        const uint64_t bytes = out_bytes(&job->out[i], done->result);
        if (done->out[i].size != bytes)
            return gm__report(&job->failure, GM_EPROTO, "out",
                              "the reply carries %" PRIu64 " bytes instead of %" PRIu64, done->out[i].size, bytes);
    }
    for (uint32_t i = 0; i < GM_OUTPUTS_MAX; i++)
        if (done->out[i].size > 0)
            memcpy(job->out[i].memory, done->out[i].bytes, done->out[i].size);
    job->result.dtype = done->result_dtype < GM_DTYPE_COUNT ? done->result_dtype : GM_NO_ELEMENT;
    job->result.device = done->device;
    job->result.value.u64 = done->result;
    job->result.wait_ns = done->wait_ns;
    job->result.run_ns = done->run_ns;
    return GM_OK;
}

/* The status of the job, with its failure when the completion is not what it asked for. */
static int take_completion(struct gm_job_inside *job, const struct gm_wire_response *response)
{
    struct gm_wire_done done;
    struct gm_problem problem;

    if (response->failed && response->problem.code == GM_EAGAIN)
        return gm__report(&job->failure, GM_EPROTO, "", "the daemon gave an answer that does not exist");
    if (response->failed)
        return gm__report_problem(&job->failure, &response->problem);
    if (gm_wire_decode_done(response, &done, &problem) != GM_OK)
        return gm__report_problem(&job->failure, &problem);
    return take_done(job, &done);
}

void gm__job_complete(struct gm_client *client, struct gm_job_inside *job, const struct gm_wire_response *response)
{
    gm__job_finish(client, job, take_completion(job, response));
}

struct gm_job *gm__job_give_back(struct gm_client *client, struct gm_job_inside *job)
{
    remove_completed(client, job);
    job->client = NULL;
    return gm__outside(job);
}

static int status_of(const struct gm_job_inside *job)
{
    return atomic_load_explicit(&job->pending.status, memory_order_relaxed);
}

int gm_wait(struct gm_client *client, struct gm_job *job, uint64_t deadline_ns)
{
    struct gm_job_inside *const in = gm__inside(job);
    int rc = gm__entry(client);

    if (rc != GM_OK)
        return rc;
    pthread_mutex_lock(&client->lock);
    rc = in->client == client ? gm__wait(client, &in->pending, in, deadline_ns) : GM_EINVAL;
    if (rc == GM_OK) {
        gm__job_give_back(client, in);
        rc = status_of(in);
    } else if (rc == GM_ETIMEDOUT) {
        gm__report(&client->last, rc, "", "the job was not complete at the deadline, and still is not");
    } else {
        gm__report(&client->last, rc, "job", "the job is not pending here, or another thread waits for it");
    }
    pthread_mutex_unlock(&client->lock);
    return rc;
}

/* Queues the message that asks for a job to be cancelled. */
static int post_cancel(struct gm_client *client, const struct gm_job_inside *job)
{
    struct gm_wire_request request = {.method = GM_METHOD_CANCEL};

    request.u.cancel.has_lane = job->lane != NULL;
    if (job->lane != NULL) {
        request.u.cancel.lane = job->lane->handle;
        request.u.cancel.position = job->position;
    } else {
        request.u.cancel.id = gm__slot_id(client, job->pending.slot);
    }
    return gm__post(client, &request, SLOT_ORPHAN);
}

/* The daemon is asked to stop a job whose memory goes away now; its answer will meet an orphan. */
static void abandon(struct gm_client *client, struct gm_job_inside *job)
{
    (void)post_cancel(client, job);
    if (job->lane != NULL) {
        job->lane->job[job->position & job->lane->mask] = &gm__lane_orphan;
    } else {
        client->slots[job->pending.slot].kind = SLOT_ORPHAN_JOB;
        client->slots[job->pending.slot].pending = NULL;
    }
    gm__conn_push(client);
}

static int wait_or_abandon(struct gm_client *client, struct gm_job_inside *job, uint64_t deadline_ns)
{
    const int rc = gm__wait(client, &job->pending, job, deadline_ns);

    if (rc != GM_OK) {
        abandon(client, job);
        return gm__report(&client->last, rc, "", "the job was not complete at its deadline");
    }
    gm__job_give_back(client, job);
    if (status_of(job) != GM_OK)
        client->last = job->failure;
    return status_of(job);
}

int gm_run(struct gm_client *client, const struct gm_request *request, uint64_t deadline_ns, struct gm_result *result)
{
    struct gm_job job = {0};
    struct gm_job_inside *const in = gm__inside(&job);
    struct gm_batch batch = {0};
    int rc = gm__entry(client);

    if (result != NULL)
        *result = (struct gm_result){.dtype = GM_NO_ELEMENT};
    if (rc != GM_OK)
        return rc;
    pthread_mutex_lock(&client->lock);
    rc = gm__job_queue(client, request, in, &batch);
    if (rc == GM_OK) {
        gm__submit_end(client);
        rc = wait_or_abandon(client, in, deadline_ns);
    }
    if (rc == GM_OK && result != NULL)
        *result = in->result;
    pthread_mutex_unlock(&client->lock);
    return rc;
}

int gm_cancel(struct gm_client *client, struct gm_job *job)
{
    const struct gm_job_inside *const in = gm__inside(job);
    int rc = gm__entry(client);

    if (rc != GM_OK)
        return rc;
    pthread_mutex_lock(&client->lock);
    if (in->client != client || status_of(in) != GM_EAGAIN) {
        rc = gm__report(&client->last, GM_ENOTFOUND, "job", "the job is not pending on this client");
    } else {
        rc = post_cancel(client, in);
        if (rc != GM_OK)
            gm__report(&client->last, rc, "", "%s", gm_strerror(rc));
        gm__conn_push(client);
    }
    pthread_mutex_unlock(&client->lock);
    return rc;
}

int gm_job_status(const struct gm_job *job)
{
    const struct gm_job_inside *const in = (const struct gm_job_inside *)job->opaque;

    /* Acquire: pairs with the release in gm__complete. */
    return atomic_load_explicit(&in->pending.status, memory_order_acquire);
}

int gm_job_result(const struct gm_job *job, struct gm_result *result)
{
    const struct gm_job_inside *const in = (const struct gm_job_inside *)job->opaque;
    const int status = gm_job_status(job);

    *result = status == GM_OK ? in->result : (struct gm_result){.dtype = GM_NO_ELEMENT};
    return status;
}

void gm_job_failure(const struct gm_job *job, struct gm_failure *failure)
{
    const struct gm_job_inside *const in = (const struct gm_job_inside *)job->opaque;
    const int status = gm_job_status(job);

    if (status == GM_EAGAIN || status == GM_OK)
        *failure = (struct gm_failure){.status = status};
    else
        *failure = in->failure;
}
