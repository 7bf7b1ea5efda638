/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks at host memory that other warps take for the dispatcher, so that it never waits for the bus: some look at the
 * head of the lane that is served, one after another without a break, and one at what lies beside it. What they find
 * comes through a box in memory that the warps share. A look is for the aim that it began with; when the dispatcher has
 * taken what was found, it aims again, and older finds are nothing. A backend without such warps (the CPU's, where a
 * look costs nothing) has no box, and its dispatcher looks itself.
 */
#ifndef GM_CORE_LOOK_H
#define GM_CORE_LOOK_H

#include "poll.h"

/* Where a look at a lane goes: address of the ring; lap of the first slot; its index, log2 of the ring's size, slots to
 * read, and whether nothing is to be reported too. One granule, so that it is read whole. */
#define GM_AIM_LOG2_SHIFT   12u
#define GM_AIM_WIDTH_SHIFT  16u
#define GM_AIM_REPORT_SHIFT 24u
static_assert(GM_LANE_SLOTS_MAX <= 1u << GM_AIM_LOG2_SHIFT && GM_POLL_MAX < 256u, "fields of an aim");

GM_DEV struct gm_granule gm_aim_make(const struct gm_lane_row *lane, uint32_t width, bool report)
{
    struct gm_granule aim = {{0, 0, 0, 0}};
    if (lane) {
        const uint64_t ring = (uint64_t)(uintptr_t)lane->sq;
        aim.w[0] = (uint32_t)ring, aim.w[1] = (uint32_t)(ring >> 32);
        aim.w[2] = gm_poll_lap(lane, 0);
        aim.w[3] = ((uint32_t)lane->head & ((1u << lane->slots_log2) - 1u)) | lane->slots_log2 << GM_AIM_LOG2_SHIFT |
                   width << GM_AIM_WIDTH_SHIFT | (report ? 1u : 0u) << GM_AIM_REPORT_SHIFT;
    }
    return aim;
}
GM_DEV uint32_t gm_aim_width(struct gm_granule aim) { return aim.w[3] >> GM_AIM_WIDTH_SHIFT & 0xffu; }
GM_DEV const struct gm_granule *gm_aim_granule(struct gm_granule aim, uint32_t i)
{
    const struct gm_desc_slot *ring = (const struct gm_desc_slot *)(uintptr_t)(aim.w[0] | (uint64_t)aim.w[1] << 32);
    const uint32_t log2 = aim.w[3] >> GM_AIM_LOG2_SHIFT & 15u, index = aim.w[3] & ((1u << GM_AIM_LOG2_SHIFT) - 1u);
    return &ring[(index + i / 4u) & ((1u << log2) - 1u)].g[i & 3u];
}

/* A word as the first SIMT lane sees it, so that all go the same way. Whole warp. */
GM_DEV uint32_t gm_look_word(const uint32_t *word) { return gm_shfl_u32(gm_load_acquire_block_u32(word), 0); }

/* One look at the aim, and its find if there is one. False when the dispatcher has left. Whole warp of its own. */
GM_DEV bool gm_look_lane(struct gm_box *box, uint32_t who)
{
    struct gm_look *look = &box->look[who];
    struct gm_granule found[GM_POLL_ROUNDS], aim;
    const uint32_t aimed = gm_look_word(&box->aimed);
    aim = gm_load16_block(&box->aim);
    for (uint32_t i = 0; i < 4; i++)
        aim.w[i] = gm_shfl_u32(aim.w[i], 0);
    const uint32_t aiming = gm_look_word(&box->aiming), granules = gm_aim_width(aim) * 4u;
    if (gm_look_word(&box->leave) != 0)
        return false;
    if (aiming != aimed) /* it changed while it was read */
        return true;
    if (gm_lane_id() == 0)
        gm_store_release_block_u32(&look->seen, aimed);
    if (granules == 0 || gm_look_word(&look->found) == aimed)
        return true;
    GM_UNROLL
    for (uint32_t r = 0; r < GM_POLL_ROUNDS; r++) {
        const uint32_t i = r * GM_WARP + gm_lane_id();
        if (r * GM_WARP < granules && i < granules)
            found[r] = gm_load16_sys(gm_aim_granule(aim, i));
    }
    const bool begun = gm_lane_id() == 0 && found[0].w[3] == aim.w[2];
    if (gm_ballot(begun) == 0 && (aim.w[3] >> GM_AIM_REPORT_SHIFT & 1u) == 0)
        return true;
    GM_UNROLL
    for (uint32_t r = 0; r < GM_POLL_ROUNDS; r++) {
        const uint32_t i = r * GM_WARP + gm_lane_id();
        if (r * GM_WARP < granules && i < granules)
            gm_store16_block(&look->g[i], found[r]);
    }
    gm_syncwarp();
    if (gm_lane_id() == 0)
        gm_store_release_block_u32(&look->found, aimed);
    gm_syncwarp();
    return true;
}

/* The same for what lies beside the lane. Everything is reported. */
GM_DEV bool gm_look_side(struct gm_box *box)
{
    struct gm_look *look = &box->side;
    uint64_t at[GM_SIDE_ROUNDS];
    const uint32_t aimed = gm_look_word(&box->side_aimed);
    if (gm_look_word(&box->leave) != 0)
        return false;
    if (gm_lane_id() == 0)
        gm_store_release_block_u32(&look->seen, aimed);
    if (gm_look_word(&look->found) == aimed)
        return true;
    /* The addresses stand until this look was taken: the dispatcher aims again only then. */
    for (uint32_t r = 0; r < GM_SIDE_ROUNDS; r++)
        at[r] = gm_load_relaxed_block_u64(&box->side_at[r * GM_WARP + gm_lane_id()]);
    for (uint32_t r = 0; r < GM_SIDE_ROUNDS; r++) {
        const struct gm_granule nothing = {{0, 0, 0, 0}};
        const struct gm_granule *from = (const struct gm_granule *)(uintptr_t)at[r];
        gm_store16_block(&look->g[r * GM_WARP + gm_lane_id()], from ? gm_load16_sys(from) : nothing);
    }
    gm_syncwarp();
    if (gm_lane_id() == 0)
        gm_store_release_block_u32(&look->found, aimed);
    gm_syncwarp();
    return true;
}

