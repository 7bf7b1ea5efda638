/* SPDX-License-Identifier: Apache-2.0
 *
 * Every op on its types at two sizes (one tile; several tiles and shares, and for sort several phases), for
 * compute-sanitizer, under which a kernel that waits for the host never gets anywhere: the device is the bounded one of
 * sanitize_device.h, and the cases go into the lane a few at a time, one launch for each few. Answers and outputs are
 * compared with the oracles. Every op comes once before any comes on a second type, and no launch begins after
 * --seconds, so that a slow tool leaves the rest out and never an op. One thread; bounded by the op table.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "matrix.h"
#include "sanitize_device.h"
#include "wire.h"

#define CASES     2048u
#define SMALL     1000u
#define MARGIN    256u /* bytes between two outputs; must stay as they were */
#define POISON    0xa5u
#define NOPS      8u  /* beside every few cases, so that they find the workers busy */
#define MOST      (UINT64_C(128) << 20) /* bytes of all inputs, and of all outputs */
#define SIZES     2u

struct options {
    const char *backend;
    uint64_t ops; /* bit set */
    uint32_t workers, sizes, types, per_launch;
    uint64_t seconds;
    bool plain;
};

struct one {
    struct gm_case c;
    struct gm_oracle_job expected;
    uint64_t at[GM_BUFFERS_MAX], bytes[GM_BUFFERS_MAX], position; /* of buffers: in the inputs, or in the outputs */
};

struct sanitize {
    struct gm_bed bed;
    struct options o;
    struct gm_bed_arena *host_in, *host_out, *in, *out;
    struct one one[CASES];
    uint32_t count, done; /* cases there are, and that were run: always the first ones */
    uint64_t in_used, out_used, jobs;
};

static uint64_t up(uint64_t v) { return (v + 255u) & ~UINT64_C(255); }

/* ---- cases ---- */

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
    const struct gm_args args = gm_case_args(&o->c);
    const void *in[2] = {NULL, NULL};
    void *out[2] = {NULL, NULL};
    for (uint32_t i = 0; i < (uint32_t)row.inputs + row.outputs; i++) {
        const bool is_out = i >= row.inputs;
        o->bytes[i] = gm_buffer_bytes(&row, i, &args);
        o->at[i] = is_out ? s->out_used + MARGIN : s->in_used;
        *(is_out ? &s->out_used : &s->in_used) = o->at[i] + up(o->bytes[i]);
        if (s->in_used > MOST || s->out_used + MARGIN > MOST)
            return false;
        if (is_out && (out[i - row.inputs] = malloc(o->bytes[i] + 1u)) == NULL)
            return false;
        if (is_out) {
            memset(out[i - row.inputs], POISON, o->bytes[i]);
            continue;
        }
        gm_case_fill(&o->c, i, s->host_in->host + o->at[i]);
        in[i] = s->host_in->host + o->at[i];
    }
    o->expected = gm_case_question(&o->c, in[0], in[1], out[0], out[1]);
    if (row.tolerance != GM_TOLERANCE_EXACT && row.outputs != 0 &&
        (o->expected.slack = calloc(o->bytes[row.inputs] + 1u, sizeof(double))) == NULL)
        return false;
    s->count++;
    return true;
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

/* The op on its type of a rank, counted from a different one for each op; GM_DTYPE_COUNT when it has not so many. */
static uint32_t type_of_rank(uint32_t op, uint32_t rank)
{
    for (uint32_t i = 0; i < GM_DTYPE_COUNT; i++) {
        const uint32_t dtype = (op * 3u + i) % GM_DTYPE_COUNT;
        if ((gm_op_row(op).types >> dtype & 1u) && rank-- == 0)
            return dtype;
    }
    return GM_DTYPE_COUNT;
}

static bool add_op(struct sanitize *s, uint32_t op, uint32_t dtype)
{
    const struct gm_op_row row = gm_op_row(op);
    const uint32_t flag = gm_args_flags(&row) & ~(uint32_t)GM_FLAG_WIDE; /* one at most */
    const uint64_t tile = row.tile_bytes / gm_dtype_bytes(dtype);
    const uint64_t size[SIZES] = {tile < SMALL ? tile : SMALL, 3u * tile + 17u};
    bool room = true;
    for (uint32_t i = 0; i < s->o.sizes && room; i++) {
        room = add(s, op, dtype, size[i], 0);
        if (room && flag != 0)
            room = add(s, op, dtype, size[i], flag);
    }
    return room;
}

