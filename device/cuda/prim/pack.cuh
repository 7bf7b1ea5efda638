/* SPDX-License-Identifier: Apache-2.0
 *
 * 16 bytes at a time: a pack is what one thread moves by one access. Element e of a tile is always in pack e / E of
 * thread (e / E) mod threads, whatever the alignment of the buffer and however the bytes got here, so that sums do
 * not depend on either. Each thread for itself.
 */
#ifndef GM_PRIM_PACK_CUH
#define GM_PRIM_PACK_CUH

#include <stdint.h>

/* Packs that a thread has in flight: as many as registers hold without spills. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define GM_PACKS_AHEAD 2u
#else
#define GM_PACKS_AHEAD 4u
#endif

/* Elements as bits: Word is uint8_t, uint16_t, uint32_t or uint64_t. */
template <typename Word> struct gm_pack {
    static constexpr int elements = 16 / (int)sizeof(Word);
    Word w[elements];
};

__device__ __forceinline__ gm_pack<uint32_t> gm_pack_of(uint4 v, uint32_t) { return {{v.x, v.y, v.z, v.w}}; }
__device__ __forceinline__ gm_pack<uint64_t> gm_pack_of(uint4 v, uint64_t)
{
    return {{v.x | (uint64_t)v.y << 32, v.z | (uint64_t)v.w << 32}};
}
template <typename Word> __device__ __forceinline__ gm_pack<Word> gm_pack_split(uint4 v)
{
    constexpr int each = 4 / (int)sizeof(Word), bits = 8 * (int)sizeof(Word);
    const uint32_t word[4] = {v.x, v.y, v.z, v.w};
    gm_pack<Word> pack;
#pragma unroll
    for (int e = 0; e < pack.elements; e++)
        pack.w[e] = (Word)(word[e / each] >> e % each * bits);
    return pack;
}
__device__ __forceinline__ gm_pack<uint16_t> gm_pack_of(uint4 v, uint16_t) { return gm_pack_split<uint16_t>(v); }
__device__ __forceinline__ gm_pack<uint8_t> gm_pack_of(uint4 v, uint8_t) { return gm_pack_split<uint8_t>(v); }

__device__ __forceinline__ uint8_t gm_global_load(const uint8_t *p) { return __ldcg(p); }
__device__ __forceinline__ uint16_t gm_global_load(const uint16_t *p) { return __ldcg(p); }
__device__ __forceinline__ uint32_t gm_global_load(const uint32_t *p) { return __ldcg(p); }
__device__ __forceinline__ uint64_t gm_global_load(const uint64_t *p)
{
    return __ldcg((const unsigned long long *)p);
}

/* 16 bytes from anywhere, by aligned words. A word is read only if a byte of it is wanted. */
__device__ __forceinline__ uint4 gm_pack_shifted(const uint8_t *p)
{
    const uint32_t shift = ((uint32_t)(uintptr_t)p & 3u) * 8u;
    const uint32_t *w = (const uint32_t *)((uintptr_t)p & ~(uintptr_t)3);
    const uint32_t a = __ldcg(w), b = __ldcg(w + 1), c = __ldcg(w + 2), d = __ldcg(w + 3);
    const uint32_t e = shift ? __ldcg(w + 4) : 0;
    return make_uint4(__funnelshift_r(a, b, shift), __funnelshift_r(b, c, shift), __funnelshift_r(c, d, shift),
                      __funnelshift_r(d, e, shift));
}

/* Pack number `at` of a tile in global memory. Through L2 only: another SM may have written it in this kernel. */
template <typename Word>
__device__ __forceinline__ gm_pack<Word> gm_pack_load(const Word *tile, uint32_t at, uint32_t count, Word padding)
{
    constexpr uint32_t E = gm_pack<Word>::elements;
    const Word *p = tile + (uint64_t)at * E;
    if ((at + 1u) * E <= count && ((uintptr_t)tile & 15u) == 0)
        return gm_pack_of(__ldcg((const uint4 *)p), Word());
    gm_pack<Word> pack;
#pragma unroll
    for (uint32_t e = 0; e < E; e++)
        pack.w[e] = at * E + e < count ? gm_global_load(p + e) : padding;
    return pack;
}

/* The same from shared memory. */
template <typename Word>
__device__ __forceinline__ gm_pack<Word> gm_pack_take(const Word *tile, uint32_t at, uint32_t count, Word padding)
{
    constexpr uint32_t E = gm_pack<Word>::elements;
    const Word *p = tile + at * E;
    if ((at + 1u) * E <= count && ((uintptr_t)tile & 15u) == 0)
        return gm_pack_of(*(const uint4 *)p, Word());
    gm_pack<Word> pack;
#pragma unroll
    for (uint32_t e = 0; e < E; e++)
        pack.w[e] = at * E + e < count ? p[e] : padding;
    return pack;
}

#endif
