/* SPDX-License-Identifier: Apache-2.0
 *
 * Buddy allocator for staging arenas. Loop thread only; bounded by GM_STAGING_BYTES.
 */
#include "staging.h"

#include <assert.h>
#include <string.h>

#define GM_NO_BLOCK 0xffffu
#define GM_IS_FREE 0x80u
#define GM_NO_ORDER 0x7fu

static void gm_staging_push(struct gm_staging *s, uint32_t block, uint32_t order)
{
    s->order[block] = (uint8_t)(order | GM_IS_FREE);
    s->prev[block] = GM_NO_BLOCK;
    s->next[block] = s->first[order];
    if (s->first[order] != GM_NO_BLOCK)
        s->prev[s->first[order]] = (uint16_t)block;
    s->first[order] = (uint16_t)block;
}

static void gm_staging_unlink(struct gm_staging *s, uint32_t block)
{
    const uint32_t order = s->order[block] & (GM_IS_FREE - 1u);
    if (s->prev[block] != GM_NO_BLOCK)
        s->next[s->prev[block]] = s->next[block];
    else
        s->first[order] = s->next[block];
    if (s->next[block] != GM_NO_BLOCK)
        s->prev[s->next[block]] = s->prev[block];
    s->order[block] = GM_NO_ORDER;
}

void gm_staging_init(struct gm_staging *staging)
{
    memset(staging->first, 0xff, sizeof staging->first);
    memset(staging->order, GM_NO_ORDER, sizeof staging->order);
    staging->used = 0;
    gm_staging_push(staging, 0, GM_STAGING_ORDERS - 1u);
}

static uint32_t gm_staging_order(uint64_t bytes)
{
    uint32_t order = 0;
    while (order < GM_STAGING_ORDERS && (UINT64_C(1) << (GM_STAGING_BLOCK_LOG2 + order)) < bytes)
        order++;
    return order;
}

uint64_t gm_staging_charge(uint64_t bytes)
{
    const uint32_t order = gm_staging_order(bytes);
    return order < GM_STAGING_ORDERS ? UINT64_C(1) << (GM_STAGING_BLOCK_LOG2 + order) : 0;
}

uint32_t gm_staging_alloc(struct gm_staging *staging, uint64_t bytes)
{
    const uint32_t want = gm_staging_order(bytes);
    uint32_t order = want;
    while (order < GM_STAGING_ORDERS && staging->first[order] == GM_NO_BLOCK)
        order++;
    if (order >= GM_STAGING_ORDERS)
        return GM_STAGING_NONE;
    const uint32_t block = staging->first[order];
    gm_staging_unlink(staging, block);
    while (order > want) {
        order--;
        gm_staging_push(staging, block + (1u << order), order);
    }
    staging->order[block] = (uint8_t)want;
    staging->used += UINT64_C(1) << (GM_STAGING_BLOCK_LOG2 + want);
    return block << GM_STAGING_BLOCK_LOG2;
}

void gm_staging_free(struct gm_staging *staging, uint32_t offset)
{
    uint32_t block = offset >> GM_STAGING_BLOCK_LOG2, order;
    assert(offset % (1u << GM_STAGING_BLOCK_LOG2) == 0 && block < GM_STAGING_BLOCKS);
    order = staging->order[block];
    assert(order < GM_STAGING_ORDERS); /* the start of a block in use, and not freed twice */
    staging->order[block] = GM_NO_ORDER;
    staging->used -= UINT64_C(1) << (GM_STAGING_BLOCK_LOG2 + order);
    while (order < GM_STAGING_ORDERS - 1u) {
        const uint32_t buddy = block ^ (1u << order);
        if (staging->order[buddy] != (order | GM_IS_FREE))
            break;
        gm_staging_unlink(staging, buddy);
        block &= ~(1u << order);
        order++;
    }
    gm_staging_push(staging, block, order);
}
