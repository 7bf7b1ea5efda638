/* SPDX-License-Identifier: Apache-2.0
 *
 * scatter on blocks: see scatter.c for the rules and the phases. Where the output is not much longer than the input,
 * the first phase clears the words instead, and then the highest number is all that has to be found, without a look at
 * what is there; a number is then one more, because 0 is nobody's. One tile of a short output has such words in shared
 * memory. Of a long one it is done batch after batch, each with a table there that says for every index of the batch
 * which element is the highest. Indices are read again in each phase and compared with the length whenever they are;
 * each thread has several of them on their way.
 */
#include "core/plan.h"
#include "ops/index.cuh"

/* A table entry: index << SCATTER_BITS | number in the batch. The table is at most half full, so a search ends. */
#define SCATTER_BITS 13u
#define SCATTER_BATCH (1u << SCATTER_BITS)
#define SCATTER_FREE (~0ull)
static_assert(2u * SCATTER_BATCH * 8u <= GM_BLOCK_SCRATCH, "the table fits");
static_assert(GM_ELEMENTS_MAX <= UINT64_C(1) << (63u - SCATTER_BITS), "an index fits its entry");

namespace
{

typedef unsigned long long scatter_entry;

__device__ __forceinline__ uint32_t scatter_slot(uint64_t index, uint32_t mask)
{
    return (uint32_t)(index * 0x9e3779b97f4a7c15u >> 32) & mask;
}

__device__ __forceinline__ void table_put(scatter_entry *table, uint32_t mask, uint64_t index, uint32_t i)
{
    const scatter_entry entry = (scatter_entry)index << SCATTER_BITS | i;
    uint32_t slot = scatter_slot(index, mask);
    for (uint32_t left = mask; left != 0; left--, slot = (slot + 1u) & mask) {
        const scatter_entry held = atomicCAS(&table[slot], SCATTER_FREE, entry);
        if (held == SCATTER_FREE)
            return;
        if (held >> SCATTER_BITS == index) { /* the index of a slot stays, so the greater entry is the higher number */
            (void)atomicMax(&table[slot], entry);
            return;
        }
    }
}

/* Whether i is the highest number of this index; false too for an index that was changed since. */
__device__ __forceinline__ bool table_has(const scatter_entry *table, uint32_t mask, uint64_t index, uint32_t i)
{
    const scatter_entry entry = (scatter_entry)index << SCATTER_BITS | i;
    uint32_t slot = scatter_slot(index, mask);
    for (uint32_t left = mask; left != 0; left--, slot = (slot + 1u) & mask) {
        const scatter_entry held = table[slot];
        if (held == SCATTER_FREE || held >> SCATTER_BITS == index)
            return held == entry;
    }
    return false;
}

constexpr uint32_t scatter_flight = 8;

/* The indices of a thread's next elements from number base on; `length` where there are no more. */
template <typename Index>
__device__ __forceinline__ void scatter_indices(uint64_t (&at)[scatter_flight], const Index *indices, uint32_t base,
                                                uint32_t count, uint64_t length)
{
#pragma unroll
    for (uint32_t k = 0; k < scatter_flight; k++) {
        const uint32_t i = base + k * GM_CUDA_THREADS + threadIdx.x;
        at[k] = i < count ? index_of<Index>::load(indices, i) : length;
    }
}

/* Their elements. */
template <typename Word>
__device__ __forceinline__ void scatter_elements(Word (&v)[scatter_flight], const Word *in, uint32_t base,
                                                 uint32_t count)
{
#pragma unroll
    for (uint32_t k = 0; k < scatter_flight; k++) {
        const uint32_t i = base + k * GM_CUDA_THREADS + threadIdx.x;
        v[k] = i < count ? element_load(in + i) : 0;
    }
}

/* Calls f with every element's number below count and its index. Whole block, no barrier. */
template <typename Index, class F>
__device__ __forceinline__ void scatter_each(const Index *indices, uint32_t count, uint64_t length, F f)
{
#pragma unroll 1
    for (uint32_t base = 0; base < count; base += scatter_flight * GM_CUDA_THREADS) {
        uint64_t at[scatter_flight];
        scatter_indices(at, indices, base, count, length);
#pragma unroll
        for (uint32_t k = 0; k < scatter_flight; k++)
            if (base + k * GM_CUDA_THREADS + threadIdx.x < count)
                f(base + k * GM_CUDA_THREADS + threadIdx.x, at[k]);
    }
}

/* Writes the elements whose number and index own says true to, where the index is inside. Whole block, no barrier. */
template <typename Word, typename Index, class F>
__device__ __forceinline__ void scatter_write(const Word *in, const Index *indices, Word *out, uint32_t count,
                                              uint64_t length, F own)
{
#pragma unroll 1
    for (uint32_t base = 0; base < count; base += scatter_flight * GM_CUDA_THREADS) {
        uint64_t at[scatter_flight];
        Word v[scatter_flight];
        scatter_indices(at, indices, base, count, length);
        scatter_elements(v, in, base, count);
#pragma unroll
        for (uint32_t k = 0; k < scatter_flight; k++)
            if (at[k] < length && own(base + k * GM_CUDA_THREADS + threadIdx.x, at[k]))
                out[at[k]] = v[k];
    }
}

/* Elements first up to first + count, at most a batch; behind those of all batches before. Whole block. */
template <typename Word, typename Index>
__device__ __forceinline__ void batch(const struct gm_run *run, uint64_t first, uint32_t count)
{
    const uint64_t length = run->job->value[0];
    const Index *indices = gm_run_buffer<const Index>(run, 1) + first;
    scatter_entry *table = gm_run_scratch<scatter_entry>(0);
    uint32_t slots = 2u * GM_CUDA_THREADS;
    while (slots < 2u * count)
        slots *= 2u;
    for (uint32_t s = threadIdx.x; s < slots; s += GM_CUDA_THREADS)
        table[s] = SCATTER_FREE;
    __syncthreads();
    const uint32_t mask = slots - 1u;
    scatter_each(indices, count, length, [table, mask, length](uint32_t i, uint64_t at) {
        if (at < length)
            table_put(table, mask, at, i);
    });
    __syncthreads();
    scatter_write(gm_run_buffer<const Word>(run, 0) + first, indices, gm_run_buffer<Word>(run, 2), count, length,
                  [table, mask](uint32_t i, uint64_t at) { return table_has(table, mask, at, i); });
    __syncthreads(); /* the next batch clears the table, and may write the same places */
}

/* What a share of the whole job says; true where all indices are inside. Whole block, a barrier. */
__device__ __forceinline__ bool scatter_inside(struct gm_run *run, bool outside)
{
    if (__syncthreads_or(outside) == 0)
        return true;
    if (threadIdx.x == 0)
        gm_run_fail(run, GM_EBOUNDS);
    return false;
}

/* The whole job in one tile: nothing is written unless every index is inside. */
template <typename Word, typename Index> __device__ __noinline__ void scatter_long(struct gm_run *run)
{
    const uint32_t n = (uint32_t)run->job->n;
    const uint64_t length = run->job->value[0];
    bool outside = false;
    scatter_each(gm_run_buffer<const Index>(run, 1), n, length,
                 [&outside, length](uint32_t, uint64_t at) { outside = outside || at >= length; });
    if (!scatter_inside(run, outside))
        return;
    for (uint32_t first = 0; first < n; first += SCATTER_BATCH)
        batch<Word, Index>(run, first, n - first < SCATTER_BATCH ? n - first : SCATTER_BATCH);
}

template <typename Word, typename Index> __device__ __noinline__ void scatter_short(struct gm_run *run)
{
    const uint32_t n = (uint32_t)run->job->n, length = (uint32_t)run->job->value[0];
    const Index *indices = gm_run_buffer<const Index>(run, 1);
    uint32_t *words = gm_run_scratch<uint32_t>(0);
    bool outside = false;
    for (uint32_t i = threadIdx.x; i < length; i += GM_CUDA_THREADS)
        words[i] = 0;
    __syncthreads();
    scatter_each(indices, n, length, [&outside, words, length](uint32_t i, uint64_t at) {
        outside = outside || at >= length;
        if (at < length)
            atomicMax(&words[at], i + 1u);
    });
    if (!scatter_inside(run, outside))
        return;
    scatter_write(gm_run_buffer<const Word>(run, 0), indices, gm_run_buffer<Word>(run, 2), n, length,
                  [words](uint32_t i, uint64_t at) { return words[at] == i + 1u; });
}

template <typename Word, typename Index> __device__ __forceinline__ void scatter_single(struct gm_run *run)
{
    if (run->aborted != 0)
        return;
    if (run->job->value[0] <= GM_BLOCK_SCRATCH / 4u)
        scatter_short<Word, Index>(run);
    else
        scatter_long<Word, Index>(run);
}

/* Words of the workspace: numbers of elements, or, where they are cleared, one more. */
__device__ __forceinline__ bool scatter_clears(const struct gm_job *job)
{
    return job->value[0] / 4u <= job->n;
}
__device__ __forceinline__ uint64_t word_load(const struct gm_job *job, uint64_t at)
{
    return gm_scatter_word(job->n) == 4u ? gm_global_load((const uint32_t *)job->workspace + at)
                                         : gm_global_load((const uint64_t *)job->workspace + at);
}
__device__ __forceinline__ void word_store(const struct gm_job *job, uint64_t at, uint64_t v)
{
    if (gm_scatter_word(job->n) == 4u)
        __stcg((uint32_t *)job->workspace + at, (uint32_t)v);
    else
        __stcg((unsigned long long *)job->workspace + at, (unsigned long long)v);
}
__device__ __forceinline__ void word_raise(const struct gm_job *job, uint64_t at, uint64_t v)
{
    if (gm_scatter_word(job->n) == 4u)
        gm_max_relaxed_u32((uint32_t *)job->workspace + at, (uint32_t)v);
    else
        gm_max_relaxed_u64((uint64_t *)job->workspace + at, v);
}

/* Words of all of which every tile has a part. */
__device__ __forceinline__ uint64_t scatter_part(const struct gm_job *job, uint64_t tile)
{
    const uint64_t words = job->value[0];
    return words / job->tiles * tile + words % job->tiles * tile / job->tiles;
}
__device__ __noinline__ void scatter_clear(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile;
    while (gm_run_next_tile(run, &tiles, &tile)) {
        const uint64_t end = scatter_part(job, tile + 1u);
#pragma unroll 8
        for (uint64_t i = scatter_part(job, tile) + threadIdx.x; i < end; i += GM_CUDA_THREADS)
            word_store(job, i, 0);
    }
}

/* Whether the next lane has the same index, and so a higher number: its word is not for this one to raise. Before sm_90
 * shuffles are calls; all are raised there. Whole warp. */
__device__ __forceinline__ bool scatter_outdone(uint64_t at)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    (void)at;
    return false;
#else
    return __shfl_down_sync(0xffffffffu, at, 1) == at && (threadIdx.x & 31u) != 31u;
#endif
}

