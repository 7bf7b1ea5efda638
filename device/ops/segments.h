/* SPDX-License-Identifier: Apache-2.0
 *
 * What the segmented reductions share on the CPU. The elements and the ends of segments are merged into one row of
 * items, an end standing behind the elements before it; a tile is so many items, whatever the segments are like, so
 * one huge segment and millions of empty ones cost the same. The first phase looks up where tiles begin in the two; in
 * the second each tile writes the segments that lie in it, and leaves what it has of the first that ends there (its
 * head) and of the one that goes on (its tail); finish adds those up, in order. One tile a share: it looks up its own
 * begin and end, and there is no other phase. One thread a share.
 *
 * Offsets can change at any moment. Where a tile begins is looked up once by whoever works on it, and kept for finish;
 * an end that does not lie between its tile's first and last element is out of bounds, so reading stays in the tile and
 * writing at its ends.
 */
#ifndef GM_OPS_SEGMENTS_H
#define GM_OPS_SEGMENTS_H

#include "run.h"
#include "segments_cut.h"
#include "core/plan.h"

struct seg_value {
    uint64_t low, high;
};

struct seg_partial {
    struct seg_value head, tail;
};
static_assert(sizeof(struct seg_partial) == GM_SEGMENT_BYTES, "plan.h reserves this much a tile");

/* Of one op and type. reduce: elements from first on, so many. store: the value of a segment; a status. */
struct seg_rule {
    struct seg_value zero;
    const void *context;
    struct seg_value (*reduce)(const struct seg_rule *rule, const void *in, uint64_t first, uint64_t count);
    struct seg_value (*combine)(struct seg_value a, struct seg_value b);
    int32_t (*store)(const struct seg_rule *rule, void *out, uint64_t segment, struct seg_value value);
};

static inline uint64_t seg_offset(const struct gm_run *run, uint64_t i)
{
    return gm_segments_offset(gm_run_buffer(run, 1), run->job->type2, i);
}

static inline struct seg_partial *seg_partials(const struct gm_run *run)
{
    return (struct seg_partial *)(uintptr_t)run->job->workspace;
}
static inline uint64_t *seg_splits(const struct gm_run *run)
{
    return (uint64_t *)(uintptr_t)(run->job->workspace + gm_segment_splits_offset(run->job->tiles));
}

/* Ends of segments that come before item d of the row. */
static inline uint64_t seg_split(const struct gm_run *run, uint64_t d)
{
    uint64_t low, high;
    gm_segments_search(run->job, d, &low, &high);
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2u;
        if (gm_segments_before(seg_offset(run, middle + 1u), middle, d))
            low = middle + 1u;
        else
            high = middle;
    }
    return low;
}

/* The first phase. */
static inline void seg_look_up(struct gm_run *run)
{
    const uint64_t all = run->job->tiles + 1u, end = gm_segments_part(all, run->job->shares, run->share + 1u);
    uint64_t *splits = seg_splits(run);
    for (uint64_t t = gm_segments_part(all, run->job->shares, run->share); t < end && !gm_run_aborted(run); t++)
        splits[t] = seg_split(run, gm_segments_item(run->job, t));
}

/* Ends before the tile and before its end, of several tiles. */
static inline void seg_tile_splits(const struct gm_run *run, uint64_t tile, uint64_t *from, uint64_t *to)
{
    uint64_t *splits = seg_splits(run);
    if (run->job->phases == 1) {
        *from = seg_split(run, gm_segments_item(run->job, tile));
        *to = seg_split(run, gm_segments_item(run->job, tile + 1u));
        splits[tile] = *from;
        if (tile + 1u == run->job->tiles)
            splits[tile + 1u] = *to;
    } else {
        *from = splits[tile];
        *to = splits[tile + 1u];
    }
}

static inline int32_t seg_tile(struct gm_run *run, const struct seg_rule *rule, const struct gm_segments_cut *cut,
                               struct seg_partial *partial)
{
    const void *in = gm_run_buffer(run, 0);
    void *out = gm_run_buffer(run, 2);
    const uint64_t begin = cut->segment == 0 ? seg_offset(run, 0) : 0; /* what is before belongs to no segment */
    uint64_t least = begin > cut->element ? begin : cut->element;
    int32_t status = begin > run->job->n ? GM_EBOUNDS : GM_OK;
    partial->head = partial->tail = rule->zero;
    for (uint64_t s = cut->segment; s < cut->segment_end && status == GM_OK; s++) {
        const uint64_t end = seg_offset(run, s + 1u);
        if (end < least || end > cut->element_end)
            return GM_EBOUNDS;
        const struct seg_value value = rule->reduce(rule, in, least, end - least);
        if (s == cut->segment)
            partial->head = value;
        else
            status = rule->store(rule, out, s, value);
        least = end;
    }
    if (cut->segment_end < run->job->value[0] && least < cut->element_end)
        partial->tail = rule->reduce(rule, in, least, cut->element_end - least);
    return status;
}

static inline void gm_segments_share(struct gm_run *run, const struct seg_rule *rule)
{
    const struct gm_job *job = run->job;
    uint64_t tile;
    if (job->phases > 1 && job->phase == 0) {
        seg_look_up(run);
        return;
    }
    while (gm_run_next_tile(run, &tile)) {
        const bool one = job->tiles == 1;
        struct seg_partial partial = {rule->zero, rule->zero};
        struct gm_segments_cut cut;
        int32_t status = GM_EBOUNDS;
        uint64_t from = 0, to = job->value[0];
        if (!one)
            seg_tile_splits(run, tile, &from, &to);
        if (gm_segments_cut(job, tile, from, to, &cut))
            status = seg_tile(run, rule, &cut, &partial);
        if (!one)
            seg_partials(run)[tile] = partial;
        else if (status == GM_OK && job->value[0] != 0)
            status = rule->store(rule, gm_run_buffer(run, 2), 0, partial.head);
        if (status != GM_OK)
            gm_run_fail(run, status);
    }
}

static inline void gm_segments_finish(struct gm_run *run, const struct seg_rule *rule)
{
    const struct gm_job *job = run->job;
    struct seg_value carry = rule->zero;
    if (job->tiles == 1 || job->phase + 1u < job->phases)
        return;
    for (uint64_t t = 0; t < job->tiles; t++) {
        const struct seg_partial *p = &seg_partials(run)[t];
        const uint64_t first = seg_splits(run)[t];
        if (first >= seg_splits(run)[t + 1u]) { /* nothing ends in it */
            carry = rule->combine(carry, p->tail);
            continue;
        }
        const int32_t status = first < job->value[0]
                                   ? rule->store(rule, gm_run_buffer(run, 2), first, rule->combine(carry, p->head))
                                   : GM_EBOUNDS;
        if (status != GM_OK)
            run->status = status;
        carry = p->tail;
    }
}

#endif
