/* SPDX-License-Identifier: Apache-2.0
 *
 * Latencies and rates of jobs, see measure.h. The client is a thread of its own that spins, as a client with a lane
 * does; bounded by sample counts and time budgets.
 */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

#define WARM_UP       2000u
#define SUBMIT_BATCH  1024u
#define PUT_BATCH     32u /* descriptors between two looks at the asleep flag */
#define OPS_LOG2_MAX  24u

static const uint32_t nop_words[GM_DESC_WORDS] = {GM_OP_nop};

static int run_on_thread(void *(*body)(void *), struct gm_measure *m)
{
    pthread_t thread;
    m->status = GM_OK;
    if (pthread_create(&thread, NULL, body, m) != 0) {
        snprintf(m->bed->text, sizeof m->bed->text, "client thread");
        return GM_ESYSTEM;
    }
    pthread_join(thread, NULL);
    return m->status;
}

static void *nop_round_trips(void *arg)
{
    struct gm_measure *m = arg;
    for (size_t i = 0; i < m->count + WARM_UP && m->status == GM_OK; i++) {
        const uint64_t begin = gm_bed_now_ns();
        m->status = gm_bed_run(m->bed, nop_words, NULL);
        if (i >= WARM_UP)
            gm_samples_add(&m->samples, gm_bed_now_ns() - begin);
    }
    return NULL;
}

static void *submissions(void *arg)
{
    struct gm_measure *m = arg;
    struct gm_granule completion;
    for (size_t i = 0; i < m->count / SUBMIT_BATCH + 10u && m->status == GM_OK; i++) {
        uint64_t position = 0;
        const uint64_t begin = gm_bed_now_ns();
        for (uint32_t k = 0; k < SUBMIT_BATCH && m->status == GM_OK; k++)
            m->status = gm_bed_submit(m->bed, nop_words, &position);
        const uint64_t end = gm_bed_now_ns();
        for (uint64_t p = position - (SUBMIT_BATCH - 1u); m->status == GM_OK && p <= position; p++)
            m->status = gm_bed_wait(m->bed, p, &completion);
        gm_samples_add(&m->samples, (end - begin) / SUBMIT_BATCH);
    }
    return NULL;
}

int gm_measure_nop(struct gm_measure *m)
{
    int status = run_on_thread(nop_round_trips, m);
    if (status != GM_OK)
        return status;
    gm_figures_latency(m->figures, "nop_round_trip", "no-op, round trip over lane 0", &m->samples);
    status = run_on_thread(submissions, m);
    if (status == GM_OK)
        gm_figures_latency(m->figures, "submit_cost", "one submission, client's time (1024 in a row)", &m->samples);
    return status;
}

/* Keeps a window of no-ops in flight for the budget; returns jobs a second, or 0. */
static double pump(struct gm_measure *m, uint64_t window)
{
    struct gm_bed *bed = m->bed;
    const uint64_t first = bed->position, begin = gm_bed_now_ns();
    uint64_t tail = first, now = begin;
    struct gm_granule completion;
    for (uint32_t turn = 1; now - begin < m->budget_ns && m->status == GM_OK; turn++) {
        uint32_t puts = 0;
        for (; bed->position - tail < window && puts < PUT_BATCH; puts++)
            bed->position = gm_bed_put(bed, bed->position, nop_words);
        if (puts != 0)
            m->status = gm_bed_ring(bed);
        const uint64_t before = tail;
        while (tail != bed->position && gm_bed_answered(bed, tail, &completion))
            tail++;
        if (puts == 0 && tail == before) {
            gm_bed_relax();
            if (bed->spins != 0)
                sched_yield();
        }
        if (turn % 64u == 0)
            now = gm_bed_now_ns();
    }
    for (; tail != bed->position && m->status == GM_OK; tail++)
        m->status = gm_bed_wait(bed, tail, &completion);
    return m->status == GM_OK ? (double)(tail - first) * 1e9 / (double)(gm_bed_now_ns() - begin) : 0;
}

