/* SPDX-License-Identifier: Apache-2.0
 *
 * A client with a lane of its own making: what the library hides, it looks at. Rings of two slots, wide descriptors
 * over the end of the ring, doorbells for nothing, a wait word that is set while nobody sleeps, death between two
 * granules; and it sees a completion that is stored twice. One thread.
 */
#include "chaos.h"
#include "chaos_jobs.h"
#include "chaos_lane.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLOTS_HERE 64u

enum { KEY_RAW = 20 };

/* The job of a slot that is owed; a wide one owns two. */
struct owed {
    bool is, second; /* second: the other half of a wide job, which gets no completion */
    uint64_t position;
    struct task task;
    struct record *record;
};

struct raw_client {
    struct world *world;
    struct ledger *ledger;
    uint32_t life;
    struct raw raw;
    struct raw_lane lane;
    struct raw_arena arena;
    uint64_t head, reaped;
    struct owed owed[SLOTS_HERE];
    struct gm_granule last[SLOTS_HERE]; /* what the completion slot held when it was read */
    bool open, broken;
};

static _Noreturn void wrong(const struct raw_client *c, const char *what, int status)
{
    complain(c->world, "raw client %u.%u: %s: %s", c->ledger->slot, c->ledger->incarnation, what,
             gm_status_name(status));
}

/* True: OK. False: a fault explains it, and the connection is not used any more. */
static bool good(struct raw_client *c, const char *what, int status)
{
    struct record now = {.life = (uint16_t)c->life};

    for (uint32_t d = 0; d < DEVICES_HERE; d++)
        now.repaired[d] = (uint8_t)c->world->repaired[d];
    if (status == GM_OK)
        return true;
    if (!explained(c->world, &now, status))
        wrong(c, what, status);
    c->broken = true;
    return false;
}

/* ---- Connection ---- */

static bool open_lane(struct raw_client *c, struct rng *rng)
{
    static const uint32_t slots[] = {2, 2, 4, 8, SLOTS_HERE};
    const uint32_t wanted = slots[random_below(rng, 5)];
    const int device = random_one_in(rng, 2) ? (int)random_below(rng, c->world->plan.devices) : -1;

    if (!good(c, "lane.open", raw_lane_open(&c->raw, device, wanted, &c->lane, WAIT_MS)))
        return false;
    c->ledger->lanes++;
    if (c->lane.slots != wanted)
        wrong(c, "lane.open gave other slots", GM_OK);
    c->head = c->lane.start;
    c->reaped = 0;
    memset(c->owed, 0, sizeof c->owed);
    for (uint32_t i = 0; i < c->lane.slots; i++)
        c->last[i] = gm_load16_sys(&c->lane.cq[i]);
    return true;
}

static void leave(struct raw_client *c)
{
    raw_lane_unmap(&c->lane);
    raw_arena_unmap(&c->arena);
    raw_close(&c->raw);
    c->ledger->life = 0;
    c->ledger->arenas = 0;
    c->ledger->lanes = 0;
    c->ledger->arena_bytes = 0;
    c->open = false;
}

static void connect_somehow(struct raw_client *c)
{
    const uint64_t end_ms = now_ms() + WAIT_MS;

    for (;;) {
        c->life = c->world->life;
        const int rc = raw_open(&c->raw, c->world->socket, 5000);
        if (rc == GM_OK && c->life == c->world->life)
            return;
        if (rc == GM_OK)
            raw_close(&c->raw);
        if (rc != GM_OK && rc != GM_ECONNECT && rc != GM_ECLOSED && rc != GM_ETIMEDOUT)
            wrong(c, "hello", rc);
        if (now_ms() > end_ms)
            wrong(c, "cannot connect", rc);
        sleep_ms(2);
    }
}

/* False: a fault explains why there is no lane now. */
static bool be_open(struct raw_client *c, struct rng *rng)
{
    if (c->open && !c->broken)
        return true;
    if (c->open)
        leave(c);
    connect_somehow(c);
    c->broken = false;
    c->ledger->life = c->life;
    c->open = true;
    if (!good(c, "arena.create", raw_arena_create(&c->raw, SLOTS_HERE * CELL, &c->arena, WAIT_MS)))
        return false;
    c->ledger->arenas = 1;
    c->ledger->arena_bytes = c->arena.bytes;
    return open_lane(c, rng);
}

/* ---- Jobs ---- */

static uint32_t slot_of(const struct raw_client *c, uint64_t position)
{
    return (uint32_t)position & (c->lane.slots - 1u);
}

/* A completion that changed after it was read was stored a second time, or by somebody else. */
static void see_no_second(struct raw_client *c, uint64_t position)
{
    const struct gm_granule now = gm_load16_sys(&c->lane.cq[slot_of(c, position)]);

    if (memcmp(&now, &c->last[slot_of(c, position)], sizeof now) != 0)
        complain(c->world, "raw client %u: the completion slot of position %" PRIu64 " was stored twice",
                 c->ledger->slot, position);
}

