/* SPDX-License-Identifier: Apache-2.0
 *
 * The way of maps on the CPU: a loop over a tile for each type. One thread a share.
 */
#ifndef GM_OPS_MAP_H
#define GM_OPS_MAP_H

#include "run.h"

typedef void gm_map_loop(const struct gm_run *run, uint64_t first, uint64_t count);

/* loops: by the job's type, of all that the op has. */
static inline void gm_map_share(struct gm_run *run, gm_map_loop *const loops[GM_DTYPE_COUNT])
{
    gm_map_loop *const loop = loops[run->job->dtype];
    uint64_t tile, count;
    while (gm_run_next_tile(run, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count);
        loop(run, first, count);
    }
}

/* Where sums and products of integers wrap, both of a width are alike. */
#define GM_MAP_WRAPPING(name)                                                                                          \
    {                                                                                                                  \
        [GM_DTYPE_i32] = name##_32, [GM_DTYPE_u32] = name##_32, [GM_DTYPE_i64] = name##_64,                            \
        [GM_DTYPE_u64] = name##_64, [GM_DTYPE_f32] = name##_f32, [GM_DTYPE_f64] = name##_f64,                          \
    }

#endif
