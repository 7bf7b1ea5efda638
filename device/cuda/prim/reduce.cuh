/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions over tiles: packs to a value a thread, warp shuffles, one warp over the warps, one partial a tile at its
 * own place in the workspace. The order is a function of n alone: the same from run to run, for every alignment, and
 * for plain loads and bulk copies. Whole block; at most one barrier a tile.
 *
 * R, the reduction, gives: Word (elements as bits), Value (of a thread, warp, block, tile), padding(), zero(),
 * combine(a, b), answer(run, r, value) by one thread, and a member struct Sum with add(pack) and total(). For one of
 * two inputs: also a typedef of void, Pair, and Sum has add(pack, pack); its tiles have half as many bytes of each.
 */
#ifndef GM_PRIM_REDUCE_CUH
#define GM_PRIM_REDUCE_CUH

#include "cuda/pipeline.cuh"
#include "cuda/prim/pack.cuh"

#define GM_REDUCE_TILE ((uint32_t)GM_TILE_BYTES_sum)
#define GM_REDUCED_ALIKE(op) static_assert(GM_TILE_BYTES_##op == GM_REDUCE_TILE, "one reducer for all")
GM_REDUCED_ALIKE(min);
GM_REDUCED_ALIKE(max);
GM_REDUCED_ALIKE(argmin);
GM_REDUCED_ALIKE(argmax);
GM_REDUCED_ALIKE(count_if);
GM_REDUCED_ALIKE(norm2);
GM_REDUCED_ALIKE(prod);
static_assert(GM_TILE_BYTES_dot * 2 == GM_REDUCE_TILE, "as many bytes of two inputs");

/* Tiles whose warps' values may be waiting at once. */
#define GM_REDUCE_ROWS 4u
static_assert(GM_REDUCE_ROWS > GM_PIPE_STAGES * GM_PIPE_CHUNK / GM_REDUCE_TILE + 1u, "see join");
static_assert((GM_REDUCE_ROWS * GM_BLOCK_WARPS * 16u) + GM_REDUCE_ROWS * 4u <= GM_PIPE_ROOM, "fits");

/* 128-bit two's complement. */
struct gm_wide {
    uint64_t low, high;
};

__device__ __forceinline__ gm_wide gm_wide_add(gm_wide a, gm_wide b)
{
    gm_wide sum;
    sum.low = a.low + b.low;
    sum.high = a.high + b.high + (sum.low < a.low ? 1u : 0u);
    return sum;
}

template <typename V> __device__ __forceinline__ V gm_shuffle(V v, int mask)
{
    return __shfl_xor_sync(0xffffffffu, v, mask);
}
template <> __device__ __forceinline__ gm_wide gm_shuffle<gm_wide>(gm_wide v, int mask)
{
    return {__shfl_xor_sync(0xffffffffu, v.low, mask), __shfl_xor_sync(0xffffffffu, v.high, mask)};
}

/* Every lane holds the result: both operands of each step are the same two values. */
template <class R> __device__ __forceinline__ typename R::Value gm_warp_combine(typename R::Value v)
{
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2)
        v = R::combine(v, gm_shuffle(v, mask));
    return v;
}

/* Values of the block's threads become one, in the first warp. A barrier. scratch: a Value per warp. */
template <class R>
__device__ __forceinline__ typename R::Value gm_block_combine(typename R::Value v, typename R::Value *scratch)
{
    v = gm_warp_combine<R>(v);
    if ((threadIdx.x & 31u) == 0)
        scratch[threadIdx.x / 32u] = v;
    __syncthreads();
    v = threadIdx.x < GM_BLOCK_WARPS ? scratch[threadIdx.x] : R::zero();
    return threadIdx.x < 32u ? gm_warp_combine<R>(v) : v;
}

/* Inputs of a reduction. */
template <class R, class = void> struct gm_reduce_inputs {
    static constexpr int count = 1;
};
template <class R> struct gm_reduce_inputs<R, typename R::Pair> {
    static constexpr int count = 2;
};

