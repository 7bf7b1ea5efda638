/* SPDX-License-Identifier: Apache-2.0
 *
 * Log-linear histogram of times. Pure functions on the caller's struct; loop thread only.
 */
#include "histo.h"

#define GM_SUB (1u << GM_HISTO_SUB_BITS)

static uint32_t gm_histo_index(uint64_t ns)
{
    if (ns < UINT64_C(1) << GM_HISTO_MIN_LOG2)
        return 0;
    if (ns >= UINT64_C(1) << GM_HISTO_MAX_LOG2)
        return GM_HISTO_BUCKETS - 1u;
    const uint32_t log2 = 63u - (uint32_t)__builtin_clzll(ns);
    const uint32_t sub = (uint32_t)(ns >> (log2 - GM_HISTO_SUB_BITS)) & (GM_SUB - 1u);
    return 1u + (log2 - GM_HISTO_MIN_LOG2) * GM_SUB + sub;
}

void gm_histo_add(struct gm_histo *histo, uint64_t ns)
{
    histo->count++;
    histo->bucket[gm_histo_index(ns)]++;
    if (ns > histo->max)
        histo->max = ns;
}

uint64_t gm_histo_upper(uint32_t i)
{
    if (i == 0)
        return (UINT64_C(1) << GM_HISTO_MIN_LOG2) - 1u;
    if (i >= GM_HISTO_BUCKETS - 1u)
        return UINT64_MAX;
    const uint32_t log2 = GM_HISTO_MIN_LOG2 + (i - 1u) / GM_SUB, sub = (i - 1u) % GM_SUB;
    return (((uint64_t)GM_SUB + sub + 1u) << (log2 - GM_HISTO_SUB_BITS)) - 1u;
}

uint64_t gm_histo_quantile(const struct gm_histo *histo, uint32_t permille)
{
    if (histo->count == 0)
        return 0;
    /* Split so that the product cannot overflow. */
    uint64_t rank = histo->count / 1000u * permille + (histo->count % 1000u * permille + 999u) / 1000u;
    rank = rank == 0 ? 1 : rank;
    uint64_t seen = 0;
    for (uint32_t i = 0; i < GM_HISTO_BUCKETS; i++) {
        seen += histo->bucket[i];
        if (seen >= rank)
            return gm_histo_upper(i) < histo->max ? gm_histo_upper(i) : histo->max;
    }
    return histo->max;
}
