/* SPDX-License-Identifier: Apache-2.0
 *
 * See chaos_jobs.h. Inputs follow from the seed of the task, so that they are made a second time for the oracle: the
 * first copy was in memory that the job could write.
 */
#include "chaos_jobs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "oracle.h"
#include "wire.h"

#define POISON 0x5c

enum { DATA_SMALL, DATA_BITS, DATA_EQUAL, DATA_RISING, DATA_KINDS };

static uint64_t float_bits(uint32_t dtype, double x)
{
    const float narrow = (float)x;
    uint64_t bits = 0;

    if (dtype == GM_DTYPE_f32)
        memcpy(&bits, &narrow, sizeof narrow);
    else
        memcpy(&bits, &x, sizeof x);
    return bits;
}

static uint64_t element_bits(uint32_t dtype, int64_t x)
{
    return gm_dtype_kind(dtype) == 'f' ? float_bits(dtype, (double)x / 8.0) : (uint64_t)x;
}

static void generate(const struct task *task, uint8_t *to)
{
    const uint32_t bytes = gm_dtype_bytes(task->dtype);
    struct rng rng = {task->data_seed};
    const int64_t first = (int64_t)random_below(&rng, 100);

    for (uint64_t i = 0; i < task->n; i++) {
        const uint64_t drawn = random_next(&rng);
        uint64_t bits = drawn;
        if (task->data_kind == DATA_SMALL)
            bits = element_bits(task->dtype, (int64_t)(drawn % 2001u) - (gm_dtype_kind(task->dtype) == 'u' ? 0 : 1000));
        else if (task->data_kind == DATA_EQUAL)
            bits = element_bits(task->dtype, first);
        else if (task->data_kind == DATA_RISING)
            bits = element_bits(task->dtype, first + (int64_t)i);
        memcpy(to + i * bytes, &bits, bytes);
    }
}

static uint32_t draw_dtype(struct rng *rng, uint32_t types)
{
    uint32_t dtype;

    do
        dtype = random_below(rng, GM_DTYPE_COUNT);
    while (!(types >> dtype & 1u));
    return dtype;
}

/* What a cell has room for, and a task words: one input, one output, and the arguments of fill, histogram and sort. */
static bool is_drawn(uint32_t op)
{
    const struct gm_op_row row = gm_op_row(op);
    const uint32_t known = 1u << GM_A_value | 1u << GM_A_bins | 1u << GM_A_lo | 1u << GM_A_hi | 1u << GM_A_descending;

    return row.inputs <= 1 && row.outputs <= 1 && (row.args & ~known) == 0 &&
           (row.tolerance == GM_TOLERANCE_EXACT || row.outputs == 0);
}

void task_draw(struct task *task, struct rng *rng, uint32_t elements_max, bool in_arena)
{
    static const uint32_t sizes[] = {1, 31, 32, 33, 1000, 1024};
    const bool whole = random_one_in(rng, 2);
    const uint32_t drawn = random_below(rng, elements_max + 1u), fixed = sizes[random_below(rng, 6)];

    memset(task, 0, sizeof *task);
    do
        task->op = random_below(rng, GM_OP_COUNT);
    while (!is_drawn(task->op));
    const struct gm_op_row row = gm_op_row(task->op);
    task->dtype = row.types == 0 ? 0 : draw_dtype(rng, row.types);
    task->n = row.types == 0 ? 0 : whole ? drawn : fixed;
    task->data_seed = random_next(rng);
    task->data_kind = random_one_in(rng, 8) ? random_below(rng, DATA_KINDS) : DATA_SMALL;
    task->value = random_next(rng);
    if (row.shape == GM_SHAPE_HISTOGRAM) {
        task->bins = random_from(rng, 1, random_one_in(rng, 4) ? elements_max : 64);
        task->lo = (double)random_below(rng, 200) - 100.0;
        task->hi = task->lo + (double)random_from(rng, 1, 2000);
    }
    task->descending = (row.args >> GM_A_descending & 1u) != 0 && random_one_in(rng, 2);
    const uint32_t dice = random_below(rng, 32);
    if (row.alias != GM_ALIAS_SAME)
        return;
    task->in_place = dice < 8;
    if (!in_arena || task->n < 2)
        return;
    if (dice == 8 && gm_dtype_bytes(task->dtype) > 1)
        task->fault = TASK_MISALIGNED;
    else if (dice == 9)
        task->fault = TASK_ALIASED;
}

