/* SPDX-License-Identifier: Apache-2.0
 *
 * What argmin and argmax share on blocks: the least key under their key order (keys.h) and the first element that has
 * it, see arg.h for the rules and reduce.cuh for the way. A tile's partial is a 128-bit number: the key, zero-extended,
 * and below it the element's place in the tile, so that the least number is the first of the least.
 */
#ifndef GM_OPS_ARG_CUH
#define GM_OPS_ARG_CUH

#include "cuda/prim/reduce.cuh"
#include "ops/keys.h"
#include "ops/run.cuh"

namespace
{

__device__ __forceinline__ uint16_t arg_key(const struct gm_key_rule &rule, uint16_t v)
{
    return gm_key_encode_u16(&rule, v);
}
__device__ __forceinline__ uint32_t arg_key(const struct gm_key_rule &rule, uint32_t v)
{
    return gm_key_encode_u32(&rule, v);
}
__device__ __forceinline__ uint64_t arg_key(const struct gm_key_rule &rule, uint64_t v)
{
    return gm_key_encode_u64(&rule, v);
}

/* high: the key; low: the place. */
struct arg_least {
    typedef gm_wide Value;
    __device__ __forceinline__ static Value zero() { return {UINT64_MAX, UINT64_MAX}; }
    __device__ __forceinline__ static Value combine(Value a, Value b)
    {
        return b.high < a.high || (b.high == a.high && b.low < a.low) ? b : a;
    }
};

template <typename W> struct arg : arg_least {
    typedef W Word;
    static constexpr uint32_t E = gm_pack<Word>::elements;
    struct gm_key_rule rule;
    Word nan;  /* NaNs all have this key */
    Word last; /* an element with the greatest key */
    struct Sum {
        struct gm_key_rule rule;
        Word nan, best;
        uint32_t at, next; /* elements of this thread's packs, counted */
        __device__ __forceinline__ explicit Sum(const arg &r) : rule(r.rule), nan(r.nan), best(0), at(0), next(0) {}
        __device__ __forceinline__ void add(const gm_pack<Word> &p)
        {
#pragma unroll
            for (uint32_t e = 0; e < E; e++) {
                const Word key = max((Word)arg_key(rule, p.w[e]), nan);
                const bool better = next + e == 0 || key < best;
                best = better ? key : best;
                at = better ? next + e : at;
            }
            next += E;
        }
        /* Pack k of thread t is number k * threads + t of the tile. */
        __device__ __forceinline__ Value total() const
        {
            return {(at / E * GM_CUDA_THREADS + threadIdx.x) * E + at % E, best};
        }
        __device__ __forceinline__ Sum &operator=(const Sum &other)
        {
            best = other.best, at = other.at, next = other.next;
            return *this;
        }
    };
    /* Behind all elements: where keys are equal those win. */
    __device__ __forceinline__ Word padding() const { return last; }
    __device__ __forceinline__ static void answer(struct gm_run *run, const arg &, Value v) { run->result = v.low; }
};

__device__ __forceinline__ void arg_share(struct gm_run *run, enum gm_key_order order)
{
    const uint32_t dtype = run->job->dtype;
    const struct gm_key_rule rule = gm_key_rule(dtype, order);
    const uint64_t nan = gm_key_nan_last(dtype);
    if (gm_dtype_bytes(dtype) == 2u)
        gm_reduce_share(run, arg<uint16_t>{{}, rule, (uint16_t)nan, gm_key_decode_u16(&rule, 0xffffu)});
    else if (gm_dtype_bytes(dtype) == 4u)
        gm_reduce_share(run, arg<uint32_t>{{}, rule, (uint32_t)nan, gm_key_decode_u32(&rule, 0xffffffffu)});
    else
        gm_reduce_share(run, arg<uint64_t>{{}, rule, nan, gm_key_decode_u64(&rule, ~(uint64_t)0)});
}

/* The places of tiles become indices here. Whole block. */
__device__ __forceinline__ void arg_finish(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    const unsigned long long *from = (const unsigned long long *)job->workspace;
    gm_wide best = arg_least::zero();
    if (job->tiles == 1)
        return; /* the share has answered */
    for (uint64_t t = threadIdx.x; t < job->tiles; t += GM_CUDA_THREADS) {
        const ulonglong2 partial = __ldcg((const ulonglong2 *)from + t);
        best = arg_least::combine(best, {t * job->tile_elements + partial.x, partial.y});
    }
    best = gm_block_combine<arg_least>(best, gm_run_scratch<gm_wide>(0));
    if (threadIdx.x == 0)
        run->result = best.low;
}

} // namespace

#endif
