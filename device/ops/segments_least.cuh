/* SPDX-License-Identifier: Apache-2.0
 *
 * What segmented_min and segmented_max share on blocks: the least key under their own key order (keys.h); of an empty
 * segment the greatest key there is. See segments.cuh for the way.
 */
#ifndef GM_OPS_SEGMENTS_LEAST_CUH
#define GM_OPS_SEGMENTS_LEAST_CUH

#include "ops/keys.h"
#include "ops/segments.cuh"

namespace
{

template <typename W> struct seg_least {
    typedef W Word;
    typedef W Value;
    struct gm_key_rule rule;
    uint32_t dtype;
    __device__ __forceinline__ uint32_t item(uint32_t w) const { return gm_key_encode_u32(&rule, w); }
    __device__ __forceinline__ uint64_t item(uint64_t w) const { return gm_key_encode_u64(&rule, w); }
    __device__ __forceinline__ static Word nothing() { return ~(Word)0; }
    __device__ __forceinline__ static Value zero() { return ~(Word)0; }
    __device__ __forceinline__ static Value add(Value v, Word key) { return key < v ? key : v; }
    __device__ __forceinline__ static Value combine(Value a, Value b) { return b < a ? b : a; }
    __device__ __forceinline__ static uint64_t low(Value v) { return v; }
    __device__ __forceinline__ static uint64_t high(Value) { return 0; }
    __device__ __forceinline__ static Value of(uint64_t low, uint64_t) { return (Word)low; }
    __device__ __forceinline__ bool put(Word *out, Value v) const
    {
        *out = (Word)gm_key_result(&rule, dtype, v);
        return true;
    }
};

__device__ __forceinline__ void seg_least_share(struct gm_run *run, enum gm_key_order order)
{
    const uint32_t dtype = run->job->dtype;
    if (gm_dtype_bytes(dtype) == 4u)
        seg_share(run, seg_least<uint32_t>{gm_key_rule(dtype, order), dtype});
    else
        seg_share(run, seg_least<uint64_t>{gm_key_rule(dtype, order), dtype});
}

__device__ __forceinline__ void seg_least_finish(struct gm_run *run, enum gm_key_order order)
{
    const uint32_t dtype = run->job->dtype;
    if (gm_dtype_bytes(dtype) == 4u)
        seg_finish(run, seg_least<uint32_t>{gm_key_rule(dtype, order), dtype});
    else
        seg_finish(run, seg_least<uint64_t>{gm_key_rule(dtype, order), dtype});
}

} // namespace

#endif
