/* SPDX-License-Identifier: Apache-2.0
 *
 * sort on blocks: the same cut, passes and isolation as sort.c. One tile is sorted in shared memory and registers; a
 * chunk is counted by shared atomics, and moved in tiles that are first sorted by the digit in shared memory, so that
 * neighbours in a digit are stored together. A key is read once, into a register.
 */
#include "cuda/prim/pack.cuh"
#include "cuda/prim/radix.cuh"
#include "ops/keys.h"
#include "ops/run.cuh"

/* Keys that a block moves at a time, in bytes: as many as registers hold without spills. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define SORT_MOVE_BYTES 16384u
#else
#define SORT_MOVE_BYTES 32768u
#endif

namespace
{

__device__ __forceinline__ uint32_t encode(const struct gm_key_rule &r, uint32_t v) { return gm_key_encode_u32(&r, v); }
__device__ __forceinline__ uint64_t encode(const struct gm_key_rule &r, uint64_t v) { return gm_key_encode_u64(&r, v); }
__device__ __forceinline__ uint32_t decode(const struct gm_key_rule &r, uint32_t k) { return gm_key_decode_u32(&r, k); }
__device__ __forceinline__ uint64_t decode(const struct gm_key_rule &r, uint64_t k) { return gm_key_decode_u64(&r, k); }

__device__ __forceinline__ struct gm_key_rule sort_rule(const struct gm_job *job)
{
    return gm_key_rule(job->dtype, job->flags & GM_FLAG_DESCENDING ? GM_KEY_DESCENDING : GM_KEY_ASCENDING);
}

/* Where a pass of a job of several tiles reads and writes. */
template <typename Key> struct pass {
    const Key *from;
    Key *to;
    uint32_t shift;
    bool first, last;
};

template <typename Key> __device__ __forceinline__ pass<Key> pass_of(const struct gm_run *run)
{
    const struct gm_job *job = run->job;
    const uint32_t number = job->phase / 2u;
    Key *keys = (Key *)(job->workspace + gm_sort_keys_offset(job->tiles)), *out = gm_run_buffer<Key>(run, 1);
    pass<Key> p;
    p.from = number == 0 ? gm_run_buffer<const Key>(run, 0) : number % 2u ? keys : out;
    p.to = number % 2u ? out : keys;
    p.shift = number * GM_RADIX_BITS;
    p.first = number == 0;
    p.last = job->phase + 1u == job->phases;
    return p;
}

/* Counts of a pass are 32-bit where positions fit, which halves what finish has to scan. */
__device__ __forceinline__ bool counts_narrow(const struct gm_job *job) { return job->n <= 0xffffffffu; }

__device__ __forceinline__ void count_store(const struct gm_job *job, uint64_t at, uint64_t v)
{
    if (counts_narrow(job))
        ((uint32_t *)job->workspace)[at] = (uint32_t)v;
    else
        ((uint64_t *)job->workspace)[at] = v;
}
__device__ __forceinline__ uint64_t count_load(const struct gm_job *job, uint64_t at)
{
    return counts_narrow(job) ? __ldcg((const uint32_t *)job->workspace + at)
                              : __ldcg((const unsigned long long *)job->workspace + at);
}

/* One pass of a tile in registers; keys come back warp-striped. Nothing moves when one digit holds all. */
template <int ITEMS, typename Key>
__device__ __forceinline__ void tile_pass(Key (&key)[ITEMS], uint32_t shift, struct gm_radix_scratch *s, Key *exchange)
{
    struct gm_radix_ranks<ITEMS> rank;
    gm_radix_rank<ITEMS, Key>(key, rank, shift, s);
    if (s->count[gm_radix_digit(key[0], shift)] == ITEMS * GM_CUDA_THREADS)
        return; /* every thread sees the same */
#pragma unroll
    for (int i = 0; i < ITEMS; i++)
        exchange[rank.get(i)] = key[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; i++)
        key[i] = exchange[gm_radix_index(ITEMS, i)];
}

/* Keys of a tile into registers, as they are. Padding stays behind equal keys, because every pass is stable. */
template <int ITEMS, typename Key>
__device__ __forceinline__ void tile_load(Key (&key)[ITEMS], const Key *from, uint32_t count)
{
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        const uint32_t at = gm_radix_index(ITEMS, i);
        key[i] = ~(Key)0;
        if (at < count)
            key[i] = gm_global_load(from + at);
    }
}

/* What the client gave becomes keys. */
template <int ITEMS, typename Key>
__device__ __forceinline__ void tile_encode(const struct gm_job *job, Key (&key)[ITEMS], uint32_t count)
{
    const struct gm_key_rule rule = sort_rule(job);
#pragma unroll
    for (int i = 0; i < ITEMS; i++)
        key[i] = gm_radix_index(ITEMS, i) < count ? encode(rule, key[i]) : ~(Key)0;
}

