/* SPDX-License-Identifier: Apache-2.0
 *
 * The one rule that puts a value between edges of a client's own, the same on CPU and GPU. Edges and values become keys
 * (keys.h), so that every type is compared as unsigned and a NaN is above every edge. The search reads a private copy
 * of the edges, whose order was checked; its answer is below the number of bins whatever they are. Pure functions.
 */
#ifndef GM_OPS_EDGES_H
#define GM_OPS_EDGES_H

#include "core/plan.h"
#include "ops/bins.h"
#include "ops/keys.h"

struct gm_edge_rule {
    struct gm_key_rule key;
    uint64_t minus_zero; /* is 0 */
    uint64_t top;        /* the greatest key of a number */
};

/* Not for bytes, which are their own keys. */
GM_HD struct gm_edge_rule gm_edge_rule(uint32_t dtype)
{
    const bool narrow = gm_dtype_bytes(dtype) == 4u;
    struct gm_edge_rule rule;
    rule.key = gm_key_rule(dtype, GM_KEY_ASCENDING);
    rule.minus_zero = 0;
    rule.top = narrow ? UINT32_MAX : UINT64_MAX;
    if (gm_dtype_kind(dtype) == 'f') {
        rule.minus_zero = rule.key.flip;
        rule.top = narrow ? gm_key_encode_u32(&rule.key, 0x7f800000u)
                          : gm_key_encode_u64(&rule.key, (uint64_t)0x7ff0000000000000u);
    }
    return rule;
}

GM_HD uint32_t gm_edge_key_u32(const struct gm_edge_rule *rule, uint32_t v)
{
    return gm_key_encode_u32(&rule->key, v == (uint32_t)rule->minus_zero ? 0 : v);
}
GM_HD uint64_t gm_edge_key_u64(const struct gm_edge_rule *rule, uint64_t v)
{
    return gm_key_encode_u64(&rule->key, v == rule->minus_zero ? 0 : v);
}

/* The last bin whose left edge is not above the key; GM_BIN_NONE outside edge[0] .. edge[bins]. bins is not 0. */
GM_HD uint32_t gm_edges_find_u32(const uint32_t *edge, uint32_t bins, uint32_t key)
{
    uint32_t base = 0;
    if (key < edge[0] || key > edge[bins])
        return GM_BIN_NONE;
    GM_BINS_LOOP
    for (uint32_t length = bins; length > 1u; length -= length / 2u)
        base = edge[base + length / 2u] <= key ? base + length / 2u : base;
    return base;
}
GM_HD uint32_t gm_edges_find_u64(const uint64_t *edge, uint32_t bins, uint64_t key)
{
    uint32_t base = 0;
    if (key < edge[0] || key > edge[bins])
        return GM_BIN_NONE;
    GM_BINS_LOOP
    for (uint32_t length = bins; length > 1u; length -= length / 2u)
        base = edge[base + length / 2u] <= key ? base + length / 2u : base;
    return base;
}

#endif
