/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram on blocks: counts.cuh, and of many bins counts_many.cuh, with equal bins (bins.h). Bytes are counted by
 * value, and the rule is asked once for each value at the end, if there are not many bins.
 */
#include "ops/counts_many.cuh"

namespace
{

template <typename W> struct even {
    struct gm_bins bins;
    uint32_t dtype;

    __device__ __forceinline__ explicit even(const struct gm_job *job)
        : bins(gm_counts_bins(job->value[0], job->value[1], job->bins)), dtype(job->dtype)
    {
    }
    __device__ __forceinline__ void at(uint32_t) {}
    __device__ __forceinline__ uint32_t cell(typename gm_counts_word<W>::type v)
    {
        if constexpr (sizeof(W) == 1)
            return v;
        else
            return gm_bin_index(&bins, gm_counts_number(v, dtype));
    }
    __device__ __forceinline__ uint32_t target(uint32_t i) const
    {
        return sizeof(W) == 1 ? gm_bin_index(&bins, (double)i) : i;
    }
};

template <typename W> __device__ __noinline__ void share_few(struct gm_run *run)
{
    even<W> rule(run->job);
    gm_counts_few counts(run);
    gm_counts_share<W>(run, counts, rule, 1);
}

template <typename W> __device__ __noinline__ void share_shared(struct gm_run *run)
{
    even<W> rule(run->job);
    gm_counts_shared counts(sizeof(W) == 1 ? 256u : run->job->bins, 0, GM_BLOCK_SCRATCH);
    gm_counts_share<W>(run, counts, rule, 1);
}

template <typename W> struct source {
    struct gm_bins bins;
    const W *in;
    uint32_t dtype;

    __device__ __forceinline__ explicit source(const struct gm_run *run)
        : bins(gm_counts_bins(run->job->value[0], run->job->value[1], run->job->bins)),
          in(gm_run_buffer<const W>(run, 0)), dtype(run->job->dtype)
    {
    }
    __device__ __forceinline__ uint32_t cell(uint64_t first, uint32_t k) const
    {
        return gm_bin_index(&bins, gm_counts_number(gm_counts_load(in + first + k), dtype));
    }
};

template <typename W> __device__ __forceinline__ void share_many(struct gm_run *run)
{
    if constexpr (sizeof(W) == 1)
        gm_many_share<source<W>>(run, 1u, 1);
    else
        gm_many_share_sorted<source<W>>(run, 1);
}

template <typename W> __device__ __forceinline__ void share_of(struct gm_run *run)
{
    if (gm_hist_many(run->job))
        share_many<W>(run);
    else if (sizeof(W) != 1 && run->job->bins <= GM_COUNTS_FEW)
        share_few<W>(run);
    else
        share_shared<W>(run);
}

} // namespace

__device__ void gm_op_histogram_share(struct gm_run *run)
{
    switch (gm_dtype_bytes(run->job->dtype)) {
    case 1:
        share_of<uint8_t>(run);
        break;
    case 4:
        share_of<uint32_t>(run);
        break;
    case 8:
        share_of<uint64_t>(run);
        break;
    }
}

__device__ void gm_op_histogram_finish(struct gm_run *run)
{
    if (gm_hist_many(run->job))
        gm_many_finish(run);
    else
        gm_counts_finish(run, 1);
}
