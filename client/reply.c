/* SPDX-License-Identifier: Apache-2.0
 *
 * A reply finds what waits for it: a job, a call, or nobody any more. Under the client's lock, on whichever thread
 * reads; allocates only for the results of stats, ops and arena.list.
 */
#include "client.h"

#include <stdlib.h>
#include <string.h>

static void copy_result(struct gm_call *call, const struct gm_wire_response *response)
{
    call->copy = malloc(response->result_bytes);
    if (call->copy == NULL) {
        gm_problem_set(&call->problem, GM_ENOMEM, "", "no memory for a result of %zu bytes", response->result_bytes);
        return;
    }
    memcpy(call->copy, response->result, response->result_bytes);
    call->copy_bytes = response->result_bytes;
}

static void require(struct gm_call *call, const struct gm_wire_response *response, const char *key, uint64_t *value)
{
    if (call->problem.code == GM_OK)
        gm_wire_result_u64(response, key, value, &call->problem);
}

/* A key that a daemon may leave out. */
static uint64_t optional(const struct gm_wire_response *response, const char *key, uint64_t otherwise)
{
    struct gm_problem ignored;
    uint64_t value;

    return gm_wire_result_u64(response, key, &value, &ignored) == GM_OK ? value : otherwise;
}

/* The device whose memory an arena is, or GM_DEVICES_MAX: it is shared, and a descriptor came with its frame. Frames
 * may arrive together, so whoever takes a descriptor that is not his takes somebody else's. */
static uint64_t device_of(const struct gm_wire_response *response)
{
    return optional(response, "device", GM_DEVICES_MAX);
}

static void take_arena(struct gm_client *client, struct gm_call *call, const struct gm_wire_response *response)
{
    const uint64_t device = device_of(response);

    require(call, response, "arena", &call->u.arena.handle);
    require(call, response, "bytes", &call->u.arena.bytes);
    call->u.arena.memory = device < GM_DEVICES_MAX ? GM_MEMORY_DEVICE : GM_MEMORY_SHARED;
    call->u.arena.device = device < GM_DEVICES_MAX ? (int)device : ARENA_SOMEWHERE;
    if (device < GM_DEVICES_MAX)
        return;
    gm__conn_take_fds(client, call->fds, 1);
    if (call->problem.code == GM_OK && call->fds[0] == FD_LOST)
        gm_problem_set(&call->problem, GM_EFDS, "", "no room for the descriptor of the arena");
}

static void take_lane(struct gm_client *client, struct gm_call *call, const struct gm_wire_response *response)
{
    require(call, response, "lane", &call->u.lane.handle);
    require(call, response, "device", &call->u.lane.device);
    require(call, response, "slots", &call->u.lane.slots);
    require(call, response, "bytes", &call->u.lane.bytes);
    require(call, response, "start", &call->u.lane.start);
    if (call->problem.code == GM_OK)
        gm_wire_result_bool(response, "skip", &call->u.lane.skip, &call->problem);
    gm__conn_take_fds(client, call->fds, GM_FDS_PER_FRAME_MAX);
}

static void check_version(struct gm_call *call, const struct gm_wire_response *response)
{
    uint64_t version = 0;

    if (gm_wire_result_u64(response, "version", &version, &call->problem) != GM_OK)
        return;
    if (version < GM_WIRE_VERSION_MIN || version > GM_WIRE_VERSION_MAX)
        gm_problem_set(&call->problem, GM_EVERSION, "version", "the daemon chose protocol version %llu, this library "
                       "speaks %u to %u", (unsigned long long)version, GM_WIRE_VERSION_MIN, GM_WIRE_VERSION_MAX);
}

static void take_hello(struct gm_call *call, const struct gm_wire_response *response)
{
    check_version(call, response);
    call->u.hello.devices = optional(response, "devices", 0);
    call->u.hello.lanes = optional(response, "lanes", 0);
}

static void finish_call(struct gm_client *client, struct gm_call *call, const struct gm_wire_response *response)
{
    if (response->failed)
        call->problem = response->problem;
    else if (call->method == GM_METHOD_STATS || call->method == GM_METHOD_OPS || call->method == GM_METHOD_ARENA_LIST)
        copy_result(call, response);
    else if (call->method == GM_METHOD_ARENA_CREATE || call->method == GM_METHOD_ARENA_ATTACH)
        take_arena(client, call, response);
    else if (call->method == GM_METHOD_LANE_OPEN)
        take_lane(client, call, response);
    else if (call->method == GM_METHOD_HELLO)
        take_hello(call, response);
    gm__complete(client, &call->pending, call->problem.code);
}

/* Nobody took this arena: give it back. When there is no room to say so, it goes with the session. */
static void return_arena(struct gm_client *client, const struct gm_wire_response *response)
{
    struct gm_wire_request request = {.method = GM_METHOD_ARENA_FREE};
    struct gm_problem problem;
    uint64_t arena = 0;
    int fd;

    if (response->failed)
        return;
    if (device_of(response) == GM_DEVICES_MAX) {
        gm__conn_take_fds(client, &fd, 1);
        gm__close_fds(&fd, 1);
    }
    if (gm_wire_result_u64(response, "arena", &arena, &problem) != GM_OK)
        return;
    request.u.arena_free.arena = (uint32_t)arena;
    (void)gm__post(client, &request, SLOT_ORPHAN);
}

/* Nor this lane. */
static void return_lane(struct gm_client *client, const struct gm_wire_response *response)
{
    struct gm_problem problem;
    uint64_t lane = 0;
    int fds[GM_FDS_PER_FRAME_MAX];

    if (response->failed)
        return;
    gm__conn_take_fds(client, fds, GM_FDS_PER_FRAME_MAX);
    gm__close_fds(fds, GM_FDS_PER_FRAME_MAX);
    if (gm_wire_result_u64(response, "lane", &lane, &problem) == GM_OK)
        gm__lane_return(client, lane);
}

/* An error without an id is the daemon's reason for closing the connection; anything else that does not decode is its
 * mistake. Either way the reason is kept for everybody who is still waiting. */
static int end_of_talk(struct gm_client *client, int rc, const struct gm_wire_response *response,
                       const struct gm_problem *problem)
{
    if (response->failed && response->problem.code == rc)
        return gm__report_problem(&client->closing, problem);
    return gm__report(&client->closing, GM_EPROTO, problem->field, "malformed response: %.120s", problem->text);
}

int gm__reply(struct gm_client *client, const uint8_t *body, size_t size)
{
    struct gm_wire_response response;
    struct gm_problem problem;
    const int rc = gm_wire_decode_response(body, size, &response, &problem);

    if (rc != GM_OK)
        return end_of_talk(client, rc, &response, &problem);
    const uint32_t slot = gm__slot_by_id(client, response.id);
    if (slot == NO_SLOT)
        return gm__report(&client->closing, GM_EPROTO, "id", "a response to a request that was not made");
    const enum gm_slot_kind kind = client->slots[slot].kind;
    struct gm_pending *const pending = client->slots[slot].pending;
    gm__slot_return(client, slot);
    if (kind == SLOT_JOB)
        gm__job_complete(client, (struct gm_job_inside *)pending, &response);
    else if (kind == SLOT_CALL)
        finish_call(client, (struct gm_call *)pending, &response);
    else if (kind == SLOT_ORPHAN_ARENA)
        return_arena(client, &response);
    else if (kind == SLOT_ORPHAN_LANE)
        return_lane(client, &response);
    return GM_OK;
}
