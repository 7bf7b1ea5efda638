/* SPDX-License-Identifier: Apache-2.0
 *
 * What every op may rely on in its plan, for all ops, types, worker counts and sizes up to the largest: tiles cover the
 * elements exactly, shares and credit stay within what the rings hold, workspace is what the op's layout needs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"

struct planned {
    struct gm_op_row row;
    struct gm_job job;
    struct gm_plan plan;
    uint32_t op, workers, host_shares, most;
};

#define POOL UINT64_MAX /* of workspace */

typedef void visit(const struct planned *p);

/* bins: or segments, of an op that has them. */
static struct planned plan_any(uint32_t op, uint32_t dtype, uint64_t n, uint64_t bins, uint32_t workers,
                               uint32_t host_shares, bool host, uint64_t pool, bool looks_back)
{
    struct planned p;
    memset(&p, 0, sizeof p);
    p.row = gm_op_row(op);
    p.op = op;
    p.workers = workers;
    p.host_shares = host_shares;
    p.most = host && host_shares < workers ? host_shares : workers;
    p.job.op = (uint16_t)op;
    p.job.dtype = (uint8_t)dtype;
    p.job.n = n;
    p.job.value[0] = n / 3u; /* a length, for whom it matters */
    if (gm_args_takes(&p.row, GM_A_segments))
        p.job.value[0] = bins;
    else
        p.job.bins = (uint32_t)bins;
    p.job.marks = host ? GM_MARK_HOST : 0;
    p.plan = gm_plan_job(&p.job, &p.row, workers, host_shares, pool, looks_back);
    return p;
}

static struct planned plan_one(uint32_t op, uint32_t dtype, uint64_t n, uint64_t bins, uint32_t workers,
                               uint32_t host_shares, bool host, uint64_t pool)
{
    return plan_any(op, dtype, n, bins, workers, host_shares, host, pool, false);
}

static void each_size(uint32_t op, uint32_t dtype, uint32_t workers, uint32_t host_shares, visit *see)
{
    const struct gm_op_row row = gm_op_row(op);
    const uint64_t tile = row.tile_bytes ? row.tile_bytes / gm_dtype_bytes(dtype) : 1;
    const uint64_t sizes[] = {0, 1, 31, 32, 33, tile - 1, tile, tile + 1, 2 * tile, 2 * tile + 1, 3 * tile,
                              tile * workers - 1, tile * workers, tile * workers + 1, tile * workers * 2 + 1,
                              tile * workers * 5 + 3, UINT64_C(999999937), UINT64_C(1) << 30,
                              GM_ELEMENTS_MAX - 1, GM_ELEMENTS_MAX};
    const uint64_t bins[] = {1, 2, 255, 256, 4097, GM_HIST_ROW_BINS, GM_HIST_EDGES_MAX,
                             GM_HIST_ROW_BINS + 1u, GM_RADIX << 15, (GM_RADIX << 15) + 1u, GM_HIST_BINS_MAX};
    const uint64_t segments[] = {0, 1, 2, tile - 1, tile, tile + 1, tile * workers, GM_ELEMENTS_MAX};
    const uint64_t none[] = {0};
    const bool is_segmented = row.work == GM_WORK_SEGMENTED, is_histogram = row.work == GM_WORK_HISTOGRAM;
    const uint64_t *counts = is_segmented ? segments : is_histogram ? bins : none;
    const size_t bins_count = row.shape == GM_SHAPE_EDGES ? 7u : sizeof bins / 8u; /* GM_HIST_EDGES_MAX is the last */
    const size_t count = is_segmented ? sizeof segments / 8u : is_histogram ? bins_count : 1u;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t b = 0; b < count; b++)
            for (uint32_t host = 0; host < 2; host++) {
                const struct planned p =
                    plan_one(op, dtype, row.shape == GM_SHAPE_NONE ? 0 : sizes[i], counts[b], workers, host_shares,
                             host != 0, POOL);
                see(&p);
            }
}

