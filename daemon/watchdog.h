/* SPDX-License-Identifier: Apache-2.0
 *
 * Heartbeats of the devices: pings at an interval, unhealthy after a deadline, killed after a longer one. Loop thread.
 */
#ifndef GM_DAEMON_WATCHDOG_H
#define GM_DAEMON_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

struct gm_daemon;

/* From a timer. true: all devices sleep and have nothing to do, and the next tick may be gm_watchdog_calm_ms away;
 * otherwise it comes after a ping interval. */
bool gm_watchdog_tick(struct gm_daemon *d);
uint32_t gm_watchdog_calm_ms(const struct gm_daemon *d);

#endif
