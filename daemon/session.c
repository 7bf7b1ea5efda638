/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions. Loop thread only. A client may leave at any moment, also inside one of our own callbacks, so
 * leaving is two steps: its connection says so (gm_session_gone), and the end of the turn cleans up
 * (gm_sessions_leave), when no job of it is being handled.
 */
#include "session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon.h"
#include "request.h"
#include "server.h"

/* A goodbye that the peer does not read within this time is cut short. */
#define GM_GOODBYE_NS UINT64_C(5000000000)
/* So long a request waits for the jobs of its session, at least, when none of them is answered. */
#define GM_HELD_NS UINT64_C(900000000)

#define GM_SESSIONS_TABLE (GM_SESSIONS_ADMIN + GM_SESSIONS_MAX)

static_assert(offsetof(struct gm_session, conn) == 0, "the connection is the session");

void gm_sessions_init(struct gm_daemon *d)
{
    gm_list_init(&d->sessions.leaving);
}

static void gm_session_refuse(struct gm_daemon *d, int fd, int code, const char *text)
{
    uint8_t bytes[GM_REPLY_SMALL];
    struct gm_problem problem;
    struct gm_wire_out out = {.bytes = bytes, .capacity = sizeof bytes};
    d->counters.sessions_refused++;
    gm_log(GM_LOG_WARN, "session_refused", "reason=\"%s\"", text);
    gm_problem_set(&problem, code, "", "%s", text);
    if (gm_wire_encode_error(&out, 0, false, &problem) == GM_OK)
        send(fd, out.bytes, out.size, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
}

static uint32_t gm_session_new_id(struct gm_sessions *sessions)
{
    for (;;) {
        const uint32_t id = sessions->last_id = sessions->last_id == UINT32_MAX ? 1u : sessions->last_id + 1u;
        bool used = false;
        for (uint32_t i = 0; i < sessions->high && !used; i++)
            used = sessions->session[i].state != GM_SESSION_FREE && sessions->session[i].id == id;
        if (!used)
            return id;
    }
}

/* The first free entry that it may take; none: the size of the table. */
static uint32_t gm_session_free(const struct gm_sessions *sessions, bool admin)
{
    uint32_t index = admin ? 0 : GM_SESSIONS_ADMIN;
    while (index < GM_SESSIONS_TABLE && sessions->session[index].state != GM_SESSION_FREE)
        index++;
    return index;
}

/* Whoever may open the admin socket is not held to what users may have. false: text says which bound was met. */
static bool gm_session_admit(struct gm_daemon *d, struct gm_user *user, uint32_t index, bool admin, char *text)
{
    if (!admin && user->sessions >= d->config.user_sessions) {
        user->counted.refused++;
        snprintf(text, GM_ERROR_TEXT_MAX, "busy: the user has %" PRIu32 " of %" PRIu32 " connections (--user-sessions)",
                 user->sessions, d->config.user_sessions);
        return false;
    }
    snprintf(text, GM_ERROR_TEXT_MAX, "busy: all %u connections are in use, %" PRIu32 " by the user", GM_SESSIONS_MAX,
             user->sessions);
    return index < GM_SESSIONS_TABLE;
}

void gm_session_accept(struct gm_daemon *d, int fd, bool admin)
{
    struct gm_sessions *sessions = &d->sessions;
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
        gm_session_refuse(d, fd, GM_ESYSTEM, "the peer has no credentials");
        return;
    }
    struct gm_user *user = gm_user_of(d, peer.uid);
    const uint32_t index = gm_session_free(sessions, admin);
    char text[GM_ERROR_TEXT_MAX];
    if (!gm_session_admit(d, user, index, admin, text)) {
        gm_session_refuse(d, fd, GM_EBUSY, text);
        return;
    }
    struct gm_session *session = &sessions->session[index];
    memset(session, 0, sizeof *session);
    if (gm_conn_open(&session->conn, &d->io, fd) != GM_OK) {
        gm_session_refuse(d, fd, GM_ESYSTEM, "cannot watch the connection");
        return;
    }
    session->daemon = d, session->user = user, session->admin = admin;
    session->conn.account = &user->held;
    session->round = gm_user_round_begun(user);
    session->state = GM_SESSION_OPEN;
    session->pid = peer.pid;
    session->id = gm_session_new_id(sessions);
    gm_list_init(&session->jobs);
    for (uint32_t i = 0; i < GM_DEVICES_MAX; i++)
        gm_list_init(&session->flow[i].jobs);
    user->sessions++;
    sessions->count++;
    sessions->high = index + 1u > sessions->high ? index + 1u : sessions->high;
    d->counters.sessions_total++;
}

