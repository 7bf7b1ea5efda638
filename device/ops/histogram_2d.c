/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram_2d: as histogram, for pairs of values. One thread a share. Each value is loaded once, into a register, and
 * both bins are compared with their numbers before they are used. What bytes fall into is looked up.
 */
#include "counts_many.h"

/* ---- many bins ---- */

struct source {
    struct gm_bins x, y;
    const void *in_x, *in_y;
    uint32_t dtype;
};

static inline uint32_t cell_of(const struct source *s, uint32_t bin_x, uint32_t bin_y)
{
    return bin_x <= s->x.last && bin_y <= s->y.last ? bin_x * (s->y.last + 1u) + bin_y : GM_BIN_NONE;
}

GM_MANY_INLINE uint32_t cell_8(const void *context, uint64_t first, uint64_t k)
{
    const struct source *s = context;
    return cell_of(s, gm_bin_index(&s->x, (double)((const uint8_t *)s->in_x)[first + k]),
                   gm_bin_index(&s->y, (double)((const uint8_t *)s->in_y)[first + k]));
}

GM_MANY_INLINE uint32_t cell_32(const void *context, uint64_t first, uint64_t k)
{
    const struct source *s = context;
    const uint32_t x = gm_load_relaxed_u32((const uint32_t *)s->in_x + first + k);
    const uint32_t y = gm_load_relaxed_u32((const uint32_t *)s->in_y + first + k);
    return cell_of(s, gm_bin_index(&s->x, gm_counts_number_32(s->dtype, x)),
                   gm_bin_index(&s->y, gm_counts_number_32(s->dtype, y)));
}

GM_MANY_INLINE uint32_t cell_64(const void *context, uint64_t first, uint64_t k)
{
    const struct source *s = context;
    const uint64_t x = gm_load_relaxed_u64((const uint64_t *)s->in_x + first + k);
    const uint64_t y = gm_load_relaxed_u64((const uint64_t *)s->in_y + first + k);
    return cell_of(s, gm_bin_index(&s->x, gm_counts_number_64(s->dtype, x)),
                   gm_bin_index(&s->y, gm_counts_number_64(s->dtype, y)));
}

static void share_many(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    const uint32_t bins_y = gm_run_count2(run), bins_x = job->bins / bins_y;
    const struct source s = {gm_bins_make(gm_counts_f64(job->value[0]), gm_counts_f64(job->value[1]), bins_x),
                             gm_bins_make(gm_counts_f64(gm_run_value2(run)), gm_counts_f64(gm_run_value3(run)), bins_y),
                             gm_run_buffer(run, 0), gm_run_buffer(run, 1), job->dtype};
    switch (gm_dtype_bytes(job->dtype)) {
    case 1:
        gm_many_share(run, cell_8, &s, 1, 2);
        break;
    case 4:
        gm_many_share(run, cell_32, &s, 1, 2);
        break;
    case 8:
        gm_many_share(run, cell_64, &s, 1, 2);
        break;
    }
}

/* ---- a row for each share ---- */

struct counter {
    struct gm_bins x, y;
    uint64_t *row;
    uint32_t bins_y;
};

static inline void count_cell(const struct counter *c, uint32_t bin_x, uint32_t bin_y)
{
    if (bin_x <= c->x.last && bin_y <= c->y.last)
        c->row[bin_x * c->bins_y + bin_y]++;
}

static void count_8(const struct counter *c, const uint8_t *x, const uint8_t *y, uint64_t count)
{
    uint32_t bin_x[256], bin_y[256];
    for (uint32_t v = 0; v < 256; v++) {
        bin_x[v] = gm_bin_index(&c->x, (double)v);
        bin_y[v] = gm_bin_index(&c->y, (double)v);
    }
    for (uint64_t i = 0; i < count; i++)
        count_cell(c, bin_x[x[i]], bin_y[y[i]]);
}

static void count_32(const struct counter *c, uint32_t dtype, const uint32_t *x, const uint32_t *y, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        count_cell(c, gm_bin_index(&c->x, gm_counts_number_32(dtype, gm_load_relaxed_u32(&x[i]))),
                   gm_bin_index(&c->y, gm_counts_number_32(dtype, gm_load_relaxed_u32(&y[i]))));
}

static void count_64(const struct counter *c, uint32_t dtype, const uint64_t *x, const uint64_t *y, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        count_cell(c, gm_bin_index(&c->x, gm_counts_number_64(dtype, gm_load_relaxed_u64(&x[i]))),
                   gm_bin_index(&c->y, gm_counts_number_64(dtype, gm_load_relaxed_u64(&y[i]))));
}

static void share_few(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    const uint32_t bins_y = gm_run_count2(run), bins_x = job->bins / bins_y;
    const struct counter c = {
        gm_bins_make(gm_counts_f64(job->value[0]), gm_counts_f64(job->value[1]), bins_x),
        gm_bins_make(gm_counts_f64(gm_run_value2(run)), gm_counts_f64(gm_run_value3(run)), bins_y), gm_counts_row(run),
        bins_y};
    const void *x = gm_run_buffer(run, 0), *y = gm_run_buffer(run, 1);
    uint64_t tile, count;
    while (gm_run_next_tile(run, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count);
        switch (gm_dtype_bytes(job->dtype)) {
        case 1:
            count_8(&c, (const uint8_t *)x + first, (const uint8_t *)y + first, count);
            break;
        case 4:
            count_32(&c, job->dtype, (const uint32_t *)x + first, (const uint32_t *)y + first, count);
            break;
        case 8:
            count_64(&c, job->dtype, (const uint64_t *)x + first, (const uint64_t *)y + first, count);
            break;
        }
    }
}

void gm_op_histogram_2d_share(struct gm_run *run)
{
    if (gm_hist_many(run->job))
        share_many(run);
    else
        share_few(run);
}

void gm_op_histogram_2d_finish(struct gm_run *run)
{
    if (gm_hist_many(run->job))
        gm_many_finish(run);
    else
        gm_counts_finish(run, 2);
}
