/* SPDX-License-Identifier: Apache-2.0
 *
 * The public and the admin socket: listen, accept, close. Loop thread.
 */
#ifndef GM_DAEMON_ACCEPT_H
#define GM_DAEMON_ACCEPT_H

struct gm_daemon;

/* OK, or an error after gm_server_failed was told. */
int gm_accept_start(struct gm_daemon *d);
void gm_accept_end(struct gm_daemon *d);

#endif
