/* SPDX-License-Identifier: Apache-2.0
 *
 * A tile of a scan on a block: see prefix.h for the rules. It lies in shared memory, and the block goes through it in
 * granules, as much as its registers hold between the scan and the store. A warp takes a piece of the granule and goes
 * through it in rows of one pack a lane, a warp scan each; then one scan over the warps. The order of operands is that
 * of the elements, and where tiles, granules, pieces and rows are cut depends on n alone.
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

#define GM_PREFIX_TILE ((uint32_t)GM_TILE_BYTES_scan_sum)
static_assert(GM_TILE_BYTES_scan_min == GM_PREFIX_TILE && GM_TILE_BYTES_scan_max == GM_PREFIX_TILE, "one for all");
static_assert(GM_PARTIAL_BYTES == sizeof(struct gm_granule), "of a tile: what it says, see look_back.cuh");

/* As many bytes as registers hold without spills; WIDE: of elements whose states are twice as wide. EARLY: and of the
 * next tile. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define GM_PREFIX_GRANULE      8192u
#define GM_PREFIX_GRANULE_WIDE 8192u
#define GM_PREFIX_EARLY        false
#else
#define GM_PREFIX_GRANULE      32768u
#define GM_PREFIX_GRANULE_WIDE 16384u
#define GM_PREFIX_EARLY        true
#endif
static_assert(GM_PREFIX_TILE % GM_PREFIX_GRANULE == 0 && GM_PREFIX_GRANULE % GM_PREFIX_GRANULE_WIDE == 0, "whole ones");

/* From thread 0 to the block. */
struct gm_prefix_told {
    uint64_t tile, state;
    uint32_t aborted;
};

/* Scratch: states of the warps, in two rows taken in turn, so that one barrier a granule is enough; a granule that
 * cannot go out by whole packs; what segscan.cuh needs; a whole tile; and what a block is told. */
#define GM_PREFIX_WARPS 0u
#define GM_PREFIX_STAGE (2u * GM_BLOCK_WARPS * 16u)
#define GM_PREFIX_HEADS (GM_PREFIX_STAGE + GM_PREFIX_GRANULE)
#define GM_PREFIX_KEPT  (GM_PREFIX_HEADS + GM_PREFIX_TILE / 4u + 64u)
#define GM_PREFIX_TOLD  (GM_PREFIX_KEPT + GM_PREFIX_TILE)
static_assert(GM_PREFIX_KEPT % 16u == 0 && GM_PREFIX_TOLD + sizeof(struct gm_prefix_told) <= GM_BLOCK_SCRATCH, "fits");

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
    *w = v == v ? __float_as_uint(__double2float_rn(v)) : 0x7fc00000u;
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

/* One row: every lane has what its elements come to. Returns what comes before the lane in the warp's piece, and moves
 * sum, what comes before the row in it. Whole warp. */
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

/* sum: what the warp's piece comes to. Returns what comes before the piece, and moves all, what comes before the
 * granule. Whole block; one barrier within. turn: counts the calls of a share: who is a call ahead writes the other
 * row, and nobody is two ahead. */
template <class S, bool segmented>
__device__ __forceinline__ prefix_state<typename S::Value>
prefix_block(prefix_state<typename S::Value> sum, prefix_state<typename S::Value> *all, uint32_t turn)
{
    typedef prefix_state<typename S::Value> State;
    static_assert(sizeof(State) <= 16u, "fits");
    State *warps = gm_run_scratch<State>(GM_PREFIX_WARPS) + (turn & 1u) * GM_BLOCK_WARPS;
    const uint32_t warp = threadIdx.x / 32u;
    if ((threadIdx.x & 31u) == 0)
        warps[warp] = sum;
    __syncthreads();
    State of = {S::nothing(), 0};
    if ((threadIdx.x & 31u) < GM_BLOCK_WARPS)
        of = warps[threadIdx.x & 31u];
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
    __device__ __forceinline__ static bool good(const struct gm_run *) { return true; }
    __device__ __forceinline__ static void find(const struct gm_run *, uint64_t) {}
    template <uint32_t E> __device__ __forceinline__ static uint32_t of(uint32_t) { return 0; }
};

