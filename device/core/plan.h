/* SPDX-License-Identifier: Apache-2.0
 *
 * How a job is cut: phases, shares, tiles and workspace, from the work shape in the op table and the checked sizes
 * alone. Ops rely on these numbers; they never compute them again. One thread.
 */
#ifndef GM_CORE_PLAN_H
#define GM_CORE_PLAN_H

#include "core.h"

#define GM_TILES_ALONE      1u   /* up to so many tiles one share is faster than a fan-out: two in a row are not */
#define GM_HOST_SHARES      8u   /* shares of a job on host memory: enough to saturate PCIe */
#define GM_PARTIAL_BYTES    16u  /* of a tile of a reduction: 128-bit sum, or a value and a count */
#define GM_SEGMENT_BYTES    32u  /* of a tile of a segmented reduction: of the segments that it shares with others */
#define GM_HIST_PRIVATE_MAX (UINT64_C(64) << 20) /* bytes of private histograms of one job */
#define GM_HIST_ROW_BINS    32768u /* up to so many bins each share has a row; on a GPU it fits shared memory */
#define GM_HIST_SLICE_BINS  8192u  /* so many bins are worth a share, whatever n is */
#define GM_HIST_SORTED_MIN  (UINT64_C(1) << 22) /* elements from which on sorting them by bins is faster */
#define GM_RADIX_BITS       8u
#define GM_RADIX            (1u << GM_RADIX_BITS)
#define GM_SORT_CHUNKS      2u   /* chunks per worker: each is counted and scattered by one share */
#define GM_SORT_GRANULES    2u   /* of a tile: chunks are a whole number of them; one is what a block moves at a time */

struct gm_plan {
    uint64_t workspace;
    uint32_t widest;
};

#define OP(id, name, shape, types, result, work, tile_bytes, tolerance, help)                                          \
    static_assert(((tile_bytes) & ((tile_bytes)-1)) == 0, #name ": tiles are counted by a shift");
#include "ops.def"
#undef OP

GM_HD uint64_t gm_ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }
GM_HD uint32_t gm_log2(uint32_t power)
{
#ifdef __CUDA_ARCH__
    return 31u - (uint32_t)__clz((int)power);
#else
    return 31u - (uint32_t)__builtin_clz(power);
#endif
}

GM_HD uint32_t gm_plan_shares(uint64_t tiles, uint32_t most)
{
    if (tiles <= GM_TILES_ALONE)
        return 1;
    return tiles < most ? (uint32_t)tiles : most;
}

/* Elements of one radix chunk, a whole number of granules. */
GM_HD uint64_t gm_plan_chunk(uint64_t n, uint64_t granule, uint32_t most)
{
    return gm_ceil_div(gm_ceil_div(n, granule), (uint64_t)most * GM_SORT_CHUNKS) * granule;
}

/* Workspace of a radix sort: counts of every digit in every chunk, then a second copy of the keys. */
GM_HD uint64_t gm_sort_keys_offset(uint64_t chunks) { return (chunks * GM_RADIX * 8u + 255u) & ~UINT64_C(255); }

/* Workspace of a scatter: for each place of the output the number of the element that goes there. */
#define GM_SCATTER_PHASES 3u
GM_HD uint32_t gm_scatter_word(uint64_t n) { return n >> 32 == 0 ? 4u : 8u; }

/* Workspace of a histogram: a row of counters for each share; then, with edges of the client's own, a private copy of
 * them for each, eight bytes an edge. */
GM_HD uint64_t gm_edges_bytes(const struct gm_job *job) { return ((uint64_t)job->bins + 1u) * 8u; }
GM_HD uint64_t gm_edges_offset(const struct gm_job *job, uint32_t share)
{
    return (uint64_t)job->shares * job->bins * 8u + share * gm_edges_bytes(job);
}

/* More bins than GM_HIST_ROW_BINS: one row for all shares, in words that hold what can be counted. Phases: clear it,
 * count into it, store the output. Sorted: clear it and count the elements' digits, which are the high bits of their
 * bins; move the bins to their digits' places; count what lies there, part by part; store the output. Workspace: of
 * each digit where it begins, the next free place, where it ends; GM_RADIX words of each share; the row; the bins. */
