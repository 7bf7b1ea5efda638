/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames to methods. Loop thread only. Every request is answered exactly once; a message that cannot be trusted any
 * further (EPROTO, too deep, too many items) is answered and ends the connection.
 */
#include "request.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "daemon.h"
#include "server.h"
#include "source_id.h"
#include "version.h"

void gm_request_error(struct gm_session *session, uint32_t id, const struct gm_problem *problem)
{
    struct gm_wire_out out;
    if (!gm_conn_reserve(&session->conn, GM_REPLY_SMALL, &out))
        return;
    const int status = gm_wire_encode_error(&out, id, true, problem);
    assert(status == GM_OK);
    gm_conn_commit(&session->conn, &out, -1);
}

void gm_request_rejected(struct gm_session *session)
{
    session->user->counted.submitted++, session->user->counted.rejected++;
}

void gm_request_ok(struct gm_session *session, uint32_t id)
{
    struct gm_wire_out out;
    if (!gm_conn_reserve(&session->conn, GM_REPLY_SMALL, &out))
        return;
    const size_t start = gm_wire_begin_result(&out, id);
    gm_wire_put_map(&out, 0);
    if (gm_wire_end(&out, start) == GM_OK)
        gm_conn_commit(&session->conn, &out, -1);
}

static void gm_request_hello(struct gm_session *session, const struct gm_wire_request *request)
{
    struct gm_problem problem;
    struct gm_wire_out out;
    const uint32_t high =
        request->u.hello.version_max < GM_WIRE_VERSION_MAX ? request->u.hello.version_max : GM_WIRE_VERSION_MAX;
    if (session->greeted) {
        gm_problem_set(&problem, GM_EINVAL, "method", "hello was said before");
        gm_request_error(session, request->id, &problem);
        return;
    }
    if (high < GM_WIRE_VERSION_MIN || high < request->u.hello.version_min) {
        gm_problem_set(&problem, GM_EVERSION, "version", "the daemon speaks versions %u to %u, the client %u to %u",
                       GM_WIRE_VERSION_MIN, GM_WIRE_VERSION_MAX, request->u.hello.version_min,
                       request->u.hello.version_max);
        gm_request_error(session, request->id, &problem);
        gm_conn_goodbye(&session->conn, NULL);
        return;
    }
    session->greeted = true;
    memcpy(session->client, request->u.hello.client, sizeof session->client);
    session->client[sizeof session->client - 1] = 0;
    gm_log(GM_LOG_DEBUG, "hello", "session=%u uid=%ld pid=%ld client=\"%s\"", session->id, (long)session->user->uid,
           (long)session->pid, session->client);
    if (!gm_conn_reserve(&session->conn, GM_REPLY_SMALL, &out))
        return;
    const size_t start = gm_wire_begin_result(&out, request->id);
    gm_wire_put_map(&out, 8);
    gm_wire_put_str(&out, "version"), gm_wire_put_u64(&out, high);
    gm_wire_put_str(&out, "session"), gm_wire_put_u64(&out, session->id);
    gm_wire_put_str(&out, "daemon"), gm_wire_put_str(&out, GM_VERSION);
    gm_wire_put_str(&out, "source_id"), gm_wire_put_str(&out, GM_SOURCE_ID);
    gm_wire_put_str(&out, "devices"), gm_wire_put_u64(&out, session->daemon->devices.count);
    gm_wire_put_str(&out, "inflight_max"), gm_wire_put_u64(&out, GM_INFLIGHT_PER_SESSION_MAX);
    gm_wire_put_str(&out, "inline_bytes_max"), gm_wire_put_u64(&out, GM_INLINE_BYTES_MAX);
    gm_wire_put_str(&out, "lanes"), gm_wire_put_u64(&out, GM_LANES_MAX);
    if (gm_wire_end(&out, start) == GM_OK)
        gm_conn_commit(&session->conn, &out, -1);
}

