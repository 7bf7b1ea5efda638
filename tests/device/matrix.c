/* SPDX-License-Identifier: Apache-2.0
 *
 * See matrix.h. Output buffers lie between canaries and hold poison before every job; the input must be as it was.
 * Where an oracle would take minutes it is asked on several threads, or what it would say is put in another way.
 */
#include "matrix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "args.h"
#include "wire.h"

#define CANARY 0xa5
#define POISON 0xc3
#define CANARY_BYTES 256u
#define ALONE (UINT64_C(1) << 26) /* elements that one oracle gets through in a second or two */

static void *memory(uint64_t bytes)
{
    void *p = mmap(NULL, bytes + 1u, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

void gm_seat_open(struct gm_seat *seat, struct gm_harness_lane *lane, uint64_t bytes, bool on_device)
{
    const uint64_t room = bytes + 4u * CANARY_BYTES + GM_ARENA_ALIGN;
    const uint64_t table = GM_CASE_BINS_MAX * 8u + 2u * GM_ARENA_ALIGN, out = room < table ? table : room;
    memset(seat, 0, sizeof *seat);
    seat->lane = lane;
    gm_harness_arena_open(lane->harness, &seat->in, room, false);
    gm_harness_arena_open(lane->harness, &seat->out, out, false);
    if (on_device) {
        gm_harness_arena_open(lane->harness, &seat->device_in, room, true);
        gm_harness_arena_open(lane->harness, &seat->device_out, out, true);
    }
    seat->copy = memory(seat->in.bytes);
    seat->answer = memory(seat->out.bytes);
    seat->slack = memory(seat->out.bytes * 4u); /* the narrowest floating-point element has two bytes */
}

void gm_seat_close(struct gm_seat *seat)
{
    munmap(seat->copy, seat->in.bytes + 1u);
    munmap(seat->answer, seat->out.bytes + 1u);
    munmap(seat->slack, seat->out.bytes * 4u + 1u);
}

static void describe(const struct gm_seat *seat, char *text, size_t size)
{
    gm_case_describe(&seat->c, text, size);
    if (seat->device_in.bytes != 0)
        snprintf(text + strlen(text), size - strlen(text), " (device)");
}

/* ---- more elements than one oracle gets through ---- */

struct parts {
    const struct gm_seat *seat;
    uint32_t count;
    struct gm_oracle_job job[GM_CREW_MOST];
    uint64_t keys_in[GM_CREW_MOST], keys_out[GM_CREW_MOST], falls[GM_CREW_MOST];
};

static uint64_t part_begin(const struct parts *p, uint32_t index)
{
    return index == p->count ? p->seat->c.n : p->seat->c.n / p->count * index;
}

static void count_part(void *context, uint32_t index)
{
    struct parts *p = context;
    gm_oracle_histogram(&p->job[index]);
}

/* A histogram is the sum of its parts' histograms. */
static void count_in_parts(struct gm_seat *seat)
{
    struct parts p = {.seat = seat, .count = gm_crew_processors()};
    const uint64_t element = gm_dtype_bytes(seat->c.dtype);
    for (uint32_t i = 0; i < p.count; i++) {
        p.job[i] = seat->expected;
        p.job[i].in = seat->copy + seat->buffer[0].copy + part_begin(&p, i) * element;
        p.job[i].n = part_begin(&p, i + 1u) - part_begin(&p, i);
        p.job[i].out = memory(seat->buffer[1].bytes);
    }
    gm_crew_parallel(p.count, count_part, &p);
    memset(seat->answer, 0, seat->buffer[1].bytes);
    for (uint32_t i = 0; i < p.count; i++) {
        for (uint32_t bin = 0; bin < seat->c.bins; bin++)
            ((uint64_t *)(void *)seat->answer)[bin] += ((const uint64_t *)p.job[i].out)[bin];
        seat->expected.result += p.job[i].result;
        munmap(p.job[i].out, seat->buffer[1].bytes + 1u);
    }
}

static void look_at_part(void *context, uint32_t index)
{
    struct parts *p = context;
    const uint32_t *in = (const uint32_t *)(const void *)p->seat->copy;
    const uint32_t *out = (const uint32_t *)(const void *)(p->seat->out.data + p->seat->buffer[1].offset);
    for (uint64_t i = part_begin(p, index); i < part_begin(p, index + 1u); i++) {
        uint64_t state_in = in[i], state_out = out[i];
        p->keys_in[index] += gm_random(&state_in);
        p->keys_out[index] += gm_random(&state_out);
        p->falls[index] += i != 0 && out[i] < out[i - 1u];
    }
}

/* u32 are sorted when none is smaller than the one before it and there are as many of each as before, which two sums of
 * their scrambled values tell. */
static void check_sorted(const struct gm_seat *seat, const char *what)
{
    struct parts p = {.seat = seat, .count = gm_crew_processors()};
    uint64_t in = 0, out = 0, falls = 0;
    assert_true(seat->c.dtype == GM_DTYPE_u32 && seat->c.flags == 0);
    gm_crew_parallel(p.count, look_at_part, &p);
    for (uint32_t i = 0; i < p.count; i++) {
        in += p.keys_in[i];
        out += p.keys_out[i];
        falls += p.falls[i];
    }
    if (falls != 0 || in != out)
        fail_msg("%s: %llu keys are smaller than the one before%s", what, (unsigned long long)falls,
                 in == out ? "" : ", and the keys are not those of the input");
}

static bool sorted_unseen(const struct gm_case *c)
{
    return c->op == GM_OP_sort && c->n >= ALONE;
}

static void run_oracle(struct gm_seat *seat)
{
    if (seat->c.op == GM_OP_histogram && seat->c.n >= ALONE) {
        count_in_parts(seat);
        return;
    }
    if (sorted_unseen(&seat->c))
        return; /* check_sorted says what it would */
    gm_case_ask(seat->c.op, &seat->expected);
}

/* Buffers from first on, so many, into one arena: one behind the other, between canaries, the last at the end when so
 * asked. */
static void place(struct gm_seat *seat, const struct gm_harness_arena *arena, uint32_t first, uint32_t count,
                  uint32_t align)
{
    const struct gm_op_row row = gm_op_row(seat->c.op);
    const struct gm_args args = gm_case_args(&seat->c);
    uint64_t at = 0, copy = 0;
    for (uint32_t i = first; i < first + count; i++) {
        struct gm_spot *p = &seat->buffer[i];
        const uint64_t element = gm_buffer_element(&row, i, &args), shift = align * element;
        p->bytes = gm_buffer_bytes(&row, i, &args);
        p->copy = copy;
        assert_true(p->bytes + shift <= arena->bytes);
        p->offset = (at + CANARY_BYTES + 255u) / 256u * 256u + shift;
        if (seat->c.at_end && i + 1u == first + count)
            p->offset = (arena->bytes - p->bytes - shift) / element * element;
        assert_true(p->offset >= at + CANARY_BYTES && p->offset + p->bytes <= arena->bytes);
        at = p->offset + p->bytes + CANARY_BYTES;
        copy += (p->bytes + 255u) / 256u * 256u;
    }
}

void gm_seat_place(struct gm_seat *seat, const struct gm_case *c)
{
    const struct gm_op_row row = gm_op_row(c->op);
    seat->c = *c;
    memset(seat->buffer, 0, sizeof seat->buffer);
    place(seat, &seat->in, 0, row.inputs, c->align_in);
    place(seat, &seat->out, row.inputs, row.outputs, c->align_out);
}

/* How many bytes behind a buffer must stay as they are. */
static uint64_t tail_of(const struct gm_seat *seat, const struct gm_spot *p)
{
    const uint64_t left = seat->out.bytes - (p->offset + p->bytes);
    return left < CANARY_BYTES ? left : CANARY_BYTES;
}

void gm_seat_fill(void *context)
{
    struct gm_seat *seat = context;
    const struct gm_op_row row = gm_op_row(seat->c.op);
    uint8_t *out[2] = {NULL, NULL}, *in[2] = {NULL, NULL};
    for (uint32_t i = 0; i < row.inputs; i++) {
        const struct gm_spot *p = &seat->buffer[i];
        in[i] = seat->copy + p->copy;
        gm_case_fill(&seat->c, i, seat->in.data + p->offset);
        memcpy(in[i], seat->in.data + p->offset, p->bytes);
    }
    for (uint32_t i = 0; i < row.outputs; i++) {
        const struct gm_spot *p = &seat->buffer[row.inputs + i];
        out[i] = seat->answer + p->copy;
        memset(seat->out.data + p->offset - CANARY_BYTES, CANARY, CANARY_BYTES);
        memset(seat->out.data + p->offset, POISON, p->bytes);
        memset(seat->out.data + p->offset + p->bytes, CANARY, tail_of(seat, p));
        memset(out[i], POISON, p->bytes); /* what is not written stays as it was */
    }
    seat->expected = gm_case_question(&seat->c, in[0], in[1], out[0], out[1]);
    if (gm_case_wants_slack(&seat->c)) {
        const struct gm_args args = gm_case_args(&seat->c);
        seat->expected.slack = seat->slack;
        memset(seat->slack, 0, gm_buffer_count(&row, row.inputs, &args) * sizeof *seat->slack);
    }
    run_oracle(seat);
}

void gm_seat_prepare(struct gm_seat *seat, const struct gm_case *c)
{
    gm_seat_place(seat, c);
    gm_seat_fill(seat);
}

/* Moves bytes by a copy job, whose correctness the matrix establishes on its own. */
static void carry(struct gm_seat *seat, uint32_t from, uint64_t from_offset, uint32_t to, uint64_t to_offset,
                  uint64_t bytes)
{
    uint32_t words[GM_DESC_WORDS] = {GM_OP_copy | GM_DTYPE_u8 << 16};
    words[GM_W_ARENA0] = from;
    gm_desc_put64(words, GM_W_OFFSET0, from_offset);
    gm_desc_put64(words, GM_W_N, bytes);
    words[GM_W_ARENA1] = to;
    gm_desc_put64(words, GM_W_OFFSET1, to_offset);
    const struct gm_granule done = gm_harness_wait(seat->lane, gm_harness_submit(seat->lane, words));
    assert_int_equal(gm_completion_status(done), GM_OK);
}

/* An output with its canaries: where it begins, and how long it is. */
static uint64_t frame(const struct gm_seat *seat, const struct gm_spot *p, uint64_t *bytes)
{
    *bytes = CANARY_BYTES + p->bytes + tail_of(seat, p);
    return p->offset - CANARY_BYTES;
}

/* Data to where the job will find it. */
static void carry_all(struct gm_seat *seat)
{
    const struct gm_op_row row = gm_op_row(seat->c.op);
    for (uint32_t i = 0; i < row.inputs; i++)
        carry(seat, seat->in.handle, seat->buffer[i].offset, seat->device_in.handle, seat->buffer[i].offset,
              seat->buffer[i].bytes);
    for (uint32_t i = row.inputs; i < (uint32_t)row.inputs + row.outputs; i++) {
        uint64_t bytes, from = frame(seat, &seat->buffer[i], &bytes);
        carry(seat, seat->out.handle, from, seat->device_out.handle, from, bytes);
    }
}

void gm_seat_submit(struct gm_seat *seat)
{
    const struct gm_case *c = &seat->c;
    const struct gm_op_row row = gm_op_row(c->op);
    const struct gm_args args = gm_case_args(c);
    const struct gm_spot *first = &seat->buffer[0], *output = &seat->buffer[row.inputs];
    const bool on_device = seat->device_in.bytes != 0;
    uint32_t words[GM_DESC_WORDS] = {c->op};
    const uint32_t in = on_device ? seat->device_in.handle : seat->in.handle;
    const uint32_t out = on_device ? seat->device_out.handle : seat->out.handle;
    if (on_device)
        carry_all(seat);
    if (c->same_buffer) { /* the first input where the output will be */
        if (on_device)
            carry(seat, in, first->offset, out, output->offset, first->bytes);
        else
            memcpy(seat->out.data + output->offset, seat->in.data + first->offset, first->bytes);
    }
    gm_args_put(words, &row, &args);
    for (uint32_t i = 0; i < (uint32_t)row.inputs + row.outputs; i++) {
        const bool there = i >= row.inputs || (i == 0 && c->same_buffer);
        words[gm_buffer_word(i)] = there ? out : in;
        gm_desc_put64(words, gm_buffer_word(i) + 1u,
                      i == 0 && c->same_buffer ? output->offset : seat->buffer[i].offset);
    }
    seat->position = gm_harness_submit(seat->lane, words);
}

static void check_output(const struct gm_seat *seat, uint32_t i, const char *what)
{
    const struct gm_spot *p = &seat->buffer[i];
    const uint8_t *is = seat->out.data + p->offset, *should = seat->answer + p->copy;
    uint8_t canary[CANARY_BYTES];
    memset(canary, CANARY, sizeof canary);
    gm_case_check_bytes(is - CANARY_BYTES, canary, CANARY_BYTES, what, "memory before the output");
    gm_case_check_bytes(is + p->bytes, canary, tail_of(seat, p), what, "memory after the output");
    if (sorted_unseen(&seat->c))
        check_sorted(seat, what);
    else if (seat->expected.status == GM_OK)
        gm_case_check_output(&seat->c, i, is, should, seat->slack, what);
}

void gm_seat_check(struct gm_seat *seat)
{
    const struct gm_op_row row = gm_op_row(seat->c.op);
    char what[320];
    const struct gm_granule done = gm_harness_wait(seat->lane, seat->position);
    describe(seat, what, sizeof what);
    seat->result = gm_completion_result(done);
    for (uint32_t i = row.inputs; i < (uint32_t)row.inputs + row.outputs && seat->device_in.bytes != 0; i++) {
        uint64_t bytes, from = frame(seat, &seat->buffer[i], &bytes);
        carry(seat, seat->device_out.handle, from, seat->out.handle, from, bytes);
    }
    gm_case_check_result(&seat->c, &seat->expected, gm_completion_status(done), seat->result, what);
    for (uint32_t i = row.inputs; i < (uint32_t)row.inputs + row.outputs; i++)
        check_output(seat, i, what);
    for (uint32_t i = 0; i < row.inputs; i++)
        gm_case_check_bytes(seat->in.data + seat->buffer[i].offset, seat->copy + seat->buffer[i].copy,
                            seat->buffer[i].bytes, what, "input");
}

void gm_seat_run(struct gm_seat *seat, const struct gm_case *c)
{
    gm_seat_prepare(seat, c);
    gm_seat_submit(seat);
    gm_seat_check(seat);
}
