/* SPDX-License-Identifier: Apache-2.0
 *
 * What threads of a block say to each other in CUDA C++: barriers, votes, shuffles, atomics, and loads and stores by
 * name, for threads that are fibers (block.h). The overloads are those of CUDA. Included by vocabulary.h.
 */
#ifndef GM_SIMT_COLLECTIVES_H
#define GM_SIMT_COLLECTIVES_H

#include <string.h>

#include "block.h"
#include "cuda_types.h"

#define GM_SIMT_FULL 0xffffffffu
/* Last parameters of what threads do together: where it stands in the op. */
#define GM_SIMT_FROM const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define GM_SIMT_SITE (gm_simt_site{file, line})

template <typename T> static inline uint64_t gm_simt_bits(T v)
{
    uint64_t bits = 0;
    static_assert(sizeof(T) <= sizeof bits, "up to 64 bits");
    memcpy(&bits, &v, sizeof v);
    return bits;
}
template <typename T> static inline T gm_simt_value(uint64_t bits)
{
    T v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* ---- the block ---- */

static inline void __syncthreads(GM_SIMT_FROM)
{
    gm_simt_barrier(GM_SIMT_SYNCTHREADS, false, GM_SIMT_SITE);
}
static inline int __syncthreads_count(int p, GM_SIMT_FROM)
{
    return (int)gm_simt_barrier(GM_SIMT_SYNCTHREADS_COUNT, p != 0, GM_SIMT_SITE);
}
static inline int __syncthreads_and(int p, GM_SIMT_FROM)
{
    return (int)gm_simt_barrier(GM_SIMT_SYNCTHREADS_AND, p != 0, GM_SIMT_SITE);
}
static inline int __syncthreads_or(int p, GM_SIMT_FROM)
{
    return (int)gm_simt_barrier(GM_SIMT_SYNCTHREADS_OR, p != 0, GM_SIMT_SITE);
}
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}
static inline void __nanosleep(unsigned)
{
    gm_simt_poll();
}
[[noreturn]] static inline void __trap()
{
    gm_simt_fail("traps");
}

/* ---- the warp ---- */

static inline void __syncwarp(unsigned mask = GM_SIMT_FULL, GM_SIMT_FROM)
{
    gm_simt_warp_call(GM_SIMT_SYNCWARP, mask, 0, 0, 32, GM_SIMT_SITE);
}
static inline unsigned __ballot_sync(unsigned mask, int p, GM_SIMT_FROM)
{
    return (unsigned)gm_simt_warp_call(GM_SIMT_BALLOT, mask, p != 0, 0, 32, GM_SIMT_SITE);
}
static inline int __any_sync(unsigned mask, int p, GM_SIMT_FROM)
{
    return (int)gm_simt_warp_call(GM_SIMT_ANY, mask, p != 0, 0, 32, GM_SIMT_SITE);
}
static inline int __all_sync(unsigned mask, int p, GM_SIMT_FROM)
{
    return (int)gm_simt_warp_call(GM_SIMT_ALL, mask, p != 0, 0, 32, GM_SIMT_SITE);
}
/* All that it promises: this lane is among them. */
static inline unsigned __activemask()
{
    return 1u << (threadIdx.x & 31u);
}

#define GM_SIMT_NUMBERS(X)                                                                                             \
    X(int) X(unsigned) X(long) X(unsigned long) X(long long) X(unsigned long long) X(float) X(double)
#define X(T)                                                                                                           \
    static inline T __shfl_sync(unsigned mask, T v, int lane, int width = 32, GM_SIMT_FROM)                            \
    {                                                                                                                  \
        return gm_simt_value<T>(                                                                                       \
            gm_simt_warp_call(GM_SIMT_SHFL, mask, gm_simt_bits(v), (uint32_t)lane, (uint32_t)width, GM_SIMT_SITE));    \
    }                                                                                                                  \
    static inline T __shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32, GM_SIMT_FROM)                   \
    {                                                                                                                  \
        return gm_simt_value<T>(                                                                                       \
            gm_simt_warp_call(GM_SIMT_SHFL_UP, mask, gm_simt_bits(v), delta, (uint32_t)width, GM_SIMT_SITE));          \
    }                                                                                                                  \
    static inline T __shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32, GM_SIMT_FROM)                 \
    {                                                                                                                  \
        return gm_simt_value<T>(                                                                                       \
            gm_simt_warp_call(GM_SIMT_SHFL_DOWN, mask, gm_simt_bits(v), delta, (uint32_t)width, GM_SIMT_SITE));        \
    }                                                                                                                  \
    static inline T __shfl_xor_sync(unsigned mask, T v, int bits, int width = 32, GM_SIMT_FROM)                        \
    {                                                                                                                  \
        return gm_simt_value<T>(gm_simt_warp_call(GM_SIMT_SHFL_XOR, mask, gm_simt_bits(v), (uint32_t)bits,             \
                                                  (uint32_t)width, GM_SIMT_SITE));                                     \
    }                                                                                                                  \
    static inline unsigned __match_any_sync(unsigned mask, T v, GM_SIMT_FROM)                                          \
    {                                                                                                                  \
        return (unsigned)gm_simt_warp_call(GM_SIMT_MATCH_ANY, mask, gm_simt_bits(v), 0, 32, GM_SIMT_SITE);             \
    }                                                                                                                  \
    static inline unsigned __match_all_sync(unsigned mask, T v, int *all, GM_SIMT_FROM)                                \
    {                                                                                                                  \
        const uint64_t same = gm_simt_warp_call(GM_SIMT_MATCH_ALL, mask, gm_simt_bits(v), 0, 32, GM_SIMT_SITE);        \
        *all = same != 0;                                                                                              \
        return (unsigned)same;                                                                                         \
    }
