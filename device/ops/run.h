/* SPDX-License-Identifier: Apache-2.0
 *
 * What a tile function of the CPU backend sees: a private copy of its job, and the tile counter. It never touches
 * rings. See README.md for the contract.
 */
#ifndef GM_OPS_RUN_H
#define GM_OPS_RUN_H

#include "core/core.h"
#include "ops/tile.h"

struct gm_run {
    const struct gm_job *job; /* this worker's copy, constant */
    struct gm_entry *entry;
    uint32_t share;
    bool begun;
    bool in_slot, aborted; /* in_slot: the job came with its ticket, and so did whether it was cancelled */
    uint64_t result; /* set by finish */
    int32_t status;
};

static inline bool gm_run_aborted(const struct gm_run *run)
{
    return run->in_slot ? run->aborted : gm_load_relaxed_u32(&run->entry->abort) != 0;
}

/* The share's next tile: its own number first, then from the job's counter. False at the end, and as soon as the job
 * is aborted; the share then simply returns and arrives. */
static inline bool gm_run_next_tile(struct gm_run *run, uint64_t *tile)
{
    if (run->begun && run->job->tiles <= run->job->shares)
        return false; /* one for each, and nobody counts */
    const uint64_t t = run->begun ? gm_fetch_add_relaxed_u64(&run->entry->next_tile, 1) : run->share;
    run->begun = true;
    if (t >= run->job->tiles || gm_run_aborted(run))
        return false;
    *tile = t;
    return true;
}

/* First element and count of a tile. */
static inline uint64_t gm_run_tile(const struct gm_run *run, uint64_t tile, uint64_t *count)
{
    const uint64_t first = tile * run->job->tile_elements, left = run->job->n - first;
    *count = left < run->job->tile_elements ? left : run->job->tile_elements;
    return first;
}

static inline void *gm_run_buffer(const struct gm_run *run, uint32_t i)
{
    return (void *)(uintptr_t)run->job->address[i];
}

/* Arguments that only some jobs have, and none that lies in its slot; of the others they are 0, and the entry holds
 * what an earlier job left. */
static inline uint64_t gm_run_value2(const struct gm_run *run)
{
    return run->job->marks & GM_MARK_MORE ? run->entry->more[0] : 0;
}
static inline uint64_t gm_run_value3(const struct gm_run *run)
{
    return run->job->marks & GM_MARK_MORE ? run->entry->more[1] : 0;
}
static inline uint32_t gm_run_count2(const struct gm_run *run)
{
    return run->job->marks & GM_MARK_MORE ? run->entry->count2 : 0;
}

/* Reports an error from a share; the first one becomes the job's status. */
static inline void gm_run_fail(struct gm_run *run, int32_t status)
{
    uint32_t *word = run->in_slot ? (uint32_t *)&run->status : (uint32_t *)&run->entry->status;
    if (gm_load_relaxed_u32(word) == 0)
        gm_store_relaxed_u32(word, (uint32_t)status);
}

#define OP(id, name, shape, types, result, work, tile_bytes, tolerance, help)                                          \
    void gm_op_##name##_share(struct gm_run *run);                                                                     \
    void gm_op_##name##_finish(struct gm_run *run);
#include "ops.def"
#undef OP

#endif
