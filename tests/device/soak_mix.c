/* SPDX-License-Identifier: Apache-2.0
 *
 * See soak_mix.h. The input holds one stretch per element type; floats are 24-bit fractions of one unit, so that their
 * sums are exact and every order of adding gives the same bits. Runs once, before the clock starts.
 */
#include "soak_mix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STRETCH  (UINT64_C(2) << 20) /* bytes of one type */
#define LARGE_N  131072u             /* elements of a large job: several tiles of any type */

/* How often, of SOAK_TABLE; the rest are no-ops. Large jobs are rare because each is worth hundreds of small ones. */
#define EACH_SMALL 12u
#define EACH_LARGE 1u

static const uint32_t types[] = {GM_DTYPE_u8, GM_DTYPE_i32, GM_DTYPE_u32, GM_DTYPE_i64, GM_DTYPE_u64, GM_DTYPE_f32,
                                 GM_DTYPE_f64};
#define TYPES (sizeof types / sizeof types[0])

static uint64_t stretch_of(uint32_t dtype)
{
    for (uint32_t i = 0; i < TYPES; i++)
        if (types[i] == dtype)
            return i * STRETCH;
    return 0;
}

static void fill_input(uint8_t *input, uint64_t seed)
{
    uint64_t r = seed;
    for (uint32_t i = 0; i < TYPES; i++) {
        uint8_t *at = input + i * STRETCH;
        const uint32_t bytes = gm_dtype_bytes(types[i]);
        for (uint64_t k = 0; k < STRETCH / bytes; k++, at += bytes) {
            const uint64_t v = soak_random(&r);
            const int64_t small = (int64_t)(v >> 24) - (INT64_C(1) << 39); /* 64-bit integers whose sums fit */
            const float f = (float)((int32_t)(v >> 39) - (1 << 24)) / 16777216.0f;
            const double g = (double)((int32_t)(v >> 39) - (1 << 24)) / 16777216.0;
            const uint64_t positive = v >> 24;
            if (types[i] == GM_DTYPE_f32)
                memcpy(at, &f, 4);
            else if (types[i] == GM_DTYPE_f64)
                memcpy(at, &g, 8);
            else if (types[i] == GM_DTYPE_i64)
                memcpy(at, &small, 8);
            else if (types[i] == GM_DTYPE_u64)
                memcpy(at, &positive, 8);
            else
                memcpy(at, &v, bytes);
        }
    }
}

/* ---- answers ---- */

static int64_t as_i64(uint32_t dtype, const uint8_t *at)
{
    int64_t wide = 0;
    int32_t i;
    memcpy(&wide, at, gm_dtype_bytes(dtype));
    if (dtype == GM_DTYPE_i32) {
        memcpy(&i, at, 4);
        return i;
    }
    return wide; /* u8 and u32 are zero-extended, u64 values have 40 bits */
}

static double as_f64(uint32_t dtype, const uint8_t *at)
{
    float f;
    double g;
    if (dtype == GM_DTYPE_f64) {
        memcpy(&g, at, 8);
        return g;
    }
    memcpy(&f, at, 4);
    return f;
}

/* No NaN and no -0 in the input: comparing numbers is enough. */
static bool before(uint32_t dtype, const uint8_t *a, const uint8_t *b)
{
    return gm_dtype_kind(dtype) == 'f' ? as_f64(dtype, a) < as_f64(dtype, b) : as_i64(dtype, a) < as_i64(dtype, b);
}

static uint64_t reduce(uint32_t op, uint32_t dtype, const uint8_t *in, uint64_t n)
{
    const uint32_t bytes = gm_dtype_bytes(dtype);
    uint64_t bits = 0;
    double sum = 0;
    const uint8_t *best = in;
    for (uint64_t i = 0; i < n; i++, in += bytes) {
        if (op != GM_OP_sum)
            best = (op == GM_OP_min ? before(dtype, in, best) : before(dtype, best, in)) ? in : best;
        else if (gm_dtype_kind(dtype) == 'f')
            sum += as_f64(dtype, in);
        else
            bits += (uint64_t)as_i64(dtype, in);
    }
    if (op != GM_OP_sum) {
        bits = 0;
        memcpy(&bits, best, bytes);
    } else if (gm_dtype_kind(dtype) == 'f') {
        memcpy(&bits, &sum, sizeof bits);
    }
    return bits;
}