static void each_plan(visit *see)
{
    const uint32_t workers[] = {1, 2, 3, 7, 8, 9, 132, 264, GM_SHARES_MAX}, host_shares[] = {1, GM_HOST_SHARES, 5000};
    for (uint32_t op = 0; op < GM_OP_COUNT; op++)
        for (uint32_t dtype = 0; dtype < GM_DTYPE_COUNT; dtype++) {
            const struct gm_op_row row = gm_op_row(op);
            if (row.shape == GM_SHAPE_NONE ? dtype != 0 : !(row.types >> dtype & 1u))
                continue;
            for (size_t w = 0; w < sizeof workers / sizeof *workers; w++)
                for (size_t h = 0; h < sizeof host_shares / sizeof *host_shares; h++)
                    each_size(op, dtype, workers[w], host_shares[h], see);
        }
}

static bool is_many(const struct planned *p) { return p->row.work == GM_WORK_HISTOGRAM && gm_hist_many(&p->job); }

/* What tiles are tiles of. */
static uint64_t items_of(const struct planned *p)
{
    return p->row.work == GM_WORK_SEGMENTED ? p->job.n + p->job.value[0] : p->job.n;
}

static void see_tiles(const struct planned *p)
{
    const uint64_t items = items_of(p), least = p->row.work == GM_WORK_SEGMENTED ? 1u : 0u;
    if (p->row.work == GM_WORK_ONE) {
        assert_int_equal(p->job.tiles, 1);
        return;
    }
    assert_true(p->job.tile_elements > 0);
    assert_true(p->job.tiles * p->job.tile_elements >= items);
    assert_true(items == 0 ? p->job.tiles == least : (p->job.tiles - 1u) * p->job.tile_elements < items);
    /* Whole tiles of the op's own size, so that tile boundaries are aligned accesses. */
    const bool chunks = p->row.work == GM_WORK_SORT || (p->row.work == GM_WORK_HISTOGRAM && gm_hist_sorted(&p->job));
    const uint32_t granule = chunks ? p->row.tile_bytes / GM_SORT_GRANULES : p->row.tile_bytes;
    assert_int_equal(p->job.tile_elements * gm_dtype_bytes(p->job.dtype) % granule, 0);
}
static void tiles_cover_the_elements_exactly(void **state)
{
    (void)state;
    each_plan(see_tiles);
}

static void see_shares(const struct planned *p)
{
    assert_true(p->job.shares >= 1 && p->job.shares <= p->most);
    /* Nobody is woken for nothing. */
    const uint64_t slices = is_many(p) ? (p->job.bins + GM_HIST_SLICE_BINS - 1u) / GM_HIST_SLICE_BINS : 0;
    assert_true(p->job.shares == 1 || p->job.shares <= p->job.tiles || p->job.shares <= slices);
    assert_int_equal(p->plan.widest, p->job.shares);
    assert_true(p->plan.widest <= GM_TICKETS - p->workers); /* the whole credit: some day it can start */
    assert_int_equal(p->job.phase, 0);
    assert_true(p->job.phases >= 1 && p->job.phases <= GM_PHASES_MAX);
}
static void shares_never_exceed_workers_or_credit(void **state)
{
    (void)state;
    each_plan(see_shares);
}

/* One row for all shares, which has a word of what can be counted for every bin; what is in front of it and behind does
 * not overlap it, and each bin has one share. */
