/* SPDX-License-Identifier: Apache-2.0
 *
 * unique: keeps each element that does not equal the one in front of it. See select.h for the way. One thread a share.
 */
#include "select.h"

void gm_op_unique_share(struct gm_run *run)
{
    uint64_t tile;
    while (gm_run_next_tile(run, &tile)) {
        switch (run->job->dtype) {
        case GM_DTYPE_f32:
            gm_select_tile(run, tile, gm_keep_starts, false, GM_DTYPE_f32);
            break;
        case GM_DTYPE_f64:
            gm_select_tile(run, tile, gm_keep_starts, false, GM_DTYPE_f64);
            break;
        case GM_DTYPE_u8:
            gm_select_tile(run, tile, gm_keep_starts, false, GM_DTYPE_u8);
            break;
        case GM_DTYPE_i32:
        case GM_DTYPE_u32:
            gm_select_tile(run, tile, gm_keep_starts, false, GM_DTYPE_u32);
            break;
        default:
            gm_select_tile(run, tile, gm_keep_starts, false, GM_DTYPE_u64);
            break;
        }
    }
}

void gm_op_unique_finish(struct gm_run *run)
{
    gm_select_finish(run);
}
