/* SPDX-License-Identifier: Apache-2.0
 *
 * Every op on each of its types at two sizes (one tile; several tiles, and for sort several phases), for
 * compute-sanitizer, under which a kernel that waits for the host never gets anywhere: the device's idle time is zero,
 * so all jobs are written into the lane first, then the kernel is launched, takes them and returns. Answers and outputs
 * are compared with the oracles. One thread; bounded by the op table.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bed.h"
#include "matrix.h"
#include "wire.h"

#define CASES     256u
#define SMALL     1000u
#define MARGIN    256u /* bytes between two outputs; must stay as they were */
#define POISON    0xa5u
#define NOPS      100u
#define MOST      (UINT64_C(64) << 20) /* bytes of all inputs, and of all outputs */

struct one {
    struct gm_case c;
    struct gm_oracle_job expected;
    uint64_t in, out, in_bytes, out_bytes, position;
};

struct sanitize {
    struct gm_bed bed;
    struct gm_bed_arena *host_in, *host_out, *in, *out;
    struct one one[CASES];
    uint32_t count;
    uint64_t in_used, out_used, jobs;
};

static uint64_t up(uint64_t v) { return (v + 255u) & ~UINT64_C(255); }

/* Gives a case its place, its data and its answer. */
static bool add(struct sanitize *s, uint32_t op, uint32_t dtype, uint64_t n, uint32_t flags)
{
    const struct gm_op_row row = gm_op_row(op);
    struct one *o = &s->one[s->count];
    if (s->count == CASES)
        return false;
    o->c = (struct gm_case){.op = op, .dtype = dtype, .n = n, .flags = flags, .pattern = GM_PATTERN_SMALL,
                            .seed = s->count + 1u};
    gm_case_choose(&o->c);
    o->in = s->in_used;
    o->out = s->out_used + MARGIN;
    o->in_bytes = row.inputs ? n * gm_dtype_bytes(dtype) : 0;
    o->out_bytes = row.outputs ? gm_output_bytes(row.shape, n, o->c.bins, dtype) : 0;
    s->in_used = o->in + up(o->in_bytes);
    s->out_used = o->out + up(o->out_bytes);
    if (s->in_used > MOST || s->out_used + MARGIN > MOST)
        return false;
    gm_pattern_fill(s->host_in->host + o->in, row.inputs ? n : 0, dtype, o->c.pattern, o->c.seed);
    o->expected = (struct gm_oracle_job){.dtype = dtype, .flags = flags, .bins = o->c.bins, .n = n,
                                         .value = {o->c.value[0], o->c.value[1]}, .in = s->host_in->host + o->in,
                                         .out = malloc(o->out_bytes + 1u)};
    s->count++;
    return o->expected.out != NULL;
}

static void ask_oracle(struct one *o)
{
    switch (o->c.op) {
#define OP(id, name, shape, types, result, work, tile_bytes, tolerance, help)                                          \
    case id:                                                                                                           \
        gm_oracle_##name(&o->expected);                                                                                \
        break;
#include "ops.def"
#undef OP
    }
}

static bool add_all(struct sanitize *s)
{
    bool room = true;
    for (uint32_t op = 1; op < GM_OP_COUNT && room; op++) {
        const struct gm_op_row row = gm_op_row(op);
        for (uint32_t dtype = 0; dtype < GM_DTYPE_COUNT && room; dtype++) {
            if (!(row.types >> dtype & 1u))
                continue;
            const uint64_t tile = row.tile_bytes / gm_dtype_bytes(dtype);
            room = add(s, op, dtype, tile < SMALL ? tile : SMALL, 0) && add(s, op, dtype, 3u * tile + 17u, 0);
            if (room && op == GM_OP_sort)
                room = add(s, op, dtype, SMALL, GM_FLAG_DESCENDING) &&
                       add(s, op, dtype, 3u * tile + 17u, GM_FLAG_DESCENDING);
        }
    }
    for (uint32_t i = 0; i < s->count; i++)
        ask_oracle(&s->one[i]);
    return room;
}

