/* SPDX-License-Identifier: Apache-2.0
 *
 * Life of the daemon on its one thread: lock, devices, sockets, loop, drain, exit. A stop has three phases: accepted
 * jobs finish (bounded by --drain-ms), device processes stop (bounded too), everything closes.
 */
#include "server.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "accept.h"
#include "daemon.h"
#include "notify.h"
#include "reap.h"
#include "request.h"
#include "source_id.h"
#include "version.h"
#include "watchdog.h"

#define GM_STOP_MS 5000u
/* Once every job is answered, clients get this long to read the answers. */
#define GM_UNREAD_MS 2000u
#define GM_SECOND_NS UINT64_C(1000000000)
/* Signals within this time are one wish, told twice: timeout(1) signals its child and the child's group, Ctrl-C reaches
 * a daemon and the wrapper that then sends its own. */
#define GM_SAME_WISH_NS UINT64_C(500000000)
/* While the daemon drains: between two looks at lanes, which nobody else tells us of. */
#define GM_LANES_LOOK_MS 10u

static void gm_server_stop(struct gm_daemon *d, int exit_status);

/* ---- phases ---- */

void gm_server_devices_up(struct gm_daemon *d)
{
    if (d->phase != GM_PHASE_STARTING || gm_accept_start(d) != GM_OK)
        return;
    d->phase = GM_PHASE_RUNNING;
    d->spin_budget_ns = gm_reap_spin_budget(d);
    gm_log(GM_LOG_INFO, "ready", "socket=%s pid=%ld version=%s source=%s", d->config.socket, (long)getpid(), GM_VERSION,
           GM_SOURCE_ID);
    gm_notify("READY=1\nSTATUS=serving on %s", d->config.socket);
}

void gm_server_failed(struct gm_daemon *d, const char *reason)
{
    if (d->phase != GM_PHASE_STARTING)
        return;
    gm_log(GM_LOG_ERROR, "start", "failed: %s", reason);
    gm_notify("STATUS=failed: %s", reason);
    gm_server_stop(d, GM_EXIT_FAILED);
}

static void gm_stop_devices(struct gm_daemon *d)
{
    d->phase = GM_PHASE_STOPPING;
    gm_accept_end(d);
    gm_sessions_close_all(d, "the daemon stops");
    uv_timer_stop(&d->server.deadline);
    if (d->exit_status == GM_EXIT_OK)
        gm_devices_stop(d);
    else
        gm_devices_kill(d);
}

/* New jobs are refused, and lanes closed as soon as what they hold is answered. */
static void gm_lanes_timer(uv_timer_t *timer)
{
    struct gm_daemon *d = timer->data;
    gm_turn_start(d);
    d->server.lanes_left = gm_lanes_drain(d);
    if (d->server.lanes_left != 0)
        uv_timer_start(&d->server.lanes, gm_lanes_timer, GM_LANES_LOOK_MS, 0);
}

static void gm_server_refuse(struct gm_daemon *d)
{
    if (d->draining)
        return;
    d->draining = true;
    gm_lanes_timer(&d->server.lanes);
}

static void gm_fail_jobs(struct gm_daemon *d)
{
    gm_lanes_shut_all(d, GM_EDRAINING);
    for (uint32_t i = 0; i < d->sessions.high; i++) {
        struct gm_session *session = &d->sessions.session[i];
        if (session->state != GM_SESSION_OPEN)
            continue;
        for (struct gm_link *at = session->jobs.next; at != &session->jobs; at = at->next) {
            const struct gm_job *job = GM_CONTAINER(at, struct gm_job, session_link);
            struct gm_problem problem;
            gm_problem_set(&problem, GM_EDRAINING, "", "the daemon stopped before the job was finished");
            gm_request_error(session, job->id, &problem);
        }
    }
    gm_conn_flush_all(&d->io);
}

