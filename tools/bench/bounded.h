/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend whose kernel never runs while the host does anything else, for tools that hold the host up until a launch
 * has ended. Work is written into the lane first; whatever launches the kernel then returns only when it has taken
 * everything and ended. One such device in a process; one thread.
 */
#ifndef GM_BENCH_BOUNDED_H
#define GM_BENCH_BOUNDED_H

#include "bed.h"

/* A launch begins; its call has returned; the kernel has ended, or the launch failed. */
enum gm_bounded_point { GM_BOUNDED_BEGINS, GM_BOUNDED_CALLED, GM_BOUNDED_ENDED };
typedef void gm_bounded_told(enum gm_bounded_point point, int status);

/* The backend with its start and kick followed by a join; for a config with idle_ns 0, which is the backend's own part
 * of this (park at once, no stream that waits, time for blocks to check in). The CPU's device is an ordinary one.
 * told: called at each point of each launch, or NULL. */
const struct gm_backend *gm_bounded_backend(const struct gm_backend *real, gm_bounded_told *told);

/* Launches so far, the present one included; none on a CPU. */
uint32_t gm_bounded_launches(void);

/* After a ring. On a bounded device the answer is there, or never comes. */
int gm_bounded_wait(struct gm_bed *bed, uint64_t position, struct gm_granule *completion);

#endif