static void words_of(const struct sanitize *s, const struct one *o, uint32_t *words)
{
    const struct gm_op_row row = gm_op_row(o->c.op);
    gm_bed_words(words, o->c.op, o->c.dtype, o->c.n, row.inputs ? s->in : NULL, o->in, row.outputs ? s->out : NULL,
                 o->out);
    words[GM_W_OP] |= (o->c.flags | (row.wide ? (uint32_t)GM_FLAG_WIDE : 0u)) << 24;
    words[GM_W_COUNT] = o->c.bins;
    if (row.wide) {
        words[GM_W_WIDE] = GM_DESC_WIDE_MARK;
        gm_desc_put64(words, GM_W_VALUE0, o->c.value[0]);
        gm_desc_put64(words, GM_W_VALUE1, o->c.value[1]);
    }
}

static int batch(struct sanitize *s)
{
    uint32_t words[GM_DESC_WORDS];
    const uint64_t first = s->bed.position;
    for (uint32_t i = 0; i < s->count; i++) {
        words_of(s, &s->one[i], words);
        s->one[i].position = s->bed.position;
        s->bed.position = gm_bed_put(&s->bed, s->bed.position, words);
    }
    memset(words, 0, sizeof words);
    words[GM_W_OP] = GM_OP_nop;
    for (uint32_t i = 0; i < NOPS; i++)
        s->bed.position = gm_bed_put(&s->bed, s->bed.position, words);
    const uint64_t last = s->bed.position - 1u;
    int status = s->bed.position - first <= GM_LANE0_SLOTS ? gm_bed_ring(&s->bed) : GM_ESIZE;
    struct gm_granule completion;
    for (uint64_t p = last - (NOPS - 1u); status == GM_OK && p <= last; p++)
        status = gm_bed_wait(&s->bed, p, &completion);
    for (uint32_t i = 0; status == GM_OK && i < s->count; i++)
        status = gm_bed_wait(&s->bed, s->one[i].position, &completion);
    s->jobs += s->count + NOPS;
    return status;
}

static int carry(struct sanitize *s, const struct gm_bed_arena *from, const struct gm_bed_arena *to, uint64_t bytes)
{
    uint32_t words[GM_DESC_WORDS];
    gm_bed_words(words, GM_OP_copy, GM_DTYPE_u8, bytes, from, 0, to, 0);
    s->jobs++;
    return gm_bed_run(&s->bed, words, NULL);
}

static bool result_right(const struct one *o, struct gm_granule g)
{
    const struct gm_op_row row = gm_op_row(o->c.op);
    const uint64_t result = gm_completion_result(g);
    double is, should;
    if (gm_completion_status(g) != o->expected.status)
        return false;
    if (o->expected.status != GM_OK || row.result == GM_RESULT_NONE || result == o->expected.result)
        return true;
    memcpy(&is, &result, sizeof is);
    memcpy(&should, &o->expected.result, sizeof should);
    return row.tolerance == GM_TOLERANCE_SUM && gm_dtype_kind(o->c.dtype) == 'f' &&
           fabs(is - should) <= o->expected.tolerance;
}

static uint32_t compare(struct sanitize *s)
{
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        const struct one *o = &s->one[i];
        struct gm_granule g;
        const uint8_t *out = s->host_out->host + o->out;
        bool right = gm_bed_answered(&s->bed, o->position, &g) && result_right(o, g);
        right = right && (o->expected.status != GM_OK || memcmp(out, o->expected.out, o->out_bytes) == 0);
        for (uint64_t k = 1; k <= MARGIN; k++)
            right = right && out[-(int64_t)k] == POISON;
        for (uint64_t k = o->out_bytes; k < up(o->out_bytes) + MARGIN; k++)
            right = right && out[k] == POISON;
        if (right)
            continue;
        wrong++;
        fprintf(stderr, "sanitize_ops: wrong: %s %s n %llu flags %u: status %d, result %#llx\n", gm_op_name(o->c.op),
                gm_dtype_name(o->c.dtype), (unsigned long long)o->c.n, o->c.flags, gm_completion_status(g),
                (unsigned long long)gm_completion_result(g));
    }
    return wrong;
}

