/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a client process: it connects, does the actions of each round, and dies where its plan says so. What it
 * did is in its ledger, and outlives it. One process a client; its threads live for a round.
 */
#include "chaos_client.h"
#include "chaos_lane.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { KEY_ACTION = 10 };

/* ---- For clients of any kind ---- */

void client_begin(struct world *world, struct ledger *ledger)
{
    (void)world;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    ledger->pid = getpid();
}

bool await_round(struct world *world, uint32_t round)
{
    while (world->round <= round && !world->over)
        sleep_ms(1);
    return world->round > round;
}

struct record *record_new(struct world *world, struct ledger *ledger, uint32_t op, uint32_t life, int device)
{
    const uint32_t at = ledger->records++;

    if (at >= RECORDS_MAX)
        complain(world, "client %u has no room to write down its jobs", ledger->slot);
    struct record *const r = &ledger->record[at];
    r->flags = 0;
    r->op = (uint8_t)op;
    r->life = (uint16_t)life;
    r->device = (uint8_t)(device + 1);
    for (uint32_t d = 0; d < DEVICES_HERE; d++)
        r->repaired[d] = (uint8_t)world->repaired[d];
    return r;
}

void record_answer(struct world *world, struct ledger *ledger, struct record *record, int status)
{
    record->status = (int8_t)status;
    const int before = atomic_exchange(&record->state, RECORD_ANSWERED);

    if (before != RECORD_ACCEPTED)
        complain(world, "client %u.%u: job %u was answered with %s in state %d", ledger->slot, ledger->incarnation,
                 (uint32_t)(record - ledger->record), gm_status_name(status), before);
    world->answered++;
}

/* ---- The connection ---- */

static struct gm_client *try_open(struct world *world, const struct client_plan *plan, struct gm_failure *failure)
{
    const bool no_lane = plan->kind == KIND_SOCKET || plan->kind == KIND_STATS;
    const struct gm_options options = {.socket = world->socket, .deadline_ns = in_ms(5000),
                                       .lane_slots = no_lane ? GM_NO_LANE : plan->slots, .wait = plan->wait,
                                       .lane_only = !no_lane && plan->lane_only};
    struct gm_client *client;

    const int rc = gm_open(&options, &client, failure);
    if (rc == GM_OK)
        return client;
    if (rc != GM_ECONNECT && rc != GM_ETIMEDOUT && rc != GM_ECLOSED && rc != GM_EDRAINING && rc != GM_EDEVICELOST)
        complain(world, "gm_open: %s (%s)", gm_status_name(rc), failure->text);
    return NULL;
}

void link_open(struct world *world, struct ledger *ledger, struct link *link)
{
    const uint64_t end_ms = now_ms() + WAIT_MS;
    struct gm_failure failure = {0};

    for (;;) {
        const uint32_t life = world->life;
        link->client = try_open(world, &ledger->plan, &failure);
        if (link->client != NULL && life == world->life) {
            link->life = life;
            link->broken = false;
            ledger->life = life;
            return;
        }
        gm_close(link->client);
        if (now_ms() > end_ms)
            complain(world, "client %u cannot connect: %s", ledger->slot, failure.text);
        sleep_ms(2);
    }
}

void link_close(struct ledger *ledger, struct link *link, struct worker *workers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        work_forget(&workers[i]);
    ledger->arenas = 0;
    ledger->arena_bytes = 0;
    ledger->life = 0;
    gm_close(link->client);
    link->client = NULL;
}

/* ---- Death ---- */

static _Noreturn void die(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static _Noreturn void child_of_the_dead(struct worker *w, uint32_t ms)
{
    struct gm_job job = {0};
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);

    if (gm_submit(w->link->client, &nop, &job) != GM_EFORKED || gm_ping(w->link->client, in_ms(1000)) != GM_EFORKED)
        complain(w->world, "a forked child may use its parent's client");
    sleep_ms(ms);
    /* Not by _exit(): there the thread sanitizer counts threads of the parent, ended and not joined yet, as leaks. */
    (void)syscall(SYS_exit_group, 0);
    abort();
}

static void die_forked(struct worker *w, struct rng *rng)
{
    const uint32_t ms = random_below(rng, 200);
    const pid_t child = fork();

    if (child == 0)
        child_of_the_dead(w, ms);
    w->ledger->holder = child;
    die();
}

static void die_in_a_frame(struct worker *w)
{
    struct raw raw;

    if (raw_open(&raw, w->world->socket, WAIT_MS) == GM_OK)
        raw_send(raw.fd, "\0\0\0\40\224", 5);
    die();
}

static void die_at(struct worker *w, struct rng *rng, enum death death)
{
    struct gm_failure failure;
    struct gm_arena *arena;

    note(w->world, "client %u.%u dies: %s", w->ledger->slot, w->ledger->incarnation, death_name(death));
    if (death == DEATH_CONNECTED)
        (void)try_open(w->world, &w->ledger->plan, &failure);
    if (death == DEATH_ARENA)
        (void)gm_arena_create(w->link->client, 1 << 20, GM_MEMORY_SHARED, GM_DEVICE_ANY, 0, &arena);
    if (death == DEATH_SUBMITTED || death == DEATH_UNREAD || death == DEATH_FORKED)
        work_send(w, rng, w->ledger->plan.window);
    if (death == DEATH_UNREAD)
        sleep_ms(5);
    if (death == DEATH_FREE)
        (void)gm_arena_free(w->arena, 0);
    if (death == DEATH_FORKED)
        die_forked(w, rng);
    if (death == DEATH_FRAME)
        die_in_a_frame(w);
    die();
}

