/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram on blocks: counts_stream.cuh, counts.cuh and of many bins counts_many.cuh, with equal bins (bins.h). Bytes
 * are counted by value, and the rule is asked once for each value at the end, if there are not many bins.
 */
#include "ops/counts_many.cuh"
#include "ops/counts_stream.cuh"

namespace
{

template <typename W> struct even {
    static constexpr bool unique = sizeof(W) != 1;
    struct gm_bins_fast fast; /* of bytes for the rule alone */
    const struct gm_job *job;
    uint32_t dtype;

    __device__ __forceinline__ even(const struct gm_job *a_job, uint32_t a_dtype) : job(a_job), dtype(a_dtype) {}
    __device__ __forceinline__ void prepare()
    {
        fast = gm_stream_make(0, job->value[0], job->value[1], job->bins, dtype);
    }
    __device__ __forceinline__ void at(uint32_t) {}
    __device__ __forceinline__ uint32_t cell(typename gm_counts_word<W>::type v)
    {
        if constexpr (sizeof(W) == 1)
            return v;
        else
            return gm_stream_bin(fast, 0, dtype, v);
    }
    __device__ __forceinline__ void pack(gm_counts_shared &c, uint4 v, uint32_t)
    {
        if constexpr (sizeof(W) == 1) {
#pragma unroll
            for (uint32_t e = 0; e < 16u; e++)
                c.add_if(true, gm_counts_pack<W>::get(v, e)); /* all 256 are there */
        } else {
            gm_stream_pack<W>(c, fast, dtype, v, gm_stream_one());
        }
    }
    __device__ __forceinline__ uint32_t target(uint32_t i) const
    {
        return sizeof(W) == 1 ? gm_stream_ask(0, (double)i) : i;
    }
};

template <typename W> __device__ __forceinline__ uint32_t cells(const struct gm_job *job)
{
    return sizeof(W) == 1 ? 256u : job->bins;
}

/* dtype: a constant, or 0 for the job's. */
template <typename W, uint32_t dtype> __device__ __noinline__ void share_stream(struct gm_run *run)
{
    even<W> rule(run->job, dtype != 0 ? dtype : run->job->dtype);
    gm_counts_shared counts(cells<W>(run->job), 0, GM_STREAM_ROOM, gm_counts_elements(run->job, 1));
    gm_stream_tiles<W, GM_TILE_BYTES_histogram>(run, counts, rule, 1, 1);
}

/* More counters: lanes that meet are joined. */
template <typename W> __device__ __noinline__ void share_shared(struct gm_run *run)
{
    even<W> rule(run->job, run->job->dtype);
    gm_counts_shared counts(run->job->bins, 0, GM_STREAM_ROOM, gm_counts_elements(run->job, 1));
    rule.prepare();
    gm_counts_share<W>(run, counts, rule, 1, 1);
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

template <typename W> __device__ __forceinline__ void share_of_stream(struct gm_run *run)
{
    if (sizeof(W) == 4 && run->job->dtype == GM_DTYPE_f32)
        share_stream<uint32_t, GM_DTYPE_f32>(run);
    else
        share_stream<W, 0>(run);
}

template <typename W> __device__ __forceinline__ void share_of(struct gm_run *run)
{
    if (gm_hist_many(run->job))
        share_many<W>(run);
    else if (sizeof(W) == 1 || gm_counts_shared::fits_apart(run->job->bins, GM_STREAM_ROOM))
        share_of_stream<W>(run);
    else if constexpr (sizeof(W) != 1)
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
