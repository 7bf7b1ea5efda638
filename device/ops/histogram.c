/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram: each share counts into its own row of the workspace, finish adds the rows into out. One thread a share.
 * A value is loaded once, into a register, and its bin is compared with the number of bins before it is used.
 */
#include <string.h>

#include "bins.h"
#include "run.h"

struct counter {
    struct gm_bins bins;
    uint64_t *row;
};

static void count_one(const struct counter *c, double x)
{
    const uint32_t bin = gm_bin_index(&c->bins, x);
    if (bin <= c->bins.last)
        c->row[bin]++;
}

/* 256 values have 256 bins: count values first. Four tables, because equal neighbours would wait for each other. */
static void count_u8(const struct counter *c, const uint8_t *in, uint64_t count)
{
    uint32_t seen[4][256];
    memset(seen, 0, sizeof seen);
    for (uint64_t i = 0; i < count; i++)
        seen[i & 3u][in[i]]++;
    for (uint32_t v = 0; v < 256; v++) {
        const uint32_t times = seen[0][v] + seen[1][v] + seen[2][v] + seen[3][v];
        const uint32_t bin = gm_bin_index(&c->bins, (double)v);
        if (bin <= c->bins.last)
            c->row[bin] += times;
    }
}

static double f64_of_bits32(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

static double f64_of_bits64(uint64_t bits)
{
    double f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static void count_32(const struct counter *c, uint32_t dtype, const uint32_t *in, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t v = gm_load_relaxed_u32(&in[i]);
        count_one(c, dtype == GM_DTYPE_f32 ? f64_of_bits32(v) : dtype == GM_DTYPE_i32 ? (double)(int32_t)v : (double)v);
    }
}

static void count_64(const struct counter *c, uint32_t dtype, const uint64_t *in, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t v = gm_load_relaxed_u64(&in[i]);
        count_one(c, dtype == GM_DTYPE_f64 ? f64_of_bits64(v) : dtype == GM_DTYPE_i64 ? (double)(int64_t)v : (double)v);
    }
}

void gm_op_histogram_share(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    const struct counter c = {gm_bins_make(f64_of_bits64(job->value[0]), f64_of_bits64(job->value[1]), job->bins),
                              (uint64_t *)(uintptr_t)job->workspace + (uint64_t)run->share * job->bins};
    const void *in = gm_run_buffer(run, 0);
    uint64_t tile, count;
    memset(c.row, 0, (uint64_t)job->bins * sizeof *c.row);
    while (gm_run_next_tile(run, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count);
        switch (gm_dtype_bytes(job->dtype)) {
        case 1:
            count_u8(&c, (const uint8_t *)in + first, count);
            break;
        case 4:
            count_32(&c, job->dtype, (const uint32_t *)in + first, count);
            break;
        case 8:
            count_64(&c, job->dtype, (const uint64_t *)in + first, count);
            break;
        }
    }
}

void gm_op_histogram_finish(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    const uint64_t *rows = (const uint64_t *)(uintptr_t)job->workspace;
    uint64_t *out = gm_run_buffer(run, 1), counted = 0;
    for (uint32_t bin = 0; bin < job->bins; bin++) {
        uint64_t sum = 0;
        for (uint32_t share = 0; share < job->shares; share++)
            sum += rows[(uint64_t)share * job->bins + bin];
        out[bin] = sum;
        counted += sum;
    }
    run->result = counted;
}