GM_SIMT_NUMBERS(X)
#undef X

#define X(name, T, kind)                                                                                               \
    static inline T name(unsigned mask, T v, GM_SIMT_FROM)                                                             \
    {                                                                                                                  \
        return (T)gm_simt_warp_call(GM_SIMT_REDUCE_##kind, mask, gm_simt_bits(v), 0, 32, GM_SIMT_SITE);                \
    }
X(__reduce_add_sync, unsigned, ADD)
X(__reduce_add_sync, int, ADD)
X(__reduce_min_sync, unsigned, MIN)
X(__reduce_min_sync, int, MIN_SIGNED)
X(__reduce_max_sync, unsigned, MAX)
X(__reduce_max_sync, int, MAX_SIGNED)
X(__reduce_and_sync, unsigned, AND)
X(__reduce_or_sync, unsigned, OR)
X(__reduce_xor_sync, unsigned, XOR)
#undef X

/* ---- memory ---- */

/* Whether [p, p + bytes) may be read, as far as this build can tell. An aligned word of up to four bytes may hold bytes
 * that are nobody's beside some that are wanted: memory ends on pages. */
bool gm_simt_readable(const void *p, size_t bytes);
/* The bytes as they are, unseen by sanitizers. */
void gm_simt_copy(void *to, const void *from, size_t bytes);
[[noreturn]] void gm_simt_bad_access(const void *p, size_t bytes, const char *what);

template <typename T> static inline T gm_simt_load(const T *p)
{
    gm_simt_look();
    if ((uintptr_t)p % alignof(T) != 0)
        gm_simt_bad_access(p, sizeof(T), "is not aligned");
#ifdef GM_SIMT_ASAN
    T v;
    if (!gm_simt_readable(p, sizeof(T)))
        gm_simt_bad_access(p, sizeof(T), "lies outside");
    gm_simt_copy(&v, p, sizeof v);
    return v;
#else
    return *p;
#endif
}
template <typename T> static inline void gm_simt_store(T *p, T v)
{
    if ((uintptr_t)p % alignof(T) != 0)
        gm_simt_bad_access(p, sizeof(T), "is not aligned");
    *p = v;
}

/* Not __ldg: a kernel that never ends has nothing that is constant. */
#define GM_SIMT_MOVED(X)                                                                                               \
    X(char)                                                                                                            \
    X(signed char)                                                                                                     \
    X(short)                                                                                                           \
    X(int) X(long) X(long long) X(unsigned char) X(unsigned short) X(unsigned) X(unsigned long) X(unsigned long long)  \
        X(float) X(double) X(char2) X(char4) X(uchar2) X(uchar4) X(short2) X(short4) X(ushort2) X(ushort4) X(int2)     \
            X(int4) X(uint2) X(uint4) X(longlong2) X(ulonglong2) X(float2) X(float4) X(double2)
#define X(T)                                                                                                           \
    static inline T __ldcg(const T *p)                                                                                 \
    {                                                                                                                  \
        return gm_simt_load(p);                                                                                        \
    }                                                                                                                  \
    static inline T __ldca(const T *p)                                                                                 \
    {                                                                                                                  \
        return gm_simt_load(p);                                                                                        \
    }                                                                                                                  \
    static inline T __ldcs(const T *p)                                                                                 \
    {                                                                                                                  \
        return gm_simt_load(p);                                                                                        \
    }                                                                                                                  \
    static inline T __ldlu(const T *p)                                                                                 \
    {                                                                                                                  \
        return gm_simt_load(p);                                                                                        \
    }                                                                                                                  \
    static inline T __ldcv(const T *p)                                                                                 \
    {                                                                                                                  \
        return gm_simt_load(p);                                                                                        \
    }                                                                                                                  \
    static inline void __stcg(T *p, T v)                                                                               \
    {                                                                                                                  \
        gm_simt_store(p, v);                                                                                           \
    }                                                                                                                  \
    static inline void __stwb(T *p, T v)                                                                               \
    {                                                                                                                  \
        gm_simt_store(p, v);                                                                                           \
    }                                                                                                                  \
    static inline void __stcs(T *p, T v)                                                                               \
    {                                                                                                                  \
        gm_simt_store(p, v);                                                                                           \
    }                                                                                                                  \
    static inline void __stwt(T *p, T v)                                                                               \
    {                                                                                                                  \
        gm_simt_store(p, v);                                                                                           \
    }
GM_SIMT_MOVED(X)
#undef X

/* A thread runs alone between two switches, so that an atomic is a load and a store. */
#define GM_SIMT_ATOMIC(name, T, expression)                                                                            \
    static inline T name(T *p, T v)                                                                                    \
    {                                                                                                                  \
        const T old = gm_simt_load(p);                                                                                 \
        *p = (expression);                                                                                             \
        return old;                                                                                                    \
    }                                                                                                                  \
    static inline T name##_block(T *p, T v)                                                                            \
    {                                                                                                                  \
        return name(p, v);                                                                                             \
    }                                                                                                                  \
    static inline T name##_system(T *p, T v)                                                                           \
    {                                                                                                                  \
        return name(p, v);                                                                                             \
    }
#define GM_SIMT_CAS(T)                                                                                                 \
    static inline T atomicCAS(T *p, T compare, T v)                                                                    \
    {                                                                                                                  \
        gm_simt_poll();                                                                                                \
        const T old = gm_simt_load(p);                                                                                 \
        *p = old == compare ? v : old;                                                                                 \
        return old;                                                                                                    \
    }                                                                                                                  \
    static inline T atomicCAS_block(T *p, T compare, T v)                                                              \
    {                                                                                                                  \
        return atomicCAS(p, compare, v);                                                                               \
    }                                                                                                                  \
    static inline T atomicCAS_system(T *p, T compare, T v)                                                             \
    {                                                                                                                  \
        return atomicCAS(p, compare, v);                                                                               \
    }
GM_SIMT_ATOMIC(atomicAdd, int, (int)((unsigned)old + (unsigned)v))
GM_SIMT_ATOMIC(atomicAdd, unsigned, old + v)
GM_SIMT_ATOMIC(atomicAdd, unsigned long long, old + v)
GM_SIMT_ATOMIC(atomicAdd, float, old + v)
GM_SIMT_ATOMIC(atomicAdd, double, old + v)
GM_SIMT_ATOMIC(atomicSub, int, (int)((unsigned)old - (unsigned)v))
GM_SIMT_ATOMIC(atomicSub, unsigned, old - v)
GM_SIMT_ATOMIC(atomicExch, int, v)
GM_SIMT_ATOMIC(atomicExch, unsigned, v)
GM_SIMT_ATOMIC(atomicExch, unsigned long long, v)
GM_SIMT_ATOMIC(atomicExch, float, v)
GM_SIMT_ATOMIC(atomicMin, int, v < old ? v : old)
GM_SIMT_ATOMIC(atomicMin, unsigned, v < old ? v : old)
GM_SIMT_ATOMIC(atomicMin, long long, v < old ? v : old)
GM_SIMT_ATOMIC(atomicMin, unsigned long long, v < old ? v : old)
GM_SIMT_ATOMIC(atomicMax, int, v > old ? v : old)
GM_SIMT_ATOMIC(atomicMax, unsigned, v > old ? v : old)
GM_SIMT_ATOMIC(atomicMax, long long, v > old ? v : old)
GM_SIMT_ATOMIC(atomicMax, unsigned long long, v > old ? v : old)
GM_SIMT_ATOMIC(atomicInc, unsigned, old >= v ? 0u : old + 1u)
GM_SIMT_ATOMIC(atomicDec, unsigned, old == 0u || old > v ? v : old - 1u)
#define X(T)                                                                                                           \
    GM_SIMT_ATOMIC(atomicAnd, T, old &v)                                                                               \
    GM_SIMT_ATOMIC(atomicOr, T, old | v)                                                                               \
    GM_SIMT_ATOMIC(atomicXor, T, old ^ v)                                                                              \
    GM_SIMT_CAS(T)
X(int)
X(unsigned)
X(unsigned long long)
#undef X
GM_SIMT_CAS(unsigned short)

#endif
