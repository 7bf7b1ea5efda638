/* SPDX-License-Identifier: Apache-2.0
 *
 * See chaos_jobs.h. Inputs follow from the seed of the task, so that they are made a second time for the oracle: the
 * first copy was in memory that the job could write. Bounded by the cell.
 */
#include "chaos_jobs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "wire.h"

#define POISON 0x5c

static uint32_t draw_dtype(struct rng *rng, uint32_t types)
{
    uint32_t dtype;

    do
        dtype = random_below(rng, GM_DTYPE_COUNT);
    while (!(types >> dtype & 1u));
    return dtype;
}

struct gm_op_row task_row(const struct task *task)
{
    return gm_op_row(task->c.op);
}

uint32_t task_buffers(const struct task *task)
{
    const struct gm_op_row row = task_row(task);

    return (uint32_t)row.inputs + row.outputs;
}

uint64_t task_bytes(const struct task *task, uint32_t buffer)
{
    const struct gm_op_row row = task_row(task);
    const struct gm_args args = gm_case_args(&task->c);

    return gm_buffer_bytes(&row, buffer, &args);
}

static uint32_t element_bytes(const struct task *task, uint32_t buffer)
{
    const struct gm_op_row row = task_row(task);
    const struct gm_args args = gm_case_args(&task->c);

    return gm_buffer_element(&row, buffer, &args);
}

static bool fits(const struct task *task, uint64_t room)
{
    for (uint32_t i = 0; i < task_buffers(task); i++)
        if (task_bytes(task, i) > room)
            return false;
    return true;
}

/* How much of what: drawn again until it fits. */
static void draw_case(struct task *task, struct rng *rng, uint32_t elements_max)
{
    static const uint32_t sizes[] = {1, 31, 32, 33, 1000, 1024};
    const struct gm_op_row row = task_row(task);
    struct gm_case *const c = &task->c;

    c->dtype = row.types == 0 ? 0 : draw_dtype(rng, row.types);
    do {
        const bool whole = random_one_in(rng, 2);
        const uint32_t drawn = random_below(rng, elements_max + 1u), fixed = sizes[random_below(rng, 6)];
        c->n = row.types == 0 ? 0 : whole ? drawn : fixed;
        c->seed = random_next(rng);
        gm_case_choose(c);
    } while (!fits(task, (uint64_t)elements_max * 8u));
    c->pattern = random_one_in(rng, 8) ? (enum gm_pattern)random_below(rng, GM_PATTERN_COUNT) : GM_PATTERN_SMALL;
    if (random_one_in(rng, 2))
        c->flags = gm_args_flags(&row) & ~(uint32_t)GM_FLAG_WIDE;
}

/* The first output lies an element behind the beginning of the first input. */
static bool can_be_aliased(const struct task *task)
{
    const struct gm_op_row row = task_row(task);

    return row.inputs > 0 && row.outputs > 0 && task_bytes(task, row.inputs) > 0 &&
           task_bytes(task, 0) > element_bytes(task, row.inputs);
}

void task_draw(struct task *task, struct rng *rng, uint32_t elements_max, bool in_arena)
{
    memset(task, 0, sizeof *task);
    task->c.op = random_below(rng, GM_OP_COUNT);
    draw_case(task, rng, elements_max);
    const struct gm_op_row row = task_row(task);
    const uint32_t dice = random_below(rng, 32), twin = random_below(rng, 2);
    task->c.same_buffer = row.outputs > 0 && row.alias == GM_ALIAS_SAME && dice < 8;
    task->twin = twin < row.inputs ? twin : 0;
    if (!in_arena || row.outputs == 0)
        return;
    if (dice == 8 && element_bytes(task, row.inputs) > 1)
        task->fault = TASK_MISALIGNED;
    else if (dice == 9 && can_be_aliased(task))
        task->fault = TASK_ALIASED;
}

static uint64_t place_of(const struct task *task, uint32_t buffer)
{
    return buffer * (task->room + CELL_GUARD);
}