template <class R> struct gm_reducer {
    typedef typename R::Word Word;
    typedef typename R::Value Value;
    static constexpr int inputs = gm_reduce_inputs<R>::count;
    static constexpr int packs = GM_REDUCE_TILE / 16 / GM_CUDA_THREADS; /* of all inputs */
    static constexpr int each = packs / inputs;                         /* of one, first those of the first */
    static constexpr bool ahead = packs <= 2 * (int)GM_PACKS_AHEAD; /* registers hold two tiles */

    struct gm_run *run;
    R r;
    Value *warps;  /* shared: two rows, so that a tile is combined while the next one is worked on */
    uint64_t open; /* the tile whose warps wait to be combined */
    uint32_t row;

    __device__ __forceinline__ gm_reducer(struct gm_run *a_run, const R &a_r)
        : run(a_run), r(a_r), warps(gm_run_scratch<Value>(GM_PIPE_BYTES)), open(UINT64_MAX), row(0)
    {
    }

    /* After a barrier behind put: the last warp writes the tile's partial. */
    __device__ __forceinline__ void flush()
    {
        if (open != UINT64_MAX && threadIdx.x >= GM_CUDA_THREADS - 32u) {
            const uint32_t lane = threadIdx.x & 31u;
            const Value *from = warps + (row ^ 1u) * GM_BLOCK_WARPS;
            const Value v = gm_warp_combine<R>(lane < GM_BLOCK_WARPS ? from[lane] : R::zero());
            if (lane == 0 && run->job->tiles == 1)
                R::answer(run, r, v); /* finish has nothing to add */
            else if (lane == 0)
                ((Value *)run->job->workspace)[open] = v;
        }
        open = UINT64_MAX;
    }

    __device__ __forceinline__ void put(uint64_t tile, Value v)
    {
        v = gm_warp_combine<R>(v);
        if ((threadIdx.x & 31u) == 0)
            warps[row * GM_BLOCK_WARPS + threadIdx.x / 32u] = v;
        row ^= 1u;
        open = tile;
    }

    /* Whether a tile is read by whole packs only. */
    __device__ __forceinline__ bool whole(uint64_t tile) const
    {
        const uint64_t address = run->job->address[0] | (inputs == 2 ? run->job->address[1] : 0);
        return (address & 15u) == 0 && (tile + 1u) * run->job->tile_elements <= run->job->n;
    }

    /* Where a thread's packs of a whole tile are, GM_CUDA_THREADS apart. */
    __device__ __forceinline__ const uint4 *packs_of(int input, uint64_t tile) const
    {
        return (const uint4 *)(run->job->address[input] + tile * (GM_REDUCE_TILE / inputs)) + threadIdx.x;
    }

    /* Pack k of the first input of those in p, and the one of the second that belongs to it. */
    template <int count>
    __device__ __forceinline__ static void take(typename R::Sum &sum, const uint4 (&p)[count], int k)
    {
        if constexpr (inputs == 2)
            sum.add(gm_pack_of(p[k], Word()), gm_pack_of(p[count / 2 + k], Word()));
        else
            sum.add(gm_pack_of(p[k], Word()));
    }

    __device__ __forceinline__ void load(uint4 (&p)[packs], uint64_t tile)
    {
#pragma unroll
        for (int k = 0; k < packs; k++)
            p[k] = __ldcg(packs_of(k / each, tile) + k % each * GM_CUDA_THREADS);
    }

    __device__ __forceinline__ typename R::Value add(const uint4 (&p)[packs])
    {
        typename R::Sum sum(r);
#pragma unroll
        for (int k = 0; k < each; k++)
            take(sum, p, k);
        return sum.total();
    }

    /* A whole tile, a few packs at a time. */
    __device__ __forceinline__ typename R::Value add_now(uint64_t tile)
    {
        constexpr int some = (int)GM_PACKS_AHEAD / inputs; /* of each input */
        typename R::Sum sum(r);
#pragma unroll 1
        for (int base = 0; base < each; base += some) {
            uint4 v[some * inputs];
#pragma unroll
            for (int k = 0; k < some * inputs; k++)
                v[k] = __ldcg(packs_of(k / some, tile) + (base + k % some) * GM_CUDA_THREADS);
#pragma unroll
            for (int k = 0; k < some; k++)
                take(sum, v, k);
        }
        return sum.total();
    }

    /* A tile that is not whole, in the same order. */
    __device__ __forceinline__ typename R::Value add_slowly(uint64_t tile)
    {
        uint64_t count;
        const uint64_t first = gm_run_tile(run, tile, &count);
        typename R::Sum sum(r);
#pragma unroll 1
        for (int k = 0; k < each; k++) {
            const uint32_t at = k * GM_CUDA_THREADS + threadIdx.x, n = (uint32_t)count;
            const gm_pack<Word> p = gm_pack_load<Word>(gm_run_buffer<const Word>(run, 0) + first, at, n, r.padding());
            if constexpr (inputs == 2)
                sum.add(p, gm_pack_load<Word>(gm_run_buffer<const Word>(run, 1) + first, at, n, r.padding()));
            else
                sum.add(p);
        }
        return sum.total();
    }

    /* Plain loads, the next tile's in flight while this one is reduced where registers allow it. */
    __device__ __forceinline__ void plain()
    {
        struct gm_tiles tiles = {0, 0, 0};
        uint64_t tile, next;
        uint4 p[packs], q[packs];
        bool more = gm_run_next_tile(run, &tiles, &tile);
        if (ahead && more && whole(tile))
            load(p, tile);
        while (more) {
            more = gm_run_next_tile(run, &tiles, &next);
            if (ahead && more && whole(next))
                load(q, next);
            flush();
            put(tile, !whole(tile) ? add_slowly(tile) : ahead ? add(p) : add_now(tile));
#pragma unroll
            for (int k = 0; ahead && k < packs; k++)
                p[k] = q[k];
            tile = next;
        }
        __syncthreads();
        flush();
    }

    /* Every share has one tile: nothing to overlap with, and few registers. */
    __device__ __forceinline__ void single()
    {
        struct gm_tiles tiles = {0, 0, 0};
        uint64_t tile;
        if (!gm_run_next_tile(run, &tiles, &tile))
            return;
        if (!whole(tile)) {
            put(tile, add_slowly(tile));
        } else if (!ahead) {
            put(tile, add_now(tile));
        } else {
            uint4 p[packs];
            load(p, tile);
            put(tile, add(p));
        }
        __syncthreads();
        flush();
    }

    /* Warps are at most the stages apart, which is fewer tiles than there are rows here. The last warp that comes with
     * a tile's value combines them, in the order of warps. */
    __device__ __forceinline__ void join(uint64_t tile, Value v)
    {
        uint32_t *arrived = gm_run_scratch<uint32_t>(GM_PIPE_BYTES + GM_PIPE_ROOM - GM_REDUCE_ROWS * 4u) + row;
        Value *values = warps + row * GM_BLOCK_WARPS;
        const uint32_t lane = threadIdx.x & 31u;
        uint32_t count = 0;
        v = gm_warp_combine<R>(v);
        if (lane == 0) {
            values[threadIdx.x / 32u] = v;
            __threadfence_block(); /* the value before the count, for the warp that combines */
            count = atomicAdd(arrived, 1u);
        }
        row = (row + 1u) % GM_REDUCE_ROWS;
        if (__shfl_sync(0xffffffffu, count, 0) != GM_BLOCK_WARPS - 1u)
            return;
        __threadfence_block();
        v = gm_warp_combine<R>(lane < GM_BLOCK_WARPS ? values[lane] : R::zero());
        if (lane == 0) {
            ((Value *)run->job->workspace)[tile] = v;
            *arrived = 0;
        }
    }

    __device__ __forceinline__ void bulk()
    {
#ifdef GM_HAVE_BULK
        constexpr int chunk_packs = GM_PIPE_CHUNK / 16 / GM_CUDA_THREADS;
        struct gm_reader reader;
        struct gm_chunk chunk;
        if (threadIdx.x < GM_REDUCE_ROWS)
            gm_run_scratch<uint32_t>(GM_PIPE_BYTES + GM_PIPE_ROOM - GM_REDUCE_ROWS * 4u)[threadIdx.x] = 0;
        gm_reader_open(&reader, run, gm_run_buffer<const void>(run, 0), sizeof(Word));
        typename R::Sum sum(r);
        while (gm_reader_get(&reader, &chunk)) {
            const Word *from = (const Word *)chunk.data;
#pragma unroll
            for (int k = 0; k < chunk_packs; k++)
                sum.add(gm_pack_take<Word>(from, k * GM_CUDA_THREADS + threadIdx.x, chunk.bytes / sizeof(Word),
                                           r.padding()));
            gm_reader_done(&reader);
            if (chunk.last) {
                join(chunk.tile, sum.total());
                sum = typename R::Sum(r);
            }
        }
        gm_reader_close(&reader);
#endif
    }
};