#define GM_HIST_DIRECT_PHASES 3u
#define GM_HIST_SORTED_PHASES 4u
GM_HD bool gm_hist_many(const struct gm_job *job) { return job->phases != 1u; }
GM_HD bool gm_hist_sorted(const struct gm_job *job) { return job->phases == GM_HIST_SORTED_PHASES; }
GM_HD uint32_t gm_hist_word(const struct gm_job *job) { return job->n <= UINT32_MAX / GM_CHANNELS_MAX ? 4u : 8u; }
GM_HD uint32_t gm_hist_shift(uint32_t bins) { return bins <= GM_RADIX << 15 ? 15u : 16u; }
static_assert(GM_HIST_BINS_MAX <= GM_RADIX << 16, "a digit for every bin");
GM_HD uint64_t gm_hist_share_offset(uint32_t share) { return (3u + (uint64_t)share) * GM_RADIX * 8u; }
GM_HD uint64_t gm_hist_row_offset(const struct gm_job *job) { return gm_hist_share_offset(job->shares); }
GM_HD uint64_t gm_hist_bins_offset(const struct gm_job *job)
{
    return gm_hist_row_offset(job) + (((uint64_t)job->bins * gm_hist_word(job) + 255u) & ~UINT64_C(255));
}

/* A share's part of the row: first bin, and the end. */
GM_HD uint32_t gm_hist_slice(const struct gm_job *job, uint32_t share, uint32_t *end)
{
    const uint32_t part = (job->bins + job->shares - 1u) / job->shares;
    const uint64_t first = (uint64_t)part * share, last = first + part;
    *end = last < job->bins ? (uint32_t)last : job->bins;
    return first < job->bins ? (uint32_t)first : job->bins;
}

/* Workspace, of either kind. */
GM_HD uint64_t gm_plan_hist_many(struct gm_job *job, uint32_t most, bool sorted)
{
    if (sorted) {
        job->tile_elements = gm_plan_chunk(job->n, job->tile_elements / GM_SORT_GRANULES, most);
        job->tiles = gm_ceil_div(job->n, job->tile_elements);
    }
    const uint64_t slices = gm_ceil_div(job->bins, GM_HIST_SLICE_BINS);
    const uint64_t shares = job->tiles > slices ? job->tiles : slices;
    job->shares = shares < most ? (uint32_t)shares : most;
    job->phases = sorted ? GM_HIST_SORTED_PHASES : GM_HIST_DIRECT_PHASES;
    return gm_hist_bins_offset(job) + (sorted ? job->n * 4u : 0);
}

/* Whether a histogram of many bins can be sorted. Bytes have few different bins, and pixels are counted by channel. */
GM_HD bool gm_plan_hist_sortable(const struct gm_job *job, const struct gm_op_row *row)
{
    return row->shape != GM_SHAPE_CHANNELS && gm_dtype_bytes(job->dtype) != 1u && job->n != 0;
}

GM_HD uint64_t gm_plan_histogram(struct gm_job *job, const struct gm_op_row *row, uint32_t most, uint64_t pool)
{
    if (row->shape != GM_SHAPE_EDGES && job->bins > GM_HIST_ROW_BINS) {
        const uint64_t elements = job->tile_elements, tiles = job->tiles;
        const bool near = (job->marks & GM_MARK_HOST) == 0; /* the bus is the limit, and sorting reads twice */
        if (near && gm_plan_hist_sortable(job, row) && job->n >= GM_HIST_SORTED_MIN && job->n >= job->bins) {
            const uint64_t workspace = gm_plan_hist_many(job, most, true);
            if (workspace <= pool)
                return workspace;
            job->tile_elements = elements, job->tiles = tiles;
        }
        return gm_plan_hist_many(job, most, false);
    }
    const uint64_t edges = row->shape == GM_SHAPE_EDGES ? gm_edges_bytes(job) : 0;
    const uint64_t one = (uint64_t)job->bins * 8u + edges, fit = GM_HIST_PRIVATE_MAX / one;
    if (job->shares > fit)
        job->shares = fit ? (uint32_t)fit : 1u;
    return job->shares * one;
}

/* Workspace of a segmented reduction: what tiles leave, then where each begins, and the end. */
GM_HD uint64_t gm_segment_splits_offset(uint64_t tiles) { return tiles * GM_SEGMENT_BYTES; }

/* Elements and ends of segments are the items of a segmented reduction: there is a tile of nothing, because there is an
 * offset to look at. A share with one tile looks up itself where that begins and ends; of more, a phase does. */
GM_HD uint64_t gm_plan_segmented(struct gm_job *job)
{
    job->tiles = (job->n + job->value[0] + job->tile_elements - 1u) >> gm_log2((uint32_t)job->tile_elements);
    if (job->tiles <= 1) {
        job->tiles = 1;
        return 0;
    }
    return gm_segment_splits_offset(job->tiles) + (job->tiles + 1u) * 8u;
}

