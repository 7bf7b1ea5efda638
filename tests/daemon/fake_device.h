/* SPDX-License-Identifier: Apache-2.0
 *
 * The two halves of the fake device process: the jobs of its lanes (fake_lane.c), and everything else (fake_device.c).
 * One thread.
 */
#ifndef GM_TESTS_DAEMON_FAKE_DEVICE_H
#define GM_TESTS_DAEMON_FAKE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "control.h"
#include "errors.h"

struct fake_lane {
    uint8_t *memory; /* NULL: not there */
    uint32_t log2, index;
    uint64_t head, taken, completed;
    uint32_t refused; /* in a row */
    bool shut;
    int doorbell, wake;
};

/* What the process is about. */
extern const char *fake_mode;
extern uint8_t *fake_region;
extern struct gm_device_counters *fake_counters;
extern uint64_t fake_jobs; /* taken so far */
extern struct fake_lane fake_lanes[GM_LANE_TABLE];
extern struct gm_control_arena fake_arenas[GM_ARENAS_MAX]; /* handle 0: free */

static inline bool is(const char *what)
{
    return strcmp(fake_mode, what) == 0;
}

static inline struct gm_lane_header *header_of(const struct fake_lane *lane)
{
    return (struct gm_lane_header *)(void *)lane->memory;
}

/* A look at all lanes, and what their jobs want; false: there was nothing. */
bool fake_poll_lanes(void);
/* Jobs that are held and not answered: the one at this position, or all of the lane. false: there is none. */
bool fake_cancel(struct fake_lane *lane, uint64_t position, bool all);

#endif
