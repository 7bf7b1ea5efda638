/* SPDX-License-Identifier: Apache-2.0
 *
 * One job for a profiler to look at: a device in this process whose every launch ends when there is nothing to do
 * (bounded.h), inputs in its memory as bench_ops has them, one job to see that its results fit, then the job again in
 * launches of its own. Says of each which launch of the process it is, so that a profiler can skip those before. One
 * thread.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bounded.h"
#include "options.h"
#include "ops_plan.h"
#include "wire.h"

#define CHUNK_BYTES (UINT64_C(32) << 20)

static const char usage_text[] =
    "usage: profile_op --op NAME [OPTION...]\n\n"
    "Runs one job of an op in a kernel launch of its own, and prints which launch that is. See ncu in\n"
    "tools/bench/README.md.\n\n"
    "  --device NAME    cpu or cuda:INDEX (default: cpu)\n"
    "  --op NAME        the op\n"
    "  --type NAME      of the elements (default: the one that the op is mostly used with)\n"
    "  --n N            elements of the first buffer (default 1048576)\n"
    "  --bins N         of a histogram, in every dimension (default 256; 64 of two inputs)\n"
    "  --repeat N       so many launches, each with the same job (default 1)\n"
    "  --workers N      0: as many as the device has room for (default 0)\n"
    "  --plain          no bulk copies, as on sm_80\n"
    "  --help           print this\n";

struct profile {
    const char *device, *name, *type;
    uint64_t n;
    uint32_t bins, repeat, workers;
    bool plain, help;

    uint32_t op, dtype;
    struct gm_op_row row;
    enum gm_ops_data data;
    struct gm_ops_plan plan;
    struct gm_bed bed;
    struct gm_bed_arena *upload, *buffer[GM_BUFFERS_MAX]; /* upload: of the host */
    uint32_t words[GM_DESC_WORDS];
};

struct answer {
    uint64_t result, run_ns, trip_ns;
};

/* ---- what is asked for ---- */

static bool refuse(const char *option, const char *what, const char *why)
{
    return fprintf(stderr, "profile_op: --%s: %s %s\n", option, what, why), false;
}

static bool plan_make(struct profile *p)
{
    enum gm_complaint complaint;
    struct gm_problem problem;
    char what[24];
    if (!gm_ops_plan_sized(&p->plan, p->name, &p->row, p->dtype, p->data, p->n, p->bins, &complaint)) {
        (void)gm_complaint_problem(&problem, complaint);
        return fprintf(stderr, "profile_op: --op %s: %s\n", p->name, problem.text), false;
    }
    if (p->plan.buffers == 0 || p->plan.bytes[0] / gm_buffer_element(&p->row, 0, &p->plan.args) == p->n)
        return true;
    snprintf(what, sizeof what, "%" PRIu64, p->n);
    return refuse("n", what, "elements are no whole number of pixels");
}

static bool choose(struct profile *p)
{
    const int op = p->name ? gm_op_by_name(p->name, strlen(p->name)) : -1;
    if (!p->name)
        return refuse("op", "none", "is given");
    if (op < 0)
        return refuse("op", "no op", p->name);
    p->op = (uint32_t)op;
    p->row = gm_op_row(p->op);
    p->data = gm_ops_first_data(&p->row);
    const uint32_t types = gm_ops_types(&p->row);
    if (p->type) {
        const int dtype = gm_dtype_by_name(p->type, strlen(p->type));
        if (dtype < 0)
            return refuse("type", "no element type", p->type);
        if (!(p->row.types >> dtype & 1u))
            return refuse("type", p->type, "is not one that the op takes");
        p->dtype = (uint32_t)dtype;
    } else {
        p->dtype = types >> GM_DTYPE_f32 & 1u ? (uint32_t)GM_DTYPE_f32 : types ? (uint32_t)__builtin_ctz(types) : 0;
    }
    if (p->bins != 0 && !gm_args_takes(&p->row, GM_A_bins))
        return refuse("bins", p->name, "takes none");
    return plan_make(p);
}

static bool parse(int argc, char **argv, struct profile *p)
{
    const struct gm_bench_option table[] = {GM_BENCH_STRING("device", p->device),
                                            GM_BENCH_STRING("op", p->name),
                                            GM_BENCH_STRING("type", p->type),
                                            GM_BENCH_COUNT("n", p->n, 1, GM_ELEMENTS_MAX, 1),
                                            GM_BENCH_COUNT("bins", p->bins, 1, GM_HIST_BINS_MAX, 1),
                                            GM_BENCH_COUNT("repeat", p->repeat, 1, 1000000, 1),
                                            GM_BENCH_COUNT("workers", p->workers, 0, GM_SHARES_MAX, 1),
                                            GM_BENCH_SWITCH("plain", p->plain),
                                            GM_BENCH_SWITCH("help", p->help),
                                            {0}};
    if (!gm_bench_parse(argc, argv, table))
        return false;
    return p->help || choose(p);
}

/* ---- the device ---- */

static int open_device(struct profile *p)
{
    const bool cuda = strncmp(p->device, "cuda", 4) == 0;
    /* No copy is the copy engine's: its end comes when no kernel runs, and nobody would see it. */
    const struct gm_device_config config = {
        .device = p->device, .workers = p->workers, .plain = p->plain, .idle_ns = 0, .copy_bytes = UINT64_MAX};
    const struct gm_backend *backend = gm_bed_backend(cuda ? "cuda" : "cpu");
    if (backend)
        return gm_bed_open(&p->bed, gm_bounded_backend(backend, NULL), &config, 0);
    snprintf(p->bed.text, sizeof p->bed.text, "this build has no cuda backend");
    return GM_ENODEVICE;
}