/* Offsets of a segmented scan that are worth a share. A job of more has an entry, in which it can be cancelled while
 * they are looked at, however few elements it has. */
#define GM_OFFSETS_SHARE 65536u
GM_HD uint64_t gm_plan_offset_shares(const struct gm_job *job, const struct gm_op_row *row)
{
    return row->shape == GM_SHAPE_SEGSCAN ? gm_ceil_div(job->value[0] + 1u, GM_OFFSETS_SHARE) : 0;
}

/* Up to so many bytes of what tiles say to each other are cleared by the dispatcher as it fills the job's entry: 64
 * stores of a warp, where a phase of their own costs the job some 12 us. */
#define GM_CLEAR_MOST 32768u

/* Workspace of a scan. Tiles that look back at each other (look_back.cuh) go through the input once, and have a phase
 * before that only to clear more than the dispatcher does, or to look at more offsets than the shares of the elements
 * are worth. The others of a partition go behind all that are selected, so it has two in any case. */
GM_HD uint64_t gm_plan_scan(struct gm_job *job, const struct gm_op_row *row, uint32_t most, bool looks_back)
{
    const uint64_t offset_shares = gm_plan_offset_shares(job, row);
    const uint64_t workspace = (job->tiles + 1u) * GM_PARTIAL_BYTES; /* and one that look_back.cuh needs for all */
    if (job->tiles <= 1u && offset_shares <= 1u)
        return 0;
    if (looks_back && workspace <= GM_CLEAR_MOST && offset_shares <= job->shares && row->shape != GM_SHAPE_PARTITION) {
        job->marks |= GM_MARK_CLEARED;
        return workspace;
    }
    if (offset_shares > job->shares)
        job->shares = offset_shares < most ? (uint32_t)offset_shares : most;
    job->phases = 2;
    return workspace;
}

/* Fills phases, shares, tiles and tile_elements; the phases of every work shape have the same cut. pool: bytes of
 * workspace that there are; looks_back: see core.h. */
GM_HD struct gm_plan gm_plan_job(struct gm_job *job, const struct gm_op_row *row, uint32_t workers,
                                 uint32_t host_shares, uint64_t pool, bool looks_back)
{
    struct gm_plan plan = {0, 1};
    const uint32_t most = (job->marks & GM_MARK_HOST) && host_shares < workers ? host_shares : workers;
    const uint32_t bytes = gm_dtype_bytes(job->dtype);
    job->phase = 0;
    job->phases = 1;
    job->shares = 1;
    job->tiles = 1;
    job->tile_elements = 0;
    if (row->work == GM_WORK_ONE)
        return plan;
    job->tile_elements = row->tile_bytes >> gm_log2(bytes);
    job->tiles = (job->n + job->tile_elements - 1u) >> gm_log2((uint32_t)job->tile_elements);
    if (row->work == GM_WORK_SEGMENTED)
        plan.workspace = gm_plan_segmented(job);
    job->shares = gm_plan_shares(job->tiles, most);
    if (row->work != GM_WORK_GRID)
        job->marks |= GM_MARK_FINISH;
    if (row->work == GM_WORK_SEGMENTED) {
        job->phases = job->tiles > job->shares ? 2 : 1;
    } else if (row->work == GM_WORK_REDUCE) {
        plan.workspace = job->tiles * GM_PARTIAL_BYTES;
    } else if (row->work == GM_WORK_HISTOGRAM) {
        plan.workspace = gm_plan_histogram(job, row, most, pool);
    } else if (row->work == GM_WORK_SCAN) {
        plan.workspace = gm_plan_scan(job, row, most, looks_back);
    } else if (row->work == GM_WORK_SCATTER && job->tiles > 1) {
        job->phases = GM_SCATTER_PHASES;
        plan.workspace = job->value[0] * gm_scatter_word(job->n);
    } else if (row->work == GM_WORK_SORT && job->tiles > 1) {
        job->tile_elements = gm_plan_chunk(job->n, job->tile_elements / GM_SORT_GRANULES, most);
        job->tiles = gm_ceil_div(job->n, job->tile_elements);
        job->shares = job->tiles < most ? (uint32_t)job->tiles : most;
        job->phases = (uint8_t)(2u * bytes * 8u / GM_RADIX_BITS);
        plan.workspace = gm_sort_keys_offset(job->tiles) + job->n * bytes;
    }
    plan.widest = job->shares;
    return plan;
}

#endif
