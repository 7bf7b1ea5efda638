/* SPDX-License-Identifier: Apache-2.0
 *
 * Heartbeats of the devices: pings at an interval, unhealthy after a deadline, killed after a longer one. Loop thread.
 */
#ifndef GM_DAEMON_WATCHDOG_H
#define GM_DAEMON_WATCHDOG_H

struct gm_daemon;

/* From a timer, every ping interval. */
void gm_watchdog_tick(struct gm_daemon *d);

#endif
