/* SPDX-License-Identifier: Apache-2.0
 *
 * norm2 on blocks: see norm2.c for the rules and sums.cuh.
 */
#include "ops/sums.cuh"

namespace
{

struct norm2_root {
    __device__ __forceinline__ static uint64_t bits(double v) { return sum_bits(__dsqrt_rn(v)); }
};

template <class Number> struct norm2 : sum_floats {
    typedef typename Number::Word Word;
    struct Sum : sum_chains<gm_pack<Word>::elements> {
        __device__ __forceinline__ explicit Sum(const norm2 &) {}
        __device__ __forceinline__ void add(const gm_pack<Word> &p)
        {
#pragma unroll
            for (int e = 0; e < p.elements; e++) {
                const double x = Number::of(p.w[e]);
                this->chain[e] = __dadd_rn(this->chain[e], __dmul_rn(x, x));
            }
        }
    };
    __device__ __forceinline__ static Word padding() { return 0; }
    __device__ __forceinline__ static void answer(struct gm_run *run, const norm2 &, Value v)
    {
        run->result = norm2_root::bits(v);
    }
};

} // namespace

__device__ void gm_op_norm2_share(struct gm_run *run)
{
    switch (run->job->dtype) {
    case GM_DTYPE_f16:
        gm_reduce_share(run, norm2<sum_f16>());
        break;
    case GM_DTYPE_bf16:
        gm_reduce_share(run, norm2<sum_bf16>());
        break;
    case GM_DTYPE_f32:
        gm_reduce_share(run, norm2<sum_f32>());
        break;
    case GM_DTYPE_f64:
        gm_reduce_share(run, norm2<sum_f64>());
        break;
    }
}

__device__ void gm_op_norm2_finish(struct gm_run *run)
{
    if (run->job->tiles != 1) /* else the share has answered */
        sum_finish_floats<norm2_root>(run);
}
