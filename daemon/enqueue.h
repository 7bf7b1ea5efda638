/* SPDX-License-Identifier: Apache-2.0
 *
 * From the fair queue into lane 0. Deficit round robin over users, then over the sessions of a user; what a job costs
 * grows with the bytes it touches. Loop thread only.
 */
#ifndef GM_DAEMON_ENQUEUE_H
#define GM_DAEMON_ENQUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct gm_daemon;
struct gm_device;
struct gm_job;

#define GM_QUANTUM 8      /* units a turn: 8 small jobs */
#define GM_COST_SHIFT 16u /* 64 KiB of data cost one unit more */
#define GM_COST_MAX 1024u

uint32_t gm_enqueue_cost(uint64_t bytes);
void gm_enqueue_push(struct gm_device *v, struct gm_job *job);
/* Back to the front of its flow, its debt forgiven: it was in the lane of a process that ended before it took it. */
void gm_enqueue_return(struct gm_device *v, struct gm_job *job);
/* Takes a queued job out, wherever it stands. */
void gm_enqueue_remove(struct gm_job *job);
/* The next job in fair order, out of the queue; NULL when it is empty. */
struct gm_job *gm_enqueue_next(struct gm_device *v);
/* Fits the window to what the device does, while a backlog waits. */
void gm_enqueue_adapt(struct gm_device *v, uint64_t now);
/* Moves jobs into the lane while it has room, and rings when the device sleeps. true: moved some. */
bool gm_enqueue_flush(struct gm_daemon *d);

#endif
