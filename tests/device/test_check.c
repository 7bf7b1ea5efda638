/* SPDX-License-Identifier: Apache-2.0
 *
 * Every reason for which a descriptor is refused, and that an accepted one names only memory of its client: a table of
 * cases, then extremes of every 64-bit field against 128-bit arithmetic. The scheduler runs by hand in one thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "least.h"
#include "rig.h"
#include "wire.h"

/* Arenas of the tests: index and generation. */
enum {
    MINE = 5 | 3 << 16,
    STALE = 5 | 2 << 16,
    READONLY = 6 | 1 << 16,
    THEIRS = 7 | 1 << 16,
    STAGING = 8 | 1 << 16,
    HOST = 9 | 1 << 16,
    EMPTY = 10 | 1 << 16,
    SECOND = (GM_ARENAS_MAX - 1) | 0xffffu << 16
};
#define BASE  UINT64_C(0x7f0000000000)
#define BYTES UINT64_C(0x100000)

static const struct gm_core_shape shape = {
    .tickets_log2 = 6, .entries_log2 = 4, .workers = 4, .host_shares = 2, .workspace_bytes = 1u << 20};

static void open_arenas(struct rig *rig)
{
    rig_open(rig, &shape);
    rig_arena_set(rig, MINE, BASE, BYTES, RIG_SESSION, 0);
    rig_arena_set(rig, READONLY, BASE + BYTES, BYTES, RIG_SESSION, GM_ARENA_READONLY);
    rig_arena_set(rig, THEIRS, BASE + 2 * BYTES, BYTES, RIG_SESSION + 1, 0);
    rig_arena_set(rig, STAGING, BASE + 3 * BYTES, BYTES, 0, GM_ARENA_STAGING);
    rig_arena_set(rig, HOST, BASE + 4 * BYTES, BYTES, RIG_SESSION, GM_ARENA_HOST);
    rig_arena_set(rig, EMPTY, BASE + 5 * BYTES, 0, RIG_SESSION, 0);
    rig_arena_set(rig, SECOND, BASE + 6 * BYTES, BYTES, RIG_SESSION, 0);
    rig_lane_open(rig, 0, 4, 0);
    rig_lane_open(rig, 1, 4, 0);
}

/* One descriptor through check alone. */
static int32_t check_on(struct rig *rig, uint32_t lane, const uint32_t *words, struct gm_job *job, struct gm_plan *plan)
{
    const bool has_wide = words[GM_W_WIDE] == GM_DESC_WIDE_MARK;
    struct gm_words head, wide = {{0}};
    memcpy(head.w, words, sizeof head.w);
    if (has_wide)
        memcpy(wide.w, words + 12, sizeof wide.w);
    return gm_check(rig->core, rig->d, lane, rig->d->lane[lane].head, head, has_wide, wide, job, plan);
}

static void sort_words(uint32_t *words, uint64_t n, uint32_t in, uint64_t in_offset, uint32_t out, uint64_t out_offset)
{
    rig_words(words, GM_OP_sort, GM_DTYPE_u32, 0, n);
    rig_buffer(words, 0, in, in_offset);
    rig_buffer(words, 1, out, out_offset);
}

static void histogram_words(uint32_t *words, uint64_t n, uint32_t bins, double lo, double hi)
{
    uint64_t bits[2];
    memcpy(&bits[0], &lo, 8);
    memcpy(&bits[1], &hi, 8);
    rig_words(words, GM_OP_histogram, GM_DTYPE_f32, GM_FLAG_WIDE, n);
    rig_buffer(words, 0, MINE, 0);
    rig_buffer(words, 1, SECOND, 0);
    words[GM_W_COUNT] = bins;
    gm_desc_put64(words, GM_W_VALUE0, bits[0]);
    gm_desc_put64(words, GM_W_VALUE1, bits[1]);
}

static void assert_check(struct rig *rig, uint32_t lane, const uint32_t *words, int32_t expected)
{
    struct gm_job job;
    struct gm_plan plan;
    assert_int_equal(check_on(rig, lane, words, &job, &plan), expected);
}

