/* SPDX-License-Identifier: Apache-2.0
 *
 * The dispatcher's inbox: finished phases and finished jobs, pushed by the last worker to arrive. Every entry has at
 * most one message outstanding and there is a place for each, so a push never waits and is never refused.
 */
#ifndef GM_CORE_INBOX_H
#define GM_CORE_INBOX_H

#include "core.h"

static_assert(GM_ENTRIES_MAX <= 1u << 12 && GM_LANE_TABLE <= 1u << 9 && GM_OP_COUNT <= 1u << 8, "a message's bits");
GM_HD uint32_t gm_inbox_word(uint32_t kind, const struct gm_job *job)
{
    return kind << 30 | (uint32_t)job->op << 21 | (uint32_t)job->lane << 12 | job->entry;
}
GM_HD uint32_t gm_inbox_kind(uint64_t word) { return (uint32_t)word >> 30; }
GM_HD uint32_t gm_inbox_op(uint64_t word) { return (uint32_t)word >> 21 & 0xffu; }
GM_HD uint32_t gm_inbox_lane(uint64_t word) { return (uint32_t)word >> 12 & 0x1ffu; }
GM_HD uint32_t gm_inbox_entry(uint64_t word) { return (uint32_t)word & 0xfffu; }

GM_DEV uint64_t *gm_inbox_at(const struct gm_core *core, uint64_t position)
{
    return &core->inbox[position & (((uint64_t)1 << core->entries_log2) - 1u)];
}

/* Worker, one thread. Release: pairs with the acquire in gm_inbox_load; hands the entry back to the dispatcher. */
GM_DEV void gm_inbox_push(const struct gm_core *core, uint32_t word)
{
    const uint64_t t = gm_fetch_add_relaxed_u64(&core->counters->inbox_tail, 1);
    gm_store_release_u64(gm_inbox_at(core, t), (uint64_t)gm_lap(t, core->entries_log2) << 32 | word);
}
/* Of a job that was answered. */
GM_DEV uint32_t gm_inbox_answered(int32_t status)
{
    return status == GM_OK ? GM_INBOX_DONE : status == GM_ECANCELLED ? GM_INBOX_CANCELLED : GM_INBOX_FAILED;
}

/* Dispatcher: a word; valid when its lap is the position's. Acquire: pairs with the release in gm_inbox_push. */
GM_DEV uint64_t gm_inbox_load(const struct gm_core *core, uint64_t position)
{
    return gm_load_acquire_u64(gm_inbox_at(core, position));
}
/* The same, where several are on their way at once and a fence behind them is the other half of the acquire. */
GM_DEV uint64_t gm_inbox_peek(const struct gm_core *core, uint64_t position)
{
    return gm_load_relaxed_u64(gm_inbox_at(core, position));
}
GM_DEV bool gm_inbox_valid(const struct gm_core *core, uint64_t position, uint64_t word)
{
    return (uint32_t)(word >> 32) == gm_lap(position, core->entries_log2);
}

#endif