static uint32_t sort_dtype; /* qsort hands its comparison nothing else; the setup is one thread */

static int sort_compare(const void *a, const void *b)
{
    return before(sort_dtype, a, b) ? -1 : before(sort_dtype, b, a) ? 1 : 0;
}

static void sort_output(uint32_t dtype, bool descending, const uint8_t *in, uint64_t n, uint8_t *out)
{
    const uint32_t bytes = gm_dtype_bytes(dtype);
    memcpy(out, in, n * bytes);
    sort_dtype = dtype;
    qsort(out, n, bytes, sort_compare);
    for (uint64_t i = 0; descending && i < n / 2u; i++) {
        uint8_t *a = out + i * bytes, *b = out + (n - 1u - i) * bytes, swap[8];
        memcpy(swap, a, bytes);
        memcpy(a, b, bytes);
        memcpy(b, swap, bytes);
    }
}

/* Bins of width 1 from 0 on: the bin of x is its whole part; hi itself belongs to the last. */
static uint64_t histogram_output(uint32_t dtype, const uint8_t *in, uint64_t n, uint32_t bins, uint8_t *out)
{
    const uint32_t bytes = gm_dtype_bytes(dtype);
    uint64_t *count = (uint64_t *)(void *)out, counted = 0;
    memset(out, 0, bins * 8u);
    for (uint64_t i = 0; i < n; i++, in += bytes) {
        const double x = gm_dtype_kind(dtype) == 'f' ? as_f64(dtype, in) : (double)as_i64(dtype, in);
        if (!(x >= 0 && x <= (double)bins))
            continue;
        count[x == (double)bins ? bins - 1u : (uint32_t)x]++;
        counted++;
    }
    return counted;
}

/* ---- jobs ---- */

static struct soak_job *add(struct soak_mix *mix, uint32_t times, const char *what)
{
    struct soak_job *job = &mix->job[mix->jobs];
    for (uint32_t i = 0; i < times && mix->table_used < SOAK_TABLE; i++)
        mix->table[mix->table_used++] = (uint16_t)mix->jobs;
    mix->jobs++;
    job->what = what;
    return job;
}

static void set_cuts(struct soak_job *job, const uint8_t *output, uint32_t bytes, uint64_t *random)
{
    const uint32_t *w = (const uint32_t *)(const void *)output;
    job->out_words = bytes / 4u;
    for (uint32_t c = 0; c < SOAK_CUTS; c++) {
        job->cut[c] = c == 0 ? job->out_words : 1u + (uint32_t)(soak_random(random) % job->out_words);
        job->prefix[c] = 0;
        for (uint32_t i = 0; i < job->cut[c]; i++)
            job->prefix[c] += w[i];
    }
}

struct shape {
    uint32_t op, dtype;
    uint64_t n, offset; /* of the input in its arena */
    uint32_t bins;
    bool descending;
};

static void make_words(const struct soak_mix *mix, const struct shape *s, uint64_t value, struct soak_job *job)
{
    if (s->op == GM_OP_fill)
        gm_bed_words_fill(job->words, s->dtype, s->n, value, mix->out, 0);
    else if (s->op == GM_OP_histogram)
        gm_bed_words_histogram(job->words, s->dtype, s->n, s->bins, 0, (double)s->bins, mix->in, mix->out, 0);
    else
        gm_bed_words(job->words, s->op, s->dtype, s->n, mix->in, s->offset,
                     s->op == GM_OP_copy || s->op == GM_OP_sort ? mix->out : NULL, 0);
    if (s->op == GM_OP_histogram)
        gm_desc_put64(job->words, GM_W_OFFSET0, s->offset);
    if (s->descending)
        job->words[GM_W_OP] |= (uint32_t)GM_FLAG_DESCENDING << 24;
}

