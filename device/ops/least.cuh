/* SPDX-License-Identifier: Apache-2.0
 *
 * What min and max share on blocks: both look for the least key under their own key order (keys.h). See reduce.cuh for
 * the way. Partials are keys, zero-extended to 64 bits.
 */
#ifndef GM_OPS_LEAST_CUH
#define GM_OPS_LEAST_CUH

#include "cuda/prim/reduce.cuh"
#include "ops/keys.h"
#include "ops/run.cuh"

namespace
{

__device__ __forceinline__ uint64_t least_key(const struct gm_key_rule &rule, uint16_t v)
{
    return gm_key_encode_u16(&rule, v);
}
__device__ __forceinline__ uint64_t least_key(const struct gm_key_rule &rule, uint32_t v)
{
    return gm_key_encode_u32(&rule, v);
}
__device__ __forceinline__ uint64_t least_key(const struct gm_key_rule &rule, uint64_t v)
{
    return gm_key_encode_u64(&rule, v);
}
__device__ __forceinline__ uint16_t least_value(const struct gm_key_rule &rule, uint16_t)
{
    return gm_key_decode_u16(&rule, 0xffffu);
}
__device__ __forceinline__ uint32_t least_value(const struct gm_key_rule &rule, uint32_t)
{
    return gm_key_decode_u32(&rule, 0xffffffffu);
}
__device__ __forceinline__ uint64_t least_value(const struct gm_key_rule &rule, uint64_t)
{
    return gm_key_decode_u64(&rule, ~(uint64_t)0);
}

template <typename W> struct least {
    typedef W Word;
    typedef uint64_t Value;
    struct gm_key_rule rule;
    uint32_t dtype;
    struct Sum {
        struct gm_key_rule rule;
        Word best;
        __device__ __forceinline__ explicit Sum(const least &r) : rule(r.rule), best((Word) ~(Word)0) {}
        __device__ __forceinline__ void add(const gm_pack<Word> &p)
        {
#pragma unroll
            for (int e = 0; e < p.elements; e++)
                best = min(best, (Word)least_key(rule, p.w[e]));
        }
        __device__ __forceinline__ Value total() const { return best; }
        __device__ __forceinline__ Sum &operator=(const Sum &other)
        {
            best = other.best;
            return *this;
        }
    };
    __device__ __forceinline__ Word padding() const { return least_value(rule, Word()); } /* the greatest key */
    __device__ __forceinline__ static Value zero() { return ~(Value)0; }
    __device__ __forceinline__ static Value combine(Value a, Value b) { return a < b ? a : b; }
    __device__ __forceinline__ static void answer(struct gm_run *run, const least &r, Value v)
    {
        run->result = gm_key_result(&r.rule, r.dtype, v);
    }
};

struct least_widen {
    static constexpr uint32_t each = 2;
    __device__ __forceinline__ uint64_t operator()(ulonglong2 v, bool both) const
    {
        return both && v.y < v.x ? v.y : v.x;
    }
};

__device__ __forceinline__ void least_share(struct gm_run *run, enum gm_key_order order)
{
    const uint32_t dtype = run->job->dtype;
    const struct gm_key_rule rule = gm_key_rule(dtype, order);
    if (gm_dtype_bytes(dtype) == 2u)
        gm_reduce_share(run, least<uint16_t>{rule, dtype});
    else if (gm_dtype_bytes(dtype) == 4u)
        gm_reduce_share(run, least<uint32_t>{rule, dtype});
    else
        gm_reduce_share(run, least<uint64_t>{rule, dtype});
}

__device__ __forceinline__ void least_finish(struct gm_run *run, enum gm_key_order order)
{
    typedef least<uint64_t> R;
    if (run->job->tiles == 1)
        return; /* the share has answered */
    const uint64_t key = gm_reduce_partials<R>(run, least_widen());
    if (threadIdx.x == 0)
        R::answer(run, R{gm_key_rule(run->job->dtype, order), run->job->dtype}, key);
}

} // namespace

#endif
