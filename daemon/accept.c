/* SPDX-License-Identifier: Apache-2.0
 *
 * The two listening sockets. Loop thread; every event accepts at most GM_ACCEPT_PER_EVENT clients, and when descriptors
 * run out the listeners rest, because epoll would report the backlog for ever.
 */
#include "accept.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "daemon.h"
#include "server.h"

#define GM_ACCEPT_PER_EVENT 64
#define GM_ACCEPT_RETRY_MS 100
#define GM_ACCEPT_SAY_NS UINT64_C(5000000000)

static void gm_accept_ready(uv_poll_t *poll, int status, int events);

static void gm_accept_set(struct gm_daemon *d, bool on)
{
    struct gm_server *s = &d->server;
    for (int i = 0; i < 2 && s->listening; i++) {
        if (on)
            uv_poll_start(&s->accept[i], UV_READABLE, gm_accept_ready);
        else
            uv_poll_stop(&s->accept[i]);
    }
    s->accept_paused = !on;
}

static void gm_accept_retry(uv_timer_t *timer)
{
    struct gm_daemon *d = timer->data;
    gm_accept_set(d, true);
}

void gm_server_fd_free(struct gm_daemon *d)
{
    if (!d->server.accept_paused || !d->server.listening)
        return;
    uv_timer_stop(&d->server.accept_timer);
    gm_accept_set(d, true);
}

/* It is tried again many times a second: one line says so, and one every few seconds how often. */
static void gm_accept_say_exhausted(struct gm_server *s, uint64_t now, int reason)
{
    struct rlimit limit = {0, 0};
    s->accept_failed++;
    if (s->accept_said_ns != 0 && now - s->accept_said_ns < GM_ACCEPT_SAY_NS)
        return;
    getrlimit(RLIMIT_NOFILE, &limit);
    gm_log(GM_LOG_WARN, "accept", "out of file descriptors: new clients wait; failed=%u limit=%llu error=\"%s\"",
           s->accept_failed, (unsigned long long)limit.rlim_cur, strerror(reason));
    s->accept_said_ns = now, s->accept_failed = 0;
}

/* Out of descriptors: the connection stays in the backlog, where epoll would report it for ever. So the listeners rest
 * until a descriptor is free, or a moment has passed. */
static void gm_accept_exhausted(struct gm_daemon *d, int reason)
{
    if (!d->server.accept_paused)
        d->counters.sessions_refused++;
    gm_accept_say_exhausted(&d->server, gm_turn_start(d), reason);
    gm_accept_set(d, false);
    uv_timer_start(&d->server.accept_timer, gm_accept_retry, GM_ACCEPT_RETRY_MS, 0);
}

static void gm_accept_ready(uv_poll_t *poll, int status, int events)
{
    struct gm_daemon *d = poll->data;
    const bool admin = poll == &d->server.accept[1];
    (void)status, (void)events;
    gm_turn_start(d);
    for (int i = 0; i < GM_ACCEPT_PER_EVENT; i++) {
        const int fd = accept4(d->server.socket[admin].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            gm_session_accept(d, fd, admin);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
            gm_accept_exhausted(d, errno);
        if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

int gm_accept_start(struct gm_daemon *d)
{
    static const mode_t modes[2] = {0660, 0600};
    char path[GM_SOCKET_PATH_MAX + sizeof GM_ADMIN_SUFFIX], error[GM_SOCKET_ERROR];
    for (int i = 1; i >= 0; i--) { /* whoever waits for the public socket finds the other one there too */
        snprintf(path, sizeof path, "%s%s", d->config.socket, i == 1 ? GM_ADMIN_SUFFIX : "");
        if (gm_socket_listen(&d->server.socket[i], path, modes[i], error) != GM_OK) {
            gm_server_failed(d, error);
            return GM_ESYSTEM;
        }
    }
    d->server.listening = true;
    for (int i = 0; i < 2; i++) {
        uv_poll_init(&d->loop, &d->server.accept[i], d->server.socket[i].fd);
        d->server.accept[i].data = d;
    }
    gm_accept_set(d, true);
    return GM_OK;
}

void gm_accept_end(struct gm_daemon *d)
{
    if (d->server.listening) {
        for (int i = 0; i < 2; i++) {
            uv_poll_stop(&d->server.accept[i]);
            uv_close((uv_handle_t *)&d->server.accept[i], NULL);
        }
        uv_timer_stop(&d->server.accept_timer);
        d->server.listening = false;
    }
    for (int i = 0; i < 2; i++)
        gm_socket_close(&d->server.socket[i]);
}
