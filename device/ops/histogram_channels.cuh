/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram_channels on blocks: as histogram.cuh, with equal bins for each channel, one channel's counters behind the
 * other's. An element's channel follows from its place in the tile, which begins with a pixel. Bytes are counted by
 * channel and value, and the rule is asked once for each at the end.
 */
#include "ops/counts_many.cuh"
#include "ops/counts_stream.cuh"

namespace
{

template <typename W> struct channels_rule {
    static constexpr bool unique = sizeof(W) != 1;
    struct gm_bins_fast fast; /* of bytes for the rule alone */
    const struct gm_job *job;
    uint32_t dtype, channels;
    uint32_t each; /* counters of one channel */
    uint32_t base; /* of the next element's channel: its first counter */

    __device__ __forceinline__ channels_rule(const struct gm_run *run, uint32_t a_dtype)
        : job(run->job), dtype(a_dtype), channels(gm_run_count2(run)), base(0)
    {
        each = sizeof(W) == 1 ? 256u : job->bins / channels;
    }
    __device__ __forceinline__ void prepare()
    {
        fast = gm_stream_make(0, job->value[0], job->value[1], job->bins / channels, dtype);
    }
    __device__ __forceinline__ void at(uint32_t element)
    {
        static_assert(GM_CHANNELS_MAX == 4u, "all others are powers of two");
        base = (channels == 3u ? element % 3u : element & (channels - 1u)) * each;
    }
    __device__ __forceinline__ uint32_t cell(typename gm_counts_word<W>::type v)
    {
        const uint32_t first = base;
        uint32_t bin;
        if constexpr (sizeof(W) == 1)
            bin = v;
        else
            bin = gm_stream_bin(fast, 0, dtype, v);
        base = first + each == channels * each ? 0 : first + each;
        return bin < each ? first + bin : GM_BIN_NONE;
    }
    __device__ __forceinline__ void pack(gm_counts_shared &c, uint4 v, uint32_t element)
    {
        at(element);
        gm_stream_channels first = {base, each, channels * each};
        if constexpr (sizeof(W) == 1) {
#pragma unroll
            for (uint32_t e = 0; e < 16u; e++)
                c.add_if(true, first.next() + gm_counts_pack<W>::get(v, e));
        } else {
            gm_stream_pack<W>(c, fast, dtype, v, first);
        }
    }
    __device__ __forceinline__ uint32_t target(uint32_t i) const
    {
        if (sizeof(W) != 1)
            return i;
        const uint32_t bin = gm_stream_ask(0, (double)(i % 256u));
        return bin < fast.bins ? i / 256u * fast.bins + bin : GM_BIN_NONE;
    }
};

template <typename W> __device__ __forceinline__ uint32_t cells(const struct gm_run *run)
{
    return sizeof(W) == 1 ? gm_run_count2(run) * 256u : run->job->bins;
}
static_assert(GM_CHANNELS_MAX * 256u * 4u << GM_COUNTS_APART <= GM_STREAM_ROOM, "bytes are always apart");

/* dtype: a constant, or 0 for the job's. */
template <typename W, uint32_t dtype> __device__ __noinline__ void share_stream(struct gm_run *run)
{
    channels_rule<W> rule(run, dtype != 0 ? dtype : run->job->dtype);
    gm_counts_shared counts(cells<W>(run), 0, GM_STREAM_ROOM, gm_counts_elements(run->job, rule.channels));
    gm_stream_tiles<W, GM_TILE_BYTES_histogram_channels * GM_CHANNELS_MAX>(run, counts, rule, 1, rule.channels);
}

/* More counters: lanes that meet are joined. */
template <typename W> __device__ __noinline__ void share_shared(struct gm_run *run)
{
    channels_rule<W> rule(run, run->job->dtype);
    gm_counts_shared counts(run->job->bins, 0, GM_STREAM_ROOM, gm_counts_elements(run->job, rule.channels));
    rule.prepare();
    gm_counts_share<W>(run, counts, rule, 1, rule.channels);
}

template <typename W> struct source {
    struct gm_bins bins; /* of one channel */
    const W *in;
    uint32_t dtype, channels;

    __device__ __forceinline__ explicit source(const struct gm_run *run)
        : in(gm_run_buffer<const W>(run, 0)), dtype(run->job->dtype), channels(gm_run_count2(run))
    {
        bins = gm_counts_bins(run->job->value[0], run->job->value[1], run->job->bins / channels);
    }
    /* first: of a pixel. */
    __device__ __forceinline__ uint32_t cell(uint64_t first, uint32_t k) const
    {
        const uint32_t bin = gm_bin_index(&bins, gm_counts_number(gm_counts_load(in + first + k), dtype));
        return bin <= bins.last ? k % channels * (bins.last + 1u) + bin : GM_BIN_NONE;
    }
};

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
        gm_many_share<source<W>>(run, gm_run_count2(run), 1);
    else if (sizeof(W) == 1 || gm_counts_shared::fits_apart(run->job->bins, GM_STREAM_ROOM))
        share_of_stream<W>(run);
    else if constexpr (sizeof(W) != 1)
        share_shared<W>(run);
}

} // namespace

__device__ void gm_op_histogram_channels_share(struct gm_run *run)
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

__device__ void gm_op_histogram_channels_finish(struct gm_run *run)
{
    if (gm_hist_many(run->job))
        gm_many_finish(run);
    else
        gm_counts_finish(run, 1);
}
