/* SPDX-License-Identifier: Apache-2.0
 *
 * The host's half of core/copies.h: finds requests, cuts them into pieces, has a backend copy these and store the word
 * of the end behind the last one. Copies take turns piece by piece, so a small one does not wait for a large one to
 * end; the two directions are apart, since hardware does both at once. One thread; never blocks by itself; at most
 * GM_COPIES_MAX copies.
 */
#ifndef GM_DEVICE_COPIER_H
#define GM_DEVICE_COPIER_H

#include "core/copies.h"

/* What is done for one direction is done in the order of the calls. */
struct gm_copier_calls {
    /* Begins one piece, or does it. Not OK: nothing was begun, and the copy ends with this status. */
    int (*piece)(void *self, uint32_t direction, uint64_t target, uint64_t source, uint64_t bytes);
    /* Stores value at end when everything begun before is done, as a release of all it wrote. Not OK: ends cannot be
     * told any more. */
    int (*end)(void *self, uint32_t direction, uint32_t *end, uint32_t value);
};

struct gm_copier_task {
    uint64_t source, target, left, offset;
    uint32_t turn; /* of the place: the last that was found */
    uint32_t direction;
    bool active;
};

struct gm_copier {
    struct gm_copies *copies;
    const struct gm_copier_calls *calls;
    void *self;
    uint64_t piece;
    uint32_t next[GM_COPY_DIRECTIONS]; /* place that is asked first */
    struct gm_copier_task task[GM_COPIES_MAX];
};

/* piece: bytes; the borders of pieces are its multiples, from an arena's beginning on. start: turns of the places so
 * far, as the dispatcher has them. */
void gm_copier_init(struct gm_copier *copier, struct gm_copies *copies, uint64_t piece, uint32_t start,
                    const struct gm_copier_calls *calls, void *self);

/* One piece of one copy in this direction, and its end if it was the last; or the end of one that is to be given up.
 * did: whether there was any. Not OK: what end said. */
int gm_copier_step(struct gm_copier *copier, uint32_t direction, bool *did);

#endif
