/* SPDX-License-Identifier: Apache-2.0
 *
 * cast on blocks: see cast.c for the rules and map.cuh for the way. Every case is spelled out, so that nothing hangs on
 * what a conversion instruction does out of range.
 */
#include "ops/map.cuh"
#include "ops/narrow.h"

namespace
{

/* Two types of 16 bits that are no C++ types. */
struct half_type {};
struct bfloat_type {};

/* What an element of From stands for. */
template <typename From> struct cast_from {
    typedef typename map_number<From>::Word Word;
    __device__ __forceinline__ static From number(Word w) { return map_number<From>::of(w); }
};
template <> struct cast_from<half_type> {
    typedef uint16_t Word;
    __device__ __forceinline__ static float number(Word w) { return gm_f32_of_f16(w); }
};
template <> struct cast_from<bfloat_type> {
    typedef uint16_t Word;
    __device__ __forceinline__ static float number(Word w) { return gm_f32_of_bf16(w); }
};

/* The ends of the ranges are powers of two, so they are exact in both float types. */
template <typename To> struct cast_range;
template <> struct cast_range<int8_t> {
    static constexpr double least = -128.0, end = 128.0;
    static constexpr int8_t low = INT8_MIN, high = INT8_MAX;
};
template <> struct cast_range<uint8_t> {
    static constexpr double least = 0, end = 256.0;
    static constexpr uint8_t low = 0, high = UINT8_MAX;
};
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

/* An f32 that decides the narrow float as the number itself would. */
__device__ __forceinline__ float cast_odd(float x) { return x; }
__device__ __forceinline__ float cast_odd(double x) { return gm_odd_f32_of_f64(x); }
__device__ __forceinline__ float cast_odd(uint8_t x) { return (float)x; }
__device__ __forceinline__ float cast_odd(int8_t x) { return (float)x; }
__device__ __forceinline__ float cast_odd(uint32_t x) { return gm_odd_f32_of_u64(x); }
__device__ __forceinline__ float cast_odd(int32_t x) { return gm_odd_f32_of_i64(x); }
__device__ __forceinline__ float cast_odd(uint64_t x) { return gm_odd_f32_of_u64(x); }
__device__ __forceinline__ float cast_odd(int64_t x) { return gm_odd_f32_of_i64(x); }

template <typename To> struct cast_to_integer {
    typedef To Word;
    template <typename N> __device__ __forceinline__ static Word of(N x) { return (Word)x; } /* the low bits */
    __device__ __forceinline__ static Word of(float x) { return stop(x); }
    __device__ __forceinline__ static Word of(double x) { return stop(x); }
    template <typename N> __device__ __forceinline__ static Word stop(N x)
    {
        typedef cast_range<To> range;
        if (!(x == x))
            return 0;
        if (x < (N)range::least)
            return range::low;
        return x >= (N)range::end ? range::high : (To)x;
    }
};
template <typename To> struct cast_to : cast_to_integer<To> {};
template <> struct cast_to<float> {
    typedef uint32_t Word;
    template <typename N> __device__ __forceinline__ static Word of(N x) { return map_number<float>::bits((float)x); }
};
template <> struct cast_to<double> {
    typedef uint64_t Word;
    template <typename N> __device__ __forceinline__ static Word of(N x) { return map_number<double>::bits((double)x); }
};
template <> struct cast_to<half_type> {
    typedef uint16_t Word;
    template <typename N> __device__ __forceinline__ static Word of(N x) { return gm_f16_of_f32(cast_odd(x)); }
};
template <> struct cast_to<bfloat_type> {
    typedef uint16_t Word;
    template <typename N> __device__ __forceinline__ static Word of(N x) { return gm_bf16_of_f32(cast_odd(x)); }
};

template <typename From, typename To> struct cast {
    typedef typename cast_from<From>::Word In;
    typedef typename cast_to<To>::Word Out;
    static constexpr int inputs = 1;
    __device__ __forceinline__ Out operator()(In w, In) const { return cast_to<To>::of(cast_from<From>::number(w)); }
};

template <typename From, typename To> __device__ __forceinline__ void cast_share(struct gm_run *run)
{
    map_share(run, cast<From, To>());
}

struct cast_same {
    typedef uint16_t In;
    typedef uint16_t Out;
    static constexpr int inputs = 1;
    __device__ __forceinline__ Out operator()(In w, In) const { return w; }
};

/* Where no bit changes. */
__device__ __forceinline__ void cast_copy(struct gm_run *run)
{
    switch (gm_dtype_bytes(run->job->dtype)) {
    case 1:
        cast_share<uint8_t, uint8_t>(run);
        break;
    case 2:
        map_share(run, cast_same());
        break;
    case 4:
        cast_share<uint32_t, uint32_t>(run);
        break;
    case 8:
        cast_share<uint64_t, uint64_t>(run);
        break;
    }
}

/* From an integer: as outputs integers of a width are alike, and From need be signed only where it grows. */
template <typename From, typename Low> __device__ __forceinline__ void cast_integer(struct gm_run *run)
{
    switch (run->job->type2) {
    case GM_DTYPE_u8:
    case GM_DTYPE_i8:
        cast_share<Low, uint8_t>(run);
        break;
    case GM_DTYPE_u32:
    case GM_DTYPE_i32:
        if constexpr (sizeof(From) < 4u)
            cast_share<From, uint32_t>(run);
        else
            cast_share<Low, uint32_t>(run);
        break;
    case GM_DTYPE_u64:
    case GM_DTYPE_i64:
        if constexpr (sizeof(From) < 8u)
            cast_share<From, uint64_t>(run);
        else
            cast_share<Low, uint64_t>(run);
        break;
    case GM_DTYPE_f16:
        cast_share<From, half_type>(run);
        break;
    case GM_DTYPE_bf16:
        cast_share<From, bfloat_type>(run);
        break;
    case GM_DTYPE_f32:
        cast_share<From, float>(run);
        break;
    case GM_DTYPE_f64:
        cast_share<From, double>(run);
        break;
    }
}

template <typename From> __device__ __forceinline__ void cast_float(struct gm_run *run)
{
    switch (run->job->type2) {
    case GM_DTYPE_u8:
        cast_share<From, uint8_t>(run);
        break;
    case GM_DTYPE_i8:
        cast_share<From, int8_t>(run);
        break;
    case GM_DTYPE_u32:
        cast_share<From, uint32_t>(run);
        break;
    case GM_DTYPE_i32:
        cast_share<From, int32_t>(run);
        break;
    case GM_DTYPE_u64:
        cast_share<From, uint64_t>(run);
        break;
    case GM_DTYPE_i64:
        cast_share<From, int64_t>(run);
        break;
    case GM_DTYPE_f16:
        cast_share<From, half_type>(run);
        break;
    case GM_DTYPE_bf16:
        cast_share<From, bfloat_type>(run);
        break;
    case GM_DTYPE_f32:
        cast_share<From, float>(run);
        break;
    case GM_DTYPE_f64:
        cast_share<From, double>(run);
        break;
    }
}

} // namespace

__device__ void gm_op_cast_share(struct gm_run *run)
{
    if (run->job->dtype == run->job->type2) {
        cast_copy(run);
        return;
    }
    switch (run->job->dtype) {
    case GM_DTYPE_u8:
        cast_integer<uint8_t, uint8_t>(run);
        break;
    case GM_DTYPE_i8:
        cast_integer<int8_t, uint8_t>(run);
        break;
    case GM_DTYPE_u32:
        cast_integer<uint32_t, uint32_t>(run);
        break;
    case GM_DTYPE_i32:
        cast_integer<int32_t, uint32_t>(run);
        break;
    case GM_DTYPE_u64:
        cast_integer<uint64_t, uint64_t>(run);
        break;
    case GM_DTYPE_i64:
        cast_integer<int64_t, uint64_t>(run);
        break;
    case GM_DTYPE_f16:
        cast_float<half_type>(run);
        break;
    case GM_DTYPE_bf16:
        cast_float<bfloat_type>(run);
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
