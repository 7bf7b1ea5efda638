/* SPDX-License-Identifier: Apache-2.0
 *
 * Random jobs of every op in cells of memory, and whether their answers are right: by the oracles, by what lies behind
 * the output, and by an input that nobody may have touched. Any thread; a task belongs to one.
 */
#ifndef GM_E2E_CHAOS_JOBS_H
#define GM_E2E_CHAOS_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chaos_random.h"

#include "lane.h"

/* What the client library does not refuse by itself. */
enum task_fault { TASK_GOOD, TASK_MISALIGNED, TASK_ALIASED };

struct task {
    uint32_t op, dtype, bins;
    bool descending, in_place;
    enum task_fault fault;
    uint64_t n, value;
    double lo, hi;
    uint64_t data_seed;
    uint32_t data_kind;
    uint8_t *cell; /* input, guard, output, guard */
    uint64_t room; /* bytes for input or output in it */
};

#define CELL_ELEMENTS 1536u
#define CELL_GUARD    64u
#define CELL_BYTES(elements) (2u * ((uint64_t)(elements)*8u + CELL_GUARD))
#define CELL CELL_BYTES(CELL_ELEMENTS)

/* Any op and type that goes together; faults only where offsets are the client's, in arenas. */
void task_draw(struct task *task, struct rng *rng, uint32_t elements_max, bool in_arena);
/* Input and poison. */
void task_place(struct task *task, uint8_t *cell, uint32_t elements_max);
uint32_t task_inputs(const struct task *task);
uint32_t task_outputs(const struct task *task);
uint64_t task_in_bytes(const struct task *task);
uint64_t task_out_bytes(const struct task *task);
/* In the cell; the input is at its start. */
uint64_t task_out_offset(const struct task *task);
/* The words of its descriptor. */
void task_describe(const struct task *task, uint32_t arena, uint64_t cell_offset, uint32_t words[GM_DESC_WORDS]);

/* What is right when nothing fails: status and result bits of a completion. NULL, or what is wrong about an answer. The
 * output is looked at only when the status is OK. Not for device memory. */
int task_expected(const struct task *task);
const char *task_wrong(const struct task *task, int status, uint64_t result);

#endif
