/* SPDX-License-Identifier: Apache-2.0
 *
 * A reply finds what waits for it: a job, a call, or nobody any more. Under the client's lock, on whichever thread
 * reads; allocates only for the results of stats and ops.
 */
#include "client.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static void take_arena(struct gm_client *client, struct gm_call *call, const struct gm_wire_response *response)
{
    if (gm_wire_result_u64(response, "arena", &call->arena, &call->problem) == GM_OK)
        gm_wire_result_u64(response, "bytes", &call->arena_bytes, &call->problem);
    call->fd = gm__conn_take_fd(client);
    if (call->problem.code == GM_OK && call->fd == FD_LOST)
        gm_problem_set(&call->problem, GM_EFDS, "", "no room for the descriptor of the arena");
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

static void finish_call(struct gm_client *client, struct gm_call *call, const struct gm_wire_response *response)
{
    if (response->failed)
        call->problem = response->problem;
    else if (call->method == GM_METHOD_STATS || call->method == GM_METHOD_OPS)
        copy_result(call, response);
    else if (call->method == GM_METHOD_ARENA_CREATE)
        take_arena(client, call, response);
    else if (call->method == GM_METHOD_HELLO)
        check_version(call, response);
    gm__complete(client, &call->pending, call->problem.code);
}

/* Nobody took this arena: give it back. When there is no room to say so, it goes with the session. */
static void return_arena(struct gm_client *client, const struct gm_wire_response *response)
{
    struct gm_wire_request request = {.method = GM_METHOD_ARENA_FREE};
    struct gm_problem problem;
    uint64_t arena = 0;
    const int fd = gm__conn_take_fd(client);

    if (fd >= 0)
        close(fd);
    if (response->failed || gm_wire_result_u64(response, "arena", &arena, &problem) != GM_OK)
        return;
    request.u.arena_free.arena = (uint32_t)arena;
    (void)gm__post(client, &request, SLOT_ORPHAN);
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
    return GM_OK;
}
