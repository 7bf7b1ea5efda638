/* SPDX-License-Identifier: Apache-2.0
 *
 * A tile of a scan on a block: see prefix.h for the rules. It lies in shared memory, and a thread has some elements in
 * a row of it, which it goes through twice: for what they come to, and to write. Between the two there is a scan over
 * the lanes of a warp, and one over the warps. A warp brings and stores what its own threads have, so that only the
 * scan over the warps needs a barrier. The order of operands is that of the elements, and where tiles, warps and
 * threads are cut depends on n alone.
 *
 * S, the scan, gives: Word (elements as bits), Value (a state), nothing(), padding() (a word that changes no state),
 * lift(word), join(a, b), wrong(before, x, after) (the step left the type) and lower(value).
 */
#ifndef GM_OPS_PREFIX_TILE_CUH
#define GM_OPS_PREFIX_TILE_CUH

#include "core/plan.h"
#include "cuda/prim/pack.cuh"
#include "ops/keys.h"
#include "ops/look_back.cuh"
#include "ops/run.cuh"

#define GM_PREFIX_TILE  ((uint32_t)GM_TILE_BYTES_scan_sum)
#define GM_PREFIX_PACKS (GM_PREFIX_TILE / 16u / GM_CUDA_THREADS) /* of a thread */

/* Whether registers hold the next tile while this one is worked on, and of how many packs the way overlaps: as many as
 * they hold beside it without spills. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define GM_PREFIX_EARLY   false
#define GM_PREFIX_AT_ONCE 2
#else
#define GM_PREFIX_EARLY   true
#define GM_PREFIX_AT_ONCE 4
#endif

static_assert(GM_TILE_BYTES_scan_min == GM_PREFIX_TILE && GM_TILE_BYTES_scan_max == GM_PREFIX_TILE, "one for all");
static_assert(GM_PREFIX_PACKS * 16u * GM_CUDA_THREADS == GM_PREFIX_TILE, "every thread has as many");
static_assert(GM_PARTIAL_BYTES == sizeof(struct gm_granule), "of a tile: what it says, see look_back.cuh");

/* From a thread to the block: the share's first tile, its second, the one behind the next; what comes before a tile. */
struct gm_prefix_told {
    uint64_t tile, second, later, state;
    uint32_t aborted;
};

/* Scratch: states of the warps; what a block is told; what segscan.cuh needs; and a tile. */
#define GM_PREFIX_WARPS 0u
#define GM_PREFIX_TOLD  (GM_BLOCK_WARPS * 16u)
#define GM_PREFIX_HEADS (GM_PREFIX_TOLD + 64u)
#define GM_PREFIX_KEPT  (GM_PREFIX_HEADS + GM_PREFIX_TILE / 32u + 64u)
static_assert(sizeof(struct gm_prefix_told) <= 64u && GM_PREFIX_KEPT % 128u == 0, "whole lines");
static_assert(GM_PREFIX_KEPT + GM_PREFIX_TILE <= GM_BLOCK_SCRATCH, "fits");