/* Bulk copies pay when every share has several tiles in a row: 34 us instead of 38 for 64 MB on an H200. With many
 * more, plain loads with two tiles in flight have less to do for each byte: 260 us instead of 271 for 1 GB. From host
 * memory the bus is the limit anyway. */
#define GM_REDUCE_BULK_FROM 4u
#define GM_REDUCE_BULK_TO   32u
__device__ __forceinline__ bool gm_reduce_wants_bulk(const struct gm_run *run)
{
#ifdef GM_HAVE_BULK
    const uint64_t tiles = run->job->tiles, shares = run->job->shares;
    return run->bulk != 0 && !(run->job->marks & GM_MARK_HOST) && tiles >= GM_REDUCE_BULK_FROM * shares &&
           tiles < GM_REDUCE_BULK_TO * shares;
#else
    (void)run;
    return false;
#endif
}

template <class R> __device__ __noinline__ void gm_reduce_plain(struct gm_run *run, R r)
{
    gm_reducer<R>(run, r).plain();
}
template <class R> __device__ __noinline__ void gm_reduce_single(struct gm_run *run, R r)
{
    gm_reducer<R>(run, r).single();
}
template <class R> __device__ __noinline__ void gm_reduce_bulk(struct gm_run *run, R r)
{
    gm_reducer<R>(run, r).bulk();
}

