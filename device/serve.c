/* SPDX-License-Identifier: Apache-2.0
 *
 * See serve.h. A drop waits until no job uses the memory, and unregistering host memory waits for a stop of the kernel
 * too: such drops are collected, and a pause serves as many as its time allows, at most one pause in GM_PAUSE_GAP_MS.
 * In a pause nothing is done that can be done before or after it.
 */
#include "serve.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "drill.h"
#include "say.h"

#define GM_CLOSE_AGAIN_MS 2
#define GM_PAUSE_QUIET_MS 5u  /* a burst of drops is over */
#define GM_PAUSE_LATE_MS  50u /* or goes on, and the first one has waited long enough */
#define GM_PAUSE_GAP_MS   20u
/* Unregistering takes 41 us and more each, and everybody waits for it: many short pauses disturb less than few long
 * ones, until more drops wait than they can keep up with. */
#define GM_PAUSE_WORK_NS  500000u
#define GM_PAUSE_DROPS    64u /* that wait, for each of which times the work may last so long once more */
#define GM_PING_CALL_MS   2000u
#define GM_LOOK_MS        20 /* between looks at a device that runs */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t now_ms(void) { return now_ns() / 1000000u; }

static int send_message(int fd, const struct gm_control *message)
{
    ssize_t n;
    do
        n = send(fd, message, sizeof *message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof *message ? GM_OK : GM_ECLOSED;
}

int gm_server_send_ready(int control_fd, const struct gm_control_hello *hello)
{
    struct gm_control m = {.type = GM_CONTROL_READY};
    m.u.hello = *hello;
    return send_message(control_fd, &m);
}

void gm_server_send_failed(int control_fd, int status, const char *text)
{
    struct gm_control m = {.type = GM_CONTROL_FAILED, .status = status};
    snprintf(m.u.text, sizeof m.u.text, "%s", text);
    (void)send_message(control_fd, &m); /* gridmilld may be gone; then nobody needs to know */
}

static int reply(struct gm_server *server, uint32_t sequence, int status, uint64_t value, const char *text)
{
    struct gm_control m = {.type = GM_CONTROL_REPLY, .sequence = sequence, .status = status, .value = value};
    snprintf(m.u.text, sizeof m.u.text, "%s", text ? text : "");
    return send_message(server->control_fd, &m);
}

/* A message and the descriptors that came with it. */
struct incoming {
    struct gm_control message;
    int fd[GM_CONTROL_FDS_MAX + 1u]; /* one more than any message has, so that too many show */
    uint32_t fds;
    bool cut; /* some descriptors did not get in: too many, or no room in this process */
};

static int receive_message(int control_fd, struct incoming *in)
{
    union {
        char bytes[CMSG_SPACE(sizeof in->fd)];
        struct cmsghdr align;
    } control;
    struct iovec io = {.iov_base = &in->message, .iov_len = sizeof in->message};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t n;
    in->fds = 0;
    for (uint32_t i = 0; i < GM_CONTROL_FDS_MAX + 1u; i++)
        in->fd[i] = -1;
    do
        n = recvmsg(control_fd, &m, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return GM_ECLOSED;
    const struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        in->fds = (uint32_t)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(in->fd, CMSG_DATA(c), in->fds * sizeof(int)); /* the kernel gives no more than there is room for */
    }
    in->cut = (m.msg_flags & MSG_CTRUNC) != 0;
    return n == (ssize_t)sizeof in->message && !(m.msg_flags & MSG_TRUNC) ? GM_OK : GM_EPROTO;
}

static uint32_t wanted_descriptors(const struct gm_control *m)
{
    if (m->type == GM_CONTROL_LANE_ADD)
        return 3;
    return m->type == GM_CONTROL_ARENA_ADD && m->u.arena.kind == GM_ARENA_SHARED ? 1u : 0u;
}

bool gm_server_drop_jobs_done(struct gm_server *server, uint32_t which)
{
    if (!server->backend->unmap_needs_stop)
        return true;
    struct gm_drop *drop =
        which < GM_LANE_TABLE ? &server->lane[which].drop : &server->arena[which - GM_LANE_TABLE].drop;
    drop->step = GM_DROP_STOP;
    server->last_drop_ms = now_ms();
    if (server->waiting == 0)
        server->first_drop_ms = server->last_drop_ms;
    server->due[(server->first_waiting + server->waiting++) % GM_DROPS_MAX] = (uint16_t)which;
    return false;
}

void gm_server_drop_answer(struct gm_server *server, const struct gm_drop *drop, int status)
{
    if (drop->answer)
        (void)reply(server, drop->sequence, status, 0, NULL); /* a closed socket shows at the next receive */
}

/* The next try for every drop whose jobs were not answered yet. Lanes first: their jobs use the arenas. */
static void close_drops(struct gm_server *server, char *text)
{
    int status = GM_OK;
    for (uint32_t i = 0; i < GM_LANE_TABLE && server->closing != 0 && status != GM_ETIMEDOUT; i++)
        if (server->lane[i].drop.step == GM_DROP_JOBS)
            status = gm_server_lane_close(server, i, text);
    for (uint32_t i = 0; i < GM_ARENAS_MAX && server->closing != 0 && status != GM_ETIMEDOUT; i++)
        if (server->arena[i].drop.step == GM_DROP_JOBS)
            status = gm_server_arena_close(server, &server->arena[i], text);
}

/* With no kernel there: unregisters what has waited longest, for as long as a pause may last. Returns how many. */
static uint32_t unmap_drops(struct gm_server *server, char *text)
{
    const uint64_t end = now_ns() + GM_PAUSE_WORK_NS * (1u + server->waiting / GM_PAUSE_DROPS);
    uint32_t count = 0;
    bool first = true;
    while (count < server->waiting && (first || now_ns() < end)) {
        const uint32_t which = server->due[(server->first_waiting + count) % GM_DROPS_MAX];
        if (which < GM_LANE_TABLE)
            gm_server_lane_unmap(server, which, text), count++;
        else
            count += gm_server_arena_unmap(server, &server->arena[which - GM_LANE_TABLE], text);
        first = false;
    }
    return count;
}

/* The rest of what was unregistered. Those that are left have waited long enough. */
static void release_drops(struct gm_server *server, uint32_t count)
{
    for (; count != 0; count--) {
        const uint32_t which = server->due[server->first_waiting];
        server->first_waiting = (server->first_waiting + 1u) % GM_DROPS_MAX;
        server->waiting--;
        if (which < GM_LANE_TABLE)
            gm_server_lane_release(server, which);
        else
            gm_server_arena_release(server, &server->arena[which - GM_LANE_TABLE]);
    }
    server->first_drop_ms = 0;
}

static void count_pause(struct gm_pauses *pauses, uint64_t away_ns, uint32_t unmapped)
{
    pauses->count++;
    pauses->unmapped += unmapped;
    pauses->away_ns += away_ns;
    if (pauses->longest_ns < away_ns)
        pauses->longest_ns = away_ns;
}

/* ETIMEDOUT: the stop was asked for, and the next call waits for it again. */
static int pause_device(struct gm_server *server, char *text)
{
    int status = GM_OK;
    if (server->waiting != 0 && server->backend->before_unmap)
        status = server->backend->before_unmap(server->device, text);
    const uint64_t begin = now_ns();
    if (status == GM_OK)
        status = gm_admin_stop(&server->admin, text);
    server->last_pause_ms = now_ms();
    if (status != GM_OK)
        return status;
    gm_drill_pause();
    const uint32_t unmapped = unmap_drops(server, text);
    status = server->backend->start(server->device, text);
    count_pause(&server->pauses, now_ns() - begin, unmapped);
    release_drops(server, unmapped);
    return status;
}

int gm_server_unmap_now(struct gm_server *server, struct gm_mapping *map)
{
    char text[GM_ERROR_TEXT_MAX]; /* the failure before this is the one to tell */
    int status = GM_OK;
    if (server->backend->before_unmap)
        status = server->backend->before_unmap(server->device, text);
    if (status == GM_OK)
        status = gm_admin_stop(&server->admin, text);
    if (status != GM_OK)
        return status;
    while (!gm_server_arena_unmap(server, map, text)) {
    }
    return server->backend->start(server->device, text);
}

/* When the drops that wait are worth a pause: no more have come for a while, and the last pause is a while ago. */
static uint64_t pause_due(const struct gm_server *server)
{
    const uint64_t quiet = server->last_drop_ms + GM_PAUSE_QUIET_MS, late = server->first_drop_ms + GM_PAUSE_LATE_MS;
    const uint64_t collected = server->closing != 0 || quiet > late ? late : quiet;
    const uint64_t allowed = server->last_pause_ms + GM_PAUSE_GAP_MS;
    return collected > allowed ? collected : allowed;
}

static int sooner(int a_ms, int b_ms) { return a_ms < 0 ? b_ms : b_ms < 0 || a_ms < b_ms ? a_ms : b_ms; }

int gm_server_housekeeping(struct gm_server *server, int *timeout_ms, char *text)
{
    *timeout_ms = -1;
    const uint64_t now = now_ms();
    if (server->closing != 0 && now >= server->next_close_ms) {
        close_drops(server, text);
        server->next_close_ms = now_ms() + GM_CLOSE_AGAIN_MS;
    }
    if (server->closing != 0)
        *timeout_ms = GM_CLOSE_AGAIN_MS;
    if (server->waiting == 0 && !server->admin.stop)
        return GM_OK;
    if (!server->backend->running(server->device) && !server->admin.stop) {
        release_drops(server, unmap_drops(server, text)); /* parked: the next doorbell starts it */
        if (server->waiting != 0)
            *timeout_ms = 0; /* nor does the doorbell wait for more of them than others would */
        return GM_OK;
    }
    const uint64_t due = pause_due(server);
    if (now < due) {
        *timeout_ms = sooner(*timeout_ms, (int)(due - now));
        return GM_OK;
    }
    const int status = pause_device(server, text);
    if (server->waiting != 0 || status == GM_ETIMEDOUT)
        *timeout_ms = sooner(*timeout_ms, GM_PAUSE_GAP_MS);
    if (status != GM_ETIMEDOUT)
        return status;
    gm_say(LOG_WARNING, "the device does not stop");
    return GM_OK;
}

/* Does what the message asks for. wait: the drop answers later. */
static int handle(struct gm_server *server, struct incoming *in, uint64_t *value, bool *wait, char *text)
{
    const struct gm_control *m = &in->message;
    int status = GM_OK;
    *wait = false;
    if (in->fds != wanted_descriptors(m) || in->cut) {
        snprintf(text, GM_ERROR_TEXT_MAX, "%u descriptors came with a message of type %u", in->fds, m->type);
        return in->cut && in->fds < wanted_descriptors(m) ? GM_EFDS : GM_EINVAL;
    }
    switch (m->type) {
    case GM_CONTROL_ARENA_ADD:
        return gm_server_arena_add(server, m, in->fd[0], text);
    case GM_CONTROL_ARENA_DROP:
    case GM_CONTROL_LANE_DROP:
        status = m->type == GM_CONTROL_ARENA_DROP ? gm_server_arena_drop(server, m->u.arena.handle, m->sequence, text)
                                                  : gm_server_lane_drop(server, m->u.lane.index, m->sequence, text);
        *wait = status == GM_OK;
        return status;
    case GM_CONTROL_LANE_ADD:
        return gm_server_lane_add(server, &m->u.lane, in->fd, text);
    case GM_CONTROL_CANCEL:
        return gm_admin_cancel(&server->admin, m->u.cancel.lane, m->u.cancel.position);
    case GM_CONTROL_PING:
        *value = gm_load_relaxed_sys_u64(&server->counters->turns); /* the dispatcher stores it meanwhile */
        if (server->backend->running(server->device))
            status = gm_admin_ping(&server->admin, value, GM_PING_CALL_MS);
        return status;
    case GM_CONTROL_PAUSE:
        return pause_device(server, text);
    case GM_CONTROL_STOP:
        server->stopping = true;
        return gm_admin_stop(&server->admin, text);
    default:
        return GM_EMETHOD;
    }
}

int gm_server_receive(struct gm_server *server, char *text)
{
    struct incoming in;
    uint64_t value = 0;
    bool wait = true;
    text[0] = 0;
    int status = receive_message(server->control_fd, &in);
    const bool received = status == GM_OK;
    if (received)
        status = handle(server, &in, &value, &wait, text);
    for (uint32_t i = 0; i < in.fds; i++)
        if (in.fd[i] >= 0)
            close(in.fd[i]);
    if (!received)
        return status;
    return wait ? GM_OK : reply(server, in.message.sequence, status, value, text);
}

static void tell_pauses(const struct gm_pauses *p)
{
    if (p->count != 0)
        gm_say(LOG_INFO, "pauses=%" PRIu64 " unregistered=%" PRIu64 " mean_us=%" PRIu64 " longest_us=%" PRIu64,
               p->count, p->unmapped, p->away_ns / p->count / 1000u, p->longest_ns / 1000u);
}

int gm_server_run(struct gm_server *server, char *text)
{
    int status = GM_OK;
    while (status == GM_OK && !server->stopping) {
        struct pollfd p[2] = {{.fd = server->control_fd, .events = POLLIN},
                              {.fd = server->backend->event_fd(server->device), .events = POLLIN}};
        int timeout;
        status = gm_server_housekeeping(server, &timeout, text);
        if (status == GM_OK)
            status = server->backend->check(server->device, text);
        if (status != GM_OK)
            break;
        /* A device that dies says nothing; one that sleeps is left alone. */
        if (p[1].fd >= 0 && server->backend->running(server->device))
            timeout = sooner(timeout, GM_LOOK_MS);
        if (poll(p, 2, timeout) < 0 && errno != EINTR)
            return GM_ESYSTEM;
        gm_drill_counts(0, gm_load_relaxed_sys_u64(&server->counters->completed));
        if (p[1].revents)
            status = server->backend->service(server->device, text);
        if (status == GM_OK && p[0].revents)
            status = gm_server_receive(server, text);
    }
    tell_pauses(&server->pauses);
    return status;
}
