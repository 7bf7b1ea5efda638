/* SPDX-License-Identifier: Apache-2.0
 *
 * A device in this process, for measurements and long runs: a backend, lane 0 in the region, arenas. It does what
 * gridmilld and the device's main thread do around the scheduler, and nothing that a clock would see: no allocation,
 * no driver call and no system call on the way of a job, unless the device sleeps. One thread submits and one (or the
 * same) reads completions; everything else belongs to the thread that opened the bed.
 */
#ifndef GM_BENCH_RIG_H
#define GM_BENCH_RIG_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "admin.h"
#include "backend.h"

#define GM_BED_SESSION    1u
#define GM_BED_ARENAS     16u
#define GM_BED_WAIT_NS    UINT64_C(60000000000) /* no job of ours takes longer: a wedged device ends the program */
#define GM_BED_LANE0_LOG2 12u
static_assert(1u << GM_BED_LANE0_LOG2 == GM_LANE0_SLOTS, "lane 0");

struct gm_bed_arena {
    uint8_t *host; /* NULL: device memory */
    uint64_t address, bytes;
    uint32_t handle;
};

struct gm_bed {
    const struct gm_backend *backend;
    struct gm_device *device;
    struct gm_control_hello hello;
    struct gm_admin admin;
    uint8_t *region;
    int doorbell_fd, bells_fd, wake_fd;
    struct gm_lane_header *header;
    struct gm_desc_slot *sq;
    const struct gm_granule *cq;
    uint64_t position; /* next to submit */
    uint32_t spins;    /* looks at a completion before the processor is offered to others; 0: never offered */
    uint32_t arenas;
    struct gm_bed_arena arena[GM_BED_ARENAS];
    char text[GM_ERROR_TEXT_MAX]; /* of the last failure */
};

/* The backend of that name in this build, or NULL. */
const struct gm_backend *gm_bed_backend(const char *name);

/* Opens and starts the device with lane 0 at a position (a multiple of GM_LANE0_SLOTS). config: region and descriptors
 * are filled in. GM_OK, or an error and a text; then nothing is left open that could be closed. */
int gm_bed_open(struct gm_bed *bed, const struct gm_backend *backend, const struct gm_device_config *config,
                uint64_t lane_start);
/* Stops the workers and gives everything back. */
int gm_bed_close(struct gm_bed *bed);

/* Arena index generation: the row is the next free one. Host memory is shared with the device, zeroed. */
int gm_bed_arena_open(struct gm_bed *bed, uint64_t bytes, bool on_device, uint32_t generation,
                      struct gm_bed_arena **arena);

/* The device's counters as they were stored last. */
struct gm_device_counters gm_bed_counters(const struct gm_bed *bed);
/* Waits until the device holds no job, and its counters say so. */
int gm_bed_settle(struct gm_bed *bed);

/* Stop tickets, join, start. */
int gm_bed_pause(struct gm_bed *bed);

/* A device that says asleep is rung. Any thread, for a device that never parks; else the thread that opened it. */
int gm_bed_ring(struct gm_bed *bed);

static inline uint64_t gm_bed_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void gm_bed_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Writes a descriptor at position, which must be free, and returns the next position. The caller rings. */
static inline uint64_t gm_bed_put(struct gm_bed *bed, uint64_t position, const uint32_t *words)
{
    const uint32_t wide = words[GM_W_OP] >> 24 & GM_FLAG_WIDE;
    gm_desc_store(bed->sq, GM_BED_LANE0_LOG2, position, words, 0);
    if (wide)
        gm_desc_store(bed->sq, GM_BED_LANE0_LOG2, position + 1u, words, 1);
    return position + (wide ? 2u : 1u);
}

/* The client's half of the doorbell: the fence pairs with the one in gm_park. */
static inline bool gm_bed_asleep(struct gm_bed *bed)
{
    gm_fence_sys();
    return gm_load_relaxed_sys_u32(&bed->header->asleep) != 0;
}

static inline bool gm_bed_answered(const struct gm_bed *bed, uint64_t position, struct gm_granule *completion)
{
    *completion = gm_load16_sys(&bed->cq[position & (GM_LANE0_SLOTS - 1u)]);
    return completion->w[3] == gm_lap(position, GM_BED_LANE0_LOG2);
}

/* Submits one job and rings when needed. */
int gm_bed_submit(struct gm_bed *bed, const uint32_t *words, uint64_t *position);
/* Looks until the job is answered; GM_ETIMEDOUT after GM_BED_WAIT_NS. */
int gm_bed_wait(struct gm_bed *bed, uint64_t position, struct gm_granule *completion);
/* The two together; the job's status, its result in *result unless NULL. */
int gm_bed_run(struct gm_bed *bed, const uint32_t *words, uint64_t *result);

/* Descriptors. words: GM_DESC_WORDS of them. */
void gm_bed_words(uint32_t *words, uint32_t op, uint32_t dtype, uint64_t n, const struct gm_bed_arena *in,
                  uint64_t in_offset, const struct gm_bed_arena *out, uint64_t out_offset);
void gm_bed_words_fill(uint32_t *words, uint32_t dtype, uint64_t n, uint64_t value, const struct gm_bed_arena *out,
                       uint64_t out_offset);
void gm_bed_words_histogram(uint32_t *words, uint32_t dtype, uint64_t n, uint32_t bins, double lo, double hi,
                            const struct gm_bed_arena *in, const struct gm_bed_arena *out, uint64_t out_offset);

#endif