static void unknown_ops_and_types_are_refused(void **state)
{
    struct rig rig;
    uint32_t words[GM_DESC_WORDS];
    (void)state;
    open_arenas(&rig);
    for (uint32_t op = 0; op < 0x10000u; op = op < 300u ? op + 1u : op * 2u + 1u) {
        rig_words(words, op, GM_DTYPE_u32, 0, 1);
        rig_buffer(words, 0, MINE, 0);
        if (op >= GM_OP_COUNT)
            assert_check(&rig, 1, words, GM_EOP);
    }
    for (uint32_t op = 1; op < GM_OP_COUNT; op++)
        for (uint32_t dtype = 0; dtype < 256; dtype++) {
            const struct gm_op_row row = gm_op_row(op);
            const struct gm_args args = gm_least_args(&row, dtype, 16);
            rig_words(words, op, 0, 0, 0);
            gm_args_put(words, &row, &args);
            for (uint32_t i = 0; i < (uint32_t)row.inputs + row.outputs; i++)
                rig_buffer(words, i, i == 0 ? MINE : SECOND, i * 4096u);
            assert_check(&rig, 1, words, dtype >= GM_DTYPE_COUNT || !(row.types >> dtype & 1u) ? GM_EDTYPE : GM_OK);
        }
    rig_close(&rig);
}

static void unknown_flags_and_nonzero_padding_are_refused(void **state)
{
    struct rig rig;
    uint32_t words[GM_DESC_WORDS];
    (void)state;
    open_arenas(&rig);
    for (uint32_t bit = 2; bit < 8; bit++) {
        sort_words(words, 4, MINE, 0, SECOND, 0);
        words[GM_W_OP] |= 1u << (24 + bit);
        assert_check(&rig, 1, words, GM_EINVAL);
    }
    sort_words(words, 4, MINE, 0, SECOND, 0);
    words[GM_W_MORE] = 1;
    assert_check(&rig, 1, words, GM_EINVAL);
    words[GM_W_MORE] = (uint32_t)GM_DTYPE_i32 << 24; /* a second type */
    assert_check(&rig, 1, words, GM_EINVAL);
    sort_words(words, 4, MINE, 0, SECOND, 0);
    words[GM_W_COUNT] = 1; /* bins, and no histogram */
    assert_check(&rig, 1, words, GM_EINVAL);
    rig_words(words, GM_OP_sum, GM_DTYPE_u32, GM_FLAG_DESCENDING, 4);
    rig_buffer(words, 0, MINE, 0);
    assert_check(&rig, 1, words, GM_EINVAL);
    rig_words(words, GM_OP_nop, 0, 0, 1);
    assert_check(&rig, 1, words, GM_EINVAL);
    rig_words(words, GM_OP_nop, GM_DTYPE_f32, 0, 0);
    assert_check(&rig, 1, words, GM_EINVAL);
    rig_words(words, GM_OP_nop, 0, GM_FLAG_DESCENDING, 0);
    assert_check(&rig, 1, words, GM_EINVAL);
    rig_words(words, GM_OP_nop, 0, 0, 0);
    words[GM_W_SESSION] = RIG_SESSION; /* a client's lane has its own */
    assert_check(&rig, 1, words, GM_EINVAL);
    for (uint32_t word = GM_W_ARENA0; word < GM_W_WIDE; word++) { /* a nop uses none */
        rig_words(words, GM_OP_nop, 0, 0, 0);
        words[word] = 1;
        assert_check(&rig, 1, words, GM_EINVAL);
    }
    for (uint32_t word = GM_W_VALUE1; word < GM_DESC_WORDS; word++) { /* a fill has one value and one buffer */
        rig_words(words, GM_OP_fill, GM_DTYPE_u32, GM_FLAG_WIDE, 4);
        rig_buffer(words, 0, MINE, 0);
        assert_check(&rig, 1, words, GM_OK);
        words[word] = 1;
        assert_check(&rig, 1, words, GM_EINVAL);
    }
    rig_close(&rig);
}