uint32_t task_inputs(const struct task *task)
{
    return gm_op_row(task->op).inputs;
}

uint32_t task_outputs(const struct task *task)
{
    return gm_op_row(task->op).outputs;
}

uint64_t task_in_bytes(const struct task *task)
{
    return task_inputs(task) != 0 ? task->n * gm_dtype_bytes(task->dtype) : 0;
}

uint64_t task_out_bytes(const struct task *task)
{
    const struct gm_op_row row = gm_op_row(task->op);

    const struct gm_args args = {.n = task->n, .count = task->bins, .dtype = (uint8_t)task->dtype};

    return row.outputs != 0 ? gm_buffer_bytes(&row, row.inputs, &args) : 0;
}

uint64_t task_out_offset(const struct task *task)
{
    if (task->fault == TASK_ALIASED)
        return gm_dtype_bytes(task->dtype);
    return (task->in_place ? 0 : task->room + CELL_GUARD) + (task->fault == TASK_MISALIGNED ? 1u : 0u);
}

void task_place(struct task *task, uint8_t *cell, uint32_t elements_max)
{
    task->cell = cell;
    task->room = (uint64_t)elements_max * 8u;
    memset(cell, POISON, CELL_BYTES(elements_max));
    if (task_inputs(task) != 0)
        generate(task, cell);
}

static uint64_t low_bytes(uint64_t value, uint32_t bytes)
{
    return bytes < 8u ? value & ((UINT64_C(1) << bytes * 8u) - 1u) : value;
}

void task_describe(const struct task *task, uint32_t arena, uint64_t cell_offset, uint32_t words[GM_DESC_WORDS])
{
    const struct gm_op_row row = gm_op_row(task->op);
    struct gm_args args = {.n = task->n, .value = {low_bytes(task->value, gm_dtype_bytes(task->dtype))},
                           .count = task->bins, .dtype = (uint8_t)task->dtype,
                           .flags = task->descending ? GM_FLAG_DESCENDING : 0};

    if (task->bins != 0)
        memcpy(&args.value[0], &task->lo, 8), memcpy(&args.value[1], &task->hi, 8);
    memset(words, 0, GM_DESC_WORDS * sizeof *words);
    words[GM_W_OP] = task->op;
    gm_args_put(words, &row, &args);
    for (uint32_t i = 0; i < (uint32_t)row.inputs + row.outputs; i++) {
        words[gm_buffer_word(i)] = arena;
        gm_desc_put64(words, gm_buffer_word(i) + 1u, cell_offset + (i < row.inputs ? 0 : task_out_offset(task)));
    }
}

/* ---- Right or wrong ---- */

static void ask_oracle(const struct task *task, struct gm_oracle_job *job)
{
    static void (*const oracles[GM_OP_COUNT])(struct gm_oracle_job *) = {
#define OP(id, name, shape, types, result, work, tile_bytes, tolerance, help) [id] = gm_oracle_##name,
#include "ops.def"
#undef OP
    };
    uint8_t *const in = malloc(task_in_bytes(task) + 8u), *const out = malloc(task_out_bytes(task) + 8u);

    if (in == NULL || out == NULL)
        abort();
    memset(job, 0, sizeof *job);
    memset(out, POISON, task_out_bytes(task)); /* as the cell: an op need not write all of it */
    if (task_inputs(task) != 0)
        generate(task, in);
    job->dtype = task->dtype, job->n = task->n, job->bins = task->bins;
    job->flags = task->descending ? GM_FLAG_DESCENDING : 0;
    job->value[0] = task->value;
    if (task->bins != 0)
        memcpy(&job->value[0], &task->lo, 8), memcpy(&job->value[1], &task->hi, 8);
    job->in = in, job->out = out;
    if (task->fault != TASK_GOOD)
        job->status = task->fault == TASK_ALIASED ? GM_EALIAS : GM_EALIGN;
    else
        oracles[task->op](job);
}

