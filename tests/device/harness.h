/* SPDX-License-Identifier: Apache-2.0
 *
 * A device in this process, for tests: what gridmilld and the device's main thread do around the scheduler, reduced to
 * opening a backend, lanes and arenas. One thread calls everything here; every wait has a deadline and fails the test.
 */
#ifndef GM_TESTS_HARNESS_H
#define GM_TESTS_HARNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "admin.h"
#include "backend.h"

#define GM_HARNESS_SESSION 7u
#define GM_HARNESS_MAPS    64u
#define GM_HARNESS_WAIT_MS 120000u

struct gm_harness {
    const struct gm_backend *backend;
    struct gm_device *device;
    struct gm_control_hello hello;
    struct gm_admin admin;
    uint8_t *region;
    int doorbell_fd, bells_fd, wake_fd; /* the doorbell is among the bells */
    uint32_t arenas, maps;
    struct {
        void *host; /* NULL: device memory */
        uint64_t bytes, address;
    } map[GM_HARNESS_MAPS];
    char text[GM_ERROR_TEXT_MAX];
};

struct gm_harness_lane {
    struct gm_harness *harness;
    struct gm_lane_header *header;
    struct gm_desc_slot *sq;
    struct gm_granule *cq;
    uint32_t index, slots_log2;
    uint64_t position;                 /* next to submit */
    uint8_t pending[GM_LANE_SLOTS_MAX]; /* slots of a job not waited for: how many it has from here */
};

struct gm_harness_arena {
    uint8_t *data; /* NULL for device memory */
    uint64_t bytes, address;
    uint32_t handle;
};

/* The backend that GRIDMILL_TEST_BACKEND names: cpu when unset. NULL when this build has not got it. */
const struct gm_backend *gm_harness_backend(void);
bool gm_harness_is_cuda(void);

/* config: region and descriptors are filled in. Workers, when 0: GRIDMILL_TEST_WORKERS, else 4 on the CPU and all on a
 * GPU. GRIDMILL_TEST_PLAIN=1: no bulk copies. Exits 77 when there is no such device. */
void gm_harness_open(struct gm_harness *h, const struct gm_device_config *config);
void gm_harness_close(struct gm_harness *h);

/* Lanes 1 .. GM_LANES_MAX; slots a power of two; start: first position. Lane 0 stands in the region. */
void gm_harness_lane_open(struct gm_harness *h, struct gm_harness_lane *lane, uint32_t index, uint32_t slots_log2,
                          uint64_t start);

/* Memory between two pages that nobody may touch, so that a byte too far is a fault. Host memory, or the device's. */
void gm_harness_arena_open(struct gm_harness *h, struct gm_harness_arena *arena, uint64_t bytes, bool on_device);

/* Writes a descriptor (and its second half) and rings if the device sleeps. The slots must be free. */
uint64_t gm_harness_submit(struct gm_harness_lane *lane, const uint32_t *words);
bool gm_harness_answered(const struct gm_harness_lane *lane, uint64_t position, struct gm_granule *completion);
/* The completion of a position, which frees its slots. */
struct gm_granule gm_harness_wait(struct gm_harness_lane *lane, uint64_t position);
/* Waits until the device holds no job and no workspace, and returns its counters. */
struct gm_device_counters gm_harness_idle(struct gm_harness *h);

uint64_t gm_harness_now_ms(void);

#endif
