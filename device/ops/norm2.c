/* SPDX-License-Identifier: Apache-2.0
 *
 * norm2: each tile's sum of squares goes to its own place in the workspace, finish adds the places in order and takes
 * the root. One thread a share. See sums.h.
 */
#include <math.h>

#include "sums.h"


/* Read once: a square of two different values may be negative. */
static inline double norm2_square(double x) { return x * x; }
SUM_FLOATS(squares_f16, uint16_t, norm2_square((double)gm_f16_float(a[i])))
SUM_FLOATS(squares_bf16, uint16_t, norm2_square((double)gm_bf16_float(a[i])))
SUM_FLOATS(squares_f32, float, norm2_square((double)a[i]))
SUM_FLOATS(squares_f64, double, norm2_square(a[i]))

void gm_op_norm2_share(struct gm_run *run)
{
    struct sum_partial *partials = (struct sum_partial *)(uintptr_t)run->job->workspace;
    const uint64_t bytes = gm_dtype_bytes(run->job->dtype);
    uint64_t tile, count;
    while (gm_run_next_tile(run, &tile)) {
        const void *in = (const uint8_t *)gm_run_buffer(run, 0) + gm_run_tile(run, tile, &count) * bytes;
        switch (run->job->dtype) {
        case GM_DTYPE_f16:
            partials[tile] = squares_f16(in, NULL, count);
            break;
        case GM_DTYPE_bf16:
            partials[tile] = squares_bf16(in, NULL, count);
            break;
        case GM_DTYPE_f32:
            partials[tile] = squares_f32(in, NULL, count);
            break;
        case GM_DTYPE_f64:
            partials[tile] = squares_f64(in, NULL, count);
            break;
        }
    }
}

void gm_op_norm2_finish(struct gm_run *run)
{
    const struct sum_partial *partials = (const struct sum_partial *)(uintptr_t)run->job->workspace;
    run->result = sum_bits(sqrt(sum_floats(partials, run->job->tiles)));
}
