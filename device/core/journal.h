/* SPDX-License-Identifier: Apache-2.0
 *
 * STARTED words and worker words, in host memory that no client maps. A job is marked before its first ticket is
 * published, so that after the loss of a device process "not started" is certain. Written by the dispatcher
 * (journal) and by each worker (its own word); read by gridmilld.
 */
#ifndef GM_CORE_JOURNAL_H
#define GM_CORE_JOURNAL_H

#include "core.h"

/* Ordered before every effect of the job by the fence in gm_start. */
GM_DEV void gm_journal_started(const struct gm_lane_row *lane, uint64_t position)
{
    const uint64_t slot = position & ((UINT64_C(1) << lane->slots_log2) - 1u);
    gm_store_relaxed_sys_u32(&lane->journal[slot], gm_lap(position, lane->slots_log2));
}

/* How far the dispatcher has come in a lane, for whoever has to go on after it. */
GM_DEV void gm_journal_head(const struct gm_core *core, uint32_t index, const struct gm_lane_row *lane)
{
    const struct gm_granule g = {{(uint32_t)lane->head, (uint32_t)(lane->head >> 32), (uint32_t)lane->taken,
                                  (uint32_t)(lane->taken >> 32)}};
    gm_store16_sys((struct gm_granule *)&core->lane_notes[index], g);
}

/* The worker enters a job (lane + 1) or has nothing to do (0). One granule, so a reader never sees two jobs mixed. */
GM_DEV void gm_journal_worker(const struct gm_core *core, uint32_t worker, uint64_t busy_ns, uint32_t lane_plus_one,
                              uint64_t position)
{
    const struct gm_granule g = {{(uint32_t)busy_ns, (uint32_t)(busy_ns >> 32), lane_plus_one, (uint32_t)position}};
    gm_store16_sys(&core->workers_words[worker], g);
}

#endif