/* ---- The dispatcher's side. Whole warp ---- */

/* Takes finds for the present aims into its own hands. */
GM_DEV void gm_box_take(struct gm_fetch *f)
{
    struct gm_box *box = f->box;
    const uint32_t aimed = box->aimed;
    uint32_t who = GM_LOOKERS_MAX;
    for (uint32_t base = 0; base < GM_LOOKERS_MAX && who == GM_LOOKERS_MAX; base += GM_WARP) {
        const uint32_t i = base + gm_lane_id();
        const bool has = i < GM_LOOKERS_MAX && gm_load_acquire_block_u32(&box->look[i].found) == aimed;
        const uint32_t first = gm_lowest_one(gm_ballot(has));
        if (first < GM_WARP)
            who = base + first;
    }
    f->side_looked = gm_ballot(gm_load_acquire_block_u32(&box->side.found) == box->side_aimed) != 0;
    f->looked = who < GM_LOOKERS_MAX;
    gm_syncwarp();
    f->slots[0].w[3] = f->slot_lap + 1u; /* not there */
    GM_UNROLL
    for (uint32_t r = 0; r < GM_POLL_ROUNDS; r++)
        if (f->looked && r * GM_WARP < f->width * 4u)
            f->slots[r] = gm_load16_block(&box->look[who].g[r * GM_WARP + gm_lane_id()]);
    for (uint32_t r = 0; r < GM_SIDE_ROUNDS; r++)
        if (f->side_looked)
            f->side[r] = gm_load16_block(&box->side.g[r * GM_WARP + gm_lane_id()]);
}

/* aiming first: whoever reads the aim between the two counts reads it again. One thread. */
GM_DEV void gm_box_store_aim(struct gm_box *box, struct gm_granule aim, uint32_t aimed)
{
    gm_store_release_block_u32(&box->aiming, aimed);
    gm_store16_block(&box->aim, aim);
    gm_store_release_block_u32(&box->aimed, aimed);
}

/* Where the next looks go. What was not taken yet stands, unless the place is another. */
GM_DEV void gm_box_aim(const struct gm_core *core, const struct gm_disp *d, struct gm_fetch *f)
{
    struct gm_box *box = f->box;
    const bool report = d->expects != 0 || f->width > GM_POLL_NARROW;
    const struct gm_granule aim = gm_aim_make(f->lane == GM_LANE_NONE ? NULL : &d->lane[f->lane], f->width, report);
    const struct gm_granule last = gm_load16_block(&box->aim);
    const bool same = aim.w[0] == last.w[0] && aim.w[1] == last.w[1] && aim.w[2] == last.w[2] && aim.w[3] == last.w[3];
    gm_syncwarp(); /* everybody has read the last one */
    if (f->looked || !same) {
        if (gm_lane_id() == 0)
            gm_box_store_aim(box, aim, box->aimed + 1u);
    }
    if (f->side_looked) {
        for (uint32_t r = 0; r < GM_SIDE_ROUNDS; r++) {
            const uint32_t i = r * GM_WARP + gm_lane_id();
            gm_store_relaxed_block_u64(&box->side_at[i], (uint64_t)(uintptr_t)gm_side_at(core, d, i));
        }
        gm_syncwarp();
        if (gm_lane_id() == 0)
            gm_store_release_block_u32(&box->side_aimed, box->side_aimed + 1u);
    }
    gm_syncwarp();
}

/* Nobody looks anywhere when this returns, so that memory may go away. Waits for looks that are on their way, which
 * takes a trip over the bus. */
GM_DEV void gm_box_still(struct gm_fetch *f)
{
    struct gm_box *box = f->box;
    const struct gm_granule none = {{0, 0, 0, 0}};
    f->looked = f->side_looked = true;
    for (uint32_t r = 0; r < GM_SIDE_ROUNDS; r++)
        gm_store_relaxed_block_u64(&box->side_at[r * GM_WARP + gm_lane_id()], 0);
    gm_syncwarp();
    if (gm_lane_id() == 0) {
        gm_box_store_aim(box, none, box->aimed + 1u);
        gm_store_release_block_u32(&box->side_aimed, box->side_aimed + 1u);
    }
    gm_syncwarp();
    for (uint32_t i = 0; i < box->lookers; i++)
        while (gm_load_acquire_block_u32(&box->look[i].seen) != box->aimed)
            GM_BOX_PAUSE(box);
    while (gm_load_acquire_block_u32(&box->side.seen) != box->side_aimed)
        GM_BOX_PAUSE(box);
    gm_syncwarp();
}

/* The box of a dispatcher that begins; before any look. One thread. */
GM_DEV void gm_box_init(struct gm_box *box, uint32_t lookers)
{
    const struct gm_granule none = {{0, 0, 0, 0}};
    box->aim = none;
    box->aiming = box->aimed = box->side_aimed = 0;
    box->lookers = lookers;
    box->leave = 0;
    for (uint32_t i = 0; i < GM_SIDE_COUNT; i++)
        box->side_at[i] = 0;
    for (uint32_t i = 0; i < GM_LOOKERS_MAX; i++)
        box->look[i].found = box->look[i].seen = 0;
    box->side.found = box->side.seen = 0;
}

#endif
