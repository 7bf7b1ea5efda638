/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a turn of the loop: jobs into lanes, completions out of them, replies to sockets, then spin or sleep. Loop
 * thread only; work per turn is bounded by the window of each device.
 */
#ifndef GM_DAEMON_REAP_H
#define GM_DAEMON_REAP_H

#include <stdbool.h>
#include <stdint.h>

struct gm_daemon;
struct gm_device;

/* Answers every completion that is in the ring of a device; how many. */
uint32_t gm_reap_device(struct gm_device *v);
/* uv_prepare callback body: runs after all events of the turn and right before epoll. */
void gm_reap_turn(struct gm_daemon *d);
/* How long the loop may spin for a completion before it sleeps, and at most for the next of requests that come close
 * behind each other: nothing on machines where it would take the CPU from the workers it waits for. */
uint64_t gm_reap_spin_budget(const struct gm_daemon *d);

#endif
