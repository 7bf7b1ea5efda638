/* SPDX-License-Identifier: Apache-2.0
 *
 * sum: each tile's sum goes to its own place in the workspace, finish adds the places in order. One thread a share.
 * See sums.h.
 */
#include "sums.h"

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
        const uint64_t v = in[i] ^ bias;
        low += v & 0xffffffffu;
        high += v >> 32;
    }
    return sum_split(((sum_wide)high << 32) + low - (sum_wide)bias * count);
}

SUM_FLOATS(sum_of_f16, uint16_t, (double)gm_f16_float(a[i]))
SUM_FLOATS(sum_of_bf16, uint16_t, (double)gm_bf16_float(a[i]))
SUM_FLOATS(sum_of_f32, float, (double)a[i])
SUM_FLOATS(sum_of_f64, double, a[i])

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
        case GM_DTYPE_f16:
            partials[tile] = sum_of_f16(in, NULL, count);
            break;
        case GM_DTYPE_bf16:
            partials[tile] = sum_of_bf16(in, NULL, count);
            break;
        case GM_DTYPE_f32:
            partials[tile] = sum_of_f32(in, NULL, count);
            break;
        case GM_DTYPE_f64:
            partials[tile] = sum_of_f64(in, NULL, count);
            break;
        }
    }
}

void gm_op_sum_finish(struct gm_run *run) { sum_finish(run); }
