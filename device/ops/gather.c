/* SPDX-License-Identifier: Apache-2.0
 *
 * gather: an element for each index. An index is read once and compared with the length before it is used. One thread a
 * share.
 */
#include "index.h"

/* False when an index is out of range. The type of the indices is a constant where this is called. */
#define GATHER(name, type)                                                                                             \
    static inline bool gather_##name(const struct gm_run *run, uint32_t index, uint64_t first, uint64_t end)           \
    {                                                                                                                  \
        const type *in = gm_run_buffer(run, 0);                                                                        \
        const void *indices = gm_run_buffer(run, 1);                                                                   \
        const uint64_t length = run->job->value[0];                                                                    \
        type *out = gm_run_buffer(run, 2);                                                                             \
        bool inside = true;                                                                                            \
        for (uint64_t i = first; i < end; i++) {                                                                       \
            const uint64_t at = gm_index_load(indices, index, i);                                                      \
            if (at < length)                                                                                           \
                out[i] = in[at];                                                                                       \
            else                                                                                                       \
                inside = false;                                                                                        \
        }                                                                                                              \
        return inside;                                                                                                 \
    }
GATHER(8, uint8_t)
GATHER(32, uint32_t)
GATHER(64, uint64_t)

static inline bool gather(const struct gm_run *run, uint32_t index, uint64_t first, uint64_t end)
{
    switch (gm_dtype_bytes(run->job->dtype)) {
    case 1:
        return gather_8(run, index, first, end);
    case 4:
        return gather_32(run, index, first, end);
    default:
        return gather_64(run, index, first, end);
    }
}

void gm_op_gather_share(struct gm_run *run)
{
    uint64_t tile, count;
    bool inside = true;
    while (gm_run_next_tile(run, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count);
        if (run->job->type2 == GM_DTYPE_i32)
            inside = gather(run, GM_DTYPE_i32, first, first + count) && inside;
        else if (run->job->type2 == GM_DTYPE_u32)
            inside = gather(run, GM_DTYPE_u32, first, first + count) && inside;
        else
            inside = gather(run, GM_DTYPE_u64, first, first + count) && inside;
    }
    if (!inside)
        gm_run_fail(run, GM_EBOUNDS);
}

void gm_op_gather_finish(struct gm_run *run) { (void)run; }
