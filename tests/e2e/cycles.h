/* SPDX-License-Identifier: Apache-2.0
 *
 * The clients of cycles.c, each a process of its own, and the memory that they share with the runner.
 */
#ifndef GM_E2E_CYCLES_H
#define GM_E2E_CYCLES_H

#include "chaos.h"

#define BUCKETS   (1u << 18)
#define BUCKET_NS 250u

/* Births: of clients that do nothing but come and go. That is what the machine is slower by, and not the daemon. */
enum phase { PHASE_ALONE, PHASE_BIRTHS, PHASE_CYCLES, PHASES };

/* Where a client kills itself. */
enum step { STEP_CONNECTED, STEP_ARENA, STEP_SUBMITTED, STEP_WAITED, STEP_END, STEPS };

struct stage {
    char socket[200];
    _Atomic bool over, failed;
    char failure[300]; /* the first one's words */
    _Atomic uint32_t phase;
    _Atomic uint64_t jobs, killed, left;
    _Atomic uint64_t taken[PHASES], longest_ns[PHASES];
    uint32_t bucket[PHASES][BUCKETS]; /* of the witness, which alone writes it */
};
extern struct stage *stage;

/* One small job after the other, and how long each takes. */
_Noreturn void witness_live(void);
/* As many jobs as the device does. */
_Noreturn void load_live(void);
/* Connects, gets a lane and an arena, runs jobs and leaves; STEPS: alive. */
_Noreturn void cycle(struct rng rng, enum step death);

#endif