uint64_t task_offset(const struct task *task, uint32_t buffer)
{
    const uint32_t inputs = task_row(task).inputs;

    if (buffer != inputs)
        return place_of(task, buffer);
    if (task->fault == TASK_ALIASED)
        return element_bytes(task, inputs);
    return place_of(task, task->c.same_buffer ? task->twin : buffer) + (task->fault == TASK_MISALIGNED ? 1u : 0u);
}

void task_fill(const struct task *task, uint8_t *cell)
{
    for (uint32_t i = 0; i < task_row(task).inputs; i++)
        gm_case_fill(&task->c, i, cell + task_offset(task, i));
}

void task_place(struct task *task, uint8_t *cell, uint32_t elements_max)
{
    task->cell = cell;
    task->room = (uint64_t)elements_max * 8u;
    memset(cell, POISON, CELL_BYTES(elements_max));
    task_fill(task, cell);
}

void task_describe(const struct task *task, uint32_t arena, uint64_t cell_offset, uint32_t words[GM_DESC_WORDS])
{
    const struct gm_op_row row = task_row(task);
    const struct gm_args args = gm_case_args(&task->c);

    memset(words, 0, GM_DESC_WORDS * sizeof *words);
    words[GM_W_OP] = task->c.op;
    gm_args_put(words, &row, &args);
    for (uint32_t i = 0; i < task_buffers(task); i++) {
        words[gm_buffer_word(i)] = arena;
        gm_desc_put64(words, gm_buffer_word(i) + 1u, cell_offset + task_offset(task, i));
    }
}

/* ---- Right or wrong ---- */

/* What the oracle says, and how the whole cell must look after a job that did not fail. */
struct answer {
    struct gm_oracle_job job;
    uint8_t *image, *out[2];
    double *slack;
};

static void *memory(uint64_t bytes)
{
    void *const p = malloc(bytes + 8u);

    if (p == NULL)
        abort();
    memset(p, POISON, bytes + 8u); /* what a job does not write stays as it was */
    return p;
}

/* Bytes of output i that are in the cell after the job: of one that comes with the answer, what the result counts. */
static uint64_t arrived(const struct task *task, uint32_t i, const struct answer *a)
{
    const struct gm_op_row row = task_row(task);
    const bool counted = gm_buffer_extent(row.buffer[row.inputs + i]) == GM_EXTENT_RESULT;

    if (!counted || !(task->carried >> i & 1u))
        return task_bytes(task, row.inputs + i);
    return a->job.result * element_bytes(task, row.inputs + i);
}

static void ask_oracle(const struct task *task, struct answer *a)
{
    const struct gm_op_row row = task_row(task);
    const uint64_t cell = place_of(task, GM_BUFFERS_MAX);

    memset(a, 0, sizeof *a);
    if (task->fault != TASK_GOOD) {
        a->job.status = task->fault == TASK_ALIASED ? GM_EALIAS : GM_EALIGN;
        return;
    }
    a->image = memory(cell);
    task_fill(task, a->image);
    for (uint32_t i = 0; i < row.outputs; i++) {
        a->out[i] = memory(task_bytes(task, row.inputs + i));
        if (task->carried >> i & 1u)
            memset(a->out[i], 0, task_bytes(task, row.inputs + i));
    }
    a->job = gm_case_question(&task->c, a->image, a->image + task_offset(task, 1), a->out[0], a->out[1]);
    if (gm_case_wants_slack(&task->c)) {
        a->slack = calloc(task->room / element_bytes(task, row.inputs) + 1u, sizeof *a->slack);
        if (a->slack == NULL)
            abort();
        a->job.slack = a->slack;
    }
    gm_case_ask(task->c.op, &a->job);
    for (uint32_t i = 0; i < row.outputs && a->job.status == GM_OK; i++)
        memcpy(a->image + task_offset(task, row.inputs + i), a->out[i], arrived(task, i, a));
}

static void forget_oracle(struct answer *a)
{
    free(a->image);
    free(a->out[0]);
    free(a->out[1]);
    free(a->slack);
}

int task_expected(const struct task *task)
{
    struct answer a;

    ask_oracle(task, &a);
    forget_oracle(&a);
    return a.job.status;
}

