/* SPDX-License-Identifier: Apache-2.0
 *
 * What a thread of a client does: jobs in batches, one by one and in an event loop, each answer checked and written
 * down. Bounded by the window of the client.
 */
#include "chaos_client.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

static uint32_t slot_of(const struct worker *w, const struct unit *u)
{
    return (uint32_t)(u - w->unit);
}

static uint64_t arena_bytes(const struct worker *w)
{
    return WINDOW_MAX * CELL + CELL_BYTES(w->big_elements);
}

static const char *last_words(const struct worker *w)
{
    static _Thread_local struct gm_failure failure;

    gm_last_failure(w->link->client, &failure);
    return failure.text;
}

bool work_call(struct worker *w, const char *what, int status)
{
    struct record now = {.life = (uint16_t)w->link->life};

    if (status == GM_OK)
        return true;
    for (uint32_t d = 0; d < DEVICES_HERE; d++)
        now.repaired[d] = (uint8_t)w->world->repaired[d];
    if (status == GM_ECLOSED)
        w->link->broken = true;
    if (explained(w->world, &now, status))
        return false;
    complain(w->world, "client %u.%u: %s returned %s (%s)", w->ledger->slot, w->ledger->incarnation, what,
             gm_status_name(status), last_words(w));
}

/* ---- Memory ---- */

