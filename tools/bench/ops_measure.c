/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops of bench_ops: every op at every size alone, then all of them in turn, as the instruction cache of a device
 * sees them when clients want different things. What a job of an op fails with is told in the place of its figure, and
 * the others are measured all the same. Bounded by the budget of each figure.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops_bench.h"
#include "wire.h"

#define WARM_UP 5u
#define ENOUGH 10u   /* so many samples are taken whatever the budget says */
#define PATIENCE 20u /* unless it takes so many times the budget */
#define TURN_LOG2 14u
#define ROUNDS 2000u
#define WAKE_NS UINT64_C(100000000) /* a GPU's clocks rise when it has work */

static int one_job(struct gm_ops_bench *b, const struct gm_request *request, struct gm_result *result,
                   uint64_t *spent_ns)
{
    const uint64_t begin = gm_bench_now_ns();
    const int status = gm_run(b->client, request, begin + GM_LANES_JOB_NS, result);
    *spent_ns = gm_bench_now_ns() - begin;
    if (status != GM_OK)
        (void)gm_lanes_fail_last(&b->lanes, request->op, b->client);
    return status;
}

/* Samples of one figure; first: the result at the first place, which must be the same whenever it is its turn. */
static int series(struct gm_ops_bench *b, const struct gm_ops_plan *plan, struct gm_request *request, uint64_t *first)
{
    struct gm_lanes *l = &b->lanes;
    struct gm_result result;
    const uint64_t start = gm_bench_now_ns();
    uint64_t end = start, spent_ns;
    l->samples.count = b->run.count = 0;
    for (size_t i = 0; i < l->count + WARM_UP; i++) {
        const bool enough = i >= WARM_UP + ENOUGH && end - start > l->budget_ns;
        if (enough || (i > WARM_UP && end - start > PATIENCE * l->budget_ns))
            break;
        const uint64_t place = i % plan->places;
        gm_ops_move(plan, request, place);
        const int status = one_job(b, request, &result, &spent_ns);
        if (status != GM_OK)
            return status;
        if (i == 0)
            *first = result.value.u64;
        if (place == 0 && plan->row.result != GM_RESULT_NONE && result.value.u64 != *first) {
            (void)gm_lanes_fail(l, plan->name, "the same input has another result");
            return GM_EINTERNAL;
        }
        end = gm_bench_now_ns();
        if (i >= WARM_UP) { /* the first of a size finds nothing prepared */
            gm_samples_add(&l->samples, spent_ns);
            gm_samples_add(&b->run, result.run_ns);
        }
    }
    return GM_OK;
}

static void tell(struct gm_ops_bench *b, const struct gm_ops_plan *plan, uint64_t result)
{
    char name[96], what[128];
    const struct gm_figure_part parts[] = {{"run", (double)gm_samples_at(&b->run, 0.5) / 1e3},
                                           {"bytes", (double)gm_ops_moved(plan, result)}};
    gm_ops_figure_name(name, sizeof name, "", plan, "");
    if (plan->row.types == GM_NO_TYPES)
        snprintf(what, sizeof what, "%s", plan->name);
    else
        snprintf(what, sizeof what, "%s of 2^%u %s, %llu in turn", plan->name, plan->log2,
                 gm_dtype_name(plan->args.dtype), (unsigned long long)plan->places);
    gm_figures_latency_with(b->lanes.figures, name, what, &b->lanes.samples, parts, sizeof parts / sizeof *parts);
    b->run.count = 0;
}

static void tell_failed(struct gm_ops_bench *b, const struct gm_ops_plan *plan, const char *behind)
{
    char name[96];
    gm_ops_figure_name(name, sizeof name, "", plan, behind);
    for (char *p = b->lanes.text; *p; p++)
        *p = *p == '"' || *p == '\\' ? ' ' : *p;
    gm_figures_skipped(b->lanes.figures, name, b->lanes.text);
    fprintf(stderr, "bench_ops: %s: %s\n", name, b->lanes.text);
    b->failed++;
}

static bool plan_of(struct gm_ops_bench *b, struct gm_ops_plan *plan, uint32_t op, uint32_t dtype,
                    enum gm_ops_data data, uint32_t log2)
{
    const struct gm_op_row row = gm_op_row(op);
    enum gm_complaint complaint;
    struct gm_problem problem;
    if (gm_ops_plan_make(plan, gm_op_name(op), &row, dtype, data, log2, b->lanes.rotated_bytes, &complaint))
        return true;
    gm_complaint_problem(&problem, complaint);
    snprintf(b->lanes.text, sizeof b->lanes.text, "no arguments are known: %s", problem.text);
    return false;
}

/* data: what has overflowed nothing so far. */
static void one_case(struct gm_ops_bench *b, uint32_t op, uint32_t dtype, uint32_t log2, enum gm_ops_data *data)
{
    struct gm_ops_plan plan;
    struct gm_request request;
    uint64_t result = 0;
    int status;
    do {
        status = GM_EINVAL;
        if (plan_of(b, &plan, op, dtype, *data, log2) && gm_ops_request(b, &plan, &request))
            status = series(b, &plan, &request, &result);
        gm_ops_release(b);
    } while (status == GM_EOVERFLOW && gm_ops_poorer(data));
    if (status == GM_OK)
        tell(b, &plan, result);
    else
        tell_failed(b, &plan, "");
}