namespace
{

/* ---- the scans ---- */

template <typename W, bool is_signed> struct prefix_integer {
    typedef W Word;
    typedef W Value;
    __device__ __forceinline__ static Value nothing() { return 0; }
    __device__ __forceinline__ static Word padding() { return 0; }
    __device__ __forceinline__ static Value lift(Word w) { return w; }
    __device__ __forceinline__ static Word lower(Value v) { return v; }
    __device__ __forceinline__ static Value join(Value a, Value b) { return a + b; }
    __device__ __forceinline__ static bool wrong(Value before, Value x, Value after)
    {
        return is_signed ? ((before ^ after) & (x ^ after)) >> (sizeof(W) * 8u - 1u) != 0 : after < before;
    }
};

__device__ __forceinline__ double prefix_number(uint32_t bits) { return (double)__uint_as_float(bits); }
__device__ __forceinline__ double prefix_number(uint64_t bits) { return __longlong_as_double((long long)bits); }
__device__ __forceinline__ void prefix_round(double v, uint32_t *w)
{
    const float f = __double2float_rn(v);
    *w = f == f ? __float_as_uint(f) : 0x7fc00000u; /* a NaN only of a NaN; f64 compares at half the rate */
}
__device__ __forceinline__ void prefix_round(double v, uint64_t *w)
{
    *w = v == v ? (uint64_t)__double_as_longlong(v) : (uint64_t)0x7ff8000000000000u;
}

template <typename W> struct prefix_float {
    typedef W Word;
    typedef double Value;
    __device__ __forceinline__ static Value nothing() { return 0; }
    __device__ __forceinline__ static Word padding() { return 0; }
    __device__ __forceinline__ static Value lift(Word w) { return prefix_number(w); }
    __device__ __forceinline__ static Word lower(Value v)
    {
        Word w;
        prefix_round(v, &w);
        return w;
    }
    __device__ __forceinline__ static Value join(Value a, Value b) { return __dadd_rn(a, b); }
    __device__ __forceinline__ static bool wrong(Value, Value, Value) { return false; }
};

__device__ __forceinline__ uint32_t prefix_key(const struct gm_key_rule &r, uint32_t v)
{
    return gm_key_encode_u32(&r, v);
}
__device__ __forceinline__ uint64_t prefix_key(const struct gm_key_rule &r, uint64_t v)
{
    return gm_key_encode_u64(&r, v);
}

/* States are keys. The rule is a constant of each type: registers are short. */
template <typename W, uint32_t dtype, enum gm_key_order order> struct prefix_least {
    typedef W Word;
    typedef W Value;
    __device__ __forceinline__ static struct gm_key_rule rule() { return gm_key_rule(dtype, order); }
    __device__ __forceinline__ static Value nothing() { return ~(Value)0; }
    __device__ __forceinline__ static Word padding() { return lower(nothing()); }
    __device__ __forceinline__ static Value lift(Word w) { return prefix_key(rule(), w); }
    __device__ __forceinline__ static Word lower(Value v)
    {
        const struct gm_key_rule r = rule();
        return (Word)gm_key_result(&r, dtype, v);
    }
    __device__ __forceinline__ static Value join(Value a, Value b) { return b < a ? b : a; }
    __device__ __forceinline__ static bool wrong(Value, Value, Value) { return false; }
};

/* ---- states of warps and blocks ---- */

/* head: a segment begins, and v is of what is behind the last beginning. Always 0 in scans without segments. */
template <typename V> struct prefix_state {
    V v;
    uint32_t head;
};

template <class S, bool segmented>
__device__ __forceinline__ prefix_state<typename S::Value> prefix_join(prefix_state<typename S::Value> a,
                                                                       prefix_state<typename S::Value> b)
{
    if (segmented && b.head != 0)
        return b;
    return {S::join(a.v, b.v), segmented ? a.head : 0};
}

/* Every lane has what its elements come to. Returns what comes before the lane, and moves sum, what comes before the
 * first lane. Whole warp. */
template <class S, bool segmented>
__device__ __forceinline__ prefix_state<typename S::Value> prefix_row(prefix_state<typename S::Value> *sum,
                                                                      prefix_state<typename S::Value> own)
{
    typedef typename S::Value V;
    const uint32_t lane = threadIdx.x & 31u;
    const uint32_t heads = segmented ? __ballot_sync(0xffffffffu, own.head != 0) : 0;
    const uint32_t upto = heads & (0xffffffffu >> (31u - lane));
    const uint32_t start = upto != 0 ? 31u - (uint32_t)__clz((int)upto) : 0; /* lanes before it do not count */
    V v = own.v;
#pragma unroll
    for (uint32_t d = 1; d < 32u; d *= 2u) {
        const V below = __shfl_up_sync(0xffffffffu, v, d);
        v = lane >= start + d ? S::join(below, v) : v;
    }
    const V left = __shfl_up_sync(0xffffffffu, v, 1u), last = __shfl_sync(0xffffffffu, v, 31);
    const prefix_state<V> before = *sum;
    *sum = prefix_join<S, segmented>(before, {last, heads != 0});
    return lane == 0 ? before : prefix_join<S, segmented>(before, {left, (heads & ((1u << lane) - 1u)) != 0});
}

/* sum: what the warp's elements come to. Returns what comes before them in the tile, and what the tile comes to in all.
 * Whole block; a barrier within, and another has to follow before the next call. */
template <class S, bool segmented>
__device__ __forceinline__ prefix_state<typename S::Value> prefix_block(prefix_state<typename S::Value> sum,
                                                                        prefix_state<typename S::Value> *all)
{
    typedef prefix_state<typename S::Value> State;
    static_assert(sizeof(State) <= 16u, "fits");
    State *warps = gm_run_scratch<State>(GM_PREFIX_WARPS);
    const uint32_t warp = threadIdx.x / 32u;
    if ((threadIdx.x & 31u) == 0)
        warps[warp] = sum;
    __syncthreads();
    State of = {S::nothing(), 0};
    if ((threadIdx.x & 31u) < GM_BLOCK_WARPS)
        of = warps[threadIdx.x & 31u];
    *all = {S::nothing(), 0};
    const State before = prefix_row<S, segmented>(all, of);
    return {__shfl_sync(0xffffffffu, before.v, (int)warp),
            segmented ? __shfl_sync(0xffffffffu, before.head, (int)warp) : 0};
}
static_assert(GM_BLOCK_WARPS <= 32, "a lane for each warp");

/* How states of tiles are joined, for look_back.cuh. */
__device__ __forceinline__ uint64_t prefix_word(uint32_t v) { return v; }
__device__ __forceinline__ uint64_t prefix_word(uint64_t v) { return v; }
__device__ __forceinline__ uint64_t prefix_word(double v) { return (uint64_t)__double_as_longlong(v); }
__device__ __forceinline__ void prefix_value(uint64_t word, uint32_t *v) { *v = (uint32_t)word; }
__device__ __forceinline__ void prefix_value(uint64_t word, uint64_t *v) { *v = word; }
__device__ __forceinline__ void prefix_value(uint64_t word, double *v) { *v = __longlong_as_double((long long)word); }

template <class S, bool segmented> struct prefix_joins {
    typedef prefix_state<typename S::Value> State;
    __device__ __forceinline__ static State nothing() { return {S::nothing(), 0}; }
    __device__ __forceinline__ static State join(State a, State b) { return prefix_join<S, segmented>(a, b); }
    __device__ __forceinline__ static bool closed(State s) { return segmented && s.head != 0; }
    __device__ __forceinline__ static void pack(State s, uint32_t *w)
    {
        const uint64_t word = prefix_word(s.v);
        w[0] = (uint32_t)word;
        w[1] = (uint32_t)(word >> 32);
        w[2] = s.head;
    }
    __device__ __forceinline__ static State unpack(const uint32_t *w)
    {
        State s;
        prefix_value(w[0] | (uint64_t)w[1] << 32, &s.v);
        s.head = segmented ? w[2] : 0;
        return s;
    }
    __device__ __forceinline__ static State down(State s, uint32_t d)
    {
        return {__shfl_down_sync(0xffffffffu, s.v, d), segmented ? __shfl_down_sync(0xffffffffu, s.head, d) : 0};
    }
    __device__ __forceinline__ static State at(State s, uint32_t lane)
    {
        return {__shfl_sync(0xffffffffu, s.v, (int)lane), segmented ? __shfl_sync(0xffffffffu, s.head, (int)lane) : 0};
    }
};

/* ---- a tile ---- */

__device__ __forceinline__ uint4 prefix_bits(const gm_pack<uint32_t> &p)
{
    return make_uint4(p.w[0], p.w[1], p.w[2], p.w[3]);
}
__device__ __forceinline__ uint4 prefix_bits(const gm_pack<uint64_t> &p)
{
    return make_uint4((uint32_t)p.w[0], (uint32_t)(p.w[0] >> 32), (uint32_t)p.w[1], (uint32_t)(p.w[1] >> 32));
}

/* Where segments begin: nowhere, in the scans without them. */
struct prefix_whole {
    static constexpr bool segmented = false;
    static constexpr uint32_t output = 1; /* its buffer */
    __device__ __forceinline__ static bool bad(const struct gm_run *) { return false; }
    __device__ __forceinline__ static void search(const struct gm_run *, uint64_t) {}
    __device__ __forceinline__ void ask(const struct gm_run *) {}
    __device__ __forceinline__ void mark(const struct gm_run *, uint64_t) const {}
    template <uint32_t N> __device__ __forceinline__ static uint32_t of(uint32_t) { return 0; }
};

/* Where a tile lies. used: elements that count, because no output of an exclusive scan has the last one in it. */
template <typename Word> struct prefix_span {
    const Word *in;
    Word *out;
    uint32_t count, used;
};
template <class S, class Heads>
__device__ __forceinline__ prefix_span<typename S::Word> prefix_span_of(const struct gm_run *run, uint64_t tile)
{
    typedef typename S::Word Word;
    const bool exclusive = (run->job->flags & GM_FLAG_EXCLUSIVE) != 0;
    uint64_t count;
    const uint64_t first = gm_run_tile(run, tile, &count);
    const uint32_t without = exclusive && first + count == run->job->n ? 1u : 0;
    return {gm_run_buffer<const Word>(run, 0) + first, gm_run_buffer<Word>(run, Heads::output) + first, (uint32_t)count,
            (uint32_t)count - without};
}

constexpr int prefix_at_once = GM_PREFIX_AT_ONCE; /* pragmas know no macros */

/* A tile in shared memory. A thread has the packs from threadIdx.x * GM_PREFIX_PACKS on, and a warp moves what its
 * threads have by rows of a pack for each lane. Where a pack lies is turned by its thread's number, so that neither
 * asks for the same banks twice. */
template <typename Word> struct prefix_kept {
    static constexpr uint32_t E = gm_pack<Word>::elements, N = GM_PREFIX_PACKS * E; /* of a thread */
    static_assert((GM_PREFIX_PACKS & (GM_PREFIX_PACKS - 1u)) == 0 && N <= 32u, "a bit for each element");

    __device__ __forceinline__ static uint32_t place(uint32_t pack)
    {
        return pack ^ (pack / GM_PREFIX_PACKS & (GM_PREFIX_PACKS - 1u));
    }
    __device__ __forceinline__ static uint4 *packs() { return gm_run_scratch<uint4>(GM_PREFIX_KEPT); }
    /* Pack k of the thread. */
    __device__ __forceinline__ static uint4 *own(uint32_t k)
    {
        return packs() + place(threadIdx.x * GM_PREFIX_PACKS + k);
    }
    /* Pack of the tile that this lane moves in the warp's row k. */
    __device__ __forceinline__ static uint32_t moved(uint32_t k)
    {
        return (threadIdx.x / 32u * GM_PREFIX_PACKS + k) * 32u + (threadIdx.x & 31u);
    }

    /* The warp's part of the output, from what its threads have put in the place of the input. */
    __device__ __forceinline__ static void store(Word *out, uint32_t count)
    {
        const Word *elements = gm_run_scratch<Word>(GM_PREFIX_KEPT);
        if (((uintptr_t)out & 15u) == 0) {
#pragma unroll prefix_at_once
            for (uint32_t k = 0; k < GM_PREFIX_PACKS; k++)
                if ((moved(k) + 1u) * E <= count)
                    ((uint4 *)out)[moved(k)] = packs()[place(moved(k))];
            const uint32_t rest = count / E * E + (threadIdx.x & 31u); /* of the warp that has it */
            if (rest < count && rest / (N * 32u) == threadIdx.x / 32u)
                out[rest] = elements[place(rest / E) * E + rest % E];
        } else {
#pragma unroll 4
            for (uint32_t k = 0; k < N; k++) {
                const uint32_t i = (threadIdx.x / 32u * N + k) * 32u + (threadIdx.x & 31u);
                if (i < count)
                    out[i] = elements[place(i / E) * E + i % E];
            }
        }
    }
};

/* A tile on its way into shared memory: what a thread moves. */
template <class S> struct prefix_ahead {
    typedef typename S::Word Word;
    typedef prefix_kept<Word> Kept;
    uint4 v[GM_PREFIX_PACKS];

    /* Behind what counts is padding, to the end of the tile. */
    __device__ __forceinline__ static uint4 load(const prefix_span<Word> &span, bool whole, uint32_t k)
    {
        if (whole)
            return __ldcg((const uint4 *)span.in + Kept::moved(k));
        return prefix_bits(gm_pack_load<Word>(span.in, Kept::moved(k), span.used, S::padding()));
    }
    __device__ __forceinline__ static bool whole(const prefix_span<Word> &span)
    {
        return span.used == GM_PREFIX_TILE / sizeof(Word) && ((uintptr_t)span.in & 15u) == 0;
    }

    /* Asks for them, while the tile before it is worked on, where registers hold both; they are waited for in keep. */
    __device__ __forceinline__ void ask(const prefix_span<Word> &span)
    {
        if (!GM_PREFIX_EARLY)
            return;
        if (whole(span)) {
#pragma unroll
            for (uint32_t k = 0; k < GM_PREFIX_PACKS; k++)
                v[k] = load(span, true, k);
        } else {
#pragma unroll
            for (uint32_t k = 0; k < GM_PREFIX_PACKS; k++)
                v[k] = load(span, false, k);
        }
    }

    /* For the threads of the same warp. */
    __device__ __forceinline__ void keep(const prefix_span<Word> &span) const
    {
        if (GM_PREFIX_EARLY) {
#pragma unroll
            for (uint32_t k = 0; k < GM_PREFIX_PACKS; k++)
                Kept::packs()[Kept::place(Kept::moved(k))] = v[k];
        } else {
            const bool full = whole(span);
#pragma unroll prefix_at_once
            for (uint32_t k = 0; k < GM_PREFIX_PACKS; k++)
                Kept::packs()[Kept::place(Kept::moved(k))] = load(span, full, k);
        }
        __syncwarp();
    }
};

/* A thread's elements of the tile that is kept. Heads gives, by of<N>(i), which of N elements from the tile's element i
 * on begin a segment, one bit each. */
template <class S, class Heads> struct prefix_piece {
    typedef typename S::Word Word;
    typedef typename S::Value Value;
    typedef prefix_state<Value> State;
    typedef prefix_kept<Word> Kept;
    static constexpr uint32_t E = Kept::E;
    static constexpr bool segmented = Heads::segmented;

    State before;           /* of the warp's elements, before these */
    uint32_t begins, leaves; /* by element: a segment begins; it counts for nothing */

    __device__ __forceinline__ Value value(const gm_pack<Word> &pack, uint32_t k, uint32_t e) const
    {
        return segmented && (leaves >> (k * E + e) & 1u) != 0 ? S::nothing() : S::lift(pack.w[e]);
    }
    __device__ __forceinline__ bool begin(uint32_t k, uint32_t e) const
    {
        return segmented && (begins >> (k * E + e) & 1u) != 0;
    }

    /* What the warp's elements come to. The last element of a segment is in no output of an exclusive scan. */
    __device__ __forceinline__ State scan(bool exclusive)
    {
        State own = {S::nothing(), 0}, sum = {S::nothing(), 0};
        begins = Heads::template of<Kept::N>(threadIdx.x * Kept::N);
        leaves = exclusive ? Heads::template of<Kept::N>(threadIdx.x * Kept::N + 1u) : 0;
#pragma unroll prefix_at_once
        for (uint32_t k = 0; k < GM_PREFIX_PACKS; k++) {
            const gm_pack<Word> pack = gm_pack_of(*Kept::own(k), Word());
            if (segmented) {
#pragma unroll
                for (uint32_t e = 0; e < E; e++)
                    own.v = S::join(begin(k, e) ? S::nothing() : own.v, value(pack, k, e));
            } else {
                Value v = value(pack, k, 0);
#pragma unroll
                for (uint32_t e = 1; e < E; e++)
                    v = S::join(v, value(pack, k, e));
                own.v = S::join(own.v, v);
            }
        }
        own.head = begins != 0;
        before = prefix_row<S, segmented>(&sum, own);
        return sum;
    }

    /* start: what comes before the warp's elements. True when a step left the type. Whole warp. */
    __device__ __forceinline__ bool write(State start, Word *out, uint32_t count, bool exclusive) const
    {
        Value v = prefix_join<S, segmented>(start, before).v;
        bool wrong = false;
#pragma unroll prefix_at_once
        for (uint32_t k = 0; k < GM_PREFIX_PACKS; k++) {
            uint4 *const at = Kept::own(k);
            gm_pack<Word> pack = gm_pack_of(*at, Word());
#pragma unroll
            for (uint32_t e = 0; e < E; e++) {
                const Value x = value(pack, k, e), from = begin(k, e) ? S::nothing() : v;
                v = S::join(from, x);
                wrong |= S::wrong(from, x, v);
                pack.w[e] = S::lower(exclusive ? from : v);
            }
            *at = prefix_bits(pack);
        }
        __syncwarp();
        Kept::store(out, count);
        __syncwarp(); /* before the next tile is kept there */
        return wrong;
    }
};

} // namespace

#endif