static bool has_room(const struct raw_client *c, bool wide)
{
    return !c->owed[slot_of(c, c->head)].is && (!wide || !c->owed[slot_of(c, c->head + 1u)].is);
}

static void publish(struct raw_client *c, struct owed *owed, uint32_t granules)
{
    uint32_t words[GM_DESC_WORDS];
    const uint64_t p = owed->position;
    const bool wide = gm_op_row(owed->task.c.op).wide != 0;

    task_describe(&owed->task, c->arena.handle, slot_of(c, p) * CELL, words);
    if (wide && granules >= 4)
        gm_desc_store(c->lane.sq, c->lane.log2, p + 1u, words, 1);
    if (granules >= 8u) {
        gm_desc_store(c->lane.sq, c->lane.log2, p, words, 0);
        return;
    }
    for (uint32_t i = 0; i < (granules & 3u); i++) {
        const struct gm_granule g = {{words[i * 3u], words[i * 3u + 1u], words[i * 3u + 2u], gm_lap(p, c->lane.log2)}};
        gm_store16_sys(&c->lane.sq[slot_of(c, p)].g[i], g);
    }
}

/* False: there is no room for it. */
static bool send_job(struct raw_client *c, struct rng rng)
{
    struct owed *const owed = &c->owed[slot_of(c, c->head)];
    struct task task;

    task_draw(&task, &rng, CELL_ELEMENTS, true);
    const bool wide = gm_op_row(task.c.op).wide != 0;
    if (!has_room(c, wide))
        return false;
    see_no_second(c, c->head);
    *owed = (struct owed){.is = true, .position = c->head, .task = task};
    task_place(&owed->task, c->arena.data + slot_of(c, c->head) * CELL, CELL_ELEMENTS);
    owed->record = record_new(c->world, c->ledger, task.c.op, c->life, (int)c->lane.device);
    owed->record->state = RECORD_ACCEPTED;
    if (wide)
        c->owed[slot_of(c, c->head + 1u)] = (struct owed){.is = true, .second = true, .position = c->head + 1u};
    publish(c, owed, 8);
    c->head += wide ? 2u : 1u;
    return true;
}

static void take(struct raw_client *c, struct owed *owed, int status, uint64_t result)
{
    const char *const bad = explained(c->world, owed->record, status) ? NULL : task_wrong(&owed->task, status, result);

    if (bad != NULL)
        complain(c->world, "raw client %u.%u, %u slots, position %" PRIu64 ": %s", c->ledger->slot,
                 c->ledger->incarnation, c->lane.slots, owed->position, bad);
    record_answer(c->world, c->ledger, owed->record, status);
    if (gm_op_row(owed->task.c.op).wide)
        c->owed[slot_of(c, owed->position + 1u)].is = false;
    owed->is = false;
}

static uint32_t reap(struct raw_client *c)
{
    uint32_t owed = 0;

    for (uint32_t i = 0; i < c->lane.slots; i++) {
        struct owed *const o = &c->owed[i];
        if (!o->is || o->second)
            continue;
        const struct gm_granule g = gm_load16_sys(&c->lane.cq[i]);
        if (g.w[3] != gm_lap(o->position, c->lane.log2)) {
            owed++;
            continue;
        }
        c->last[i] = g;
        c->reaped++;
        take(c, o, gm_completion_status(g), gm_completion_result(g));
    }
    return owed;
}

/* What has no completion gets none. */
static void give_up(struct raw_client *c, int status)
{
    reap(c);
    for (uint32_t i = 0; i < c->lane.slots; i++)
        if (c->owed[i].is && !c->owed[i].second)
            take(c, &c->owed[i], status, 0);
    c->broken = true;
}

static void arm(struct raw_client *c, bool asleep)
{
    const struct gm_granule wait = {{(uint32_t)c->reaped, (uint32_t)(c->reaped >> 32), asleep, 0}};

    gm_store16_sys(&c->lane.header->wait, wait);
}

static void sleep_for_wake(struct raw_client *c)
{
    struct pollfd p[2] = {{.fd = c->lane.wake, .events = POLLIN}, {.fd = c->raw.fd, .events = POLLIN}};
    const uint64_t reaped = c->reaped;
    char bytes[64];
    int ready = 1;

    arm(c, true);
    gm_fence_sys();
    const uint32_t owed = reap(c);
    if (c->reaped == reaped && gm_load_relaxed_u32(&c->lane.header->state) == GM_LANE_OPEN)
        ready = poll(p, 2, WAIT_MS / 2);
    arm(c, false);
    if (ready == 0)
        complain(c->world, "raw client %u.%u slept for %u ms and was not woken; %s", c->ledger->slot,
                 c->ledger->incarnation, WAIT_MS / 2, reap(c) < owed ? "it should have been" : "nothing came");
    while (read(c->lane.wake, bytes, sizeof bytes) > 0)
        ;
}

