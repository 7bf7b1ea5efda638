/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram_edges on blocks: counts.cuh with edges of the client's own (edges.h). The block copies them once, into
 * shared memory or, where they are too many, into the share's part of the workspace, and looks at the order of the
 * copy; the client's edges are not read again. Bytes are counted by value, and looked up once for each value.
 */
#include "ops/counts.cuh"
#include "ops/edges.h"

namespace
{

/* Of the scratch: whether an edge is wrong, the edges if they lie here, counters. */
#define EDGES_AT 16u

template <typename W> struct own {
    static constexpr bool unique = sizeof(W) != 1;
    typedef typename gm_counts_word<W>::type Key;
    struct gm_edge_rule rule;
    const Key *edge;
    uint32_t bins;

    __device__ __forceinline__ explicit own(const struct gm_job *job)
        : rule(gm_edge_rule(job->dtype)), edge(nullptr), bins(job->bins)
    {
    }
    __device__ __forceinline__ Key key(Key v) const
    {
        if constexpr (sizeof(W) == 1)
            return v;
        else if constexpr (sizeof(W) == 4)
            return gm_edge_key_u32(&rule, v);
        else
            return gm_edge_key_u64(&rule, v);
    }
    __device__ __forceinline__ uint32_t find(Key k) const
    {
        if constexpr (sizeof(W) == 8)
            return gm_edges_find_u64(edge, bins, k);
        else
            return gm_edges_find_u32(edge, bins, k);
    }
    __device__ __forceinline__ void at(uint32_t) {}
    __device__ __forceinline__ uint32_t cell(Key v) { return sizeof(W) == 1 ? (uint32_t)v : find(key(v)); }
    __device__ __forceinline__ uint32_t target(uint32_t i) const { return sizeof(W) == 1 ? find(i) : i; }

    /* Every edge is loaded once. False when one is not a number, or less than the one before it: then the share has
     * failed. Whole block. */
    __device__ __forceinline__ bool copy(struct gm_run *run, Key *to)
    {
        uint32_t *wrong = gm_run_scratch<uint32_t>(0);
        const W *from = gm_run_buffer<const W>(run, 1);
        if (threadIdx.x == 0)
            *wrong = 0;
        for (uint32_t i = threadIdx.x; i <= bins; i += GM_CUDA_THREADS)
            to[i] = key(gm_counts_load(from + i));
        __syncthreads();
        for (uint32_t i = threadIdx.x; i <= bins; i += GM_CUDA_THREADS)
            if (to[i] > (Key)rule.top || to[i] < to[i ? i - 1u : 0])
                atomicAdd(wrong, 1u);
        __syncthreads();
        edge = to;
        if (*wrong == 0)
            return true;
        if (threadIdx.x == 0)
            gm_run_fail(run, GM_EINVAL);
        return false;
    }
};

template <typename Key> __device__ __forceinline__ Key *workspace_edges(const struct gm_run *run)
{
    return (Key *)(run->job->workspace + gm_edges_offset(run->job, run->share));
}

/* Bytes of scratch before the counters when the edges lie there. */
template <typename W> __device__ __forceinline__ uint32_t scratch_before(const struct gm_run *run)
{
    const uint32_t edges = (run->job->bins + 1u) * (uint32_t)sizeof(typename own<W>::Key);
    return EDGES_AT + (edges + 15u) / 16u * 16u;
}

template <typename W> __device__ __noinline__ void share_shared(struct gm_run *run)
{
    own<W> rule(run->job);
    const uint32_t before = scratch_before<W>(run);
    gm_counts_shared counts(sizeof(W) == 1 ? 256u : run->job->bins, before, GM_BLOCK_SCRATCH - before,
                            gm_counts_elements(run->job, 1));
    if (rule.copy(run, gm_run_scratch<typename own<W>::Key>(EDGES_AT)))
        gm_counts_share<W>(run, counts, rule, 2, 1);
}

/* More edges than shared memory holds, and 256 counters. */
__device__ __noinline__ void share_bytes(struct gm_run *run)
{
    own<uint8_t> rule(run->job);
    gm_counts_shared counts(256u, EDGES_AT, GM_BLOCK_SCRATCH - EDGES_AT, gm_counts_elements(run->job, 1));
    if (rule.copy(run, workspace_edges<uint32_t>(run)))
        gm_counts_share<uint8_t>(run, counts, rule, 2, 1);
}

template <typename W> __device__ __noinline__ void share_global(struct gm_run *run)
{
    own<W> rule(run->job);
    gm_counts_global counts(gm_counts_sink(run, 2));
    if (rule.copy(run, workspace_edges<typename own<W>::Key>(run)))
        gm_counts_share<W>(run, counts, rule, 2, 1);
}

/* Edges and at least one copy of the counters. */
template <typename W> __device__ __forceinline__ bool fits(const struct gm_run *run, uint32_t cells)
{
    const uint32_t before = scratch_before<W>(run);
    return before < GM_BLOCK_SCRATCH && gm_counts_shared::fits(cells, GM_BLOCK_SCRATCH - before);
}

template <typename W> __device__ __forceinline__ void share_of(struct gm_run *run)
{
    if (fits<W>(run, run->job->bins))
        share_shared<W>(run);
    else
        share_global<W>(run);
}

} // namespace

__device__ void gm_op_histogram_edges_share(struct gm_run *run)
{
    switch (gm_dtype_bytes(run->job->dtype)) {
    case 1:
        if (fits<uint8_t>(run, 256u))
            share_shared<uint8_t>(run);
        else
            share_bytes(run);
        break;
    case 4:
        share_of<uint32_t>(run);
        break;
    case 8:
        share_of<uint64_t>(run);
        break;
    }
}

__device__ void gm_op_histogram_edges_finish(struct gm_run *run)
{
    gm_counts_finish(run, 2);
}