static void sizes_outside_their_range_are_refused(void **state)
{
    struct rig rig;
    uint32_t words[GM_DESC_WORDS];
    (void)state;
    open_arenas(&rig);
    const uint64_t too_many[] = {GM_ELEMENTS_MAX + 1, UINT64_C(1) << 62, UINT64_C(1) << 63, UINT64_MAX};
    for (size_t i = 0; i < sizeof too_many / sizeof *too_many; i++) {
        sort_words(words, too_many[i], MINE, 0, SECOND, 0);
        assert_check(&rig, 1, words, GM_ESIZE);
    }
    sort_words(words, GM_ELEMENTS_MAX, MINE, 0, SECOND, 0);
    assert_check(&rig, 1, words, GM_EBOUNDS);
    for (uint32_t op = GM_OP_min; op <= GM_OP_max; op++) {
        rig_words(words, op, GM_DTYPE_u32, 0, 0);
        rig_buffer(words, 0, MINE, 0);
        assert_check(&rig, 1, words, GM_EEMPTY);
    }
    rig_words(words, GM_OP_sum, GM_DTYPE_u32, 0, 0); /* the sum of nothing is 0 */
    rig_buffer(words, 0, MINE, 0);
    assert_check(&rig, 1, words, GM_OK);
    rig_close(&rig);
}

static void histogram_arguments_are_checked(void **state)
{
    struct rig rig;
    uint32_t words[GM_DESC_WORDS];
    const double inf = 1e308 * 10, nan = inf - inf;
    const struct {
        uint32_t bins;
        double lo, hi;
        int32_t status;
    } cases[] = {
        {1, 0, 1, GM_OK},          {65536, -1e308, 0.5e308, GM_OK},
        {GM_HIST_BINS_MAX, 0, 1, GM_EBOUNDS}, /* the arena is smaller */
        {0, 0, 1, GM_ESIZE},       {GM_HIST_BINS_MAX + 1, 0, 1, GM_ESIZE},
        {UINT32_MAX, 0, 1, GM_ESIZE}, {4, 1, 1, GM_EINVAL},
        {4, 2, 1, GM_EINVAL},      {4, nan, 1, GM_EINVAL},
        {4, 0, nan, GM_EINVAL},    {4, -inf, 0, GM_EINVAL},
        {4, 0, inf, GM_EINVAL},    {4, -1.7e308, 1.7e308, GM_EINVAL}, /* their difference is infinite */
        {4, -0.0, 0.0, GM_EINVAL},
    };
    (void)state;
    open_arenas(&rig);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        histogram_words(words, 16, cases[i].bins, cases[i].lo, cases[i].hi);
        assert_check(&rig, 1, words, cases[i].status);
    }
    histogram_words(words, 16, 4, 0, 1);
    rig_buffer(words, 1, SECOND, BYTES - 32); /* four counts of 8 bytes, to the end */
    assert_check(&rig, 1, words, GM_OK);
    rig_buffer(words, 1, SECOND, BYTES - 24);
    assert_check(&rig, 1, words, GM_EBOUNDS);
    rig_buffer(words, 1, SECOND, 4); /* counts are 8 bytes, whatever the input is */
    assert_check(&rig, 1, words, GM_EALIGN);
    rig_close(&rig);
}

static void buffers_must_be_the_clients_own(void **state)
{
    struct rig rig;
    uint32_t words[GM_DESC_WORDS];
    const struct {
        uint32_t lane, in, out;
        int32_t status;
    } cases[] = {
        {1, MINE, SECOND, GM_OK},
        {1, READONLY, MINE, GM_OK},
        {1, MINE, READONLY, GM_EREADONLY},
        {1, STALE, MINE, GM_ESTALE},
        {1, MINE, STALE, GM_ESTALE},
        {1, THEIRS, MINE, GM_EARENA},
        {1, MINE, THEIRS, GM_EARENA},
        {1, 0, MINE, GM_EARENA},
        {1, 5, MINE, GM_ESTALE},                      /* generation 0 is never current */
        {1, 11 | 1 << 16, MINE, GM_EARENA},           /* a free row */
        {1, GM_ARENAS_MAX | 1 << 16, MINE, GM_EARENA}, /* outside the table */
        {1, UINT32_MAX, MINE, GM_EARENA},
        {1, STAGING, MINE, GM_EARENA}, /* the daemon's own memory is out of reach of a client's lane */
        {1, EMPTY, MINE, GM_EBOUNDS},
        {0, MINE, SECOND, GM_OK}, /* lane 0 says whose arenas */
        {0, STAGING, STAGING, GM_OK},
        {0, THEIRS, MINE, GM_EARENA},
    };
    (void)state;
    open_arenas(&rig);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sort_words(words, 16, cases[i].in, 0, cases[i].out, cases[i].in == cases[i].out ? 4096 : 0);
        if (cases[i].lane == 0)
            words[GM_W_SESSION] = RIG_SESSION;
        struct gm_job job;
        struct gm_plan plan;
        const int32_t status = check_on(&rig, cases[i].lane, words, &job, &plan);
        if (status != cases[i].status)
            print_error("case %zu\n", i);
        assert_int_equal(status, cases[i].status);
    }
    /* On lane 0 the session of the descriptor decides; on a client's lane the lane's, and the descriptor names none. */
    sort_words(words, 16, THEIRS, 0, THEIRS, 4096);
    words[GM_W_SESSION] = RIG_SESSION + 1;
    assert_check(&rig, 0, words, GM_OK);
    assert_check(&rig, 1, words, GM_EINVAL);
    words[GM_W_SESSION] = 0;
    assert_check(&rig, 1, words, GM_EARENA);
    rig_close(&rig);
}

