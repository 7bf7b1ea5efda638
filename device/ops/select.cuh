/* SPDX-License-Identifier: Apache-2.0
 *
 * What unique, select_if, partition and run_length share on blocks; select.h says how it goes and what holds when a
 * client changes the input. A tile is read once, into shared memory; each warp has a row of packs of 16 bytes and
 * counts what is kept, a barrier makes places of the warps' counts, ballots find the place of each element in its warp,
 * and the kept ones are put together in shared memory, from where whole packs go out. A job of one tile has one phase.
 *
 * R, the rule, gives: Word (elements as bits), neighbours (it looks at the element in front), keep(before, v).
 */
#ifndef GM_OPS_SELECT_CUH
#define GM_OPS_SELECT_CUH

#include "cuda/prim/pack.cuh"
#include "cuda/prim/scan.cuh"
#include "ops/compare.h"
#include "ops/kept.h"
#include "ops/run.cuh"

namespace
{

/* Shared memory: what warps counted; the tile, with the element in front of it; and behind it, from select_out on, what
 * goes out. */
struct select_warps {
    uint32_t kept[GM_BLOCK_WARPS], start[GM_BLOCK_WARPS];
};
#define SELECT_IN 256u
static_assert(sizeof(struct select_warps) + 8u <= SELECT_IN, "fits");
__device__ __forceinline__ constexpr uint32_t select_out(uint32_t tile_bytes) { return SELECT_IN + tile_bytes; }

/* IEEE 754 for floats: a NaN equals nothing, -0 equals +0. */
__device__ __forceinline__ bool select_equal(uint32_t a, uint32_t b, bool floats)
{
    return floats ? __uint_as_float(a) == __uint_as_float(b) : a == b;
}
__device__ __forceinline__ bool select_equal(uint64_t a, uint64_t b, bool floats)
{
    return floats ? __longlong_as_double((long long)a) == __longlong_as_double((long long)b) : a == b;
}

template <typename W, bool floats> struct select_starts {
    typedef W Word;
    static constexpr bool neighbours = true;
    __device__ __forceinline__ bool keep(Word before, Word v) const
    {
        if constexpr (sizeof(W) == 1)
            return before != v;
        else
            return !select_equal(before, v, floats);
    }
};

template <typename W> struct select_matches {
    typedef W Word;
    static constexpr bool neighbours = false;
    struct gm_predicate p;
    __device__ __forceinline__ bool keep(Word, Word v) const { return gm_predicate_is(&p, v); }
};

__device__ __forceinline__ uint32_t select_word(uint4 v, int i)
{
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/* Element e of a pack; e is a constant once loops are unrolled. */
template <typename W> __device__ __forceinline__ W select_element(uint4 v, int e)
{
    if constexpr (sizeof(W) == 1)
        return (W)(select_word(v, e / 4) >> 8 * (e % 4));
    else if constexpr (sizeof(W) == 4)
        return select_word(v, e);
    else
        return select_word(v, e * 2) | (uint64_t)select_word(v, e * 2 + 1) << 32;
}

template <typename W> __device__ __forceinline__ W select_load_one(const W *p)
{
    if constexpr (sizeof(W) == 1)
        return __ldcg(p);
    else
        return gm_global_load(p);
}

/* Of the counts of all lanes: those of lanes below, and all. Few elements are counted faster one by one. */
template <uint32_t E> __device__ __forceinline__ uint32_t select_rank(uint32_t flags, uint32_t *all)
{
    uint32_t before = 0;
    if constexpr (E <= 4u) {
        const uint32_t below = (1u << (threadIdx.x & 31u)) - 1u;
        *all = 0;
#pragma unroll
        for (uint32_t e = 0; e < E; e++) {
            const uint32_t ballot = __ballot_sync(0xffffffffu, flags >> e & 1u);
            before += __popc(ballot & below);
            *all += __popc(ballot);
        }
    } else {
        const uint32_t own = __popc(flags);
        const uint32_t upto = gm_warp_scan_inclusive(own, [](uint32_t a, uint32_t b) { return a + b; });
        *all = __shfl_sync(0xffffffffu, upto, 31);
        before = upto - own;
    }
    return before;
}

/* A tile of so many packs a thread. Pack k of a lane is pack k * 32 + lane of its warp's row; rows of warps follow each
 * other. */
template <class R, int PACKS> struct selector {
    typedef typename R::Word Word;
    static constexpr uint32_t E = 16u / sizeof(Word);

    struct gm_run *run;
    R rule;
    uint64_t first; /* element of the job that the tile begins with */
    uint32_t count;

    __device__ __forceinline__ selector(struct gm_run *a_run, const R &a_rule) : run(a_run), rule(a_rule) {}

    __device__ __forceinline__ static Word *staged() { return gm_run_scratch<Word>(SELECT_IN); }

    /* Into shared memory. A barrier. What lies behind the last element there is nobody's. */
    __device__ __forceinline__ void load(uint64_t tile)
    {
        uint64_t elements;
        first = gm_run_tile(run, tile, &elements);
        count = (uint32_t)elements;
        const Word *from = gm_run_buffer<const Word>(run, 0) + first;
        const uint32_t packs = count / E, rest = packs * E + threadIdx.x;
        uint4 *to = (uint4 *)staged();
        if (((uintptr_t)from & 15u) == 0) {
#pragma unroll 8
            for (uint32_t i = threadIdx.x; i < packs; i += GM_CUDA_THREADS)
                to[i] = __ldcg((const uint4 *)from + i);
        } else {
#pragma unroll 2
            for (uint32_t i = threadIdx.x; i < packs; i += GM_CUDA_THREADS)
                to[i] = gm_pack_shifted((const uint8_t *)(from + i * E));
        }
        if (rest < count)
            staged()[rest] = select_load_one<Word>(from + rest);
        if (R::neighbours && threadIdx.x == 0 && first != 0)
            staged()[-1] = select_load_one<Word>(from - 1);
        __syncthreads();
    }

    /* The first pack of the warp's row k, and whether there is any. */
    __device__ __forceinline__ uint32_t row(int k) const { return (threadIdx.x / 32u * PACKS + (uint32_t)k) * 32u; }
    __device__ __forceinline__ bool has_row(int k) const { return row(k) * E < count; }
    __device__ __forceinline__ uint4 pack(int k) const
    {
        return ((const uint4 *)staged())[row(k) + (threadIdx.x & 31u)];
    }
    /* The element of the tile that this lane's pack begins with. */
    __device__ __forceinline__ uint32_t at(int k) const { return (row(k) + (threadIdx.x & 31u)) * E; }

    /* Bit e: element e of the pack is kept. */
    __device__ __forceinline__ uint32_t judge(int k, uint4 v) const
    {
        const uint32_t valid = at(k) < count ? min(count - at(k), E) : 0;
        const bool begins = first + at(k) == 0; /* the job: nothing is in front */
        Word before = R::neighbours && !begins ? staged()[(int)at(k) - 1] : 0;
        uint32_t flags = R::neighbours && begins ? 1u : 0;
#pragma unroll
        for (uint32_t e = 0; e < E; e++) {
            const Word one = select_element<Word>(v, (int)e);
            flags |= rule.keep(before, one) ? 1u << e : 0;
            before = one;
        }
        return flags & ((1u << valid) - 1u);
    }

    /* How many are kept, and one more than the last kept one's position in the tile, or 0, by warps into shared memory.
     * A barrier. */
    __device__ __forceinline__ void counts() const
    {
        struct select_warps *warps = gm_run_scratch<struct select_warps>(0);
        uint32_t kept = 0, last = 0;
#pragma unroll 1
        for (int k = 0; k < PACKS && has_row(k); k++) {
            const uint32_t flags = judge(k, pack(k));
            kept += __popc(flags);
            last = flags != 0 ? at(k) + 32u - __clz((int)flags) : last;
        }
#pragma unroll
        for (int mask = 16; mask > 0; mask /= 2) {
            kept += __shfl_xor_sync(0xffffffffu, kept, mask);
            last = max(last, __shfl_xor_sync(0xffffffffu, last, mask));
        }
        if ((threadIdx.x & 31u) == 0)
            warps->kept[threadIdx.x / 32u] = kept, warps->start[threadIdx.x / 32u] = last;
        __syncthreads();
    }

    /* Leaves in the workspace how many are kept, and where the last run begins. Behind counts. */
    __device__ __forceinline__ void put_counts(uint64_t tile) const
    {
        const struct select_warps *warps = gm_run_scratch<struct select_warps>(0);
        uint32_t kept = 0, last = 0;
        if (threadIdx.x != 0)
            return;
        for (uint32_t w = 0; w < GM_BLOCK_WARPS; w++)
            kept += warps->kept[w], last = max(last, warps->start[w]);
        ((struct gm_kept *)run->job->workspace)[tile] =
            gm_kept_make(0, kept, last != 0 ? first + last - 1u : GM_KEPT_NO_START);
    }

    /* How many are kept in the tile before the warp's, and in all. Behind counts. */
    __device__ __forceinline__ uint32_t before(uint32_t *all) const
    {
        const struct select_warps *warps = gm_run_scratch<struct select_warps>(0);
        uint32_t sum = 0, own = 0;
#pragma unroll
        for (uint32_t w = 0; w < GM_BLOCK_WARPS; w++) {
            own = w == threadIdx.x / 32u ? sum : own;
            sum += warps->kept[w];
        }
        *all = sum;
        return own;
    }
};

/* Elements that wait in shared memory for their way out. They lie there as they will in global memory, modulo 16. */
template <typename W> struct select_stage {
    W *out, *staged;
    uint32_t room; /* never more than a tile */

    __device__ __forceinline__ select_stage(W *buffer, struct gm_places places, uint32_t most, uint32_t offset)
    {
        const uint64_t all = places.end - places.next;
        out = buffer + places.next;
        room = all < most ? (uint32_t)all : most;
        staged = gm_run_scratch<W>(offset + ((uint32_t)(uintptr_t)out & 15u));
    }
    /* Where another stage may begin. */
    __device__ __forceinline__ uint32_t behind(uint32_t offset) const
    {
        return (offset + 16u + room * (uint32_t)sizeof(W) + 15u) & ~15u;
    }
    __device__ __forceinline__ void put(uint32_t at, W v) const
    {
        if (at < room)
            staged[at] = v;
    }
    /* Zeros where nothing came. */
    __device__ __forceinline__ void close(uint32_t have) const
    {
        for (uint32_t i = have + threadIdx.x; i < room; i += GM_CUDA_THREADS)
            staged[i] = 0;
    }
    /* Behind a barrier. */
    __device__ __forceinline__ void store() const
    {
        const uint32_t bytes = room * (uint32_t)sizeof(W), before = 0u - (uint32_t)(uintptr_t)out & 15u;
        const uint32_t head = min(before, bytes), packs = (bytes - head) / 16u, after = head + packs * 16u;
        const uint8_t *from = (const uint8_t *)staged;
        uint8_t *to = (uint8_t *)out;
#pragma unroll 4
        for (uint32_t i = threadIdx.x; i < packs; i += GM_CUDA_THREADS)
            __stcg((uint4 *)(to + head) + i, *((const uint4 *)(from + head) + i));
        if (threadIdx.x < head)
            to[threadIdx.x] = from[threadIdx.x];
        if (threadIdx.x < bytes - after)
            to[after + threadIdx.x] = from[after + threadIdx.x];
    }
};

__device__ __forceinline__ struct gm_kept select_kept(const struct gm_job *job, uint64_t tile)
{
    const ulonglong2 pair = __ldcg((const ulonglong2 *)job->workspace + tile); /* another SM wrote it */
    struct gm_kept kept;
    kept.counts = pair.x;
    kept.start = pair.y;
    return kept;
}

/* Where the tile's elements go: kept ones, and the others behind all that are kept. all: kept in this tile, now. */
__device__ __forceinline__ void select_places(struct gm_run *run, uint64_t tile, uint64_t first, uint32_t count,
                                              uint32_t all, struct gm_places *kept, struct gm_places *others)
{
    const struct gm_job *job = run->job;
    if (job->phases == 1) {
        *kept = gm_places_make(0, all, job->n);
        *others = gm_places_make(all, count - all, job->n);
        if (threadIdx.x == 0)
            run->result = all;
        return;
    }
    const struct gm_kept own = select_kept(job, tile), last = select_kept(job, job->tiles - 1u);
    const uint64_t before = gm_kept_before(&own);
    *kept = gm_places_make(before, gm_kept_count(&own), job->n);
    *others = gm_places_make(gm_kept_upto(&last) + (first - before), count - gm_kept_count(&own), job->n);
}

/* both: for partition. */
template <class R, int PACKS, bool both>
__device__ __forceinline__ void select_move(struct gm_run *run, const R &rule, uint64_t tile)
{
    typedef typename R::Word Word;
    constexpr uint32_t offset = select_out(16u * PACKS * GM_CUDA_THREADS);
    static_assert(offset + 16u * PACKS * GM_CUDA_THREADS + 64u <= GM_BLOCK_SCRATCH, "both stages fit");
    selector<R, PACKS> s(run, rule);
    struct gm_places kept, others;
    uint32_t all;
    s.load(tile);
    s.counts();
    uint32_t before = s.before(&all);
    select_places(run, tile, s.first, s.count, all, &kept, &others);
    Word *out = gm_run_buffer<Word>(run, 1);
    const select_stage<Word> yes(out, kept, s.count, offset);
    const select_stage<Word> no(out, others, both ? s.count - yes.room : 0, yes.behind(offset));
#pragma unroll 1
    for (int k = 0; k < PACKS && s.has_row(k); k++) {
        const uint4 v = s.pack(k);
        const uint32_t flags = s.judge(k, v), from = s.at(k);
        uint32_t in_row, at = before + select_rank<s.E>(flags, &in_row);
        before += in_row;
#pragma unroll
        for (uint32_t e = 0; e < s.E; e++) {
            const bool is = flags >> e & 1u;
            if (is)
                yes.put(at, select_element<Word>(v, (int)e));
            else if (both && from + e < s.count)
                no.put(from + e - at, select_element<Word>(v, (int)e));
            at += is;
        }
    }
    yes.close(all);
    if (both)
        no.close(s.count - all);
    __syncthreads();
    yes.store();
    if (both)
        no.store();
}

template <class R, int PACKS, bool both> __device__ __noinline__ void select_share(struct gm_run *run, R rule)
{
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile;
    while (gm_run_next_tile(run, &tiles, &tile)) {
        if (run->job->phase + 1u < run->job->phases) {
            selector<R, PACKS> s(run, rule);
            s.load(tile);
            s.counts();
            s.put_counts(tile);
        } else {
            select_move<R, PACKS, both>(run, rule, tile);
        }
    }
}

struct select_sum {
    __device__ __forceinline__ uint64_t operator()(uint64_t a, uint64_t b) const { return a + b; }
};
struct select_latest {
    __device__ __forceinline__ uint64_t operator()(uint64_t a, uint64_t b) const { return a > b ? a : b; }
};

/* Every tile learns what is kept before it. A thread has some tiles in a row; pieces of all threads follow each other.
 * Starts are one more than positions here; 0: none yet. Each of the two scans has the other's barrier between what a
 * piece reads and what the next one writes. */
__device__ __noinline__ void select_scan(struct gm_run *run)
{
    constexpr uint32_t each = 4;
    const struct gm_job *job = run->job;
    struct gm_kept *all = (struct gm_kept *)job->workspace;
    uint64_t *sums = gm_run_scratch<uint64_t>(0), *latest = sums + GM_BLOCK_WARPS;
    uint64_t before = 0, start = 0;
#pragma unroll 1
    for (uint64_t base = 0; base < job->tiles; base += each * GM_CUDA_THREADS) {
        const uint64_t first = base + threadIdx.x * each;
        struct gm_kept tile[each];
        uint64_t own = 0, own_start = 0, sum, last;
#pragma unroll
        for (uint32_t i = 0; i < each; i++)
            tile[i] = first + i < job->tiles ? select_kept(job, first + i) : gm_kept_make(0, 0, GM_KEPT_NO_START);
#pragma unroll
        for (uint32_t i = 0; i < each; i++) {
            own += gm_kept_count(&tile[i]);
            own_start = tile[i].start != GM_KEPT_NO_START ? tile[i].start + 1u : own_start;
        }
        uint64_t at = before + gm_block_scan_exclusive<uint64_t>(own, 0, select_sum(), sums, &sum);
        uint64_t from = gm_block_scan_exclusive<uint64_t>(own_start, 0, select_latest(), latest, &last);
        from = from > start ? from : start;
#pragma unroll
        for (uint32_t i = 0; i < each; i++) {
            if (first + i < job->tiles)
                all[first + i] = gm_kept_make(at, gm_kept_count(&tile[i]), from != 0 ? from - 1u : 0);
            at += gm_kept_count(&tile[i]);
            from = tile[i].start != GM_KEPT_NO_START ? tile[i].start + 1u : from;
        }
        before += sum;
        start = last > start ? last : start;
    }
}

__device__ __forceinline__ void select_finish(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    if (job->phases == 1)
        return; /* the share has answered; of nothing the answer is 0 */
    if (job->phase == 0) {
        select_scan(run);
    } else if (threadIdx.x == 0) {
        const struct gm_kept last = select_kept(job, job->tiles - 1u);
        run->result = gm_kept_upto(&last);
    }
}

} // namespace

#endif
