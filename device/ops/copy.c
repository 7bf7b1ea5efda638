/* SPDX-License-Identifier: Apache-2.0
 *
 * copy: in to out, tile after tile, whatever the type. One thread a share. in and out are the same buffer or do not
 * overlap: gm_check has seen to it.
 */
#include <string.h>

#include "run.h"

void gm_op_copy_share(struct gm_run *run)
{
    const uint64_t bytes = gm_dtype_bytes(run->job->dtype);
    const uint8_t *in = gm_run_buffer(run, 0);
    uint8_t *out = gm_run_buffer(run, 1);
    uint64_t tile, count;
    while (in != out && gm_run_next_tile(run, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count);
        memcpy(out + first * bytes, in + first * bytes, count * bytes);
    }
}

void gm_op_copy_finish(struct gm_run *run) { (void)run; }