/* The whole job in one tile of at most ITEMS keys a thread. */
template <int ITEMS, typename Key> __device__ __noinline__ void tile_sort(struct gm_run *run)
{
    static_assert(sizeof(struct gm_radix_scratch) % 16u == 0, "keys behind it are aligned");
    static_assert(sizeof(struct gm_radix_scratch) + ITEMS * GM_CUDA_THREADS * sizeof(Key) <= GM_BLOCK_SCRATCH, "fits");
    struct gm_radix_scratch *s = gm_run_scratch<struct gm_radix_scratch>(0);
    Key *exchange = gm_run_scratch<Key>(sizeof(struct gm_radix_scratch)), key[ITEMS];
    tile_load<ITEMS, Key>(key, gm_run_buffer<const Key>(run, 0), (uint32_t)run->job->n);
    tile_encode<ITEMS, Key>(run->job, key, (uint32_t)run->job->n);
#pragma unroll 1
    for (uint32_t shift = 0; shift < sizeof(Key) * 8u; shift += GM_RADIX_BITS)
        tile_pass<ITEMS, Key>(key, shift, s, exchange);
    /* Made again rather than kept: registers are short between. */
    const struct gm_key_rule rule = sort_rule(run->job);
    const uint32_t n = (uint32_t)run->job->n;
    Key *out = gm_run_buffer<Key>(run, 1);
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        const uint32_t at = gm_radix_index(ITEMS, i);
        if (at < n)
            out[at] = decode(rule, key[i]);
    }
}

/* Counts one pack of each thread; the warp is whole. Where all lanes have the same digit, one adds for them. */
template <typename Key>
__device__ __forceinline__ void count_pack(const pass<Key> &p, const struct gm_key_rule &rule, const gm_pack<Key> &pack,
                                           uint32_t valid, uint32_t *row)
{
#pragma unroll
    for (uint32_t e = 0; e < gm_pack<Key>::elements; e++) {
        const Key key = p.first ? encode(rule, pack.w[e]) : pack.w[e];
        const uint32_t digit = e < valid ? gm_radix_digit(key, p.shift) : GM_RADIX;
        const bool same = __all_sync(0xffffffffu, digit == __shfl_sync(0xffffffffu, digit, 0)) != 0;
        if (e < valid && (!same || threadIdx.x % 32u == 0))
            atomicAdd(&row[digit], same ? 32u : 1u);
    }
}

/* Adds a chunk's digits to counters of this warp: several packs in flight, then what is left one by one. */
template <typename Key>
__device__ __forceinline__ void chunk_count_keys(const pass<Key> &p, const struct gm_key_rule &rule, const Key *from,
                                                 uint64_t count, uint32_t *row)
{
    constexpr uint32_t E = gm_pack<Key>::elements, flight = GM_PACKS_AHEAD, step = GM_CUDA_THREADS * E;
    uint64_t done = 0;
    if (((uintptr_t)from & 15u) == 0)
        for (; done + flight * step <= count; done += flight * step) {
            const uint4 *packs = (const uint4 *)(from + done) + threadIdx.x;
            uint4 v[flight];
#pragma unroll
            for (uint32_t k = 0; k < flight; k++)
                v[k] = __ldcg(packs + k * GM_CUDA_THREADS);
#pragma unroll
            for (uint32_t k = 0; k < flight; k++)
                count_pack<Key>(p, rule, gm_pack_of(v[k], Key()), E, row);
        }
#pragma unroll 1
    for (; done < count; done += step) {
        const uint32_t left = (uint32_t)(count - done < step ? count - done : step), at = threadIdx.x * E;
        const gm_pack<Key> pack = gm_pack_load<Key>(from + done, threadIdx.x, left, 0);
        count_pack<Key>(p, rule, pack, at < left ? left - at : 0, row);
    }
}

template <typename Key> __device__ __noinline__ void chunks_count(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    const pass<Key> p = pass_of<Key>(run);
    const struct gm_key_rule rule = sort_rule(job);
    uint32_t *rows = gm_run_scratch<uint32_t>(0), *row = rows + threadIdx.x / 32u * GM_RADIX;
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t chunk, count;
    while (gm_run_next_tile(run, &tiles, &chunk)) {
        const Key *from = p.from + gm_run_tile(run, chunk, &count);
        for (uint32_t i = threadIdx.x; i < GM_BLOCK_WARPS * GM_RADIX; i += GM_CUDA_THREADS)
            rows[i] = 0;
        __syncthreads();
        chunk_count_keys<Key>(p, rule, from, count, row);
        __syncthreads();
        if (threadIdx.x < GM_RADIX) {
            uint64_t sum = 0;
            for (uint32_t w = 0; w < GM_BLOCK_WARPS; w++)
                sum += rows[w * GM_RADIX + threadIdx.x];
            count_store(job, threadIdx.x * job->tiles + chunk, sum);
        }
    }
}