static void memory_that_was_lost_is_named_so(void **state)
{
    struct rig rig;
    uint32_t words[GM_DESC_WORDS];
    const uint32_t gone = 20u | 1u << 16;
    (void)state;
    open_arenas(&rig);
    rig_arena_set(&rig, gone, 0, BYTES, RIG_SESSION, GM_ARENA_GONE);
    sort_words(words, 16, gone, 0, SECOND, 0);
    assert_check(&rig, 1, words, GM_EDEVICELOST);
    sort_words(words, 16, SECOND, 0, gone, 0);
    assert_check(&rig, 1, words, GM_EDEVICELOST);
    rig_close(&rig);
}

static void overlapping_buffers_are_refused(void **state)
{
    struct rig rig;
    uint32_t words[GM_DESC_WORDS];
    (void)state;
    open_arenas(&rig);
    const struct {
        uint64_t in, out, n;
        int32_t status;
    } cases[] = {
        {0, 0, 16, GM_OK},      {0, 64, 16, GM_OK},     {64, 0, 16, GM_OK},  {0, 60, 16, GM_EALIAS},
        {60, 0, 16, GM_EALIAS}, {0, 4, 16, GM_EALIAS},  {4, 4, 0, GM_OK},    {0, 4, 0, GM_OK},
        {BYTES - 64, BYTES - 128, 16, GM_OK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sort_words(words, cases[i].n, MINE, cases[i].in, MINE, cases[i].out);
        assert_check(&rig, 1, words, cases[i].status);
    }
    histogram_words(words, 16, 4, 0, 1); /* counts over their own input make no sense */
    rig_buffer(words, 1, MINE, 0);
    assert_check(&rig, 1, words, GM_EALIAS);
    rig_buffer(words, 1, MINE, 64);
    assert_check(&rig, 1, words, GM_OK);
    rig_close(&rig);
}

static void every_offset_and_length_at_the_extremes_stays_in_its_arena(void **state)
{
    struct rig rig;
    uint32_t words[GM_DESC_WORDS], accepted = 0;
    (void)state;
    open_arenas(&rig);
    const uint64_t edges[] = {0, 1, 2, 4, 7, 8, BYTES / 8, BYTES / 4, BYTES / 2, BYTES, UINT64_C(1) << 31,
                              UINT64_C(1) << 32, GM_ELEMENTS_MAX, UINT64_C(1) << 61, UINT64_C(1) << 62,
                              UINT64_C(1) << 63, UINT64_MAX};
    const uint32_t count = sizeof edges / sizeof *edges;
    for (uint32_t dtype = 0; dtype < GM_DTYPE_COUNT; dtype++)
        for (uint32_t i = 0; i < count * 3u; i++)
            for (uint32_t k = 0; k < count * 3u; k++) {
                const uint64_t offset = edges[i / 3u] + i % 3u - 1u, n = edges[k / 3u] + k % 3u - 1u;
                const uint64_t element = gm_dtype_bytes(dtype);
                if (!(gm_op_row(GM_OP_fill).types >> dtype & 1u))
                    continue;
                rig_words(words, GM_OP_fill, dtype, GM_FLAG_WIDE, n);
                rig_buffer(words, 0, MINE, offset);
                struct gm_job job;
                struct gm_plan plan;
                const int32_t status = check_on(&rig, 1, words, &job, &plan);
                const unsigned __int128 end = (unsigned __int128)n * element + offset;
                const int32_t expected = n > GM_ELEMENTS_MAX      ? GM_ESIZE
                                         : offset % element != 0 ? GM_EALIGN
                                         : end > BYTES           ? GM_EBOUNDS
                                                                 : GM_OK;
                assert_int_equal(status, expected);
                if (status != GM_OK)
                    continue;
                accepted++;
                assert_int_equal(job.address[0], BASE + offset);
            }
    assert_true(accepted > 100);
    rig_close(&rig);
}

static void jobs_on_host_memory_are_marked(void **state)
{
    const uint32_t memory = GM_MARK_HOST | GM_MARK_HOST_OUT | GM_MARK_OUT;
    struct rig rig;
    uint32_t words[GM_DESC_WORDS];
    struct gm_job job;
    struct gm_plan plan;
    (void)state;
    open_arenas(&rig);
    sort_words(words, 16, HOST, 0, MINE, 0);
    assert_int_equal(check_on(&rig, 1, words, &job, &plan), GM_OK);
    assert_int_equal(job.marks & memory, GM_MARK_HOST | GM_MARK_OUT);
    sort_words(words, 16, MINE, 0, HOST, 0); /* the completion has to be seen after the output, by the host */
    assert_int_equal(check_on(&rig, 1, words, &job, &plan), GM_OK);
    assert_int_equal(job.marks & memory, memory);
    rig_words(words, GM_OP_sum, GM_DTYPE_u32, 0, BYTES / 4);
    rig_buffer(words, 0, HOST, 0);
    assert_int_equal(check_on(&rig, 1, words, &job, &plan), GM_OK);
    assert_int_equal(job.marks & memory, GM_MARK_HOST);
    assert_int_equal(job.shares, rig.core->host_shares);
    rig_close(&rig);
}

static void more_workspace_than_the_pool_is_refused(void **state)
{
    struct rig rig;
    uint32_t words[GM_DESC_WORDS];
    (void)state;
    open_arenas(&rig);
    rig_arena_set(&rig, 20 | 1 << 16, BASE + 16 * BYTES, 16 * BYTES, RIG_SESSION, 0);
    sort_words(words, BYTES / 8, 20 | 1 << 16, 0, 20 | 1 << 16, 8 * BYTES); /* keys: half of the pool */
    assert_check(&rig, 1, words, GM_OK);
    sort_words(words, BYTES / 4, 20 | 1 << 16, 0, 20 | 1 << 16, 8 * BYTES); /* keys: all of it, and counts */
    assert_check(&rig, 1, words, GM_EWORKSPACE);
    rig_close(&rig);
}

/* From here on: whole slots through gm_turn. */
static int32_t answer_of(struct rig *rig, uint64_t position)
{
    struct gm_granule g;
    assert_true(rig_answer(rig, 1, position, &g));
    return gm_completion_status(g);
}

static void halves_that_do_not_belong_together_are_refused_alone(void **state)
{
    struct rig rig;
    struct rig_worker worker = {0};
    struct gm_granule g;
    uint32_t words[GM_DESC_WORDS], stray[GM_DESC_WORDS];
    (void)state;
    open_arenas(&rig);
    struct rig_lane *lane = &rig.lane[1];
    rig_words(stray, GM_DESC_WIDE_MARK, 0, 0, 0);
    /* 0: a second half without a first; 1, 2: a first half followed by a whole descriptor; 3: fill without its half;
     * 4, 5: a half for an op that takes none; 6, 7, 8: a wide one and a stray behind it. */
    gm_desc_store(lane->sq, 4, 0, stray, 0);
    rig_words(words, GM_OP_fill, GM_DTYPE_u32, GM_FLAG_WIDE, 4);
    rig_buffer(words, 0, MINE, 0);
    gm_desc_store(lane->sq, 4, 1, words, 0);
    gm_desc_store(lane->sq, 4, 6, words, 0);
    gm_desc_store(lane->sq, 4, 7, words, 1);
    gm_desc_store(lane->sq, 4, 8, stray, 0);
    rig_words(words, GM_OP_nop, 0, 0, 0);
    gm_desc_store(lane->sq, 4, 2, words, 0);
    rig_words(words, GM_OP_fill, GM_DTYPE_u32, 0, 4);
    rig_buffer(words, 0, MINE, 0);
    gm_desc_store(lane->sq, 4, 3, words, 0);
    rig_words(words, GM_OP_sum, GM_DTYPE_u32, GM_FLAG_WIDE, 4);
    rig_buffer(words, 0, MINE, 0);
    gm_desc_store(lane->sq, 4, 4, words, 0);
    gm_desc_store(lane->sq, 4, 5, words, 1);
    rig_settle(&rig, &worker, 1);
    assert_int_equal(answer_of(&rig, 0), GM_EINVAL);
    assert_int_equal(answer_of(&rig, 1), GM_EINVAL);
    assert_int_equal(answer_of(&rig, 2), GM_OK);
    assert_int_equal(answer_of(&rig, 3), GM_EINVAL);
    assert_int_equal(answer_of(&rig, 4), GM_EINVAL);
    assert_false(rig_answer(&rig, 1, 5, &g)); /* belongs to 4 */
    assert_int_equal(answer_of(&rig, 6), GM_OK);
    assert_false(rig_answer(&rig, 1, 7, &g));
    assert_int_equal(answer_of(&rig, 8), GM_EINVAL);
    assert_int_equal(rig.d->lane[1].head, 9);
    assert_int_equal(rig.d->counters.refused, 5);
    assert_int_equal(rig.d->counters.started, 2);
    rig_close(&rig);
}

static void a_wide_descriptor_waits_for_its_second_half(void **state)
{
    (void)state;
    /* At every place of a ring of 4, so also across its end and the end of a poll; the lap wraps on the way. */
    const uint64_t start = (UINT64_C(0xfffffffd) << 2);
    struct rig rig;
    struct rig_worker worker = {0};
    struct gm_granule g;
    rig_open(&rig, &shape);
    rig_arena_set(&rig, MINE, BASE, BYTES, RIG_SESSION, 0);
    rig_lane_open(&rig, 1, 2, start);
    struct rig_lane *lane = &rig.lane[1];
    uint32_t words[GM_DESC_WORDS];
    rig_words(words, GM_OP_fill, GM_DTYPE_u32, GM_FLAG_WIDE, 4);
    rig_buffer(words, 0, MINE, 0);
    for (uint64_t at = start; at < start + 60; at += 3) {
        rig_submit_nop(&rig, 1); /* moves the pair by one each round */
        gm_desc_store(lane->sq, 2, at + 1, words, 0);
        rig_settle(&rig, &worker, 1);
        assert_true(rig_answer(&rig, 1, at, &g));
        assert_false(rig_answer(&rig, 1, at + 1, &g));
        assert_int_equal(rig.d->lane[1].head, at + 1);
        gm_desc_store(lane->sq, 2, at + 2, words, 1);
        rig_settle(&rig, &worker, 1);
        assert_true(rig_answer(&rig, 1, at + 1, &g));
        assert_int_equal(gm_completion_status(g), GM_OK);
        lane->position = at + 3;
        assert_int_equal(rig.d->lane[1].head, at + 3);
    }
    rig_close(&rig);
}

static void a_descriptor_counts_only_when_every_granule_has_its_lap(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker worker = {0};
    struct gm_granule g;
    open_arenas(&rig);
    struct rig_lane *lane = &rig.lane[1];
    for (uint32_t missing = 0; missing < 4; missing++) {
        const uint64_t position = lane->position;
        rig_submit_nop(&rig, 1);
        lane->sq[position].g[missing].w[3] = 0;
        rig_settle(&rig, &worker, 1);
        assert_int_equal(rig.d->lane[1].head, position);
        lane->sq[position].g[missing].w[3] = gm_lap(position, 4);
        rig_settle(&rig, &worker, 1);
        assert_true(rig_answer(&rig, 1, position, &g));
    }
    rig_close(&rig);
}

static void memory_of_zeros_is_empty_and_memory_of_ones_is_refused(void **state)
{
    (void)state;
    const uint64_t laps[] = {0, UINT64_C(0xfffffffe)};
    for (uint32_t i = 0; i < 2; i++) {
        struct rig rig;
        struct rig_worker worker = {0};
        rig_open(&rig, &shape);
        rig_lane_open(&rig, 1, 2, laps[i] << 2);
        rig_settle(&rig, &worker, 1);
        assert_int_equal(rig.d->counters.polled, 0);
        memset(rig.lane[1].sq, 0xff, 4 * sizeof *rig.lane[1].sq);
        rig_settle(&rig, &worker, 1);
        assert_int_equal(rig.d->counters.started, 0);
        assert_int_equal(rig.d->counters.refused, i == 0 ? 0 : 4); /* all ones are lap 0xffffffff */
        for (uint64_t p = 0; i == 1 && p < 4; p++)
            assert_int_equal(answer_of(&rig, (laps[i] << 2) + p), GM_EINVAL);
        rig_close(&rig);
    }
}

/* Of every shape, with every bit of every place that it has. */
static void arguments_come_out_of_a_descriptor_as_they_went_in(void **state)
{
    (void)state;
    for (uint32_t number = 0; number < GM_SHAPE_COUNT; number++) {
        struct gm_op_row row = {.shape = (uint8_t)number};
        struct gm_args in = {.n = UINT64_C(0x123456789a), .dtype = 0xa5}, out;
        uint32_t words[GM_DESC_WORDS] = {0x1234};
        struct gm_words head, wide = {{0}};

        gm_shape_fill(number, &row);
        for (uint32_t i = 0; i < GM_ARG_VALUES; i++)
            in.value[i] = row.places >> (GM_AT_VALUE0 + i) & 1u ? UINT64_C(0xfedcba9800000000) + i : 0;
        in.count = row.places >> GM_AT_COUNT & 1u ? 0x87654321u : 0;
        in.count2 = row.places >> GM_AT_COUNT2 & 1u ? 0xabcdefu : 0;
        in.type2 = row.places >> GM_AT_TYPE2 & 1u ? 0x5a : 0;
        in.flags = (uint8_t)(gm_args_flags(&row) & ~(uint32_t)GM_FLAG_WIDE);
        gm_args_put(words, &row, &in);
        memcpy(head.w, words, sizeof head.w);
        memcpy(wide.w, words + 12, sizeof wide.w);
        out = gm_check_args(&head, &wide);
        assert_int_equal(words[GM_W_OP], 0x1234u | 0xa50000u | (uint32_t)out.flags << 24);
        assert_int_equal(words[GM_W_MORE], in.count2 | (uint32_t)in.type2 << 24);
        assert_int_equal(words[GM_W_WIDE], row.wide ? GM_DESC_WIDE_MARK : 0);
        assert_int_equal(out.flags, in.flags | (row.wide ? 1u : 0));
        assert_true(out.n == in.n && memcmp(out.value, in.value, sizeof in.value) == 0);
        assert_true(out.count == in.count && out.count2 == in.count2);
        assert_true(out.dtype == in.dtype && out.type2 == in.type2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_ops_and_types_are_refused),
        cmocka_unit_test(unknown_flags_and_nonzero_padding_are_refused),
        cmocka_unit_test(sizes_outside_their_range_are_refused),
        cmocka_unit_test(histogram_arguments_are_checked),
        cmocka_unit_test(buffers_must_be_the_clients_own),
        cmocka_unit_test(memory_that_was_lost_is_named_so),
        cmocka_unit_test(overlapping_buffers_are_refused),
        cmocka_unit_test(every_offset_and_length_at_the_extremes_stays_in_its_arena),
        cmocka_unit_test(jobs_on_host_memory_are_marked),
        cmocka_unit_test(more_workspace_than_the_pool_is_refused),
        cmocka_unit_test(halves_that_do_not_belong_together_are_refused_alone),
        cmocka_unit_test(a_wide_descriptor_waits_for_its_second_half),
        cmocka_unit_test(a_descriptor_counts_only_when_every_granule_has_its_lap),
        cmocka_unit_test(arguments_come_out_of_a_descriptor_as_they_went_in),
        cmocka_unit_test(memory_of_zeros_is_empty_and_memory_of_ones_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
