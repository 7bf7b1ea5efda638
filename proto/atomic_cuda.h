/* SPDX-License-Identifier: Apache-2.0
 *
 * Device half of atomic.h; included by it alone. The only inline PTX of the project that touches memory shared
 * between blocks or with the host.
 */
#ifndef GM_PROTO_ATOMIC_H
#error "include atomic.h"
#endif

#define GM_LOAD(name, type, constraint, instruction)                                                        \
    static __device__ __forceinline__ type name(const type *p)                                              \
    {                                                                                                       \
        type v;                                                                                             \
        asm volatile(instruction " %0, [%1];" : "=" constraint(v) : "l"(p) : "memory");                     \
        return v;                                                                                           \
    }
#define GM_STORE(name, type, constraint, instruction)                                                       \
    static __device__ __forceinline__ void name(type *p, type v)                                            \
    {                                                                                                       \
        asm volatile(instruction " [%0], %1;" ::"l"(p), constraint(v) : "memory");                          \
    }
#define GM_ADD(name, type, constraint, instruction)                                                         \
    static __device__ __forceinline__ type name(type *p, type v)                                            \
    {                                                                                                       \
        type old;                                                                                           \
        asm volatile(instruction " %0, [%1], %2;" : "=" constraint(old) : "l"(p), constraint(v) : "memory"); \
        return old;                                                                                         \
    }

GM_LOAD(gm_load_relaxed_u32, uint32_t, "r", "ld.relaxed.gpu.global.u32")
GM_LOAD(gm_load_relaxed_u64, uint64_t, "l", "ld.relaxed.gpu.global.u64")
GM_LOAD(gm_load_acquire_u32, uint32_t, "r", "ld.acquire.gpu.global.u32")
GM_LOAD(gm_load_acquire_u64, uint64_t, "l", "ld.acquire.gpu.global.u64")
GM_STORE(gm_store_relaxed_u32, uint32_t, "r", "st.relaxed.gpu.global.u32")
GM_STORE(gm_store_relaxed_u64, uint64_t, "l", "st.relaxed.gpu.global.u64")
GM_STORE(gm_store_release_u32, uint32_t, "r", "st.release.gpu.global.u32")
GM_STORE(gm_store_release_u64, uint64_t, "l", "st.release.gpu.global.u64")
GM_ADD(gm_fetch_add_relaxed_u64, uint64_t, "l", "atom.relaxed.gpu.global.add.u64")
GM_ADD(gm_fetch_add_acq_rel_u64, uint64_t, "l", "atom.acq_rel.gpu.global.add.u64")
static __device__ __forceinline__ void gm_max_relaxed_u32(uint32_t *p, uint32_t v) { (void)atomicMax(p, v); }
static __device__ __forceinline__ void gm_max_relaxed_u64(uint64_t *p, uint64_t v)
{
    (void)atomicMax((unsigned long long *)p, (unsigned long long)v);
}

GM_LOAD(gm_load_relaxed_sys_u32, uint32_t, "r", "ld.relaxed.sys.global.u32")
GM_LOAD(gm_load_relaxed_sys_u64, uint64_t, "l", "ld.relaxed.sys.global.u64")
GM_LOAD(gm_load_acquire_sys_u32, uint32_t, "r", "ld.acquire.sys.global.u32")
GM_STORE(gm_store_relaxed_sys_u32, uint32_t, "r", "st.relaxed.sys.global.u32")
GM_STORE(gm_store_relaxed_sys_u64, uint64_t, "l", "st.relaxed.sys.global.u64")
GM_STORE(gm_store_release_sys_u32, uint32_t, "r", "st.release.sys.global.u32")

/* __threadfence and __threadfence_system are sequentially consistent, more than acquire-release asks for; a build with
 * fence.acq_rel.gpu between an entry and its ticket was slower, not faster, on an H200 (device/cuda/SHAPES.md). */
static __device__ __forceinline__ void gm_fence_sys(void) { __threadfence_system(); }
static __device__ __forceinline__ void gm_fence_acq_rel_sys(void) { __threadfence_system(); }
static __device__ __forceinline__ void gm_fence_acq_rel_gpu(void) { __threadfence(); }

/* Between the warps of one block, in its shared memory. */
#define GM_BLOCK_LOAD(name, type, constraint, instruction)                                                      \
    static __device__ __forceinline__ type name(const type *p)                                                  \
    {                                                                                                           \
        type v;                                                                                                 \
        asm volatile(instruction " %0, [%1];"                                                                   \
                     : "=" constraint(v) : "r"((uint32_t)__cvta_generic_to_shared(p)) : "memory");              \
        return v;                                                                                               \
    }
