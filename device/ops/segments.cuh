/* SPDX-License-Identifier: Apache-2.0
 *
 * What the segmented reductions share on blocks: see segments.h for the way. A tile's elements and ends go to shared
 * memory; each thread takes as many items as every other, finds its first by a search there, and walks; a segmented
 * scan over the threads' open ends closes the segments that cross from one to another, in the order of threads.
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

namespace
{

struct seg_partial {
    ulonglong2 head, tail;
};
static_assert(sizeof(struct seg_partial) == GM_SEGMENT_BYTES, "plan.h reserves this much a tile");

__device__ __forceinline__ double seg_up(double v, uint32_t d) { return __shfl_up_sync(0xffffffffu, v, d); }
__device__ __forceinline__ uint32_t seg_up(uint32_t v, uint32_t d) { return __shfl_up_sync(0xffffffffu, v, d); }
__device__ __forceinline__ uint64_t seg_up(uint64_t v, uint32_t d) { return __shfl_up_sync(0xffffffffu, v, d); }
__device__ __forceinline__ gm_wide seg_up(gm_wide v, uint32_t d) { return {seg_up(v.low, d), seg_up(v.high, d)}; }

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
    static constexpr uint32_t each = items / GM_CUDA_THREADS; /* of a thread */
    static constexpr uint32_t padded = items + GM_CUDA_THREADS;
    static_assert(items % GM_CUDA_THREADS == 0, "every thread has as many");

    /* In scratch. */
    struct shared {
        uint4 open[GM_BLOCK_WARPS]; /* of warps */
        uint32_t ended[GM_BLOCK_WARPS];
        uint32_t failed[2]; /* offsets out of bounds; a sum that does not fit */
        Word item[padded];
        uint32_t end[padded]; /* of segments, counted from the tile's first element */
    };
    static_assert(sizeof(struct shared) <= GM_BLOCK_SCRATCH && sizeof(Value) <= sizeof(uint4), "fits");

    struct gm_run *run;
    R r;
    struct shared *s;

    __device__ __forceinline__ seg_block(struct gm_run *a_run, const R &a_r)
        : run(a_run), r(a_r), s(gm_run_scratch<struct shared>(0))
    {
    }

    /* Threads walk side by side: a place more behind each one's items keeps them out of each other's banks. */
    __device__ __forceinline__ static uint32_t place(uint32_t i) { return i + i / each; }

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
        *all = warps;
