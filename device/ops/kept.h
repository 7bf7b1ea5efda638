/* SPDX-License-Identifier: Apache-2.0
 *
 * What a tile of unique, select_if, partition or run_length has in the workspace between the two phases of its job, for
 * C, and for CUDA of partition alone: the others look back (look_back.cuh), and only their places are made here.
 * Phase 0 leaves how many elements of the tile are kept; finish adds how many are kept in all tiles before it, so that
 * the tile knows its own places in the output. Pure functions.
 */
#ifndef GM_OPS_KEPT_H
#define GM_OPS_KEPT_H

#include "core/plan.h"
#include "ops/tile.h"

/* Both numbers in one word, so that there is room for the second one. */
#define GM_KEPT_COUNT_BITS 20u
struct gm_kept {
    uint64_t counts; /* kept before the tile, and in it */
    uint64_t start;  /* run_length: first element of the tile's last run; then of the last run before the tile */
};
static_assert(sizeof(struct gm_kept) == GM_PARTIAL_BYTES, "plan.h reserves this much a tile");
static_assert(GM_ELEMENTS_MAX <= UINT64_MAX >> GM_KEPT_COUNT_BITS, "all elements may be kept before a tile");

#define GM_KEPT_NO_START UINT64_MAX /* no run begins in the tile */

GM_HD struct gm_kept gm_kept_make(uint64_t before, uint64_t count, uint64_t start)
{
    struct gm_kept kept;
    kept.counts = before << GM_KEPT_COUNT_BITS | count;
    kept.start = start;
    return kept;
}
GM_HD uint64_t gm_kept_before(const struct gm_kept *kept)
{
    return kept->counts >> GM_KEPT_COUNT_BITS;
}
GM_HD uint64_t gm_kept_count(const struct gm_kept *kept)
{
    return kept->counts & ((UINT64_C(1) << GM_KEPT_COUNT_BITS) - 1u);
}
/* Kept up to the end of the tile: of the last tile, the result. */
GM_HD uint64_t gm_kept_upto(const struct gm_kept *kept)
{
    return gm_kept_before(kept) + gm_kept_count(kept);
}

/* Places in an output of n elements: from next to end, whatever the numbers they were made from. */
struct gm_places {
    uint64_t next, end;
};
GM_HD struct gm_places gm_places_make(uint64_t begin, uint64_t count, uint64_t n)
{
    struct gm_places places;
    places.next = begin < n ? begin : n;
    places.end = count < n - places.next ? places.next + count : n;
    return places;
}

#endif
