/* SPDX-License-Identifier: Apache-2.0
 *
 * cast on blocks: see cast.c for the rules and map.cuh for the way. Every case is spelled out, so that nothing hangs on
 * what a conversion instruction does out of range.
 */
#include <type_traits>

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

/* The unsigned integer of a type's width. */
template <typename T> struct cast_bits {
    typedef typename cast_to<T>::Word Type;
};
template <> struct cast_bits<int8_t> {
    typedef uint8_t Type;
};
template <> struct cast_bits<int32_t> {
    typedef uint32_t Type;
};
template <> struct cast_bits<int64_t> {
    typedef uint64_t Type;
};

/* Where no bit changes all types of a width are alike. So are integers as outputs, and as inputs that do not grow. */
template <typename From, typename To> __device__ __forceinline__ void cast_pair(struct gm_run *run)
{
    typedef typename cast_bits<From>::Type In;
    typedef typename cast_bits<To>::Type Out;
    constexpr bool integers = std::is_integral<From>::value && std::is_integral<To>::value;
    if constexpr (std::is_same<From, To>::value)
        cast_share<In, Out>(run);
    else if constexpr (!integers)
        cast_share<From, To>(run);
    else if constexpr (sizeof(From) < sizeof(To))
        cast_share<From, Out>(run);
    else
        cast_share<In, Out>(run);
}

/* Calls f with a value of the type. */
template <class F> __device__ __forceinline__ void cast_typed(uint32_t dtype, F f)
{
    switch (dtype) {
#define CASE(name, type)                                                                                               \
    case GM_DTYPE_##name:                                                                                              \
        f(type());                                                                                                     \
        break;
        CASE(u8, uint8_t)
        CASE(i8, int8_t)
        CASE(u32, uint32_t)
        CASE(i32, int32_t)
        CASE(u64, uint64_t)
        CASE(i64, int64_t)
        CASE(f16, half_type)
        CASE(bf16, bfloat_type)
        CASE(f32, float)
        CASE(f64, double)
#undef CASE
    }
}

} // namespace

__device__ void gm_op_cast_share(struct gm_run *run)
{
    cast_typed(run->job->dtype, [run](auto from) {
        cast_typed(run->job->type2, [run](auto to) { cast_pair<decltype(from), decltype(to)>(run); });
    });
}

__device__ void gm_op_cast_finish(struct gm_run *run) { (void)run; }
