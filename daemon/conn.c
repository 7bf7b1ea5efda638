/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of one client's connection, through uv_poll, and what is written to it, by sendmsg, so that a descriptor
 * travels with its own frame. Loop thread only. What is read: conn_read.c.
 */
#include "conn_inside.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int gm_conn_open(struct gm_conn *conn, struct gm_conn_io *io, int fd)
{
    memset(conn, 0, sizeof *conn);
    conn->io = io;
    conn->fd = fd;
    if (uv_poll_init(io->loop, &conn->poll, fd) != 0)
        return GM_ESYSTEM;
    conn->state = GM_CONN_OPEN;
    conn->events = UV_READABLE;
    uv_poll_start(&conn->poll, conn->events, gm_conn_event);
    return GM_OK;
}

void gm_conn_watch(struct gm_conn *conn, int events)
{
    if (conn->events == events)
        return;
    conn->events = events;
    if (events == 0)
        uv_poll_stop(&conn->poll);
    else
        uv_poll_start(&conn->poll, events, gm_conn_event);
}

static void gm_conn_freed(uv_handle_t *handle)
{
    struct gm_conn *conn = GM_CONN_OF(handle);
    conn->io->on_closed(conn);
}

void gm_conn_resume(struct gm_conn *conn)
{
    if (!conn->held || conn->resuming || conn->later)
        return;
    conn->resuming = true;
    conn->resume_next = conn->io->resume;
    conn->io->resume = conn;
}

void gm_conn_put_off(struct gm_conn *conn)
{
    struct gm_conn_io *io = conn->io;
    conn->held = conn->later = true;
    conn->resume_next = NULL;
    if (io->later == NULL)
        io->later = conn;
    else
        io->later_last->resume_next = conn;
    io->later_last = conn;
}

void gm_conn_unlater(struct gm_conn *conn)
{
    struct gm_conn_io *io = conn->io;
    struct gm_conn *before = NULL;
    for (struct gm_conn *at = io->later; conn->later && at != conn; at = at->resume_next)
        before = at;
    if (!conn->later)
        return;
    if (before == NULL)
        io->later = conn->resume_next;
    else
        before->resume_next = conn->resume_next;
    if (io->later_last == conn)
        io->later_last = before;
    conn->later = false;
}

/* Of the lists of those whose frames are tried again. */
static void gm_conn_unresume(struct gm_conn *conn)
{
    gm_conn_unlater(conn);
    for (struct gm_conn **at = &conn->io->resume; conn->resuming && *at != NULL; at = &(*at)->resume_next)
        if (*at == conn) {
            *at = conn->resume_next;
            break;
        }
    conn->resuming = false;
}

static void gm_conn_undirty(struct gm_conn *conn)
{
    for (struct gm_conn **at = &conn->io->dirty; conn->dirty && *at != NULL; at = &(*at)->dirty_next)
        if (*at == conn) {
            *at = conn->dirty_next;
            break;
        }
    conn->dirty = false;
}

void gm_conn_account(struct gm_conn *conn)
{
    const struct gm_conn_account now = {.in = conn->in_size, .out = gm_conn_unsent(conn)};
    if (conn->account != NULL) {
        conn->account->in += now.in - conn->counted.in;
        conn->account->out += now.out - conn->counted.out;
    }
    conn->counted = now;
}

void gm_conn_close(struct gm_conn *conn, const char *reason)
{
    if (conn->state == GM_CONN_GONE)
        return;
    conn->state = GM_CONN_GONE;
    gm_conn_undirty(conn);
    gm_conn_unresume(conn);
    uv_poll_stop(&conn->poll);
    close(conn->fd); /* after uv_poll_stop, which needs it; uv_close touches it no more */
    conn->fd = -1;
    for (uint32_t i = 0; i < conn->fds_count; i++)
        close(conn->fds[i].fd);
    conn->fds_count = 0;
    free(conn->in), free(conn->out);
    conn->in = conn->out = NULL;
    conn->in_size = conn->in_capacity = conn->out_start = conn->out_end = conn->out_capacity = 0;
    gm_conn_account(conn);
    conn->io->on_gone(conn, reason);
    uv_close((uv_handle_t *)&conn->poll, gm_conn_freed);
}

