/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests of jobs in a lane begin with: a peer that gives lanes, a client with them and an arena, and jobs on that.
 * Test thread.
 */
#ifndef GM_TESTS_LANE_JOBS_H
#define GM_TESTS_LANE_JOBS_H

#include "lane_peer.h"

static struct lane_peer p;
static struct gm_client *client;
static struct gm_arena *arena;

static inline void begin_with(uint32_t devices, uint32_t slots, uint64_t start, bool skip, struct gm_options options)
{
    lanes_make(&p, devices, slots, start);
    p.skip = skip;
    lanes_serve(&p);
    client = lanes_open(&p, options);
    assert_int_equal(devices, gm_lanes(client));
    assert_int_equal(GM_OK, gm_arena_create(client, 65536, GM_MEMORY_SHARED, GM_DEVICE_ANY, in_ms(20000), &arena));
}

static inline void begin(uint32_t slots)
{
    begin_with(1, slots, 0, false, (struct gm_options){.lane_only = 1});
}

static inline void end(void)
{
    gm_close(client);
    lanes_stop(&p);
}

static inline struct gm_request sum_of(uint64_t n)
{
    struct gm_request request = gm_request("sum", GM_U64, n);

    request.in[0] = gm_in_arena(arena, 0, 65536);
    return request;
}

static inline struct gm_request fill_of(uint64_t n, uint64_t value)
{
    struct gm_request request = gm_request("fill", GM_U64, n);

    request.out[0] = gm_in_arena(arena, 0, 65536);
    request.value = value;
    return request;
}

static inline void submit(const struct gm_request *request, struct gm_job *job)
{
    struct gm_failure failure;

    if (gm_submit(client, request, job) == GM_OK)
        return;
    gm_last_failure(client, &failure);
    fail_msg("gm_submit: %s: %s", failure.field, failure.text);
}

#endif