static void see_many(const struct planned *p)
{
    const struct gm_job *job = &p->job;
    const bool sorted = gm_hist_sorted(job);
    const uint64_t word = gm_hist_word(job), own = gm_hist_share_offset(0), row = gm_hist_row_offset(job);
    assert_true(job->bins > GM_HIST_ROW_BINS && p->row.shape != GM_SHAPE_EDGES);
    assert_int_equal(own, 3u * GM_RADIX * 8u);
    assert_int_equal(row, own + job->shares * GM_RADIX * 8u);
    assert_int_equal(row % 256u, 0);
    assert_true(word == 8u || job->n * GM_CHANNELS_MAX <= UINT32_MAX);
    assert_true(gm_hist_bins_offset(job) >= row + job->bins * word && gm_hist_bins_offset(job) % 256u == 0);
    assert_int_equal(p->plan.workspace, gm_hist_bins_offset(job) + (sorted ? job->n * 4u : 0));
    assert_int_equal(job->phases, sorted ? GM_HIST_SORTED_PHASES : GM_HIST_DIRECT_PHASES);
    assert_true((job->bins - 1u) >> gm_hist_shift(job->bins) < GM_RADIX);
    uint32_t next = 0, end = 0;
    for (uint32_t share = 0; share < job->shares; share++, next = end) {
        const uint32_t first = gm_hist_slice(job, share, &end);
        assert_true(first == next && end >= first && end <= job->bins);
    }
    assert_int_equal(next, job->bins);
    const bool can = p->row.shape != GM_SHAPE_CHANNELS && gm_dtype_bytes(job->dtype) != 1u &&
                     !(job->marks & GM_MARK_HOST);
    assert_int_equal(sorted, can && job->n >= GM_HIST_SORTED_MIN && job->n >= job->bins);
}

/* A row of counters for each share, and behind the rows where edges are the client's a copy of all of them for each. */
static void see_rows(const struct planned *p)
{
    const uint64_t rows = (uint64_t)p->job.shares * p->job.bins * 8u;
    uint64_t used = rows;
    for (uint32_t share = 0; p->row.shape == GM_SHAPE_EDGES && share < p->job.shares; share++) {
        assert_int_equal(gm_edges_offset(&p->job, share), used);
        used += ((uint64_t)p->job.bins + 1u) * 8u;
    }
    assert_int_equal(p->plan.workspace, used);
    assert_true(p->plan.workspace <= GM_HIST_PRIVATE_MAX);
}

static void see_workspace(const struct planned *p)
{
    const uint64_t bytes = gm_dtype_bytes(p->job.dtype);
    switch (p->row.work) {
    case GM_WORK_REDUCE:
        assert_int_equal(p->plan.workspace, p->job.tiles * GM_PARTIAL_BYTES);
        break;
    case GM_WORK_SEGMENTED:
        assert_int_equal(p->job.phases, p->job.tiles == p->job.shares ? 1 : 2);
        if (p->job.tiles == 1) {
            assert_int_equal(p->plan.workspace, 0);
        } else {
            assert_int_equal(gm_segment_splits_offset(p->job.tiles), p->job.tiles * GM_SEGMENT_BYTES);
            assert_int_equal(p->plan.workspace, p->job.tiles * GM_SEGMENT_BYTES + (p->job.tiles + 1u) * 8u);
        }
        break;
    case GM_WORK_HISTOGRAM:
        if (is_many(p))
            see_many(p);
        else
            see_rows(p);
        break;
    case GM_WORK_SORT:
        if (p->job.phases == 1) {
            assert_true(p->job.tiles <= 1);
            assert_int_equal(p->plan.workspace, 0);
        } else {
            const uint64_t counts = p->job.tiles * GM_RADIX * 8u, keys = gm_sort_keys_offset(p->job.tiles);
            assert_true(keys >= counts && keys < counts + 256u && keys % 256u == 0);
            assert_int_equal(p->plan.workspace, keys + p->job.n * bytes);
            assert_int_equal(p->job.phases, 2u * bytes); /* count and scatter for each digit of 8 bits */
            assert_true(p->job.tiles <= (uint64_t)p->most * GM_SORT_CHUNKS);
        }
        break;
    case GM_WORK_SCATTER: /* a word for each place, which holds any number below n */
        assert_int_equal(p->job.phases, p->job.tiles > 1 ? GM_SCATTER_PHASES : 1);
        assert_int_equal(p->plan.workspace, p->job.phases == 1 ? 0 : p->job.value[0] * gm_scatter_word(p->job.n));
        assert_true(gm_scatter_word(p->job.n) == 8u || p->job.n <= UINT32_MAX);
        break;
    case GM_WORK_SCAN: /* what each tile comes to, and one for all; one tile begins at once */
        assert_int_equal(p->job.phases, p->job.tiles > 1 ? 2 : 1);
        assert_int_equal(p->plan.workspace, p->job.tiles > 1 ? (p->job.tiles + 1u) * GM_PARTIAL_BYTES : 0);
        break;
    default:
        assert_int_equal(p->plan.workspace, 0);
    }
}
static void workspace_is_what_the_layout_needs(void **state)
{
    (void)state;
    each_plan(see_workspace);
}

