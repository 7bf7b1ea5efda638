/* SPDX-License-Identifier: Apache-2.0
 *
 * What the segmented scans share on the CPU: the way of prefix.h, where every offset begins the scan again. One thread
 * a share. Offsets are a client's and may change at any moment: each is read once where it counts, compared with the
 * tile before it is a position, and every loop over them ends with their number.
 *
 * Whether they are good is looked at by index, each share its part of them, in the first phase: what tiles find by
 * searching says nothing about offsets that fall.
 */
#ifndef GM_OPS_SEGSCAN_H
#define GM_OPS_SEGSCAN_H

#include "prefix.h"

#define GM_OFFSETS_ROW 16u /* looked at one after the other */
#define GM_OFFSETS_LOOK 32768u /* from one look at the abort word to the next */

struct gm_offsets {
    const void *data;
    uint64_t count, n;
    uint32_t dtype;
};

static inline struct gm_offsets gm_offsets_make(const struct gm_run *run)
{
    return (struct gm_offsets){
        .data = gm_run_buffer(run, 1), .count = run->job->value[0] + 1u, .n = run->job->n, .dtype = run->job->type2};
}

/* One below zero is far above n. */
static inline uint64_t gm_offsets_at(const struct gm_offsets *o, uint64_t j)
{
    if (gm_dtype_bytes(o->dtype) == 8u)
        return gm_load_relaxed_u64((const uint64_t *)o->data + j);
    const uint32_t v = gm_load_relaxed_u32((const uint32_t *)o->data + j);
    return o->dtype == GM_DTYPE_i32 ? (uint64_t)(int64_t)(int32_t)v : v;
}

/* The first offset from number low on that is not below a position; their number when there is none. */
static inline uint64_t gm_offsets_from(const struct gm_offsets *o, uint64_t low, uint64_t position)
{
    uint64_t high = o->count;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2u;
        if (gm_offsets_at(o, middle) < position)
            low = middle + 1u;
        else
            high = middle;
    }
    return low;
}

/* Where the segment that holds a position ends: the first offset behind it, from number *j on, or n. Behind a few that
 * are not, by searching: however many segments are empty, and whatever offsets say meanwhile, a tile looks at no more
 * than some for each of its elements. */
static inline uint64_t gm_offsets_next(const struct gm_offsets *o, uint64_t *j, uint64_t position)
{
    uint64_t v = 0;
    for (uint32_t k = 0; k < GM_OFFSETS_ROW && *j < o->count && v <= position; k++)
        v = gm_offsets_at(o, (*j)++);
    if (v <= position) {
        *j = gm_offsets_from(o, *j, position + 1u);
        v = *j < o->count ? gm_offsets_at(o, (*j)++) : o->n;
    }
    return v > position && v < o->n ? v : o->n;
}

/* A share's part of the offsets: none falls, none is beyond n. They may be many more than elements, so it looks whether
 * the job was aborted now and then. */
static inline bool gm_offsets_good(const struct gm_run *run, const struct gm_offsets *o)
{
    const uint64_t part = gm_ceil_div(o->count, run->job->shares), from = run->share * part;
    uint64_t before = from > 0 && from < o->count ? gm_offsets_at(o, from - 1u) : 0;
    for (uint64_t j = from; j < o->count && j < from + part; j++) {
        if (j % GM_OFFSETS_LOOK == 0 && gm_run_aborted(run))
            break;
        const uint64_t v = gm_offsets_at(o, j);
        if (v < before || v > o->n)
            return false;
        before = v;
    }
    return true;
}

/* What a tile comes to: from the last offset in it on, if there is one. */
static inline struct gm_prefix_partial gm_segscan_total(const struct gm_prefix *p, const struct gm_offsets *o,
                                                        const void *in, uint64_t first, uint64_t count)
{
    const uint64_t behind = gm_offsets_from(o, 0, first + count), last = behind > 0 ? gm_offsets_at(o, behind - 1u) : 0;
    if (behind == 0 || last < first || last >= first + count)
        return (struct gm_prefix_partial){gm_prefix_total(p, in, first, count), 0};
    return (struct gm_prefix_partial){gm_prefix_total(p, in, last, first + count - last), 1};
}

/* The outputs of a tile, segment by segment. state: what comes before the tile. */
static inline bool gm_segscan_tile(const struct gm_prefix *p, const struct gm_offsets *o, uint64_t state,
                                   const void *in, void *out, uint64_t first, uint64_t count)
{
    const uint64_t end = first + count;
    uint64_t j = gm_offsets_from(o, 0, first), at = first;
    bool over = false;
    if (j < o->count && gm_offsets_at(o, j) == first)
        state = gm_prefix_nothing(p);
    while (at < end) {
        const uint64_t next = gm_offsets_next(o, &j, at); /* may be behind the tile */
        const uint64_t upto = next < end ? next : end;
        /* No output of an exclusive scan has the last element of its segment in it. */
        const uint64_t used = upto - at - (p->exclusive && upto == next ? 1u : 0);
        over |= gm_prefix_piece(p, &state, in, out, at, upto - at, used);
        if (upto == next)
            state = gm_prefix_nothing(p);
        at = upto;
    }
    return over;
}

static inline void gm_segscan_share(struct gm_run *run, enum gm_prefix_op op)
{
    const struct gm_prefix p = gm_prefix_make(run->job, op);
    const struct gm_offsets o = gm_offsets_make(run);
    struct gm_prefix_partial *partials = (struct gm_prefix_partial *)(uintptr_t)run->job->workspace;
    const bool writes = run->job->phase + 1u == run->job->phases;
    const void *in = gm_run_buffer(run, 0);
    bool over = false;
    uint64_t tile, count;
    if (run->job->phase == 0 && !gm_offsets_good(run, &o))
        gm_run_fail(run, GM_EBOUNDS);
    while (gm_run_next_tile(run, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count);
        if (!writes) {
            partials[tile] = gm_segscan_total(&p, &o, in, first, count);
            continue;
        }
        const uint64_t state = run->job->phases > 1 ? partials[tile].state : gm_prefix_nothing(&p);
        over |= gm_segscan_tile(&p, &o, state, in, gm_run_buffer(run, 2), first, count);
    }
    if (over)
        gm_run_fail(run, GM_EOVERFLOW);
}

#endif
