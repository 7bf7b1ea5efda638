/* SPDX-License-Identifier: Apache-2.0
 *
 * Large copies between host and device memory, which the copy engine does and no worker. The front puts a request into
 * host memory, the device process has it done (copies.h beside serve.h), and the scout finds the word that says so and
 * answers the job, as the last worker to arrive would. GM_COPIES_MAX places, each for one copy at a time; where none
 * is free the job goes the workers' way: it could wait, but then its lane, and by the policy all others, would wait for
 * a copy of seconds.
 *
 * A place is used in turns. Every granule of a request, the word that cancels it and the word of its end carry the
 * number of the turn, so each says by itself what it belongs to.
 */
#ifndef GM_CORE_COPIES_H
#define GM_CORE_COPIES_H

#include "complete.h"
#include "inbox.h"
#include "poll.h"

enum gm_copy_direction { GM_COPY_UP = 0, GM_COPY_DOWN = 1, GM_COPY_DIRECTIONS = 2 };

/* Payload words of a request, three to a granule. 64-bit values: low word first. */
enum gm_copy_word {
    GM_C_SOURCE = 0, /* and 1: address as jobs use it */
    GM_C_TARGET = 2, /* and 3 */
    GM_C_BYTES = 4,  /* and 5 */
    GM_C_OFFSET = 6, /* and 7: of the host's buffer in its arena, which is registered in pieces from its beginning on */
    GM_C_DIRECTION = 8,
    GM_COPY_WORDS = 9
};
#define GM_COPY_GRANULES 3u
static_assert(GM_COPY_WORDS == GM_COPY_GRANULES * 3u, "three words to a granule");

struct __attribute__((aligned(128))) gm_copy_place {
    struct gm_granule request[GM_COPY_GRANULES]; /* the dispatcher's, as is abort */
    uint32_t abort;                              /* the turn of a job that is to be given up; else the one before */
    uint32_t pad0[3];
    uint32_t end; /* gm_copy_end, by whoever copies */
    uint32_t pad1[15];
};
static_assert(sizeof(struct gm_copy_place) == 128, "one after the other");
static_assert(offsetof(struct gm_copy_place, end) == 64, "writers in halves of their own");

/* In host memory that no client maps. All zeros at first, which is the end of turn 0: none is begun with that number
 * before the words have been written. */
struct gm_copies {
    struct gm_copy_place place[GM_COPIES_MAX];
};

/* The word of an end: 24 bits of the turn, and the status. */
GM_HD uint32_t gm_copy_end(uint32_t turn, int32_t status) { return turn << 8 | ((uint32_t)-status & 0xffu); }
GM_HD bool gm_copy_ended(uint32_t end, uint32_t turn) { return ((end >> 8 ^ turn) & 0xffffffu) == 0; }
GM_HD int32_t gm_copy_status(uint32_t end) { return -(int32_t)(end & 0xffu); }
#define E(name, number, retriable, text) static_assert(-(number) < 256, #name " fits the word of an end");
#include "errors.def"
#undef E

/* ---- The front ---- */

/* Whether a checked job is the engine's, as far as the job goes. */
GM_DEV bool gm_copy_large(const struct gm_core *core, const struct gm_job *job)
{
    const uint32_t sides = job->marks & (GM_MARK_HOST_IN | GM_MARK_HOST_OUT);
    return job->op == GM_OP_copy && (sides == GM_MARK_HOST_IN || sides == GM_MARK_HOST_OUT) &&
           job->n * gm_dtype_bytes(job->dtype) >= core->copy_bytes;
}

/* A bit for each free place. Acquire: the scout looks no more at what is kept of the copy before. Whole warp, same
 * answer for all. */
GM_DEV uint32_t gm_copies_free(const struct gm_disp *d)
{
    return ~(d->crew.copies_put ^ gm_agreed_u32(&d->crew.copies_done)) &
           (uint32_t)((UINT64_C(1) << GM_COPIES_MAX) - 1u);
}

/* Whether the job of this SIMT lane, if it wants one, finds a place. Whole warp. */
GM_DEV_CALL bool gm_copies_room(struct gm_disp *d, bool wants)
{
    d = gm_disp_here(d);
    return gm_scan_exclusive(wants ? 1u : 0u) < gm_count_ones(gm_copies_free(d)) && wants;
}

GM_DEV void gm_copy_request(struct gm_copy_place *place, const struct gm_job *job, uint64_t offset, uint32_t turn)
{
    const uint64_t bytes = job->n * gm_dtype_bytes(job->dtype);
    const uint32_t direction = job->marks & GM_MARK_HOST_OUT ? GM_COPY_DOWN : GM_COPY_UP;
    const struct gm_granule g[GM_COPY_GRANULES] = {
        {{(uint32_t)job->address[0], (uint32_t)(job->address[0] >> 32), (uint32_t)job->address[1], turn}},
        {{(uint32_t)(job->address[1] >> 32), (uint32_t)bytes, (uint32_t)(bytes >> 32), turn}},
        {{(uint32_t)offset, (uint32_t)(offset >> 32), direction, turn}},
    };
    GM_UNROLL
    for (uint32_t i = 0; i < GM_COPY_GRANULES; i++)
        gm_store16_sys(&place->request[i], g[i]);
}

/* Puts the job in entry index of each SIMT lane that has one (mine) into a place, of which there are enough; k: the
 * slot of the stage with its descriptor. Whole warp. */
