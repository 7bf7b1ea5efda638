/* SPDX-License-Identifier: Apache-2.0
 *
 * See copier.h. A request is read once, when all of its granules carry the number of the next turn of their place; what
 * is done afterwards comes from that copy.
 */
#include "copier.h"

#include <string.h>

void gm_copier_init(struct gm_copier *copier, struct gm_copies *copies, uint64_t piece, uint32_t start,
                    const struct gm_copier_calls *calls, void *self)
{
    memset(copier, 0, sizeof *copier);
    copier->copies = copies;
    copier->calls = calls;
    copier->self = self;
    copier->piece = piece;
    for (uint32_t at = 0; at < GM_COPIES_MAX; at++)
        copier->task[at].turn = start;
}

/* Looks for the next request of a place whose last one has ended. */
static void find(struct gm_copier *copier, uint32_t at)
{
    struct gm_copier_task *task = &copier->task[at];
    const struct gm_copy_place *place = &copier->copies->place[at];
    uint32_t words[GM_COPY_WORDS];
    for (uint32_t i = 0; i < GM_COPY_GRANULES; i++) {
        const struct gm_granule g = gm_load16_sys(&place->request[i]);
        if (g.w[3] != task->turn + 1u)
            return;
        memcpy(&words[i * 3u], g.w, 3u * sizeof *words);
    }
    task->turn++;
    task->source = gm_desc_get64(words, GM_C_SOURCE);
    task->target = gm_desc_get64(words, GM_C_TARGET);
    task->left = gm_desc_get64(words, GM_C_BYTES);
    task->offset = gm_desc_get64(words, GM_C_OFFSET);
    task->direction = words[GM_C_DIRECTION];
    task->active = true;
}

/* Up to the next border, counted from where the host's arena begins: its memory is registered in such pieces, and no
 * single copy of the hardware may go from one into the next. */
static uint64_t piece_of(const struct gm_copier *copier, const struct gm_copier_task *task)
{
    const uint64_t bytes = copier->piece - task->offset % copier->piece;
    return bytes < task->left ? bytes : task->left;
}

static int serve(struct gm_copier *copier, uint32_t at)
{
    struct gm_copier_task *task = &copier->task[at];
    struct gm_copy_place *place = &copier->copies->place[at];
    int status = GM_OK;
    if (gm_load_relaxed_sys_u32(&place->abort) == task->turn) {
        status = GM_ECANCELLED;
    } else {
        const uint64_t bytes = piece_of(copier, task);
        status = copier->calls->piece(copier->self, task->direction, task->target, task->source, bytes);
        if (status == GM_OK) {
            task->source += bytes;
            task->target += bytes;
            task->offset += bytes;
            task->left -= bytes;
            if (task->left != 0)
                return GM_OK;
        }
    }
    task->active = false; /* the dispatcher may use the place again as soon as the word is there */
    return copier->calls->end(copier->self, task->direction, &place->end, gm_copy_end(task->turn, status));
}

int gm_copier_step(struct gm_copier *copier, uint32_t direction, bool *did)
{
    *did = false;
    for (uint32_t i = 0; i < GM_COPIES_MAX; i++) {
        const uint32_t at = (copier->next[direction] + i) % GM_COPIES_MAX;
        if (!copier->task[at].active)
            find(copier, at);
        if (!copier->task[at].active || copier->task[at].direction != direction)
            continue;
        copier->next[direction] = at + 1u;
        *did = true;
        return serve(copier, at);
    }
    return GM_OK;
}
