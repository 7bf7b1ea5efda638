/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients that mean harm, each a process of its own that runs until it is killed: one writes valid jobs and then flips
 * their data and arguments, one writes whatever it likes wherever it can.
 */
#ifndef GM_E2E_HOSTILE_H
#define GM_E2E_HOSTILE_H

#include "chaos.h"
#include "chaos_jobs.h"
#include "chaos_lane.h"

#define HOSTILE_MAX 8u

/* What one of them has done, for the report; it shows that the run was not idle. */
struct harm {
    _Atomic uint64_t jobs, answers, flips, descriptors, words, bells, lanes, closed, cancels;
};

struct hostile {
    struct world *world;
    struct harm *harm;
    uint32_t number, life; /* it comes back when it has killed itself */
    struct raw raw;
    struct raw_arena arena;
    struct raw_lane lane;
};

/* hostile_flip.c, hostile_scribble.c */
_Noreturn void flip_live(struct hostile *hostile);
_Noreturn void scribble_live(struct hostile *hostile);

/* hostile.c: a connection with an arena and a lane, once more; it goes on until there is one. */
void hostile_open(struct hostile *hostile, uint64_t arena_bytes, uint32_t slots);
void hostile_close(struct hostile *hostile);
/* A status that is in the table. */
void hostile_status(struct hostile *hostile, int status);

#endif