static bool chosen(const struct gm_ops_bench *b, uint32_t op)
{
    return gm_op_row(op).known && (!b->op || strcmp(b->op, gm_op_name(op)) == 0);
}

static bool wake(struct gm_ops_bench *b)
{
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    const uint64_t end = gm_bench_now_ns() + WAKE_NS;
    uint64_t spent_ns;
    while (gm_bench_now_ns() < end)
        if (one_job(b, &nop, NULL, &spent_ns) != GM_OK)
            return false;
    return true;
}

bool gm_ops_alone(struct gm_ops_bench *b)
{
    if (!wake(b))
        return false;
    for (uint32_t op = 0; op < GM_OP_COUNT; op++) {
        const struct gm_op_row row = gm_op_row(op);
        const uint32_t types = row.types == GM_NO_TYPES ? 1u : b->all_types ? row.types : gm_ops_types(&row);
        if (!chosen(b, op))
            continue;
        for (uint32_t dtype = 0; dtype < GM_DTYPE_COUNT; dtype++) {
            enum gm_ops_data data = gm_ops_first_data(&row);
            for (const uint32_t *log2 = gm_ops_sizes(); *log2 != 0 && *log2 <= b->log2_max; log2++)
                if ((types >> dtype & 1u) && (row.types != GM_NO_TYPES || log2 == gm_ops_sizes()))
                    one_case(b, op, dtype, *log2, &data);
        }
    }
    return true;
}

/* ---- in turn ---- */

struct turn {
    struct gm_ops_plan plan;
    struct gm_request request;
    struct gm_samples samples;
    bool failed;
};

/* One job, so that it is known to work with this data. */
static bool turn_make(struct gm_ops_bench *b, struct turn *turn, uint32_t op, uint32_t log2)
{
    const struct gm_op_row row = gm_op_row(op);
    const uint32_t types = gm_ops_types(&row);
    uint32_t dtype = GM_DTYPE_f32;
    enum gm_ops_data data = gm_ops_first_data(&row);
    struct gm_result result;
    uint64_t spent_ns;
    int status;
    while (types != 0 && !(types >> dtype & 1u))
        dtype = (dtype + 1u) % GM_DTYPE_COUNT;
    do {
        status = GM_EINVAL;
        if (plan_of(b, &turn->plan, op, dtype, data, log2) && gm_ops_request(b, &turn->plan, &turn->request))
            status = one_job(b, &turn->request, &result, &spent_ns);
    } while (status == GM_EOVERFLOW && gm_ops_poorer(&data));
    turn->failed = status != GM_OK || !gm_samples_make(&turn->samples, ROUNDS);
    if (turn->failed)
        tell_failed(b, &turn->plan, "_turn");
    return !turn->failed;
}

static void turn_tell(struct gm_ops_bench *b, struct turn *turn)
{
    char name[96], what[128];
    gm_ops_figure_name(name, sizeof name, "", &turn->plan, "_turn");
    snprintf(what, sizeof what, "%s in turn with all other ops", turn->plan.name);
    if (!turn->failed)
        gm_figures_latency(b->lanes.figures, name, what, &turn->samples);
}

static void round_of(struct gm_ops_bench *b, struct turn *turns, uint32_t count, uint64_t round)
{
    struct gm_result result;
    uint64_t spent_ns;
    for (uint32_t i = 0; i < count; i++) {
        struct turn *t = &turns[i];
        if (t->failed)
            continue;
        gm_ops_move(&t->plan, &t->request, round % t->plan.places);
        t->failed = one_job(b, &t->request, &result, &spent_ns) != GM_OK;
        if (t->failed)
            tell_failed(b, &t->plan, "_turn");
        else if (round >= WARM_UP)
            gm_samples_add(&t->samples, spent_ns);
    }
}

bool gm_ops_in_turn(struct gm_ops_bench *b)
{
    struct turn *turns = calloc(GM_OPS_MOST, sizeof *turns);
    const uint32_t log2 = b->log2_max < TURN_LOG2 ? b->log2_max : TURN_LOG2;
    uint32_t count = 0;
    if (!turns)
        return gm_lanes_fail(&b->lanes, "in turn", "no memory");
    for (uint32_t op = 0; op < GM_OP_COUNT && count < GM_OPS_MOST; op++)
        if (chosen(b, op) && turn_make(b, &turns[count], op, log2))
            count++;
    const uint64_t start = gm_bench_now_ns(), budget_ns = b->lanes.budget_ns * count;
    for (uint64_t r = 0; r < ROUNDS && (r < WARM_UP + ENOUGH || gm_bench_now_ns() - start < budget_ns); r++)
        round_of(b, turns, count, r);
    gm_ops_release(b);
    for (uint32_t i = 0; i < count; i++) {
        turn_tell(b, &turns[i]);
        gm_samples_free(&turns[i].samples);
    }
    free(turns);
    return true;
}
