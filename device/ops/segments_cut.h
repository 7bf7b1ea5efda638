/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the tiles of segmented reductions begin, for C and CUDA: see segments.h. Items are elements and ends of
 * segments, an end behind the elements that come before it. Pure functions.
 */
#ifndef GM_OPS_SEGMENTS_CUT_H
#define GM_OPS_SEGMENTS_CUT_H

#include "core/plan.h"

/* Offset i as it stands there now; a negative one is above every bound. */
GM_HD uint64_t gm_segments_offset(const void *offsets, uint32_t type, uint64_t i)
{
    switch (type) {
    case GM_DTYPE_u32:
        return gm_load_relaxed_u32((const uint32_t *)offsets + i);
    case GM_DTYPE_i32:
        return (uint64_t)(int64_t)(int32_t)gm_load_relaxed_u32((const uint32_t *)offsets + i);
    default:
        return gm_load_relaxed_u64((const uint64_t *)offsets + i);
    }
}

/* The first of the parts of so many that fall to share number s. */
GM_HD uint64_t gm_segments_part(uint64_t all, uint32_t shares, uint32_t s)
{
    return all / shares * s + all % shares * s / shares;
}

/* The first item of a tile, and of what would come behind the last. */
GM_HD uint64_t gm_segments_item(const struct gm_job *job, uint64_t tile)
{
    const uint64_t items = job->n + job->value[0], d = tile * job->tile_elements;
    return d < items ? d : items;
}

/* Between how many and how many ends can come before item d, whatever the offsets are. */
GM_HD void gm_segments_search(const struct gm_job *job, uint64_t d, uint64_t *low, uint64_t *high)
{
    *low = d > job->n ? d - job->n : 0;
    *high = d < job->value[0] ? d : job->value[0];
}

/* Whether the end of a segment comes before item d: with it do the elements before it, and the ends of the segments
 * before. d is more than segment. */
GM_HD bool gm_segments_before(uint64_t end, uint64_t segment, uint64_t d) { return end <= d - segment - 1u; }

struct gm_segments_cut {
    uint64_t element, element_end, segment, segment_end;
};

/* What a tile has, by how many ends come before its first item and before its end. False where the offsets fall, and
 * then there is nothing to do. */
GM_HD bool gm_segments_cut(const struct gm_job *job, uint64_t tile, uint64_t from, uint64_t to,
                           struct gm_segments_cut *cut)
{
    const uint64_t d = gm_segments_item(job, tile), end = gm_segments_item(job, tile + 1u);
    cut->segment = from;
    cut->segment_end = to;
    cut->element = d - from;
    cut->element_end = end - to;
    return from <= to && from <= d && to <= end && to <= job->value[0] && cut->element <= cut->element_end &&
           cut->element_end <= job->n;
}

#endif