/* Places of a chunk's digits: the next free one, and the end. Both below n, whatever the counts say. */
struct places {
    uint64_t next[GM_RADIX], end[GM_RADIX];
};

__device__ __forceinline__ void places_load(const struct gm_job *job, uint64_t chunk, struct places *places)
{
    const uint32_t d = threadIdx.x;
    if (d < GM_RADIX) {
        const uint64_t at = d * job->tiles + chunk;
        const uint64_t end = at + 1u < GM_RADIX * job->tiles ? count_load(job, at + 1u) : job->n;
        places->next[d] = count_load(job, at);
        places->end[d] = end < job->n ? end : job->n;
    }
}

/* Zeros where a client changed its keys between counting and moving: see sort.c. */
template <typename Key> __device__ __forceinline__ void places_close(const struct places *places, Key *to)
{
    const uint32_t d = threadIdx.x;
    if (__syncthreads_or(d < GM_RADIX && places->next[d] < places->end[d]) == 0)
        return;
    for (uint32_t k = 0; k < GM_RADIX; k++)
        for (uint64_t i = places->next[k] + threadIdx.x; i < places->end[k]; i += GM_CUDA_THREADS)
            to[i] = 0;
}

template <typename Key> struct move_scratch {
    struct gm_radix_scratch radix;
    struct places places;
    Key key[SORT_MOVE_BYTES / sizeof(Key)];
};

template <typename Key> struct moved {
    static constexpr int items = SORT_MOVE_BYTES / sizeof(Key) / GM_CUDA_THREADS;
    static constexpr uint32_t keys = SORT_MOVE_BYTES / sizeof(Key);
};

/* Every key of a tile that is sorted by the digit in shared memory goes to its place. */
template <typename Key>
__device__ __forceinline__ void tile_store(const struct gm_run *run, uint32_t count, struct move_scratch<Key> *s)
{
    constexpr int ahead = GM_PACKS_AHEAD / 2u;
    const pass<Key> p = pass_of<Key>(run); /* made again rather than kept: registers are short before */
    const struct gm_key_rule rule = sort_rule(run->job);
#pragma unroll ahead
    for (uint32_t at = threadIdx.x; at < count; at += GM_CUDA_THREADS) {
        const Key k = s->key[at];
        const uint32_t d = gm_radix_digit(k, p.shift);
        const uint64_t place = s->places.next[d] + (at - s->radix.start[d]);
        if (place < s->places.end[d])
            p.to[place] = p.last ? decode(rule, k) : k;
    }
    __syncthreads();
    if (threadIdx.x < GM_RADIX) {
        const uint32_t padding = threadIdx.x == GM_RADIX - 1u ? moved<Key>::keys - count : 0;
        s->places.next[threadIdx.x] += s->radix.count[threadIdx.x] - padding;
    }
}

/* A chunk in tiles; the next tile's keys are on their way while this one's are stored. */
template <typename Key>
__device__ __forceinline__ void chunk_move(const struct gm_run *run, const Key *from, uint64_t count,
                                           struct move_scratch<Key> *s)
{
    constexpr int items = moved<Key>::items;
    constexpr uint32_t most = moved<Key>::keys;
    const bool first = run->job->phase == 1u;
    Key key[items];
    uint32_t here = (uint32_t)(count < most ? count : most);
    tile_load<items, Key>(key, from, here);
    while (here != 0) {
        struct gm_radix_ranks<items> rank;
        if (first)
            tile_encode<items, Key>(run->job, key, here);
        gm_radix_rank<items, Key>(key, rank, run->job->phase / 2u * GM_RADIX_BITS, &s->radix);
#pragma unroll
        for (int i = 0; i < items; i++)
            s->key[rank.get(i)] = key[i];
        __syncthreads();
        from += here;
        count -= here;
        const uint32_t next = (uint32_t)(count < most ? count : most);
        if (next != 0)
            tile_load<items, Key>(key, from, next);
        tile_store<Key>(run, here, s);
        here = next;
    }
}

