/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads descriptors from the lane that is served, each granule once, into private memory. All loads of a turn are
 * issued before any is used, so that a turn costs one trip over the bus. Whole warp; at most GM_POLL_MAX slots a turn.
 */
#ifndef GM_CORE_POLL_H
#define GM_CORE_POLL_H

#include "core.h"

#define GM_POLL_NARROW 8u /* slots read while work is rare: one load per SIMT lane of a GPU */
#define GM_POLL_ROUNDS (GM_POLL_MAX * 4u / GM_WARP)

/* Loads in flight, from the end of one turn to the start of the next, and where they look. */
struct gm_fetch {
    struct gm_granule slots[GM_POLL_ROUNDS];
    uint64_t head;                     /* of the lane */
    uint32_t lane : 16, width : 8, log2 : 8; /* lane GM_LANE_NONE, width 0: no lane is open. One register */
};

/* Granule i from a lane's head on, and the lap that makes it complete. */
GM_DEV const struct gm_granule *gm_poll_granule(const struct gm_desc_slot *sq, uint64_t head, uint32_t log2, uint32_t i)
{
    return &sq[((uint32_t)head + i / 4u) & ((1u << log2) - 1u)].g[i & 3u];
}
GM_DEV uint32_t gm_poll_lap(uint64_t head, uint32_t log2, uint32_t i) { return gm_lap(head + i / 4u, log2); }

/* Where the next turns look: at this lane, from its head on. */
GM_DEV void gm_poll_aim(const struct gm_disp *d, uint32_t lane_index, struct gm_fetch *f)
{
    f->lane = lane_index;
    f->width = f->log2 = 0;
    f->head = 0;
    if (lane_index != GM_LANE_NONE) {
        f->width = d->lane[lane_index].width;
        f->head = d->lane[lane_index].head;
        f->log2 = d->lane[lane_index].slots_log2;
    }
}

GM_DEV void gm_poll_issue(const struct gm_disp *d, struct gm_fetch *f)
{
    const uint32_t granules = f->width * 4u;
    const struct gm_desc_slot *sq = f->width != 0 ? d->lane[f->lane].sq : NULL;
    GM_UNROLL
    for (uint32_t r = 0; r < GM_POLL_ROUNDS; r++) {
        const uint32_t i = r * GM_WARP + gm_lane_id();
        if (r * GM_WARP < granules && i < granules)
            f->slots[r] = gm_load16_sys(gm_poll_granule(sq, f->head, f->log2, i));
    }
}

/* Of the first round: which SIMT lanes' granules are there. Whole warp. */
GM_DEV uint32_t gm_poll_first(const struct gm_fetch *f)
{
    return gm_ballot(gm_lane_id() < f->width * 4u &&
                     f->slots[0].w[3] == gm_poll_lap(f->head, f->log2, gm_lane_id()));
}

/* How many slots from the head on are complete: granules stand in order, so it is a fourth of the unbroken run of
 * granules that carry their lap. first: the votes of the first round. Whole warp, same answer for all. */
GM_DEV uint32_t gm_poll_complete(const struct gm_fetch *f, uint32_t first)
{
    uint32_t run = gm_lowest_zero(first), count = run < GM_WARP ? run : GM_WARP;
    GM_UNROLL
    for (uint32_t r = 1; r < GM_POLL_ROUNDS; r++) {
        const uint32_t i = r * GM_WARP + gm_lane_id(), granules = f->width * 4u;
        if (run < GM_WARP || r * GM_WARP >= granules)
            break;
        run = gm_lowest_zero(gm_ballot(i < granules && f->slots[r].w[3] == gm_poll_lap(f->head, f->log2, i)));
        count += run < GM_WARP ? run : GM_WARP;
    }
    return count / 4u;
}

/* Moves what came into a private copy. */
GM_DEV void gm_poll_land(struct gm_granule *stage, const struct gm_fetch *f, uint32_t complete)
{
    const uint32_t granules = complete * 4u;
    GM_UNROLL
    for (uint32_t r = 0; r < GM_POLL_ROUNDS; r++) {
        const uint32_t i = r * GM_WARP + gm_lane_id();
        if (r * GM_WARP < granules && i < granules)
            stage[i] = f->slots[r];
    }
    gm_syncwarp();
}

GM_DEV uint32_t gm_poll_word(const struct gm_disp *d, uint32_t k, uint32_t word)
{
    return d->stage[k * 4u + word / 3u].w[word % 3u];
}

#endif
