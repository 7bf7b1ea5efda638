/* SPDX-License-Identifier: Apache-2.0
 *
 * The vector types of CUDA C++ with their alignment, and the names by which a thread knows its place. C++.
 */
#ifndef GM_SIMT_CUDA_TYPES_H
#define GM_SIMT_CUDA_TYPES_H

#include <stdint.h>

/* V(name, type, alignment of two, alignment of four) */
#define GM_SIMT_VECTORS(V)                                                                                             \
    V(char, signed char, 2, 4)                                                                                         \
    V(uchar, unsigned char, 2, 4)                                                                                      \
    V(short, short, 4, 8)                                                                                              \
    V(ushort, unsigned short, 4, 8)                                                                                    \
    V(int, int, 8, 16)                                                                                                 \
    V(uint, unsigned int, 8, 16)                                                                                       \
    V(long, long, 16, 16)                                                                                              \
    V(ulong, unsigned long, 16, 16)                                                                                    \
    V(longlong, long long, 16, 16)                                                                                     \
    V(ulonglong, unsigned long long, 16, 16)                                                                           \
    V(float, float, 8, 16)                                                                                             \
    V(double, double, 16, 16)

#define V(name, type, two, four)                                                                                       \
    struct name##1                                                                                                     \
    {                                                                                                                  \
        type x;                                                                                                        \
    };                                                                                                                 \
    struct __attribute__((aligned(two))) name##2                                                                       \
    {                                                                                                                  \
        type x, y;                                                                                                     \
    };                                                                                                                 \
    struct name##3                                                                                                     \
    {                                                                                                                  \
        type x, y, z;                                                                                                  \
    };                                                                                                                 \
    struct __attribute__((aligned(four))) name##4                                                                      \
    {                                                                                                                  \
        type x, y, z, w;                                                                                               \
    };                                                                                                                 \
    static inline name##1 make_##name##1(type x)                                                                       \
    {                                                                                                                  \
        return {x};                                                                                                    \
    }                                                                                                                  \
    static inline name##2 make_##name##2(type x, type y)                                                               \
    {                                                                                                                  \
        return {x, y};                                                                                                 \
    }                                                                                                                  \
    static inline name##3 make_##name##3(type x, type y, type z)                                                       \
    {                                                                                                                  \
        return {x, y, z};                                                                                              \
    }                                                                                                                  \
    static inline name##4 make_##name##4(type x, type y, type z, type w)                                               \
    {                                                                                                                  \
        return {x, y, z, w};                                                                                           \
    }
GM_SIMT_VECTORS(V)
#undef V

struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int a_x = 1, unsigned int a_y = 1, unsigned int a_z = 1) : x(a_x), y(a_y), z(a_z) {}
};

/* Of the thread that runs: set at every switch. */
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
static constexpr int warpSize = 32;

#endif