/* A thread's packs of a granule. Heads gives, by of<E>(at), which of the E + 1 elements of the tile from at on begin a
 * segment, one bit each. */
template <class S, class Heads> struct prefix_granule {
    typedef typename S::Word Word;
    typedef typename S::Value Value;
    typedef prefix_state<Value> State;
    static constexpr uint32_t bytes = sizeof(Value) > sizeof(Word) ? GM_PREFIX_GRANULE_WIDE : GM_PREFIX_GRANULE;
    static constexpr uint32_t E = gm_pack<Word>::elements, rows = bytes / 16u / GM_CUDA_THREADS;
    static constexpr uint32_t elements = bytes / sizeof(Word);
    static constexpr bool segmented = Heads::segmented;

    gm_pack<Word> pack[rows];
    Value before[rows]; /* of a pack, in the warp's piece */
    uint32_t closed;    /* bit k: since a beginning in that piece */

    __device__ __forceinline__ static uint32_t place(uint32_t k)
    {
        return (threadIdx.x / 32u * rows + k) * 32u + (threadIdx.x & 31u);
    }

    __device__ __forceinline__ static Word *stage() { return gm_run_scratch<Word>(GM_PREFIX_STAGE); }

    /* From the tile that keep has brought. */
    __device__ __forceinline__ void take(uint32_t at)
    {
        const uint4 *from = (const uint4 *)(gm_run_scratch<Word>(GM_PREFIX_KEPT) + at);
#pragma unroll
        for (uint32_t k = 0; k < rows; k++)
            pack[k] = gm_pack_of(from[place(k)], Word());
    }

    /* What the warp's piece comes to. at: where the granule begins in the tile. The last element of a segment is in no
     * output of an exclusive scan. */
    __device__ __forceinline__ State scan(uint32_t at, bool exclusive)
    {
        State sum = {S::nothing(), 0};
        closed = 0;
#pragma unroll
        for (uint32_t k = 0; k < rows; k++) {
            const uint32_t begins = Heads::template of<E>(at + place(k) * E);
            State own = {S::nothing(), 0};
#pragma unroll
            for (uint32_t e = 0; e < E && segmented; e++)
                pack[k].w[e] = exclusive && (begins >> e & 2u) != 0 ? S::padding() : pack[k].w[e];
#pragma unroll
            for (uint32_t e = 0; e < E; e++)
                own = {S::join(begins >> e & 1u ? S::nothing() : own.v, S::lift(pack[k].w[e])),
                       own.head | (begins >> e & 1u)};
            const State row = prefix_row<S, segmented>(&sum, own);
            before[k] = row.v;
            closed |= row.head << k;
        }
        return sum;
    }

    /* start: what comes before the warp's piece. True when a step left the type. Whole block, behind a barrier. */
    __device__ __forceinline__ bool write(uint32_t at, Value start, Word *out, uint32_t count, bool exclusive)
    {
        const bool packs = count == elements && ((uintptr_t)out & 15u) == 0;
        uint4 *to = packs ? (uint4 *)out : (uint4 *)stage();
        bool wrong = false;
#pragma unroll
        for (uint32_t k = 0; k < rows; k++) {
            const uint32_t begins = Heads::template of<E>(at + place(k) * E);
            Value v = closed >> k & 1u ? before[k] : S::join(start, before[k]);
            gm_pack<Word> p;
#pragma unroll
            for (uint32_t e = 0; e < E; e++) {
                const Value x = S::lift(pack[k].w[e]), from = begins >> e & 1u ? S::nothing() : v;
                v = S::join(from, x);
                wrong |= S::wrong(from, x, v);
                p.w[e] = S::lower(exclusive ? from : v);
            }
            to[place(k)] = prefix_bits(p);
        }
        if (packs)
            return wrong;
        __syncthreads();
#pragma unroll rows
        for (uint32_t i = threadIdx.x; i < count; i += GM_CUDA_THREADS)
            out[i] = stage()[i];
        return wrong;
    }
};

