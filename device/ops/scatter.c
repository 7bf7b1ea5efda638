/* SPDX-License-Identifier: Apache-2.0
 *
 * scatter: the highest element that names a place goes there. One tile is done in order. More: in the first phase every
 * element writes its number into its place's word of the workspace, where any of them may stay; in the second a higher
 * one replaces a lower one; in the third those whose number stands there write their value. Words that nobody wrote are
 * never looked at, so nothing has to be cleared. One thread a share.
 *
 * A client can change its indices between the phases: each is compared with the length whenever it is read, and what an
 * element then finds in a word decides only whether it writes its own value to a place inside. Values are stored whole.
 */
#include "index.h"
#include "core/plan.h"

static inline uint64_t word_load(const struct gm_job *job, uint64_t at)
{
    const void *words = (const void *)(uintptr_t)job->workspace;
    return gm_scatter_word(job->n) == 4u ? gm_load_relaxed_u32((const uint32_t *)words + at)
                                         : gm_load_relaxed_u64((const uint64_t *)words + at);
}

static inline void word_store(const struct gm_job *job, uint64_t at, uint64_t v)
{
    void *words = (void *)(uintptr_t)job->workspace;
    if (gm_scatter_word(job->n) == 4u)
        gm_store_relaxed_u32((uint32_t *)words + at, (uint32_t)v);
    else
        gm_store_relaxed_u64((uint64_t *)words + at, v);
}

static inline void word_raise(const struct gm_job *job, uint64_t at, uint64_t v)
{
    void *words = (void *)(uintptr_t)job->workspace;
    if (gm_scatter_word(job->n) == 4u)
        gm_max_relaxed_u32((uint32_t *)words + at, (uint32_t)v);
    else
        gm_max_relaxed_u64((uint64_t *)words + at, v);
}

static inline void element_copy(const struct gm_run *run, uint64_t i, uint64_t at)
{
    const void *in = gm_run_buffer(run, 0);
    void *out = gm_run_buffer(run, 2);
    switch (gm_dtype_bytes(run->job->dtype)) {
    case 1:
        ((uint8_t *)out)[at] = ((const uint8_t *)in)[i];
        break;
    case 4:
        ((uint32_t *)out)[at] = ((const uint32_t *)in)[i];
        break;
    default:
        ((uint64_t *)out)[at] = ((const uint64_t *)in)[i];
        break;
    }
}

/* What is done with an element and its place. */
enum scatter_step { SCATTER_LOOK, SCATTER_WRITE, SCATTER_CLAIM, SCATTER_RAISE, SCATTER_SETTLE };

/* False when an index is out of range. step and index are constants where this is called. */
static inline bool scatter(const struct gm_run *run, enum scatter_step step, uint32_t index, uint64_t first,
                           uint64_t end)
{
    const struct gm_job *job = run->job;
    const void *indices = gm_run_buffer(run, 1);
    const uint64_t length = job->value[0];
    bool inside = true;
    for (uint64_t i = first; i < end; i++) {
        const uint64_t at = gm_index_load(indices, index, i);
        if (at >= length)
            inside = false;
        else if (step == SCATTER_WRITE)
            element_copy(run, i, at);
        else if (step == SCATTER_CLAIM)
            word_store(job, at, i);
        else if (step == SCATTER_RAISE)
            word_raise(job, at, i);
        else if (step == SCATTER_SETTLE && word_load(job, at) == i)
            element_copy(run, i, at);
    }
    return inside;
}

static bool scatter_typed(const struct gm_run *run, enum scatter_step step, uint64_t first, uint64_t end)
{
    if (run->job->type2 == GM_DTYPE_i32)
        return scatter(run, step, GM_DTYPE_i32, first, end);
    if (run->job->type2 == GM_DTYPE_u32)
        return scatter(run, step, GM_DTYPE_u32, first, end);
    return scatter(run, step, GM_DTYPE_u64, first, end);
}

void gm_op_scatter_share(struct gm_run *run)
{
    static const enum scatter_step steps[GM_SCATTER_PHASES] = {SCATTER_CLAIM, SCATTER_RAISE, SCATTER_SETTLE};
    uint64_t tile, count;
    bool inside = true;
    while (gm_run_next_tile(run, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count);
        if (run->job->phases == 1)
            inside = scatter_typed(run, SCATTER_LOOK, first, first + count) &&
                     scatter_typed(run, SCATTER_WRITE, first, first + count);
        else
            inside = scatter_typed(run, steps[run->job->phase], first, first + count) && inside;
    }
    if (!inside)
        gm_run_fail(run, GM_EBOUNDS);
}

void gm_op_scatter_finish(struct gm_run *run) { (void)run; }
