/* SPDX-License-Identifier: Apache-2.0
 *
 * Recovery of a lane: which jobs the dead device process had taken, and which of them are unanswered. One pass over
 * the slots, every word of the lane read once; nothing here depends on an honest client but that client's own jobs.
 *
 * The dispatcher takes positions in order, so everything up to the last one that was started, answered, or written
 * again by its client was taken. The mark of a job without host memory is written behind its tickets, so a position
 * among them may lack it, but not for so long that a client goes round. A client that wrote a slot again, where its
 * last job is not answered, wrote a mark that carries no job; what it wrote over otherwise needs no answer.
 */
#include "recover.h"

#include <stdbool.h>

/* The first granule of a descriptor slot, for a position that it may belong to. */
static bool gm_word_is(struct gm_granule word, uint32_t lap, uint32_t mark)
{
    return word.w[3] == lap && (word.w[0] & 0xffffu) == mark;
}

static bool gm_word_is_job(struct gm_granule word, uint32_t lap)
{
    return word.w[3] == lap && (word.w[0] & 0xffffu) != GM_DESC_SKIP_MARK && (word.w[0] & 0xffffu) != GM_DESC_WIDE_MARK;
}

static void gm_recover_lose(struct gm_recovered *r, uint64_t position)
{
    r->position[r->lost++] = position;
}

/* A slot whose position in the window was not taken, or carries no job, may hold an older job that is unanswered. */
static void gm_recover_older(const struct gm_recover_lane *lane, uint64_t position, uint32_t mark,
                             struct gm_granule answer, struct gm_granule word, struct gm_recovered *r)
{
    const uint32_t lap = gm_lap(position, lane->slots_log2);
    const uint64_t slots = UINT64_C(1) << lane->slots_log2;
    if (mark != lap && (int32_t)(mark - answer.w[3]) > 0)
        gm_recover_lose(r, position - ((uint64_t)(lap - mark) << lane->slots_log2));
    else if (mark != lap - 1u && (int32_t)(lap - 1u - answer.w[3]) > 0 && gm_word_is_job(word, lap - 1u))
        gm_recover_lose(r, position - slots); /* taken, and its mark did not come through */
}

/* Where polling goes on behind the last position that was taken: a wide descriptor has two. When the client has written
 * its first slot again already, its second half still stands there, or was written again and is itself the last one. */
static uint64_t gm_recover_start(uint64_t position, uint32_t log2, struct gm_granule word, struct gm_granule next)
{
    const bool narrow = gm_word_is_job(word, gm_lap(position, log2)) && !(word.w[0] >> 24 & GM_FLAG_WIDE);
    const bool half = gm_word_is(next, gm_lap(position + 1u, log2), GM_DESC_WIDE_MARK);
    return position + (half && !narrow ? 2u : 1u);
}

void gm_recover(const struct gm_recover_lane *lane, struct gm_recovered *r)
{
    const uint32_t slots = 1u << lane->slots_log2;
    const struct gm_granule first = gm_load16_sys(&lane->sq[lane->head & (slots - 1u)].g[0]);
    struct gm_granule next = first; /* of the position behind the one that is looked at */
    bool taken = false;
    r->start = lane->head, r->jobs = r->lost = 0;
    for (uint32_t i = slots; i-- != 0;) {
        const uint64_t position = lane->head + i;
        const uint32_t slot = (uint32_t)(position & (slots - 1u)), lap = gm_lap(position, lane->slots_log2);
        const uint32_t mark = gm_load_acquire_sys_u32(&lane->journal[slot]);
        const struct gm_granule answer = gm_load16_sys(&lane->cq[slot]);
        const struct gm_granule word = i == 0 ? first : gm_load16_sys(&lane->sq[slot].g[0]);
        const bool answered = answer.w[3] == lap, started = mark == lap;
        if (!taken && (answered || started || (int32_t)(word.w[3] - lap) > 0)) {
            taken = true;
            r->start = gm_recover_start(position, lane->slots_log2, word, next);
        }
        next = word;
        if (taken && (answered || started || gm_word_is_job(word, lap))) {
            r->jobs++;
            if (!answered)
                gm_recover_lose(r, position);
        } else {
            gm_recover_older(lane, position, mark, answer, word, r);
        }
    }
}
