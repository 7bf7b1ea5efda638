/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram_channels on blocks: counts.cuh with equal bins (bins.h) for each channel, one channel's counters behind the
 * other's. An element's channel follows from its place in the tile, which begins with a pixel. Bytes are counted by
 * channel and value, and the rule is asked once for each at the end.
 */
#include "ops/counts_many.cuh"

static_assert(GM_COUNTS_EACH(GM_TILE_BYTES_histogram_channels / 4u * GM_CHANNELS_MAX) <= 255u, "see gm_counts_few");

namespace
{

template <typename W> struct channels_rule {
    struct gm_bins bins;
    uint32_t dtype, channels;
    uint32_t each; /* counters of one channel */
    uint32_t base; /* of the next element's channel: its first counter */

    __device__ __forceinline__ explicit channels_rule(const struct gm_run *run)
        : dtype(run->job->dtype), channels(gm_run_count2(run)), base(0)
    {
        bins = gm_counts_bins(run->job->value[0], run->job->value[1], run->job->bins / channels);
        each = sizeof(W) == 1 ? 256u : bins.last + 1u;
    }
    __device__ __forceinline__ void at(uint32_t element) { base = element % channels * each; }
    __device__ __forceinline__ uint32_t cell(typename gm_counts_word<W>::type v)
    {
        const uint32_t first = base;
        uint32_t bin;
        if constexpr (sizeof(W) == 1)
            bin = v;
        else
            bin = gm_bin_index(&bins, gm_counts_number(v, dtype));
        base = first + each == channels * each ? 0 : first + each;
        return bin < each ? first + bin : GM_BIN_NONE;
    }
    __device__ __forceinline__ uint32_t target(uint32_t i) const
    {
        if (sizeof(W) != 1)
            return i;
        const uint32_t bin = gm_bin_index(&bins, (double)(i % 256u));
        return bin <= bins.last ? i / 256u * (bins.last + 1u) + bin : GM_BIN_NONE;
    }
};

template <typename W> __device__ __noinline__ void share_few(struct gm_run *run)
{
    channels_rule<W> rule(run);
    gm_counts_few counts(run);
    gm_counts_share<W>(run, counts, rule, rule.channels);
}

template <typename W> __device__ __noinline__ void share_shared(struct gm_run *run)
{
    channels_rule<W> rule(run);
    gm_counts_shared counts(rule.channels * rule.each, 0, GM_BLOCK_SCRATCH);
    gm_counts_share<W>(run, counts, rule, rule.channels);
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

template <typename W> __device__ __forceinline__ void share_of(struct gm_run *run)
{
    if (gm_hist_many(run->job))
        gm_many_share<source<W>>(run, gm_run_count2(run), 1);
    else if (sizeof(W) != 1 && run->job->bins <= GM_COUNTS_FEW)
        share_few<W>(run);
    else
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
