/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads of one client: bytes into frames, and frames in their turn. Loop thread only. Every event does one read of at
 * most GM_CONN_SCRATCH bytes: a client that pours does not keep the others waiting, and epoll reports it again.
 */
#include "conn_inside.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* No method takes descriptors: what came is closed. false: some did not fit, which no client of ours causes. */
static bool gm_conn_drop_fds(struct msghdr *message)
{
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL; header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
            close(fd);
        }
    }
    return (message->msg_flags & MSG_CTRUNC) == 0;
}

static void gm_conn_broken(struct gm_conn *conn, int code, const char *text)
{
    struct gm_problem problem;
    conn->broken = true;
    gm_problem_set(&problem, code, "", "%s", text);
    gm_conn_goodbye(conn, &problem);
}

/* Bytes that the partial frame still needs: of its header first, then of its body. 0: it is whole. */
static size_t gm_conn_wants(struct gm_conn *conn)
{
    if (conn->in_size < GM_FRAME_HEADER)
        return GM_FRAME_HEADER - conn->in_size;
    return GM_FRAME_HEADER + gm_frame_size(conn->in) - conn->in_size;
}

/* false: goodbye was said. */
static bool gm_conn_check_size(struct gm_conn *conn, uint32_t size)
{
    if (size != 0 && size <= GM_FRAME_BYTES_MAX)
        return true;
    char text[GM_ERROR_TEXT_MAX] = "frame of length 0";
    if (size != 0) /* the number shows a client that its bytes are in the wrong order, or no length at all */
        snprintf(text, sizeof text, "a frame of %u bytes; at most %u", size, GM_FRAME_BYTES_MAX);
    gm_conn_broken(conn, size == 0 ? GM_EPROTO : GM_ETOOLARGE, text);
    return false;
}

static bool gm_conn_keep(struct gm_conn *conn, const uint8_t *bytes, size_t size)
{
    if (conn->account != NULL && size != 0 && conn->account->in + size > conn->io->account_in_max) {
        gm_conn_broken(conn, GM_EBUSY, "busy: too many bytes of unfinished messages of the user");
        return false;
    }
    if (conn->in_capacity - conn->in_size < size) {
        size_t capacity = conn->in_capacity != 0 ? conn->in_capacity : GM_CONN_FIRST;
        while (capacity < conn->in_size + size)
            capacity *= 2;
        uint8_t *grown = realloc(conn->in, capacity);
        if (grown == NULL) {
            gm_conn_broken(conn, GM_ENOMEM, "no memory for the frame");
            return false;
        }
        conn->in = grown, conn->in_capacity = capacity;
    }
    if (size != 0)
        memcpy(conn->in + conn->in_size, bytes, size);
    conn->in_size += size;
    gm_conn_account(conn);
    return true;
}

/* The whole frames at the start of these bytes, until one is held; returns how many bytes they are. */
static size_t gm_conn_walk(struct gm_conn *conn, const uint8_t *bytes, size_t size)
{
    size_t at = 0;
    while (conn->state == GM_CONN_OPEN && !conn->held && size - at >= GM_FRAME_HEADER) {
        const uint32_t body = gm_frame_size(bytes + at);
        if (!gm_conn_check_size(conn, body) || size - at - GM_FRAME_HEADER < body)
            break;
        if (conn->io->may_go_on != NULL && !conn->io->may_go_on(conn)) {
            gm_conn_put_off(conn);
            gm_conn_mark(conn); /* so that it is watched no more */
            break;
        }
        if (!conn->io->on_frame(conn, bytes + at + GM_FRAME_HEADER, body)) {
            assert(conn->state == GM_CONN_OPEN && (gm_conn_unsent(conn) != 0 || conn->promised != 0));
            conn->held = true;
            gm_conn_mark(conn); /* so that what is not unsent but sent in this turn counts, and it is watched no more */
            break;
        }
        conn->io->frames++;
        at += GM_FRAME_HEADER + body;
    }
    return at;
}

/* Hands on the frames of the connection's own buffer, and keeps what is no whole frame, or held. */
static bool gm_conn_deliver_kept(struct gm_conn *conn)
{
    /* Taken out of the connection: the handler may close it while it still reads the frame. */
    uint8_t *bytes = conn->in;
    const size_t size = conn->in_size, capacity = conn->in_capacity;
    conn->in = NULL, conn->in_size = conn->in_capacity = 0;
    const size_t taken = gm_conn_walk(conn, bytes, size);
    if (conn->state == GM_CONN_OPEN && (taken < size || capacity <= GM_CONN_KEEP)) {
        if (taken != 0 && taken < size)
            memmove(bytes, bytes + taken, size - taken);
        conn->in = bytes, conn->in_size = size - taken, conn->in_capacity = capacity;
    } else {
        free(bytes);
    }
    gm_conn_account(conn);
    return taken != 0;
}

