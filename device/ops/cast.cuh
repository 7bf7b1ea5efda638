/* SPDX-License-Identifier: Apache-2.0
 *
 * cast on blocks: see cast.c for the rules and map.cuh for the way. Every case is spelled out, so that nothing hangs on
 * what a conversion instruction does out of range.
 */
#include "ops/map.cuh"

namespace
{

/* The ends of the ranges are powers of two, so they are exact in both float types. */
template <typename To> struct cast_range;
template <> struct cast_range<int32_t> {
    static constexpr double least = -2147483648.0, end = 2147483648.0;
    static constexpr int32_t low = INT32_MIN, high = INT32_MAX;
};
template <> struct cast_range<uint32_t> {
    static constexpr double least = 0, end = 4294967296.0;
    static constexpr uint32_t low = 0, high = UINT32_MAX;
};
template <> struct cast_range<int64_t> {
    static constexpr double least = -9223372036854775808.0, end = 9223372036854775808.0;
    static constexpr int64_t low = INT64_MIN, high = INT64_MAX;
};
template <> struct cast_range<uint64_t> {
    static constexpr double least = 0, end = 18446744073709551616.0;
    static constexpr uint64_t low = 0, high = UINT64_MAX;
};

template <typename T> struct cast_is_float {
    static constexpr bool value = false;
};
template <> struct cast_is_float<float> {
    static constexpr bool value = true;
};
template <> struct cast_is_float<double> {
    static constexpr bool value = true;
};

template <typename From, typename To> struct cast {
    typedef typename map_number<From>::Word In;
    typedef typename map_number<To>::Word Out;
    static constexpr int inputs = 1;
    __device__ __forceinline__ Out operator()(In w, In) const
    {
        const From x = map_number<From>::of(w);
        if constexpr (cast_is_float<From>::value && !cast_is_float<To>::value) {
            typedef cast_range<To> range;
            if (!(x == x))
                return 0;
            if (x < (From)range::least)
                return range::low;
            return x >= (From)range::end ? range::high : (To)x;
        } else {
            return map_number<To>::bits((To)x); /* to nearest even; integers keep the low bits */
        }
    }
};

template <typename From, typename To> __device__ __forceinline__ void cast_share(struct gm_run *run)
{
    map_share(run, cast<From, To>());
}

/* From is signed where that matters; as outputs integers of a width are alike. */
template <typename From> __device__ __forceinline__ void cast_integer(struct gm_run *run)
{
    const uint32_t to = run->job->type2;
    if (to == GM_DTYPE_f32)
        cast_share<From, float>(run);
    else if (to == GM_DTYPE_f64)
        cast_share<From, double>(run);
    else if (gm_dtype_bytes(to) == 8u && sizeof(From) == 8u)
        cast_share<uint64_t, uint64_t>(run);
    else if (gm_dtype_bytes(to) == 8u)
        cast_share<From, uint64_t>(run);
    else if (sizeof(From) == 8u)
        cast_share<uint64_t, uint32_t>(run);
    else
        cast_share<uint32_t, uint32_t>(run);
}

template <typename From> __device__ __forceinline__ void cast_float(struct gm_run *run)
{
    switch (run->job->type2) {
    case GM_DTYPE_i32:
        cast_share<From, int32_t>(run);
        break;
    case GM_DTYPE_u32:
        cast_share<From, uint32_t>(run);
        break;
    case GM_DTYPE_i64:
        cast_share<From, int64_t>(run);
        break;
    case GM_DTYPE_u64:
        cast_share<From, uint64_t>(run);
        break;
    case GM_DTYPE_f32: /* of the same type bits stay */
        if (sizeof(From) == 4u)
            cast_share<uint32_t, uint32_t>(run);
        else
            cast_share<double, float>(run);
        break;
    case GM_DTYPE_f64:
        if (sizeof(From) == 8u)
            cast_share<uint64_t, uint64_t>(run);
        else
            cast_share<float, double>(run);
        break;
    }
}

} // namespace

__device__ void gm_op_cast_share(struct gm_run *run)
{
    switch (run->job->dtype) {
    case GM_DTYPE_i32:
        cast_integer<int32_t>(run);
        break;
    case GM_DTYPE_u32:
        cast_integer<uint32_t>(run);
        break;
    case GM_DTYPE_i64:
        cast_integer<int64_t>(run);
        break;
    case GM_DTYPE_u64:
        cast_integer<uint64_t>(run);
        break;
    case GM_DTYPE_f32:
        cast_float<float>(run);
        break;
    case GM_DTYPE_f64:
        cast_float<double>(run);
        break;
    }
}

__device__ void gm_op_cast_finish(struct gm_run *run) { (void)run; }
