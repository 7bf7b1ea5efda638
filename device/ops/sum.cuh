/* SPDX-License-Identifier: Apache-2.0
 *
 * sum on blocks: see sum.c for the rules and reduce.cuh for the way. Integers are exact: 32-bit ones in 64 bits a tile,
 * 64-bit ones in halves; floats are added in f64, a chain for each element of a pack.
 */
#include "cuda/prim/reduce.cuh"
#include "ops/run.cuh"

namespace
{

/* Exact sum of integers of 32 bits: a tile's fits 64. */
template <bool is_signed> struct sum_narrow {
    typedef uint32_t Word;
    typedef uint64_t Value;
    struct Sum {
        uint64_t sum;
        __device__ __forceinline__ explicit Sum(const sum_narrow &) : sum(0) {}
        __device__ __forceinline__ void add(const gm_pack<Word> &p)
        {
#pragma unroll
            for (int e = 0; e < p.elements; e++)
                sum += is_signed ? (uint64_t)(int64_t)(int32_t)p.w[e] : p.w[e];
        }
        __device__ __forceinline__ Value total() const { return sum; }
    };
    __device__ __forceinline__ static Word padding() { return 0; }
    __device__ __forceinline__ static Value zero() { return 0; }
    __device__ __forceinline__ static Value combine(Value a, Value b) { return a + b; }
    __device__ __forceinline__ static void answer(struct gm_run *run, const sum_narrow &, Value v) { run->result = v; }
};

/* Sums that may leave 64 bits: of tiles, and of integers of 64 bits. */
struct sum_total {
    typedef gm_wide Value;
    __device__ __forceinline__ static Value zero() { return {0, 0}; }
    __device__ __forceinline__ static Value combine(Value a, Value b) { return gm_wide_add(a, b); }
};

template <bool is_signed> __device__ __forceinline__ void sum_answer(struct gm_run *run, gm_wide v)
{
    run->result = v.low;
    if (v.high != (is_signed && v.low >> 63 ? UINT64_MAX : 0))
        run->status = GM_EOVERFLOW;
}

template <bool is_signed> struct sum_word : sum_total {
    typedef uint64_t Word;
    struct Sum {
        gm_wide sum;
        __device__ __forceinline__ explicit Sum(const sum_word &) : sum({0, 0}) {}
        __device__ __forceinline__ void add(const gm_pack<Word> &p)
        {
#pragma unroll
            for (int e = 0; e < p.elements; e++)
                sum = gm_wide_add(sum, {p.w[e], is_signed && p.w[e] >> 63 ? UINT64_MAX : 0});
        }
        __device__ __forceinline__ Value total() const { return sum; }
    };
    __device__ __forceinline__ static Word padding() { return 0; }
    __device__ __forceinline__ static void answer(struct gm_run *run, const sum_word &, Value v)
    {
        sum_answer<is_signed>(run, v);
    }
};

__device__ __forceinline__ double sum_number(uint32_t bits) { return (double)__uint_as_float(bits); }
__device__ __forceinline__ double sum_number(uint64_t bits) { return __longlong_as_double((long long)bits); }

template <typename W> struct sum_float {
    typedef W Word;
    typedef double Value;
    struct Sum {
        double chain[gm_pack<Word>::elements];
        __device__ __forceinline__ explicit Sum(const sum_float &)
        {
#pragma unroll
            for (int e = 0; e < gm_pack<Word>::elements; e++)
                chain[e] = 0;
        }
        __device__ __forceinline__ void add(const gm_pack<Word> &p)
        {
#pragma unroll
            for (int e = 0; e < p.elements; e++)
                chain[e] += sum_number(p.w[e]);
        }
        __device__ __forceinline__ Value total() const
        {
            if (gm_pack<Word>::elements == 2)
                return chain[0] + chain[1];
            return (chain[0] + chain[1]) + (chain[2 % gm_pack<Word>::elements] + chain[3 % gm_pack<Word>::elements]);
        }
    };
    __device__ __forceinline__ static Word padding() { return 0; }
    __device__ __forceinline__ static Value zero() { return 0; }
    __device__ __forceinline__ static Value combine(Value a, Value b) { return a + b; }
    __device__ __forceinline__ static void answer(struct gm_run *run, const sum_float &, Value v)
    {
        run->result = v == v ? (uint64_t)__double_as_longlong(v) : 0x7ff8000000000000u;
    }
};

struct widen_float {
    static constexpr uint32_t each = 2;
    __device__ __forceinline__ double operator()(ulonglong2 v, bool both) const
    {
        return sum_number((uint64_t)v.x) + (both ? sum_number((uint64_t)v.y) : 0.0);
    }
};
template <bool is_signed> struct widen_narrow {
    static constexpr uint32_t each = 2;
    __device__ __forceinline__ static gm_wide one(uint64_t v)
    {
        return {v, is_signed && v >> 63 ? UINT64_MAX : 0};
    }
    __device__ __forceinline__ gm_wide operator()(ulonglong2 v, bool both) const
    {
        return gm_wide_add(one(v.x), both ? one(v.y) : gm_wide{0, 0});
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

__device__ __noinline__ void sum_finish_floats(struct gm_run *run)
{
    typedef sum_float<uint64_t> R;
    const double v = gm_reduce_partials<R>(run, widen_float());
    if (threadIdx.x == 0)
        R::answer(run, R(), v);
}

} // namespace

__device__ void gm_op_sum_share(struct gm_run *run)
{
    switch (run->job->dtype) {
    case GM_DTYPE_i32:
        gm_reduce_share(run, sum_narrow<true>());
        break;
    case GM_DTYPE_u32:
        gm_reduce_share(run, sum_narrow<false>());
        break;
    case GM_DTYPE_i64:
        gm_reduce_share(run, sum_word<true>());
        break;
    case GM_DTYPE_u64:
        gm_reduce_share(run, sum_word<false>());
        break;
    case GM_DTYPE_f32:
        gm_reduce_share(run, sum_float<uint32_t>());
        break;
    case GM_DTYPE_f64:
        gm_reduce_share(run, sum_float<uint64_t>());
        break;
    }
}

__device__ void gm_op_sum_finish(struct gm_run *run)
{
    if (run->job->tiles == 1)
        return; /* the share has answered */
    switch (run->job->dtype) {
    case GM_DTYPE_i32:
        sum_finish_integers<true, widen_narrow<true>>(run);
        break;
    case GM_DTYPE_u32:
        sum_finish_integers<false, widen_narrow<false>>(run);
        break;
    case GM_DTYPE_i64:
        sum_finish_integers<true, widen_word>(run);
        break;
    case GM_DTYPE_u64:
        sum_finish_integers<false, widen_word>(run);
        break;
    default:
        sum_finish_floats(run);
        break;
    }
}