static void see_small(const struct planned *p)
{
    const uint64_t bytes = items_of(p) * gm_dtype_bytes(p->job.dtype);
    if (is_many(p))
        return;
    if (p->row.work == GM_WORK_GRID || p->row.work == GM_WORK_REDUCE || p->row.work == GM_WORK_HISTOGRAM ||
        p->row.work == GM_WORK_SCATTER || p->row.work == GM_WORK_SCAN || p->row.work == GM_WORK_SEGMENTED)
        assert_int_equal(p->job.shares == 1, bytes <= p->row.tile_bytes || p->most == 1);
    if (p->row.work == GM_WORK_SORT && bytes <= p->row.tile_bytes)
        assert_true(p->job.shares == 1 && p->job.phases == 1);
}
static void small_jobs_stay_with_one_worker(void **state)
{
    (void)state;
    each_plan(see_small);
}

/* A histogram that could be sorted is not where there is no room for its elements, and needs what it then needs. */
static void a_small_pool_sorts_no_histogram(void **state)
{
    (void)state;
    for (uint64_t n = GM_HIST_SORTED_MIN; n <= GM_ELEMENTS_MAX; n *= 4u) {
        const struct planned sorted = plan_one(GM_OP_histogram, GM_DTYPE_f32, n, 100000, 7, 8, false, POOL);
        const uint64_t needs = sorted.plan.workspace;
        const struct planned fits = plan_one(GM_OP_histogram, GM_DTYPE_f32, n, 100000, 7, 8, false, needs);
        const struct planned other = plan_one(GM_OP_histogram, GM_DTYPE_f32, n, 100000, 7, 8, false, needs - 1u);
        assert_true(gm_hist_sorted(&sorted.job) && gm_hist_sorted(&fits.job) && !gm_hist_sorted(&other.job));
        assert_int_equal(other.job.phases, GM_HIST_DIRECT_PHASES);
        assert_int_equal(other.job.tile_elements, gm_op_row(GM_OP_histogram).tile_bytes / 4u);
        assert_int_equal(other.job.tiles, (n + other.job.tile_elements - 1u) / other.job.tile_elements);
        assert_int_equal(other.plan.workspace, gm_hist_bins_offset(&other.job));
        assert_true(other.plan.workspace < needs);
    }
}

/* However few elements: the offsets are spread over shares, and the job has an entry, in which it can be cancelled. */
static void offsets_of_segmented_scans_are_work_too(void **state)
{
    static const uint64_t sizes[] = {0, 1, 16384, 16385, 1000000};
    (void)state;
    for (uint32_t op = GM_OP_segmented_scan_sum; op <= GM_OP_segmented_scan_max; op++)
        for (uint32_t k = 0; k < 5u * 4u; k++) {
            const uint64_t segments[] = {0, GM_OFFSETS_SHARE - 1u, GM_OFFSETS_SHARE, GM_ELEMENTS_MAX};
            const struct planned p =
                plan_one(op, GM_DTYPE_f32, sizes[k / 4u], segments[k % 4u], 7, 8, false, POOL);
            const uint64_t parts = (segments[k % 4u] + GM_OFFSETS_SHARE) / GM_OFFSETS_SHARE;
            const uint64_t wanted = parts > p.job.tiles ? parts : p.job.tiles;
            assert_int_equal(p.job.shares, wanted < 7u ? wanted : 7u);
            assert_int_equal(p.plan.widest, p.job.shares);
            assert_int_equal(p.job.phases, p.job.tiles > 1u || parts > 1u ? 2 : 1);
            assert_int_equal(p.plan.workspace, p.job.phases == 1 ? 0 : (p.job.tiles + 1u) * GM_PARTIAL_BYTES);
        }
}

