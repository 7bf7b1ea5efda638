/* SPDX-License-Identifier: Apache-2.0
 *
 * axpby on blocks: see map.cuh for the way. Integers wrap, so signed ones are done as unsigned.
 */
#include "ops/map.cuh"

namespace
{

__device__ __forceinline__ uint32_t axpby_one(uint32_t alpha, uint32_t x, uint32_t beta, uint32_t y)
{
    return alpha * x + beta * y;
}
__device__ __forceinline__ uint64_t axpby_one(uint64_t alpha, uint64_t x, uint64_t beta, uint64_t y)
{
    return alpha * x + beta * y;
}
__device__ __forceinline__ float axpby_one(float alpha, float x, float beta, float y)
{
    return __fmaf_rn(alpha, x, __fmul_rn(beta, y));
}
__device__ __forceinline__ double axpby_one(double alpha, double x, double beta, double y)
{
    return __fma_rn(alpha, x, __dmul_rn(beta, y));
}

template <typename N> struct axpby {
    typedef map_number<N> Number;
    typedef typename Number::Word In;
    typedef typename Number::Word Out;
    static constexpr int inputs = 2;
    N alpha, beta;
    __device__ __forceinline__ Out operator()(In x, In y) const
    {
        return Number::bits(axpby_one(alpha, Number::of(x), beta, Number::of(y)));
    }
};

template <typename N> __device__ __forceinline__ void axpby_share(struct gm_run *run)
{
    typedef map_number<N> Number;
    const struct gm_job *job = run->job;
    map_share(run, axpby<N>{Number::of((typename Number::Word)job->value[0]),
                            Number::of((typename Number::Word)job->value[1])});
}

} // namespace

__device__ void gm_op_axpby_share(struct gm_run *run)
{
    map_wrapping(run, [run](auto zero) { axpby_share<decltype(zero)>(run); });
}

__device__ void gm_op_axpby_finish(struct gm_run *run) { (void)run; }
