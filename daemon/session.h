/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients. Loop thread only; bounded by GM_SESSIONS_MAX, and GM_SESSIONS_ADMIN of the admin socket. A session
 * lives until its connection is closed, its last job is answered, its last arena and lane are gone, in whatever order.
 */
#ifndef GM_DAEMON_SESSION_H
#define GM_DAEMON_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "conn.h"
#include "limits.h"
#include "list.h"
#include "user.h"

struct gm_daemon;
struct gm_job;

/* Jobs of one session that wait for one device, and its share of the turns. */
struct gm_flow {
    struct gm_link link; /* in gm_user_flow.sessions while jobs wait */
    struct gm_link jobs;
    int32_t deficit;
};

enum gm_session_state {
    GM_SESSION_FREE = 0,
    GM_SESSION_OPEN,
    GM_SESSION_LEAVING /* the client is gone; jobs and arenas run out */
};

struct gm_session {
    struct gm_conn conn; /* first: the connection is the session */
    struct gm_daemon *daemon;
    struct gm_user *user;
    enum gm_session_state state;
    uint32_t id; /* unique among the living; names its arenas on the devices */
    pid_t pid;   /* decoration */
    bool admin, greeted, conn_closed, leave_queued;
    uint32_t inflight, arenas, lanes;
    uint32_t cancels;              /* that a device has not answered */
    uint64_t round;                /* of its user, when it was read last */
    uint32_t asked;                /* requests about arenas, and pauses, that wait for an answer */
    uint16_t lane[GM_DEVICES_MAX]; /* index of its lane on each device; 0: none */
    uint64_t staged;               /* bytes in staging arenas, all devices */
    uint64_t goodbye_ns;
    uint64_t still_ns, still_at; /* while it is held: since when its output stands still, and where */
    bool tired;                  /* it was held for long because of its own jobs, and none was answered since */
    struct gm_link jobs;         /* all accepted and unanswered ones */
    struct gm_link leave;        /* in gm_sessions.leaving */
    struct gm_flow flow[GM_DEVICES_MAX];
    char client[GM_NAME_BYTES_MAX];
};

struct gm_sessions {
    struct gm_session session[GM_SESSIONS_ADMIN + GM_SESSIONS_MAX]; /* the first ones: of the admin socket alone */
    uint32_t count, high, last_id;                                  /* high: entries used so far */
    struct gm_link leaving;                                         /* their client left in this turn */
};

void gm_sessions_init(struct gm_daemon *d);
/* Takes an accepted descriptor in every case; refuses with an error frame when there are too many. */
void gm_session_accept(struct gm_daemon *d, int fd, bool admin);
/* NULL when that session is gone. */
struct gm_session *gm_session_find(struct gm_daemon *d, uint32_t id);
/* Callbacks of the connections. */
void gm_session_gone(struct gm_conn *conn, const char *reason);
void gm_session_conn_closed(struct gm_conn *conn);
bool gm_session_is_busy(const struct gm_conn *conn);
bool gm_session_may_read(struct gm_conn *conn);
bool gm_session_may_go_on(const struct gm_conn *conn);
/* What clients that left in this turn leave behind: jobs are dropped, arenas and lanes freed. */
void gm_sessions_leave(struct gm_daemon *d);
/* Gives the entry back once nothing refers to it. */
void gm_session_settle(struct gm_session *session);
/* Once a second: goodbyes that the peer does not read, empty buffers. */
void gm_sessions_tick(struct gm_daemon *d);
/* Nothing of that is to be done before long. */
bool gm_sessions_calm(const struct gm_daemon *d);
void gm_sessions_close_all(struct gm_daemon *d, const char *reason);
void gm_sessions_dump(struct gm_daemon *d);

#endif