/* ---- output ---- */

static bool gm_conn_room(struct gm_conn *conn, size_t bytes)
{
    if (conn->out_capacity - conn->out_end >= bytes)
        return true;
    if (conn->out_start != 0) {
        memmove(conn->out, conn->out + conn->out_start, gm_conn_unsent(conn));
        conn->out_end -= conn->out_start, conn->out_start = 0;
    }
    size_t capacity = conn->out_capacity != 0 ? conn->out_capacity : GM_CONN_FIRST;
    while (capacity < conn->out_end + bytes)
        capacity *= 2;
    if (capacity == conn->out_capacity)
        return true;
    uint8_t *grown = realloc(conn->out, capacity);
    if (grown == NULL)
        return false;
    conn->out = grown, conn->out_capacity = capacity;
    return true;
}

void gm_conn_mark(struct gm_conn *conn)
{
    if (conn->dirty)
        return;
    conn->dirty = true;
    conn->dirty_next = conn->io->dirty;
    conn->io->dirty = conn;
}

bool gm_conn_reserve(struct gm_conn *conn, size_t bytes, struct gm_wire_out *out)
{
    struct gm_problem problem;
    if (conn->state != GM_CONN_OPEN)
        return false;
    if (gm_conn_unsent(conn) + bytes > GM_CONN_OUTPUT_MAX) {
        gm_conn_flush(conn);
        if (conn->state != GM_CONN_OPEN)
            return false;
    }
    if (gm_conn_unsent(conn) + bytes > GM_CONN_OUTPUT_MAX) {
        gm_conn_goodbye_slow(conn);
        return false;
    }
    if (!gm_conn_room(conn, bytes)) {
        gm_problem_set(&problem, GM_ENOMEM, "", "goodbye: no memory for the reply");
        gm_conn_goodbye(conn, &problem);
        return false;
    }
    *out = (struct gm_wire_out){.bytes = conn->out + conn->out_end, .capacity = bytes};
    return true;
}

void gm_conn_commit_fds(struct gm_conn *conn, const struct gm_wire_out *out, const int *fds, uint32_t count)
{
    assert(!out->overflow && out->bytes == conn->out + conn->out_end && out->size <= out->capacity);
    assert(count <= GM_FDS_PER_FRAME_MAX);
    if (conn->fds_count + count > GM_CONN_FDS)
        gm_conn_flush(conn);
    if (conn->state != GM_CONN_OPEN || conn->fds_count + count > GM_CONN_FDS) {
        for (uint32_t i = 0; i < count; i++)
            close(fds[i]);
        if (conn->state == GM_CONN_OPEN) {
            conn->slow = true;
            gm_conn_goodbye(conn, NULL);
        }
        return;
    }
    /* What stood before it was sent, so its place is the front now. */
    if (out->bytes != conn->out + conn->out_end)
        memmove(conn->out + conn->out_end, out->bytes, out->size);
    for (uint32_t i = 0; i < count; i++) {
        conn->fds[conn->fds_count].at = conn->out_sent + gm_conn_unsent(conn);
        conn->fds[conn->fds_count++].fd = fds[i];
    }
    conn->out_end += out->size;
    gm_conn_account(conn);
    gm_conn_mark(conn);
}

void gm_conn_commit(struct gm_conn *conn, const struct gm_wire_out *out, int fd)
{
    gm_conn_commit_fds(conn, out, &fd, fd >= 0 ? 1u : 0u);
}

/* How many descriptors belong to the frame that is next in the output. */
static uint32_t gm_conn_carried(const struct gm_conn *conn)
{
    uint32_t count = 0;
    while (count < conn->fds_count && conn->fds[count].at == conn->out_sent)
        count++;
    return count;
}

