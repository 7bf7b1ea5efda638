/* SPDX-License-Identifier: Apache-2.0
 *
 * partition on blocks: the elements that compare as asked, then all others, both in their order. See select.cuh for a
 * tile, compare.h for the rule.
 *
 * It reads its input twice, because others go behind all that are kept, and how many those are is known at the end
 * alone: tiles are counted as count_if counts them, finish makes places of the counts, and a second phase moves
 * elements to their places, a tile while the next one is on its way. That is 3 n of traffic, whatever is kept. In a
 * single pass others would have to wait elsewhere, in n more elements of workspace or turned round at the end of the
 * output, and be moved again: 2 n, and 2 for each of them, so more than this from the half on. What select.h says holds
 * here when a client changes the input between the two: each tile owns the places that its count gave it.
 */
#include "cuda/prim/reduce.cuh"
#include "ops/select.cuh"

namespace
{

constexpr int partition_packs = GM_TILE_BYTES_partition / 16 / GM_CUDA_THREADS;
static_assert(partition_packs * 16 * GM_CUDA_THREADS == GM_TILE_BYTES_partition, "every thread has as many");
GM_REDUCED_ALIKE(partition);

__device__ __forceinline__ struct gm_predicate partition_predicate(const struct gm_job *job)
{
    return gm_predicate_make(job->dtype, job->bins, job->value[0], job->value[1]);
}

/* How many of a tile lie in the predicate's interval, as its gm_kept. */
template <typename W> struct partition_count {
    typedef W Word;
    typedef gm_wide Value;
    static_assert(sizeof(gm_wide) == sizeof(struct gm_kept), "counts, and nothing");
    struct gm_predicate inside;
    struct Sum {
        struct gm_predicate inside;
        uint64_t counted;
        __device__ __forceinline__ explicit Sum(const partition_count &r) : inside(r.inside), counted(0) {}
        __device__ __forceinline__ void add(const gm_pack<Word> &p)
        {
            uint32_t some = 0;
#pragma unroll
            for (int e = 0; e < p.elements; e++)
                some += gm_predicate_inside(&inside, p.w[e]) ? 1u : 0u;
            counted += some;
        }
        __device__ __forceinline__ Value total() const { return {counted, 0}; }
        __device__ __forceinline__ Sum &operator=(const Sum &other)
        {
            counted = other.counted;
            return *this;
        }
    };
    __device__ __forceinline__ static Value zero() { return {0, 0}; }
    __device__ __forceinline__ static Value combine(Value a, Value b) { return {a.low + b.low, 0}; }
    /* The element whose key is just below the interval, as in count_if.cuh. */
    __device__ __forceinline__ Word padding() const
    {
        const Word key = (Word)(inside.low - 1u);
        return (Word)(key ^ (key >> (sizeof(Word) * 8u - 1u) != 0 ? (Word)inside.negative : (Word)0));
    }
    __device__ __forceinline__ static void answer(struct gm_run *, const partition_count &, Value) {}
};

__device__ __forceinline__ struct gm_kept partition_kept(const struct gm_job *job, uint64_t tile)
{
    const ulonglong2 pair = __ldcg((const ulonglong2 *)job->workspace + tile); /* another SM wrote it */
    struct gm_kept kept;
    kept.counts = pair.x;
    kept.start = pair.y;
    return kept;
}

/* How many are kept of a tile, of which so many lie in the interval. Where that is everything there was no element to
 * pad with. */
__device__ __forceinline__ uint64_t partition_of_tile(const struct gm_job *job, const struct gm_predicate &p,
                                                      uint64_t tile, uint64_t inside)
{
    const uint64_t left = job->n - tile * job->tile_elements;
    const uint64_t count = left < job->tile_elements ? left : job->tile_elements;
    if (p.span == ~(uint64_t)0 >> (64u - gm_dtype_bytes(job->dtype) * 8u))
        inside = count;
    return p.outside != 0 ? count - inside : inside;
}

/* The last phase, and the only one of a job of one tile. own: what the tile was counted to, which comes with it; total:
 * kept in the job. */
template <class R> __device__ __noinline__ void partition_write(struct gm_run *run, R rule)
{
    const struct gm_job *job = run->job;
    const bool alone = job->phases == 1u;
    struct gm_tiles tiles = {0, 0, 0};
    uint64_t tile, next, total = 0;
    selector<R, partition_packs> s(run, rule);
    struct gm_kept own = gm_kept_make(0, 0, GM_KEPT_NO_START), ahead = own;
    bool more = gm_run_next_tile(run, &tiles, &tile);
    if (more) {
        s.ask(tile);
        if (!alone) {
            const struct gm_kept last = partition_kept(job, job->tiles - 1u);
            ahead = partition_kept(job, tile);
            total = gm_kept_upto(&last);
        }
    }
    for (; more; tile = next) {
        uint32_t all;
        s.keep(tile);
        own = ahead;
        more = gm_run_next_tile(run, &tiles, &next);
        if (more) {
            s.ask(next);
            ahead = partition_kept(job, next);
        }
        s.template counts<false>();
        __syncthreads();
        const uint32_t in_tile = s.before(&all);
        if (alone) {
            own = gm_kept_make(0, all, GM_KEPT_NO_START);
            total = all;
            if (threadIdx.x == 0)
                run->result = all;
        }
        const uint64_t before = gm_kept_before(&own), count = gm_kept_count(&own);
        const struct gm_places kept = gm_places_make(before, count, job->n);
        const struct gm_places others = gm_places_make(total + (s.first - before), s.count - count, job->n);
        select_put<R, partition_packs, true>(s, kept, others, in_tile, all);
    }
}

struct partition_sum {
    __device__ __forceinline__ uint64_t operator()(uint64_t a, uint64_t b) const { return a + b; }
};

/* Every tile learns how many are kept in it and before it. A thread has some tiles in a row; pieces of all threads
 * follow each other. */
__device__ __noinline__ void partition_scan(struct gm_run *run)
{
    constexpr uint32_t each = 4;
    const struct gm_job *job = run->job;
    const struct gm_predicate p = partition_predicate(job);
    struct gm_kept *all = (struct gm_kept *)job->workspace;
    uint64_t *sums = gm_run_scratch<uint64_t>(0), before = 0;
#pragma unroll 1
    for (uint64_t base = 0; base < job->tiles; base += each * GM_CUDA_THREADS) {
        const uint64_t first = base + threadIdx.x * each;
        uint64_t tile[each], own = 0, sum;
#pragma unroll
        for (uint32_t i = 0; i < each; i++) {
            tile[i] = 0;
            if (first + i < job->tiles)
                tile[i] = partition_of_tile(job, p, first + i, partition_kept(job, first + i).counts);
            own += tile[i];
        }
        uint64_t at = before + gm_block_scan_exclusive<uint64_t>(own, 0, partition_sum(), sums, &sum);
#pragma unroll
        for (uint32_t i = 0; i < each; i++) {
            if (first + i < job->tiles)
                all[first + i] = gm_kept_make(at, tile[i], GM_KEPT_NO_START);
            at += tile[i];
        }
        before += sum;
        __syncthreads(); /* sums is read before the next piece writes it */
    }
}

template <typename W> __device__ __forceinline__ void partition_share(struct gm_run *run)
{
    const struct gm_predicate p = partition_predicate(run->job);
    if (run->job->phase + 1u < run->job->phases)
        gm_reduce_share(run, partition_count<W>{p});
    else
        partition_write(run, select_matches<W>(p));
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