/* The first two phases but for clearing. */
template <typename Index> __device__ __noinline__ void scatter_claim(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    const uint64_t length = job->value[0];
    const bool clears = scatter_clears(job), looks = !clears && job->phase != 0;
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile, count64;
    bool outside = false;
    while (gm_run_next_tile(run, &tiles, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count64);
        const uint32_t count = (uint32_t)count64;
        const Index *indices = gm_run_buffer<const Index>(run, 1) + first;
#pragma unroll 1
        for (uint32_t base = 0; base < count; base += scatter_flight * GM_CUDA_THREADS) {
            uint64_t at[scatter_flight], held[scatter_flight];
            scatter_indices(at, indices, base, count, length);
#pragma unroll
            for (uint32_t k = 0; k < scatter_flight; k++)
                held[k] = looks && at[k] < length ? word_load(job, at[k]) : 0;
#pragma unroll
            for (uint32_t k = 0; k < scatter_flight; k++) {
                const uint32_t i = base + k * GM_CUDA_THREADS + threadIdx.x;
                const bool outdone = clears && scatter_outdone(at[k]);
                outside = outside || (i < count && at[k] >= length);
                if (at[k] >= length || outdone || (looks && held[k] >= first + i))
                    continue;
                if (clears || looks)
                    word_raise(job, at[k], first + i + (clears ? 1u : 0u));
                else
                    word_store(job, at[k], first + i);
            }
        }
    }
    index_verdict(run, outside);
}

