/* SPDX-License-Identifier: Apache-2.0
 *
 * What argmin and argmax share on blocks: the least key under their key order (keys.h) and the first element that has
 * it, see arg.h for the rules and reduce.cuh for the way. A tile's partial is a 128-bit number: the key, zero-extended,
 * and below it the place in the tile of the pack that has it, so that the least number is the first of the least. Which
 * of the pack's elements it is, is looked up at the end.
 */
#ifndef GM_OPS_ARG_CUH
#define GM_OPS_ARG_CUH

#include "cuda/prim/reduce.cuh"
#include "ops/keys.h"
#include "ops/run.cuh"

namespace
{

/* high: the key; low: the place of the pack that it is in. */
struct arg_least {
    typedef gm_wide Value;
    __device__ __forceinline__ static Value zero() { return {UINT64_MAX, UINT64_MAX}; }
    __device__ __forceinline__ static Value combine(Value a, Value b)
    {
        return b.high < a.high || (b.high == a.high && b.low < a.low) ? b : a;
    }
};

/* gm_key_encode in fewer steps: to invert the highest bit is to add it, and the inverse of a sum is the inverse of the
 * one less the other. */
template <typename Word> struct arg_keys {
    Word negative, positive, added;
    Word nan; /* NaNs all have this key */
    __device__ __forceinline__ Word of(Word v) const
    {
        const Word sign = (Word)(0 - (v >> (sizeof(Word) * 8u - 1u)));
        return (Word)((v ^ ((sign & negative) | ((Word)~sign & positive))) + added);
    }
};

template <typename W> struct arg : arg_least {
    typedef W Word;
    static constexpr uint32_t E = gm_pack<Word>::elements;
    struct arg_keys<Word> keys;
    Word last; /* an element with the greatest key */

    __device__ __forceinline__ explicit arg(const struct gm_run *run, enum gm_key_order order)
    {
        const uint32_t dtype = run->job->dtype;
        const struct gm_key_rule rule = gm_key_rule(dtype, order);
        const Word up = (Word)(rule.flip + rule.rotate);
        keys.negative = (Word)(rule.negative ^ rule.reverse);
        keys.positive = (Word)rule.reverse;
        keys.added = rule.reverse != 0 ? (Word)(0u - up) : up;
        keys.nan = (Word)gm_key_nan_last(dtype);
        last = decode(&rule, (Word) ~(Word)0);
    }
    __device__ __forceinline__ static uint16_t decode(const struct gm_key_rule *rule, uint16_t key)
    {
        return gm_key_decode_u16(rule, key);
    }
    __device__ __forceinline__ static uint32_t decode(const struct gm_key_rule *rule, uint32_t key)
    {
        return gm_key_decode_u32(rule, key);
    }
    __device__ __forceinline__ static uint64_t decode(const struct gm_key_rule *rule, uint64_t key)
    {
        return gm_key_decode_u64(rule, key);
    }

    /* Looks no further than which pack it is. */
    struct Sum {
        struct arg_keys<Word> keys;
        Word best;
        uint32_t at, next; /* packs of this thread, counted */
        __device__ __forceinline__ explicit Sum(const arg &r) : keys(r.keys), best((Word) ~(Word)0), at(0), next(0) {}
        __device__ __forceinline__ void add(const gm_pack<Word> &p)
        {
            Word least = ~(Word)0;
#pragma unroll
            for (uint32_t e = 0; e < E; e++)
                least = min(least, keys.of(p.w[e]));
            least = max(least, keys.nan);
            at = least < best ? next : at;
            best = min(least, best);
            next++;
        }
        /* Pack k of thread t is number k * threads + t of the tile. */
        __device__ __forceinline__ Value total() const
        {
            return {(at * GM_CUDA_THREADS + threadIdx.x) * E, best};
        }
    };
    /* Behind all elements: where keys are equal those win. */
    __device__ __forceinline__ Word padding() const
    {
        return last;
    }

    /* The element of a pack, by a second look, which may find other data than the first: then any is as right. */
    __device__ __forceinline__ uint64_t look(const struct gm_run *run, Value v) const
    {
        const Word *in = gm_run_buffer<const Word>(run, 0) + v.low;
        const uint64_t left = run->job->n - v.low;
        uint32_t at = 0;
        Word w[E];
#pragma unroll
        for (uint32_t e = 0; e < E; e++)
            w[e] = e < left ? gm_global_load(in + e) : last;
#pragma unroll
        for (uint32_t e = E; e-- > 0;)
            at = e < left && max(keys.of(w[e]), keys.nan) == (Word)v.high ? e : at;
        return v.low + at;
    }
    __device__ __forceinline__ static void answer(struct gm_run *run, const arg &r, Value v)
    {
        run->result = r.look(run, v);
    }
};

/* Calls f with the reduction of the job's type. */
template <class F> __device__ __forceinline__ void arg_typed(struct gm_run *run, enum gm_key_order order, F f)
{
    const uint32_t bytes = gm_dtype_bytes(run->job->dtype);
    if (bytes == 2u)
        f(arg<uint16_t>(run, order));
    else if (bytes == 4u)
        f(arg<uint32_t>(run, order));
    else
        f(arg<uint64_t>(run, order));
}

__device__ __forceinline__ void arg_share(struct gm_run *run, enum gm_key_order order)
{
    arg_typed(run, order, [run](const auto &r) { gm_reduce_share(run, r); });
}

/* The places of tiles become indices here. Whole block. */
__device__ __forceinline__ void arg_finish(struct gm_run *run, enum gm_key_order order)
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
        arg_typed(run, order, [run, best](const auto &r) { r.answer(run, r, best); });
}

} // namespace

#endif
