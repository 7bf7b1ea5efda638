/* SPDX-License-Identifier: Apache-2.0
 *
 * What the segmented reductions share on blocks: see segments.h for the way. A tile's elements go to shared memory, and
 * a bit for each place there where a segment ends; each thread takes as many elements as every other and walks; a
 * segmented scan over what threads leave open closes the segments that cross from one to another, in the order of
 * threads. Meanwhile the next tile's elements are on their way into registers.
 *
 * R, the reduction, gives: Word (elements as bits), Value, item(word) as it stands in shared memory and nothing()
 * there, zero(), add(value, item), combine(a, b), low(value) and high(value) as a partial has them and of(low, high),
 * and put(out, value), which is false for a sum that does not fit. Whole block.
 */
#ifndef GM_OPS_SEGMENTS_CUH
#define GM_OPS_SEGMENTS_CUH

#include "cuda/prim/pack.cuh"
#include "cuda/prim/reduce.cuh"
#include "ops/run.cuh"
#include "ops/segments_cut.h"

/* Whether a tile's elements wait in registers while another one is worked on. Before sm_90 shuffles are calls, across
 * which few are kept. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define SEGMENTS_AHEAD false
#else
#define SEGMENTS_AHEAD true
#endif

namespace
{

struct seg_partial {
    ulonglong2 head, tail;
};
static_assert(sizeof(struct seg_partial) == GM_SEGMENT_BYTES, "plan.h reserves this much a tile");

__device__ __forceinline__ double seg_up(double v, uint32_t d)
{
    return __shfl_up_sync(0xffffffffu, v, d);
}
__device__ __forceinline__ uint32_t seg_up(uint32_t v, uint32_t d)
{
    return __shfl_up_sync(0xffffffffu, v, d);
}
__device__ __forceinline__ uint64_t seg_up(uint64_t v, uint32_t d)
{
    return __shfl_up_sync(0xffffffffu, v, d);
}
__device__ __forceinline__ gm_wide seg_up(gm_wide v, uint32_t d)
{
    return {seg_up(v.low, d), seg_up(v.high, d)};
}

__device__ __forceinline__ double seg_from(double v, uint32_t lane)
{
    return __shfl_sync(0xffffffffu, v, (int)lane);
}
__device__ __forceinline__ uint32_t seg_from(uint32_t v, uint32_t lane)
{
    return __shfl_sync(0xffffffffu, v, (int)lane);
}
__device__ __forceinline__ uint64_t seg_from(uint64_t v, uint32_t lane)
{
    return __shfl_sync(0xffffffffu, v, (int)lane);
}
__device__ __forceinline__ gm_wide seg_from(gm_wide v, uint32_t lane)
{
    return {seg_from(v.low, lane), seg_from(v.high, lane)};
}

/* What is open behind some items: the value since the last end, and whether there was an end. */
template <class R> struct seg_open {
    typename R::Value value;
    uint32_t ended;
};

template <class R> __device__ __forceinline__ seg_open<R> seg_join(const seg_open<R> &a, const seg_open<R> &b)
{
    return {b.ended ? b.value : R::combine(a.value, b.value), a.ended | b.ended};
}

