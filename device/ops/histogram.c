/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram: each share counts into its own row of the workspace, finish adds the rows into out; many bins have one row
 * for all (counts_many.h). One thread a share.
 * A value is loaded once, into a register, and its bin is compared with the number of bins before it is used.
 */
#include "counts_many.h"

/* ---- many bins ---- */

struct source {
    struct gm_bins bins;
    const void *in;
    uint32_t dtype;
};

GM_MANY_INLINE uint32_t cell_8(const void *context, uint64_t first, uint64_t k)
{
    const struct source *s = context;
    return gm_bin_index(&s->bins, (double)((const uint8_t *)s->in)[first + k]);
}

GM_MANY_INLINE uint32_t cell_32(const void *context, uint64_t first, uint64_t k)
{
    const struct source *s = context;
    const uint32_t bits = gm_load_relaxed_u32((const uint32_t *)s->in + first + k);
    return gm_bin_index(&s->bins, gm_counts_number_32(s->dtype, bits));
}

GM_MANY_INLINE uint32_t cell_64(const void *context, uint64_t first, uint64_t k)
{
    const struct source *s = context;
    const uint64_t bits = gm_load_relaxed_u64((const uint64_t *)s->in + first + k);
    return gm_bin_index(&s->bins, gm_counts_number_64(s->dtype, bits));
}

static void share_many(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    const struct source s = {gm_bins_make(gm_counts_f64(job->value[0]), gm_counts_f64(job->value[1]), job->bins),
                             gm_run_buffer(run, 0), job->dtype};
    switch (gm_dtype_bytes(job->dtype)) {
    case 1:
        gm_many_share(run, cell_8, &s, 1, 1);
        break;
    case 4:
        gm_many_share(run, cell_32, &s, 1, 1);
        break;
    case 8:
        gm_many_share(run, cell_64, &s, 1, 1);
        break;
    }
}

/* ---- a row for each share ---- */

struct counter {
    struct gm_bins bins;
    uint64_t *row;
};

static inline void count_one(const struct counter *c, double x)
{
    const uint32_t bin = gm_bin_index(&c->bins, x);
    if (bin <= c->bins.last)
        c->row[bin]++;
}

static void count_32(const struct counter *c, uint32_t dtype, const uint32_t *in, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        count_one(c, gm_counts_number_32(dtype, gm_load_relaxed_u32(&in[i])));
}

static void count_64(const struct counter *c, uint32_t dtype, const uint64_t *in, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        count_one(c, gm_counts_number_64(dtype, gm_load_relaxed_u64(&in[i])));
}

static void bytes_into_row(const struct counter *c, struct gm_bytes *b)
{
    for (uint32_t v = 0; v < 256; v++) {
        const uint32_t bin = gm_bin_index(&c->bins, (double)v);
        if (bin <= c->bins.last)
            c->row[bin] += gm_bytes_seen(b, 1, 0, v);
    }
    memset(b, 0, sizeof *b);
}

static void share_of_bytes(struct gm_run *run, const struct counter *c)
{
    struct gm_bytes b;
    uint64_t tile, count;
    memset(&b, 0, sizeof b);
    while (gm_run_next_tile(run, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count);
        if (!gm_bytes_add(&b, (const uint8_t *)gm_run_buffer(run, 0) + first, count, 1))
            bytes_into_row(c, &b);
    }
    bytes_into_row(c, &b);
}

static void share_few(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    const struct counter c = {gm_bins_make(gm_counts_f64(job->value[0]), gm_counts_f64(job->value[1]), job->bins),
                              gm_counts_row(run)};
    const void *in = gm_run_buffer(run, 0);
    uint64_t tile, count;
    if (gm_dtype_bytes(job->dtype) == 1u) {
        share_of_bytes(run, &c);
        return;
    }
    while (gm_run_next_tile(run, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count);
        if (gm_dtype_bytes(job->dtype) == 4u)
            count_32(&c, job->dtype, (const uint32_t *)in + first, count);
        else
            count_64(&c, job->dtype, (const uint64_t *)in + first, count);
    }
}

void gm_op_histogram_share(struct gm_run *run)
{
    if (gm_hist_many(run->job))
        share_many(run);
    else
        share_few(run);
}

void gm_op_histogram_finish(struct gm_run *run)
{
    if (gm_hist_many(run->job))
        gm_many_finish(run);
    else
        gm_counts_finish(run, 1);
}
