/* SPDX-License-Identifier: Apache-2.0
 *
 * The service manager's notification datagram (sd_notify(3)), without its library. Does nothing when NOTIFY_SOCKET is
 * not set. Loop thread.
 */
#ifndef GM_DAEMON_NOTIFY_H
#define GM_DAEMON_NOTIFY_H

void gm_notify(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
