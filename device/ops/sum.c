/* SPDX-License-Identifier: Apache-2.0
 *
 * sum: each tile's sum goes to its own place in the workspace, finish adds the places in order. One thread a share.
 * Integers are exact in 128 bits and must fit 64 in the end; floats are added in f64 in a fixed number of chains, so
 * the order depends on n alone.
 */
#include <string.h>

#include "run.h"
#include "core/plan.h"

#define SUM_CHAINS 8u

/* What a tile leaves: an f64, a 64-bit integer, or a 128-bit one in two's complement. */
struct sum_partial {
    uint64_t low, high;
};
static_assert(sizeof(struct sum_partial) == GM_PARTIAL_BYTES, "plan.h reserves this much a tile");

typedef unsigned __int128 sum_wide;

static struct sum_partial sum_split(sum_wide v) { return (struct sum_partial){(uint64_t)v, (uint64_t)(v >> 64)}; }

static struct sum_partial sum_of_i32(const void *data, uint64_t count)
{
    const int32_t *in = data;
    int64_t sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += in[i];
    return sum_split((sum_wide)(__int128)sum);
}

static struct sum_partial sum_of_u32(const void *data, uint64_t count)
{
    const uint32_t *in = data;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += in[i];
    return sum_split(sum);
}

/* Halves of 32 bits in sums of 64, which a tile of fewer than 2^32 elements cannot overflow. A signed element is moved
 * by bias = 2^63 into the unsigned range, and the sum back by count times that. */
static struct sum_partial sum_of_64(const void *data, uint64_t count, uint64_t bias)
{
    const uint64_t *in = data;
    uint64_t low = 0, high = 0;
    for (uint64_t i = 0; i < count; i++) {
        low += (in[i] ^ bias) & 0xffffffffu;
        high += (in[i] ^ bias) >> 32;
    }
    return sum_split(((sum_wide)high << 32) + low - (sum_wide)bias * count);
}

static struct sum_partial sum_of_chains(const double *s)
{
    const double sum = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
    struct sum_partial p = {0, 0};
    memcpy(&p.low, &sum, sizeof sum);
    return p;
}

static struct sum_partial sum_of_f32(const void *data, uint64_t count)
{
    const float *in = data;
    double s[SUM_CHAINS] = {0};
    uint64_t i = 0;
    for (; i + SUM_CHAINS <= count; i += SUM_CHAINS)
        for (uint32_t k = 0; k < SUM_CHAINS; k++)
            s[k] += (double)in[i + k];
    for (uint32_t k = 0; i < count; i++, k++)
        s[k] += (double)in[i];
    return sum_of_chains(s);
}

static struct sum_partial sum_of_f64(const void *data, uint64_t count)
{
    const double *in = data;
    double s[SUM_CHAINS] = {0};
    uint64_t i = 0;
    for (; i + SUM_CHAINS <= count; i += SUM_CHAINS)
        for (uint32_t k = 0; k < SUM_CHAINS; k++)
            s[k] += in[i + k];
    for (uint32_t k = 0; i < count; i++, k++)
        s[k] += in[i];
    return sum_of_chains(s);
}

void gm_op_sum_share(struct gm_run *run)
{
    struct sum_partial *partials = (struct sum_partial *)(uintptr_t)run->job->workspace;
    const uint64_t bytes = gm_dtype_bytes(run->job->dtype);
    uint64_t tile, count;
    while (gm_run_next_tile(run, &tile)) {
        const void *in = (const uint8_t *)gm_run_buffer(run, 0) + gm_run_tile(run, tile, &count) * bytes;
        switch (run->job->dtype) {
        case GM_DTYPE_i32:
            partials[tile] = sum_of_i32(in, count);
            break;
        case GM_DTYPE_u32:
            partials[tile] = sum_of_u32(in, count);
            break;
        case GM_DTYPE_i64:
            partials[tile] = sum_of_64(in, count, UINT64_C(1) << 63);
            break;
        case GM_DTYPE_u64:
            partials[tile] = sum_of_64(in, count, 0);
            break;
        case GM_DTYPE_f32:
            partials[tile] = sum_of_f32(in, count);
            break;
        case GM_DTYPE_f64:
            partials[tile] = sum_of_f64(in, count);
            break;
        }
    }
}

static uint64_t sum_floats(const struct sum_partial *partials, uint64_t tiles)
{
    double sum = 0;
    for (uint64_t t = 0; t < tiles; t++) {
        double v;
        memcpy(&v, &partials[t].low, sizeof v);
        sum += v;
    }
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    return sum == sum ? bits : UINT64_C(0x7ff8000000000000); /* which NaN would depend on the order of operands */
}

void gm_op_sum_finish(struct gm_run *run)
{
    const struct sum_partial *partials = (const struct sum_partial *)(uintptr_t)run->job->workspace;
    const char kind = gm_dtype_kind(run->job->dtype);
    if (kind == 'f') {
        run->result = sum_floats(partials, run->job->tiles);
        return;
    }
    sum_wide sum = 0;
    for (uint64_t t = 0; t < run->job->tiles; t++)
        sum += (sum_wide)partials[t].high << 64 | partials[t].low;
    const uint64_t low = (uint64_t)sum, high = (uint64_t)(sum >> 64);
    if (high != (kind == 'i' && low >> 63 ? UINT64_MAX : 0))
        run->status = GM_EOVERFLOW;
    run->result = low;
}