bool work_zeroed(const uint8_t *bytes, uint64_t size)
{
    return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

bool work_ready(struct worker *w)
{
    if (w->local == NULL)
        w->local = malloc(arena_bytes(w));
    if (w->local == NULL)
        complain(w->world, "no memory");
    if (w->link->broken)
        return false;
    if (w->arena != NULL)
        return true;
    const int rc = gm_arena_create(w->link->client, arena_bytes(w), GM_MEMORY_SHARED, GM_DEVICE_ANY, in_ms(WAIT_MS),
                                   &w->arena);
    if (!work_call(w, "gm_arena_create", rc))
        return false;
    w->ledger->arenas++;
    w->ledger->arena_bytes += gm_arena_bytes(w->arena);
    if (!work_zeroed(gm_arena_data(w->arena), gm_arena_bytes(w->arena)))
        complain(w->world, "client %u: a new shared arena is not zeroed", w->ledger->slot);
    return true;
}

bool work_free_arena(struct worker *w, struct gm_arena **arena)
{
    struct gm_arena *const gone = *arena;

    if (gone == NULL)
        return true;
    const uint64_t bytes = gm_arena_bytes(gone);
    *arena = NULL;
    const int rc = gm_arena_free(gone, in_ms(WAIT_MS));
    w->ledger->arenas--;
    w->ledger->arena_bytes -= bytes;
    return work_call(w, "gm_arena_free", rc);
}

bool work_free_arenas(struct worker *w)
{
    return work_free_arena(w, &w->device) && work_free_arena(w, &w->arena);
}

void work_forget(struct worker *w)
{
    w->arena = w->device = NULL;
}

/* ---- One job ---- */

/* In the arena, or in memory of this process; a good job's buffers now and then each where they like. */
static struct gm_buffer place(const struct worker *w, const struct unit *u, struct rng *rng, bool shared, uint64_t at,
                              uint32_t buffer)
{
    const uint64_t offset = task_offset(&u->task, buffer), bytes = task_bytes(&u->task, buffer);
    const bool apart = random_one_in(rng, 16) && u->task.fault == TASK_GOOD;

    if (shared && !apart)
        return gm_in_arena(w->arena, at + offset, bytes);
    return gm_in_memory(u->task.cell + offset, bytes);
}

/* By their places, which are those of the members that share memory. */
static void put_args(const struct gm_case *c, struct gm_request *request)
{
    request->value = c->value[0];
    request->high = c->value[1];
    request->right = c->value[2];
    memcpy(&request->hi_y, &c->value[3], sizeof request->hi_y);
    request->bins = c->bins;
    request->bins_y = c->count2;
    request->to = c->type2;
    request->descending = (c->flags & GM_FLAG_DESCENDING) != 0;
    request->exclusive = (c->flags & GM_FLAG_EXCLUSIVE) != 0;
}

void work_ask(struct worker *w, struct unit *u, struct rng *rng, bool shared, uint64_t at)
{
    const struct gm_case *const c = &u->task.c;
    const struct gm_op_row row = gm_op_row(c->op);

    u->request = gm_request(gm_op_name(c->op), row.types != 0 ? c->dtype : GM_NO_ELEMENT, c->n);
    put_args(c, &u->request);
    if (random_one_in(rng, 4))
        u->request.device = (int32_t)random_below(rng, w->world->plan.devices);
    for (uint32_t i = 0; i < task_buffers(&u->task); i++)
        if (i < row.inputs) {
            u->request.in[i] = place(w, u, rng, shared, at, i);
        } else {
            u->request.out[i - row.inputs] = place(w, u, rng, shared, at, i);
            u->task.carried |= (u->request.out[i - row.inputs].arena == NULL ? 1u : 0) << (i - row.inputs);
        }
    u->job = (struct gm_job){.user = u};
    u->record = NULL;
}

static void draw(struct worker *w, struct rng *rng, struct unit *u)
{
    const bool shared = w->ledger->plan.kind == KIND_SOCKET ? random_one_in(rng, 2) : !random_one_in(rng, 4);
    const uint64_t at = slot_of(w, u) * CELL;

    task_draw(&u->task, rng, CELL_ELEMENTS, shared);
    task_place(&u->task, (shared ? (uint8_t *)gm_arena_data(w->arena) : w->local) + at, CELL_ELEMENTS);
    work_ask(w, u, rng, shared, at);
}

static void write_down(struct worker *w, struct unit *u)
{
    if (u->record == NULL)
        u->record = record_new(w->world, w->ledger, u->task.c.op, w->link->life, u->request.device);
    u->record->state = RECORD_SENDING;
}

/* A job that the library or the daemon's state of things refused on the spot. */
static bool refused(struct worker *w, struct unit *u, int rc)
{
    u->record->state = RECORD_REFUSED;
    if (rc == task_expected(&u->task))
        return true;
    return work_call(w, "gm_submit", rc);
}

static void take(struct worker *w, struct unit *u)
{
    struct gm_result result;
    const int status = gm_job_result(&u->job, &result);
    const bool fault = explained(w->world, u->record, status);
    const char *const wrong = fault ? NULL : task_wrong(&u->task, status, result.value.u64);
    struct gm_failure failure;

    if (status == GM_ECLOSED)
        w->link->broken = true;
    if (wrong != NULL) {
        gm_job_failure(&u->job, &failure);
        complain(w->world, "client %u.%u job %u: %s (%s)", w->ledger->slot, w->ledger->incarnation,
                 (uint32_t)(u->record - w->ledger->record), wrong, failure.text);
    }
    record_answer(w->world, w->ledger, u->record, status);
}

static void cancel(struct worker *w, struct unit *u)
{
    u->record->flags |= RECORD_CANCELLED;
    const int rc = gm_cancel(w->link->client, &u->job);
    if (rc != GM_ENOTFOUND && rc != GM_EBUSY)
        work_call(w, "gm_cancel", rc);
}

/* ---- Many jobs ---- */

/* Sends what can be sent of [*sent, count). */
static void send_some(struct worker *w, uint32_t *sent, uint32_t count, bool open[WINDOW_MAX])
{
    struct gm_request requests[WINDOW_MAX];
    struct gm_job *jobs[WINDOW_MAX];
    size_t accepted = 0;

    for (uint32_t i = *sent; i < count; i++) {
        write_down(w, &w->unit[i]);
        requests[i - *sent] = w->unit[i].request;
        jobs[i - *sent] = &w->unit[i].job;
    }
    const int rc = gm_submit_batch(w->link->client, requests, jobs, count - *sent, &accepted);
    for (uint32_t i = *sent; i < *sent + accepted; i++) {
        w->unit[i].record->state = RECORD_ACCEPTED;
        open[i] = true;
    }
    for (uint32_t i = *sent + (uint32_t)accepted; i < count; i++)
        w->unit[i].record->state = RECORD_FREE;
    *sent += (uint32_t)accepted;
    if (rc == GM_OK || rc == GM_EBUSY)
        return;
    if (*sent == count)
        complain(w->world, "gm_submit_batch took everything and said %s", gm_status_name(rc));
    refused(w, &w->unit[*sent], rc);
    ++*sent;
}

static uint32_t pick(struct rng *rng, const bool open[WINDOW_MAX], uint32_t sent, bool at_random)
{
    uint32_t at = at_random ? random_below(rng, sent) : 0;

    while (!open[at])
        at = (at + 1u) % sent;
    return at;
}

bool work_late(uint64_t start_ms)
{
    return now_ms() - start_ms > WAIT_MS - WAIT_MS / 8u;
}

/* An answer that comes with the deadline was there before, and its waiter was not woken. */
static void see_time(struct worker *w, const struct unit *u, uint64_t start_ms)
{
    if (work_late(start_ms))
        complain(w->world, "client %u.%u: job %u (%s) was answered only at its deadline", w->ledger->slot,
                 w->ledger->incarnation, (uint32_t)(u->record - w->ledger->record), gm_op_name(u->task.c.op));
}

static void wait_for(struct worker *w, struct unit *u)
{
    const uint64_t start_ms = now_ms();
    const int rc = gm_wait(w->link->client, &u->job, in_ms(WAIT_MS));

    if (rc == GM_ETIMEDOUT && gm_job_status(&u->job) == GM_EAGAIN)
        complain(w->world, "client %u.%u: job %u (%s) was not answered in %u ms", w->ledger->slot,
                 w->ledger->incarnation, (uint32_t)(u->record - w->ledger->record), gm_op_name(u->task.c.op), WAIT_MS);
    if (rc != gm_job_status(&u->job))
        complain(w->world, "gm_wait said %s, the job %s", gm_status_name(rc), gm_status_name(gm_job_status(&u->job)));
    see_time(w, u, start_ms);
    take(w, u);
}

/* One turn of an event loop. */
static uint32_t loop_turn(struct worker *w, bool open[WINDOW_MAX])
{
    struct pollfd p = {.fd = gm_fd(w->link->client), .events = (short)gm_events(w->link->client)};
    uint32_t taken = 0;

    if (p.fd < 0)
        complain(w->world, "gm_fd returned %d", p.fd);
    if (poll(&p, 1, WAIT_MS / 2) == 0)
        complain(w->world, "client %u.%u: gm_fd stayed silent for %u ms with jobs pending", w->ledger->slot,
                 w->ledger->incarnation, WAIT_MS / 2);
    work_call(w, "gm_poll", gm_poll(w->link->client));
    for (struct gm_job *job; (job = gm_next(w->link->client)) != NULL; taken++) {
        struct unit *const u = job->user;
        if (u < w->unit || u >= w->unit + WINDOW_MAX || !open[slot_of(w, u)])
            complain(w->world, "gm_next gave a job that was not pending");
        open[slot_of(w, u)] = false;
        take(w, u);
    }
    return taken;
}

bool work_units(struct worker *w, struct rng *rng, uint32_t count, enum wait_style style)
{
    bool open[WINDOW_MAX] = {false};
    uint32_t sent = 0, pending = 0;
    const uint64_t end_ms = now_ms() + WAIT_MS;
    struct rng order = *rng; /* how often it draws depends on time: a generator of its own */

    for (uint32_t i = 0; i < count; i++)
        draw(w, rng, &w->unit[i]);
    const uint32_t victim = random_one_in(rng, 3) ? random_below(rng, count) : count;
    while (sent < count || pending != 0) {
        const uint32_t before = sent;
        if (sent < count && !w->link->broken)
            send_some(w, &sent, count, open);
        else if (sent < count)
            sent = count;
        if (before <= victim && victim < sent && open[victim])
            cancel(w, &w->unit[victim]);
        pending = 0;
        for (uint32_t i = 0; i < sent; i++)
            pending += open[i];
        if (pending == 0 && sent < count && now_ms() > end_ms)
            complain(w->world, "client %u: nothing is pending and gm_submit says busy", w->ledger->slot);
        if (pending == 0 && sent < count)
            sleep_ms(1);
        if (pending == 0)
            continue;
        if (style == WAIT_LOOP) {
            pending -= loop_turn(w, open);
            continue;
        }
        const uint32_t at = pick(&order, open, sent, style == WAIT_AT_RANDOM);
        open[at] = false;
        pending--;
        wait_for(w, &w->unit[at]);
    }
    return !w->link->broken;
}

void work_send(struct worker *w, struct rng *rng, uint32_t count)
{
    bool open[WINDOW_MAX] = {false};
    uint32_t sent = 0;

    for (uint32_t i = 0; i < count; i++)
        draw(w, rng, &w->unit[i]);
    send_some(w, &sent, count, open);
}

static bool run_unit(struct worker *w, struct unit *u)
{
    const uint64_t start_ms = now_ms();
    struct gm_result result;
    int status;

    write_down(w, u);
    do
        status = gm_run(w->link->client, &u->request, in_ms(WAIT_MS), &result);
    while (status == GM_EBUSY && !work_late(start_ms)); /* other threads fill the lane */
    const bool fault = explained(w->world, u->record, status);
    const char *const wrong = fault ? NULL : task_wrong(&u->task, status, result.value.u64);
    if (wrong != NULL)
        complain(w->world, "client %u.%u gm_run: %s (%s)", w->ledger->slot, w->ledger->incarnation, wrong,
                 last_words(w));
    see_time(w, u, start_ms);
    if (status == GM_ECLOSED)
        w->link->broken = true;
    /* Whether it was accepted before a fault is not told. */
    u->record->state = status == GM_OK ? RECORD_ACCEPTED : fault ? RECORD_SENDING : RECORD_REFUSED;
    if (status == GM_OK)
        record_answer(w->world, w->ledger, u->record, status);
    return !w->link->broken;
}

bool work_one_by_one(struct worker *w, struct rng *rng, uint32_t count)
{
    bool good = true;

    for (uint32_t i = 0; i < count; i++) {
        draw(w, rng, &w->unit[0]);
        if (good)
            good = run_unit(w, &w->unit[0]);
    }
    return good;
}

bool work_big(struct worker *w, struct rng *rng)
{
    struct unit *const u = &w->unit[0];
    const uint64_t at = WINDOW_MAX * CELL;
    const bool shared = !random_one_in(rng, 4);

    task_draw(&u->task, rng, w->big_elements, shared);
    task_place(&u->task, (shared ? (uint8_t *)gm_arena_data(w->arena) : w->local) + at, w->big_elements);
    work_ask(w, u, rng, shared, at);
    return run_unit(w, u);
}

/* A deadline that is over at once: afterwards nobody writes to the caller's memory. */
bool work_hurried(struct worker *w, struct rng *rng)
{
    uint8_t in[4096], out[4096];
    struct gm_request copy = gm_request("copy", GM_U8, sizeof in);
    const uint64_t us = random_below(rng, 500);

    memset(in, 1, sizeof in);
    memset(out, 0, sizeof out);
    copy.in[0] = gm_in_memory(in, sizeof in);
    copy.out[0] = gm_in_memory(out, sizeof out);
    struct record *const r = record_new(w->world, w->ledger, GM_OP_copy, w->link->life, GM_DEVICE_ANY);
    r->state = RECORD_SENDING;
    const int status = gm_run(w->link->client, &copy, gm_deadline_in(us * 1000u), NULL);
    if (status == GM_OK) {
        r->state = RECORD_ACCEPTED;
        record_answer(w->world, w->ledger, r, status);
        return true;
    }
    if (status != GM_ETIMEDOUT)
        return work_call(w, "gm_run", status);
    memset(out, 0xee, sizeof out);
    sleep_ms(2);
    if (gm_ping(w->link->client, in_ms(WAIT_MS)) == GM_OK && memchr(out, 1, sizeof out) != NULL)
        complain(w->world, "gm_run wrote to the caller's memory after its deadline");
    return true;
}
