/* SPDX-License-Identifier: Apache-2.0
 *
 * segmented_sum on blocks: see segmented_sum.c for the rules and segments.cuh for the way.
 */
#include "ops/segments.cuh"
#include "ops/sums.cuh"

namespace
{

/* Exact, in 128 bits. */
template <typename W, bool is_signed> struct seg_integer {
    typedef W Word;
    typedef gm_wide Value;
    __device__ __forceinline__ static Word item(Word w) { return w; }
    __device__ __forceinline__ static Word nothing() { return 0; }
    __device__ __forceinline__ static Value zero() { return {0, 0}; }
    __device__ __forceinline__ static Value add(Value v, Word w)
    {
        const uint64_t wide = is_signed && sizeof(Word) == 4u ? (uint64_t)(int64_t)(int32_t)w : (uint64_t)w;
        return gm_wide_add(v, sum_widen<is_signed>(wide));
    }
    __device__ __forceinline__ static Value combine(Value a, Value b) { return gm_wide_add(a, b); }
    __device__ __forceinline__ static uint64_t low(Value v) { return v.low; }
    __device__ __forceinline__ static uint64_t high(Value v) { return v.high; }
    __device__ __forceinline__ static Value of(uint64_t low, uint64_t high) { return {low, high}; }
    __device__ __forceinline__ static bool put(Word *out, Value v)
    {
        const Word w = (Word)v.low;
        const Value same = add(zero(), w);
        *out = w;
        return same.low == v.low && same.high == v.high;
    }
};

template <class Number> struct seg_float {
    typedef typename Number::Word Word;
    typedef double Value;
    __device__ __forceinline__ static Word item(Word w) { return w; }
    __device__ __forceinline__ static Word nothing() { return 0; }
    __device__ __forceinline__ static Value zero() { return 0; }
    __device__ __forceinline__ static Value add(Value v, Word w) { return __dadd_rn(v, Number::of(w)); }
    __device__ __forceinline__ static Value combine(Value a, Value b) { return __dadd_rn(a, b); }
    __device__ __forceinline__ static uint64_t low(Value v) { return (uint64_t)__double_as_longlong(v); }
    __device__ __forceinline__ static uint64_t high(Value) { return 0; }
    __device__ __forceinline__ static Value of(uint64_t low, uint64_t) { return sum_f64::of(low); }
    __device__ __forceinline__ static void put_bits(uint32_t *out, Value v)
    {
        *out = v == v ? __float_as_uint(__double2float_rn(v)) : 0x7fc00000u;
    }
    __device__ __forceinline__ static void put_bits(uint64_t *out, Value v) { *out = sum_bits(v); }
    __device__ __forceinline__ static bool put(Word *out, Value v)
    {
        put_bits(out, v);
        return true;
    }
};

/* Calls what for the reduction of the job's type. */
template <class What> __device__ __forceinline__ void segmented_sum(struct gm_run *run, What what)
{
    switch (run->job->dtype) {
    case GM_DTYPE_i32:
        what(run, seg_integer<uint32_t, true>());
        break;
    case GM_DTYPE_u32:
        what(run, seg_integer<uint32_t, false>());
        break;
    case GM_DTYPE_i64:
        what(run, seg_integer<uint64_t, true>());
        break;
    case GM_DTYPE_u64:
        what(run, seg_integer<uint64_t, false>());
        break;
    case GM_DTYPE_f32:
        what(run, seg_float<sum_f32>());
        break;
    case GM_DTYPE_f64:
        what(run, seg_float<sum_f64>());
        break;
    }
}

struct segmented_sum_share {
    template <class R> __device__ __forceinline__ void operator()(struct gm_run *run, R r) const
    {
        seg_share(run, r);
    }
};
struct segmented_sum_finish {
    template <class R> __device__ __forceinline__ void operator()(struct gm_run *run, R r) const
    {
        seg_finish(run, r);
    }
};

} // namespace

__device__ void gm_op_segmented_sum_share(struct gm_run *run) { segmented_sum(run, segmented_sum_share()); }

__device__ void gm_op_segmented_sum_finish(struct gm_run *run) { segmented_sum(run, segmented_sum_finish()); }