bool gm_conn_resume_all(struct gm_conn_io *io)
{
    bool any = false;
    while (io->resume != NULL) {
        struct gm_conn *conn = io->resume;
        io->resume = conn->resume_next;
        conn->resuming = conn->held = false;
        any |= gm_conn_deliver_kept(conn);
        gm_conn_mark(conn); /* its flush says what is waited for next */
    }
    return any;
}

bool gm_conn_later(struct gm_conn_io *io)
{
    bool any = false;
    uint32_t left = 0; /* those that are put off again stand behind */
    for (const struct gm_conn *at = io->later; at != NULL; at = at->resume_next)
        left++;
    for (; left != 0 && io->later != NULL; left--) {
        struct gm_conn *conn = io->later;
        gm_conn_unlater(conn);
        if (!io->may_read(conn)) {
            gm_conn_put_off(conn);
            continue;
        }
        conn->held = false;
        any |= gm_conn_deliver_kept(conn);
        gm_conn_mark(conn); /* its flush says what is waited for next */
    }
    return any;
}

/* Completes the partial frame from fresh bytes; returns how many it took. */
static size_t gm_conn_complete(struct gm_conn *conn, const uint8_t *bytes, size_t size)
{
    size_t taken = 0;
    while (conn->state == GM_CONN_OPEN && !conn->held && conn->in_size != 0) {
        size_t piece = gm_conn_wants(conn);
        piece = piece < size - taken ? piece : size - taken;
        if (!gm_conn_keep(conn, bytes + taken, piece))
            break;
        taken += piece;
        if (conn->in_size < GM_FRAME_HEADER)
            break;
        if (!gm_conn_check_size(conn, gm_frame_size(conn->in)))
            break;
        if (gm_conn_wants(conn) == 0)
            gm_conn_deliver_kept(conn);
        else if (taken == size)
            break;
    }
    return taken;
}

static void gm_conn_frames(struct gm_conn *conn, const uint8_t *bytes, size_t size)
{
    size_t at = gm_conn_complete(conn, bytes, size);
    at += gm_conn_walk(conn, bytes + at, size - at);
    if (conn->state == GM_CONN_OPEN && at < size)
        gm_conn_keep(conn, bytes + at, size - at);
}

/* A peer that only ended its own side still reads: it gets what it asked for. */
static void gm_conn_end(struct gm_conn *conn)
{
    struct pollfd peer = {.fd = conn->fd};
    if (conn->in_size != 0 || poll(&peer, 1, 0) != 0) {
        gm_conn_close(conn, conn->in_size != 0 ? "end of file inside a frame" : "end of file");
        return;
    }
    conn->ended = true;
    gm_conn_watch(conn, gm_conn_listens(conn));
    gm_conn_mark(conn);
}

static void gm_conn_read(struct gm_conn *conn)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(GM_FDS_PER_FRAME_MAX * sizeof(int))];
    } control;
    struct iovec piece = {.iov_base = conn->io->scratch, .iov_len = sizeof conn->io->scratch};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    const ssize_t got = recvmsg(conn->fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0) {
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
            gm_conn_close(conn, "read failed");
        return;
    }
    const bool whole = gm_conn_drop_fds(&message);
    if (got == 0) {
        gm_conn_end(conn);
        return;
    }
    if (conn->state != GM_CONN_OPEN)
        return; /* goodbye was said; what still comes is thrown away */
    if (!whole)
        gm_conn_broken(conn, GM_EPROTO, "too many descriptors");
    else
        gm_conn_frames(conn, conn->io->scratch, (size_t)got);
}

void gm_conn_event(uv_poll_t *poll, int status, int events)
{
    struct gm_conn *conn = GM_CONN_OF(poll);
    if (status < 0) {
        gm_conn_close(conn, "poll failed");
        return;
    }
    if (events & UV_PRIORITIZED) {
        gm_conn_close(conn, "peer left");
        return;
    }
    if (events & UV_WRITABLE)
        gm_conn_flush(conn);
    /* Where it is not its turn epoll reports it again. */
    if (conn->state != GM_CONN_GONE && !conn->held && (events & UV_READABLE) &&
        (conn->io->may_read == NULL || conn->io->may_read(conn)))
        gm_conn_read(conn);
}