static void gm_deadline(uv_timer_t *timer)
{
    struct gm_daemon *d = timer->data;
    if (d->phase == GM_PHASE_FINISHING) {
        gm_log(GM_LOG_WARN, "stop", "jobs were not finished in time: jobs=%u lanes=%u", d->jobs.count,
               d->server.lanes_left);
        d->exit_status = GM_EXIT_FAILED;
        gm_fail_jobs(d);
        gm_stop_devices(d);
    } else if (d->phase == GM_PHASE_STOPPING) {
        gm_devices_kill(d);
    }
}

/* exit_status OK: finish what was accepted; else stop at once. */
static void gm_server_stop(struct gm_daemon *d, int exit_status)
{
    gm_server_refuse(d);
    gm_notify("STOPPING=1");
    if (exit_status != GM_EXIT_OK || d->phase == GM_PHASE_STARTING) {
        d->exit_status = exit_status;
        if (d->phase == GM_PHASE_FINISHING)
            gm_fail_jobs(d);
        if (d->phase < GM_PHASE_STOPPING) {
            const bool quick = d->phase == GM_PHASE_STARTING;
            gm_stop_devices(d);
            if (quick)
                gm_devices_kill(d);
        }
        return;
    }
    d->phase = GM_PHASE_FINISHING;
    gm_log(GM_LOG_INFO, "stop", "finishing jobs=%u lanes=%u", d->jobs.count, d->server.lanes_left);
    gm_notify("EXTEND_TIMEOUT_USEC=%llu", (unsigned long long)(d->config.drain_ms + GM_STOP_MS) * 1000u);
    gm_accept_end(d);
    uv_timer_start(&d->server.deadline, gm_deadline, d->config.drain_ms, 0);
}

static void gm_signalled(uv_signal_t *handle, int number)
{
    struct gm_daemon *d = handle->data;
    const uint64_t now = gm_turn_start(d);
    if (number == SIGUSR1) {
        gm_sessions_dump(d);
    } else if (d->phase < GM_PHASE_FINISHING) {
        d->server.signal_ns = now;
        gm_server_stop(d, GM_EXIT_OK);
    } else if (now - d->server.signal_ns >= GM_SAME_WISH_NS) {
        gm_log(GM_LOG_WARN, "stop", "second signal: the rest is given up");
        gm_server_stop(d, GM_EXIT_FAILED);
        gm_devices_kill(d);
    }
}

/* Of those that wait for the drain, the ones that have left. */
static void gm_drain_forget(struct gm_daemon *d)
{
    struct gm_server *s = &d->server;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->waiters; i++)
        if (gm_session_find(d, s->waiter[i].session) != NULL)
            s->waiter[kept++] = s->waiter[i];
    s->waiters = kept;
}

void gm_server_drain(struct gm_session *session, uint32_t request)
{
    struct gm_daemon *d = session->daemon;
    struct gm_server *s = &d->server;
    gm_server_refuse(d);
    gm_drain_forget(d);
    if (s->waiters == GM_DRAIN_WAITERS) {
        struct gm_problem problem;
        gm_problem_set(&problem, GM_EBUSY, "", "%u others wait for the drain; new jobs are refused already",
                       GM_DRAIN_WAITERS);
        gm_request_error(session, request, &problem);
        return;
    }
    s->waiter[s->waiters].session = session->id;
    s->waiter[s->waiters++].request = request;
    gm_log(GM_LOG_INFO, "drain", "jobs=%u lanes=%u", d->jobs.count, s->lanes_left);
}

bool gm_server_drains(const struct gm_session *session)
{
    const struct gm_server *s = &session->daemon->server;
    for (uint32_t i = 0; i < s->waiters; i++)
        if (s->waiter[i].session == session->id)
            return true;
    return false;
}

static bool gm_output_pending(const struct gm_daemon *d)
{
    for (uint32_t i = 0; i < d->sessions.high; i++)
        if (d->sessions.session[i].state == GM_SESSION_OPEN && gm_conn_unsent(&d->sessions.session[i].conn) != 0)
            return true;
    return false;
}

