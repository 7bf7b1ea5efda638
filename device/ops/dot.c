/* SPDX-License-Identifier: Apache-2.0
 *
 * dot: each tile's sum of products goes to its own place in the workspace, finish adds the places in order. One thread
 * a share. Products of integers are exact in 64 bits; so are those of floats in f64, but for f64 itself. See sums.h.
 */
#include "sums.h"

/* Halves of 32 bits in sums of 64, as in sum.c; a product of signed factors is moved by bias = 2^63. */
static struct sum_partial dot_of_i32(const void *in, const void *in2, uint64_t count)
{
    const int32_t *a = in, *b = in2;
    const uint64_t bias = UINT64_C(1) << 63;
    uint64_t low = 0, high = 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t product = (uint64_t)((int64_t)a[i] * b[i]) ^ bias;
        low += product & 0xffffffffu;
        high += product >> 32;
    }
    return sum_split(((sum_wide)high << 32) + low - (sum_wide)bias * count);
}

static struct sum_partial dot_of_u32(const void *in, const void *in2, uint64_t count)
{
    const uint32_t *a = in, *b = in2;
    uint64_t low = 0, high = 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t product = (uint64_t)a[i] * b[i];
        low += product & 0xffffffffu;
        high += product >> 32;
    }
    return sum_split(((sum_wide)high << 32) + low);
}

SUM_FLOATS(dot_of_f16, uint16_t, (double)gm_f16_float(a[i]) * (double)gm_f16_float(b[i]))
SUM_FLOATS(dot_of_bf16, uint16_t, (double)gm_bf16_float(a[i]) * (double)gm_bf16_float(b[i]))
SUM_FLOATS(dot_of_f32, float, (double)a[i] * (double)b[i])
SUM_FLOATS(dot_of_f64, double, a[i] * b[i])

void gm_op_dot_share(struct gm_run *run)
{
    struct sum_partial *partials = (struct sum_partial *)(uintptr_t)run->job->workspace;
    const uint64_t bytes = gm_dtype_bytes(run->job->dtype);
    uint64_t tile, count;
    while (gm_run_next_tile(run, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count) * bytes;
        const void *a = (const uint8_t *)gm_run_buffer(run, 0) + first;
        const void *b = (const uint8_t *)gm_run_buffer(run, 1) + first;
        switch (run->job->dtype) {
        case GM_DTYPE_i32:
            partials[tile] = dot_of_i32(a, b, count);
            break;
        case GM_DTYPE_u32:
            partials[tile] = dot_of_u32(a, b, count);
            break;
        case GM_DTYPE_f16:
            partials[tile] = dot_of_f16(a, b, count);
            break;
        case GM_DTYPE_bf16:
            partials[tile] = dot_of_bf16(a, b, count);
            break;
        case GM_DTYPE_f32:
            partials[tile] = dot_of_f32(a, b, count);
            break;
        case GM_DTYPE_f64:
            partials[tile] = dot_of_f64(a, b, count);
            break;
        }
    }
}

void gm_op_dot_finish(struct gm_run *run) { sum_finish(run); }
