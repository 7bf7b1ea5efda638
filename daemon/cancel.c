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

/* The session lives until the device has answered all that it was asked at will. */
static void gm_cancel_answer(struct gm_session *session, const struct gm_control *reply, uint32_t id, bool of_lane)
{
    const int status = reply == NULL ? GM_EDEVICELOST : reply->status;
    session->cancels--, session->user->cancels--;
    if (status == GM_OK)
        gm_request_ok(session, id);
    else
        gm_cancel_error(session, id, status, of_lane);
    gm_session_settle(session);
}

static void gm_cancelled(struct gm_device *v, const struct gm_control *reply, void *context, uint32_t id)
{
    (void)v;
    gm_cancel_answer(context, reply, id, false);
}

static void gm_cancelled_in_lane(struct gm_device *v, const struct gm_control *reply, void *context, uint32_t id)
{
    (void)v;
    gm_cancel_answer(context, reply, id, true);
}

/* The device hears of it, unless it has not answered enough of this user's already: others want to cancel, too. */
static void gm_cancel_ask(struct gm_session *session, struct gm_device *v, uint32_t lane, uint64_t position,
                          uint32_t id, bool of_lane)
{
    struct gm_control cancel = {.type = GM_CONTROL_CANCEL};
    cancel.u.cancel = (struct gm_control_cancel){.lane = lane, .position = position};
    int status = session->user->cancels < GM_CONTROL_AT_WILL_PER_USER ? GM_OK : GM_EBUSY;
    session->user->counted.refused += status != GM_OK;
    session->cancels++, session->user->cancels++;
    if (status == GM_OK)
        status = gm_device_request_at_will(v, &cancel, of_lane ? gm_cancelled_in_lane : gm_cancelled, session, id);
    if (status == GM_OK)
        return;
    session->cancels--, session->user->cancels--;
    gm_cancel_error(session, id, status, of_lane);
}

static void gm_cancel_in_lane(struct gm_session *session, const struct gm_wire_request *request)
{
    const struct gm_lane *lane = gm_lane_find(session, request->u.cancel.lane);
    struct gm_problem problem;
    if (lane == NULL) {
        gm_problem_set(&problem, GM_ENOTFOUND, "lane", "no such lane in this session");
        gm_request_error(session, request->id, &problem);
    } else if (lane->phase != GM_LANE_TAPPED) {
        gm_cancel_error(session, request->id, GM_ENOTFOUND, true);
    } else {
        gm_cancel_ask(session, lane->device, lane->index, request->u.cancel.position, request->id, true);
    }
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
    } else if (job->state == GM_JOB_QUEUED) {
        gm_job_finish(session->daemon, job, GM_ECANCELLED, 0, 0, NULL);
        gm_request_ok(session, request->id);
    } else {
        gm_cancel_ask(session, job->device, 0, job->position, request->id, false);
    }
}
