/* SPDX-License-Identifier: Apache-2.0
 *
 * A device of the rig whose wings serve: lanes that are leased to them, and jobs for them. One thread.
 */
#ifndef GM_TESTS_LEND_H
#define GM_TESTS_LEND_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"

#define WORKERS 3u
#define LOG2 6u
#define SLOTS (1u << LOG2)
#define START (UINT64_C(0xfffffffe) << LOG2) /* of every lane: the lap wraps soon */
#define LANES 5u
#define PART 32u /* entries of a wing */
#define TILE (UINT64_C(16384) / 4u)

static inline void open_wings(struct rig *rig, uint32_t wings)
{
    const struct gm_core_shape shape = {.tickets_log2 = 9,
                                        .entries_log2 = 8,
                                        .workers = WORKERS,
                                        .host_shares = WORKERS,
                                        .ticket_start = UINT64_C(0xfffffffd) << 9,
                                        .inbox_start = UINT64_C(0xffffff) << 8, /* the wings' counts wrap soon, too */
                                        .idle_ns = UINT64_MAX,
                                        .workspace_bytes = 1u << 20,
                                        .wings = wings};
    rig_open(rig, &shape);
    assert_int_equal(rig->core->wings, wings);
    rig_arena_set(rig, RIG_ARENA, RIG_BASE, RIG_BYTES, RIG_SESSION, 0);
    for (uint32_t i = 0; i < LANES; i++)
        rig_lane_open(rig, i, LOG2, START);
}

static inline int32_t status_of(const struct rig *rig, uint32_t lane, uint64_t position)
{
    struct gm_granule g;
    assert_true(rig_answer(rig, lane, position, &g));
    return gm_completion_status(g);
}

static inline void work_all(struct rig *rig, struct rig_worker *w)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        while (rig_work(rig, &w[i])) {
        }
}

static inline uint64_t submit_sort(struct rig *rig, uint32_t lane, uint64_t n)
{
    uint32_t words[GM_DESC_WORDS];
    rig_words(words, GM_OP_sort, GM_DTYPE_u32, 0, n);
    rig_buffer(words, 0, RIG_ARENA, 0);
    rig_buffer(words, 1, RIG_ARENA, RIG_BYTES / 2u);
    return rig_submit(rig, lane, words);
}

static inline uint64_t submit_sum(struct rig *rig, uint32_t lane)
{
    uint32_t words[GM_DESC_WORDS];
    rig_words(words, GM_OP_sum, GM_DTYPE_u32, 0, 16);
    rig_buffer(words, 0, RIG_ARENA, 0);
    return rig_submit(rig, lane, words);
}

/* Turns until a lane is leased, fed with jobs that the front takes; returns the wing. */
static inline uint32_t lease(struct rig *rig, uint32_t lane)
{
    struct rig_worker w[WORKERS] = {{0}};
    for (uint32_t i = 0; i < WORKERS; i++)
        w[i].ticket = UINT64_MAX;
    for (uint32_t turns = 0; rig->d->lane[lane].lease == 0; turns++) {
        assert_true(turns < 100u);
        while (rig->lane[lane].position - START - rig->d->lane[lane].completed < SLOTS)
            rig_submit_nop(rig, lane);
        rig_turn(rig);
        work_all(rig, w);
        rig_turn(rig);
    }
    for (uint32_t i = 0; i < WORKERS; i++) /* those that hold a ticket that is not there yet lend it to the next */
        if (w[i].holding)
            rig->shared->ticket--;
    return rig->d->lane[lane].lease - 1u;
}

/* The wing takes what is there, and its jobs run; the lease stays. */
static inline void drain(struct rig *rig, uint32_t wing, uint32_t lane, struct rig_worker *w)
{
    for (uint32_t turns = 0; rig->d->lane[lane].head != rig->lane[lane].position; turns++) {
        assert_true(turns < 100u);
        assert_true(rig_wing(rig, wing));
        work_all(rig, w);
        while (gm_back_inbox(rig->core, rig->d)) {
        }
    }
    assert_int_not_equal(rig->d->wing[wing].given, rig->d->wing[wing].returned);
}

#endif