GM_DEV_CALL void gm_copies_put(struct gm_disp *d, bool mine, uint32_t index, uint32_t k)
{
    d = gm_disp_here(d);
    const struct gm_core *core = &d->core;
    const uint32_t free = gm_copies_free(d), rank = gm_scan_exclusive(mine ? 1u : 0u);
    const uint32_t count = gm_count_ones(gm_ballot(mine));
    uint32_t from = free, rest = free, turn = 0;
    for (uint32_t i = 0; i < rank; i++)
        from &= from - 1u;
    for (uint32_t i = 0; i < count; i++)
        rest &= rest - 1u;
    const uint32_t at = mine ? gm_lowest_one(from) : 0;
    struct gm_copy_place *place = &core->copies->place[at];
    if (mine) {
        turn = d->copy_turn[at] + 1u;
        d->copy_turn[at] = turn;
        d->copy_entry[at] = (uint16_t)index;
        d->note[index].copy = (uint16_t)(at + 1u);
        gm_store_relaxed_sys_u32(&place->abort, turn - 1u);
    }
    /* Release: STARTED in the journal, and the word above, before the request. Acquire: what the client wrote before
     * its descriptor before the engine reads it. */
    gm_fence_acq_rel_sys();
    if (mine) {
        const struct gm_job *job = &gm_entry_at(core, index)->job;
        const uint32_t w = job->marks & GM_MARK_HOST_OUT ? GM_W_OFFSET1 : GM_W_OFFSET0;
        gm_copy_request(place, job, gm_poll_word(d, k, w) | (uint64_t)gm_poll_word(d, k, w + 1u) << 32, turn);
    }
    gm_syncwarp();
    if (gm_lane_id() == 0) {
        d->counters.engine_copies += count;
        /* Release: pairs with the acquire in gm_copies_turn. */
        gm_store_release_block_u32(&d->crew.copies_put, d->crew.copies_put ^ (free & ~rest));
    }
    gm_syncwarp();
}

/* The job in an entry is to be given up: whoever copies looks between two pieces. It is answered when nothing of it is
 * on the way any more. One SIMT lane. */
GM_DEV void gm_copy_abort(const struct gm_core *core, const struct gm_disp *d, uint32_t index)
{
    const uint32_t copy = d->note[index].copy;
    /* The place may be another job's already, when this one was answered and its entry has not come back. */
    if (copy != 0 && d->copy_entry[copy - 1u] == index)
        gm_store_relaxed_sys_u32(&core->copies->place[copy - 1u].abort, d->copy_turn[copy - 1u]);
}

/* ---- The scout ---- */

/* Whether the copy in a place is over. Acquire: pairs with the store behind the last piece. */
GM_DEV bool gm_copy_over(const struct gm_core *core, const struct gm_disp *d, uint32_t at, uint32_t *end)
{
    *end = gm_load_acquire_sys_u32(&core->copies->place[at].end);
    return gm_copy_ended(*end, d->copy_turn[at]);
}

/* Answers one that is over. One SIMT lane. */
GM_DEV bool gm_copy_answer(const struct gm_core *core, const struct gm_disp *d, uint32_t at)
{
    const struct gm_job *job = &gm_entry_at(core, d->copy_entry[at])->job;
    uint32_t end;
    if (!gm_copy_over(core, d, at, &end))
        return false;
    const int32_t status = gm_copy_status(end);
    gm_complete(job, 0, status);
    gm_inbox_push(core, gm_inbox_word(gm_inbox_answered(status), job)); /* and the entry may be another's */
    return true;
}

/* What was put since the last look is told to whoever copies, and those that are over are answered: of one load of put,
 * so that none is answered, and its place used again, before it was told. A call, because mostly there is nothing.
 * Whole warp. */
GM_DEV_CALL void gm_copies_look(struct gm_disp *d, uint32_t put)
{
    d = gm_disp_here(d);
    const uint32_t out = put ^ d->crew.copies_done;
    const bool news = put != d->copies_told;
    uint32_t over = 0;
    for (uint32_t base = 0; base < GM_COPIES_MAX; base += GM_WARP) {
        const uint32_t at = base + gm_lane_id();
        over |= gm_ballot((out >> at & 1u) != 0 && gm_copy_answer(&d->core, d, at)) << base;
    }
    gm_syncwarp();
    if (gm_lane_id() == 0) {
        d->copies_told = put;
        if (news)
            gm_or_release_block_u32(&d->wake, 1u);
        if (over != 0)
            gm_store_release_block_u32(&d->crew.copies_done, d->crew.copies_done ^ over);
    }
    gm_syncwarp();
}

/* What a turn of the scout has to do for copies: three words of its block when there are none. Acquire: pairs with the
 * release in gm_copies_put. Whole warp. */
GM_DEV void gm_copies_turn(struct gm_disp *d)
{
    const uint32_t put = gm_agreed_u32(&d->crew.copies_put);
    if (put != d->copies_told || put != d->crew.copies_done)
        gm_copies_look(d, put);
}

/* Before the dispatcher of a CPU sleeps with copies under way, since whoever ends one looks whether it sleeps. */
GM_DEV bool gm_copies_wait(const struct gm_core *core, const struct gm_disp *d)
{
    const uint32_t out = d->crew.copies_put ^ gm_load_acquire_block_u32(&d->crew.copies_done);
    bool over = false;
    uint32_t end;
    for (uint32_t at = gm_lane_id(); out != 0 && at < GM_COPIES_MAX; at += GM_WARP)
        over = over || ((out >> at & 1u) != 0 && gm_copy_over(core, d, at, &end));
    return over;
}

#endif