static void gm_server_close(struct gm_daemon *d)
{
    struct gm_server *s = &d->server;
    d->phase = GM_PHASE_DONE;
    uv_handle_t *handles[] = {
        (uv_handle_t *)&s->accept_timer, (uv_handle_t *)&s->signal[0], (uv_handle_t *)&s->signal[1],
        (uv_handle_t *)&s->signal[2],    (uv_handle_t *)&s->tick,      (uv_handle_t *)&s->deadline,
        (uv_handle_t *)&s->lanes,        (uv_handle_t *)&s->turn,      (uv_handle_t *)&s->spin};
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++)
        uv_close(handles[i], NULL);
    gm_devices_close(d);
}

void gm_server_progress(struct gm_daemon *d)
{
    struct gm_server *s = &d->server;
    const bool finished = d->jobs.count == 0 && s->lanes_left == 0 && d->arenas.asked == 0;
    if (s->waiters != 0 && finished) {
        for (uint32_t i = 0; i < s->waiters; i++) {
            struct gm_session *session = gm_session_find(d, s->waiter[i].session);
            if (session != NULL)
                gm_request_ok(session, s->waiter[i].request);
        }
        s->waiters = 0;
    }
    if (d->phase == GM_PHASE_FINISHING && finished) {
        const uint64_t now_ms = uv_now(&d->loop);
        if (s->finished_ms == 0)
            s->finished_ms = now_ms;
        if (!gm_output_pending(d) || now_ms - s->finished_ms > GM_UNREAD_MS) {
            gm_stop_devices(d);
            uv_timer_start(&s->deadline, gm_deadline, d->times.stop_ms, 0);
        }
    }
    if (d->phase == GM_PHASE_STOPPING && gm_devices_gone(d))
        gm_server_close(d);
}

/* ---- set-up ---- */

static void gm_turn(uv_prepare_t *prepare)
{
    gm_reap_turn(prepare->data);
}

static void gm_tick(uv_timer_t *timer)
{
    struct gm_daemon *d = timer->data;
    const uint64_t now = gm_turn_start(d);
    bool calm = gm_watchdog_tick(d);
    gm_lanes_watch(d);
    if (now - d->server.second_ns >= GM_SECOND_NS) {
        d->server.second_ns = now;
        gm_sessions_tick(d);
        gm_devices_tick(d);
    }
    calm = calm && gm_sessions_calm(d);
    d->server.calm = calm;
    uv_timer_start(timer, gm_tick, calm ? gm_watchdog_calm_ms(d) : d->times.ping_ms, 0);
}

void gm_server_hurry(struct gm_daemon *d)
{
    if (!d->server.calm)
        return;
    d->server.calm = false;
    uv_timer_start(&d->server.tick, gm_tick, d->times.ping_ms, 0);
}

static void gm_server_handles(struct gm_daemon *d)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGUSR1};
    struct gm_server *s = &d->server;
    uv_timer_init(&d->loop, &s->accept_timer);
    uv_timer_init(&d->loop, &s->tick);
    uv_timer_init(&d->loop, &s->deadline);
    uv_timer_init(&d->loop, &s->lanes);
    uv_prepare_init(&d->loop, &s->turn);
    uv_idle_init(&d->loop, &s->spin);
    s->accept_timer.data = s->tick.data = s->deadline.data = s->lanes.data = s->turn.data = s->spin.data = d;
    for (int i = 0; i < 3; i++) {
        uv_signal_init(&d->loop, &s->signal[i]);
        s->signal[i].data = d;
        uv_signal_start(&s->signal[i], gm_signalled, signals[i]);
    }
    uv_prepare_start(&s->turn, gm_turn);
    uv_timer_start(&s->tick, gm_tick, d->times.ping_ms, 0);
}

/* For so many of each. A shared arena has one, and a copy on the way to a client; a lane its memory, doorbell and wake
 * pipe, of which one end is the client's as soon as he has it. */
static rlim_t gm_descriptors(uint32_t sessions, uint32_t arenas, uint32_t lanes, uint32_t devices)
{
    return 64u + sessions + 2u * arenas + (4u * lanes + 16u) * (rlim_t)devices;
}

