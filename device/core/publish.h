/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts tickets into the ring. The dispatcher alone publishes: its front, and its wings. Whoever does reserves positions
 * behind all others' and then writes their slots at once: what the jobs need besides is certain by then, and nothing is
 * waited for between. gm_room says whether the next n slots were all read in their last lap, and the caller tries again
 * next turn when they were not. A phase goes out in one piece, so that a gang is never half drawn behind others.
 */
#ifndef GM_CORE_PUBLISH_H
#define GM_CORE_PUBLISH_H

#include "slot.h"

#define GM_ACKS_MORE 3u             /* further ones of each SIMT lane, when all of the first were read */
#define GM_ACKS_LOOK (4u * GM_WARP) /* acknowledgements that the back looks at in one turn */

/* How many were read, from a position on. More than the first are on their way at once; they need no acquire: on a GPU
 * a slot's words are in registers before its acknowledgement is stored. */
GM_DEV uint32_t gm_acks_run(const struct gm_core *core, uint64_t from)
{
    const uint64_t at = from + gm_lane_id();
    const bool read = gm_load_acquire_u32(&core->acks[gm_slot_index(core, at)]) == gm_lap(at, core->tickets_log2);
    uint32_t count = gm_lowest_zero(gm_ballot(read));
#if GM_WARP > 1u
    uint32_t ack[GM_ACKS_MORE];
    if (count != GM_WARP)
        return count;
    GM_UNROLL
    for (uint32_t r = 0; r < GM_ACKS_MORE; r++)
        ack[r] = gm_load_relaxed_u32(&core->acks[gm_slot_index(core, at + (r + 1u) * GM_WARP)]);
    GM_UNROLL
    for (uint32_t r = 0; r < GM_ACKS_MORE; r++) {
        const uint32_t lap = gm_lap(at + (r + 1u) * GM_WARP, core->tickets_log2);
        const uint32_t run = gm_lowest_zero(gm_ballot(ack[r] == lap));
        count += count == (r + 1u) * GM_WARP ? run : 0;
    }
#endif
    return count;
}

/* Moves the floor below which every ticket was read, until it reaches an end or a ticket that was not. Counting reads
 * would not be enough, because they finish out of order. The back; whole warp. */
GM_DEV void gm_acks_look(const struct gm_core *core, struct gm_disp *d, uint64_t end)
{
    uint64_t floor = gm_load_relaxed_block_u64(&d->crew.ack_floor);
    while ((int64_t)(end - floor) > 0) {
        const uint32_t run = gm_acks_run(core, floor);
        if (run == 0)
            break;
        floor += run;
    }
    gm_syncwarp();
    if (gm_lane_id() == 0)
        gm_store_release_block_u64(&d->crew.ack_floor, floor);
    gm_syncwarp();
}

/* Where the floor has to be before positions from .. from + n - 1 may be written: a ticket that was drawn but not yet
 * read must not be overwritten. */
GM_DEV uint64_t gm_room_end(const struct gm_core *core, uint64_t from, uint32_t n)
{
    return from + n - ((uint64_t)1 << core->tickets_log2);
}

/* Whether they may be, as far as the back has looked. Acquire: pairs with the release in gm_acks_look. Whole warp. */
GM_DEV bool gm_room_there(const struct gm_core *core, const struct gm_disp *d, uint64_t from, uint32_t n)
{
    return (int64_t)(gm_room_end(core, from, n) - gm_agreed_u64(&d->crew.ack_floor)) <= 0;
}

/* A call, because with a back of its own nobody looks here. Whole warp. */
GM_DEV_CALL void gm_room_look(struct gm_disp *d, uint64_t end)
{
    d = gm_disp_here(d);
    gm_acks_look(&d->core, d, end);
}

/* The same; who plays the back too looks now. Whole warp. */
GM_DEV bool gm_room(const struct gm_core *core, struct gm_disp *d, uint64_t from, uint32_t n)
{
    if (gm_room_there(core, d, from, n))
        return true;
    if (d->crew.apart)
        return false;
    gm_room_look(d, gm_room_end(core, from, n));
    return gm_room_there(core, d, from, n);
}

/* Reserves n positions from *base on, unless there is no room; looks: of who may play the back. Another's reservation
 * may come between the look and the swap, and each time one of them gets on. Relaxed: the word says who writes where,
 * and orders nothing. Whole warp. */
GM_DEV bool gm_reserve_as(const struct gm_core *core, struct gm_disp *d, uint32_t n, uint64_t *base, bool looks)
{
    for (;;) {
        const uint64_t from = gm_shfl_u64(gm_load_relaxed_block_u64(&d->published), 0);
        if (!(looks ? gm_room(core, d, from, n) : gm_room_there(core, d, from, n)))
            return false;
        if (gm_ballot(gm_lane_id() == 0 && gm_swap_relaxed_block_u64(&d->published, from, from + n)) != 0) {
            *base = from;
            return true;
        }
    }
}
GM_DEV bool gm_reserve(const struct gm_core *core, struct gm_disp *d, uint32_t n, uint64_t *base)
{
    return gm_reserve_as(core, d, n, base, true);
}

/* A reference to a job in its entry. The caller has filled the entry and fenced. One thread. */
GM_DEV void gm_publish_reference(const struct gm_core *core, uint64_t ticket, uint32_t word)
{
    gm_store16_gpu(&gm_slot_at(core, ticket)->g[0], gm_slot_pack(gm_lap(ticket, core->tickets_log2), word, 0, 0));
}

/* Whole warp: shares 0 .. shares-1 of an entry at base onwards. The caller has filled the entry and fenced. */
GM_DEV void gm_publish(const struct gm_core *core, uint64_t base, uint32_t generation, uint32_t entry, uint32_t shares)
{
    for (uint32_t s = gm_lane_id(); s < shares; s += GM_WARP)
        gm_publish_reference(core, base + s, gm_ticket_make(generation, entry, s));
}

/* A job that lies in its slot, from one SIMT lane; the granules in any order and behind nothing. */
GM_DEV void gm_publish_job(const struct gm_core *core, uint64_t ticket, const struct gm_job *job, uint32_t word)
{
    struct gm_slot *slot = gm_slot_at(core, ticket);
    const uint32_t lap = gm_lap(ticket, core->tickets_log2);
    GM_UNROLL
    for (uint32_t i = 0; i < GM_SLOT_GRANULES; i++)
        gm_store16_gpu(&slot->g[i], gm_slot_granule(job, word, lap, i));
}

/* Says in the slot of a job that it was cancelled, unless the slot carries another ticket by now: then a worker has it
 * already. The granule is written whole, so the worker finds it with or without. One thread. */
GM_DEV void gm_publish_abort(const struct gm_core *core, const struct gm_disp *d, uint32_t entry, uint64_t position)
{
    const uint64_t published = gm_load_relaxed_block_u64(&d->published);
    const uint64_t ticket = published - (uint32_t)((uint32_t)published - d->entry_ticket[entry]);
    if (published - ticket > (uint64_t)1 << core->tickets_log2)
        return;
    const uint32_t word = gm_ticket_make(d->note[entry].generation, entry, GM_SHARE_ABORTED);
    gm_store16_gpu(&gm_slot_at(core, ticket)->g[0],
                   gm_slot_pack(gm_lap(ticket, core->tickets_log2), word, gm_low(position), gm_high(position)));
}

#endif
