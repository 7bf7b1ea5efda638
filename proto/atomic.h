/* SPDX-License-Identifier: Apache-2.0
 *
 * The only atomics of the project: the same names in C11 and in CUDA C++. Suffix _sys: the other side may be on
 * the other end of the bus (CPU and GPU); without it both sides run on the same processor (GPU scope).
 * The 16-byte accessors exist in three forms: SSE on the CPU, one vector access on the GPU, and, because
 * ThreadSanitizer cannot see SSE accesses, an annotated form under it.
 */
#ifndef GM_PROTO_ATOMIC_H
#define GM_PROTO_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

#include "ops.h" /* GM_HD */

/* 16 bytes that are always moved by one access: 12 of payload and their own lap word. */
struct gm_granule {
    uint32_t w[4];
};

#if defined(__CUDA_ARCH__)
#include "atomic_cuda.h"
#else

#if defined(__SANITIZE_THREAD__)
#define GM_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GM_TSAN 1
#endif
#endif

GM_HD uint32_t gm_load_relaxed_u32(const uint32_t *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
GM_HD uint64_t gm_load_relaxed_u64(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
GM_HD uint32_t gm_load_acquire_u32(const uint32_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
GM_HD uint64_t gm_load_acquire_u64(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
GM_HD void gm_store_relaxed_u32(uint32_t *p, uint32_t v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }
GM_HD void gm_store_relaxed_u64(uint64_t *p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }
GM_HD void gm_store_release_u32(uint32_t *p, uint32_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
GM_HD void gm_store_release_u64(uint64_t *p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
GM_HD uint32_t gm_fetch_add_relaxed_u32(uint32_t *p, uint32_t v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
GM_HD uint64_t gm_fetch_add_relaxed_u64(uint64_t *p, uint64_t v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
GM_HD uint64_t gm_fetch_add_acq_rel_u64(uint64_t *p, uint64_t v) { return __atomic_fetch_add(p, v, __ATOMIC_ACQ_REL); }
/* The word becomes v unless it is more. Each round somebody else has raised it. */
GM_HD void gm_max_relaxed_u32(uint32_t *p, uint32_t v)
{
    uint32_t held = gm_load_relaxed_u32(p);
    while (held < v && !__atomic_compare_exchange_n(p, &held, v, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}
GM_HD void gm_max_relaxed_u64(uint64_t *p, uint64_t v)
{
    uint64_t held = gm_load_relaxed_u64(p);
    while (held < v && !__atomic_compare_exchange_n(p, &held, v, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

GM_HD uint32_t gm_load_relaxed_sys_u32(const uint32_t *p) { return gm_load_relaxed_u32(p); }
GM_HD uint64_t gm_load_relaxed_sys_u64(const uint64_t *p) { return gm_load_relaxed_u64(p); }
GM_HD uint32_t gm_load_acquire_sys_u32(const uint32_t *p) { return gm_load_acquire_u32(p); }
GM_HD void gm_store_relaxed_sys_u32(uint32_t *p, uint32_t v) { gm_store_relaxed_u32(p, v); }
GM_HD void gm_store_relaxed_sys_u64(uint64_t *p, uint64_t v) { gm_store_relaxed_u64(p, v); }
GM_HD void gm_store_release_sys_u32(uint32_t *p, uint32_t v) { gm_store_release_u32(p, v); }

/* The store-load fence of the doorbell; every other ordering is an acquire or a release on the word itself. */
GM_HD void gm_fence_sys(void)
{
#ifdef GM_TSAN
    /* ThreadSanitizer does not model fences; a locked operation on a private word is the same instruction on x86. */
    static uint32_t word;
    __atomic_fetch_add(&word, 0, __ATOMIC_SEQ_CST);
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* Acquire and release for everything before and after. On the CPU the stores and loads that need it carry it
 * themselves, so there is nothing left to do; ThreadSanitizer checks that. */
GM_HD void gm_fence_acq_rel_sys(void) {}
GM_HD void gm_fence_acq_rel_gpu(void) {}
GM_HD void gm_store_pair_gpu(void *p, uint64_t low, uint64_t high)
{
    __atomic_store_n((uint64_t *)p, low, __ATOMIC_RELAXED);
    __atomic_store_n((uint64_t *)p + 1, high, __ATOMIC_RELAXED);
}

#ifdef GM_TSAN
/* The last word carries the lap, so it is stored last and loaded first: the same discipline, in accesses that the
 * tool can see. A torn payload with a complete lap cannot appear because the lap is the release. */
GM_HD struct gm_granule gm_load16_sys(const struct gm_granule *p)
{
    struct gm_granule g;
    g.w[3] = __atomic_load_n(&p->w[3], __ATOMIC_ACQUIRE);
    for (int i = 0; i < 3; i++)
        g.w[i] = __atomic_load_n(&p->w[i], __ATOMIC_RELAXED);
    return g;
}
GM_HD void gm_store16_sys(struct gm_granule *p, struct gm_granule g)
{
    for (int i = 0; i < 3; i++)
        __atomic_store_n(&p->w[i], g.w[i], __ATOMIC_RELAXED);
    __atomic_store_n(&p->w[3], g.w[3], __ATOMIC_RELEASE);
}
#elif defined(__SSE2__)
#include <emmintrin.h>
/* An aligned 16-byte SSE access is one access on every processor with AVX, and x86 orders it like any other load
 * (acquire) and store (release); the compiler barriers keep it in program order. Volatile, because a compiler may
 * split a plain vector access whose elements are used one by one: GCC 12 makes four loads of it, the lap first or last
 * as it likes. */
GM_HD struct gm_granule gm_load16_sys(const struct gm_granule *p)
{
    struct gm_granule g;
    const __m128i v = *(const volatile __m128i *)(const void *)p;
    __asm__ __volatile__("" ::: "memory");
    _mm_storeu_si128((__m128i *)(void *)&g, v);
    return g;
}
GM_HD void gm_store16_sys(struct gm_granule *p, struct gm_granule g)
{
    /* From its words: put together on the stack and loaded whole, the load would wait for each of their stores. */
    const __m128i v = _mm_set_epi32((int)g.w[3], (int)g.w[2], (int)g.w[1], (int)g.w[0]);
    __asm__ __volatile__("" ::: "memory");
    *(volatile __m128i *)(void *)p = v;
    __asm__ __volatile__("" ::: "memory");
}
#elif defined(__aarch64__)
/* Two 8-byte halves; the second carries the lap. LSE2 makes the pair one access where the lane may be used with a
 * GPU; between CPU threads the release and acquire on the second half are enough. */
GM_HD struct gm_granule gm_load16_sys(const struct gm_granule *p)
{
    struct gm_granule g;
    const uint64_t *q = (const uint64_t *)(const void *)p;
    const uint64_t high = __atomic_load_n(&q[1], __ATOMIC_ACQUIRE), low = __atomic_load_n(&q[0], __ATOMIC_RELAXED);
    g.w[0] = (uint32_t)low, g.w[1] = (uint32_t)(low >> 32), g.w[2] = (uint32_t)high, g.w[3] = (uint32_t)(high >> 32);
    return g;
}
GM_HD void gm_store16_sys(struct gm_granule *p, struct gm_granule g)
{
    uint64_t *q = (uint64_t *)(void *)p;
    __atomic_store_n(&q[0], g.w[0] | (uint64_t)g.w[1] << 32, __ATOMIC_RELAXED);
    __atomic_store_n(&q[1], g.w[2] | (uint64_t)g.w[3] << 32, __ATOMIC_RELEASE);
}
#else
#error "no 16-byte access for this processor"
#endif

/* Between the warps of one block. */
GM_HD uint32_t gm_load_relaxed_block_u32(const uint32_t *p) { return gm_load_relaxed_u32(p); }
GM_HD uint32_t gm_load_acquire_block_u32(const uint32_t *p) { return gm_load_acquire_u32(p); }
GM_HD void gm_store_relaxed_block_u32(uint32_t *p, uint32_t v) { gm_store_relaxed_u32(p, v); }
GM_HD void gm_store_release_block_u32(uint32_t *p, uint32_t v) { gm_store_release_u32(p, v); }
GM_HD uint64_t gm_load_relaxed_block_u64(const uint64_t *p) { return gm_load_relaxed_u64(p); }
GM_HD uint64_t gm_load_acquire_block_u64(const uint64_t *p) { return gm_load_acquire_u64(p); }
GM_HD void gm_store_relaxed_block_u64(uint64_t *p, uint64_t v) { gm_store_relaxed_u64(p, v); }
GM_HD void gm_store_release_block_u64(uint64_t *p, uint64_t v) { gm_store_release_u64(p, v); }
GM_HD void gm_add_relaxed_block_u64(uint64_t *p, uint64_t v) { (void)__atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
GM_HD void gm_or_release_block_u32(uint32_t *p, uint32_t v) { (void)__atomic_fetch_or(p, v, __ATOMIC_RELEASE); }
GM_HD uint32_t gm_and_acquire_block_u32(uint32_t *p, uint32_t v) { return __atomic_fetch_and(p, v, __ATOMIC_ACQUIRE); }
/* Whether the word was what it was held for, and so became v. */
GM_HD bool gm_swap_relaxed_block_u64(uint64_t *p, uint64_t held, uint64_t v)
{
    return __atomic_compare_exchange_n(p, &held, v, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* A granule between two threads of one processor: the store of each is its release, the load its acquire. */
GM_HD struct gm_granule gm_load16_gpu(const struct gm_granule *p) { return gm_load16_sys(p); }
GM_HD struct gm_granule gm_load16_relaxed_gpu(const struct gm_granule *p) { return gm_load16_sys(p); }
GM_HD void gm_store16_gpu(struct gm_granule *p, struct gm_granule g) { gm_store16_sys(p, g); }

#endif /* host */
#endif