/* Where tiles look back at each other, and nothing else needs a phase, the cut is the same but for that phase. */
static void scans_that_look_back_need_no_phase_to_clear(void **state)
{
    const uint64_t most = GM_CLEAR_MOST / GM_PARTIAL_BYTES - 1u; /* tiles */
    const uint64_t tiles[] = {0, 1, 2, 3, 7, 131, 255, most - 1u, most, most + 1u, 100000};
    const uint64_t segments[] = {0, GM_OFFSETS_SHARE - 1u, GM_OFFSETS_SHARE, 2u * GM_OFFSETS_SHARE, GM_ELEMENTS_MAX};
    (void)state;
    for (uint32_t op = GM_OP_scan_sum; op <= GM_OP_partition; op++)
        for (uint32_t k = 0; k < 11u * 5u; k++) {
            const uint64_t n = tiles[k / 5u] * (gm_op_row(op).tile_bytes / 4u);
            const struct planned p = plan_any(op, GM_DTYPE_f32, n, segments[k % 5u], 7, 8, false, POOL, true);
            const struct planned q = plan_any(op, GM_DTYPE_f32, n, segments[k % 5u], 7, 8, false, POOL, false);
            const uint64_t parts = p.row.shape == GM_SHAPE_SEGSCAN ? segments[k % 5u] / GM_OFFSETS_SHARE + 1u : 0;
            const bool one = op != GM_OP_partition && p.job.tiles > 1u && p.job.tiles <= most &&
                             parts <= (p.job.tiles < 7u ? p.job.tiles : 7u);
            assert_int_equal(p.job.marks & GM_MARK_CLEARED, one ? GM_MARK_CLEARED : 0);
            assert_int_equal(q.job.marks & GM_MARK_CLEARED, 0);
            assert_int_equal(p.job.phases, one ? 1 : q.job.phases);
            assert_int_equal(p.job.shares, q.job.shares);
            assert_int_equal(p.plan.workspace, q.plan.workspace);
        }
}

static void a_plan_depends_on_nothing_else(void **state)
{
    (void)state;
    /* The same job gives the same cut whatever stood in the struct before: results repeat bit for bit. */
    struct gm_job a, b;
    const struct gm_op_row row = gm_op_row(GM_OP_sum);
    memset(&a, 0x00, sizeof a);
    memset(&b, 0xff, sizeof b);
    a.dtype = b.dtype = GM_DTYPE_f32;
    a.n = b.n = 12345678;
    a.bins = b.bins = 0;
    a.marks = b.marks = 0;
    gm_plan_job(&a, &row, 9, 8, POOL, false);
    gm_plan_job(&b, &row, 9, 8, POOL, false);
    assert_int_equal(a.phase, b.phase);
    assert_int_equal(a.phases, b.phases);
    assert_int_equal(a.shares, b.shares);
    assert_int_equal(a.tiles, b.tiles);
    assert_int_equal(a.tile_elements, b.tile_elements);
    /* And the tiles of a reduction, which fix the order of combination, do not depend on the number of workers. */
    gm_plan_job(&b, &row, 264, 8, POOL, false);
    assert_int_equal(a.tiles, b.tiles);
    assert_int_equal(a.tile_elements, b.tile_elements);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_cover_the_elements_exactly),
        cmocka_unit_test(shares_never_exceed_workers_or_credit),
        cmocka_unit_test(workspace_is_what_the_layout_needs),
        cmocka_unit_test(small_jobs_stay_with_one_worker),
        cmocka_unit_test(a_small_pool_sorts_no_histogram),
        cmocka_unit_test(offsets_of_segmented_scans_are_work_too),
        cmocka_unit_test(scans_that_look_back_need_no_phase_to_clear),
        cmocka_unit_test(a_plan_depends_on_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
