/* SPDX-License-Identifier: Apache-2.0
 *
 * partition: the elements that compare as asked, in their order, then all others in theirs. See select.h for the way,
 * compare.h for the rule. One thread a share.
 */
#include "select.h"

void gm_op_partition_share(struct gm_run *run)
{
    uint64_t tile;
    while (gm_run_next_tile(run, &tile)) {
        switch (gm_dtype_bytes(run->job->dtype)) {
        case 1:
            gm_select_tile(run, tile, gm_keep_matches, true, GM_DTYPE_u8);
            break;
        case 4:
            gm_select_tile(run, tile, gm_keep_matches, true, GM_DTYPE_u32);
            break;
        default:
            gm_select_tile(run, tile, gm_keep_matches, true, GM_DTYPE_u64);
            break;
        }
    }
}

void gm_op_partition_finish(struct gm_run *run)
{
    gm_select_finish(run);
}