static bool add_all(struct sanitize *s)
{
    bool room = true;
    for (uint32_t rank = 0; rank < GM_DTYPE_COUNT && (s->o.types == 0 || rank < s->o.types); rank++)
        for (uint32_t op = 0; op < GM_OP_COUNT && room; op++) {
            const uint32_t dtype = type_of_rank(op, rank);
            if (!(s->o.ops >> op & 1u))
                continue;
            if (gm_op_row(op).shape == GM_SHAPE_NONE)
                room = rank != 0 || add(s, op, 0, 0, 0);
            else if (dtype != GM_DTYPE_COUNT)
                room = add_op(s, op, dtype);
        }
    for (uint32_t i = 0; i < s->count; i++)
        ask_oracle(&s->one[i]);
    return room && s->count != 0;
}

/* ---- launches ---- */

static void words_of(const struct sanitize *s, const struct one *o, uint32_t *words)
{
    const struct gm_op_row row = gm_op_row(o->c.op);
    const struct gm_args args = gm_case_args(&o->c);
    memset(words, 0, GM_DESC_WORDS * sizeof *words);
    words[GM_W_OP] = o->c.op;
    words[GM_W_SESSION] = GM_BED_SESSION;
    gm_args_put(words, &row, &args);
    for (uint32_t i = 0; i < (uint32_t)row.inputs + row.outputs; i++) {
        words[gm_buffer_word(i)] = i < row.inputs ? s->in->handle : s->out->handle;
        gm_desc_put64(words, gm_buffer_word(i) + 1u, o->at[i]);
    }
}

/* The cases from first up to end and some no-ops, in one launch. */
static int launch(struct sanitize *s, uint32_t first, uint32_t end)
{
    static const uint32_t nop[GM_DESC_WORDS] = {GM_OP_nop};
    uint32_t words[GM_DESC_WORDS];
    struct gm_granule completion;
    sanitize_say("cases %u to %u of %u: %s %s n %llu and on", first + 1u, end, s->count, gm_op_name(s->one[first].c.op),
                 gm_op_row(s->one[first].c.op).types ? gm_dtype_name(s->one[first].c.dtype) : "-",
                 (unsigned long long)s->one[first].c.n);
    for (uint32_t i = first; i < end; i++) {
        words_of(s, &s->one[i], words);
        s->one[i].position = s->bed.position;
        s->bed.position = gm_bed_put(&s->bed, s->bed.position, words);
    }
    const uint64_t nops = s->bed.position;
    for (uint32_t i = 0; i < NOPS; i++)
        s->bed.position = gm_bed_put(&s->bed, s->bed.position, nop);
    int status = gm_bed_ring(&s->bed);
    for (uint32_t i = first; status == GM_OK && i < end; i++)
        status = gm_bounded_wait(&s->bed, s->one[i].position, &completion);
    for (uint64_t p = nops; status == GM_OK && p < s->bed.position; p++)
        status = gm_bounded_wait(&s->bed, p, &completion);
    s->jobs += end - first + NOPS;
    return status;
}

static int launch_all(struct sanitize *s)
{
    /* A case takes two slots at most. */
    const uint32_t fit = (GM_LANE0_SLOTS - NOPS) / 2u;
    const uint32_t step = s->o.per_launch != 0 && s->o.per_launch < fit ? s->o.per_launch : fit;
    int status = GM_OK;
    while (status == GM_OK && s->done < s->count) {
        if (s->o.seconds != 0 && s->done != 0 && sanitize_seconds() > (double)s->o.seconds) {
            sanitize_say("%llu s are over: the other %u cases are left out", (unsigned long long)s->o.seconds,
                         s->count - s->done);
            break;
        }
        const uint32_t end = s->count - s->done > step ? s->done + step : s->count;
        status = launch(s, s->done, end);
        s->done = status == GM_OK ? end : s->done;
    }
    return status;
}