/* Where a tile lies. used: elements that count, because no output of an exclusive scan has the last one in it. */
template <typename Word> struct prefix_span {
    const Word *in;
    Word *out;
    uint32_t count, used;
    bool exclusive;
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
            (uint32_t)count - without, exclusive};
}

/* A tile on its way into shared memory: the packs of a thread, when it moves by whole ones. */
template <class S> struct prefix_ahead {
    typedef typename S::Word Word;
    static constexpr uint32_t elements = GM_PREFIX_TILE / sizeof(Word);
    static constexpr uint32_t packs = GM_PREFIX_TILE / 16u / GM_CUDA_THREADS, at_once = GM_PREFIX_EARLY ? packs : 4u;
    uint4 v[packs];

    __device__ __forceinline__ static bool packed(const prefix_span<Word> &span)
    {
        return span.used == elements && ((uintptr_t)span.in & 15u) == 0;
    }

    __device__ __forceinline__ static uint4 load(const prefix_span<Word> &span, uint32_t k)
    {
        return __ldcg((const uint4 *)span.in + k * GM_CUDA_THREADS + threadIdx.x);
    }

    /* Asks for them, while the tile before it is worked on, where registers hold both; they are waited for in keep. */
    __device__ __forceinline__ void ask(const prefix_span<Word> &span)
    {
        if (!GM_PREFIX_EARLY)
            return;
        if (packed(span)) {
#pragma unroll
            for (uint32_t k = 0; k < packs; k++)
                v[k] = load(span, k);
        } else {
#pragma unroll
            for (uint32_t k = 0; k < packs; k++)
                v[k] = make_uint4(0, 0, 0, 0); /* nobody's, and so not kept in a register until here */
        }
    }

    /* Behind what counts padding, to the end of the last granule that is gone through. Whole block, with a barrier
     * behind. */
    __device__ __forceinline__ void keep(const prefix_span<Word> &span) const
    {
        constexpr uint32_t granule = GM_PREFIX_GRANULE / sizeof(Word);
        Word *kept = gm_run_scratch<Word>(GM_PREFIX_KEPT);
        if (packed(span)) {
#pragma unroll at_once
            for (uint32_t k = 0; k < packs; k++)
                ((uint4 *)kept)[k * GM_CUDA_THREADS + threadIdx.x] = GM_PREFIX_EARLY ? v[k] : load(span, k);
        } else {
            const uint32_t end = (span.count + granule - 1u) / granule * granule;
#pragma unroll 4
            for (uint32_t i = threadIdx.x; i < end; i += GM_CUDA_THREADS)
                kept[i] = i < span.used ? gm_global_load(span.in + i) : S::padding();
        }
        __syncthreads();
    }
};

/* A block's way through the granules of a tile that is kept. all: what comes before the tile, then what comes behind.
 * With writes, outputs are stored. True when a step left the type. */
template <class S, class Heads, bool writes>
__device__ __forceinline__ bool prefix_tile(const prefix_span<typename S::Word> &span,
                                            prefix_state<typename S::Value> *all, uint32_t *turn)
{
    typedef prefix_granule<S, Heads> Granule;
    bool wrong = false;
#pragma unroll 1
    for (uint32_t at = 0; at < span.count; at += Granule::elements) {
        Granule g;
        const uint32_t left = span.count - at, here = left < Granule::elements ? left : Granule::elements;
        g.take(at);
        const prefix_state<typename S::Value> start =
            prefix_block<S, Heads::segmented>(g.scan(at, span.exclusive), all, (*turn)++);
        if (writes)
            wrong |= g.write(at, start.v, span.out + at, here, span.exclusive);
    }
    return wrong;
}

} // namespace

#endif