/* One job with its answer; output: room for the largest region. */
static void make_job(struct soak_mix *mix, const struct shape *s, uint32_t times, uint8_t *output, uint64_t *random)
{
    static const char *const names[] = {"nop", "fill", "copy", "sum", "min", "max", "histogram", "sort"};
    struct soak_job *job = add(mix, times, names[s->op]);
    const uint8_t *in = mix->input + s->offset;
    const uint32_t bytes = gm_dtype_bytes(s->dtype);
    const uint64_t value = soak_random(random) & (bytes == 8 ? UINT64_MAX : (UINT64_C(1) << bytes * 8u) - 1u);
    uint64_t out_bytes = s->n * bytes;
    make_words(mix, s, value, job);
    if (s->op == GM_OP_sum || s->op == GM_OP_min || s->op == GM_OP_max) {
        job->result = reduce(s->op, s->dtype, in, s->n);
        return;
    }
    if (s->op == GM_OP_fill)
        for (uint64_t i = 0; i < s->n; i++)
            memcpy(output + i * bytes, &value, bytes);
    else if (s->op == GM_OP_copy)
        memcpy(output, in, out_bytes);
    else if (s->op == GM_OP_sort)
        sort_output(s->dtype, s->descending, in, s->n, output);
    else
        job->result = histogram_output(s->dtype, in, s->n, s->bins, output), out_bytes = s->bins * 8u;
    set_cuts(job, output, (uint32_t)out_bytes, random);
}

/* An op on a type at a random place, n elements; bytes of output are a multiple of four. */
static void make_kind(struct soak_mix *mix, uint32_t op, uint32_t dtype, uint64_t n, uint32_t times, uint8_t *output,
                      uint64_t *random)
{
    const uint32_t bytes = gm_dtype_bytes(dtype);
    struct shape s = {.op = op, .dtype = dtype, .n = n, .bins = 1u + (uint32_t)(soak_random(random) % 1000u)};
    if (bytes == 1)
        s.n = n / 4u * 4u + 4u;
    s.offset = stretch_of(dtype) + soak_random(random) % (STRETCH / bytes - s.n + 1u) * bytes;
    s.descending = op == GM_OP_sort && (soak_random(random) & 1u);
    make_job(mix, &s, times, output, random);
}

static void make_refusals(struct soak_mix *mix)
{
    struct soak_job *job = add(mix, EACH_SMALL, "unknown op");
    gm_bed_words(job->words, 77, 0, 0, NULL, 0, NULL, 0);
    job->status = GM_EOP;
    job = add(mix, EACH_SMALL, "stale handle");
    gm_bed_words(job->words, GM_OP_sum, GM_DTYPE_u32, 100, mix->in, 0, NULL, 0);
    job->words[GM_W_ARENA0] = gm_handle(gm_handle_index(mix->in->handle), SOAK_GENERATION - 1u);
    job->status = GM_ESTALE;
    job = add(mix, EACH_SMALL, "handle of the generation after the wrap");
    memcpy(job->words, (job - 1)->words, sizeof job->words);
    job->words[GM_W_ARENA0] = gm_handle(gm_handle_index(mix->in->handle), 1);
    job->status = GM_ESTALE;
    job = add(mix, EACH_SMALL, "one element too many");
    gm_bed_words(job->words, GM_OP_sum, GM_DTYPE_u32, mix->in->bytes / 4u + 1u, mix->in, 0, NULL, 0);
    job->status = GM_EBOUNDS;
    job = add(mix, EACH_SMALL, "minimum of nothing");
    gm_bed_words(job->words, GM_OP_min, GM_DTYPE_f32, 0, mix->in, 0, NULL, 0);
    job->status = GM_EEMPTY;
    job = add(mix, EACH_SMALL, "odd offset");
    gm_bed_words(job->words, GM_OP_max, GM_DTYPE_f64, 10, mix->in, 4, NULL, 0);
    job->status = GM_EALIGN;
}

static void make_jobs(struct soak_mix *mix, uint8_t *output, uint64_t seed)
{
    uint64_t random = ~seed;
    struct soak_job *nop = add(mix, 0, "nop");
    nop->words[GM_W_OP] = GM_OP_nop;
    make_refusals(mix);
    for (uint32_t op = GM_OP_fill; op <= GM_OP_sort; op++)
        for (uint32_t t = 0; t < TYPES; t++) {
            if (!(gm_op_row(op).types >> types[t] & 1u))
                continue;
            const uint32_t most = SOAK_SMALL_WORDS * 4u / gm_dtype_bytes(types[t]);
            const uint32_t small = op == GM_OP_sort ? 2000u : most < 4096u ? most : 4096u;
            for (uint32_t k = 0; k < 4; k++)
                make_kind(mix, op, types[t], 1u + soak_random(&random) % small, EACH_SMALL, output, &random);
            make_kind(mix, op, types[t], LARGE_N - soak_random(&random) % 1000u, EACH_LARGE, output, &random);
        }
    while (mix->table_used < SOAK_TABLE)
        mix->table[mix->table_used++] = 0;
}