static void gm_paused(struct gm_device *v, const struct gm_control *reply, void *context, uint32_t id)
{
    struct gm_session *session = gm_session_find(v->daemon, (uint32_t)(uintptr_t)context);
    struct gm_problem problem;
    if (session == NULL)
        return;
    session->asked--;
    if (reply != NULL && reply->status == GM_OK) {
        gm_request_ok(session, id);
        return;
    }
    gm_problem_set(&problem, reply == NULL ? GM_EDEVICELOST : reply->status, "device", "%s",
                   reply == NULL ? gm_error_text(GM_EDEVICELOST) : reply->u.text);
    gm_request_error(session, id, &problem);
}

static void gm_request_pause(struct gm_session *session, const struct gm_wire_request *request)
{
    struct gm_devices *devices = &session->daemon->devices;
    struct gm_control pause = {.type = GM_CONTROL_PAUSE};
    struct gm_problem problem;
    const uint32_t index = request->u.pause.has_device ? request->u.pause.device : 0;
    int status = index < devices->count ? GM_OK : GM_ENODEVICE;
    if (status == GM_OK)
        status = gm_device_request_at_will(&devices->device[index], &pause, gm_paused, (void *)(uintptr_t)session->id,
                                           request->id);
    session->asked += status == GM_OK;
    if (status == GM_OK)
        return;
    gm_problem_set(&problem, status, "device", "%s", gm_error_text(status));
    gm_request_error(session, request->id, &problem);
}

static void gm_request_dispatch(struct gm_session *session, const struct gm_wire_request *request)
{
    switch (request->method) {
    case GM_METHOD_HELLO:
        gm_request_hello(session, request);
        break;
    case GM_METHOD_SUBMIT:
        gm_submit(session, request);
        break;
    case GM_METHOD_CANCEL:
        gm_cancel(session, request);
        break;
    case GM_METHOD_STATS:
        gm_stats_reply(session, request->id);
        break;
    case GM_METHOD_OPS:
        gm_request_ops(session, request->id);
        break;
    case GM_METHOD_PING:
        gm_request_ping(session, request->id);
        break;
    case GM_METHOD_ARENA_CREATE:
        gm_arena_create(session, request);
        break;
    case GM_METHOD_ARENA_FREE:
        gm_arena_free(session, request);
        break;
    case GM_METHOD_ARENA_ATTACH:
        gm_arena_attach(session, request);
        break;
    case GM_METHOD_ARENA_LIST:
        gm_arena_list(session, request->id);
        break;
    case GM_METHOD_ARENA_REMOVE:
        gm_arena_remove(session, request);
        break;
    case GM_METHOD_LANE_OPEN:
        gm_lane_open(session, request);
        break;
    case GM_METHOD_LANE_CLOSE:
        gm_lane_close(session, request);
        break;
    case GM_METHOD_DRAIN:
        gm_server_drain(session, request->id);
        break;
    case GM_METHOD_PAUSE:
        gm_request_pause(session, request);
        break;
    case GM_METHOD_COUNT:
        break;
    }
}

/* Its answers are not read, and too many bytes of them lie here already, of it or of its user. */
static bool gm_request_is_full(const struct gm_session *session)
{
    const size_t unsent = gm_conn_unsent(&session->conn);
    return unsent > GM_CONN_UNSENT_MAX || (unsent != 0 && !gm_user_fits(session->user, 0));
}

/* A burst of requests is no reason to end a connection whose client reads: what has no room for its answer waits, and
 * the client's sending with it, until the client has read. Jobs wait for room beside all that is promised, since they
 * may be answered all at once; other requests only while the client does not read, so that a cancel is not held up by
 * the jobs that it is about. Of a session that is tired of waiting, jobs are refused. */
static bool gm_request_waits(const struct gm_session *session, const struct gm_wire_request *request, bool *busy)
{
    const uint64_t bytes = request->method == GM_METHOD_SUBMIT ? gm_submit_reply_bytes(&request->u.submit) : 0;
    const bool some = gm_conn_unsent(&session->conn) != 0 || session->conn.promised != 0;
    *busy = bytes != 0 && !(gm_conn_fits(&session->conn, bytes) && gm_user_fits(session->user, bytes));
    return gm_request_is_full(session) || (*busy && some && !session->tired);
}

