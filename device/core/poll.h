/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads descriptors from a lane, each granule once, into private memory. All loads of a turn (descriptors, admin lane,
 * the lane's wait granule, inbox) are issued before any is used, so that a turn costs one trip over the bus. Whole
 * warp; at most GM_POLL_MAX slots a turn.
 */
#ifndef GM_CORE_POLL_H
#define GM_CORE_POLL_H

#include "core.h"
#include "inbox.h"

#define GM_POLL_NARROW 8u /* slots read while work is rare: one load per SIMT lane of a GPU */
#define GM_SIDE_WAIT   4u /* d->side: 0..3 the admin descriptor, 4 the wait granule */
#define GM_SIDE_COUNT  5u
#define GM_INBOX_TAKE  32u

/* Loads in flight: those of the next turn are issued before this one's are handled, so that handling costs nothing
 * while the bus is waited for. They are for the positions that will be next if everything found is taken; when it is
 * not, the next turn sees that base is not its head, finds nothing, and asks again. */
struct gm_fetch {
    struct gm_granule slots[GM_POLL_MAX * 4u / GM_WARP];
    struct gm_granule side[(GM_SIDE_COUNT + GM_WARP - 1u) / GM_WARP];
    uint64_t inbox[GM_INBOX_TAKE / GM_WARP];
    uint32_t base, inbox_base, admin_base; /* low halves of the positions of slots[0], inbox[0], admin descriptor */
    uint32_t lane, width;      /* GM_LANE_NONE: no lane was open */
};

GM_DEV const struct gm_granule *gm_poll_granule(const struct gm_lane_row *lane, uint64_t base, uint32_t i)
{
    const uint64_t mask = (UINT64_C(1) << lane->slots_log2) - 1u;
    return &lane->sq[(base + i / 4u) & mask].g[i & 3u];
}

/* skip, taken: what this turn is about to take from that lane and from the inbox. */
GM_DEV void gm_poll_issue(const struct gm_core *core, const struct gm_disp *d, uint32_t lane_index, uint32_t skip,
                          uint32_t taken, struct gm_fetch *f)
{
    const struct gm_lane_row *lane = lane_index == GM_LANE_NONE ? NULL : &d->lane[lane_index];
    const uint32_t granules = lane ? lane->width * 4u : 0;
    f->lane = lane_index;
    f->width = granules / 4u;
    const uint64_t base = lane ? lane->head + skip : 0, inbox_base = d->inbox_head + taken;
    f->base = (uint32_t)base;
    f->inbox_base = (uint32_t)inbox_base;
    f->admin_base = (uint32_t)d->admin_head;
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t r = 0; r < GM_POLL_MAX * 4u / GM_WARP; r++) {
        const uint32_t i = r * GM_WARP + gm_lane_id();
        if (r * GM_WARP < granules && i < granules)
            f->slots[r] = gm_load16_sys(gm_poll_granule(lane, base, i));
    }
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t r = 0; r < (GM_SIDE_COUNT + GM_WARP - 1u) / GM_WARP; r++) {
        const uint32_t i = r * GM_WARP + gm_lane_id();
        /* One load for both places: two in divergent branches would wait for each other. */
        const struct gm_granule *from = &core->admin_sq[d->admin_head & (GM_ADMIN_SLOTS - 1u)].g[i & 3u];
        if (i == GM_SIDE_WAIT && lane)
            from = &lane->header->wait;
        if (i < GM_SIDE_COUNT)
            f->side[r] = gm_load16_sys(from);
    }
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t r = 0; r < GM_INBOX_TAKE / GM_WARP; r++) {
        const uint32_t i = r * GM_WARP + gm_lane_id();
        f->inbox[r] = gm_inbox_load(core, inbox_base + i);
        /* One at a time on the CPU: stop at the first empty place. */
        if (GM_WARP == 1 && !gm_inbox_valid(core, inbox_base + i, f->inbox[r]))
            break;
    }
}

/* Moves what was loaded into the dispatcher's private copy. */
GM_DEV void gm_poll_land(struct gm_disp *d, const struct gm_fetch *f)
{
    const uint32_t granules = f->width * 4u;
    gm_syncwarp();
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t r = 0; r < GM_POLL_MAX * 4u / GM_WARP; r++) {
        const uint32_t i = r * GM_WARP + gm_lane_id();
        if (r * GM_WARP < granules && i < granules)
            d->stage[i] = f->slots[r];
    }
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t r = 0; r < (GM_SIDE_COUNT + GM_WARP - 1u) / GM_WARP; r++) {
        const uint32_t i = r * GM_WARP + gm_lane_id();
        if (i < GM_SIDE_COUNT)
            d->side[i] = f->side[r];
    }
    gm_syncwarp();
}

GM_DEV bool gm_poll_slot_complete(const struct gm_disp *d, const struct gm_lane_row *lane, uint32_t k)
{
    const uint32_t lap = gm_lap(lane->head + k, lane->slots_log2);
    const struct gm_granule *g = &d->stage[k * 4u];
    return g[0].w[3] == lap && g[1].w[3] == lap && g[2].w[3] == lap && g[3].w[3] == lap;
}

GM_DEV uint32_t gm_poll_word(const struct gm_disp *d, uint32_t k, uint32_t word)
{
    return d->stage[k * 4u + word / 3u].w[word % 3u];
}

/* How many of the width slots in the stage are complete, from the head on. Whole warp, same answer for all. */
GM_DEV uint32_t gm_poll_complete(const struct gm_disp *d, const struct gm_lane_row *lane, uint32_t width)
{
    uint32_t count = 0;
    for (uint32_t base = 0; base < width; base += GM_WARP) {
        const uint32_t k = base + gm_lane_id();
        const bool complete = k < width && gm_poll_slot_complete(d, lane, k);
        const uint32_t run = gm_lowest_zero(gm_ballot(complete));
        count += run < GM_WARP ? run : GM_WARP;
        if (run < GM_WARP)
            break;
    }
    return count;
}

#endif
