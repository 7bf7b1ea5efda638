/* SPDX-License-Identifier: Apache-2.0
 *
 * The cancel method: a queued job is answered at once, one in a lane is for the device to stop. Loop thread only.
 * The submit and the cancel are answered once each, whoever wins the race.
 */
#include "daemon.h"
#include "request.h"

static void gm_cancel_error(struct gm_session *session, uint32_t id, int status, bool of_lane)
{
    struct gm_problem problem;
    gm_problem_set(&problem, status, of_lane ? "position" : "id", "%s", gm_error_text(status));
    gm_request_error(session, id, &problem);
}

static void gm_cancel_answer(struct gm_device *v, const struct gm_control *reply, uint32_t session_id, uint32_t id,
                             bool of_lane)
{
    struct gm_session *session = gm_session_find(v->daemon, session_id);
    if (session == NULL)
        return;
    const int status = reply == NULL ? GM_EDEVICELOST : reply->status;
    if (status == GM_OK)
        gm_request_ok(session, id);
    else
        gm_cancel_error(session, id, status, of_lane);
}

static void gm_cancelled(struct gm_device *v, const struct gm_control *reply, void *context, uint32_t id)
{
    gm_cancel_answer(v, reply, (uint32_t)(uintptr_t)context, id, false);
}

static void gm_cancelled_in_lane(struct gm_device *v, const struct gm_control *reply, void *context, uint32_t id)
{
    gm_cancel_answer(v, reply, (uint32_t)(uintptr_t)context, id, true);
}

static void gm_cancel_in_lane(struct gm_session *session, const struct gm_wire_request *request)
{
    const struct gm_lane *lane = gm_lane_find(session, request->u.cancel.lane);
    struct gm_control cancel = {.type = GM_CONTROL_CANCEL};
    struct gm_problem problem;
    if (lane == NULL) {
        gm_problem_set(&problem, GM_ENOTFOUND, "lane", "no such lane in this session");
        gm_request_error(session, request->id, &problem);
        return;
    }
    cancel.u.cancel = (struct gm_control_cancel){.lane = lane->index, .position = request->u.cancel.position};
    int status = lane->phase == GM_LANE_TAPPED ? GM_OK : GM_ENOTFOUND;
    if (status == GM_OK)
        status = gm_device_request_at_will(lane->device, &cancel, gm_cancelled_in_lane, (void *)(uintptr_t)session->id,
                                           request->id);
    if (status != GM_OK)
        gm_cancel_error(session, request->id, status, true);
}

void gm_cancel(struct gm_session *session, const struct gm_wire_request *request)
{
    if (request->u.cancel.has_lane) {
        gm_cancel_in_lane(session, request);
        return;
    }
    struct gm_job *job = gm_job_find(session, request->u.cancel.id);
    if (job == NULL) {
        gm_cancel_error(session, request->id, GM_ENOTFOUND, false);
        return;
    }
    if (job->state == GM_JOB_QUEUED) {
        gm_job_finish(session->daemon, job, GM_ECANCELLED, 0, 0, NULL);
        gm_request_ok(session, request->id);
        return;
    }
    struct gm_control cancel = {.type = GM_CONTROL_CANCEL, .u.cancel.position = job->position};
    const int status =
        gm_device_request_at_will(job->device, &cancel, gm_cancelled, (void *)(uintptr_t)session->id, request->id);
    if (status != GM_OK)
        gm_cancel_error(session, request->id, status, false);
}