/* One sendmsg: up to the next frame with descriptors, or that frame and its descriptors. */
static ssize_t gm_conn_send(struct gm_conn *conn)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(GM_FDS_PER_FRAME_MAX * sizeof(int))];
    } control;
    const uint32_t carried = gm_conn_carried(conn);
    size_t size = gm_conn_unsent(conn);
    struct iovec piece = {.iov_base = conn->out + conn->out_start};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    if (carried != 0) {
        size = GM_FRAME_HEADER + gm_frame_size(piece.iov_base);
        memset(&control, 0, sizeof control);
        message.msg_control = control.bytes, message.msg_controllen = CMSG_SPACE(carried * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(carried * sizeof(int));
        for (uint32_t i = 0; i < carried; i++)
            memcpy(CMSG_DATA(header) + i * sizeof(int), &conn->fds[i].fd, sizeof(int));
    } else if (conn->fds_count != 0) {
        size = (size_t)(conn->fds[0].at - conn->out_sent);
    }
    piece.iov_len = size;
    const ssize_t sent = sendmsg(conn->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0 && carried != 0) {
        for (uint32_t i = 0; i < carried; i++)
            close(conn->fds[i].fd);
        conn->fds_count -= carried;
        memmove(&conn->fds[0], &conn->fds[carried], conn->fds_count * sizeof conn->fds[0]);
    }
    return sent;
}

void gm_conn_flush(struct gm_conn *conn)
{
    if (conn->state == GM_CONN_GONE)
        return;
    gm_conn_undirty(conn);
    while (gm_conn_unsent(conn) != 0) {
        const ssize_t sent = gm_conn_send(conn);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ETOOMANYREFS)) {
            gm_conn_watch(conn, gm_conn_listens(conn) | UV_WRITABLE);
            return;
        }
        if (sent < 0) {
            gm_conn_close(conn, "write failed");
            return;
        }
        conn->out_start += (size_t)sent, conn->out_sent += (uint64_t)sent;
        gm_conn_account(conn);
        gm_conn_resume(conn);
    }
    conn->out_start = conn->out_end = 0;
    if (conn->state == GM_CONN_GOODBYE)
        gm_conn_close(conn, conn->slow ? "slow reader" : "goodbye");
    else if (conn->ended && !conn->io->is_busy(conn))
        gm_conn_close(conn, "end of file");
    else
        gm_conn_watch(conn, gm_conn_listens(conn));
}

void gm_conn_flush_all(struct gm_conn_io *io)
{
    while (io->dirty != NULL) {
        struct gm_conn *conn = io->dirty;
        io->dirty = conn->dirty_next;
        conn->dirty = false;
        gm_conn_flush(conn);
    }
}

void gm_conn_goodbye(struct gm_conn *conn, const struct gm_problem *problem)
{
    if (conn->state != GM_CONN_OPEN)
        return;
    conn->state = GM_CONN_GOODBYE;
    conn->held = false;
    gm_conn_unresume(conn);
    if (problem != NULL && gm_conn_room(conn, GM_CONN_LAST)) {
        struct gm_wire_out out = {.bytes = conn->out + conn->out_end, .capacity = GM_CONN_LAST};
        if (gm_wire_encode_error(&out, 0, false, problem) == GM_OK)
            conn->out_end += out.size;
    }
    /* Still readable: an end of file tells that nobody will read the rest. Input is thrown away. */
    gm_conn_mark(conn);
}

void gm_conn_goodbye_slow(struct gm_conn *conn)
{
    struct gm_problem problem;
    conn->slow = true;
    gm_problem_set(&problem, GM_ECLOSED, "", "goodbye: %zu bytes of replies were not read", gm_conn_unsent(conn));
    gm_conn_goodbye(conn, &problem);
}

void gm_conn_trim(struct gm_conn *conn)
{
    if (conn->state == GM_CONN_GONE)
        return;
    if (gm_conn_unsent(conn) == 0 && conn->out_capacity != 0) {
        free(conn->out);
        conn->out = NULL, conn->out_start = conn->out_end = conn->out_capacity = 0;
    }
    if (conn->in_size == 0 && conn->in_capacity != 0) {
        free(conn->in);
        conn->in = NULL, conn->in_capacity = 0;
    }
}