template <class R> struct seg_block {
    typedef typename R::Word Word;
    typedef typename R::Value Value;
    static constexpr uint32_t items = GM_TILE_BYTES_segmented_sum / (uint32_t)sizeof(Word);
    static constexpr uint32_t packs = GM_TILE_BYTES_segmented_sum / 16u / GM_CUDA_THREADS; /* of a thread */
    static constexpr uint32_t E = gm_pack<Word>::elements, each = packs * E;
    static_assert(packs * GM_CUDA_THREADS * E == items && 32u % each == 0, "every thread has as many");

    /* In scratch. A pack is left free behind each thread's, which keeps threads out of each other's banks. */
    struct shared {
        uint4 open[GM_BLOCK_WARPS]; /* of warps */
        uint4 pack[(packs + 1u) * GM_CUDA_THREADS];
        uint64_t split[2]; /* of a share's only tile */
        uint32_t ended[GM_BLOCK_WARPS];
        uint32_t failed[2];         /* offsets out of bounds; a sum that does not fit */
        uint32_t ends[items / 32u]; /* a bit for each element before which a segment ends; none is set between tiles */
        uint32_t end[items];        /* of segments, counted from the tile's first element */
        uint16_t number[items];     /* where a bit is set: which of the tile's ends it is */
    };
    static_assert(sizeof(struct shared) <= GM_BLOCK_SCRATCH && sizeof(Value) <= sizeof(uint4), "fits");

    /* What is asked for ahead of a tile's turn. */
    struct coming {
        struct gm_segments_cut cut;
        gm_pack<Word> pack[packs];
        uint64_t begin; /* what is before belongs to no segment */
        uint64_t end;   /* the first of this thread's ends */
        bool good;
    };

    struct gm_run *run;
    R r;
    struct shared *s;

    __device__ __forceinline__ seg_block(struct gm_run *a_run, const R &a_r)
        : run(a_run), r(a_r), s(gm_run_scratch<struct shared>(0))
    {
    }

    __device__ __forceinline__ uint64_t offset(uint64_t i) const
    {
        return gm_segments_offset(gm_run_buffer<const void>(run, 1), run->job->type2, i);
    }
    __device__ __forceinline__ uint64_t *splits() const
    {
        return (uint64_t *)(run->job->workspace + gm_segment_splits_offset(run->job->tiles));
    }
    __device__ __forceinline__ uint64_t split(uint64_t tile) const
    {
        return __ldcg((const unsigned long long *)splits() + tile);
    }
    __device__ __forceinline__ ulonglong2 *partial(uint64_t tile) const
    {
        return (ulonglong2 *)(run->job->workspace + tile * GM_SEGMENT_BYTES);
    }
    __device__ __forceinline__ static Value value_of(ulonglong2 v) { return R::of(v.x, v.y); }
    __device__ __forceinline__ static ulonglong2 pair_of(Value v) { return {R::low(v), R::high(v)}; }

    __device__ __forceinline__ void store(uint64_t segment, Value v)
    {
        if (segment >= run->job->value[0])
            atomicAdd(&s->failed[0], 1u);
        else if (!r.put(gm_run_buffer<Word>(run, 2) + segment, v))
            atomicAdd(&s->failed[1], 1u);
    }

    /* Of everything open in the threads before this one; *all: in all of them. A barrier before and one within. */
    __device__ __forceinline__ seg_open<R> before(seg_open<R> own, seg_open<R> *all)
    {
        const uint32_t lane = threadIdx.x & 31u, warp = threadIdx.x / 32u;
        seg_open<R> sum = own, left, warps = {R::zero(), 0};
#pragma unroll
        for (uint32_t d = 1; d < 32u; d *= 2u) {
            const seg_open<R> up = {seg_up(sum.value, d), seg_up(sum.ended, d)};
            if (lane >= d)
                sum = seg_join(up, sum);
        }
        if (lane == 31u) {
            *(Value *)&s->open[warp] = sum.value;
            s->ended[warp] = sum.ended;
        }
        left.value = seg_up(sum.value, 1u);
        left.ended = seg_up(sum.ended, 1u);
        __syncthreads();
        if (lane < GM_BLOCK_WARPS)
            warps = {*(const Value *)&s->open[lane], s->ended[lane]};
#pragma unroll
        for (uint32_t d = 1; d < GM_BLOCK_WARPS; d *= 2u) {
            const seg_open<R> up = {seg_up(warps.value, d), seg_up(warps.ended, d)};
            if (lane >= d)
                warps = seg_join(up, warps);
        }
        *all = {seg_from(warps.value, GM_BLOCK_WARPS - 1u), seg_from(warps.ended, GM_BLOCK_WARPS - 1u)};
        warps = {seg_from(warps.value, (warp - 1u) & 31u), seg_from(warps.ended, (warp - 1u) & 31u)};
        if (warp == 0)
            warps = {R::zero(), 0};
        return lane == 0 ? warps : seg_join(warps, left);
    }

    /* How many ends come before item d: looked up by a thread, or by a warp, which needs few looks one behind another.
     */
    __device__ __forceinline__ bool ends_before(uint64_t segment, uint64_t d) const
    {
        return gm_segments_before(offset(segment + 1u), segment, d);
    }
    __device__ __forceinline__ uint64_t search(uint64_t d) const
    {
        uint64_t low, high;
        gm_segments_search(run->job, d, &low, &high);
        while (low < high) {
            const uint64_t middle = low + (high - low) / 2u;
            if (ends_before(middle, d))
                low = middle + 1u;
            else
                high = middle;
        }
        return low;
    }
    __device__ __forceinline__ uint64_t search_by_warp(uint64_t d) const
    {
        uint64_t low, high;
        gm_segments_search(run->job, d, &low, &high);
        while (low < high) {
            const uint64_t step = (high - low) / 32u + 1u, at = low + (threadIdx.x & 31u) * step;
            const uint32_t no = ~__ballot_sync(0xffffffffu, at < high && ends_before(at, d));
            const uint32_t yes = no != 0 ? (uint32_t)__ffs((int)no) - 1u : 32u; /* in a row, and then one that is not */
            const uint64_t least = yes != 0 ? low + (yes - 1u) * step + 1u : low;
            high = yes < 32u && low + yes * step < high ? low + yes * step : high;
            low = least;
        }
        return low;
    }

    /* The first phase: where tiles begin, a warp for each or a thread. */
    __device__ __forceinline__ void look_up()
    {
        const struct gm_job *job = run->job;
        const uint64_t all = job->tiles + 1u, end = gm_segments_part(all, job->shares, run->share + 1u);
        const uint64_t first = gm_segments_part(all, job->shares, run->share);
        if (end - first <= 2u * GM_BLOCK_WARPS) {
            for (uint64_t t = first + threadIdx.x / 32u; t < end; t += GM_BLOCK_WARPS) {
                const uint64_t found = search_by_warp(gm_segments_item(job, t));
                if ((threadIdx.x & 31u) == 0)
                    splits()[t] = found;
            }
            return;
        }
        uint64_t t = first + threadIdx.x;
        for (; t < end && gm_load_relaxed_u32(&run->entry->abort) == 0; t += GM_CUDA_THREADS)
            splits()[t] = search(gm_segments_item(job, t));
    }

    /* The same for a share's only tile, for everyone and for finish. A barrier. */
    __device__ __forceinline__ void look_up_own(uint64_t tile)
    {
        const uint32_t warp = threadIdx.x / 32u;
        if (warp < 2u) {
            const uint64_t found = search_by_warp(gm_segments_item(run->job, tile + warp));
            if ((threadIdx.x & 31u) == 0) {
                s->split[warp] = found;
                if (warp == 0 || tile + 1u == run->job->tiles)
                    splits()[tile + warp] = found;
            }
        }
        __syncthreads();
    }

    /* Asks for what a tile needs, once it is known where it begins and ends. Each thread for itself. */
    __device__ __forceinline__ void ask(struct coming *c, uint64_t tile, uint64_t from, uint64_t to) const
    {
        c->good = gm_segments_cut(run->job, tile, from, to, &c->cut);
        if (SEGMENTS_AHEAD && c->good)
            fetch(c);
    }
    __device__ __forceinline__ void fetch(struct coming *c) const
    {
        const Word *in = gm_run_buffer<const Word>(run, 0) + c->cut.element;
        const uint32_t elements = (uint32_t)(c->cut.element_end - c->cut.element);
#pragma unroll
        for (uint32_t k = 0; k < packs; k++)
            c->pack[k] = gm_pack_load<Word>(in, k * GM_CUDA_THREADS + threadIdx.x, elements, (Word)0);
        c->begin = c->cut.segment == 0 ? offset(0) : 0;
        c->end = threadIdx.x < c->cut.segment_end - c->cut.segment ? offset(c->cut.segment + threadIdx.x + 1u) : 0;
    }

    __device__ __forceinline__ bool put_end(const struct coming &c, uint32_t i, uint64_t end)
    {
        const bool bad = end < c.cut.element || end > c.cut.element_end || (c.cut.segment + i == 0 && end < c.begin);
        s->end[i] = (uint32_t)((bad ? c.cut.element_end : end) - c.cut.element);
        return bad;
    }

    /* A tile's elements and ends into shared memory; behind the last element are some that change nothing. Behind it a
     * barrier is needed. */
    __device__ __forceinline__ void put(struct coming &c, uint64_t tile)
    {
        if (!SEGMENTS_AHEAD)
            fetch(&c);
        const uint32_t elements = (uint32_t)(c.cut.element_end - c.cut.element);
        const uint32_t ends = (uint32_t)(c.cut.segment_end - c.cut.segment);
        bool out_of_bounds = c.begin > run->job->n;
#pragma unroll
        for (uint32_t k = 0; k < packs; k++) {
            const uint32_t at = k * GM_CUDA_THREADS + threadIdx.x;
            Word *to = (Word *)&s->pack[at + at / packs];
#pragma unroll
            for (uint32_t e = 0; e < E; e++)
                to[e] = at * E + e < elements && c.cut.element + at * E + e >= c.begin ? r.item(c.pack[k].w[e])
                                                                                       : r.nothing();
        }
        if (threadIdx.x < ends)
            out_of_bounds = put_end(c, threadIdx.x, c.end) || out_of_bounds;
#pragma unroll 4
        for (uint32_t i = threadIdx.x + GM_CUDA_THREADS; i < ends; i += GM_CUDA_THREADS)
            out_of_bounds = put_end(c, i, offset(c.cut.segment + i + 1u)) || out_of_bounds;
        if (out_of_bounds)
            atomicAdd(&s->failed[0], 1u);
        if (threadIdx.x == 0 && run->job->tiles != 1)
            partial(tile)[0] = pair_of(R::zero()); /* whatever the ends are, nobody else's data stays there */
    }

    /* Where segments end. Those that are empty are done here, but for the tile's first, which may have begun before.
     * Between two barriers. An end is below items, because with it there are no more items than those. */
    __device__ __forceinline__ void mark(const struct gm_segments_cut &cut)
    {
        const uint32_t ends = (uint32_t)(cut.segment_end - cut.segment);
        for (uint32_t i = threadIdx.x; i < ends; i += GM_CUDA_THREADS) {
            const uint32_t end = s->end[i];
            const bool falls = i != 0 && end < s->end[i - 1u];
            if (falls)
                atomicAdd(&s->failed[0], 1u);
            if (i != 0 && end == s->end[i - 1u]) {
                store(cut.segment + i, R::zero());
            } else if (!falls && end < items) {
                s->number[end] = (uint16_t)i;
                atomicOr(&s->ends[end / 32u], 1u << (end & 31u));
            }
        }
    }

    __device__ __forceinline__ void walk(uint64_t tile, const struct gm_segments_cut &cut)
    {
        const uint32_t from = threadIdx.x * each, own = each == 32u ? ~0u : (1u << (each & 31u)) - 1u;
        const uint4 *packed = &s->pack[threadIdx.x * (packs + 1u)];
        uint32_t bits = s->ends[from / 32u] >> (from & 31u) & own, first = UINT32_MAX;
        Value value = R::zero(), head = R::zero();
        const bool any = bits != 0;
#pragma unroll 1
        for (uint32_t k = 0; k < packs; k++) {
            const gm_pack<Word> p = gm_pack_of(packed[k], Word());
#pragma unroll
            for (uint32_t e = 0; e < E; e++) {
                if (bits >> e & 1u) {
                    const uint32_t number = s->number[from + k * E + e];
                    if (first != UINT32_MAX)
                        store(cut.segment + number, value);
                    else
                        head = value;
                    first = first != UINT32_MAX ? first : number;
                    value = R::zero();
                }
                value = R::add(value, p.w[e]);
            }
            bits >>= E;
        }
        seg_open<R> all, left = before({value, any ? 1u : 0u}, &all);
        if (any) {
            atomicAnd(&s->ends[from / 32u], ~(own << (from & 31u)));
            head = R::combine(left.value, head);
            if (left.ended || run->job->tiles == 1)
                store(cut.segment + first, head);
            else
                partial(tile)[0] = pair_of(head);
        }
        if (threadIdx.x == 0 && run->job->tiles != 1)
            partial(tile)[1] = pair_of(cut.segment_end < run->job->value[0] ? all.value : R::zero());
    }

    __device__ __forceinline__ void clear_failures()
    {
        if (threadIdx.x < 2u)
            s->failed[threadIdx.x] = 0;
        __syncthreads();
    }

    /* Every tile of the share, while the next one's elements are on their way where registers allow it. */
    __device__ __forceinline__ void walk_tiles()
    {
        const bool one = run->job->tiles == 1, own = !one && run->job->phases == 1u;
        struct gm_tiles tiles = {0, 0, 0};
        struct coming c;
        uint64_t tile, next;
        bool more = gm_run_next_tile(run, &tiles, &tile);
        if (more && own)
            look_up_own(tile);
        if (more && (one || own))
            ask(&c, tile, one ? 0 : s->split[0], one ? run->job->value[0] : s->split[1]);
        else if (more)
            ask(&c, tile, split(tile), split(tile + 1u));
        while (more) {
            const struct gm_segments_cut cut = c.cut;
            const bool good = c.good;
            uint64_t from = 0, to = 0;
            if (good) {
                put(c, tile);
            } else if (threadIdx.x == 0) {
                atomicAdd(&s->failed[0], 1u);
                partial(tile)[0] = pair_of(R::zero());
                partial(tile)[1] = pair_of(R::zero());
            }
            more = gm_run_next_tile(run, &tiles, &next); /* a barrier or none */
            __syncthreads();
            if (more) {
                from = split(next);
                to = split(next + 1u);
            }
            if (good)
                mark(cut);
            __syncthreads();
            if (more)
                ask(&c, next, from, to);
            if (good)
                walk(tile, cut);
            tile = next;
        }
    }

    __device__ __forceinline__ int32_t failure() const
    {
        return s->failed[0] != 0 ? GM_EBOUNDS : s->failed[1] != 0 ? GM_EOVERFLOW : GM_OK;
    }

    __device__ __forceinline__ void share()
    {
        const struct gm_job *job = run->job;
        if (job->phases > 1 && job->phase == 0) {
            look_up();
            return;
        }
        for (uint32_t i = threadIdx.x; i < items / 32u; i += GM_CUDA_THREADS)
            s->ends[i] = 0;
        clear_failures();
        walk_tiles();
        __syncthreads();
        if (threadIdx.x == 0 && failure() != GM_OK)
            gm_run_fail(run, failure());
    }

    /* Every thread has some tiles in a row: first what they leave open, then, with what came before, what ends there.
     */
    __device__ __forceinline__ void finish()
    {
        const uint64_t tiles = run->job->tiles, some = (tiles + GM_CUDA_THREADS - 1u) / GM_CUDA_THREADS;
        const uint64_t begin = some * threadIdx.x < tiles ? some * threadIdx.x : tiles;
        const uint64_t end = begin + some < tiles ? begin + some : tiles;
        constexpr uint32_t some_now = 4;
        seg_open<R> own = {R::zero(), 0}, all;
        clear_failures();
#pragma unroll 8
        for (uint64_t t = begin; t < end; t++)
            own = seg_join(own, seg_open<R>{value_of(__ldcg(partial(t) + 1)), split(t) < split(t + 1u) ? 1u : 0u});
        Value carry = before(own, &all).value;
#pragma unroll 1
        for (uint64_t base = begin; base < end; base += some_now) {
            ulonglong2 head[some_now], tail[some_now];
            uint64_t first[some_now + 1u];
            first[0] = split(base);
#pragma unroll
            for (uint32_t k = 0; k < some_now; k++) {
                const uint64_t t = base + k < end ? base + k : end - 1u;
                head[k] = __ldcg(partial(t));
                tail[k] = __ldcg(partial(t) + 1);
                first[k + 1u] = split(t + 1u);
            }
#pragma unroll
            for (uint32_t k = 0; k < some_now; k++) {
                const bool ends = first[k] < first[k + 1u];
                if (base + k < end && ends)
                    store(first[k], R::combine(carry, value_of(head[k])));
                carry = ends ? value_of(tail[k]) : R::combine(carry, value_of(tail[k]));
            }
        }
        __syncthreads();
        if (threadIdx.x == 0 && failure() != GM_OK)
            run->status = failure();
    }
};

template <class R> __device__ __noinline__ void seg_share(struct gm_run *run, R r)
{
    seg_block<R>(run, r).share();
}
template <class R> __device__ __noinline__ void seg_finish(struct gm_run *run, R r)
{
    if (run->job->tiles != 1 && run->job->phase + 1u == run->job->phases)
        seg_block<R>(run, r).finish();
}

} // namespace

#endif
