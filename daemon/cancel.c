/* SPDX-License-Identifier: Apache-2.0
 *
 * The cancel method: a queued job is answered at once, one in the lane is for the device to stop. Loop thread only.
 * The submit and the cancel are answered once each, whoever wins the race.
 */
#include "daemon.h"
#include "request.h"

static void gm_cancel_error(struct gm_session *session, uint32_t id, int status)
{
    struct gm_problem problem;
    gm_problem_set(&problem, status, "id", "%s", gm_error_text(status));
    gm_request_error(session, id, &problem);
}

static void gm_cancelled(struct gm_device *v, const struct gm_control *reply, void *context, uint32_t id)
{
    struct gm_session *session = gm_session_find(v->daemon, (uint32_t)(uintptr_t)context);
    if (session == NULL)
        return;
    const int status = reply == NULL ? GM_EDEVICELOST : reply->status;
    if (status == GM_OK)
        gm_request_ok(session, id);
    else
        gm_cancel_error(session, id, status);
}

void gm_cancel(struct gm_session *session, const struct gm_wire_request *request)
{
    struct gm_job *job = gm_job_find(session, request->u.cancel.id);
    if (job == NULL) {
        gm_cancel_error(session, request->id, GM_ENOTFOUND);
        return;
    }
    if (job->state == GM_JOB_QUEUED) {
        gm_job_finish(session->daemon, job, GM_ECANCELLED, 0, 0, NULL);
        gm_request_ok(session, request->id);
        return;
    }
    struct gm_control cancel = {.type = GM_CONTROL_CANCEL, .u.position = job->position};
    const int status =
        gm_device_request_at_will(job->device, &cancel, gm_cancelled, (void *)(uintptr_t)session->id, request->id);
    if (status != GM_OK)
        gm_cancel_error(session, request->id, status);
}
