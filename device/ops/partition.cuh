/* SPDX-License-Identifier: Apache-2.0
 *
 * partition on blocks: the elements that compare as asked, then all others, both in their order. See select.cuh for a
 * tile, compare.h for the rule.
 *
 * It reads its input twice, because others go behind all that are kept, and how many those are is known at the end
 * alone: tiles are counted, finish makes places of the counts, and a second phase moves elements to their places. That
 * is 3 n of traffic, whatever is kept. In a single pass others would have to wait elsewhere, in n more elements of
 * workspace or turned round at the end of the output, and be moved again: 2 n, and 2 for each of them, so more than
 * this from the half on. What select.h says holds here when a client changes the input between the two: each tile owns
 * the places that its count gave it.
 */
#include "ops/select.cuh"

namespace
{

constexpr int partition_packs = GM_TILE_BYTES_partition / 16 / GM_CUDA_THREADS;
static_assert(partition_packs * 16 * GM_CUDA_THREADS == GM_TILE_BYTES_partition, "every thread has as many");

__device__ __forceinline__ struct gm_kept partition_kept(const struct gm_job *job, uint64_t tile)
{
    const ulonglong2 pair = __ldcg((const ulonglong2 *)job->workspace + tile); /* another SM wrote it */
    struct gm_kept kept;
    kept.counts = pair.x;
    kept.start = pair.y;
    return kept;
}

/* Where the tile's elements go: kept ones, and the others behind all that are kept. all: kept in this tile, now. */
__device__ __forceinline__ void partition_places(struct gm_run *run, uint64_t tile, uint64_t first, uint32_t count,
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
    const struct gm_kept own = partition_kept(job, tile), last = partition_kept(job, job->tiles - 1u);
    const uint64_t before = gm_kept_before(&own);
    *kept = gm_places_make(before, gm_kept_count(&own), job->n);
    *others = gm_places_make(gm_kept_upto(&last) + (first - before), count - gm_kept_count(&own), job->n);
}

template <class R> __device__ __noinline__ void partition_tiles(struct gm_run *run, R rule)
{
    const bool writes = run->job->phase + 1u == run->job->phases;
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile;
    while (gm_run_next_tile(run, &tiles, &tile)) {
        selector<R, partition_packs> s(run, rule);
        uint32_t all;
        s.ask(tile);
        s.keep(tile);
        s.template counts<false>();
        __syncthreads();
        const uint32_t in_tile = s.before(&all);
        if (writes) {
            struct gm_places kept, others;
            partition_places(run, tile, s.first, s.count, all, &kept, &others);
            select_put<R, partition_packs, true>(s, kept, others, in_tile, all);
        } else if (threadIdx.x == 0) {
            ((struct gm_kept *)run->job->workspace)[tile] = gm_kept_make(0, all, GM_KEPT_NO_START);
        }
    }
}

struct partition_sum {
    __device__ __forceinline__ uint64_t operator()(uint64_t a, uint64_t b) const { return a + b; }
};

/* Every tile learns what is kept before it. A thread has some tiles in a row; pieces of all threads follow each other.
 */
__device__ __noinline__ void partition_scan(struct gm_run *run)
{
    constexpr uint32_t each = 4;
    const struct gm_job *job = run->job;
    struct gm_kept *all = (struct gm_kept *)job->workspace;
    uint64_t *sums = gm_run_scratch<uint64_t>(0), before = 0;
#pragma unroll 1
    for (uint64_t base = 0; base < job->tiles; base += each * GM_CUDA_THREADS) {
        const uint64_t first = base + threadIdx.x * each;
        struct gm_kept tile[each];
        uint64_t own = 0, sum;
#pragma unroll
        for (uint32_t i = 0; i < each; i++) {
            tile[i] = first + i < job->tiles ? partition_kept(job, first + i) : gm_kept_make(0, 0, GM_KEPT_NO_START);
            own += gm_kept_count(&tile[i]);
        }
        uint64_t at = before + gm_block_scan_exclusive<uint64_t>(own, 0, partition_sum(), sums, &sum);
#pragma unroll
        for (uint32_t i = 0; i < each; i++) {
            if (first + i < job->tiles)
                all[first + i] = gm_kept_make(at, gm_kept_count(&tile[i]), GM_KEPT_NO_START);
            at += gm_kept_count(&tile[i]);
        }
        before += sum;
        __syncthreads(); /* sums is read before the next piece writes it */
    }
}

template <typename W> __device__ __forceinline__ void partition_share(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    const select_matches<W> rule = {gm_predicate_make(job->dtype, job->bins, job->value[0], job->value[1])};
    partition_tiles(run, rule);
}

} // namespace

__device__ void gm_op_partition_share(struct gm_run *run)
{
    switch (gm_dtype_bytes(run->job->dtype)) {
    case 1:
        partition_share<uint8_t>(run);
        break;
    case 4:
        partition_share<uint32_t>(run);
        break;
    default:
        partition_share<uint64_t>(run);
        break;
    }
}

__device__ void gm_op_partition_finish(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    if (job->phases == 1)
        return; /* the share has answered; of nothing the answer is 0 */
    if (job->phase == 0) {
        partition_scan(run);
    } else if (threadIdx.x == 0) {
        const struct gm_kept last = partition_kept(job, job->tiles - 1u);
        run->result = gm_kept_upto(&last);
    }
}
