/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults on request, to prove that what comes after them is right. Only in builds with GM_DRILLS; elsewhere every call
 * here is nothing. drill.c says how one is asked for.
 */
#ifndef GM_DEVICE_DRILL_H
#define GM_DEVICE_DRILL_H

#include <stdint.h>

enum gm_drill_kind {
    GM_DRILL_NONE = 0,
    GM_DRILL_EXIT_IN_PAUSE,
    GM_DRILL_KILL_AFTER_JOBS,
    GM_DRILL_STALL_DISPATCHER_AFTER,
    GM_DRILL_ABORT_IN_JOB,
    GM_DRILL_TRAP_IN_JOB,
    GM_DRILL_SLOW_PARK,
    GM_DRILL_HOLD_COPIES
};

struct gm_drill {
    uint64_t at;
    uint32_t kind, pad;
};

#ifdef GM_DRILLS
#ifdef __cplusplus
extern "C" {
#endif

/* Set once, before anything starts; a CUDA kernel gets it by value. */
extern struct gm_drill gm_drill;

/* From the environment. Main thread, first of all. */
void gm_drill_init(void);
/* Between a stop of the device and its next start. */
void gm_drill_pause(void);
/* Jobs so far, the self-test's among them: where somebody looks at the counters anyway. */
void gm_drill_counts(uint64_t started, uint64_t completed);
/* A worker of the CPU is in this job. */
void gm_drill_job(uint32_t lane, uint64_t position);
/* The dispatcher of the CPU has looked for the last time and is about to sleep. */
void gm_drill_park(void);
/* The copy engine of the CPU is about to copy a piece. */
void gm_drill_copy(void);

#ifdef __cplusplus
}
#endif
#else
static inline void gm_drill_init(void) {}
static inline void gm_drill_pause(void) {}
static inline void gm_drill_counts(uint64_t started, uint64_t completed) { (void)started, (void)completed; }
static inline void gm_drill_job(uint32_t lane, uint64_t position) { (void)lane, (void)position; }
static inline void gm_drill_park(void) {}
static inline void gm_drill_copy(void) {}
#endif

#endif
