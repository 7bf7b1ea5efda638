/* SPDX-License-Identifier: Apache-2.0
 *
 * Life of the daemon: start, accept, signals, drain, stop. Main thread, which is the loop thread.
 */
#ifndef GM_DAEMON_SERVER_H
#define GM_DAEMON_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "config.h"

struct gm_daemon;
struct gm_session;

/* Runs a configured daemon to its end; the exit status. */
int gm_server_run(const struct gm_config *config);

/* Told by devices.c. */
void gm_server_devices_up(struct gm_daemon *d);
void gm_server_failed(struct gm_daemon *d, const char *reason);
/* A descriptor became free: accept again when that had stopped. */
void gm_server_fd_free(struct gm_daemon *d);
/* Admin drain; answered when nothing is in flight. */
void gm_server_drain(struct gm_session *session, uint32_t request);
/* Whether it waits for that answer. */
bool gm_server_drains(const struct gm_session *session);
/* A client said something: the next tick comes soon. */
void gm_server_hurry(struct gm_daemon *d);
/* Once a turn: drains that are complete, the next step of a stop. */
void gm_server_progress(struct gm_daemon *d);

#endif
