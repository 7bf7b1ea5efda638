/* SPDX-License-Identifier: Apache-2.0
 *
 * stencil5: five points of a grid, times weights that are read once a tile. A tile is a piece of the flat array; it is
 * done in runs that lie in one row, so that only the ends of a run look for the ends of the row. One thread a share.
 */
#include <math.h>

#include "map.h"

/* Elements i up to end of one row. above, below: whether there is such a row. */
#define STENCIL5(name, type, product, fused, check)                                                                    \
    static inline type point_##name(const type *w, type x, type west, type east, type north, type south)               \
    {                                                                                                                  \
        const type v = fused(w[4], south, fused(w[3], north, fused(w[2], east, fused(w[1], west, product(w[0], x))))); \
        return (check);                                                                                                \
    }                                                                                                                  \
    static void run_##name(const type *w, const type *in, type *out, uint64_t i, uint64_t end, uint64_t row,           \
                           uint64_t width, uint64_t n)                                                                 \
    {                                                                                                                  \
        const bool above = row != 0, below = n - row > width;                                                          \
        for (; i < end; i++)                                                                                           \
            out[i] = point_##name(w, in[i], i != row ? in[i - 1u] : 0, i + 1u - row != width ? in[i + 1u] : 0,         \
                                  above ? in[i - width] : 0, below ? in[i + width] : 0);                               \
    }                                                                                                                  \
    static void tile_##name(const struct gm_run *run, uint64_t first, uint64_t count)                                  \
    {                                                                                                                  \
        const uint64_t width = run->job->value[0], n = run->job->n, end = first + count;                               \
        const type *in = gm_run_buffer(run, 0), *weights = gm_run_buffer(run, 1);                                      \
        const type w[5] = {weights[0], weights[1], weights[2], weights[3], weights[4]};                                \
        for (uint64_t i = first, row = first / width * width; i < end; row += width) {                                 \
            const uint64_t stop = row + width < end ? row + width : end;                                               \
            run_##name(w, in, gm_run_buffer(run, 2), i, stop, row, width, n);                                          \
            i = stop;                                                                                                  \
        }                                                                                                              \
    }
#define TIMES(w, x)      ((w) * (x))
#define PLUS(w, x, sum)  ((w) * (x) + (sum))
STENCIL5(32, uint32_t, TIMES, PLUS, v)
STENCIL5(64, uint64_t, TIMES, PLUS, v)
STENCIL5(f32, float, TIMES, fmaf, v == v ? v : NAN)
STENCIL5(f64, double, TIMES, fma, v == v ? v : (double)NAN)

void gm_op_stencil5_share(struct gm_run *run)
{
    static gm_map_loop *const loops[GM_DTYPE_COUNT] = GM_MAP_WRAPPING(tile);
    gm_map_share(run, loops);
}

void gm_op_stencil5_finish(struct gm_run *run) { (void)run; }
