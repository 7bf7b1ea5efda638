/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram_channels: as histogram, for pixels of a few elements; each channel has its own part of the row. Tiles are
 * counted in pixels. One thread a share. A value is loaded once, into a register, and its bin is compared with the
 * number of bins before it is used; its channel follows from its place.
 */
#include "counts_many.h"

/* ---- many bins ---- */

struct source {
    struct gm_bins bins; /* of one channel */
    const void *in;
    uint32_t dtype, channels;
};

static inline uint32_t cell_of(const struct source *s, uint64_t k, double x)
{
    const uint32_t bin = gm_bin_index(&s->bins, x);
    return bin <= s->bins.last ? (uint32_t)(k % s->channels) * (s->bins.last + 1u) + bin : GM_BIN_NONE;
}

/* first: of a pixel. */
GM_MANY_INLINE uint32_t cell_8(const void *context, uint64_t first, uint64_t k)
{
    const struct source *s = context;
    return cell_of(s, k, (double)((const uint8_t *)s->in)[first + k]);
}

GM_MANY_INLINE uint32_t cell_32(const void *context, uint64_t first, uint64_t k)
{
    const struct source *s = context;
    return cell_of(s, k, gm_counts_number_32(s->dtype, gm_load_relaxed_u32((const uint32_t *)s->in + first + k)));
}

GM_MANY_INLINE uint32_t cell_64(const void *context, uint64_t first, uint64_t k)
{
    const struct source *s = context;
    return cell_of(s, k, gm_counts_number_64(s->dtype, gm_load_relaxed_u64((const uint64_t *)s->in + first + k)));
}

static void share_many(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    const uint32_t channels = gm_run_count2(run);
    const struct source s = {
        gm_bins_make(gm_counts_f64(job->value[0]), gm_counts_f64(job->value[1]), job->bins / channels),
        gm_run_buffer(run, 0), job->dtype, channels};
    switch (gm_dtype_bytes(job->dtype)) {
    case 1:
        gm_many_share(run, cell_8, &s, channels, 1);
        break;
    case 4:
        gm_many_share(run, cell_32, &s, channels, 1);
        break;
    case 8:
        gm_many_share(run, cell_64, &s, channels, 1);
        break;
    }
}

/* ---- a row for each share ---- */

struct counter {
    struct gm_bins bins;
    uint64_t *row;
    uint32_t channels, each; /* each: bins of one channel */
};

static inline uint32_t count_one(const struct counter *c, double x, uint32_t channel)
{
    const uint32_t bin = gm_bin_index(&c->bins, x);
    if (bin <= c->bins.last)
        c->row[channel * c->each + bin]++;
    return channel + 1u == c->channels ? 0 : channel + 1u;
}

static void count_32(const struct counter *c, uint32_t dtype, const uint32_t *in, uint64_t count)
{
    uint32_t channel = 0;
    for (uint64_t i = 0; i < count; i++)
        channel = count_one(c, gm_counts_number_32(dtype, gm_load_relaxed_u32(&in[i])), channel);
}

static void count_64(const struct counter *c, uint32_t dtype, const uint64_t *in, uint64_t count)
{
    uint32_t channel = 0;
    for (uint64_t i = 0; i < count; i++)
        channel = count_one(c, gm_counts_number_64(dtype, gm_load_relaxed_u64(&in[i])), channel);
}

static void bytes_into_row(const struct counter *c, struct gm_bytes *b)
{
    for (uint32_t v = 0; v < 256; v++) {
        const uint32_t bin = gm_bin_index(&c->bins, (double)v);
        for (uint32_t channel = 0; bin <= c->bins.last && channel < c->channels; channel++)
            c->row[channel * c->each + bin] += gm_bytes_seen(b, c->channels, channel, v);
    }
    memset(b, 0, sizeof *b);
}

static void share_of_bytes(struct gm_run *run, const struct counter *c)
{
    struct gm_bytes b;
    uint64_t tile, count;
    memset(&b, 0, sizeof b);
    while (gm_run_next_tile(run, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count) * c->channels;
        if (!gm_bytes_add(&b, (const uint8_t *)gm_run_buffer(run, 0) + first, count * c->channels, c->channels))
            bytes_into_row(c, &b);
    }
    bytes_into_row(c, &b);
}

static void share_few(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    const uint32_t channels = gm_run_count2(run), each = job->bins / channels;
    const struct counter c = {gm_bins_make(gm_counts_f64(job->value[0]), gm_counts_f64(job->value[1]), each),
                              gm_counts_row(run), channels, each};
    const void *in = gm_run_buffer(run, 0);
    uint64_t tile, count;
    if (gm_dtype_bytes(job->dtype) == 1u) {
        share_of_bytes(run, &c);
        return;
    }
    while (gm_run_next_tile(run, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count) * channels;
        if (gm_dtype_bytes(job->dtype) == 4u)
            count_32(&c, job->dtype, (const uint32_t *)in + first, count * channels);
        else
            count_64(&c, job->dtype, (const uint64_t *)in + first, count * channels);
    }
}

void gm_op_histogram_channels_share(struct gm_run *run)
{
    if (gm_hist_many(run->job))
        share_many(run);
    else
        share_few(run);
}

void gm_op_histogram_channels_finish(struct gm_run *run)
{
    if (gm_hist_many(run->job))
        gm_many_finish(run);
    else
        gm_counts_finish(run, 1);
}
