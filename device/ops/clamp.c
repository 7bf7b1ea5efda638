/* SPDX-License-Identifier: Apache-2.0
 *
 * clamp: two comparisons an element, both false for a NaN on either side, so that its bits stay. One thread a share.
 */
#include <string.h>

#include "map.h"

#define CLAMP(name, type)                                                                                              \
    static void clamp_##name(const struct gm_run *run, uint64_t first, uint64_t count)                                 \
    {                                                                                                                  \
        const type *in = (const type *)gm_run_buffer(run, 0) + first;                                                  \
        type *out = (type *)gm_run_buffer(run, 1) + first, lower, upper;                                               \
        memcpy(&lower, &run->job->value[0], sizeof lower);                                                             \
        memcpy(&upper, &run->job->value[1], sizeof upper);                                                             \
        for (uint64_t i = 0; i < count; i++) {                                                                         \
            const type x = in[i], v = x < lower ? lower : x;                                                           \
            out[i] = v > upper ? upper : v;                                                                            \
        }                                                                                                              \
    }
CLAMP(i32, int32_t)
CLAMP(u32, uint32_t)
CLAMP(i64, int64_t)
CLAMP(u64, uint64_t)
CLAMP(f32, float)
CLAMP(f64, double)

void gm_op_clamp_share(struct gm_run *run)
{
    static gm_map_loop *const loops[GM_DTYPE_COUNT] = {
        [GM_DTYPE_i32] = clamp_i32, [GM_DTYPE_u32] = clamp_u32, [GM_DTYPE_i64] = clamp_i64,
        [GM_DTYPE_u64] = clamp_u64, [GM_DTYPE_f32] = clamp_f32, [GM_DTYPE_f64] = clamp_f64,
    };
    gm_map_share(run, loops);
}

void gm_op_clamp_finish(struct gm_run *run) { (void)run; }