static void gm_request_busy(struct gm_session *session, const struct gm_wire_request *request)
{
    const bool of_user = gm_conn_fits(&session->conn, gm_submit_reply_bytes(&request->u.submit));
    const uint64_t due = of_user ? session->user->promised + session->user->held.out
                                 : session->conn.promised + gm_conn_unsent(&session->conn);
    struct gm_problem problem;
    session->daemon->counters.rejected_busy++;
    session->user->counted.refused += of_user;
    gm_request_rejected(session);
    gm_problem_set(&problem, GM_EBUSY, "", "busy: %" PRIu64 " of %" PRIu64 " bytes of answers to %s are due", due,
                   of_user ? GM_USER_BUFFERED_MAX : (uint64_t)GM_OUTPUT_BYTES_MAX,
                   of_user ? "the user" : "this connection");
    gm_request_error(session, request->id, &problem);
}

bool gm_request_frame(struct gm_conn *conn, const uint8_t *body, size_t size)
{
    struct gm_session *session = (struct gm_session *)(void *)conn;
    struct gm_daemon *d = session->daemon;
    struct gm_wire_request request;
    struct gm_problem problem;
    bool has_id, busy;
    gm_turn_start(d);
    gm_server_hurry(d);
    session->user->spent++;
    const int status = gm_wire_decode_request(body, size, &request, &has_id, &problem);
    if (status == GM_EPROTO || status == GM_ETOODEEP || status == GM_ETOOMANY) {
        d->counters.protocol_errors++;
        if (has_id)
            gm_request_error(session, request.id, &problem);
        gm_conn_goodbye(conn, has_id ? NULL : &problem);
        return true;
    }
    if (status != GM_OK) {
        if (gm_request_is_full(session))
            return false;
        if (request.method == GM_METHOD_SUBMIT) {
            d->counters.rejected_bad++;
            gm_request_rejected(session);
        }
        gm_request_error(session, request.id, &problem);
        return true;
    }
    if (gm_request_waits(session, &request, &busy))
        return false;
    if (busy) {
        gm_request_busy(session, &request);
        return true;
    }
    if (!session->greeted && request.method != GM_METHOD_HELLO) {
        d->counters.protocol_errors++;
        gm_problem_set(&problem, GM_EPROTO, "method", "hello comes first");
        gm_request_error(session, request.id, &problem);
        gm_conn_goodbye(conn, NULL);
        return true;
    }
    if (gm_method_is_admin(request.method) && !session->admin) {
        gm_problem_set(&problem, GM_EPERM, "method", "%s is for the admin socket", gm_method_name(request.method));
        gm_request_error(session, request.id, &problem);
        return true;
    }
    const uint64_t start = request.method != GM_METHOD_SUBMIT ? gm_now_ns() : 0;
    gm_request_dispatch(session, &request);
    if (start != 0) /* a job says itself what it costs: so many come that the clock would */
        session->user->spent += (uint32_t)((gm_now_ns() - start) / GM_USER_UNIT_NS);
    return true;
}

void gm_request_ping(struct gm_session *session, uint32_t id)
{
    const struct gm_devices *devices = &session->daemon->devices;
    const uint64_t now = gm_now_ns();
    struct gm_wire_out out;
    if (!gm_conn_reserve(&session->conn, GM_REPLY_SMALL + devices->count * 64u, &out))
        return;
    const size_t start = gm_wire_begin_result(&out, id);
    gm_wire_put_map(&out, 2);
    gm_wire_put_str(&out, "daemon"), gm_wire_put_bool(&out, true);
    gm_wire_put_str(&out, "devices"), gm_wire_put_array(&out, devices->count);
    for (uint32_t i = 0; i < devices->count; i++) {
        const struct gm_device *v = &devices->device[i];
        gm_wire_put_map(&out, 3);
        gm_wire_put_str(&out, "index"), gm_wire_put_u64(&out, i);
        gm_wire_put_str(&out, "state"), gm_wire_put_str(&out, gm_device_state_name(v));
        gm_wire_put_str(&out, "ping_ms"), gm_wire_put_u64(&out, (now - v->ping_answered_ns) / 1000000u);
    }
    if (gm_wire_end(&out, start) == GM_OK)
        gm_conn_commit(&session->conn, &out, -1);
}