struct gm_session *gm_session_find(struct gm_daemon *d, uint32_t id)
{
    for (uint32_t i = 0; i < d->sessions.high; i++)
        if (d->sessions.session[i].state == GM_SESSION_OPEN && d->sessions.session[i].id == id)
            return &d->sessions.session[i];
    return NULL;
}

bool gm_session_is_busy(const struct gm_conn *conn)
{
    const struct gm_session *session = (const struct gm_session *)(const void *)conn;
    return session->inflight != 0 || session->asked != 0 || session->cancels != 0 || gm_lanes_asked(session) ||
           gm_server_drains(session);
}

/* Whoever looks after the daemon is not held up by what users do. */
bool gm_session_may_read(struct gm_conn *conn)
{
    struct gm_session *session = (struct gm_session *)(void *)conn;
    return session->admin || gm_user_may_read(session->daemon, session->user, &session->round);
}

bool gm_session_may_go_on(const struct gm_conn *conn)
{
    const struct gm_session *session = (const struct gm_session *)(const void *)conn;
    return session->admin || session->user->spent < GM_USER_TURN;
}

void gm_session_gone(struct gm_conn *conn, const char *reason)
{
    struct gm_session *session = (struct gm_session *)(void *)conn;
    struct gm_daemon *d = session->daemon;
    if (conn->slow) {
        d->counters.slow_readers++;
        gm_log(GM_LOG_WARN, "slow_reader", "session=%" PRIu32 " uid=%ld pid=%ld", session->id, (long)session->user->uid,
               (long)session->pid);
    }
    if (conn->broken)
        d->counters.protocol_errors++;
    gm_log(GM_LOG_DEBUG, "session_end", "session=%" PRIu32 " uid=%ld inflight=%" PRIu32 " reason=\"%s\"", session->id,
           (long)session->user->uid, session->inflight, reason);
    session->state = GM_SESSION_LEAVING;
    d->sessions.count--;
    gm_list_push(&d->sessions.leaving, &session->leave);
    gm_server_fd_free(d);
}

static void gm_session_drop_jobs(struct gm_session *session)
{
    struct gm_link *next;
    for (struct gm_link *at = session->jobs.next; at != &session->jobs; at = next) {
        struct gm_job *job = GM_CONTAINER(at, struct gm_job, session_link);
        next = at->next;
        if (job->state == GM_JOB_QUEUED) {
            session->inflight++; /* keeps the session while the list is walked */
            gm_job_finish(session->daemon, job, GM_ECANCELLED, 0, 0, NULL);
            session->inflight--;
        }
    }
}

/* Nobody will read the result: the device need not finish it. */
static void gm_cancel_ignored(struct gm_device *v, const struct gm_control *reply, void *context, uint32_t tag)
{
    (void)v, (void)reply, (void)context, (void)tag;
}

static void gm_session_cancel_running(struct gm_session *session)
{
    for (struct gm_link *at = session->jobs.next; at != &session->jobs; at = at->next) {
        struct gm_job *job = GM_CONTAINER(at, struct gm_job, session_link);
        struct gm_control cancel = {.type = GM_CONTROL_CANCEL, .u.cancel.position = job->position};
        if (gm_device_request(job->device, &cancel, -1, gm_cancel_ignored, NULL, 0) != GM_OK)
            break;
    }
}

void gm_sessions_leave(struct gm_daemon *d)
{
    while (!gm_list_empty(&d->sessions.leaving)) {
        struct gm_session *session = GM_CONTAINER(d->sessions.leaving.next, struct gm_session, leave);
        gm_session_drop_jobs(session);
        gm_session_cancel_running(session);
        gm_lanes_leave(session);
        gm_arenas_leave(session);
        gm_list_remove(&session->leave);
        gm_session_settle(session);
    }
}

void gm_session_conn_closed(struct gm_conn *conn)
{
    struct gm_session *session = (struct gm_session *)(void *)conn;
    session->conn_closed = true;
    gm_session_settle(session);
}

