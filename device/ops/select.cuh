/* SPDX-License-Identifier: Apache-2.0
 *
 * What unique, select_if, partition and run_length share on blocks. A tile is read once, into shared memory, which no
 * client reaches; each warp has some rows of packs of 16 bytes, which it brings itself, and judges every element once:
 * a thread keeps a bit for each, and what is kept before its packs in their rows, which one scan over the lanes finds
 * for several rows. A barrier makes places of the warps' counts, and the kept elements are put together in shared
 * memory, from where whole packs go out. What is kept before a tile it finds by looking back (look_back.cuh). The next
 * tile is asked for, into registers, as soon as a tile lies in shared memory: the input is read once, so a client that
 * changes it changes what is kept, and no place that another tile owns. partition.cuh alone goes another way.
 *
 * R, the rule, gives: Word (elements as bits), neighbours (it looks at the element in front), keep(before, v), and
 * flip, all bits where keep says the opposite.
 */
#ifndef GM_OPS_SELECT_CUH
#define GM_OPS_SELECT_CUH

#include "cuda/prim/pack.cuh"
#include "cuda/prim/scan.cuh"
#include "ops/compare.h"
#include "ops/kept.h"
#include "ops/look_back.cuh"
#include "ops/run.cuh"

namespace
{

/* Shared memory: what warps counted; what thread 0 tells the block; the tile, with the element in front of it; and
 * behind it, from select_out on, what goes out. */
struct select_warps {
    uint32_t kept[GM_BLOCK_WARPS], start[GM_BLOCK_WARPS];
};
struct select_told {
    uint64_t tile, second, later; /* the share's first and second one, and the one behind the next */
    uint64_t kept, start;
    uint32_t aborted;
};
#define SELECT_TOLD ((uint32_t)sizeof(struct select_warps))
#define SELECT_IN   256u
static_assert(SELECT_TOLD + sizeof(struct select_told) + 8u <= SELECT_IN, "fits");

/* Whether registers hold the next tile while this one is worked on, and of how many packs the way overlaps. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define SELECT_EARLY   false
#define SELECT_AT_ONCE 2
#else
#define SELECT_EARLY   true
#define SELECT_AT_ONCE 8
#endif
constexpr int select_at_once = SELECT_AT_ONCE; /* pragmas know no macros */
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
    static constexpr uint32_t flip = 0;
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
    uint32_t flip;
    __device__ __forceinline__ explicit select_matches(const struct gm_predicate &a_p)
        : p(a_p), flip(0u - (uint32_t)(a_p.outside != 0))
    {
    }
    __device__ __forceinline__ bool keep(Word, Word v) const { return gm_predicate_inside(&p, v); }
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

__device__ __forceinline__ uint32_t select_shuffled(uint8_t v) { return v; }
__device__ __forceinline__ uint32_t select_shuffled(uint32_t v) { return v; }
__device__ __forceinline__ uint64_t select_shuffled(uint64_t v) { return v; }

template <typename W> __device__ __forceinline__ W select_load_one(const W *p)
{
    if constexpr (sizeof(W) == 1)
        return __ldcg(p);
    else
        return gm_global_load(p);
}

/* So many fields of so many bits in one to four registers, which are chosen and never indexed, so that loops over
 * fields need not be unrolled. */
template <uint32_t COUNT, uint32_t BITS> struct select_fields {
    static constexpr uint32_t EACH = 32u / BITS, WORDS = (COUNT + EACH - 1u) / EACH;
    static_assert(WORDS <= 4u, "registers");
    uint32_t a, b, c, d;

    __device__ __forceinline__ void clear() { a = b = c = d = 0; }
    /* Field k was 0. */
    __device__ __forceinline__ void set(uint32_t k, uint32_t v)
    {
        const uint32_t bits = v << k % EACH * BITS, w = k / EACH;
        a |= WORDS == 1u || w == 0 ? bits : 0;
        b |= WORDS > 1u && w == 1u ? bits : 0;
        c |= WORDS > 2u && w == 2u ? bits : 0;
        d |= WORDS > 3u && w == 3u ? bits : 0;
    }
    __device__ __forceinline__ uint32_t get(uint32_t k) const
    {
        const uint32_t w = k / EACH, low = WORDS == 1u || w == 0 ? a : b, high = WORDS > 3u && w == 3u ? d : c;
        return (WORDS > 2u && w >= 2u ? high : low) >> k % EACH * BITS & ((1u << BITS) - 1u);
    }
};

/* Sums over the lanes, field by field: of lanes below this one into v, and of all into sum. No field is to reach the
 * next one. Whole warp. */
__device__ __forceinline__ void select_scan(uint32_t *v, uint32_t *sum)
{
    const uint32_t own = *v, upto = gm_warp_scan_inclusive(own, [](uint32_t x, uint32_t y) { return x + y; });
    *sum = __shfl_sync(0xffffffffu, upto, 31);
    *v = upto - own;
}
template <uint32_t COUNT, uint32_t BITS>
__device__ __forceinline__ void select_scan(select_fields<COUNT, BITS> *v, select_fields<COUNT, BITS> *sum)
{
    sum->clear();
    select_scan(&v->a, &sum->a);
    if constexpr (select_fields<COUNT, BITS>::WORDS > 1u)
        select_scan(&v->b, &sum->b);
    if constexpr (select_fields<COUNT, BITS>::WORDS > 2u)
        select_scan(&v->c, &sum->c);
    if constexpr (select_fields<COUNT, BITS>::WORDS > 3u)
        select_scan(&v->d, &sum->d);
}

/* A tile of so many packs a thread. Pack k of a lane is in row k of its warp; rows of a warp follow each other, and so
 * do warps. */
template <class R, int PACKS> struct selector {
    typedef typename R::Word Word;
    static constexpr uint32_t E = 16u / sizeof(Word);
    static constexpr uint32_t ROW_BITS = E > 4u ? 16u : 8u; /* for how many are kept in a row */
    static_assert(E * 32u < 1u << ROW_BITS, "all may be");

    struct gm_run *run;
    R rule;
    uint64_t first; /* element of the job that the tile begins with */
    uint32_t count;
    uint4 ahead[PACKS]; /* of a tile on its way into shared memory, when it lies on the grid of packs */
    Word front;         /* thread 0: the element before it */
    /* Of each pack, behind counts: a bit for each element that is kept; how many are in its row before it, and in all.
     */
    select_fields<PACKS, E> kept;
    select_fields<PACKS, ROW_BITS> in_front, in_row;

    __device__ __forceinline__ selector(struct gm_run *a_run, const R &a_rule) : run(a_run), rule(a_rule) {}

    __device__ __forceinline__ static Word *staged() { return gm_run_scratch<Word>(SELECT_IN); }
    __device__ __forceinline__ const Word *from(uint64_t at) const { return gm_run_buffer<const Word>(run, 0) + at; }
    __device__ __forceinline__ static bool packed(const Word *p) { return ((uintptr_t)p & 15u) == 0; }

    /* Asks for a tile, while the one before it is worked on, where registers hold both; it is waited for in keep. */
    __device__ __forceinline__ void ask(uint64_t tile)
    {
        uint64_t elements;
        const uint64_t begin = gm_run_tile(run, tile, &elements);
        if (SELECT_EARLY && packed(from(begin)))
            load(from(begin), (uint32_t)elements / E);
        if (R::neighbours && threadIdx.x == 0 && begin != 0)
            front = select_load_one<Word>(from(begin) - 1);
    }
    __device__ __forceinline__ void load(const Word *in, uint32_t packs)
    {
        const uint4 *own = (const uint4 *)in + row(0) + (threadIdx.x & 31u);
        if (packs == PACKS * GM_CUDA_THREADS) {
#pragma unroll
            for (uint32_t k = 0; k < PACKS; k++)
                ahead[k] = __ldcg(own + k * 32u);
        } else {
#pragma unroll
            for (uint32_t k = 0; k < PACKS; k++)
                ahead[k] = row(k) + (threadIdx.x & 31u) < packs ? __ldcg(own + k * 32u) : make_uint4(0, 0, 0, 0);
        }
    }

    /* Into shared memory, for the warp; for the block where a rule looks at the element in front. What lies behind the
     * last element there is nobody's. */
    __device__ __forceinline__ void keep(uint64_t tile)
    {
        uint64_t elements;
        first = gm_run_tile(run, tile, &elements);
        count = (uint32_t)elements;
        const Word *in = from(first);
        const uint32_t packs = count / E, rest = packs * E + (threadIdx.x & 31u);
        uint4 *to = (uint4 *)staged();
        if (packed(in)) {
            if (!SELECT_EARLY)
                load(in, packs);
#pragma unroll
            for (uint32_t k = 0; k < PACKS; k++) {
                const uint32_t i = row(k) + (threadIdx.x & 31u);
                if (i < packs)
                    to[i] = ahead[k];
            }
        } else {
#pragma unroll 2
            for (uint32_t k = 0; k < PACKS; k++) {
                const uint32_t i = row(k) + (threadIdx.x & 31u);
                if (i < packs)
                    to[i] = gm_pack_shifted((const uint8_t *)(in + i * E));
            }
        }
        if (rest < count && packs / (PACKS * 32u) == threadIdx.x / 32u)
            staged()[rest] = select_load_one<Word>(in + rest);
        if (R::neighbours && threadIdx.x == 0 && first != 0)
            staged()[-1] = front;
        if (R::neighbours)
            __syncthreads();
        else
            __syncwarp();
    }

    /* The first pack of the warp's row k, and whether there is any. */
    __device__ __forceinline__ static uint32_t row(uint32_t k) { return (threadIdx.x / 32u * PACKS + k) * 32u; }
    __device__ __forceinline__ bool has_row(uint32_t k) const { return row(k) * E < count; }
    __device__ __forceinline__ uint4 pack(uint32_t k) const
    {
        return ((const uint4 *)staged())[row(k) + (threadIdx.x & 31u)];
    }
    /* The element of the tile that this lane's pack begins with. */
    __device__ __forceinline__ uint32_t at(uint32_t k) const { return (row(k) + (threadIdx.x & 31u)) * E; }

    /* Bit e: element e of the pack is kept. The element in front of it is the last one of the lane below: asked of
     * shared memory by every lane it would be four in a bank. Whole warp. */
    __device__ __forceinline__ uint32_t judge(uint32_t k, uint4 v) const
    {
        const uint32_t valid = at(k) < count ? min(count - at(k), E) : 0;
        const bool begins = first + at(k) == 0; /* the job: nothing is in front */
        Word before = 0;
        if constexpr (R::neighbours) {
            const Word last = select_element<Word>(v, (int)E - 1);
            before = (Word)__shfl_up_sync(0xffffffffu, select_shuffled(last), 1u);
            if ((threadIdx.x & 31u) == 0 && !begins)
                before = staged()[(int)at(k) - 1];
        }
        uint32_t is_kept = R::neighbours && begins ? 1u : 0;
#pragma unroll
        for (uint32_t e = 0; e < E; e++) {
            const Word one = select_element<Word>(v, (int)e);
            is_kept |= rule.keep(before, one) ? 1u << e : 0;
            before = one;
        }
        return (is_kept ^ rule.flip) & ((1u << valid) - 1u);
    }

    /* Judges. How many are kept, and for starts one more than the last kept one's position in the tile, or 0, by warps
     * into shared memory. A barrier must follow. */
    template <bool starts> __device__ __forceinline__ void counts()
    {
        struct select_warps *warps = gm_run_scratch<struct select_warps>(0);
        uint32_t all = 0, last = 0;
        kept.clear();
        in_front.clear();
#pragma unroll select_at_once
        for (uint32_t k = 0; k < PACKS; k++) {
            const uint32_t is_kept = has_row(k) ? judge(k, pack(k)) : 0;
            kept.set(k, is_kept);
            in_front.set(k, (uint32_t)__popc(is_kept));
            last = starts && is_kept != 0 ? at(k) + 32u - __clz((int)is_kept) : last;
        }
        select_scan(&in_front, &in_row);
#pragma unroll
        for (uint32_t k = 0; k < PACKS; k++)
            all += in_row.get(k);
#pragma unroll
        for (int mask = 16; starts && mask > 0; mask /= 2)
            last = max(last, __shfl_xor_sync(0xffffffffu, last, mask));
        if ((threadIdx.x & 31u) == 0)
            warps->kept[threadIdx.x / 32u] = all, warps->start[threadIdx.x / 32u] = last;
    }

    /* The tile's last kept element, one more than its position in the job; 0: none. Behind counts. */
    __device__ __forceinline__ uint64_t start() const
    {
        const struct select_warps *warps = gm_run_scratch<struct select_warps>(0);
        uint32_t last = 0;
        for (uint32_t w = 0; w < GM_BLOCK_WARPS; w++)
            last = max(last, warps->start[w]);
        return last != 0 ? first + last : 0;
    }

    /* How many are kept in the tile before the warp's, and in all. Behind counts. */
    __device__ __forceinline__ uint32_t before(uint32_t *all) const
    {
        const uint32_t lane = threadIdx.x & 31u;
        uint32_t kept_before = lane < GM_BLOCK_WARPS ? gm_run_scratch<struct select_warps>(0)->kept[lane] : 0;
        select_scan(&kept_before, all);
        return __shfl_sync(0xffffffffu, kept_before, (int)(threadIdx.x / 32u));
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

/* Moves what is kept, and for partition the others too, to its places. before, all: kept in the tile before this warp's
 * elements, and in all. */
template <class R, int PACKS, bool both>
__device__ __forceinline__ void select_put(const selector<R, PACKS> &s, struct gm_places kept, struct gm_places others,
                                           uint32_t before, uint32_t all)
{
    typedef typename R::Word Word;
    constexpr uint32_t E = selector<R, PACKS>::E, offset = select_out(16u * PACKS * GM_CUDA_THREADS);
    static_assert(offset + 16u * PACKS * GM_CUDA_THREADS + 64u <= GM_BLOCK_SCRATCH, "both stages fit");
    Word *out = gm_run_buffer<Word>(s.run, 1);
    const select_stage<Word> yes(out, kept, s.count, offset);
    const select_stage<Word> no(out, others, both ? s.count - yes.room : 0, yes.behind(offset));
#pragma unroll select_at_once
    for (uint32_t k = 0; k < PACKS; k++) {
        if (!s.has_row(k))
            continue;
        const uint4 v = s.pack(k);
        const uint32_t is_kept = s.kept.get(k), from = s.at(k);
        uint32_t at = before + s.in_front.get(k);
        before += s.in_row.get(k);
#pragma unroll
        for (uint32_t e = 0; e < E; e++) {
            const bool is = is_kept >> e & 1u;
            if (is)
                yes.put(at, select_element<Word>(v, (int)e));
            else if (both && from + e < s.count)
                no.put(from + e - at, select_element<Word>(v, (int)e));
            at += is;
        }
    }
    if (both) {
        yes.close(all);
        no.close(s.count - all);
    }
    __syncthreads();
    yes.store();
    if (both)
        no.store();
}

/* What tiles come to: how many are kept, and one more than the position of the last one, or 0. */
struct select_state {
    uint64_t kept, start;
};

/* For look_back.cuh. starts: those are wanted. */
template <bool starts> struct select_joins {
    typedef select_state State;
    static_assert(GM_ELEMENTS_MAX < UINT64_C(1) << 47, "each in half of three words");
    __device__ __forceinline__ static State nothing() { return {0, 0}; }
    __device__ __forceinline__ static State join(State a, State b)
    {
        return {a.kept + b.kept, starts && b.start == 0 ? a.start : b.start};
    }
    __device__ __forceinline__ static bool closed(State) { return false; }
    __device__ __forceinline__ static void pack(State s, uint32_t *w)
    {
        w[0] = (uint32_t)s.kept;
        w[1] = (uint32_t)(s.kept >> 32) | (uint32_t)s.start << 16;
        w[2] = (uint32_t)(s.start >> 16);
    }
    __device__ __forceinline__ static State unpack(const uint32_t *w)
    {
        return {w[0] | (uint64_t)(w[1] & 0xffffu) << 32, starts ? w[1] >> 16 | (uint64_t)w[2] << 16 : 0};
    }
    __device__ __forceinline__ static State down(State s, uint32_t d)
    {
        return {__shfl_down_sync(0xffffffffu, s.kept, d), starts ? __shfl_down_sync(0xffffffffu, s.start, d) : 0};
    }
    __device__ __forceinline__ static State at(State s, uint32_t lane)
    {
        return {__shfl_sync(0xffffffffu, s.kept, (int)lane), starts ? __shfl_sync(0xffffffffu, s.start, (int)lane) : 0};
    }
};

/* What is kept before a tile, to the whole block; own: in it. False: leave. Meanwhile the number of the tile behind the
 * next one comes. A barrier behind. The last tile leaves the answer. */
template <bool starts>
__device__ __forceinline__ bool select_before(struct gm_run *run, uint64_t tile, uint64_t next, const select_state &own,
                                              select_state *before)
{
    struct select_told *told = gm_run_scratch<struct select_told>(SELECT_TOLD);
    if (threadIdx.x < 32u) {
        select_state found = {0, 0};
        const bool good = look_back<select_joins<starts>>(run, tile, own, &found);
        if (threadIdx.x == 0) {
            told->kept = found.kept;
            told->start = found.start;
            told->aborted = !good;
            if (tile + 1u == run->job->tiles)
                gm_store_relaxed_u64(look_answer(run->job), found.kept + own.kept);
        }
    } else if (threadIdx.x == 32u) {
        told->later = next < run->job->tiles ? look_ask(run) : UINT64_MAX;
    }
    __syncthreads();
    *before = {told->kept, told->start};
    return told->aborted == 0;
}

/* The last phase, and the only one of most jobs; one tile has nothing to look back at, and a share takes one where the
 * job has a share for each. M, the mover, gives starts (it wants them), and move(s, tile, what is kept before it, of
 * that in the tile before the warp's elements, and in the whole tile). */
template <class R, int PACKS, class M> __device__ __noinline__ void select_write(struct gm_run *run, R rule)
{
    struct select_told *told = gm_run_scratch<struct select_told>(SELECT_TOLD);
    const uint64_t tiles = run->job->tiles;
    const bool alone = tiles <= 1u;
    selector<R, PACKS> s(run, rule);
    if (threadIdx.x == 0)
        told->tile = run->aborted != 0 ? UINT64_MAX : alone ? 0 : look_ask(run);
    __syncthreads();
    uint64_t tile = told->tile, next = UINT64_MAX, later = UINT64_MAX;
    if (tile < tiles) {
        s.ask(tile);
        if (tiles > run->job->shares) {
            if (threadIdx.x == 0)
                told->second = look_ask(run);
            __syncthreads();
            next = told->second;
        }
    }
    for (; tile < tiles; tile = next, next = later) {
        select_state before = {0, 0};
        uint32_t all;
        s.keep(tile);
        if (next < tiles)
            s.ask(next);
        s.template counts<M::starts>();
        __syncthreads();
        const uint32_t in_tile = s.before(&all);
        const select_state own = {all, M::starts ? s.start() : 0};
        if (alone) {
            if (threadIdx.x == 0)
                run->result = all;
        } else {
            if (threadIdx.x == 0)
                look_say_own<select_joins<M::starts>>(run, tile, own);
            if (!select_before<M::starts>(run, tile, next, own, &before))
                break;
            later = told->later;
        }
        M::move(s, tile, before, in_tile, all); /* what it reads behind its last barrier is written behind counts' */
    }
}

template <class R, int PACKS, class M> __device__ __forceinline__ void select_share(struct gm_run *run, const R &rule)
{
    if (run->job->phase + 1u < run->job->phases)
        look_clear(run);
    else
        select_write<R, PACKS, M>(run, rule);
}

/* Of nothing the answer is 0; of one tile the share has given it. */
__device__ __forceinline__ void select_finish(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    if (job->tiles > 1u && job->phase + 1u == job->phases && threadIdx.x == 0)
        run->result = gm_load_relaxed_u64(look_answer(job));
}

/* select_if and unique. */
struct select_kept {
    static constexpr bool starts = false;
    template <class R, int PACKS>
    __device__ __forceinline__ static void move(const selector<R, PACKS> &s, uint64_t, const select_state &before,
                                                uint32_t in_tile, uint32_t all)
    {
        const struct gm_places kept = gm_places_make(before.kept, all, s.run->job->n);
        select_put<R, PACKS, false>(s, kept, kept, in_tile, all);
    }
};

} // namespace

#endif
