/* SPDX-License-Identifier: Apache-2.0
 *
 * One request's state machine: a frame comes in, one answer goes out, now or later. Loop thread only.
 */
#ifndef GM_DAEMON_REQUEST_H
#define GM_DAEMON_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conn.h"
#include "wire.h"

struct gm_daemon;
struct gm_device;
struct gm_session;
struct gm_job;

/* Enough for an error, and for every small result. */
#define GM_REPLY_SMALL 512u

/* conn_io.on_frame; false: its answer has no room now. */
bool gm_request_frame(struct gm_conn *conn, const uint8_t *body, size_t size);
/* Error answer; nothing when the session has left. */
void gm_request_error(struct gm_session *session, uint32_t id, const struct gm_problem *problem);
/* A submit of it was refused. */
void gm_request_rejected(struct gm_session *session);
/* Empty map as the result. */
void gm_request_ok(struct gm_session *session, uint32_t id);

/* submit.c: check, resolve, stage and accept. OK, or an error in the problem; *device is set once one was chosen. */
void gm_submit(struct gm_session *session, const struct gm_wire_request *request);
/* The most that the answer to this submit takes. */
uint64_t gm_submit_reply_bytes(const struct gm_wire_submit *submit);
/* cancel.c */
void gm_cancel(struct gm_session *session, const struct gm_wire_request *request);
/* ops.c, stats.c */
void gm_request_ops(struct gm_session *session, uint32_t id);
void gm_request_ping(struct gm_session *session, uint32_t id);

#endif
