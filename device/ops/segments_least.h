/* SPDX-License-Identifier: Apache-2.0
 *
 * What segmented_min and segmented_max share on the CPU: the least key under their own key order, as in least.h; of an
 * empty segment the greatest key there is. See segments.h for the way.
 */
#ifndef GM_OPS_SEGMENTS_LEAST_H
#define GM_OPS_SEGMENTS_LEAST_H

#include "least.h"
#include "segments.h"

struct seg_keys {
    struct gm_key_rule rule;
    uint32_t dtype;
};

static inline struct seg_value seg_least_u32(const struct seg_rule *rule, const void *in, uint64_t first,
                                             uint64_t count)
{
    const struct seg_keys *keys = rule->context;
    return (struct seg_value){gm_least_u32(&keys->rule, (const uint32_t *)in + first, count), 0};
}
static inline struct seg_value seg_least_u64(const struct seg_rule *rule, const void *in, uint64_t first,
                                             uint64_t count)
{
    const struct seg_keys *keys = rule->context;
    return (struct seg_value){gm_least_u64(&keys->rule, (const uint64_t *)in + first, count), 0};
}

static inline struct seg_value seg_lesser(struct seg_value a, struct seg_value b) { return a.low < b.low ? a : b; }

static inline int32_t seg_store_u32(const struct seg_rule *rule, void *out, uint64_t segment, struct seg_value value)
{
    const struct seg_keys *keys = rule->context;
    ((uint32_t *)out)[segment] = (uint32_t)gm_key_result(&keys->rule, keys->dtype, value.low);
    return GM_OK;
}
static inline int32_t seg_store_u64(const struct seg_rule *rule, void *out, uint64_t segment, struct seg_value value)
{
    const struct seg_keys *keys = rule->context;
    ((uint64_t *)out)[segment] = gm_key_result(&keys->rule, keys->dtype, value.low);
    return GM_OK;
}

static inline struct seg_rule seg_least_rule(const struct seg_keys *keys)
{
    if (gm_dtype_bytes(keys->dtype) == 4u)
        return (struct seg_rule){{UINT32_MAX, 0}, keys, seg_least_u32, seg_lesser, seg_store_u32};
    return (struct seg_rule){{UINT64_MAX, 0}, keys, seg_least_u64, seg_lesser, seg_store_u64};
}

static inline void gm_segments_least_share(struct gm_run *run, enum gm_key_order order)
{
    const struct seg_keys keys = {gm_key_rule(run->job->dtype, order), run->job->dtype};
    const struct seg_rule rule = seg_least_rule(&keys);
    gm_segments_share(run, &rule);
}

static inline void gm_segments_least_finish(struct gm_run *run, enum gm_key_order order)
{
    const struct seg_keys keys = {gm_key_rule(run->job->dtype, order), run->job->dtype};
    const struct seg_rule rule = seg_least_rule(&keys);
    gm_segments_finish(run, &rule);
}

#endif