/* ---- Actions ---- */

static bool look_at_stats(struct worker *w, struct rng *rng)
{
    struct figures before, now;
    const uint32_t looks = random_from(rng, 1, 20);

    for (uint32_t i = 0; i < looks; i++) {
        before = now;
        if (!figures_get(w->link->client, &now))
            return work_call(w, "gm_ping", gm_ping(w->link->client, in_ms(WAIT_MS)));
        const char *const wrong = figures_wrong(&now, i == 0 ? NULL : &before);
        if (wrong != NULL)
            complain(w->world, "%s", wrong);
        w->world->answered++;
    }
    return true;
}

static bool act(struct worker *w, struct rng *rng)
{
    const struct client_plan *const plan = &w->ledger->plan;
    const uint32_t dice = random_below(rng, 16), count = random_from(rng, 1, plan->window);
    const uint32_t gap_ms = random_below(rng, 30);

    if (plan->kind == KIND_STATS)
        return look_at_stats(w, rng);
    if (!work_ready(w))
        return false;
    if (dice == 0)
        return work_free_arenas(w);
    if (dice == 1)
        return work_big(w, rng);
    if (dice == 2 || dice == 3)
        return work_chain(w, rng);
    if (dice == 4)
        return work_hurried(w, rng);
    if (dice == 5)
        return work_named(w, rng);
    switch (plan->kind) {
    case KIND_LOOP:
        return work_units(w, rng, count, WAIT_LOOP);
    case KIND_SLEEPER:
        sleep_ms(gap_ms);
        return work_one_by_one(w, rng, 1 + count / 8);
    case KIND_LOCKSTEP:
        return work_one_by_one(w, rng, count);
    case KIND_THREADS:
    case KIND_SOCKET:
        if (random_one_in(rng, 2))
            return work_one_by_one(w, rng, count);
        return work_units(w, rng, count, WAIT_IN_ORDER);
    default:
        return work_units(w, rng, count, WAIT_AT_RANDOM);
    }
}

struct part {
    struct worker *worker;
    uint32_t round, actions;
    bool alone; /* the process has no other thread now */
};

static void do_actions(const struct part *part)
{
    struct worker *const w = part->worker;
    const struct client_plan *const plan = &w->ledger->plan;

    for (uint32_t a = 0; a < part->actions; a++) {
        struct rng rng = random_of(w->world->plan.seed, KEY_ACTION + w->ledger->slot * 64u + w->ledger->incarnation,
                                   part->round, a * THREADS_MAX + w->thread);
        if (w->link->broken && !part->alone)
            return;
        if (w->link->broken) {
            link_close(w->ledger, w->link, w, 1);
            link_open(w->world, w->ledger, w->link);
        }
        if (plan->death != DEATH_NONE && part->round == w->ledger->first_round + plan->death_round &&
            a == plan->death_action % part->actions && w->thread == 0 && (plan->kind == KIND_STATS || work_ready(w)))
            die_at(w, &rng, plan->kind == KIND_STATS ? DEATH_CONNECTED : plan->death);
        if (w->ledger->records + 2u * WINDOW_MAX * THREADS_MAX > RECORDS_MAX)
            return;
        if (!act(w, &rng))
            sleep_ms(1);
    }
}

static void *do_part(void *argument)
{
    do_actions(argument);
    return NULL;
}

static void do_round(struct worker workers[THREADS_MAX], uint32_t count, uint32_t round)
{
    struct world *const world = workers[0].world;
    struct part part[THREADS_MAX];
    pthread_t thread[THREADS_MAX];

    for (uint32_t i = 0; i < count; i++)
        part[i] = (struct part){&workers[i], round, world->plan.round[round].actions, count == 1};
    for (uint32_t i = 1; i < count; i++)
        if (pthread_create(&thread[i], NULL, do_part, &part[i]) != 0)
            complain(world, "no thread");
    do_actions(&part[0]);
    for (uint32_t i = 1; i < count; i++)
        pthread_join(thread[i], NULL);
}

_Noreturn void client_live(struct world *world, struct ledger *ledger)
{
    static struct worker workers[THREADS_MAX];
    static struct link link;
    const uint32_t count = ledger->plan.kind == KIND_THREADS ? ledger->plan.threads : 1;

    client_begin(world, ledger);
    for (uint32_t i = 0; i < count; i++)
        workers[i] = (struct worker){.world = world, .ledger = ledger, .link = &link, .thread = i,
                                     .big_elements = world->plan.small ? 8000u : 40000u};
    if (ledger->plan.kind != KIND_RAW)
        link_open(world, ledger, &link);
    for (uint32_t round = ledger->first_round; await_round(world, round); round++) {
        if (ledger->plan.kind == KIND_RAW) {
            raw_client_round(world, ledger, round);
        } else {
            if (link.broken) {
                link_close(ledger, &link, workers, count);
                link_open(world, ledger, &link);
            }
            do_round(workers, count, round);
        }
        ledger->rounds_done = round + 1u;
    }
    if (link.client != NULL)
        link_close(ledger, &link, workers, count);
    for (uint32_t i = 0; i < count; i++)
        free(workers[i].local);
    exit(0);
}
