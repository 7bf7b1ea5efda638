/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection and a lane without the client library, for clients that do what no library would. One thread a
 * connection; each call is one request and its answer, with a bound on the time.
 */
#ifndef GM_E2E_CHAOS_LANE_H
#define GM_E2E_CHAOS_LANE_H

#include "lane.h"
#include "wire.h"

#include <stdbool.h>
#include <stdint.h>

struct raw {
    int fd; /* -1: none */
    uint32_t id;
    int fds[GM_FDS_PER_FRAME_MAX * 2u];
    uint32_t fds_count;
};

struct raw_arena {
    uint32_t handle;
    uint64_t bytes;
    int memory;
    uint8_t *data;
};

struct raw_lane {
    uint32_t number, device, slots, log2;
    uint64_t start, bytes;
    bool skip;
    int memory, bell, wake;
    struct gm_lane_header *header;
    struct gm_desc_slot *sq;
    struct gm_granule *cq;
};

/* Connects and says hello. GM_OK, GM_ECONNECT, GM_ECLOSED, GM_ETIMEDOUT, or what the daemon answered. */
int raw_open(struct raw *raw, const char *socket, uint64_t ms);
void raw_close(struct raw *raw);
/* One request, whose id is filled in, and its answer. */
int raw_call(struct raw *raw, struct gm_wire_request *request, struct gm_wire_response *response, uint64_t ms);
int raw_arena_create(struct raw *raw, uint64_t bytes, struct raw_arena *arena, uint64_t ms);
void raw_arena_unmap(struct raw_arena *arena);
/* device -1: any. slots 0: the daemon's choice. */
int raw_lane_open(struct raw *raw, int device, uint32_t slots, struct raw_lane *lane, uint64_t ms);
int raw_lane_close(struct raw *raw, struct raw_lane *lane, uint64_t ms);
void raw_lane_unmap(struct raw_lane *lane);
int raw_cancel(struct raw *raw, const struct raw_lane *lane, uint64_t position, uint64_t ms);
/* Whether the other end has hung up. */
bool raw_ended(const struct raw *raw);

/* A full fence, and a ring when the device is asleep. */
void raw_ring(const struct raw_lane *lane);
void raw_ring_anyway(const struct raw_lane *lane, uint64_t count);

#endif
