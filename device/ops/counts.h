/* SPDX-License-Identifier: Apache-2.0
 *
 * What the histograms of the CPU backend share: a share's row of counters, numbers from bits, bytes counted by value,
 * and the sum of all rows. One thread a share; bounded by the job.
 */
#ifndef GM_OPS_COUNTS_H
#define GM_OPS_COUNTS_H

#include <string.h>

#include "bins.h"
#include "run.h"

/* The share's row, emptied. */
static inline uint64_t *gm_counts_row(const struct gm_run *run)
{
    const uint64_t bins = run->job->bins;
    uint64_t *row = (uint64_t *)(uintptr_t)run->job->workspace + run->share * bins;
    memset(row, 0, bins * sizeof *row);
    return row;
}

/* The rows of all shares into the last buffer; the result is how many were counted. */
static inline void gm_counts_finish(struct gm_run *run, uint32_t output)
{
    const struct gm_job *job = run->job;
    const uint64_t *rows = (const uint64_t *)(uintptr_t)job->workspace;
    uint64_t *out = gm_run_buffer(run, output), counted = 0;
    for (uint32_t bin = 0; bin < job->bins; bin++) {
        uint64_t sum = 0;
        for (uint32_t share = 0; share < job->shares; share++)
            sum += rows[(uint64_t)share * job->bins + bin];
        out[bin] = sum;
        counted += sum;
    }
    run->result = counted;
}

static inline double gm_counts_f64(uint64_t bits)
{
    double f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* An element as a number. dtype is a constant of the loop around it. */
static inline double gm_counts_number_32(uint32_t dtype, uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return dtype == GM_DTYPE_f32 ? (double)f : dtype == GM_DTYPE_i32 ? (double)(int32_t)bits : (double)bits;
}
static inline double gm_counts_number_64(uint32_t dtype, uint64_t bits)
{
    return dtype == GM_DTYPE_f64 ? gm_counts_f64(bits) : dtype == GM_DTYPE_i64 ? (double)(int64_t)bits : (double)bits;
}

/* Bytes have 256 values: they are counted by value first, channel by channel, and the rule is asked once for each at
 * the end. Several tables a channel, because equal neighbours would wait for each other: eight, or six of three
 * channels; the byte at position i of the pixels is counted in table i modulo their number, which is a multiple of the
 * channels. */
#define GM_BYTE_TABLES 8u

/* A little more than 256, so that no two tables have a value at addresses that are equal in their low 12 bits: a load
 * behind a store to such an address waits for it. */
#define GM_BYTE_TABLE_SIZE (256u + 16u)

struct gm_bytes {
    uint32_t seen[GM_BYTE_TABLES][GM_BYTE_TABLE_SIZE];
    uint64_t since; /* elements since the tables were emptied: they count to 2^32 */
};

#define GM_BYTES_FULL UINT64_C(0xf0000000)

static inline __attribute__((always_inline)) void gm_bytes_count(struct gm_bytes *b, const uint8_t *in, uint64_t count,
                                                                 uint32_t tables)
{
    const uint64_t step = 8u * (tables == 6u ? 3u : 1u);
    uint64_t i = 0;
    for (; count - i >= step; i += step)
        for (uint32_t w = 0; w < step / 8u; w++) {
            uint64_t word;
            memcpy(&word, in + i + w * 8u, sizeof word);
            for (uint32_t k = 0; k < 8u; k++)
                b->seen[(w * 8u + k) % tables][word >> 8u * k & 0xffu]++;
        }
    for (uint64_t k = 0; i + k < count; k++)
        b->seen[k % tables][in[i + k]]++;
}

/* Pixels, from the first channel of one on. False when the tables have to be emptied before the next tile. */
static inline bool gm_bytes_add(struct gm_bytes *b, const uint8_t *in, uint64_t count, uint32_t channels)
{
    if (channels == 3u)
        gm_bytes_count(b, in, count, 6u);
    else
        gm_bytes_count(b, in, count, 8u);
    b->since += count;
    return b->since < GM_BYTES_FULL;
}

/* How often a value was seen in a channel. */
static inline uint64_t gm_bytes_seen(const struct gm_bytes *b, uint32_t channels, uint32_t channel, uint32_t value)
{
    uint64_t times = 0;
    for (uint32_t t = channel; t < GM_BYTE_TABLES; t += channels)
        times += b->seen[t][value];
    return times;
}

#endif