static int carry(struct sanitize *s, const struct gm_bed_arena *from, const struct gm_bed_arena *to, uint64_t bytes,
                 const char *what)
{
    uint32_t words[GM_DESC_WORDS];
    sanitize_say("%s: %llu bytes", what, (unsigned long long)bytes);
    gm_bed_words(words, GM_OP_copy, GM_DTYPE_u8, bytes, from, 0, to, 0);
    s->jobs++;
    return gm_bed_run(&s->bed, words, NULL);
}

static int run(struct sanitize *s)
{
    int status = gm_bed_arena_open(&s->bed, MOST, false, 1, &s->host_in);
    if (status == GM_OK)
        status = gm_bed_arena_open(&s->bed, MOST, false, 1, &s->host_out);
    if (status != GM_OK)
        return status;
    if (!add_all(s)) {
        snprintf(s->bed.text, sizeof s->bed.text, "no cases, or more than fit %u rows and %llu bytes", CASES,
                 (unsigned long long)MOST);
        return GM_ESIZE;
    }
    if (s->in_used == 0) /* no-ops alone */
        return launch_all(s);
    /* No larger than what is used, so that memcheck sees what is written beyond the last page. */
    status = gm_bed_arena_open(&s->bed, s->in_used, true, 1, &s->in);
    if (status == GM_OK)
        status = gm_bed_arena_open(&s->bed, s->out_used + MARGIN, true, 1, &s->out);
    if (status == GM_OK) {
        memset(s->host_out->host, POISON, s->out_used + MARGIN);
        status = carry(s, s->host_in, s->in, s->in_used, "inputs");
    }
    if (status == GM_OK)
        status = carry(s, s->host_out, s->out, s->out_used + MARGIN, "poison");
    if (status == GM_OK)
        status = launch_all(s);
    if (status == GM_OK)
        status = carry(s, s->out, s->host_out, s->out_used + MARGIN, "outputs");
    return status;
}

/* ---- answers ---- */

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

/* An element of an output that may be off. */
static bool near(const struct one *o, const uint8_t *is, const uint8_t *should, uint64_t i)
{
    double a, b;
    if (o->c.dtype == GM_DTYPE_f32) {
        float x, y;
        memcpy(&x, is + i * 4u, sizeof x), memcpy(&y, should + i * 4u, sizeof y);
        a = (double)x, b = (double)y;
    } else {
        memcpy(&a, is + i * 8u, sizeof a), memcpy(&b, should + i * 8u, sizeof b);
    }
    return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= o->expected.slack[i];
}

static bool output_right(const struct sanitize *s, const struct one *o, uint32_t i)
{
    const struct gm_op_row row = gm_op_row(o->c.op);
    const uint8_t *out = s->host_out->host + o->at[i];
    const uint8_t *should = i == row.inputs ? o->expected.out : o->expected.out2;
    bool right = true;
    if (o->expected.status == GM_OK && o->expected.slack && gm_dtype_kind(o->c.dtype) == 'f')
        for (uint64_t k = 0; k < o->bytes[i] / gm_dtype_bytes(o->c.dtype); k++)
            right = right && near(o, out, should, k);
    else if (o->expected.status == GM_OK)
        right = memcmp(out, should, o->bytes[i]) == 0;
    for (uint64_t k = 1; k <= MARGIN; k++)
        right = right && out[-(int64_t)k] == POISON;
    for (uint64_t k = o->bytes[i]; k < up(o->bytes[i]) + MARGIN; k++)
        right = right && out[k] == POISON;
    return right;
}

static uint32_t compare(struct sanitize *s)
{
    uint32_t wrong = 0;
    for (uint32_t k = 0; k < s->done; k++) {
        const struct one *o = &s->one[k];
        const struct gm_op_row row = gm_op_row(o->c.op);
        struct gm_granule g;
        bool right = gm_bed_answered(&s->bed, o->position, &g) && result_right(o, g);
        for (uint32_t i = row.inputs; i < (uint32_t)row.inputs + row.outputs; i++)
            right = right && output_right(s, o, i);
        if (right)
            continue;
        wrong++;
        sanitize_say("wrong: %s %s n %llu flags %u: status %d, result %#llx", gm_op_name(o->c.op),
                     gm_dtype_name(o->c.dtype), (unsigned long long)o->c.n, o->c.flags, gm_completion_status(g),
                     (unsigned long long)gm_completion_result(g));
    }
    return wrong;
}