/* The third phase. */
template <typename Word, typename Index> __device__ __noinline__ void scatter_settle(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    const uint64_t length = job->value[0], more = scatter_clears(job) ? 1u : 0u;
    Word *out = gm_run_buffer<Word>(run, 2);
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile, count64;
    bool outside = false;
    while (gm_run_next_tile(run, &tiles, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count64);
        const uint32_t count = (uint32_t)count64;
        const Word *in = gm_run_buffer<const Word>(run, 0) + first;
        const Index *indices = gm_run_buffer<const Index>(run, 1) + first;
#pragma unroll 1
        for (uint32_t base = 0; base < count; base += scatter_flight * GM_CUDA_THREADS) {
            uint64_t at[scatter_flight];
            Word v[scatter_flight];
            bool own[scatter_flight];
            scatter_indices(at, indices, base, count, length);
            scatter_elements(v, in, base, count);
#pragma unroll
            for (uint32_t k = 0; k < scatter_flight; k++) {
                const uint32_t i = base + k * GM_CUDA_THREADS + threadIdx.x;
                outside = outside || (i < count && at[k] >= length);
                own[k] = at[k] < length && word_load(job, at[k]) == first + i + more;
            }
#pragma unroll
            for (uint32_t k = 0; k < scatter_flight; k++)
                if (own[k])
                    out[at[k]] = v[k];
        }
    }
    index_verdict(run, outside);
}

template <typename Word, typename Index> __device__ __forceinline__ void scatter_phase(struct gm_run *run)
{
    if (run->job->phases == 1)
        scatter_single<Word, Index>(run);
    else if (run->job->phase == 0 && scatter_clears(run->job))
        scatter_clear(run);
    else if (run->job->phase + 1u < run->job->phases)
        scatter_claim<Index>(run);
    else
        scatter_settle<Word, Index>(run);
}

} // namespace

__device__ void gm_op_scatter_share(struct gm_run *run)
{
    index_typed(run, [run](auto word, auto index) { scatter_phase<decltype(word), decltype(index)>(run); });
}

__device__ void gm_op_scatter_finish(struct gm_run *run)
{
    (void)run;
}
