/* SPDX-License-Identifier: Apache-2.0
 *
 * The pool of jobs and the one place where a job is answered. Loop thread only; bounded by the pool.
 */
#include "job.h"

#include <assert.h>
#include <string.h>

#include "daemon.h"
#include "enqueue.h"
#include "request.h"

void gm_jobs_init(struct gm_daemon *d)
{
    gm_list_init(&d->jobs.free);
}

struct gm_job *gm_job_new(struct gm_daemon *d, bool own)
{
    struct gm_jobs *jobs = &d->jobs;
    struct gm_job *job;
    if (jobs->count >= GM_INFLIGHT_MAX + (own ? GM_JOBS_OWN : 0u))
        return NULL;
    if (!gm_list_empty(&jobs->free)) {
        job = GM_CONTAINER(jobs->free.prev, struct gm_job, queue); /* the one whose memory is still in the cache */
        gm_list_remove(&job->queue);
    } else {
        job = &jobs->job[jobs->used++];
    }
    memset(job, 0, sizeof *job);
    job->staging = GM_STAGING_NONE;
    jobs->count++;
    return job;
}

void gm_job_discard(struct gm_daemon *d, struct gm_job *job)
{
    if (job->staging != GM_STAGING_NONE) {
        gm_staging_free(&job->device->staging, job->staging);
        job->session->staged -= job->staged, job->session->user->staged -= job->staged;
    }
    for (uint32_t i = 0; i < GM_BUFFERS_MAX; i++)
        if (job->arena[i] != NULL)
            gm_arena_unpin(job->arena[i]);
    job->state = GM_JOB_FREE;
    gm_list_push(&d->jobs.free, &job->queue);
    d->jobs.count--;
}

static uint64_t gm_job_promise(const struct gm_job *job)
{
    uint64_t bytes = GM_REPLY_SMALL;
    for (uint32_t i = 0; i < job->outputs; i++)
        bytes += job->out[i].is_inline ? job->out[i].bytes : 0;
    return bytes;
}

void gm_job_accept(struct gm_daemon *d, struct gm_job *job)
{
    struct gm_device *v = job->device;
    (void)d;
    if (job->zeroes == NULL) {
        gm_list_push(&job->session->jobs, &job->session_link);
        job->session->inflight++, job->session->user->inflight++;
        job->session->conn.promised += gm_job_promise(job), job->session->user->promised += gm_job_promise(job);
        v->submitted++, job->session->user->counted.submitted++;
        v->depth++;
        if (v->depth > v->depth_high)
            v->depth_high = v->depth;
    }
    gm_enqueue_push(v, job);
}

/* What of an inline output the job has written. */
static uint64_t gm_job_out_bytes(const struct gm_job_out *out, uint64_t result)
{
    if (out->element == 0 || result > out->bytes / out->element)
        return out->bytes;
    return result * out->element;
}

static void gm_job_reply_done(struct gm_job *job, uint64_t result, uint64_t wait_ns, uint64_t run_ns)
{
    struct gm_wire_out out;
    struct gm_wire_done done = {.result_dtype = job->result_dtype,
                                .result = result,
                                .device = job->device->index,
                                .wait_ns = wait_ns,
                                .run_ns = run_ns,
                                .outputs = job->outputs};
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < job->outputs; i++) {
        if (!job->out[i].is_inline)
            continue;
        done.out[i].bytes = job->device->staging_bytes + job->out[i].offset;
        done.out[i].size = gm_job_out_bytes(&job->out[i], result);
        bytes += done.out[i].size;
    }
    if (!gm_conn_reserve(&job->session->conn, GM_REPLY_SMALL + bytes, &out))
        return;
    const int status = gm_wire_encode_done(&out, job->id, &done);
    assert(status == GM_OK); /* reserved for the largest there is */
    gm_conn_commit(&job->session->conn, &out, -1);
}

static void gm_job_reply_error(struct gm_job *job, int status, const char *text)
{
    const struct gm_op_row row = gm_op_row(job->op);
    struct gm_problem problem;
    if (text == NULL)
        gm_failure_problem(&problem, &row, status);
    else
        gm_problem_set(&problem, status, "", "%s", text);
    gm_request_error(job->session, job->id, &problem);
}

static void gm_job_count(struct gm_daemon *d, const struct gm_job *job, int status, uint64_t wait_ns, uint64_t run_ns)
{
    struct gm_device *v = job->device;
    struct gm_op_counters *op = &d->counters.op[job->op];
    struct gm_user_counters *user = &job->session->user->counted;
    v->depth--;
    if (status == GM_OK) {
        v->done++, op->done++, user->done++;
        user->run_ns += run_ns;
        gm_histo_add(&op->wait, wait_ns);
        gm_histo_add(&op->run, run_ns);
    } else if (status == GM_ECANCELLED) {
        v->cancelled++, user->cancelled++;
    } else {
        v->failed++, op->failed++, user->failed++;
    }
}

void gm_job_finish(struct gm_daemon *d, struct gm_job *job, int status, uint64_t result, uint64_t run_ns,
                   const char *text)
{
    struct gm_session *session = job->session;
    struct gm_arena *zeroes = job->zeroes;
    if (status > 0 || status <= -GM_ERRORS_MAX)
        status = GM_EINTERNAL;
    if (job->state == GM_JOB_QUEUED && gm_list_linked(&job->queue))
        gm_enqueue_remove(job);
    if (zeroes != NULL) {
        gm_job_discard(d, job);
        gm_arena_zeroed(zeroes, status);
        return;
    }
    const uint64_t total = gm_now_ns() - job->accepted_ns, wait = total > run_ns ? total - run_ns : 0;
    gm_job_count(d, job, status, wait, run_ns);
    gm_list_remove(&job->session_link);
    session->inflight--, session->user->inflight--;
    session->conn.promised -= gm_job_promise(job), session->user->promised -= gm_job_promise(job);
    session->tired = false;
    if (status == GM_OK)
        gm_job_reply_done(job, result, wait, run_ns);
    else
        gm_job_reply_error(job, status, text);
    gm_job_discard(d, job);
    gm_session_settle(session);
}

struct gm_job *gm_job_find(struct gm_session *session, uint32_t id)
{
    for (struct gm_link *at = session->jobs.next; at != &session->jobs; at = at->next) {
        struct gm_job *job = GM_CONTAINER(at, struct gm_job, session_link);
        if (job->id == id)
            return job;
    }
    return NULL;
}
