/* SPDX-License-Identifier: Apache-2.0
 *
 * What the scheduler's one source needs from the machine it runs on: on a GPU the dispatcher is a warp of 32 SIMT
 * lanes, on the CPU a warp of one thread. Everything else in device/core is written against these names.
 */
#ifndef GM_CORE_PORT_H
#define GM_CORE_PORT_H

#include "atomic.h"

#ifdef __CUDACC__
#define GM_DEV static __device__ __forceinline__
/* A call: keeps what is rare, or large, out of the turn's registers. */
#define GM_DEV_CALL static __device__ __noinline__
#define GM_WARP 32u
#define GM_UNROLL _Pragma("unroll")
GM_DEV uint32_t gm_lane_id(void) { return threadIdx.x & 31u; }
GM_DEV uint32_t gm_ballot(bool p) { return __ballot_sync(0xffffffffu, p); }
/* Which of the lanes that have a value have the same as this one; 0 where this one has none. */
GM_DEV uint32_t gm_match(bool p, uint32_t v)
{
    const uint32_t have = __ballot_sync(0xffffffffu, p), same = __match_any_sync(0xffffffffu, v);
    return p ? have & same : 0;
}
GM_DEV uint32_t gm_shfl_u32(uint32_t v, uint32_t lane) { return __shfl_sync(0xffffffffu, v, lane); }
GM_DEV uint64_t gm_shfl_u64(uint64_t v, uint32_t lane) { return __shfl_sync(0xffffffffu, v, lane); }
GM_DEV void gm_syncwarp(void) { __syncwarp(); }
GM_DEV uint32_t gm_lowest_zero(uint32_t mask) { return mask == 0xffffffffu ? 32u : (uint32_t)__ffs(~mask) - 1u; }
GM_DEV uint32_t gm_lowest_one(uint32_t mask) { return mask == 0 ? 32u : (uint32_t)__ffs(mask) - 1u; }
GM_DEV uint32_t gm_count_ones(uint32_t mask) { return (uint32_t)__popc(mask); }
/* Sum over the lanes before this one. Mostly of zeros and ones, which a vote answers in a fifth of the time. */
GM_DEV uint32_t gm_scan_exclusive(uint32_t v)
{
    if (__any_sync(0xffffffffu, v > 1u) == 0)
        return (uint32_t)__popc(__ballot_sync(0xffffffffu, v != 0) & ((1u << gm_lane_id()) - 1u));
    uint32_t sum = v;
    for (uint32_t d = 1; d < 32u; d *= 2) {
        const uint32_t below = __shfl_up_sync(0xffffffffu, sum, d);
        if (gm_lane_id() >= d)
            sum += below;
    }
    return sum - v;
}
GM_DEV uint64_t gm_now_ns(void)
{
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}
#else
#include <stdbool.h>
#include <time.h>
#define GM_DEV GM_HD
#define GM_DEV_CALL GM_HD
#define GM_WARP 1u
#define GM_UNROLL
GM_DEV uint32_t gm_lane_id(void) { return 0; }
GM_DEV uint32_t gm_ballot(bool p) { return p ? 1u : 0u; }
GM_DEV uint32_t gm_match(bool p, uint32_t v) { return (void)v, p ? 1u : 0u; }
GM_DEV uint32_t gm_shfl_u32(uint32_t v, uint32_t lane) { return (void)lane, v; }
GM_DEV uint64_t gm_shfl_u64(uint64_t v, uint32_t lane) { return (void)lane, v; }
GM_DEV void gm_syncwarp(void) {}
GM_DEV uint32_t gm_lowest_zero(uint32_t mask) { return mask == 0xffffffffu ? 32u : (uint32_t)__builtin_ctz(~mask); }
GM_DEV uint32_t gm_lowest_one(uint32_t mask) { return mask == 0 ? 32u : (uint32_t)__builtin_ctz(mask); }
GM_DEV uint32_t gm_count_ones(uint32_t mask) { return (uint32_t)__builtin_popcount(mask); }
GM_DEV uint32_t gm_scan_exclusive(uint32_t v) { return (void)v, 0; }
GM_DEV uint64_t gm_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
#endif

/* Words that another warp may be writing: what they say decides which way a warp goes, so all of it takes the answer of
 * its first lane. Whole warp. */
GM_DEV uint32_t gm_agreed_u32(const uint32_t *p) { return gm_shfl_u32(gm_load_acquire_block_u32(p), 0); }
GM_DEV uint64_t gm_agreed_u64(const uint64_t *p) { return gm_shfl_u64(gm_load_acquire_block_u64(p), 0); }

#endif