static void gm_raise_descriptor_limit(const struct gm_config *c)
{
    const rlim_t all = gm_descriptors(GM_SESSIONS_ADMIN + GM_SESSIONS_MAX, GM_ARENAS_MAX, GM_LANES_MAX, c->devices);
    const rlim_t one = gm_descriptors(c->user_sessions, c->user_arenas, c->user_lanes, c->devices);
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    if (limit.rlim_cur < limit.rlim_max && limit.rlim_cur < all) {
        limit.rlim_cur = limit.rlim_max < all ? limit.rlim_max : all;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur <= one)
        gm_log(GM_LOG_WARN, "limit", "one user may take all %llu file descriptors, and then nobody else gets in",
               (unsigned long long)limit.rlim_cur);
}

static struct gm_daemon *gm_daemon_new(const struct gm_config *config)
{
    struct gm_daemon *d = calloc(1, sizeof *d);
    if (d == NULL)
        return NULL;
    d->config = *config;
    d->times = (struct gm_times){.hello_ms = GM_HELLO_MS,
                                 .ping_ms = GM_PING_MS,
                                 .ping_deadline_ms = GM_PING_DEADLINE_MS,
                                 .ping_kill_ms = GM_PING_KILL_MS,
                                 .stop_ms = GM_STOP_MS};
    d->server.socket[0].fd = d->server.socket[1].fd = d->server.lock = -1;
    d->started_ns = gm_now_ns();
    d->io.loop = &d->loop, d->io.context = d;
    d->io.on_frame = gm_request_frame, d->io.is_busy = gm_session_is_busy;
    d->io.account_in_max = GM_USER_BUFFERED_MAX;
    d->io.may_read = gm_session_may_read, d->io.may_go_on = gm_session_may_go_on;
    d->io.on_gone = gm_session_gone, d->io.on_closed = gm_session_conn_closed;
    gm_sessions_init(d);
    gm_arenas_init(d);
    gm_jobs_init(d);
    return d;
}

/* What stands where the sockets will be is said now, and not when the devices are up. */
static int gm_server_check_paths(const struct gm_config *config, char error[GM_SOCKET_ERROR])
{
    char admin[GM_SOCKET_PATH_MAX + sizeof GM_ADMIN_SUFFIX];
    snprintf(admin, sizeof admin, "%s" GM_ADMIN_SUFFIX, config->socket);
    const int status = gm_socket_check(config->socket, error);
    return status == GM_OK ? gm_socket_check(admin, error) : status;
}

int gm_server_run(const struct gm_config *config)
{
    char error[GM_SOCKET_ERROR];
    gm_log_set_level(config->level);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* an arena above RLIMIT_FSIZE is an error and not the end */
    gm_raise_descriptor_limit(config);
    struct gm_daemon *d = gm_daemon_new(config);
    if (d == NULL || uv_loop_init(&d->loop) != 0) {
        gm_log(GM_LOG_ERROR, "start", "failed: no memory for the loop");
        free(d);
        return GM_EXIT_FAILED;
    }
    d->server.lock = gm_socket_lock(config->socket, error);
    if (d->server.lock < 0 || gm_server_check_paths(config, error) != GM_OK) {
        const int status = d->server.lock == GM_EBUSY ? GM_EXIT_RUNNING : GM_EXIT_FAILED;
        gm_log(GM_LOG_ERROR, "start", "failed: %s", error);
        if (d->server.lock >= 0)
            close(d->server.lock);
        uv_loop_close(&d->loop);
        free(d);
        return status;
    }
    gm_server_handles(d);
    gm_devices_start(d);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    gm_devices_release(d);
    if (uv_loop_close(&d->loop) != 0)
        gm_log(GM_LOG_WARN, "exit", "a handle of the loop is still open");
    close(d->server.lock);
    const int status = d->exit_status;
    gm_log(GM_LOG_INFO, "exit", "status=%d", status);
    free(d);
    return status;
}