static void *rates(void *arg)
{
    static const uint32_t windows[] = {1, 16, 64, 256, 1000, 4000};
    struct gm_measure *m = arg;
    for (uint32_t i = 0; i < sizeof windows / sizeof windows[0] && m->status == GM_OK; i++) {
        char name[32], what[64];
        const double rate = pump(m, windows[i]);
        snprintf(name, sizeof name, "nop_rate_%u", windows[i]);
        snprintf(what, sizeof what, "no-op jobs of one submitter, %u in flight", windows[i]);
        if (m->status == GM_OK)
            gm_figures_value(m->figures, name, what, "jobs/s", rate);
    }
    return NULL;
}

int gm_measure_rates(struct gm_measure *m) { return run_on_thread(rates, m); }

/* ---- jobs on device memory ---- */

struct work {
    const char *name, *what;
    uint32_t op, dtype, log2;
};

static const struct work works[] = {
    {"sum_10", "sum of 2^10 f32", GM_OP_sum, GM_DTYPE_f32, 10},
    {"sum_14", "sum of 2^14 f32", GM_OP_sum, GM_DTYPE_f32, 14},
    {"sum_16", "sum of 2^16 f32", GM_OP_sum, GM_DTYPE_f32, 16},
    {"sum_20", "sum of 2^20 f32", GM_OP_sum, GM_DTYPE_f32, 20},
    {"sum_24", "sum of 2^24 f32", GM_OP_sum, GM_DTYPE_f32, 24},
    {"fill_20", "fill of 2^20 u32", GM_OP_fill, GM_DTYPE_u32, 20},
    {"copy_20", "copy of 2^20 u32", GM_OP_copy, GM_DTYPE_u32, 20},
    {"copy_24", "copy of 2^24 u32", GM_OP_copy, GM_DTYPE_u32, 24},
    {"histogram_20", "histogram of 2^20 u8 in 256 bins", GM_OP_histogram, GM_DTYPE_u8, 20},
    {"sort_10", "sort of 2^10 u32 (one phase)", GM_OP_sort, GM_DTYPE_u32, 10},
    {"sort_16", "sort of 2^16 u32 (eight phases)", GM_OP_sort, GM_DTYPE_u32, 16},
    {"sort_20", "sort of 2^20 u32 (eight phases)", GM_OP_sort, GM_DTYPE_u32, 20},
};

struct bench_data {
    struct gm_bed_arena *in, *out, *host;
};

/* Floats in [0, 1) with 24 bits each: their exact sum fits 53 bits up to 2^24 of them, so every order gives it. */
static uint32_t number(uint64_t i) { return (uint32_t)((i + 1u) * UINT64_C(0x9E3779B97F4A7C15) >> 40); }

static int data_make(struct gm_measure *m, struct bench_data *data)
{
    const uint64_t n = UINT64_C(1) << OPS_LOG2_MAX;
    uint32_t words[GM_DESC_WORDS];
    int status = gm_bed_arena_open(m->bed, n * 4u, false, 1, &data->host);
    if (status == GM_OK)
        status = gm_bed_arena_open(m->bed, n * 4u, true, 1, &data->in);
    if (status == GM_OK)
        status = gm_bed_arena_open(m->bed, n * 4u, true, 1, &data->out);
    if (status != GM_OK)
        return status;
    float *f = (float *)(void *)data->host->host;
    for (uint64_t i = 0; i < n; i++)
        f[i] = (float)number(i) / 16777216.0f;
    gm_bed_words(words, GM_OP_copy, GM_DTYPE_f32, n, data->host, 0, data->in, 0);
    return gm_bed_run(m->bed, words, NULL);
}

static void work_words(const struct work *w, const struct bench_data *data, uint32_t *words)
{
    const uint64_t n = UINT64_C(1) << w->log2;
    if (w->op == GM_OP_fill)
        gm_bed_words_fill(words, w->dtype, n, 0x5a5a5a5au, data->out, 0);
    else if (w->op == GM_OP_histogram)
        gm_bed_words_histogram(words, w->dtype, n, 256, 0, 256, data->in, data->out, 0);
    else
        gm_bed_words(words, w->op, w->dtype, n, data->in, 0, w->op == GM_OP_sum ? NULL : data->out, 0);
}

