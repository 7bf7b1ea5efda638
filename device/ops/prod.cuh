/* SPDX-License-Identifier: Apache-2.0
 *
 * prod on blocks: see prod.h for the rules and reduce.cuh for the way. A value is a gm_prod in the halves of a gm_wide.
 */
#include "ops/sums.cuh"
#include "ops/prod.h"
#include "ops/run.cuh"

namespace
{

__device__ __forceinline__ gm_wide prod_wide(struct gm_prod p)
{
    return {p.value, p.notes};
}
__device__ __forceinline__ struct gm_prod prod_of(gm_wide v)
{
    return {v.low, v.high};
}

__device__ __forceinline__ void prod_times(struct gm_prod *p, uint64_t magnitude)
{
    p->notes |= __umul64hi(p->value, magnitude) != 0 ? GM_PROD_LARGE : 0;
    p->value *= magnitude;
}

struct prod_integers {
    typedef gm_wide Value;
    __device__ __forceinline__ static Value zero() { return {1, 0}; }
    __device__ __forceinline__ static Value combine(Value a, Value b)
    {
        struct gm_prod p = prod_of(a);
        prod_times(&p, b.low);
        p.notes = gm_prod_notes(p.notes, b.high);
        return prod_wide(p);
    }
};

/* What is too large stays too large, also when one of the two magnitudes has become 0 by being cut. */
template <typename W, bool is_signed> struct prod_integer : prod_integers {
    typedef W Word;
    struct Sum {
        struct gm_prod p;
        __device__ __forceinline__ explicit Sum(const prod_integer &) : p({1, 0}) {}
        __device__ __forceinline__ void add(const gm_pack<Word> &pack)
        {
#pragma unroll
            for (int e = 0; e < pack.elements; e++) {
                const Word v = pack.w[e];
                const bool negative = is_signed && v >> (sizeof(Word) * 8u - 1u) != 0;
                p.notes ^= negative ? GM_PROD_NEGATIVE : 0u;
                p.notes |= v == 0 ? GM_PROD_ZERO : 0u;
                prod_times(&p, v == 0 ? (Word)1 : negative ? (Word)((Word)0 - v) : v);
            }
        }
        __device__ __forceinline__ Value total() const
        {
            return prod_wide(p);
        }
    };
    __device__ __forceinline__ static Word padding()
    {
        return 1;
    }
    __device__ __forceinline__ static void answer(struct gm_run *run, const prod_integer &, Value v)
    {
        run->result = gm_prod_integer(prod_of(v), is_signed, &run->status);
    }
};

struct prod_floats {
    typedef gm_wide Value;
    __device__ __forceinline__ static Value zero() { return {GM_PROD_ONE_BITS, 0}; }
    __device__ __forceinline__ static Value combine(Value a, Value b)
    {
        return prod_wide(gm_prod_join(prod_of(a), prod_of(b)));
    }
};

/* A few elements at a time are multiplied as they are, which nothing can overflow or vanish in: four of 32 bits or less
 * are from 2^-149 up to 2^128 each, one of 64 bits is no denormal, and the fraction before them is from 1 up to 2. Only
 * a product that is zero, infinite, NaN, or near a denormal shows that this is not so, and is done once more. */
template <class Number> struct prod_float : prod_floats {
    typedef typename Number::Word Word;
    Word one;
    struct Sum {
        double fraction; /* from 1 up to 2 */
        int64_t exponent;
        uint32_t notes;
        __device__ __forceinline__ explicit Sum(const prod_float &) : fraction(1.0), exponent(0), notes(0) {}
        __device__ __forceinline__ void add(const gm_pack<Word> &pack)
        {
            constexpr int some = sizeof(Word) == 8u ? 1 : 4;
#pragma unroll
            for (int g = 0; g < pack.elements; g += some) {
                double v[some], product = fraction;
#pragma unroll
                for (int e = 0; e < some; e++) {
                    v[e] = Number::of(pack.w[g + e]);
                    product *= v[e];
                }
                const uint32_t high = (uint32_t)(gm_prod_bits(product) >> 32), power = high >> 20 & 2047u;
                if (power > 1u && power < 2047u) {
                    notes ^= high >> 31;
                } else {
                    product = fraction;
#pragma unroll
                    for (int e = 0; e < some; e++)
                        product *= gm_prod_element(v[e], &exponent, &notes);
                }
                exponent += gm_prod_split_normal(&product);
                fraction = product;
            }
        }
        __device__ __forceinline__ Value total() const
        {
            return prod_wide(gm_prod_float(fraction, exponent, notes));
        }
    };
    __device__ __forceinline__ Word padding() const
    {
        return one;
    }
    __device__ __forceinline__ static void answer(struct gm_run *run, const prod_float &, Value v)
    {
        run->result = gm_prod_answer(prod_of(v));
    }
};

template <class R> __device__ __noinline__ gm_wide prod_partials(struct gm_run *run)
{
    return gm_reduce_partials<R>(run, widen_word());
}

} // namespace

__device__ void gm_op_prod_share(struct gm_run *run)
{
    switch (run->job->dtype) {
    case GM_DTYPE_i32:
        gm_reduce_share(run, prod_integer<uint32_t, true>());
        break;
    case GM_DTYPE_u32:
        gm_reduce_share(run, prod_integer<uint32_t, false>());
        break;
    case GM_DTYPE_i64:
        gm_reduce_share(run, prod_integer<uint64_t, true>());
        break;
    case GM_DTYPE_u64:
        gm_reduce_share(run, prod_integer<uint64_t, false>());
        break;
    case GM_DTYPE_f16:
        gm_reduce_share(run, prod_float<sum_f16>{{}, 0x3c00u});
        break;
    case GM_DTYPE_bf16:
        gm_reduce_share(run, prod_float<sum_bf16>{{}, 0x3f80u});
        break;
    case GM_DTYPE_f32:
        gm_reduce_share(run, prod_float<sum_f32>{{}, 0x3f800000u});
        break;
    case GM_DTYPE_f64:
        gm_reduce_share(run, prod_float<sum_f64>{{}, GM_PROD_ONE_BITS});
        break;
    }
}

__device__ void gm_op_prod_finish(struct gm_run *run)
{
    const char kind = gm_dtype_kind(run->job->dtype);
    if (run->job->tiles == 1)
        return; /* the share has answered */
    const gm_wide v = kind == 'f' ? prod_partials<prod_floats>(run) : prod_partials<prod_integers>(run);
    if (threadIdx.x == 0)
        run->result = kind == 'f' ? gm_prod_answer(prod_of(v)) : gm_prod_integer(prod_of(v), kind == 'i', &run->status);
}
