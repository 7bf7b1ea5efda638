/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a share: count it, and the last share of the phase finishes the phase. Nobody waits here. One thread of
 * the worker, after the whole worker has passed a barrier behind its work.
 */
#ifndef GM_CORE_ARRIVE_H
#define GM_CORE_ARRIVE_H

#include "core.h"
#include "inbox.h"

/* True for the last share of the phase. Acquire-release: what every share wrote is visible to the last. A job of one
 * share skips the counter: nobody else can arrive. */
GM_DEV bool gm_arrive(struct gm_entry *entry, const struct gm_job *job)
{
    if (job->shares == 1)
        return true;
    const uint64_t phase = (uint64_t)job->phase << 32;
    return gm_fetch_add_acq_rel_u64(&entry->arrived, 1) == phase + job->shares - 1u;
}

/* The last share hands a job with phases left back to the dispatcher. The counter flips to the next phase before the
 * push, whose release publishes it. */
GM_DEV void gm_arrive_next_phase(const struct gm_core *core, struct gm_entry *entry, const struct gm_job *job)
{
    gm_store_relaxed_u64(&entry->arrived, (uint64_t)(job->phase + 1u) << 32);
    gm_inbox_push(core, gm_inbox_word(GM_INBOX_NEXT, job));
}

#endif