static int by_u32(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* What the output of a work must be, over the copy of the input; false: no memory. */
static bool output_right(const struct work *w, const struct bench_data *data, const uint32_t *in)
{
    const uint64_t n = UINT64_C(1) << w->log2;
    const uint32_t *got = (const uint32_t *)(void *)data->host->host;
    if (w->op == GM_OP_fill) {
        for (uint64_t i = 0; i < n; i++)
            if (got[i] != 0x5a5a5a5au)
                return false;
        return true;
    }
    if (w->op == GM_OP_histogram) {
        uint64_t bins[256] = {0};
        for (uint64_t i = 0; i < n; i++)
            bins[((const uint8_t *)in)[i]]++;
        return memcmp(bins, got, sizeof bins) == 0;
    }
    if (w->op == GM_OP_copy)
        return memcmp(in, got, n * 4u) == 0;
    uint32_t *sorted = malloc(n * 4u);
    if (!sorted)
        return false;
    memcpy(sorted, in, n * 4u);
    qsort(sorted, n, 4, by_u32);
    const bool right = memcmp(sorted, got, n * 4u) == 0;
    free(sorted);
    return right;
}

/* One run whose answer is looked at in full. */
static int work_check(struct gm_measure *m, const struct work *w, const struct bench_data *data, const uint32_t *in)
{
    uint32_t words[GM_DESC_WORDS];
    uint64_t result = 0, exact = 0;
    double sum;
    work_words(w, data, words);
    int status = gm_bed_run(m->bed, words, &result);
    bool right;
    if (status == GM_OK && w->op == GM_OP_sum) {
        for (uint64_t i = 0; i < UINT64_C(1) << w->log2; i++)
            exact += number(i);
        memcpy(&sum, &result, sizeof sum);
        right = sum == (double)exact / 16777216.0;
    } else {
        const uint64_t bytes = w->op == GM_OP_histogram ? 2048u : UINT64_C(4) << w->log2;
        gm_bed_words(words, GM_OP_copy, GM_DTYPE_u8, bytes, data->out, 0, data->host, 0);
        if (status == GM_OK)
            status = gm_bed_run(m->bed, words, NULL);
        right = status == GM_OK && output_right(w, data, in);
    }
    if (status == GM_OK && !right) {
        snprintf(m->bed->text, sizeof m->bed->text, "%s: wrong answer", w->what);
        status = GM_EINTERNAL;
    }
    return status;
}

struct work_run {
    struct gm_measure *m;
    const struct work *work;
    const struct bench_data *data;
};

static const struct work_run *current; /* handed to the client thread, which is joined before it changes */

static void *work_samples(void *arg)
{
    struct gm_measure *m = arg;
    uint32_t words[GM_DESC_WORDS];
    const size_t count = m->count / 10u + 10u, warm_up = 10;
    const uint64_t start = gm_bed_now_ns();
    uint64_t end = start;
    work_words(current->work, current->data, words);
    for (size_t i = 0; i < count + warm_up && m->status == GM_OK && (i < 20u || end - start < m->budget_ns); i++) {
        const uint64_t begin = gm_bed_now_ns();
        m->status = gm_bed_run(m->bed, words, NULL);
        end = gm_bed_now_ns();
        if (i >= warm_up)
            gm_samples_add(&m->samples, end - begin);
    }
    return NULL;
}

int gm_measure_ops(struct gm_measure *m)
{
    struct bench_data data;
    int status = data_make(m, &data);
    if (status != GM_OK)
        return status;
    uint32_t *in = malloc(data.host->bytes);
    if (!in)
        return GM_ENOMEM;
    memcpy(in, data.host->host, data.host->bytes);
    for (uint32_t i = 0; i < sizeof works / sizeof works[0] && status == GM_OK; i++) {
        const struct work_run run = {m, &works[i], &data};
        status = work_check(m, &works[i], &data, in);
        current = &run;
        if (status == GM_OK)
            status = run_on_thread(work_samples, m);
        if (status == GM_OK)
            gm_figures_latency(m->figures, works[i].name, works[i].what, &m->samples);
    }
    free(in);
    return status;
}
