/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of the jobs of a lane whose device process is dead: a pure function over what it left in memory. Any
 * thread; one pass over the slots, whatever a client wrote into them.
 */
#ifndef GM_DAEMON_RECOVER_H
#define GM_DAEMON_RECOVER_H

#include <stdint.h>

#include "lane.h"

/* A lane in which nobody stores any more but its client. */
struct gm_recover_lane {
    uint32_t slots_log2;
    uint64_t head;               /* every position below was taken (gm_lane_note) */
    const uint32_t *journal;     /* no client writes here */
    const struct gm_granule *cq; /* here and in the descriptors it may have written anything */
    const struct gm_desc_slot *sq;
};

struct gm_recovered {
    uint64_t start; /* the first position that was not taken: polling goes on there */
    uint32_t jobs;  /* in [head, start): positions that get a completion, now or before */
    uint32_t lost;  /* jobs that were taken and not answered: EDEVICELOST is theirs, at most one a slot */
    uint64_t position[GM_LANE_SLOTS_MAX];
};

void gm_recover(const struct gm_recover_lane *lane, struct gm_recovered *recovered);

#endif