#define GM_BLOCK_STORE(name, type, constraint, instruction)                                                     \
    static __device__ __forceinline__ void name(type *p, type v)                                                \
    {                                                                                                           \
        asm volatile(instruction " [%0], %1;" ::"r"((uint32_t)__cvta_generic_to_shared(p)), constraint(v)       \
                     : "memory");                                                                               \
    }
GM_BLOCK_LOAD(gm_load_relaxed_block_u32, uint32_t, "r", "ld.relaxed.cta.shared.u32")
GM_BLOCK_LOAD(gm_load_acquire_block_u32, uint32_t, "r", "ld.acquire.cta.shared.u32")
GM_BLOCK_LOAD(gm_load_relaxed_block_u64, uint64_t, "l", "ld.relaxed.cta.shared.u64")
GM_BLOCK_LOAD(gm_load_acquire_block_u64, uint64_t, "l", "ld.acquire.cta.shared.u64")
GM_BLOCK_STORE(gm_store_relaxed_block_u32, uint32_t, "r", "st.relaxed.cta.shared.u32")
GM_BLOCK_STORE(gm_store_release_block_u32, uint32_t, "r", "st.release.cta.shared.u32")
GM_BLOCK_STORE(gm_store_relaxed_block_u64, uint64_t, "l", "st.relaxed.cta.shared.u64")
GM_BLOCK_STORE(gm_store_release_block_u64, uint64_t, "l", "st.release.cta.shared.u64")
GM_BLOCK_STORE(gm_add_relaxed_block_u64, uint64_t, "l", "red.relaxed.cta.shared.add.u64")
GM_BLOCK_STORE(gm_or_release_block_u32, uint32_t, "r", "red.release.cta.shared.or.b32")
static __device__ __forceinline__ uint32_t gm_and_acquire_block_u32(uint32_t *p, uint32_t v)
{
    uint32_t old;
    asm volatile("atom.acquire.cta.shared.and.b32 %0, [%1], %2;"
                 : "=r"(old)
                 : "r"((uint32_t)__cvta_generic_to_shared(p)), "r"(v)
                 : "memory");
    return old;
}

/* Whether the word was what it was held for, and so became v. */
static __device__ __forceinline__ bool gm_swap_relaxed_block_u64(uint64_t *p, uint64_t held, uint64_t v)
{
    uint64_t old;
    asm volatile("atom.relaxed.cta.shared.cas.b64 %0, [%1], %2, %3;"
                 : "=l"(old)
                 : "r"((uint32_t)__cvta_generic_to_shared(p)), "l"(held), "l"(v)
                 : "memory");
    return old == held;
}

/* Two 64-bit words in one access, for this GPU alone. */
static __device__ __forceinline__ void gm_store_pair_gpu(void *p, uint64_t low, uint64_t high)
{
    asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(p), "l"(low), "l"(high) : "memory");
}

/* A granule in one access. Loads: volatile, because of any other, also one of 128 bits, ptxas drops the words that
 * nobody uses and loads the others one by one, between which they change; volatile is relaxed at system
 * scope. nvcc-check refuses relaxed loads of granules. */
#define GM_LOAD16(name, instruction)                                                                        \
    static __device__ __forceinline__ struct gm_granule name(const struct gm_granule *p)                    \
    {                                                                                                       \
        struct gm_granule g;                                                                                \
        asm volatile(instruction " {%0, %1, %2, %3}, [%4];"                                                 \
                     : "=r"(g.w[0]), "=r"(g.w[1]), "=r"(g.w[2]), "=r"(g.w[3])                               \
                     : "l"(p)                                                                               \
                     : "memory");                                                                           \
        return g;                                                                                           \
    }
#define GM_STORE16(name, instruction)                                                                       \
    static __device__ __forceinline__ void name(struct gm_granule *p, struct gm_granule g)                  \
    {                                                                                                       \
        asm volatile(instruction " [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(g.w[0]), "r"(g.w[1]),             \
                     "r"(g.w[2]), "r"(g.w[3])                                                               \
                     : "memory");                                                                           \
    }

/* A granule between two blocks. Acquire; the store is relaxed, because a granule is whole by itself, and what lies
 * before a reference is fenced. Of a ticket's slot all words are used. */
GM_LOAD16(gm_load16_gpu, "ld.acquire.gpu.global.v4.u32")
/* The same for a granule that refers to nothing: several of these are on their way at once, where each acquire would
 * wait for its own. */
GM_LOAD16(gm_load16_relaxed_gpu, "ld.volatile.global.v4.u32")
GM_STORE16(gm_store16_gpu, "st.relaxed.gpu.global.v4.u32")
/* One between a block and the host. */
GM_LOAD16(gm_load16_sys, "ld.volatile.global.v4.u32")
GM_STORE16(gm_store16_sys, "st.relaxed.sys.global.v4.u32")
