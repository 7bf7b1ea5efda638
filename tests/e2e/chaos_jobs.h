/* SPDX-License-Identifier: Apache-2.0
 *
 * Random jobs of every op in cells of memory, and whether their answers are right: by the oracles, by what lies behind
 * the buffers, and by inputs that nobody may have touched. Any thread; a task belongs to one.
 */
#ifndef GM_E2E_CHAOS_JOBS_H
#define GM_E2E_CHAOS_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "case.h"
#include "chaos_random.h"

/* What is wrong with a task on purpose. */
enum task_fault { TASK_GOOD, TASK_MISALIGNED, TASK_ALIASED };

struct task {
    struct gm_case c; /* same_buffer: the first output is an input, whole */
    uint32_t twin;    /* that input */
    uint32_t carried; /* set of outputs that come with the answer: zeros where the job does not write */
    enum task_fault fault;
    uint8_t *cell; /* buffers, each with a guard behind it */
    uint64_t room; /* bytes for each of them */
};

#define CELL_ELEMENTS 1536u
#define CELL_GUARD    64u
#define CELL_BYTES(elements) (GM_BUFFERS_MAX * ((uint64_t)(elements)*8u + CELL_GUARD))
#define CELL CELL_BYTES(CELL_ELEMENTS)

/* Any op, type and arguments that go together, buffers of at most so many elements of eight bytes; faults only where
 * offsets are the client's, in arenas. */
void task_draw(struct task *task, struct rng *rng, uint32_t elements_max, bool in_arena);
/* Inputs and poison. */
void task_place(struct task *task, uint8_t *cell, uint32_t elements_max);
/* The inputs alone, in the cell where they lie. */
void task_fill(const struct task *task, uint8_t *cell);
struct gm_op_row task_row(const struct task *task);
uint32_t task_buffers(const struct task *task);
uint64_t task_bytes(const struct task *task, uint32_t buffer);
/* In the cell. */
uint64_t task_offset(const struct task *task, uint32_t buffer);
/* The words of its descriptor. */
void task_describe(const struct task *task, uint32_t arena, uint64_t cell_offset, uint32_t words[GM_DESC_WORDS]);

/* What is right when nothing fails: status and result bits of a completion. NULL, or what is wrong about an answer. The
 * cell is looked at only when the status is OK. Not for device memory. */
int task_expected(const struct task *task);
const char *task_wrong(const struct task *task, int status, uint64_t result);

#endif
