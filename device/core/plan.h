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

/* Workspace of a segmented reduction: what tiles leave, then where each begins, and the end. */
GM_HD uint64_t gm_segment_splits_offset(uint64_t tiles) { return tiles * GM_SEGMENT_BYTES; }

/* Elements and ends of segments are the items of a segmented reduction: there is a tile of nothing, because there is an
 * offset to look at. */
GM_HD uint64_t gm_plan_segmented(struct gm_job *job)
{
    job->tiles = (job->n + job->value[0] + job->tile_elements - 1u) >> gm_log2((uint32_t)job->tile_elements);
    if (job->tiles <= 1) {
        job->tiles = 1;
        return 0;
    }
    job->phases = 2;
    return gm_segment_splits_offset(job->tiles) + (job->tiles + 1u) * 8u;
}

/* Fills phases, shares, tiles and tile_elements; the phases of every work shape have the same cut. */
GM_HD struct gm_plan gm_plan_job(struct gm_job *job, const struct gm_op_row *row, uint32_t workers,
                                 uint32_t host_shares)
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
    if (row->work == GM_WORK_REDUCE) {
        plan.workspace = job->tiles * GM_PARTIAL_BYTES;
    } else if (row->work == GM_WORK_HISTOGRAM) {
        const uint64_t edges = row->shape == GM_SHAPE_EDGES ? gm_edges_bytes(job) : 0;
        const uint64_t one = (uint64_t)job->bins * 8u + edges, fit = GM_HIST_PRIVATE_MAX / one;
        if (job->shares > fit)
            job->shares = fit ? (uint32_t)fit : 1u;
        plan.workspace = job->shares * one;
    } else if (row->work == GM_WORK_SCAN && job->tiles > 1) {
        job->phases = 2;
        plan.workspace = (job->tiles + 1u) * GM_PARTIAL_BYTES; /* and one that look_back.cuh needs for all */
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
