/* SPDX-License-Identifier: Apache-2.0
 *
 * The device process's end of the admin lane: post a privileged descriptor, wait for its completion. One thread; one
 * call at a time, each bounded by a deadline, so that a wedged dispatcher costs the caller that long and no more.
 */
#ifndef GM_DEVICE_ADMIN_H
#define GM_DEVICE_ADMIN_H

#include "backend.h"

struct gm_admin {
    const struct gm_backend *backend;
    struct gm_device *device;
    struct gm_lane_header *header;
    struct gm_desc_slot *sq;
    struct gm_granule *cq;
    uint64_t position, stop_position;
    bool stop; /* a stop was posted at stop_position, and its answer was not seen yet */
};

/* Before the backend is opened: what a process before this one posted means nothing any more. */
void gm_admin_clear(void *region);
void gm_admin_init(struct gm_admin *admin, const struct gm_backend *backend, struct gm_device *device, void *region);

/* words: GM_DESC_WORDS / 2 of them, unused ones zero. Returns the completion's status, or ETIMEDOUT, or
 * EDEVICELOST. */
int gm_admin_call(struct gm_admin *admin, const uint32_t *words, uint64_t *result, uint32_t timeout_ms);

/* address: of the lane's header, journal: of its first word, as the device sees them. */
int gm_admin_lane_open(struct gm_admin *admin, const struct gm_control_lane *lane, uint64_t address, uint64_t journal);
/* OK: nobody touches the lane's memory any more. EBUSY: its jobs were told to abort, ask again. */
int gm_admin_lane_close(struct gm_admin *admin, uint32_t lane);
int gm_admin_arena_set(struct gm_admin *admin, const struct gm_control_arena *arena, uint64_t address, uint32_t flags);
/* As for a lane: EBUSY while a job in flight may use it. */
int gm_admin_arena_clear(struct gm_admin *admin, uint32_t handle);
int gm_admin_cancel(struct gm_admin *admin, uint32_t lane, uint64_t position);
int gm_admin_ping(struct gm_admin *admin, uint64_t *turns, uint32_t timeout_ms);
/* Stop tickets for every worker; then waits until they are gone. After ETIMEDOUT the next call waits for the same stop.
 */
int gm_admin_stop(struct gm_admin *admin, char *text);

#endif
