/* SPDX-License-Identifier: Apache-2.0
 *
 * scatter on blocks: see scatter.c for the rules and the phases. One tile is done batch after batch, each with a table
 * in shared memory that says for every index of the batch which element is the highest. Indices are read again in each
 * phase and compared with the length whenever they are.
 */
#include "core/plan.h"
#include "ops/index.cuh"

/* A table entry: index << SCATTER_BITS | number in the batch. The table is at most half full, so a search ends. */
#define SCATTER_BITS  13u
#define SCATTER_BATCH (1u << SCATTER_BITS)
#define SCATTER_FREE  (~0ull)
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

/* Elements first up to first + count, at most a batch; behind those of all batches before. Whole block. */
template <typename Word, typename Index>
__device__ __forceinline__ void batch(const struct gm_run *run, uint64_t first, uint32_t count)
{
    const uint64_t length = run->job->value[0];
    const Word *in = gm_run_buffer<const Word>(run, 0) + first;
    const Index *indices = gm_run_buffer<const Index>(run, 1) + first;
    Word *out = gm_run_buffer<Word>(run, 2);
    scatter_entry *table = gm_run_scratch<scatter_entry>(0);
    uint32_t slots = 2u * GM_CUDA_THREADS;
    while (slots < 2u * count)
        slots *= 2u;
    for (uint32_t s = threadIdx.x; s < slots; s += GM_CUDA_THREADS)
        table[s] = SCATTER_FREE;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < count; i += GM_CUDA_THREADS) {
        const uint64_t at = index_of<Index>::load(indices, i);
        if (at < length)
            table_put(table, slots - 1u, at, i);
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < count; i += GM_CUDA_THREADS) {
        const uint64_t at = index_of<Index>::load(indices, i);
        if (at < length && table_has(table, slots - 1u, at, i))
            out[at] = element_load(in + i);
    }
    __syncthreads(); /* the next batch clears the table, and may write the same places */
}

/* The whole job in one tile: nothing is written unless every index is inside. */
template <typename Word, typename Index> __device__ __noinline__ void scatter_single(struct gm_run *run)
{
    const uint64_t n = run->job->n, length = run->job->value[0];
    const Index *indices = gm_run_buffer<const Index>(run, 1);
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile;
    bool outside = false;
    if (!gm_run_next_tile(run, &tiles, &tile))
        return;
    for (uint64_t i = threadIdx.x; i < n; i += GM_CUDA_THREADS)
        outside = outside || index_of<Index>::load(indices, i) >= length;
    if (__syncthreads_or(outside) != 0) {
        if (threadIdx.x == 0)
            gm_run_fail(run, GM_EBOUNDS);
        return;
    }
    for (uint64_t first = 0; first < n; first += SCATTER_BATCH)
        batch<Word, Index>(run, first, (uint32_t)(n - first < SCATTER_BATCH ? n - first : SCATTER_BATCH));
}

/* Words of the workspace: numbers of elements. */
__device__ __forceinline__ uint64_t word_load(const struct gm_job *job, uint64_t at)
{
    return gm_scatter_word(job->n) == 4u ? gm_global_load((const uint32_t *)job->workspace + at)
                                         : gm_global_load((const uint64_t *)job->workspace + at);
}

/* The first two phases. */
template <typename Index> __device__ __noinline__ void scatter_claim(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    const uint64_t length = job->value[0];
    const bool narrow = gm_scatter_word(job->n) == 4u, raise = job->phase != 0;
    const Index *indices = gm_run_buffer<const Index>(run, 1);
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile, count;
    bool outside = false;
    while (gm_run_next_tile(run, &tiles, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count);
#pragma unroll 4
        for (uint64_t i = first + threadIdx.x; i < first + count; i += GM_CUDA_THREADS) {
            const uint64_t at = index_of<Index>::load(indices, i);
            outside = outside || at >= length;
            if (at >= length || (raise && word_load(job, at) >= i))
                continue;
            if (raise && narrow)
                gm_max_relaxed_u32((uint32_t *)job->workspace + at, (uint32_t)i);
            else if (raise)
                gm_max_relaxed_u64((uint64_t *)job->workspace + at, i);
            else if (narrow)
                __stcg((uint32_t *)job->workspace + at, (uint32_t)i);
            else
                __stcg((unsigned long long *)job->workspace + at, (unsigned long long)i);
        }
    }
    index_verdict(run, outside);
}

/* The third phase. */
template <typename Word, typename Index> __device__ __noinline__ void scatter_settle(struct gm_run *run)
{
    constexpr uint32_t flight = 4;
    const struct gm_job *job = run->job;
    const uint64_t length = job->value[0];
    Word *out = gm_run_buffer<Word>(run, 2);
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile, count;
    bool outside = false;
    while (gm_run_next_tile(run, &tiles, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count);
        const Word *in = gm_run_buffer<const Word>(run, 0) + first;
        const Index *indices = gm_run_buffer<const Index>(run, 1) + first;
#pragma unroll 1
        for (uint32_t base = threadIdx.x; base < count; base += flight * GM_CUDA_THREADS) {
            uint64_t at[flight];
            Word v[flight];
            bool own[flight];
#pragma unroll
            for (uint32_t k = 0; k < flight; k++) {
                const uint32_t i = base + k * GM_CUDA_THREADS;
                at[k] = length;
                if (i < count) {
                    at[k] = index_of<Index>::load(indices, i);
                    v[k] = element_load(in + i);
                    outside = outside || at[k] >= length;
                }
            }
#pragma unroll
            for (uint32_t k = 0; k < flight; k++)
                own[k] = at[k] < length && word_load(job, at[k]) == first + base + k * GM_CUDA_THREADS;
#pragma unroll
            for (uint32_t k = 0; k < flight; k++)
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

__device__ void gm_op_scatter_finish(struct gm_run *run) { (void)run; }
