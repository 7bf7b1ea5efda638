/* SPDX-License-Identifier: Apache-2.0
 *
 * The dispatcher's inbox: finished phases and finished jobs, pushed by the last worker to arrive. Every entry has at
 * most one message outstanding and there is a place for each, so a push never waits and is never refused.
 */
#ifndef GM_CORE_INBOX_H
#define GM_CORE_INBOX_H

#include "core.h"

/* Worker, one thread. Release: pairs with the acquire in gm_inbox_load; hands the entry back to the dispatcher. */
GM_DEV void gm_inbox_push(const struct gm_core *core, uint32_t kind, uint32_t entry)
{
    const uint64_t t = gm_fetch_add_relaxed_u64(&core->counters->inbox_tail, 1);
    const uint64_t mask = ((uint64_t)1 << core->entries_log2) - 1u;
    gm_store_release_u64(&core->inbox[t & mask], (uint64_t)gm_lap(t, core->entries_log2) << 32 | kind << 30 | entry);
}
GM_DEV uint32_t gm_inbox_kind(uint64_t word) { return (uint32_t)word >> 30; }
/* Of a job that was answered. */
GM_DEV uint32_t gm_inbox_answered(int32_t status)
{
    return status == GM_OK ? GM_INBOX_DONE : status == GM_ECANCELLED ? GM_INBOX_CANCELLED : GM_INBOX_FAILED;
}

/* Dispatcher: a word; valid when its lap is the position's. On the GPU the loads of a turn
 * must overlap, so the acquire is a fence of its own (gm_inbox_acquire), paid only when there is a message. */
GM_DEV uint64_t gm_inbox_load(const uint64_t *word)
{
#ifdef __CUDACC__
    return gm_load_relaxed_u64(word);
#else
    return gm_load_acquire_u64(word);
#endif
}
/* Acquire: pairs with the release in gm_inbox_push. Loads the word at a position again, because a fence would wait for
 * the looks at host memory that are on their way. */
GM_DEV void gm_inbox_acquire(const struct gm_core *core, uint64_t position)
{
    (void)gm_load_acquire_u64(&core->inbox[position & (((uint64_t)1 << core->entries_log2) - 1u)]);
}
GM_DEV bool gm_inbox_valid(const struct gm_core *core, uint64_t position, uint64_t word)
{
    return (uint32_t)(word >> 32) == gm_lap(position, core->entries_log2);
}

#endif
