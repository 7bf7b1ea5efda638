/* SPDX-License-Identifier: Apache-2.0
 *
 * fill: every element of out becomes the value. One thread a share; a tile is written once, front to back.
 */
#include <string.h>

#include "run.h"

void gm_op_fill_share(struct gm_run *run)
{
    const uint64_t value = run->job->value[0];
    uint64_t tile, count;
    while (gm_run_next_tile(run, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count);
        switch (gm_dtype_bytes(run->job->dtype)) {
        case 1:
            memset((uint8_t *)gm_run_buffer(run, 0) + first, (int)(value & 0xffu), count);
            break;
        case 4: {
            uint32_t *out = (uint32_t *)gm_run_buffer(run, 0) + first;
            for (uint64_t i = 0; i < count; i++)
                out[i] = (uint32_t)value;
            break;
        }
        case 8: {
            uint64_t *out = (uint64_t *)gm_run_buffer(run, 0) + first;
            for (uint64_t i = 0; i < count; i++)
                out[i] = value;
            break;
        }
        }
    }
}

void gm_op_fill_finish(struct gm_run *run) { (void)run; }
