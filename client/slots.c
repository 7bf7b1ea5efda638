/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of what awaits a reply. A slot's generation is part of the id on the wire, so a reply that comes twice, or
 * for something that is long over, meets no stranger. Under the client's lock; SLOTS bounds it.
 */
#include "client.h"

void gm__slots_init(struct gm_client *client)
{
    for (uint32_t i = 0; i < SLOTS; i++)
        client->slots[i] = (struct gm_slot){.next_free = i + 1 < SLOTS ? i + 1 : NO_SLOT};
    client->slot_free = 0;
}

static bool is_job(enum gm_slot_kind kind)
{
    return kind == SLOT_JOB || kind == SLOT_ORPHAN_JOB;
}

/* NO_SLOT when the table, or the jobs' part of it, is full. */
uint32_t gm__slot_take(struct gm_client *client, enum gm_slot_kind kind, struct gm_pending *pending)
{
    const uint32_t slot = client->slot_free;

    if (slot == NO_SLOT || (is_job(kind) && client->jobs == GM_PENDING_JOBS))
        return NO_SLOT;
    struct gm_slot *s = &client->slots[slot];
    client->slot_free = s->next_free;
    s->kind = kind;
    s->pending = pending;
    client->awaited++;
    client->jobs += is_job(kind);
    if (pending != NULL) {
        pending->slot = slot;
        pending->waiter = NULL;
        atomic_store_explicit(&pending->status, GM_EAGAIN, memory_order_relaxed);
    }
    return slot;
}

void gm__slot_return(struct gm_client *client, uint32_t slot)
{
    struct gm_slot *s = &client->slots[slot];

    client->awaited--;
    client->jobs -= is_job(s->kind);
    s->kind = SLOT_FREE;
    s->pending = NULL;
    s->generation++;
    s->next_free = client->slot_free;
    client->slot_free = slot;
}

uint32_t gm__slot_id(const struct gm_client *client, uint32_t slot)
{
    return client->slots[slot].generation << SLOT_BITS | slot;
}

/* NO_SLOT when nothing with this id awaits a reply. */
uint32_t gm__slot_by_id(const struct gm_client *client, uint32_t id)
{
    const uint32_t slot = id & (SLOTS - 1);

    return client->slots[slot].kind != SLOT_FREE && gm__slot_id(client, slot) == id ? slot : NO_SLOT;
}

void gm__fail_all(struct gm_client *client, int status, const char *text)
{
    if (client->closed)
        return;
    client->closed = true;
    if (client->closing.status == GM_OK)
        gm__report(&client->closing, status, "", "%s", text);
    gm__conn_drop_fds(client);
    gm__lanes_reap(client);
    for (uint32_t i = 0; i < client->lane_count; i++)
        gm__lane_end(client, &client->lanes[i], GM_ECLOSED, client->closing.text);
    for (uint32_t i = 0; i < SLOTS; i++) {
        const enum gm_slot_kind kind = client->slots[i].kind;
        struct gm_pending *pending = client->slots[i].pending;
        if (kind == SLOT_FREE)
            continue;
        gm__slot_return(client, i);
        if (kind == SLOT_JOB) {
            gm__job_fail(client, (struct gm_job_inside *)pending, GM_ECLOSED, client->closing.text);
        } else if (kind == SLOT_CALL) {
            struct gm_call *call = (struct gm_call *)pending;
            gm_problem_set(&call->problem, GM_ECLOSED, "", "%s", client->closing.text);
            gm__complete(client, pending, GM_ECLOSED);
        }
    }
}