void gm_session_settle(struct gm_session *session)
{
    if (session->state != GM_SESSION_LEAVING || !session->conn_closed || session->inflight != 0 ||
        session->arenas != 0 || session->lanes != 0 || session->cancels != 0 || gm_list_linked(&session->leave))
        return;
    session->state = GM_SESSION_FREE;
    session->user->sessions--;
    gm_user_settle(session->daemon, session->user);
}

/* Its requests are held. Because of output that it does not read: for some time, then it is told goodbye. Because of
 * jobs that take long: for a moment, then those that find no room are refused, since behind them may be a cancel. */
static void gm_session_look_held(struct gm_session *session, uint64_t now)
{
    struct gm_conn *conn = &session->conn;
    const bool unread = gm_conn_unsent(conn) != 0;
    if (!conn->held || conn->later) {
        session->still_ns = 0;
    } else if (session->still_ns == 0 || session->still_at != conn->out_sent) {
        session->still_ns = now, session->still_at = conn->out_sent;
    } else if (unread && now - session->still_ns > GM_SLOW_READER_MS * UINT64_C(1000000)) {
        gm_conn_goodbye_slow(conn);
    } else if (!unread && now - session->still_ns > GM_HELD_NS) {
        session->tired = true;
        gm_conn_resume(conn);
    }
}

void gm_sessions_tick(struct gm_daemon *d)
{
    const uint64_t now = gm_now_ns();
    for (uint32_t i = 0; i < d->sessions.high; i++) {
        struct gm_session *session = &d->sessions.session[i];
        if (session->state != GM_SESSION_OPEN)
            continue;
        if (session->conn.state == GM_CONN_GOODBYE) {
            if (session->goodbye_ns == 0)
                session->goodbye_ns = now;
            if (now - session->goodbye_ns > GM_GOODBYE_NS)
                gm_conn_close(&session->conn, "goodbye was not read");
        } else {
            gm_session_look_held(session, now);
            gm_conn_trim(&session->conn);
        }
    }
}

bool gm_sessions_calm(const struct gm_daemon *d)
{
    for (uint32_t i = 0; i < d->sessions.high; i++) {
        const struct gm_session *session = &d->sessions.session[i];
        if (session->state == GM_SESSION_OPEN &&
            (session->conn.state == GM_CONN_GOODBYE || session->conn.held || gm_conn_unsent(&session->conn) != 0))
            return false;
    }
    return true;
}

void gm_sessions_close_all(struct gm_daemon *d, const char *reason)
{
    for (uint32_t i = 0; i < d->sessions.high; i++)
        if (d->sessions.session[i].state == GM_SESSION_OPEN)
            gm_conn_close(&d->sessions.session[i].conn, reason);
}

void gm_sessions_dump(struct gm_daemon *d)
{
    for (uint32_t i = 0; i < d->sessions.high; i++) {
        const struct gm_session *s = &d->sessions.session[i];
        if (s->state == GM_SESSION_FREE)
            continue;
        gm_log(GM_LOG_INFO, "dump_session",
               "session=%" PRIu32 " state=%s uid=%ld pid=%ld client=\"%s\" admin=%d inflight=%" PRIu32
               " arenas=%" PRIu32 " lanes=%" PRIu32 " staged=%" PRIu64 " unsent=%zu",
               s->id, s->state == GM_SESSION_OPEN ? "open" : "leaving", (long)s->user->uid, (long)s->pid, s->client,
               s->admin, s->inflight, s->arenas, s->lanes, s->staged, gm_conn_unsent(&s->conn));
    }
    for (uint32_t i = 0; i < d->devices.count; i++) {
        const struct gm_device *v = &d->devices.device[i];
        gm_log(GM_LOG_INFO, "dump_device",
               "device=%" PRIu32 " state=%s pid=%ld queued=%" PRIu32 " in_lane=%" PRIu32 " head=%" PRIu64
               " reaped=%" PRIu64 " lanes=%" PRIu32 " control_waits=%" PRIu32 " control_queue=%" PRIu32
               " staged=%" PRIu64,
               i, gm_device_state_name(v), (long)v->pid, v->queued, v->flight_count, v->head, v->reaped, v->clients,
               v->waits_count, v->queue_count, v->staging.used);
    }
}
