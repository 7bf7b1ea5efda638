/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram_edges: each share copies the edges once, into its own part of the workspace behind the rows, and looks at
 * their order on the way; it counts by this copy into its own row. One thread a share. The client's edges are not read
 * again, a value is loaded once, and its bin is compared with the number of bins before it is used.
 */
#include "counts.h"
#include "edges.h"

struct counter {
    struct gm_edge_rule rule;
    uint64_t *row;
    void *edge; /* bins + 1 keys */
    uint32_t bins, dtype;
};

static inline void count_bin(const struct counter *c, uint32_t bin, uint64_t times)
{
    if (bin < c->bins)
        c->row[bin] += times;
}

/* An edge of the client's as a key, by one load. */
static inline uint64_t load_edge(const struct counter *c, const void *from, uint32_t i)
{
    switch (gm_dtype_bytes(c->dtype)) {
    case 1:
        return ((const uint8_t *)from)[i];
    case 4:
        return gm_edge_key_u32(&c->rule, gm_load_relaxed_u32((const uint32_t *)from + i));
    default:
        return gm_edge_key_u64(&c->rule, gm_load_relaxed_u64((const uint64_t *)from + i));
    }
}

/* False when an edge is not a number, or less than the one before it. */
static bool copy_edges(const struct counter *c, const void *from)
{
    const bool wide = gm_dtype_bytes(c->dtype) == 8u;
    uint64_t before = 0;
    bool right = true;
    for (uint32_t i = 0; i <= c->bins; i++) {
        const uint64_t key = load_edge(c, from, i);
        if (wide)
            ((uint64_t *)c->edge)[i] = key;
        else
            ((uint32_t *)c->edge)[i] = (uint32_t)key;
        right = right && key >= before && key <= c->rule.top;
        before = key;
    }
    return right;
}

static void count_32(const struct counter *c, const uint32_t *in, uint64_t count)
{
    const uint32_t *edge = c->edge;
    for (uint64_t i = 0; i < count; i++)
        count_bin(c, gm_edges_find_u32(edge, c->bins, gm_edge_key_u32(&c->rule, gm_load_relaxed_u32(&in[i]))), 1);
}

static void count_64(const struct counter *c, const uint64_t *in, uint64_t count)
{
    const uint64_t *edge = c->edge;
    for (uint64_t i = 0; i < count; i++)
        count_bin(c, gm_edges_find_u64(edge, c->bins, gm_edge_key_u64(&c->rule, gm_load_relaxed_u64(&in[i]))), 1);
}

static void bytes_into_row(const struct counter *c, struct gm_bytes *b)
{
    for (uint32_t v = 0; v < 256; v++)
        count_bin(c, gm_edges_find_u32(c->edge, c->bins, v), gm_bytes_seen(b, 1, 0, v));
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

void gm_op_histogram_edges_share(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    const struct counter c = {gm_edge_rule(job->dtype), gm_counts_row(run),
                              (uint8_t *)(uintptr_t)job->workspace + gm_edges_offset(job, run->share), job->bins,
                              job->dtype};
    const void *in = gm_run_buffer(run, 0);
    uint64_t tile, count;
    if (!copy_edges(&c, gm_run_buffer(run, 1))) {
        gm_run_fail(run, GM_EINVAL);
        return;
    }
    if (gm_dtype_bytes(job->dtype) == 1u) {
        share_of_bytes(run, &c);
        return;
    }
    while (gm_run_next_tile(run, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count);
        if (gm_dtype_bytes(job->dtype) == 4u)
            count_32(&c, (const uint32_t *)in + first, count);
        else
            count_64(&c, (const uint64_t *)in + first, count);
    }
}

void gm_op_histogram_edges_finish(struct gm_run *run)
{
    gm_counts_finish(run, 2);
}
