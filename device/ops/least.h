/* SPDX-License-Identifier: Apache-2.0
 *
 * What smallest and largest elements share on the CPU: both are the least key under a key order of their own. One
 * thread a share; a tile leaves its least key in the workspace.
 */
#ifndef GM_OPS_LEAST_H
#define GM_OPS_LEAST_H

#include "keys.h"
#include "run.h"

static inline uint64_t gm_least_u16(const struct gm_key_rule *rule, const uint16_t *in, uint64_t count)
{
    const struct gm_key_rule r = *rule;
    uint16_t least = UINT16_MAX;
    for (uint64_t i = 0; i < count; i++) {
        const uint16_t key = gm_key_encode_u16(&r, in[i]);
        least = key < least ? key : least;
    }
    return least;
}

static inline uint64_t gm_least_u32(const struct gm_key_rule *rule, const uint32_t *in, uint64_t count)
{
    const struct gm_key_rule r = *rule;
    uint32_t least = UINT32_MAX;
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t key = gm_key_encode_u32(&r, in[i]);
        least = key < least ? key : least;
    }
    return least;
}

static inline uint64_t gm_least_u64(const struct gm_key_rule *rule, const uint64_t *in, uint64_t count)
{
    const struct gm_key_rule r = *rule;
    uint64_t least = UINT64_MAX;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t key = gm_key_encode_u64(&r, in[i]);
        least = key < least ? key : least;
    }
    return least;
}

static inline void gm_least_share(struct gm_run *run, enum gm_key_order order)
{
    const struct gm_key_rule rule = gm_key_rule(run->job->dtype, order);
    uint64_t *partials = (uint64_t *)(uintptr_t)run->job->workspace;
    const void *in = gm_run_buffer(run, 0);
    uint64_t tile, count;
    while (gm_run_next_tile(run, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count);
        if (gm_dtype_bytes(run->job->dtype) == 2)
            partials[tile] = gm_least_u16(&rule, (const uint16_t *)in + first, count);
        else if (gm_dtype_bytes(run->job->dtype) == 4)
            partials[tile] = gm_least_u32(&rule, (const uint32_t *)in + first, count);
        else
            partials[tile] = gm_least_u64(&rule, (const uint64_t *)in + first, count);
    }
}

static inline void gm_least_finish(struct gm_run *run, enum gm_key_order order)
{
    const struct gm_key_rule rule = gm_key_rule(run->job->dtype, order);
    const uint64_t *partials = (const uint64_t *)(uintptr_t)run->job->workspace;
    uint64_t least = partials[0]; /* gm_check refuses n = 0 */
    for (uint64_t t = 1; t < run->job->tiles; t++)
        least = partials[t] < least ? partials[t] : least;
    run->result = gm_key_result(&rule, run->job->dtype, least);
}

#endif
