/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that wait for their reply: ping, stats, ops, drain, and the machinery that hello and arenas use too. Any
 * thread; a call whose deadline passes leaves its slot behind as an orphan, so the late reply meets nobody.
 */
#include "client.h"

/* Every request without data of the caller in it. */
#define SMALL_REQUEST_BYTES 4096u

static int post(struct gm_client *client, struct gm_wire_request *request, enum gm_slot_kind kind,
                struct gm_pending *pending)
{
    int rc = client->closed ? GM_ECLOSED : gm__conn_prepare(client, SMALL_REQUEST_BYTES);

    if (rc != GM_OK)
        return rc;
    const uint32_t slot = gm__slot_take(client, kind, pending);
    if (slot == NO_SLOT)
        return GM_EBUSY;
    request->id = gm__slot_id(client, slot);
    rc = gm_wire_encode_request(&client->output, request);
    if (rc != GM_OK)
        gm__slot_return(client, slot);
    return rc;
}

int gm__post(struct gm_client *client, struct gm_wire_request *request, enum gm_slot_kind kind)
{
    return post(client, request, kind, NULL);
}

static int report_start(struct gm_client *client, int status)
{
    if (status == GM_ECLOSED)
        return gm__report(&client->last, status, "", "%s", client->closing.text);
    return gm__report(&client->last, status, "", "%s", gm_strerror(status));
}

int gm__call_begin(struct gm_client *client, struct gm_wire_request *request, struct gm_call *call)
{
    call->method = request->method;
    call->problem = (struct gm_problem){0};
    call->copy = NULL;
    for (uint32_t i = 0; i < GM_FDS_PER_FRAME_MAX; i++)
        call->fds[i] = -1;
    const int rc = post(client, request, SLOT_CALL, &call->pending);
    return rc == GM_OK ? GM_OK : report_start(client, rc);
}

/* What becomes of the reply to a call that nobody waits for any more. */
static enum gm_slot_kind orphan_of(enum gm_method method)
{
    switch (method) {
    case GM_METHOD_ARENA_CREATE:
    case GM_METHOD_ARENA_ATTACH:
        return SLOT_ORPHAN_ARENA;
    case GM_METHOD_LANE_OPEN:
        return SLOT_ORPHAN_LANE;
    default:
        return SLOT_ORPHAN;
    }
}

int gm__call_end(struct gm_client *client, struct gm_call *call, uint64_t deadline_ns)
{
    const int rc = gm__wait(client, &call->pending, NULL, deadline_ns);

    if (rc != GM_OK) {
        struct gm_slot *slot = &client->slots[call->pending.slot];
        slot->kind = orphan_of(call->method);
        slot->pending = NULL;
        return gm__report(&client->last, rc, "", "no answer to %s before the deadline", gm_method_name(call->method));
    }
    if (call->problem.code != GM_OK)
        return gm__report_problem(&client->last, &call->problem);
    return GM_OK;
}

int gm__call(struct gm_client *client, struct gm_wire_request *request, struct gm_call *call, uint64_t deadline_ns)
{
    const int rc = gm__call_begin(client, request, call);

    if (rc != GM_OK)
        return rc;
    gm__conn_push(client);
    return gm__call_end(client, call, deadline_ns);
}

static int call_simple(struct gm_client *client, enum gm_method method, uint64_t deadline_ns, struct gm_call *call)
{
    struct gm_wire_request request = {.method = method};
    int rc = gm__entry(client);

    if (rc != GM_OK)
        return rc;
    pthread_mutex_lock(&client->lock);
    rc = gm__call(client, &request, call, deadline_ns);
    pthread_mutex_unlock(&client->lock);
    return rc;
}

static int call_for_map(struct gm_client *client, enum gm_method method, uint64_t deadline_ns, void **bytes,
                        size_t *size)
{
    struct gm_call call;
    const int rc = call_simple(client, method, deadline_ns, &call);

    *bytes = rc == GM_OK ? call.copy : NULL;
    *size = rc == GM_OK ? call.copy_bytes : 0;
    return rc;
}

int gm_ping(struct gm_client *client, uint64_t deadline_ns)
{
    struct gm_call call;

    return call_simple(client, GM_METHOD_PING, deadline_ns, &call);
}

int gm_drain(struct gm_client *client, uint64_t deadline_ns)
{
    struct gm_call call;

    return call_simple(client, GM_METHOD_DRAIN, deadline_ns, &call);
}

int gm_stats(struct gm_client *client, uint64_t deadline_ns, void **bytes, size_t *size)
{
    return call_for_map(client, GM_METHOD_STATS, deadline_ns, bytes, size);
}

int gm_ops(struct gm_client *client, uint64_t deadline_ns, void **bytes, size_t *size)
{
    return call_for_map(client, GM_METHOD_OPS, deadline_ns, bytes, size);
}

int gm_arena_list(struct gm_client *client, uint64_t deadline_ns, void **bytes, size_t *size)
{
    return call_for_map(client, GM_METHOD_ARENA_LIST, deadline_ns, bytes, size);
}