template <typename Key> __device__ __noinline__ void chunks_move(struct gm_run *run)
{
    static_assert(sizeof(struct move_scratch<Key>) <= GM_BLOCK_SCRATCH, "fits");
    struct move_scratch<Key> *s = gm_run_scratch<struct move_scratch<Key>>(0);
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t chunk, count;
    while (gm_run_next_tile(run, &tiles, &chunk)) {
        const Key *from = pass_of<Key>(run).from + gm_run_tile(run, chunk, &count);
        places_load(run->job, chunk, &s->places);
        chunk_move<Key>(run, from, count, s);
        __syncthreads();
        places_close<Key>(&s->places, pass_of<Key>(run).to);
        __syncthreads();
    }
}

/* Exclusive scan in place by one block. A warp takes a run of T; its registers hold it between the load and the store.
 * Pieces of all warps, one after the other; carry goes from piece to piece. */
template <typename T, typename Vector> __device__ __forceinline__ void scan_counts(T *counts, uint64_t total, T *sums)
{
    constexpr uint32_t per = sizeof(Vector) / sizeof(T), steps = 8, run_length = steps * 32u * per;
    const uint32_t lane = threadIdx.x & 31u, warp = threadIdx.x / 32u;
    T carry = 0;
    for (uint64_t base = 0; base < total; base += run_length * GM_BLOCK_WARPS) {
        const uint64_t first = base + warp * run_length + lane * per;
        union {
            Vector v;
            T t[per];
        } x[steps];
        T before[steps], sum = 0;
#pragma unroll
        for (uint32_t k = 0; k < steps; k++) /* rows of 256 counts: whole vectors, aligned */
            x[k].v = first + k * 32u * per < total ? __ldcg((const Vector *)(counts + first) + k * 32u) : Vector();
#pragma unroll
        for (uint32_t k = 0; k < steps; k++) {
            T own = 0, upto;
#pragma unroll
            for (uint32_t e = 0; e < per; e++)
                own += x[k].t[e];
            upto = own;
#pragma unroll
            for (uint32_t step = 1; step < 32u; step *= 2u) {
                const T below = __shfl_up_sync(0xffffffffu, upto, step);
                upto += lane >= step ? below : 0;
            }
            before[k] = sum + upto - own;
            sum += __shfl_sync(0xffffffffu, upto, 31);
        }
        if (lane == 0)
            sums[warp] = sum;
        __syncthreads();
        T start = carry;
#pragma unroll
        for (uint32_t w = 0; w < GM_BLOCK_WARPS; w++) {
            start += w < warp ? sums[w] : 0;
            carry += sums[w];
        }
#pragma unroll
        for (uint32_t k = 0; k < steps; k++) {
            T at = start + before[k];
#pragma unroll
            for (uint32_t e = 0; e < per; e++) {
                const T own = x[k].t[e];
                x[k].t[e] = at;
                at += own;
            }
            if (first + k * 32u * per < total)
                *(Vector *)(counts + first + k * 32u * per) = x[k].v;
        }
        __syncthreads(); /* sums is read before the next piece writes it */
    }
}

__device__ __noinline__ void scan_narrow(struct gm_run *run)
{
    scan_counts<uint32_t, uint4>((uint32_t *)run->job->workspace, GM_RADIX * run->job->tiles,
                                 gm_run_scratch<uint32_t>(0));
}
__device__ __noinline__ void scan_wide(struct gm_run *run)
{
    scan_counts<unsigned long long, ulonglong2>((unsigned long long *)run->job->workspace,
                                                GM_RADIX * run->job->tiles,
                                                gm_run_scratch<unsigned long long>(0));
}

template <typename Key, int ITEMS, int MOST> __device__ __forceinline__ void tile_dispatch(struct gm_run *run)
{
    if constexpr (ITEMS < MOST) {
        if (run->job->n > ITEMS * GM_CUDA_THREADS) {
            tile_dispatch<Key, ITEMS * 2, MOST>(run);
            return;
        }
    }
    tile_sort<ITEMS, Key>(run);
}

template <typename Key> __device__ __forceinline__ void sort_share(struct gm_run *run)
{
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile;
    if (run->job->phases == 1) {
        if (gm_run_next_tile(run, &tiles, &tile))
            tile_dispatch<Key, 1, GM_TILE_BYTES_sort / sizeof(Key) / GM_CUDA_THREADS>(run);
    } else if (run->job->phase % 2u == 0) {
        chunks_count<Key>(run);
    } else {
        chunks_move<Key>(run);
    }
}

} // namespace

__device__ void gm_op_sort_share(struct gm_run *run)
{
    if (gm_dtype_bytes(run->job->dtype) == 4u)
        sort_share<uint32_t>(run);
    else
        sort_share<uint64_t>(run);
}

__device__ void gm_op_sort_finish(struct gm_run *run)
{
    if (run->job->phases == 1 || run->job->phase % 2u != 0)
        return;
    if (counts_narrow(run->job))
        scan_narrow(run);
    else
        scan_wide(run);
}
