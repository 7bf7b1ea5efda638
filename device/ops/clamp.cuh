/* SPDX-License-Identifier: Apache-2.0
 *
 * clamp on blocks: see map.cuh for the way. Bits are chosen, not numbers, so that those of a NaN stay.
 */
#include "ops/map.cuh"

namespace
{

template <typename N> struct clamp {
    typedef map_number<N> Number;
    typedef typename Number::Word In;
    typedef typename Number::Word Out;
    static constexpr int inputs = 1;
    In lower, upper;
    __device__ __forceinline__ Out operator()(In x, In) const
    {
        const In v = Number::of(x) < Number::of(lower) ? lower : x;
        return Number::of(v) > Number::of(upper) ? upper : v;
    }
};

template <typename N> __device__ __forceinline__ void clamp_share(struct gm_run *run)
{
    typedef typename clamp<N>::In Word;
    map_share(run, clamp<N>{(Word)run->job->value[0], (Word)run->job->value[1]});
}

} // namespace

__device__ void gm_op_clamp_share(struct gm_run *run)
{
    switch (run->job->dtype) {
    case GM_DTYPE_i32:
        clamp_share<int32_t>(run);
        break;
    case GM_DTYPE_u32:
        clamp_share<uint32_t>(run);
        break;
    case GM_DTYPE_i64:
        clamp_share<int64_t>(run);
        break;
    case GM_DTYPE_u64:
        clamp_share<uint64_t>(run);
        break;
    case GM_DTYPE_f32:
        clamp_share<float>(run);
        break;
    case GM_DTYPE_f64:
        clamp_share<double>(run);
        break;
    }
}

__device__ void gm_op_clamp_finish(struct gm_run *run) { (void)run; }