/* The job in a launch of its own; its status. */
static int one_job(struct profile *p, const uint32_t *words, struct answer *a)
{
    struct gm_granule completion;
    uint64_t position;
    const uint64_t begin = gm_bed_now_ns();
    int status = gm_bed_submit(&p->bed, words, &position);
    if (status == GM_OK)
        status = gm_bounded_wait(&p->bed, position, &completion);
    if (status != GM_OK)
        return status;
    a->trip_ns = gm_bed_now_ns() - begin;
    a->run_ns = gm_completion_run_ns(completion);
    a->result = gm_completion_result(completion);
    status = gm_completion_status(completion);
    if (status != GM_OK)
        snprintf(p->bed.text, sizeof p->bed.text, "the job failed: %s: %s", gm_error_name(status),
                 gm_error_text(status));
    return status;
}

struct filling {
    struct profile *profile;
    const struct gm_bed_arena *to;
    int status;
};

static bool put(void *context, bool repeated, uint64_t from, uint64_t to, uint64_t bytes)
{
    struct filling *f = context;
    struct answer unused;
    uint32_t words[GM_DESC_WORDS];
    gm_bed_words(words, GM_OP_copy, GM_DTYPE_u8, bytes, repeated ? f->to : f->profile->upload, from, f->to, to);
    f->status = one_job(f->profile, words, &unused);
    return f->status == GM_OK;
}

static int fill_inputs(struct profile *p)
{
    struct filling f = {.profile = p, .status = GM_OK};
    for (uint32_t i = 0; i < p->row.inputs && f.status == GM_OK; i++) {
        f.to = p->buffer[i];
        (void)gm_ops_fill(&p->plan, i, p->plan.bytes[i], p->upload->host, CHUNK_BYTES, put, &f);
    }
    return f.status;
}

static void describe(struct profile *p)
{
    memset(p->words, 0, sizeof p->words);
    p->words[GM_W_OP] = p->op;
    p->words[GM_W_SESSION] = GM_BED_SESSION;
    gm_args_put(p->words, &p->row, &p->plan.args);
    for (uint32_t i = 0; i < p->plan.buffers; i++) /* at the beginning of its arena */
        p->words[gm_buffer_word(i)] = p->buffer[i]->handle;
}

static int prepare(struct profile *p)
{
    int status = p->row.inputs != 0 ? gm_bed_arena_open(&p->bed, CHUNK_BYTES, false, 1, &p->upload) : GM_OK;
    for (uint32_t i = 0; i < p->plan.buffers && status == GM_OK; i++)
        status = gm_bed_arena_open(&p->bed, p->plan.bytes[i], true, 1, &p->buffer[i]);
    return status;
}

/* ---- */

static void tell(const struct profile *p, const struct answer *a)
{
    const struct gm_args *args = &p->plan.args;
    printf("profile_op device=%s op=%s type=%s n=%" PRIu64, p->device, p->name,
           p->row.types == GM_NO_TYPES ? "-" : gm_dtype_name(p->dtype), args->n);
    for (uint32_t arg = 0; arg < GM_ARGS; arg++) {
        const uint32_t place = gm_arg_place(arg);
        const bool count = gm_arg_type(arg) == GM_ARG_COUNT;
        if ((p->row.args >> arg & 1u) && (count || gm_arg_type(arg) == GM_ARG_SIZE))
            printf(" %s=%" PRIu64, gm_arg_name(arg),
                   !count                 ? args->value[place]
                   : place == GM_AT_COUNT ? (uint64_t)args->count
                                          : args->count2);
    }
    printf(" bytes=%" PRIu64 " workers=%u", gm_ops_moved(&p->plan, a->result), p->bed.hello.workers);
    if (gm_bounded_launches() != 0)
        printf(" launch=%u skip=%u", gm_bounded_launches(), gm_bounded_launches() - 1u);
    printf(" run_ns=%" PRIu64 " trip_ns=%" PRIu64 " result=%#" PRIx64 "\n", a->run_ns, a->trip_ns, a->result);
    fflush(stdout);
}

static int run(struct profile *p)
{
    struct answer first, a;
    int status = prepare(p);
    if (status != GM_OK)
        return status;
    do {
        status = plan_make(p) ? fill_inputs(p) : GM_EINVAL;
        describe(p);
        if (status == GM_OK)
            status = one_job(p, p->words, &first);
    } while (status == GM_EOVERFLOW && gm_ops_poorer(&p->data));
    for (uint32_t i = 0; i < p->repeat && status == GM_OK; i++) {
        status = one_job(p, p->words, &a);
        if (status != GM_OK)
            break;
        tell(p, &a);
        if (p->row.result != GM_RESULT_NONE && a.result != first.result) {
            snprintf(p->bed.text, sizeof p->bed.text, "the same input has another result");
            return GM_EINTERNAL;
        }
    }
    return status;
}

int main(int argc, char **argv)
{
    static struct profile p = {.device = "cpu", .n = 1u << 20, .repeat = 1};
    if (!parse(argc, argv, &p) || p.help) {
        fputs(usage_text, p.help ? stdout : stderr);
        return p.help ? 0 : 2;
    }
    int status = open_device(&p);
    if (status == GM_OK) {
        status = run(&p);
        if (status == GM_OK)
            status = gm_bed_close(&p.bed);
    }
    if (status != GM_OK)
        fprintf(stderr, "profile_op: %s (%s)\n", p.bed.text, gm_error_name(status));
    return status == GM_OK ? 0 : 1;
}