int soak_mix_make(struct soak_mix *mix, struct gm_bed *bed, uint64_t seed)
{
    struct gm_bed_arena *host = NULL;
    uint32_t words[GM_DESC_WORDS];
    const uint64_t out_words = SOAK_SMALL_REGIONS * SOAK_SMALL_WORDS + SOAK_LARGE_REGIONS * SOAK_LARGE_WORDS;
    memset(mix, 0, sizeof *mix);
    mix->bed = bed;
    mix->input = malloc(TYPES * STRETCH);
    uint8_t *output = malloc(SOAK_LARGE_WORDS * 4u);
    int status = mix->input && output ? GM_OK : GM_ENOMEM;
    if (status == GM_OK)
        status = gm_bed_arena_open(bed, TYPES * STRETCH, false, SOAK_GENERATION, &host);
    if (status == GM_OK)
        status = gm_bed_arena_open(bed, TYPES * STRETCH, true, SOAK_GENERATION, &mix->in);
    if (status == GM_OK)
        status = gm_bed_arena_open(bed, out_words * 4u, true, SOAK_GENERATION, &mix->out);
    if (status == GM_OK) {
        fill_input(mix->input, seed);
        memcpy(host->host, mix->input, TYPES * STRETCH);
        gm_bed_words(words, GM_OP_copy, GM_DTYPE_u8, TYPES * STRETCH, host, 0, mix->in, 0);
        status = gm_bed_run(bed, words, NULL);
        mix->setup_jobs++;
        make_jobs(mix, output, seed);
    }
    free(output);
    return status;
}

void soak_mix_free(struct soak_mix *mix)
{
    free(mix->input);
    mix->input = NULL;
}

static uint64_t region_offset(uint16_t region)
{
    if (region < SOAK_SMALL_REGIONS)
        return region * (uint64_t)SOAK_SMALL_WORDS * 4u;
    return (SOAK_SMALL_REGIONS * (uint64_t)SOAK_SMALL_WORDS +
            (region - SOAK_SMALL_REGIONS) * (uint64_t)SOAK_LARGE_WORDS) * 4u;
}

void soak_output_words(const struct soak_mix *mix, const struct soak_job *job, uint16_t region, uint32_t *words)
{
    (void)mix;
    memcpy(words, job->words, sizeof job->words);
    const bool fill = (words[GM_W_OP] & 0xffffu) == GM_OP_fill;
    gm_desc_put64(words, fill ? GM_W_OFFSET0 : GM_W_OFFSET1, region_offset(region));
}

void soak_check_words(const struct soak_mix *mix, const struct soak_job *job, uint16_t region, uint16_t cut,
                      uint32_t *words)
{
    gm_bed_words(words, GM_OP_sum, GM_DTYPE_u32, job->cut[cut], mix->out, region_offset(region), NULL, 0);
}

void soak_describe(const struct soak_mix *mix, uint32_t index, uint16_t cut, char *text, size_t size)
{
    if (index == SOAK_SECOND_HALF || (index & ~SOAK_CHECK) >= mix->jobs) {
        snprintf(text, size, "second half of a descriptor");
        return;
    }
    const struct soak_job *job = &mix->job[index & ~SOAK_CHECK];
    const uint64_t n = gm_desc_get64(job->words, GM_W_N);
    if (index & SOAK_CHECK)
        snprintf(text, size, "sum of %u of %u words written by %s, dtype %u, n %llu; expected %llu", job->cut[cut],
                 job->out_words, job->what, job->words[GM_W_OP] >> 16 & 0xffu, (unsigned long long)n,
                 (unsigned long long)job->prefix[cut]);
    else
        snprintf(text, size, "%s, dtype %u, n %llu; expected status %d, result %#llx", job->what,
                 job->words[GM_W_OP] >> 16 & 0xffu, (unsigned long long)n, job->status,
                 (unsigned long long)job->result);
}
