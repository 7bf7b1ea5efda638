/* SPDX-License-Identifier: Apache-2.0
 *
 * dot on blocks: see dot.c for the rules and sums.cuh. Products are rounded, where they are, before they are added.
 */
#include "ops/sums.cuh"

namespace
{

template <bool is_signed> struct dot_integer : sum_total {
    typedef uint32_t Word;
    typedef void Pair;
    struct Sum {
        gm_wide sum;
        __device__ __forceinline__ explicit Sum(const dot_integer &) : sum({0, 0}) {}
        __device__ __forceinline__ void add(const gm_pack<Word> &a, const gm_pack<Word> &b)
        {
#pragma unroll
            for (int e = 0; e < a.elements; e++) {
                const uint64_t product = is_signed ? (uint64_t)((int64_t)(int32_t)a.w[e] * (int32_t)b.w[e])
                                                   : (uint64_t)a.w[e] * b.w[e];
                sum = gm_wide_add(sum, sum_widen<is_signed>(product));
            }
        }
        __device__ __forceinline__ Value total() const { return sum; }
    };
    __device__ __forceinline__ static Word padding() { return 0; }
    __device__ __forceinline__ static void answer(struct gm_run *run, const dot_integer &, Value v)
    {
        sum_answer<is_signed>(run, v);
    }
};

template <class Number> struct dot_float : sum_floats {
    typedef typename Number::Word Word;
    typedef void Pair;
    struct Sum : sum_chains<gm_pack<Word>::elements> {
        __device__ __forceinline__ explicit Sum(const dot_float &) {}
        __device__ __forceinline__ void add(const gm_pack<Word> &a, const gm_pack<Word> &b)
        {
#pragma unroll
            for (int e = 0; e < a.elements; e++)
                this->chain[e] = __dadd_rn(this->chain[e], __dmul_rn(Number::of(a.w[e]), Number::of(b.w[e])));
        }
    };
    __device__ __forceinline__ static Word padding() { return 0; }
    __device__ __forceinline__ static void answer(struct gm_run *run, const dot_float &, Value v)
    {
        run->result = sum_bits(v);
    }
};

} // namespace

__device__ void gm_op_dot_share(struct gm_run *run)
{
    switch (run->job->dtype) {
    case GM_DTYPE_i32:
        gm_reduce_share(run, dot_integer<true>());
        break;
    case GM_DTYPE_u32:
        gm_reduce_share(run, dot_integer<false>());
        break;
    case GM_DTYPE_f16:
        gm_reduce_share(run, dot_float<sum_f16>());
        break;
    case GM_DTYPE_bf16:
        gm_reduce_share(run, dot_float<sum_bf16>());
        break;
    case GM_DTYPE_f32:
        gm_reduce_share(run, dot_float<sum_f32>());
        break;
    case GM_DTYPE_f64:
        gm_reduce_share(run, dot_float<sum_f64>());
        break;
    }
}

__device__ void gm_op_dot_finish(struct gm_run *run)
{
    if (run->job->tiles == 1)
        return; /* the share has answered */
    if (gm_dtype_kind(run->job->dtype) == 'f')
        sum_finish_floats<sum_plain>(run);
    else if (run->job->dtype == GM_DTYPE_i32)
        sum_finish_integers<true, widen_word>(run);
    else
        sum_finish_integers<false, widen_word>(run);
}
