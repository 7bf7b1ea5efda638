/* SPDX-License-Identifier: Apache-2.0
 *
 * What argmin and argmax share on the CPU: the least key under their key order, as min and max have it, and the first
 * element that has it. All NaNs count as one key, so that the first of them wins. One thread a share; a tile leaves its
 * least key and where it is.
 */
#ifndef GM_OPS_ARG_H
#define GM_OPS_ARG_H

#include "keys.h"
#include "run.h"
#include "core/plan.h"

#define ARG_BLOCK 1024u /* elements that are looked at a second time where the least one was among them */

struct arg_partial {
    uint64_t key, index;
};
static_assert(sizeof(struct arg_partial) == GM_PARTIAL_BYTES, "plan.h reserves this much a tile");

/* A second look may find other data than the first, and then any element of the block is as right. */
#define ARG_OF(bits)                                                                                                   \
    static inline uint##bits##_t arg_block_u##bits(const struct gm_key_rule *rule, const uint##bits##_t *in,           \
                                                   uint64_t count)                                                     \
    {                                                                                                                  \
        const struct gm_key_rule r = *rule;                                                                            \
        uint##bits##_t least = UINT##bits##_MAX;                                                                       \
        for (uint64_t i = 0; i < count; i++) {                                                                         \
            const uint##bits##_t key = gm_key_encode_u##bits(&r, in[i]);                                               \
            least = key < least ? key : least;                                                                         \
        }                                                                                                              \
        return least;                                                                                                  \
    }                                                                                                                  \
    static inline struct arg_partial arg_tile_u##bits(const struct gm_key_rule *rule, uint64_t nan,                    \
                                                      const uint##bits##_t *in, uint64_t count)                        \
    {                                                                                                                  \
        const uint##bits##_t floor = (uint##bits##_t)nan;                                                              \
        uint##bits##_t best = 0;                                                                                       \
        uint64_t at = 0;                                                                                               \
        for (uint64_t block = 0; block < count; block += ARG_BLOCK) {                                                  \
            const uint64_t left = count - block;                                                                       \
            uint##bits##_t least = arg_block_u##bits(rule, in + block, left < ARG_BLOCK ? left : ARG_BLOCK);           \
            least = least < floor ? floor : least;                                                                     \
            if (block == 0 || least < best) {                                                                          \
                best = least;                                                                                          \
                at = block;                                                                                            \
            }                                                                                                          \
        }                                                                                                              \
        for (uint64_t i = at; i < count && i < at + ARG_BLOCK; i++)                                                    \
            if (gm_key_encode_u##bits(rule, in[i]) <= best)                                                            \
                return (struct arg_partial){best, i};                                                                  \
        return (struct arg_partial){best, at};                                                                         \
    }
ARG_OF(16)
ARG_OF(32)
ARG_OF(64)
#undef ARG_OF

static inline void gm_arg_share(struct gm_run *run, enum gm_key_order order)
{
    const uint32_t dtype = run->job->dtype;
    const struct gm_key_rule rule = gm_key_rule(dtype, order);
    const uint64_t nan = gm_key_nan_last(dtype);
    struct arg_partial *partials = (struct arg_partial *)(uintptr_t)run->job->workspace;
    const void *in = gm_run_buffer(run, 0);
    uint64_t tile, count;
    while (gm_run_next_tile(run, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count);
        if (gm_dtype_bytes(dtype) == 2)
            partials[tile] = arg_tile_u16(&rule, nan, (const uint16_t *)in + first, count);
        else if (gm_dtype_bytes(dtype) == 4)
            partials[tile] = arg_tile_u32(&rule, nan, (const uint32_t *)in + first, count);
        else
            partials[tile] = arg_tile_u64(&rule, nan, (const uint64_t *)in + first, count);
        partials[tile].index += first;
    }
}

static inline void gm_arg_finish(struct gm_run *run)
{
    const struct arg_partial *partials = (const struct arg_partial *)(uintptr_t)run->job->workspace;
    uint64_t best = 0; /* gm_check refuses n = 0 */
    for (uint64_t t = 1; t < run->job->tiles; t++)
        best = partials[t].key < partials[best].key ? t : best;
    run->result = partials[best].index;
}

#endif
