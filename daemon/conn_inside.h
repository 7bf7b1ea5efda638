/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two halves of a connection, conn.c (its life, what is written) and conn_read.c (what is read), know of each
 * other. Loop thread only.
 */
#ifndef GM_DAEMON_CONN_INSIDE_H
#define GM_DAEMON_CONN_INSIDE_H

#include "conn.h"

#define GM_CONN_FIRST 4096u                                     /* the first size of a buffer */
#define GM_CONN_OF(handle) ((struct gm_conn *)(void *)(handle)) /* poll is the first member */

static_assert(offsetof(struct gm_conn, poll) == 0, "the handle is the connection");

static inline uint32_t gm_frame_size(const uint8_t *header)
{
    return (uint32_t)header[0] << 24 | (uint32_t)header[1] << 16 | (uint32_t)header[2] << 8 | header[3];
}

/* After a half-close nothing is readable any more, and of one that is held nothing is read: only the hang-up, which
 * epoll always reports, is waited for. */
static inline int gm_conn_listens(const struct gm_conn *conn)
{
    return conn->ended || conn->held ? UV_PRIORITIZED : UV_READABLE;
}

void gm_conn_watch(struct gm_conn *conn, int events);
/* What uv_poll calls. */
void gm_conn_event(uv_poll_t *poll, int status, int events);
/* Its frames wait for its next turn. */
void gm_conn_put_off(struct gm_conn *conn);
/* It waits for its turn no more. */
void gm_conn_unlater(struct gm_conn *conn);
/* It has output, or is to be ended, at the end of the turn. */
void gm_conn_mark(struct gm_conn *conn);
/* Whenever what it holds may have changed. */
void gm_conn_account(struct gm_conn *conn);

#endif
