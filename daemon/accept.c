/* SPDX-License-Identifier: Apache-2.0
 *
 * The two listening sockets. Loop thread; every event accepts at most GM_ACCEPT_PER_EVENT clients, and when descriptors
 * run out a listener rests, because epoll would report the backlog for ever.
 */
#include "accept.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon.h"
#include "server.h"

#define GM_ACCEPT_PER_EVENT 64
#define GM_ACCEPT_RETRY_MS 100
#define GM_ACCEPT_SAY_NS UINT64_C(5000000000)

static void gm_accept_ready(uv_poll_t *poll, int status, int events);

static void gm_accept_set(struct gm_daemon *d, int socket, bool on)
{
    struct gm_server *s = &d->server;
    if (!s->listening || s->rests[socket] == !on)
        return;
    s->rests[socket] = !on;
    if (on)
        uv_poll_start(&s->accept[socket], UV_READABLE, gm_accept_ready);
    else
        uv_poll_stop(&s->accept[socket]);
}

/* What an admin took comes first: he may have to look why there are none. */
static void gm_accept_spare(struct gm_server *s)
{
    while (s->spares < GM_ACCEPT_SPARES) {
        const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return;
        s->spare[s->spares++] = fd;
    }
}

static bool gm_accept_give(struct gm_server *s)
{
    if (s->spares == 0)
        return false;
    close(s->spare[--s->spares]);
    return true;
}

static void gm_accept_retry(uv_timer_t *timer)
{
    struct gm_daemon *d = timer->data;
    gm_accept_spare(&d->server);
    for (int i = 0; i < 2; i++)
        gm_accept_set(d, i, true);
}

void gm_server_fd_free(struct gm_daemon *d)
{
    struct gm_server *s = &d->server;
    if (!s->listening || (!s->rests[0] && !s->rests[1] && s->spares == GM_ACCEPT_SPARES))
        return;
    uv_timer_stop(&s->accept_timer);
    gm_accept_retry(&s->accept_timer);
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

/* Out of descriptors: the connection stays in the backlog, where epoll would report it for ever. So the listener rests
 * until a descriptor is free, or a moment has passed. */
static void gm_accept_exhausted(struct gm_daemon *d, int socket, int reason)
{
    if (!d->server.rests[socket])
        d->counters.sessions_refused++;
    gm_accept_say_exhausted(&d->server, gm_turn_start(d), reason);
    gm_accept_set(d, socket, false);
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
        const int reason = errno;
        if (reason == EMFILE || reason == ENFILE || reason == ENOMEM || reason == ENOBUFS) {
            if (admin && gm_accept_give(&d->server))
                continue;
            gm_accept_exhausted(d, admin, reason);
            return;
        }
        if (reason != EINTR && reason != ECONNABORTED)
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
        d->server.rests[i] = true;
    }
    gm_accept_retry(&d->server.accept_timer);
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
    while (gm_accept_give(&d->server)) {
    }
    for (int i = 0; i < 2; i++)
        gm_socket_close(&d->server.socket[i]);
}
