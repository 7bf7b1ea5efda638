/* SPDX-License-Identifier: Apache-2.0
 *
 * sum on blocks: see sum.c for the rules and sums.cuh. Integers are exact: 32-bit ones in 64 bits a tile, 64-bit ones
 * in 128.
 */
#include "ops/sums.cuh"

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

template <bool is_signed> struct sum_word : sum_total {
    typedef uint64_t Word;
    struct Sum {
        gm_wide sum;
        __device__ __forceinline__ explicit Sum(const sum_word &) : sum({0, 0}) {}
        __device__ __forceinline__ void add(const gm_pack<Word> &p)
        {
#pragma unroll
            for (int e = 0; e < p.elements; e++)
                sum = gm_wide_add(sum, sum_widen<is_signed>(p.w[e]));
        }
        __device__ __forceinline__ Value total() const { return sum; }
    };
    __device__ __forceinline__ static Word padding() { return 0; }
    __device__ __forceinline__ static void answer(struct gm_run *run, const sum_word &, Value v)
    {
        sum_answer<is_signed>(run, v);
    }
};

template <class Number> struct sum_float : sum_floats {
    typedef typename Number::Word Word;
    struct Sum : sum_chains<gm_pack<Word>::elements> {
        __device__ __forceinline__ explicit Sum(const sum_float &) {}
        __device__ __forceinline__ void add(const gm_pack<Word> &p)
        {
#pragma unroll
            for (int e = 0; e < p.elements; e++)
                this->chain[e] = __dadd_rn(this->chain[e], Number::of(p.w[e]));
        }
    };
    __device__ __forceinline__ static Word padding() { return 0; }
    __device__ __forceinline__ static void answer(struct gm_run *run, const sum_float &, Value v)
    {
        run->result = sum_bits(v);
    }
};

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
    case GM_DTYPE_f16:
        gm_reduce_share(run, sum_float<sum_f16>());
        break;
    case GM_DTYPE_bf16:
        gm_reduce_share(run, sum_float<sum_bf16>());
        break;
    case GM_DTYPE_f32:
        gm_reduce_share(run, sum_float<sum_f32>());
        break;
    case GM_DTYPE_f64:
        gm_reduce_share(run, sum_float<sum_f64>());
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
        sum_finish_floats<sum_plain>(run);
        break;
    }
}
