/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a job: its completion is copied from the reply into the caller's memory, and the job is given back by
 * gm_wait or gm_next. Any thread; under the client's lock but for the accessors, which see a finished job.
 */
#include "client.h"

#include <inttypes.h>
#include <string.h>

static struct gm_job *outside(struct gm_job_inside *job)
{
    return (struct gm_job *)((char *)job - offsetof(struct gm_job, opaque));
}

static void append_completed(struct gm_client *client, struct gm_job_inside *job)
{
    job->next = NULL;
    job->previous = client->completed_last;
    if (client->completed_last != NULL)
        client->completed_last->next = job;
    else
        client->completed_first = job;
    client->completed_last = job;
}

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

static void finish(struct gm_client *client, struct gm_job_inside *job)
{
    append_completed(client, job);
    gm__complete(client, &job->pending, job->failure.status);
}

void gm__job_fail(struct gm_client *client, struct gm_job_inside *job, int status, const char *text)
{
    gm__report(&job->failure, status, "", "%s", text);
    finish(client, job);
}

/* Or the job's failure, when the completion is not what it asked for. */
static void take_completion(struct gm_job_inside *job, const struct gm_wire_response *response)
{
    struct gm_wire_done done;
    struct gm_problem problem;

    if (gm_wire_decode_done(response, &done, &problem) != GM_OK) {
        gm__report_problem(&job->failure, &problem);
        return;
    }
    if (done.out_bytes != job->out_bytes) {
        gm__report(&job->failure, GM_EPROTO, "out", "the reply carries %" PRIu64 " bytes instead of %" PRIu64,
                   done.out_bytes, job->out_bytes);
        return;
    }
    if (done.out_bytes > 0)
        memcpy(job->out, done.out, done.out_bytes);
    job->result.dtype = done.result_dtype < GM_DTYPE_COUNT ? done.result_dtype : GM_NO_ELEMENT;
    job->result.device = done.device;
    job->result.value.u64 = done.result;
    job->result.wait_ns = done.wait_ns;
    job->result.run_ns = done.run_ns;
}

void gm__job_complete(struct gm_client *client, struct gm_job_inside *job, const struct gm_wire_response *response)
{
    if (response->failed)
        gm__report_problem(&job->failure, &response->problem);
    else
        take_completion(job, response);
    finish(client, job);
}

static struct gm_job *give_back(struct gm_client *client, struct gm_job_inside *job)
{
    remove_completed(client, job);
    job->client = NULL;
    return outside(job);
}

int gm_wait(struct gm_client *client, struct gm_job *job, uint64_t deadline_ns)
{
    struct gm_job_inside *const in = gm__inside(job);
    int rc = gm__entry(client);

    if (rc != GM_OK)
        return rc;
    pthread_mutex_lock(&client->lock);
    rc = in->client == client ? gm__wait(client, &in->pending, deadline_ns) : GM_EINVAL;
    if (rc == GM_OK) {
        give_back(client, in);
        rc = in->failure.status;
    } else if (rc == GM_ETIMEDOUT) {
        gm__report(&client->last, rc, "", "the job was not complete at the deadline, and still is not");
    } else {
        gm__report(&client->last, rc, "job", "the job is not pending here, or another thread waits for it");
    }
    pthread_mutex_unlock(&client->lock);
    return rc;
}

/* The daemon is asked to stop a job whose memory goes away now; its reply will meet an orphan. */
static void abandon(struct gm_client *client, struct gm_job_inside *job)
{
    struct gm_wire_request request = {.method = GM_METHOD_CANCEL};
    struct gm_slot *const slot = &client->slots[job->pending.slot];

    request.u.cancel.id = gm__slot_id(client, job->pending.slot);
    (void)gm__post(client, &request, SLOT_ORPHAN);
    slot->kind = SLOT_ORPHAN_JOB;
    slot->pending = NULL;
    gm__conn_push(client);
}

static int wait_or_abandon(struct gm_client *client, struct gm_job_inside *job, uint64_t deadline_ns)
{
    const int rc = gm__wait(client, &job->pending, deadline_ns);

    if (rc != GM_OK) {
        abandon(client, job);
        return gm__report(&client->last, rc, "", "the job was not complete at its deadline");
    }
    give_back(client, job);
    if (job->failure.status != GM_OK)
        client->last = job->failure;
    return job->failure.status;
}

int gm_run(struct gm_client *client, const struct gm_request *request, uint64_t deadline_ns, struct gm_result *result)
{
    struct gm_job job = {0};
    struct gm_job_inside *const in = gm__inside(&job);
    int rc = gm__entry(client);

    if (result != NULL)
        *result = (struct gm_result){.dtype = GM_NO_ELEMENT};
    if (rc != GM_OK)
        return rc;
    pthread_mutex_lock(&client->lock);
    rc = gm__job_queue(client, request, in);
    if (rc == GM_OK) {
        gm__conn_push(client);
        rc = wait_or_abandon(client, in, deadline_ns);
    }
    if (rc == GM_OK && result != NULL)
        *result = in->result;
    pthread_mutex_unlock(&client->lock);
    return rc;
}

int gm_cancel(struct gm_client *client, struct gm_job *job)
{
    struct gm_wire_request request = {.method = GM_METHOD_CANCEL};
    const struct gm_job_inside *const in = gm__inside(job);
    int rc = gm__entry(client);

    if (rc != GM_OK)
        return rc;
    pthread_mutex_lock(&client->lock);
    if (in->client != client || atomic_load_explicit(&in->pending.status, memory_order_relaxed) != GM_EAGAIN) {
        rc = gm__report(&client->last, GM_ENOTFOUND, "job", "the job is not pending on this client");
    } else {
        request.u.cancel.id = gm__slot_id(client, in->pending.slot);
        rc = gm__post(client, &request, SLOT_ORPHAN);
        if (rc != GM_OK)
            gm__report(&client->last, rc, "", "%s", gm_strerror(rc));
        gm__conn_push(client);
    }
    pthread_mutex_unlock(&client->lock);
    return rc;
}

struct gm_job *gm_next(struct gm_client *client)
{
    struct gm_job *job = NULL;

    if (gm__entry(client) != GM_OK)
        return NULL;
    pthread_mutex_lock(&client->lock);
    for (struct gm_job_inside *in = client->completed_first; in != NULL && job == NULL; in = in->next)
        if (in->pending.waiter == NULL)
            job = give_back(client, in);
    pthread_mutex_unlock(&client->lock);
    return job;
}

int gm_poll(struct gm_client *client)
{
    int rc = gm__entry(client);

    if (rc != GM_OK)
        return rc;
    pthread_mutex_lock(&client->lock);
    rc = client->closed ? GM_ECLOSED : gm__conn_exchange(client);
    if (rc != GM_OK)
        gm__report(&client->last, rc, "", "%s", client->closing.text);
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

    if (status == GM_EAGAIN)
        *failure = (struct gm_failure){.status = status};
    else
        *failure = in->failure;
}