/* Until at most so many are owed. */
static void drain(struct raw_client *c, uint32_t left, bool asleep)
{
    const uint64_t end_ms = now_ms() + WAIT_MS;
    uint32_t owed;

    while ((owed = reap(c)) > left && !c->broken) {
        const uint32_t state = gm_load_acquire_u32(&c->lane.header->state);
        if (raw_ended(&c->raw))
            give_up(c, GM_ECLOSED);
        else if (state == GM_LANE_CLOSED) /* a daemon that drains answers what it accepted, and took no more */
            give_up(c, c->lane.header->reason == GM_EDRAINING ? GM_EDRAINING : GM_ECLOSED);
        else if (state == GM_LANE_LOST)
            give_up(c, GM_EDEVICELOST);
        else if (asleep)
            sleep_for_wake(c);
        else
            sleep_ms(0);
        if (now_ms() > end_ms)
            complain(c->world, "raw client %u.%u: %u jobs have no completion after %u ms, lane state %u, asleep %u",
                     c->ledger->slot, c->ledger->incarnation, owed, WAIT_MS, state, c->lane.header->asleep);
    }
}

static void cancel_one(struct raw_client *c, struct rng *rng)
{
    struct owed *const o = &c->owed[random_below(rng, c->lane.slots)];

    if (!o->is || o->second)
        return;
    o->record->flags |= RECORD_CANCELLED;
    const int rc = raw_cancel(&c->raw, &c->lane, o->position, WAIT_MS);
    /* ETIMEDOUT: the device process gave up on its dispatcher. */
    const bool known = rc == GM_OK || rc == GM_ENOTFOUND || rc == GM_EBUSY || rc == GM_ETIMEDOUT;
    if (!known && !explained(c->world, o->record, rc))
        wrong(c, "cancel", rc);
}

static void die_between_granules(struct raw_client *c, struct rng *rng)
{
    const uint32_t granules = random_below(rng, 8);
    struct owed owed = {.position = c->head};

    note(c->world, "raw client %u.%u dies after %u granules", c->ledger->slot, c->ledger->incarnation, granules);
    task_draw(&owed.task, rng, CELL_ELEMENTS, true);
    if (has_room(c, true)) {
        task_place(&owed.task, c->arena.data + slot_of(c, c->head) * CELL, CELL_ELEMENTS);
        publish(c, &owed, granules);
        raw_ring(&c->lane);
    }
    kill(getpid(), SIGKILL);
}

static void act(struct raw_client *c, struct rng *rng)
{
    const uint32_t dice = random_below(rng, 8), jobs = random_from(rng, 1, 40), left = random_below(rng, 4);
    const bool asleep = random_one_in(rng, 2);

    if (dice == 0)
        raw_ring_anyway(&c->lane, 1);
    if (dice == 1)
        arm(c, true); /* and does not sleep: bytes that nobody needs */
    if (dice == 2) {
        if (!good(c, "lane.close", raw_lane_close(&c->raw, &c->lane, WAIT_MS)))
            return;
        raw_lane_unmap(&c->lane);
        c->ledger->lanes--;
        if (!open_lane(c, rng))
            return;
    }
    for (uint32_t i = 0; i < jobs && !c->broken; i++) {
        const struct rng one = {random_next(rng)};
        const bool batch = random_one_in(rng, 3), cancel = random_one_in(rng, 16), look = random_one_in(rng, 3);
        struct rng which = {random_next(rng)};
        if (!send_job(c, one)) {
            raw_ring(&c->lane);
            drain(c, 0, asleep);
            if (c->broken || !send_job(c, one))
                break;
        }
        if (!batch)
            raw_ring(&c->lane);
        if (cancel)
            cancel_one(c, &which);
        if (look && !batch)
            drain(c, left, asleep);
    }
    if (c->broken)
        return;
    raw_ring(&c->lane);
    drain(c, 0, asleep);
    for (uint32_t i = 0; i < c->lane.slots && !c->broken; i++)
        if (!c->owed[i].is)
            see_no_second(c, i);
}

void raw_client_round(struct world *world, struct ledger *ledger, uint32_t round)
{
    static struct raw_client client;
    const struct client_plan *const plan = &ledger->plan;
    const uint32_t actions = world->plan.round[round].actions;

    client.world = world, client.ledger = ledger;
    for (uint32_t a = 0; a < actions; a++) {
        struct rng rng = random_of(world->plan.seed, KEY_RAW + ledger->slot * 64u + ledger->incarnation, round, a);
        struct rng opening = random_of(world->plan.seed, KEY_RAW + ledger->slot * 64u + ledger->incarnation, round,
                                       a + 1000u);
        if (ledger->records + 64u > RECORDS_MAX)
            return;
        if (!be_open(&client, &opening)) {
            sleep_ms(2);
            continue;
        }
        if (plan->death == DEATH_GRANULE && round == ledger->first_round + plan->death_round &&
            a == plan->death_action % actions)
            die_between_granules(&client, &rng);
        act(&client, &rng);
    }
}
