/* SPDX-License-Identifier: Apache-2.0
 *
 * The scheduler by hand: gm_core in this process with rings as small as a test wants, the dispatcher's turns called one
 * at a time, and workers that do everything a worker does but the op. One thread unless a test says otherwise.
 */
#ifndef GM_TESTS_RIG_H
#define GM_TESTS_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "core/draw.h"
#include "core/init.h"
#include "core/turn.h"

#define RIG_SESSION 7u
#define RIG_LANES   40u /* more than two turns of the sweep reach */
#define RIG_RESULT  UINT64_C(0xfeedface12345678) /* what a job of the rig results in */

struct rig_lane {
    uint8_t *memory;
    struct gm_lane_header *header;
    struct gm_desc_slot *sq;
    struct gm_granule *cq;
    uint32_t *journal;
    uint64_t position; /* next to submit */
    uint32_t index, slots_log2;
};

struct rig_worker {
    uint64_t ticket;
    bool holding, stopped;
};

struct rig {
    struct gm_core *core;
    struct gm_disp *d;
    struct gm_counters *shared;
    struct gm_device_counters counters; /* as gridmilld sees them */
    _Alignas(64) struct gm_lane_note notes[GM_LANE_TABLE]; /* as in the region */
    struct gm_lane_header *admin_header;
    struct gm_desc_slot *admin_sq;
    uint64_t admin_position;
    struct rig_lane lane[RIG_LANES];
    struct gm_fetch fetch;
    struct gm_wing_look look[GM_WINGS_MAX];
    uint8_t *seen;        /* GM_SHARES_MAX of each entry: phase + 1 in which the share last ran */
    uint64_t shares_run, answered;
};

/* Fails the test when the shape is refused. Starts are positions of the ticket ring and the inbox. */
void rig_open(struct rig *rig, const struct gm_core_shape *shape);
void rig_close(struct rig *rig);

/* A device of RIG_WORKERS workers with few tickets and entries, lanes 0 and 1 of sixteen slots and one arena; counters
 * near their wrap. */
#define RIG_WORKERS 3u
#define RIG_ARENA   (1u | 1u << 16)
#define RIG_BASE    UINT64_C(0x7f0000000000)
#define RIG_BYTES   (UINT64_C(1) << 40)
void rig_open_shape(struct rig *rig, const struct gm_core_shape *shape);
void rig_open_small(struct rig *rig);
/* Nothing is lent and every counter adds up. */
void rig_assert_settled(struct rig *rig);
enum gm_turn_result rig_turn(struct rig *rig);
/* Of a wing. Whether it had a lease. */
bool rig_wing(struct rig *rig, uint32_t wing);
/* What a backend does after its sleep. */
void rig_wake(struct rig *rig);

/* An admin descriptor, and its answer. What was loaded before it was written comes first: two turns, and no more. */
int32_t rig_admin(struct rig *rig, uint32_t op, uint32_t index, const uint32_t words[GM_DESC_WORDS], uint64_t *result);
void rig_lane_open(struct rig *rig, uint32_t index, uint32_t slots_log2, uint64_t start);
int32_t rig_cancel(struct rig *rig, uint32_t lane, uint64_t position);
/* The arena covers addresses that no fake worker touches. */
void rig_arena_set(struct rig *rig, uint32_t handle, uint64_t address, uint64_t bytes, uint32_t session,
                   uint32_t flags);

/* Descriptors. */
void rig_words(uint32_t *words, uint32_t op, uint32_t dtype, uint32_t flags, uint64_t n);
void rig_buffer(uint32_t *words, uint32_t buffer, uint32_t handle, uint64_t offset);
uint64_t rig_submit(struct rig *rig, uint32_t lane, const uint32_t *words);
uint64_t rig_submit_nop(struct rig *rig, uint32_t lane);

/* The completion of a position: true when it is there. */
bool rig_answer(const struct rig *rig, uint32_t lane, uint64_t position, struct gm_granule *completion);

/* Draws a ticket when the worker holds none, looks at its slot once, acknowledges. True with a slot. */
bool rig_take(struct rig *rig, struct rig_worker *worker, struct gm_drawn *drawn);
/* Runs the share of a slot and arrives; the last share of a phase hands over or answers, as a worker does. */
void rig_run(struct rig *rig, const struct gm_drawn *drawn);
/* take and run; false when there was nothing. A stop ticket stops the worker. */
bool rig_work(struct rig *rig, struct rig_worker *worker);
/* Turns and work until nothing moves; at most so many turns. */
void rig_settle(struct rig *rig, struct rig_worker *workers, uint32_t count);

uint64_t rig_random(uint64_t *state);

#endif