#pragma unroll 1
        for (uint32_t w = 0; w < GM_BLOCK_WARPS; w++) {
            if (w == warp)
                warps = *all;
            *all = seg_join(*all, seg_open<R>{*(const Value *)&s->open[w], s->ended[w]});
        }
        return lane == 0 ? warps : seg_join(warps, left);
    }

    /* The first phase: where tiles begin, a thread for each. */
    __device__ __forceinline__ void look_up()
    {
        const struct gm_job *job = run->job;
        const uint64_t all = job->tiles + 1u, end = gm_segments_part(all, job->shares, run->share + 1u);
        uint64_t t = gm_segments_part(all, job->shares, run->share) + threadIdx.x;
        for (; t < end && gm_load_relaxed_u32(&run->entry->abort) == 0; t += GM_CUDA_THREADS) {
            const uint64_t d = gm_segments_item(job, t);
            uint64_t low, high;
            gm_segments_search(job, d, &low, &high);
            while (low < high) {
                const uint64_t middle = low + (high - low) / 2u;
                if (gm_segments_before(offset(middle + 1u), middle, d))
                    low = middle + 1u;
                else
                    high = middle;
            }
            splits()[t] = low;
        }
    }

    /* A tile's elements and ends into shared memory. Behind it a barrier is needed. */
    __device__ __forceinline__ void load(uint64_t tile, const struct gm_segments_cut &cut, uint32_t elements,
                                         uint32_t ends)
    {
        const uint64_t begin = cut.segment == 0 ? offset(0) : 0; /* what is before belongs to no segment */
        const Word *in = gm_run_buffer<const Word>(run, 0) + cut.element;
        bool out_of_bounds = begin > run->job->n;
        Word word[each];
#pragma unroll
        for (uint32_t k = 0; k < each; k++) {
            const uint32_t i = k * GM_CUDA_THREADS + threadIdx.x;
            word[k] = i < elements ? gm_global_load(in + i) : (Word)0;
        }
#pragma unroll
        for (uint32_t k = 0; k < each; k++) {
            const uint32_t i = k * GM_CUDA_THREADS + threadIdx.x;
            if (i < elements)
                s->item[place(i)] = cut.element + i >= begin ? r.item(word[k]) : r.nothing();
        }
#pragma unroll 4
        for (uint32_t i = threadIdx.x; i < ends; i += GM_CUDA_THREADS) {
            const uint64_t end = offset(cut.segment + i + 1u);
            const bool bad = end < cut.element || end > cut.element_end || (cut.segment + i == 0 && end < begin);
            s->end[place(i)] = bad ? elements : (uint32_t)(end - cut.element);
            out_of_bounds = out_of_bounds || bad;
        }
        if (out_of_bounds)
            atomicAdd(&s->failed[0], 1u);
        if (threadIdx.x == 0 && run->job->tiles != 1)
            partial(tile)[0] = pair_of(R::zero()); /* whatever the ends are, nobody else's data stays there */
    }

    /* The first of a thread's ends, when its first item is number d of the tile. */
    __device__ __forceinline__ uint32_t first_end(uint32_t d, uint32_t elements, uint32_t ends) const
    {
        uint32_t low = d > elements ? d - elements : 0, high = d < ends ? d : ends;
        while (low < high) {
            const uint32_t middle = low + (high - low) / 2u;
            if (s->end[place(middle)] <= d - middle - 1u)
                low = middle + 1u;
            else
                high = middle;
        }
        return low;
    }

    __device__ __forceinline__ void walk(uint64_t tile, const struct gm_segments_cut &cut)
    {
        const uint32_t elements = (uint32_t)(cut.element_end - cut.element);
        const uint32_t ends = (uint32_t)(cut.segment_end - cut.segment), all_items = elements + ends;
        load(tile, cut, elements, ends);
        __syncthreads();
        for (uint32_t i = threadIdx.x + 1u; i < ends; i += GM_CUDA_THREADS)
            if (s->end[place(i)] < s->end[place(i - 1u)])
                atomicAdd(&s->failed[0], 1u);
        const uint32_t d = threadIdx.x * each < all_items ? threadIdx.x * each : all_items;
        const uint32_t count = all_items - d < each ? all_items - d : each;
        uint32_t e = first_end(d, elements, ends), i = d - e, first = UINT32_MAX;
        Value value = R::zero(), head = R::zero();
#pragma unroll 1
        for (uint32_t k = 0; k < count; k++) {
            if (e < ends && (i >= elements || s->end[place(e)] <= i)) {
                if (first == UINT32_MAX) {
                    head = value;
                    first = e;
                } else {
                    store(cut.segment + e, value);
                }
                value = R::zero();
                e++;
            } else if (i < elements) {
                value = R::add(value, s->item[place(i)]);
                i++;
            }
        }
        seg_open<R> all, left = before({value, first != UINT32_MAX ? 1u : 0u}, &all);
        if (first != UINT32_MAX) {
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

    __device__ __forceinline__ int32_t failure() const
    {
        return s->failed[0] != 0 ? GM_EBOUNDS : s->failed[1] != 0 ? GM_EOVERFLOW : GM_OK;
    }

    __device__ __forceinline__ void share()
    {
        const struct gm_job *job = run->job;
        struct gm_tiles tiles = {0, 0, 0};
        uint64_t tile;
        if (job->phases > 1 && job->phase == 0) {
            look_up();
            return;
        }
        clear_failures();
        while (gm_run_next_tile(run, &tiles, &tile)) {
            struct gm_segments_cut cut;
            const bool one = job->tiles == 1;
            if (gm_segments_cut(job, tile, one ? 0 : split(tile), one ? job->value[0] : split(tile + 1u), &cut)) {
                walk(tile, cut);
            } else if (threadIdx.x == 0) {
                atomicAdd(&s->failed[0], 1u);
                partial(tile)[0] = pair_of(R::zero());
                partial(tile)[1] = pair_of(R::zero());
            }
        }
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
        seg_open<R> own = {R::zero(), 0}, all;
        clear_failures();
#pragma unroll 1
        for (uint64_t t = begin; t < end; t++)
            own = seg_join(own, seg_open<R>{value_of(__ldcg(partial(t) + 1)), split(t) < split(t + 1u) ? 1u : 0u});
        Value carry = before(own, &all).value;
#pragma unroll 1
        for (uint64_t t = begin; t < end; t++) {
            const uint64_t first = split(t);
            const Value tail = value_of(__ldcg(partial(t) + 1));
            if (first < split(t + 1u)) {
                store(first, R::combine(carry, value_of(__ldcg(partial(t)))));
                carry = tail;
            } else {
                carry = R::combine(carry, tail);
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
    if (run->job->phases > 1 && run->job->phase + 1u == run->job->phases)
        seg_block<R>(run, r).finish();
}

} // namespace

#endif
