/* SPDX-License-Identifier: Apache-2.0
 *
 * The control channel of a device: requests out, replies and events in. Loop thread; never blocks: what the socket does
 * not take is queued (GM_CONTROL_QUEUE), and requests without a reply are bounded by GM_CONTROL_WAITS.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon.h"

#define GM_CONTROL_PER_EVENT 64

static bool gm_control_send(struct gm_device *v, const struct gm_control_out *item)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(GM_CONTROL_FDS_MAX * sizeof(int))];
    } control;
    struct iovec piece = {.iov_base = (void *)(uintptr_t)&item->message, .iov_len = sizeof item->message};
    struct msghdr out = {.msg_iov = &piece, .msg_iovlen = 1};
    if (item->fds_count != 0) {
        memset(&control, 0, sizeof control);
        out.msg_control = control.bytes, out.msg_controllen = CMSG_SPACE(item->fds_count * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&out);
        header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(item->fds_count * sizeof(int));
        memcpy(CMSG_DATA(header), item->fds, item->fds_count * sizeof(int));
    }
    ssize_t sent;
    do
        sent = sendmsg(v->control, &out, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof item->message;
}

void gm_control_flush(struct gm_device *v)
{
    while (v->queue_count != 0) {
        if (!gm_control_send(v, &v->queue[v->queue_head]))
            break;
        v->queue_head = (v->queue_head + 1u) % GM_CONTROL_QUEUE;
        v->queue_count--;
    }
    uv_poll_start(&v->control_poll, v->queue_count != 0 ? UV_READABLE | UV_WRITABLE : UV_READABLE, gm_control_readable);
}

/* Requests reach a process that is there, or are answered when it has been reaped. */
static bool gm_control_takes(const struct gm_device *v)
{
    switch (v->state) {
    case GM_DEVICE_NONE:
    case GM_DEVICE_DOWN:
    case GM_DEVICE_LOST:
        return false;
    case GM_DEVICE_RISING:
        return v->got_ready; /* before that it knows nothing that could be dropped, and gets everything when it is */
    default:
        return true;
    }
}

int gm_device_request_fds(struct gm_device *v, struct gm_control *message, const int *fds, uint32_t count,
                          gm_control_done *done, void *context, uint32_t tag)
{
    struct gm_control_out item = {.fds_count = count};
    assert(count <= GM_CONTROL_FDS_MAX);
    if (!gm_control_takes(v))
        return GM_EDEVICELOST;
    if (v->waits_count == GM_CONTROL_WAITS || v->queue_count == GM_CONTROL_QUEUE)
        return GM_EBUSY;
    struct gm_control_wait *wait;
    do {
        v->sequence = v->sequence == UINT32_MAX ? 1u : v->sequence + 1u; /* 0 marks events */
        wait = &v->waits[v->sequence % GM_CONTROL_WAITS];
    } while (wait->sequence != 0);
    *wait = (struct gm_control_wait){.sequence = v->sequence, .tag = tag, .done = done, .context = context};
    v->waits_count++;
    message->sequence = v->sequence;
    if (v->state == GM_DEVICE_FALLING)
        return GM_OK;
    item.message = *message;
    for (uint32_t i = 0; i < count; i++)
        item.fds[i] = fds[i];
    if (v->queue_count == 0 && gm_control_send(v, &item))
        return GM_OK;
    /* A dead peer shows up as an end of file; until then the message waits like any other. */
    v->queue[(v->queue_head + v->queue_count) % GM_CONTROL_QUEUE] = item;
    v->queue_count++;
    uv_poll_start(&v->control_poll, UV_READABLE | UV_WRITABLE, gm_control_readable);
    return GM_OK;
}

int gm_device_request(struct gm_device *v, struct gm_control *message, int fd, gm_control_done *done, void *context,
                      uint32_t tag)
{
    return gm_device_request_fds(v, message, &fd, fd >= 0 ? 1u : 0u, done, context, tag);
}

int gm_device_request_at_will(struct gm_device *v, struct gm_control *message, gm_control_done *done, void *context,
                              uint32_t tag)
{
    return v->queue_count < GM_CONTROL_AT_WILL ? gm_device_request(v, message, -1, done, context, tag) : GM_EBUSY;
}

void gm_control_abandon(struct gm_device *v)
{
    v->queue_count = 0;
    for (uint32_t i = 0; i < GM_CONTROL_WAITS && v->waits_count != 0; i++) {
        const struct gm_control_wait wait = v->waits[i];
        if (wait.sequence == 0)
            continue;
        v->waits[i].sequence = 0;
        v->waits_count--;
        wait.done(v, NULL, wait.context, wait.tag);
    }
}

/* false: the message breaks the contract. */
static bool gm_control_handle(struct gm_device *v, struct gm_control *message)
{
    if (message->type == GM_CONTROL_READY && message->sequence == 0 && !v->got_ready) {
        v->got_ready = true;
        gm_device_ready(v, &message->u.hello);
        return true;
    }
    message->u.text[sizeof message->u.text - 1] = 0;
    if (message->type == GM_CONTROL_FAILED && message->sequence == 0) {
        if (v->state == GM_DEVICE_STARTING)
            gm_device_failed(v, "%s", message->u.text);
        else
            gm_device_lost(v, "%s", message->u.text);
        return true;
    }
    struct gm_control_wait *wait = &v->waits[message->sequence % GM_CONTROL_WAITS];
    if (message->type != GM_CONTROL_REPLY || message->sequence == 0 || wait->sequence != message->sequence)
        return false;
    const struct gm_control_wait answered = *wait;
    wait->sequence = 0;
    v->waits_count--;
    answered.done(v, message, answered.context, answered.tag);
    return true;
}

static void gm_control_ended(struct gm_device *v)
{
    if (v->state == GM_DEVICE_STARTING || v->state == GM_DEVICE_STOPPING) {
        /* The exit status, which comes in a moment, says more than an end of file. */
        if (!v->exited)
            uv_poll_stop(&v->control_poll);
    } else {
        v->ended = true;
        gm_device_lost(v, "the device process closed its control channel");
    }
}

void gm_control_readable(uv_poll_t *poll, int status, int events)
{
    struct gm_device *v = poll->data;
    struct gm_control message;
    gm_turn_start(v->daemon);
    if (status == 0 && (events & UV_WRITABLE))
        gm_control_flush(v);
    for (int i = 0; i < GM_CONTROL_PER_EVENT; i++) {
        if (v->state == GM_DEVICE_FALLING || v->state == GM_DEVICE_LOST || v->state == GM_DEVICE_NONE)
            return;
        /* recv and not recvmsg: descriptors that a device process might send are dropped by the kernel. */
        const ssize_t got = recv(v->control, &message, sizeof message, MSG_DONTWAIT | MSG_TRUNC);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            return;
        if (got <= 0) {
            gm_control_ended(v);
            return;
        }
        if (got != (ssize_t)sizeof message || !gm_control_handle(v, &message)) {
            gm_device_lost(v, "the device process broke the control protocol");
            return;
        }
    }
}