static uint64_t low_bytes(uint64_t value, uint32_t bytes)
{
    return bytes < 8u ? value & ((UINT64_C(1) << bytes * 8u) - 1u) : value;
}

static bool same_result(const struct task *task, const struct gm_oracle_job *job, uint64_t result)
{
    const struct gm_op_row row = task_row(task);
    double is, expected;

    if (row.result == GM_RESULT_NONE || isinf(job->tolerance))
        return true;
    const uint32_t dtype = gm_result_dtype(row.result, task->c.dtype);
    if (low_bytes(result ^ job->result, gm_dtype_bytes(dtype)) == 0)
        return true;
    if (row.tolerance != GM_TOLERANCE_SUM || dtype != GM_DTYPE_f64)
        return false;
    memcpy(&is, &result, sizeof is);
    memcpy(&expected, &job->result, sizeof expected);
    return fabs(is - expected) <= job->tolerance || (isnan(is) && isnan(expected));
}

static double float_at(const uint8_t *data, uint64_t i, uint32_t dtype)
{
    float narrow;
    double wide;

    if (dtype == GM_DTYPE_f32) {
        memcpy(&narrow, data + i * 4u, sizeof narrow);
        return (double)narrow;
    }
    memcpy(&wide, data + i * 8u, sizeof wide);
    return wide;
}

/* Floats of an output that are as near as the oracle asks become what is expected. */
static void take_near(const struct task *task, const struct answer *a)
{
    const uint32_t inputs = task_row(task).inputs, element = element_bytes(task, inputs), dtype = task->c.dtype;
    uint8_t *const should = a->image + task_offset(task, inputs);
    const uint8_t *const is = task->cell + task_offset(task, inputs);

    for (uint64_t i = 0; i < task_bytes(task, inputs) / element; i++) {
        const double x = float_at(is, i, dtype), y = float_at(should, i, dtype);
        if (x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= a->slack[i] || isinf(a->slack[i]))
            memcpy(should + i * element, is + i * element, element);
    }
}

/* Where in the cell: an input, an output, or what lies behind one. */
static const char *part_of(const struct task *task, uint64_t at)
{
    static const char *const inputs[] = {"the first input was written:", "the second input was written:"};
    static const char *const outputs[] = {"first output", "second output"};
    const struct gm_op_row row = task_row(task);

    for (uint32_t i = task_buffers(task); i-- > 0;)
        if (at - task_offset(task, i) < task_bytes(task, i))
            return i >= row.inputs ? outputs[i - row.inputs] : inputs[i];
    return "memory beside the buffers was written:";
}

/* The whole cell. NULL, or what is wrong; *at says where. */
static const char *wrong_memory(const struct task *task, const struct answer *a, uint64_t *at)
{
    const uint64_t cell = place_of(task, GM_BUFFERS_MAX);

    if (a->slack != NULL && gm_dtype_kind(task->c.dtype) == 'f')
        take_near(task, a);
    if (memcmp(task->cell, a->image, cell) == 0)
        return NULL;
    for (*at = 0; *at + 1u < cell && task->cell[*at] == a->image[*at];)
        ++*at;
    return part_of(task, *at);
}

const char *task_wrong(const struct task *task, int status, uint64_t result)
{
    static _Thread_local char words[600];
    struct answer a;
    const char *wrong = NULL;
    char what[320];
    uint64_t at = 0;

    ask_oracle(task, &a);
    if (status != a.job.status)
        wrong = "status";
    else if (status == GM_OK && !same_result(task, &a.job, result))
        wrong = "result";
    else if (status == GM_OK)
        wrong = wrong_memory(task, &a, &at);
    if (wrong != NULL) {
        gm_case_describe(&task->c, what, sizeof what);
        snprintf(words, sizeof words,
                 "%s %s fault %d: status %d instead of %d, result %" PRIx64 " instead of %" PRIx64 ", byte %" PRIu64
                 " of the cell is %02x", wrong, what, task->fault, status, a.job.status, result, a.job.result, at,
                 task->cell[at]);
    }
    forget_oracle(&a);
    return wrong != NULL ? words : NULL;
}
