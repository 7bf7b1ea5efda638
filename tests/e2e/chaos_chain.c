/* SPDX-License-Identifier: Apache-2.0
 *
 * Chains of jobs through device memory: a cell goes up, a job works on it there, and the cell comes down again. One
 * job at a time; what was lost with its device is given back.
 */
#include "chaos_client.h"

#include <string.h>

int work_step(struct worker *w, struct unit *u, const struct record *lives_in)
{
    const uint64_t start_ms = now_ms();
    int status;

    u->job = (struct gm_job){.user = u};
    u->request.device = GM_DEVICE_ANY;
    u->record = record_new(w->world, w->ledger, u->task.c.op, w->link->life, (int)lives_in->device - 1);
    memcpy(u->record->repaired, lives_in->repaired, sizeof lives_in->repaired);
    u->record->state = RECORD_SENDING;
    do
        status = gm_submit(w->link->client, &u->request, &u->job);
    while (status == GM_EBUSY && !work_late(start_ms));
    if (status != GM_OK) {
        u->record->state = RECORD_REFUSED;
    } else {
        u->record->state = RECORD_ACCEPTED;
        status = gm_wait(w->link->client, &u->job, in_ms(WAIT_MS));
        if (status == GM_ETIMEDOUT)
            complain(w->world, "client %u: a job of a chain was not answered", w->ledger->slot);
        record_answer(w->world, w->ledger, u->record, status);
    }
    if (status == GM_ECLOSED)
        w->link->broken = true;
    return status;
}

/* Copies the cell; true when it arrived, and complains when nothing explains that it did not. */
static bool chain_copy(struct worker *w, bool up)
{
    struct unit *const u = &w->unit[1];

    u->task = (struct task){.c = {.op = GM_OP_copy}};
    u->request = gm_request("copy", GM_U8, CELL);
    u->request.in[0] = gm_in_arena(up ? w->arena : w->device, 0, CELL);
    u->request.out[0] = gm_in_arena(up ? w->device : w->arena, 0, CELL);
    const int status = work_step(w, u, &w->device_made);
    if (status == GM_OK)
        return true;
    if (!explained(w->world, u->record, status))
        complain(w->world, "client %u: copy %s device memory: %s", w->ledger->slot, up ? "to" : "from",
                 gm_status_name(status));
    return false;
}

static bool chain_arena(struct worker *w, struct rng *rng)
{
    w->device_index = w->device == NULL ? random_below(rng, w->world->plan.devices) : w->device_index;
    if (w->device != NULL)
        return true;
    struct record *const made = &w->device_made;
    made->life = (uint16_t)w->link->life, made->device = (uint8_t)(w->device_index + 1u);
    for (uint32_t d = 0; d < DEVICES_HERE; d++)
        made->repaired[d] = (uint8_t)w->world->repaired[d];
    const int rc = gm_arena_create(w->link->client, CELL, GM_MEMORY_DEVICE, (int)w->device_index, in_ms(WAIT_MS),
                                   &w->device);
    if (!work_call(w, "gm_arena_create (device)", rc))
        return false;
    w->ledger->arenas++;
    w->ledger->arena_bytes += gm_arena_bytes(w->device);
    memset(gm_arena_data(w->arena), 1, CELL);
    if (!chain_copy(w, false))
        return false;
    if (!work_zeroed(gm_arena_data(w->arena), CELL))
        complain(w->world, "client %u: new device memory is not zeroed", w->ledger->slot);
    return true;
}

static bool chain_links(struct worker *w, struct rng *rng)
{
    struct unit *const u = &w->unit[0];
    struct gm_result result = {0};

    if (!chain_arena(w, rng))
        return false;
    do
        task_draw(&u->task, rng, CELL_ELEMENTS, true);
    while (u->task.c.op == GM_OP_nop);
    task_place(&u->task, gm_arena_data(w->arena), CELL_ELEMENTS);
    work_ask(w, u, rng, true, 0);
    for (uint32_t i = 0; i < task_buffers(&u->task); i++) {
        const uint32_t inputs = task_row(&u->task).inputs;
        struct gm_buffer *const buffer = i < inputs ? &u->request.in[i] : &u->request.out[i - inputs];
        *buffer = gm_in_arena(w->device, task_offset(&u->task, i), task_bytes(&u->task, i));
    }
    u->task.carried = 0;
    if (!chain_copy(w, true))
        return false;
    const int status = work_step(w, u, &w->device_made);
    if (explained(w->world, u->record, status))
        return false;
    if (status == GM_OK)
        gm_job_result(&u->job, &result);
    memset(gm_arena_data(w->arena), 0x33, CELL);
    if (status == GM_OK && !chain_copy(w, false))
        return false;
    const char *const wrong = task_wrong(&u->task, status, result.value.u64);
    if (wrong != NULL)
        complain(w->world, "client %u.%u in device memory: %s", w->ledger->slot, w->ledger->incarnation, wrong);
    return true;
}

bool work_chain(struct worker *w, struct rng *rng)
{
    const bool keep = random_one_in(rng, 2);
    const bool whole = chain_links(w, rng);

    if (w->link->broken)
        return false;
    /* Memory that was lost can only be given back. */
    return (whole && keep) || work_free_arena(w, &w->device);
}
