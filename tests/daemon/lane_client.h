/* SPDX-License-Identifier: Apache-2.0
 *
 * A client's lane in the hands of a test: opened by raw frames, written and read in plain sight. Test thread; every
 * wait is bounded.
 */
#ifndef GM_TESTS_DAEMON_LANE_CLIENT_H
#define GM_TESTS_DAEMON_LANE_CLIENT_H

#include "harness.h"
#include "lane.h"

struct lane {
    uint32_t handle, device, slots, log2;
    uint64_t bytes, start, next; /* next: position that is written next */
    uint8_t *memory;
    struct gm_lane_header *header;
    int fd, doorbell, wake;
};

/* lane.open: OK and the lane, or the error's code. slots 0: absent; device -1: absent. */
int lane_open(struct client *c, int device, uint32_t slots, struct lane *lane);
/* The two halves of it. */
void lane_ask(struct client *c, int device, uint32_t slots);
int lane_receive(struct client *c, struct lane *lane);
/* lane.close: OK or the error's code. The mapping stays until lane_unmap. */
int lane_close(struct client *c, const struct lane *lane);
void lane_unmap(struct lane *lane);

/* Publishes a descriptor and rings when the device sleeps; its position. */
uint64_t lane_put(struct lane *lane, uint32_t op, uint64_t n);
uint64_t lane_put_on(struct lane *lane, uint32_t op, uint32_t arena, uint64_t n);
/* true: the position is answered. */
bool lane_look(const struct lane *lane, uint64_t position, int *status, uint64_t *result);
/* Waits for it: its status. */
int lane_wait(const struct lane *lane, uint64_t position);
/* Waits for header.state. */
void lane_wait_state(const struct lane *lane, uint32_t state);

#endif
