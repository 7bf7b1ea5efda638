/* SPDX-License-Identifier: Apache-2.0
 *
 * An index of a client's buffer, on the CPU: read once, because the client may change it between a comparison and a
 * use. Negative ones become more than any length. Any thread.
 */
#ifndef GM_OPS_INDEX_H
#define GM_OPS_INDEX_H

#include "run.h"

static inline uint64_t gm_index_load(const void *indices, uint32_t type, uint64_t i)
{
    if (type == GM_DTYPE_i32)
        return (uint64_t)(int64_t)(int32_t)gm_load_relaxed_u32((const uint32_t *)indices + i);
    if (type == GM_DTYPE_u32)
        return gm_load_relaxed_u32((const uint32_t *)indices + i);
    return gm_load_relaxed_u64((const uint64_t *)indices + i);
}

#endif
