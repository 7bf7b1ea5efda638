/* SPDX-License-Identifier: Apache-2.0
 *
 * axpby: alpha times one input plus beta times the other. One thread a share. Floats are rounded twice: beta * y, then
 * the rest by one fused multiply-add; a NaN gets the bits of the quiet one without payload, as on every backend.
 */
#include <math.h>
#include <string.h>

#include "map.h"

#define AXPBY_INTEGER(name, type)                                                                                      \
    static void axpby_##name(const struct gm_run *run, uint64_t first, uint64_t count)                                 \
    {                                                                                                                  \
        const type *x = (const type *)gm_run_buffer(run, 0) + first, *y = (const type *)gm_run_buffer(run, 1) + first; \
        const type alpha = (type)run->job->value[0], beta = (type)run->job->value[1];                                  \
        type *out = (type *)gm_run_buffer(run, 2) + first;                                                             \
        for (uint64_t i = 0; i < count; i++)                                                                           \
            out[i] = alpha * x[i] + beta * y[i];                                                                       \
    }
AXPBY_INTEGER(32, uint32_t)
AXPBY_INTEGER(64, uint64_t)

#define AXPBY_FLOAT(name, type, fused, quiet)                                                                          \
    static void axpby_##name(const struct gm_run *run, uint64_t first, uint64_t count)                                 \
    {                                                                                                                  \
        const type *x = (const type *)gm_run_buffer(run, 0) + first, *y = (const type *)gm_run_buffer(run, 1) + first; \
        type *out = (type *)gm_run_buffer(run, 2) + first, alpha, beta;                                                \
        memcpy(&alpha, &run->job->value[0], sizeof alpha);                                                             \
        memcpy(&beta, &run->job->value[1], sizeof beta);                                                               \
        for (uint64_t i = 0; i < count; i++) {                                                                         \
            const type v = fused(alpha, x[i], beta * y[i]);                                                            \
            out[i] = v == v ? v : quiet;                                                                               \
        }                                                                                                              \
    }
AXPBY_FLOAT(f32, float, fmaf, NAN)
AXPBY_FLOAT(f64, double, fma, (double)NAN)

void gm_op_axpby_share(struct gm_run *run)
{
    static gm_map_loop *const loops[GM_DTYPE_COUNT] = GM_MAP_WRAPPING(axpby);
    gm_map_share(run, loops);
}

void gm_op_axpby_finish(struct gm_run *run) { (void)run; }
