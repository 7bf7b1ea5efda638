/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic of CUDA C++ that a compiler for CPUs does not have: bits, conversions with a named rounding, IEEE
 * operations that are never contracted (build with -ffp-contract=off). Included by vocabulary.h.
 */
#ifndef GM_SIMT_INTRINSICS_H
#define GM_SIMT_INTRINSICS_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <cmath>

#include "collectives.h"

/* ---- bits ---- */

static inline int __popc(unsigned v)
{
    return __builtin_popcount(v);
}
static inline int __popcll(unsigned long long v)
{
    return __builtin_popcountll(v);
}
static inline int __ffs(int v)
{
    return __builtin_ffs(v);
}
static inline int __ffsll(long long v)
{
    return __builtin_ffsll(v);
}
static inline int __clz(int v)
{
    return v == 0 ? 32 : __builtin_clz((unsigned)v);
}
static inline int __clzll(long long v)
{
    return v == 0 ? 64 : __builtin_clzll((unsigned long long)v);
}
static inline unsigned __brev(unsigned v)
{
    unsigned r = 0;
    for (int i = 0; i < 32; i++)
        r |= (v >> i & 1u) << (31 - i);
    return r;
}
static inline unsigned long long __brevll(unsigned long long v)
{
    return (unsigned long long)__brev((unsigned)v) << 32 | __brev((unsigned)(v >> 32));
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by)
{
    return (unsigned)((low | (uint64_t)high << 32) >> (by & 31u));
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by)
{
    return (unsigned)((low | (uint64_t)high << 32) << (by & 31u) >> 32);
}
static inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned by)
{
    return by >= 32u ? high : __funnelshift_r(low, high, by);
}
static inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned by)
{
    return by >= 32u ? low : __funnelshift_l(low, high, by);
}
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector)
{
    const uint64_t bytes = x | (uint64_t)y << 32;
    unsigned r = 0;
    for (unsigned i = 0; i < 4; i++)
        r |= (unsigned)(bytes >> 8u * (selector >> 4u * i & 7u) & 0xffu) << 8u * i;
    return r;
}
static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}
static inline int __mulhi(int a, int b)
{
    return (int)((int64_t)a * b >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline long long __mul64hi(long long a, long long b)
{
    return (long long)((__int128)a * b >> 64);
}

/* ---- the same bits as another type ---- */

static inline float __uint_as_float(unsigned v)
{
    return gm_simt_value<float>(v);
}
static inline float __int_as_float(int v)
{
    return gm_simt_value<float>((unsigned)v);
}
static inline unsigned __float_as_uint(float v)
{
    return (unsigned)gm_simt_bits(v);
}
static inline int __float_as_int(float v)
{
    return (int)gm_simt_bits(v);
}
static inline double __longlong_as_double(long long v)
{
    return gm_simt_value<double>((uint64_t)v);
}
static inline long long __double_as_longlong(double v)
{
    return (long long)gm_simt_bits(v);
}
static inline int __double2loint(double v)
{
    return (int)gm_simt_bits(v);
}
static inline int __double2hiint(double v)
{
    return (int)(gm_simt_bits(v) >> 32);
}
static inline double __hiloint2double(int high, int low)
{
    return gm_simt_value<double>((uint64_t)(unsigned)high << 32 | (unsigned)low);
}

/* Shared memory has no addresses of its own here. */
static inline size_t __cvta_generic_to_shared(const void *p)
{
    return (size_t)p;
}
static inline void *__cvta_shared_to_generic(size_t p)
{
    return (void *)p;
}

/* ---- arithmetic ---- */

/* A NaN of 32 bits that an instruction makes has no sign and no payload. */
static inline float gm_simt_f32(float v)
{
    return v == v ? v : __uint_as_float(0x7fffffffu);
}
static inline float __fadd_rn(float a, float b)
{
    return gm_simt_f32(a + b);
}
static inline float __fsub_rn(float a, float b)
{
    return gm_simt_f32(a - b);
}
static inline float __fmul_rn(float a, float b)
{
    return gm_simt_f32(a * b);
}
static inline float __fdiv_rn(float a, float b)
{
    return gm_simt_f32(a / b);
}
static inline float __frcp_rn(float a)
{
    return gm_simt_f32(1.0f / a);
}
static inline float __fsqrt_rn(float a)
{
    return gm_simt_f32(sqrtf(a));
}
static inline float __fmaf_rn(float a, float b, float c)
{
    return gm_simt_f32(fmaf(a, b, c));
}
/* Rounded down: a sum of two numbers of f64, with what is lost when they are added. */
static inline float gm_simt_sum_down(double a, double b)
{
    const double sum = a + b, part = sum - a, lost = (a - (sum - part)) + (b - part);
    const float v = (float)sum;
    if (sum == 0 && (a != 0 || signbit(a) != signbit(b)))
        return -0.0f;
    return gm_simt_f32(isfinite(sum) && ((double)v > sum || ((double)v == sum && lost < 0)) ? nextafterf(v, -INFINITY)
                                                                                            : v);
}
static inline float __fsub_rd(float a, float b)
{
    return gm_simt_sum_down(a, -(double)b);
}
static inline float __fmaf_rd(float a, float b, float c)
{
    return gm_simt_sum_down((double)a * b, c);
}
static inline double __dadd_rn(double a, double b)
{
    return a + b;
}
static inline double __dsub_rn(double a, double b)
{
    return a - b;
}
static inline double __dmul_rn(double a, double b)
{
    return a * b;
}
static inline double __ddiv_rn(double a, double b)
{
    return a / b;
}
static inline double __drcp_rn(double a)
{
    return 1.0 / a;
}
static inline double __dsqrt_rn(double a)
{
    return sqrt(a);
}
static inline double __fma_rn(double a, double b, double c)
{
    return fma(a, b, c);
}

#define X(T)                                                                                                           \
    static inline T min(T a, T b)                                                                                      \
    {                                                                                                                  \
        return b < a ? b : a;                                                                                          \
    }                                                                                                                  \
    static inline T max(T a, T b)                                                                                      \
    {                                                                                                                  \
        return a < b ? b : a;                                                                                          \
    }
X(int)
X(unsigned)
X(long)
X(unsigned long)
X(long long)
X(unsigned long long)
#undef X
    static inline float min(float a, float b)
{
    return fminf(a, b);
}
static inline float max(float a, float b)
{
    return fmaxf(a, b);
}
static inline double min(double a, double b)
{
    return fmin(a, b);
}
static inline double max(double a, double b)
{
    return fmax(a, b);
}

/* ---- conversions ---- */

static inline float __int2float_rn(int v)
{
    return (float)v;
}
static inline float __uint2float_rn(unsigned v)
{
    return (float)v;
}
static inline float __ll2float_rn(long long v)
{
    return (float)v;
}
static inline float __ull2float_rn(unsigned long long v)
{
    return (float)v;
}
static inline float __double2float_rn(double v)
{
    return gm_simt_f32((float)v);
}
#define X(name, T)                                                                                                     \
    static inline float name(T v)                                                                                      \
    {                                                                                                                  \
        const float f = (float)v;                                                                                      \
        return (__int128)f > v ? nextafterf(f, -INFINITY) : f;                                                         \
    }
X(__int2float_rd, int)
X(__uint2float_rd, unsigned)
X(__ll2float_rd, long long)
X(__ull2float_rd, unsigned long long)
#undef X
static inline float __double2float_rd(double v)
{
    return gm_simt_sum_down(v, 0.0);
}
static inline double __int2double_rn(int v)
{
    return (double)v;
}
static inline double __uint2double_rn(unsigned v)
{
    return (double)v;
}
static inline double __ll2double_rn(long long v)
{
    return (double)v;
}
static inline double __ull2double_rn(unsigned long long v)
{
    return (double)v;
}

/* What is too large or too small becomes the last number of its side. What is none becomes 0 if both types have 32
 * bits, else the highest bit alone: PTX ISA, cvt. v: rounded; end: the first that is too large. */
template <typename T> static inline T gm_simt_whole(double v, double end, bool narrow)
{
    const bool is_signed = (T)-1 < (T)0;
    const T top = (T)((uint64_t)1 << (sizeof(T) * 8u - 1u));
    if (v != v)
        return narrow && sizeof(T) == 4 ? (T)0 : top;
    if (v >= end)
        return is_signed ? (T)~top : (T)-1;
    if (is_signed ? v < -end : v < 0)
        return is_signed ? top : (T)0;
    return (T)v;
}
#define X(name, T, end)                                                                                                \
    static inline T __float2##name##_rn(float v)                                                                       \
    {                                                                                                                  \
        return gm_simt_whole<T>(rint((double)v), end, true);                                                           \
    }                                                                                                                  \
    static inline T __float2##name##_rz(float v)                                                                       \
    {                                                                                                                  \
        return gm_simt_whole<T>(trunc((double)v), end, true);                                                          \
    }                                                                                                                  \
    static inline T __float2##name##_rd(float v)                                                                       \
    {                                                                                                                  \
        return gm_simt_whole<T>(floor((double)v), end, true);                                                          \
    }                                                                                                                  \
    static inline T __float2##name##_ru(float v)                                                                       \
    {                                                                                                                  \
        return gm_simt_whole<T>(ceil((double)v), end, true);                                                           \
    }                                                                                                                  \
    static inline T __double2##name##_rn(double v)                                                                     \
    {                                                                                                                  \
        return gm_simt_whole<T>(rint(v), end, false);                                                                  \
    }                                                                                                                  \
    static inline T __double2##name##_rz(double v)                                                                     \
    {                                                                                                                  \
        return gm_simt_whole<T>(trunc(v), end, false);                                                                 \
    }                                                                                                                  \
    static inline T __double2##name##_rd(double v)                                                                     \
    {                                                                                                                  \
        return gm_simt_whole<T>(floor(v), end, false);                                                                 \
    }                                                                                                                  \
    static inline T __double2##name##_ru(double v)                                                                     \
    {                                                                                                                  \
        return gm_simt_whole<T>(ceil(v), end, false);                                                                  \
    }
X(int, int, 2147483648.0)
X(uint, unsigned, 4294967296.0)
X(ll, long long, 9223372036854775808.0)
X(ull, unsigned long long, 18446744073709551616.0)
#undef X

#endif