/* Ops that were run at every size on at least one type. The cases of a type stand together, so only the last one can be
 * cut short. */
static uint32_t ops_done(const struct sanitize *s)
{
    const struct gm_case *left = s->done < s->count ? &s->one[s->done].c : NULL;
    uint64_t ops = 0;
    for (uint32_t i = 0; i < s->done; i++)
        if (!left || s->one[i].c.op != left->op || s->one[i].c.dtype != left->dtype)
            ops |= UINT64_C(1) << s->one[i].c.op;
    return (uint32_t)__builtin_popcountll(ops);
}

/* ---- */

static bool parse_ops(const char *text, uint64_t *ops)
{
    char list[256];
    *ops = 0;
    snprintf(list, sizeof list, "%s", text);
    for (char *rest = NULL, *name = strtok_r(list, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        uint32_t op = 0;
        while (op < GM_OP_COUNT && strcmp(gm_op_name(op), name) != 0)
            op++;
        if (op == GM_OP_COUNT)
            return false;
        *ops |= UINT64_C(1) << op;
    }
    return *ops != 0;
}

static bool parse(int argc, char **argv, struct options *o)
{
    static const struct option options[] = {
        {"backend", required_argument, NULL, 'b'},          {"workers", required_argument, NULL, 'w'},
        {"plain", no_argument, NULL, 'p'},                  {"ops", required_argument, NULL, 'o'},
        {"sizes", required_argument, NULL, 's'},            {"types", required_argument, NULL, 't'},
        {"cases-per-launch", required_argument, NULL, 'c'}, {"seconds", required_argument, NULL, 'l'},
        {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        char *end = NULL;
        const bool number = c != '?' && c != 'b' && c != 'p' && c != 'o';
        const unsigned long value = number ? strtoul(optarg, &end, 10) : 0;
        if (c == '?' || (number && (end == optarg || *end != 0)) || (c == 'o' && !parse_ops(optarg, &o->ops)))
            return false;
        if (c == 'b')
            o->backend = optarg;
        else if (c == 'p')
            o->plain = true;
        else if (c == 'w')
            o->workers = (uint32_t)value;
        else if (c == 's')
            o->sizes = (uint32_t)value;
        else if (c == 't')
            o->types = (uint32_t)value;
        else if (c == 'c')
            o->per_launch = (uint32_t)value;
        else if (c == 'l')
            o->seconds = value;
    }
    return optind == argc && o->sizes >= 1 && o->sizes <= SIZES;
}

int main(int argc, char **argv)
{
    static struct sanitize s;
    s.o = (struct options){.backend = "cpu", .ops = UINT64_MAX >> (64u - GM_OP_COUNT), .sizes = SIZES};
    if (!parse(argc, argv, &s.o))
        return fputs("usage: sanitize_ops [--backend cpu|cuda] [--workers N] [--plain] [--ops NAME,NAME...] [--sizes "
                     "1|2] [--types N] [--cases-per-launch N] [--seconds N]\n", stderr), 2;
    int status = sanitize_open(&s.bed, s.o.backend, s.o.workers, s.o.plain);
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
    printf("sanitize_ops backend=%s path=%s workers=%u jobs=%llu cases=%u of=%u ops=%u of_ops=%d sizes=%u wrong=%u "
           "launches=%llu seconds=%.1f\n", s.o.backend, s.o.plain ? "plain" : "default", s.bed.hello.workers,
           (unsigned long long)s.jobs, s.done, s.count, ops_done(&s), __builtin_popcountll(s.o.ops), s.o.sizes, wrong,
           (unsigned long long)launches, sanitize_seconds());
    for (uint32_t i = 0; i < s.count; i++)
        free(s.one[i].expected.out);
    return wrong == 0 ? 0 : 1;
}