static int run(struct sanitize *s)
{
    int status = gm_bed_arena_open(&s->bed, MOST, false, 1, &s->host_in);
    if (status == GM_OK)
        status = gm_bed_arena_open(&s->bed, MOST, false, 1, &s->host_out);
    if (status != GM_OK)
        return status;
    if (!add_all(s)) {
        snprintf(s->bed.text, sizeof s->bed.text, "the cases do not fit %u rows and %llu bytes", CASES,
                 (unsigned long long)MOST);
        return GM_ESIZE;
    }
    /* No larger than what is used, so that memcheck sees what is written beyond the last page. */
    status = gm_bed_arena_open(&s->bed, s->in_used, true, 1, &s->in);
    if (status == GM_OK)
        status = gm_bed_arena_open(&s->bed, s->out_used + MARGIN, true, 1, &s->out);
    if (status == GM_OK) {
        memset(s->host_out->host, POISON, s->out_used + MARGIN);
        status = carry(s, s->host_in, s->in, s->in_used);
    }
    if (status == GM_OK)
        status = carry(s, s->host_out, s->out, s->out_used + MARGIN);
    if (status == GM_OK)
        status = batch(s);
    if (status == GM_OK)
        status = carry(s, s->out, s->host_out, s->out_used + MARGIN);
    return status;
}

static bool parse(int argc, char **argv, const char **name, struct gm_device_config *config)
{
    static const struct option options[] = {{"backend", required_argument, NULL, 'b'},
                                            {"workers", required_argument, NULL, 'w'},
                                            {"plain", no_argument, NULL, 'p'},
                                            {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        char *end = NULL;
        if (c == 'b')
            *name = optarg;
        else if (c == 'p')
            config->plain = true;
        else if (c != 'w' || (config->workers = (uint32_t)strtoul(optarg, &end, 10), *end != 0))
            return false;
    }
    return optind == argc;
}

int main(int argc, char **argv)
{
    static struct sanitize s;
    const char *name = "cpu";
    struct gm_device_config config = {.workspace_bytes = UINT64_C(64) << 20, .idle_ns = 0};
    if (!parse(argc, argv, &name, &config))
        return fputs("usage: sanitize_ops [--backend cpu|cuda] [--workers N] [--plain]\n", stderr), 2;
    const struct gm_backend *backend = gm_bed_backend(name);
    if (!backend) {
        fprintf(stderr, "sanitize_ops: skipped: this build has no %s backend\n", name);
        return 77;
    }
    config.device = strcmp(name, "cuda") == 0 ? "cuda:0" : "cpu";
    int status = gm_bed_open(&s.bed, backend, &config, 0);
    if (status == GM_ENODEVICE) {
        fprintf(stderr, "sanitize_ops: skipped: %s\n", s.bed.text);
        return 77;
    }
    if (status == GM_OK)
        status = run(&s);
    const uint32_t wrong = status == GM_OK ? compare(&s) : 0;
    const uint64_t launches = status == GM_OK ? gm_bed_counters(&s.bed).launches : 0;
    if (status == GM_OK)
        status = gm_bed_close(&s.bed);
    if (status != GM_OK) {
        fprintf(stderr, "sanitize_ops: %s (status %d)\n", s.bed.text, status);
        return 1;
    }
    printf("sanitize_ops backend=%s path=%s workers=%u jobs=%llu cases=%u wrong=%u launches=%llu\n", name,
           config.plain ? "plain" : "default", s.bed.hello.workers, (unsigned long long)s.jobs, s.count, wrong,
           (unsigned long long)launches);
    for (uint32_t i = 0; i < s.count; i++)
        free(s.one[i].expected.out);
    return wrong == 0 ? 0 : 1;
}
