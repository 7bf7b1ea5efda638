/* SPDX-License-Identifier: Apache-2.0
 *
 * Space in a device's staging arena, where data that rides in messages lies while its job runs. A buddy allocator of
 * power-of-two blocks from 1 KiB to the whole arena, with its books outside the arena (jobs write there). Constant
 * memory, logarithmic time, loop thread only.
 */
#ifndef GM_DAEMON_STAGING_H
#define GM_DAEMON_STAGING_H

#include <stdbool.h>
#include <stdint.h>

#include "limits.h"

#define GM_STAGING_BLOCK_LOG2 10u
#define GM_STAGING_BLOCKS (GM_STAGING_BYTES >> GM_STAGING_BLOCK_LOG2)
#define GM_STAGING_ORDERS 16u /* blocks of 2^0 .. 2^15 units */
/* One session may hold a quarter, so that one client with large inline data cannot keep the others out. */
#define GM_STAGING_PER_SESSION (GM_STAGING_BYTES / 4u)

/* And a user three quarters, on all devices together, for the same reason. */
#define GM_STAGING_PER_USER (GM_STAGING_BYTES / 4u * 3u)

static_assert(GM_STAGING_BLOCKS == 1u << (GM_STAGING_ORDERS - 1u), "the largest order is the whole arena");
static_assert(GM_STAGING_BLOCKS >= GM_INFLIGHT_MAX, "every job in flight can have a block");
static_assert(GM_STAGING_PER_SESSION >= 4u * GM_INLINE_BYTES_MAX, "a session can have two of the largest jobs");

#define GM_STAGING_NONE 0xffffffffu

struct gm_staging {
    uint16_t first[GM_STAGING_ORDERS]; /* free blocks of each order */
    uint16_t next[GM_STAGING_BLOCKS], prev[GM_STAGING_BLOCKS];
    uint8_t order[GM_STAGING_BLOCKS]; /* of a block that starts here; high bit: free */
    uint64_t used;                    /* bytes, as blocks */
};

void gm_staging_init(struct gm_staging *staging);
/* Bytes that an allocation of this size really takes; 0 for sizes that cannot be had. */
uint64_t gm_staging_charge(uint64_t bytes);
/* Byte offset, aligned to at least 1 KiB, or GM_STAGING_NONE. bytes > 0. */
uint32_t gm_staging_alloc(struct gm_staging *staging, uint64_t bytes);
void gm_staging_free(struct gm_staging *staging, uint32_t offset);

#endif
