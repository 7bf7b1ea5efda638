/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a client's connection: what was encoded goes out, whole frames come in with the descriptors that travel
 * with them. Under the client's lock, never blocking; the buffers were mapped by gm_open and never grow.
 */
#include "client.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Reads in one exchange, so that a daemon that never stops sending cannot hold a caller of gm_poll for ever. */
#define READS_MAX 64

bool gm__conn_has_output(const struct gm_client *client)
{
    return client->output.size > client->sent;
}

void gm__conn_drop_fds(struct gm_client *client)
{
    for (uint32_t i = 0; i < client->fds_kept; i++)
        if (client->fds[i] >= 0)
            close(client->fds[i]);
    client->fds_kept = 0;
}

/* The oldest descriptors: they belong to the frame that is being read, because each travels with its own frame. */
void gm__conn_take_fds(struct gm_client *client, int *fds, uint32_t count)
{
    uint32_t taken = 0;

    while (taken < count && taken < client->fds_kept && (taken == 0 || fds[taken - 1] != FD_LOST)) {
        fds[taken] = client->fds[taken];
        taken++;
    }
    client->fds_kept -= taken;
    memmove(client->fds, client->fds + taken, client->fds_kept * sizeof client->fds[0]);
    for (; taken < count; taken++)
        fds[taken] = -1;
}

void gm__close_fds(int *fds, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}

static bool keep_fd(struct gm_client *client, int fd)
{
    if (client->fds_kept == FDS_KEPT_MAX) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    client->fds[client->fds_kept++] = fd;
    return true;
}

/* Takes every descriptor of a message into our keeping, so that none can leak whatever happens next. */
static bool keep_fds(struct gm_client *client, struct msghdr *message)
{
    bool kept = true;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            kept &= keep_fd(client, fd);
        }
    }
    if (message->msg_flags & MSG_CTRUNC)
        kept &= keep_fd(client, FD_LOST);
    return kept;
}

static size_t frame_length(const uint8_t *at)
{
    return (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
}

/* Handles every whole frame of the input and keeps the rest. False when the connection cannot go on. */
static bool handle_frames(struct gm_client *client)
{
    size_t at = 0;

    while (client->input_bytes - at >= GM_FRAME_HEADER) {
        const size_t length = frame_length(client->input + at);
        if (length > GM_FRAME_BYTES_MAX)
            return false;
        if (client->input_bytes - at - GM_FRAME_HEADER < length)
            break;
        if (gm__reply(client, client->input + at + GM_FRAME_HEADER, length) != GM_OK)
            return false;
        at += GM_FRAME_HEADER + length;
    }
    client->input_bytes -= at;
    if (at > 0 && client->input_bytes > 0)
        memmove(client->input, client->input + at, client->input_bytes);
    /* With no frame begun, a descriptor that is still here came with a frame that has none. */
    return client->input_bytes > 0 || client->fds_kept == 0;
}

/* One recvmsg. Returns true when there may be more to read. */
static bool receive_once(struct gm_client *client)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int) * GM_FDS_PER_FRAME_MAX)];
    } control;
    const size_t space = INPUT_BYTES - client->input_bytes;
    struct iovec io = {client->input + client->input_bytes, space};
    struct msghdr message = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = sizeof control};
    const ssize_t n = recvmsg(client->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (n < 0 && errno == EINTR)
        return true;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return false;
    if (n <= 0) {
        gm__fail_all(client, GM_ECLOSED, n == 0 ? "the daemon closed the connection" : "the connection broke");
        return false;
    }
    client->input_bytes += (size_t)n;
    const bool with_fds = message.msg_controllen > 0 || (message.msg_flags & MSG_CTRUNC);
    if (!keep_fds(client, &message) || !handle_frames(client)) {
        gm__fail_all(client, GM_EPROTO, "the daemon sent a malformed message");
        return false;
    }
    /* The kernel ends a read behind descriptors; any other short read has taken everything. */
    return with_fds || (size_t)n == space;
}

static void receive(struct gm_client *client)
{
    for (int i = 0; i < READS_MAX && !client->closed; i++)
        if (!receive_once(client))
            return;
}

/* When the daemon reads no more, what it said before it went is read first: it may be the reason. */
void gm__conn_flush(struct gm_client *client)
{
    while (!client->closed && gm__conn_has_output(client)) {
        const ssize_t n = send(client->fd, client->output.bytes + client->sent, client->output.size - client->sent,
                               MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n < 0) {
            client->sent = client->output.size = 0;
            receive(client);
            gm__fail_all(client, GM_ECLOSED, "the daemon closed the connection");
            return;
        }
        client->sent += (size_t)n;
    }
    client->sent = client->output.size = 0;
}

void gm__conn_push(struct gm_client *client)
{
    gm__conn_flush(client);
    gm__event_output(client);
    if (gm__conn_has_output(client) && !client->reader_wants_output)
        gm__wake_reader(client);
}

int gm__conn_exchange(struct gm_client *client)
{
    gm__conn_flush(client);
    receive(client);
    /* Replies may have queued output of their own. */
    gm__conn_flush(client);
    gm__event_output(client);
    return client->closed ? GM_ECLOSED : GM_OK;
}

static bool has_room(const struct gm_client *client, size_t bytes)
{
    return client->output.capacity - client->output.size >= bytes;
}

int gm__conn_prepare(struct gm_client *client, size_t bytes)
{
    if (!has_room(client, bytes))
        gm__conn_flush(client);
    if (!has_room(client, bytes) && client->sent > 0) {
        client->output.size -= client->sent;
        memmove(client->output.bytes, client->output.bytes + client->sent, client->output.size);
        client->sent = 0;
    }
    if (client->closed)
        return GM_ECLOSED;
    return has_room(client, bytes) ? GM_OK : GM_EBUSY;
}
