/* SPDX-License-Identifier: Apache-2.0
 *
 * What sums of elements, products of two and squares share on blocks: see sums.h for the rules and reduce.cuh for the
 * way. Integers are exact in 128 bits; floats are added in f64, a chain for each element of a pack.
 */
#ifndef GM_OPS_SUMS_CUH
#define GM_OPS_SUMS_CUH

#include "cuda/prim/reduce.cuh"
#include "ops/half.h"
#include "ops/run.cuh"

namespace
{

/* Sums that may leave 64 bits. */
struct sum_total {
    typedef gm_wide Value;
    __device__ __forceinline__ static Value zero() { return {0, 0}; }
    __device__ __forceinline__ static Value combine(Value a, Value b) { return gm_wide_add(a, b); }
};

template <bool is_signed> __device__ __forceinline__ gm_wide sum_widen(uint64_t v)
{
    return {v, is_signed && v >> 63 ? UINT64_MAX : 0};
}

template <bool is_signed> __device__ __forceinline__ void sum_answer(struct gm_run *run, gm_wide v)
{
    run->result = v.low;
    if (v.high != (is_signed && v.low >> 63 ? UINT64_MAX : 0))
        run->status = GM_EOVERFLOW;
}

/* Element types as numbers of f64. */
struct sum_f16 {
    typedef uint16_t Word;
    __device__ __forceinline__ static double of(Word bits) { return (double)gm_f16_float(bits); }
};
struct sum_bf16 {
    typedef uint16_t Word;
    __device__ __forceinline__ static double of(Word bits) { return (double)gm_bf16_float(bits); }
};
struct sum_f32 {
    typedef uint32_t Word;
    __device__ __forceinline__ static double of(Word bits) { return (double)__uint_as_float(bits); }
};
struct sum_f64 {
    typedef uint64_t Word;
    __device__ __forceinline__ static double of(Word bits) { return __longlong_as_double((long long)bits); }
};

template <int chains> struct sum_chains {
    double chain[chains];
    __device__ __forceinline__ sum_chains()
    {
#pragma unroll
        for (int e = 0; e < chains; e++)
            chain[e] = 0;
    }
    __device__ __forceinline__ double total() const
    {
        double v[chains];
#pragma unroll
        for (int e = 0; e < chains; e++)
            v[e] = chain[e];
#pragma unroll
        for (int left = chains / 2; left > 0; left /= 2)
#pragma unroll
            for (int e = 0; e < left; e++)
                v[e] = __dadd_rn(v[2 * e], v[2 * e + 1]);
        return v[0];
    }
};

__device__ __forceinline__ uint64_t sum_bits(double v)
{
    return v == v ? (uint64_t)__double_as_longlong(v) : 0x7ff8000000000000u;
}

struct sum_floats {
    typedef double Value;
    __device__ __forceinline__ static Value zero() { return 0; }
    __device__ __forceinline__ static Value combine(Value a, Value b) { return __dadd_rn(a, b); }
};

/* Partials of tiles, two to a pair, or one. */
struct widen_float {
    static constexpr uint32_t each = 2;
    __device__ __forceinline__ double operator()(ulonglong2 v, bool both) const
    {
        return sum_f64::of(v.x) + (both ? sum_f64::of(v.y) : 0.0);
    }
};
template <bool is_signed> struct widen_narrow {
    static constexpr uint32_t each = 2;
    __device__ __forceinline__ gm_wide operator()(ulonglong2 v, bool both) const
    {
        return gm_wide_add(sum_widen<is_signed>(v.x), both ? sum_widen<is_signed>(v.y) : gm_wide{0, 0});
    }
};
struct widen_word {
    static constexpr uint32_t each = 1;
    __device__ __forceinline__ gm_wide operator()(ulonglong2 v, bool) const { return {v.x, v.y}; }
};

template <bool is_signed, class T> __device__ __noinline__ void sum_finish_integers(struct gm_run *run)
{
    const gm_wide v = gm_reduce_partials<sum_total>(run, T());
    if (threadIdx.x == 0)
        sum_answer<is_signed>(run, v);
}

/* Answer: what the sum becomes. */
template <class Answer> __device__ __noinline__ void sum_finish_floats(struct gm_run *run)
{
    const double v = gm_reduce_partials<sum_floats>(run, widen_float());
    if (threadIdx.x == 0)
        run->result = Answer::bits(v);
}

struct sum_plain {
    __device__ __forceinline__ static uint64_t bits(double v) { return sum_bits(v); }
};

} // namespace

#endif