static void forget_oracle(struct gm_oracle_job *job)
{
    free((void *)(uintptr_t)job->in);
    free(job->out);
}

int task_expected(const struct task *task)
{
    struct gm_oracle_job job;

    ask_oracle(task, &job);
    forget_oracle(&job);
    return job.status;
}

static bool same_result(const struct task *task, const struct gm_oracle_job *job, uint64_t result)
{
    const struct gm_op_row row = gm_op_row(task->op);
    double is, expected;

    if (row.result == GM_RESULT_NONE || isinf(job->tolerance))
        return true;
    const uint32_t dtype = gm_result_dtype(row.result, task->dtype);
    if (low_bytes(result ^ job->result, gm_dtype_bytes(dtype)) == 0)
        return true;
    if (row.tolerance != GM_TOLERANCE_SUM || dtype != GM_DTYPE_f64)
        return false;
    memcpy(&is, &result, sizeof is);
    memcpy(&expected, &job->result, sizeof expected);
    return fabs(is - expected) <= job->tolerance || (isnan(is) && isnan(expected));
}

/* Whether memory differs from what it must be: where first, and what is there. */
static bool differs(const uint8_t *is, const uint8_t *expected, uint64_t bytes, uint64_t *at)
{
    for (*at = 0; *at < bytes; ++*at)
        if (is[*at] != (expected != NULL ? expected[*at] : POISON))
            return true;
    return false;
}

/* The cell: its output, and everything else. NULL, or what is wrong; *at says where. */
static const char *wrong_memory(const struct task *task, const struct gm_oracle_job *job, const uint8_t **at)
{
    const uint64_t in_bytes = task_in_bytes(task), out_bytes = task_out_bytes(task);
    const uint64_t second = task->room + CELL_GUARD, behind = task->in_place ? 0 : out_bytes;
    uint64_t i;

    *at = task->cell + task_out_offset(task);
    if (differs(*at, job->out, out_bytes, &i))
        return *at += i, "output";
    *at = task->cell;
    if (!task->in_place && differs(*at, job->in, in_bytes, &i))
        return *at += i, "the input was written:";
    *at = task->cell + in_bytes;
    if (differs(*at, NULL, second - in_bytes, &i))
        return *at += i, "memory behind the input was written:";
    *at = task->cell + second + behind;
    if (differs(*at, NULL, second - behind, &i))
        return *at += i, "memory behind the output was written:";
    return NULL;
}

const char *task_wrong(const struct task *task, int status, uint64_t result)
{
    static _Thread_local char words[400];
    struct gm_oracle_job job;
    const char *wrong = NULL;
    const uint8_t *at = task->cell;

    ask_oracle(task, &job);
    if (status != job.status)
        wrong = "status";
    else if (status == GM_OK && !same_result(task, &job, result))
        wrong = "result";
    else if (status == GM_OK)
        wrong = wrong_memory(task, &job, &at);
    if (wrong != NULL)
        snprintf(words, sizeof words,
                 "%s %s %s n %" PRIu64 " bins %u%s%s fault %d: status %d instead of %d, result %" PRIx64
                 " instead of %" PRIx64 ", byte %td of the cell (output from %" PRIu64 ", %" PRIu64 " bytes) is %02x",
                 wrong, gm_op_name(task->op), gm_dtype_name(task->dtype), task->n, task->bins,
                 task->descending ? " descending" : "", task->in_place ? " in place" : "", task->fault, status,
                 job.status, result, job.result, at - task->cell, task_out_offset(task), task_out_bytes(task), *at);
    forget_oracle(&job);
    return wrong != NULL ? words : NULL;
}