template <class R> __device__ __forceinline__ void gm_reduce_share(struct gm_run *run, const R &r)
{
    if (run->job->tiles <= run->job->shares) {
        gm_reduce_single<R>(run, r);
        return;
    }
    if constexpr (gm_reduce_inputs<R>::count == 1)
        if (gm_reduce_wants_bulk(run)) {
            gm_reduce_bulk<R>(run, r);
            return;
        }
    gm_reduce_plain<R>(run, r);
}

/* All partials of a job, combined in a fixed order; the result is the first warp's. T widens a partial to the Value of
 * R. Through L2: other SMs wrote them. Whole block. */
template <class R, class T>
__device__ __forceinline__ typename R::Value gm_reduce_partials(const struct gm_run *run, T widen)
{
    const unsigned long long *from = (const unsigned long long *)run->job->workspace;
    const uint64_t tiles = run->job->tiles;
    typename R::Value sum = R::zero();
#pragma unroll 4
    for (uint64_t i = threadIdx.x; i < (tiles + T::each - 1u) / T::each; i += GM_CUDA_THREADS) {
        const ulonglong2 pair = __ldcg((const ulonglong2 *)from + i);
        sum = R::combine(sum, widen(pair, (i + 1u) * T::each <= tiles));
    }
    return gm_block_combine<R>(sum, gm_run_scratch<typename R::Value>(0));
}

#endif
