/* SPDX-License-Identifier: Apache-2.0
 *
 * See matrix.h. Output buffers lie between canaries and hold poison before every job; the input must be as it was.
 * Where an oracle would take minutes it is asked on several threads, or what it would say is put in another way.
 */
#include "matrix.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "wire.h"

#define CANARY       0xa5
#define POISON       0xc3
#define CANARY_BYTES 256u
#define ALONE        (UINT64_C(1) << 26) /* elements that one oracle gets through in a second or two */

static void *memory(uint64_t bytes)
{
    void *p = mmap(NULL, bytes + 1u, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

void gm_seat_open(struct gm_seat *seat, struct gm_harness_lane *lane, uint64_t bytes, bool on_device)
{
    const uint64_t room = bytes + 2u * CANARY_BYTES + GM_ARENA_ALIGN;
    const uint64_t table = GM_HIST_BINS_MAX * 8u + 2u * GM_ARENA_ALIGN, out = room < table ? table : room;
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
}

void gm_seat_close(struct gm_seat *seat)
{
    munmap(seat->copy, seat->in.bytes + 1u);
    munmap(seat->answer, seat->out.bytes + 1u);
}

static void describe(const struct gm_seat *seat, char *text, size_t size)
{
    const struct gm_case *c = &seat->c;
    snprintf(text, size,
             "%s %s n=%llu flags=%u bins=%u values=%016llx,%016llx align=%u,%u end=%d same=%d pattern=%d seed=%llu%s",
             gm_op_name(c->op), gm_op_row(c->op).types ? gm_dtype_name(c->dtype) : "-", (unsigned long long)c->n,
             c->flags, c->bins, (unsigned long long)c->value[0], (unsigned long long)c->value[1], c->align_in,
             c->align_out, c->at_end, c->same_buffer, (int)c->pattern, (unsigned long long)c->seed,
             seat->device_in.bytes ? " (device)" : "");
}

static uint64_t place(const struct gm_harness_arena *arena, uint64_t bytes, uint32_t element, uint32_t align,
                      bool at_end)
{
    const uint64_t shift = (uint64_t)align * element;
    if (at_end)
        return (arena->bytes - bytes - shift) / element * element;
    return CANARY_BYTES + shift;
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
        p.job[i].in = seat->copy + part_begin(&p, i) * element;
        p.job[i].n = part_begin(&p, i + 1u) - part_begin(&p, i);
        p.job[i].out = memory(seat->out_bytes);
    }
    gm_crew_parallel(p.count, count_part, &p);
    memset(seat->answer, 0, seat->out_bytes);
    for (uint32_t i = 0; i < p.count; i++) {
        for (uint32_t bin = 0; bin < seat->c.bins; bin++)
            ((uint64_t *)(void *)seat->answer)[bin] += ((const uint64_t *)p.job[i].out)[bin];
        seat->expected.result += p.job[i].result;
        munmap(p.job[i].out, seat->out_bytes + 1u);
    }
}

static void look_at_part(void *context, uint32_t index)
{
    struct parts *p = context;
    const uint32_t *in = (const uint32_t *)(const void *)p->seat->copy;
    const uint32_t *out = (const uint32_t *)(const void *)(p->seat->out.data + p->seat->out_offset);
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

static bool sorted_unseen(const struct gm_case *c) { return c->op == GM_OP_sort && c->n >= ALONE; }

static void run_oracle(struct gm_seat *seat)
{
    if (seat->c.op == GM_OP_histogram && seat->c.n >= ALONE) {
        count_in_parts(seat);
        return;
    }
    if (sorted_unseen(&seat->c))
        return; /* check_sorted says what it would */
    switch (seat->c.op) {
#define OP(id, name, shape, types, result, work, tile_bytes, tolerance, help)                                          \
    case id:                                                                                                           \
        gm_oracle_##name(&seat->expected);                                                                             \
        break;
#include "ops.def"
#undef OP
    }
}

void gm_seat_place(struct gm_seat *seat, const struct gm_case *c)
{
    const struct gm_op_row row = gm_op_row(c->op);
    const uint32_t element = row.shape == GM_SHAPE_NONE ? 1u : gm_dtype_bytes(c->dtype);
    const uint32_t out_element = row.shape == GM_SHAPE_HISTOGRAM ? 8u : element;
    seat->c = *c;
    seat->in_bytes = row.inputs ? c->n * element : 0;
    seat->out_bytes = row.outputs ? gm_output_bytes(row.shape, c->n, c->bins, c->dtype) : 0;
    assert_true(seat->in_bytes + c->align_in * element <= seat->in.bytes - CANARY_BYTES);
    assert_true(seat->out_bytes + c->align_out * out_element <= seat->out.bytes - CANARY_BYTES);
    seat->in_offset = place(&seat->in, seat->in_bytes, element, c->align_in, c->at_end);
    seat->out_offset = place(&seat->out, seat->out_bytes, out_element, c->align_out, c->at_end);
}

void gm_seat_fill(void *context)
{
    struct gm_seat *seat = context;
    const struct gm_case *c = &seat->c;
    gm_pattern_fill(seat->in.data + seat->in_offset, gm_op_row(c->op).inputs ? c->n : 0, c->dtype, c->pattern, c->seed);
    memcpy(seat->copy, seat->in.data + seat->in_offset, seat->in_bytes);
    const uint64_t from = seat->out_offset - CANARY_BYTES, after = seat->out_offset + seat->out_bytes;
    const uint64_t tail = seat->out.bytes - after < CANARY_BYTES ? seat->out.bytes - after : CANARY_BYTES;
    memset(seat->out.data + from, CANARY, CANARY_BYTES);
    memset(seat->out.data + seat->out_offset, POISON, seat->out_bytes);
    memset(seat->out.data + after, CANARY, tail);
    seat->expected = (struct gm_oracle_job){.dtype = c->dtype,
                                            .flags = c->flags,
                                            .bins = c->bins,
                                            .n = c->n,
                                            .value = {c->value[0], c->value[1]},
                                            .in = seat->copy,
                                            .out = seat->answer};
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

/* The output with its canaries, as a range of the arena. */
static uint64_t frame(const struct gm_seat *seat, uint64_t *bytes)
{
    const uint64_t from = seat->out_offset - CANARY_BYTES, all = seat->out.bytes - from;
    *bytes = all < seat->out_bytes + 2u * CANARY_BYTES ? all : seat->out_bytes + 2u * CANARY_BYTES;
    return from;
}

void gm_seat_submit(struct gm_seat *seat)
{
    const struct gm_case *c = &seat->c;
    const struct gm_op_row row = gm_op_row(c->op);
    const bool on_device = seat->device_in.bytes != 0;
    uint32_t words[GM_DESC_WORDS] = {c->op | c->dtype << 16 | c->flags << 24};
    const uint32_t in = on_device ? seat->device_in.handle : seat->in.handle;
    const uint32_t out = on_device ? seat->device_out.handle : seat->out.handle;
    if (on_device) {
        uint64_t bytes, from = frame(seat, &bytes);
        carry(seat, seat->in.handle, seat->in_offset, in, seat->in_offset, seat->in_bytes);
        carry(seat, seat->out.handle, from, out, from, bytes);
    }
    if (c->same_buffer) { /* the input where the output will be */
        const uint64_t bytes = seat->in_bytes;
        if (on_device)
            carry(seat, in, seat->in_offset, out, seat->out_offset, bytes);
        else
            memcpy(seat->out.data + seat->out_offset, seat->in.data + seat->in_offset, bytes);
    }
    gm_desc_put64(words, GM_W_N, c->n);
    words[GM_W_COUNT] = c->bins;
    if (row.inputs) {
        words[GM_W_ARENA0] = c->same_buffer ? out : in;
        gm_desc_put64(words, GM_W_OFFSET0, c->same_buffer ? seat->out_offset : seat->in_offset);
    }
    if (row.outputs) {
        words[row.inputs ? GM_W_ARENA1 : GM_W_ARENA0] = out;
        gm_desc_put64(words, row.inputs ? GM_W_OFFSET1 : GM_W_OFFSET0, seat->out_offset);
    }
    if (row.wide) {
        words[GM_W_OP] |= GM_FLAG_WIDE << 24;
        words[GM_W_WIDE] = GM_DESC_WIDE_MARK;
        gm_desc_put64(words, GM_W_VALUE0, c->value[0]);
        gm_desc_put64(words, GM_W_VALUE1, c->value[1]);
    }
    seat->position = gm_harness_submit(seat->lane, words);
}

static void check_result(const struct gm_seat *seat, struct gm_granule done, const char *what)
{
    const int32_t status = gm_completion_status(done);
    const uint64_t result = gm_completion_result(done);
    if (status != seat->expected.status)
        fail_msg("%s: status %d, not %d", what, status, seat->expected.status);
    if (status != GM_OK || gm_op_row(seat->c.op).result == GM_RESULT_NONE || result == seat->expected.result)
        return;
    double is, should;
    memcpy(&is, &result, sizeof is);
    memcpy(&should, &seat->expected.result, sizeof should);
    if (gm_op_row(seat->c.op).tolerance == GM_TOLERANCE_SUM && gm_dtype_kind(seat->c.dtype) == 'f') {
        const bool nan = isnan(should) && result == UINT64_C(0x7ff8000000000000);
        if (nan || is == should || fabs(is - should) <= seat->expected.tolerance || isinf(seat->expected.tolerance))
            return;
        fail_msg("%s: result %.17g, not %.17g +- %g", what, is, should, seat->expected.tolerance);
    }
    fail_msg("%s: result %016llx, not %016llx", what, (unsigned long long)result,
             (unsigned long long)seat->expected.result);
}

static void check_bytes(const uint8_t *is, const uint8_t *should, uint64_t bytes, const char *what, const char *which)
{
    if (bytes == 0 || memcmp(is, should, bytes) == 0)
        return;
    uint64_t i = 0;
    while (is[i] == should[i])
        i++;
    fail_msg("%s: %s differs first at byte %llu of %llu: %02x, not %02x", what, which, (unsigned long long)i,
             (unsigned long long)bytes, is[i], should[i]);
}

void gm_seat_check(struct gm_seat *seat)
{
    uint8_t canary[CANARY_BYTES];
    uint64_t bytes, from = frame(seat, &bytes);
    char what[320];
    const struct gm_granule done = gm_harness_wait(seat->lane, seat->position);
    describe(seat, what, sizeof what);
    seat->result = gm_completion_result(done);
    if (seat->device_in.bytes != 0)
        carry(seat, seat->device_out.handle, from, seat->out.handle, from, bytes);
    check_result(seat, done, what);
    memset(canary, CANARY, sizeof canary);
    const uint64_t after = seat->out_offset + seat->out_bytes;
    check_bytes(seat->out.data + from, canary, CANARY_BYTES, what, "memory before the output");
    check_bytes(seat->out.data + after, canary, from + bytes - after, what, "memory after the output");
    if (sorted_unseen(&seat->c))
        check_sorted(seat, what);
    else if (seat->expected.status == GM_OK)
        check_bytes(seat->out.data + seat->out_offset, seat->answer, seat->out_bytes, what, "output");
    check_bytes(seat->in.data + seat->in_offset, seat->copy, seat->in_bytes, what, "input");
}

void gm_seat_run(struct gm_seat *seat, const struct gm_case *c)
{
    gm_seat_prepare(seat, c);
    gm_seat_submit(seat);
    gm_seat_check(seat);
}
