/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything a run decides, made from the seed before it starts. No process, no time, no state.
 */
#include "chaos.h"

#include <string.h>

enum { KEY_PLAN = 1, KEY_ROUND, KEY_CLIENT };

/* A device that was lost GM_RESTARTS_MAX times in a minute is out of service: faults stay below, except where that is
 * what they are for. */
#define LOSSES_PLANNED (GM_RESTARTS_MAX - 2u)

const char *kind_name(enum client_kind kind)
{
    static const char *const names[KINDS] = {"lockstep", "batch", "event loop", "threads",
                                             "socket",   "sleeper", "stats",    "raw lane"};
    return names[kind];
}

const char *death_name(enum death death)
{
    static const char *const names[DEATHS + 1] = {"",      "connected",  "submitted",    "completions unread",
                                                  "arena.create", "arena.free", "half a message", "forked child",
                                                  "half a descriptor"};
    return names[death];
}

const char *fault_name(enum fault_kind kind)
{
    static const char *const names[FAULTS] = {"kill client",   "kill device", "freeze device", "freeze daemon",
                                              "kill daemon",   "term daemon", "pause",         "drain",
                                              "garbage", "doom device", "stall device"};
    return names[kind];
}

static void make_drill(struct plan *plan, struct rng *rng)
{
    static const char *const drills[] = {"kill-after-jobs", "abort-in-job", "trap-in-job"};
    const uint32_t which = random_below(rng, 16), n = random_from(rng, 1, 60);

    if (which < 3)
        snprintf(plan->drill, sizeof plan->drill, "%s=%u", drills[which], n);
    else if (which == 3)
        snprintf(plan->drill, sizeof plan->drill, "exit-in-pause");
    else if (which == 4 && plan->slow)
        snprintf(plan->drill, sizeof plan->drill, "stall-dispatcher-after=%u", n);
}

static enum fault_kind draw_fault(const struct plan *plan, struct rng *rng)
{
    static const struct {
        enum fault_kind kind;
        uint32_t weight;
    } odds[] = {{FAULT_KILL_CLIENT, 6},  {FAULT_KILL_DEVICE, 6}, {FAULT_FREEZE_DEVICE, 3}, {FAULT_FREEZE_DAEMON, 2},
                {FAULT_KILL_DAEMON, 2},  {FAULT_TERM_DAEMON, 1}, {FAULT_PAUSE, 4},         {FAULT_DRAIN, 1},
                {FAULT_GARBAGE, 2},      {FAULT_DOOM, 1},        {FAULT_STALL, 1}};
    uint32_t total = 0, at = 0;

    for (size_t i = 0; i < sizeof odds / sizeof *odds; i++)
        total += odds[i].weight;
    uint32_t drawn = random_below(rng, total);
    while (drawn >= odds[at].weight)
        drawn -= odds[at++].weight;
    /* The last two take seconds. */
    if (odds[at].kind == FAULT_DOOM && (plan->small || !random_one_in(rng, 2)))
        return FAULT_KILL_CLIENT;
    if (odds[at].kind == FAULT_STALL && (!plan->slow || !random_one_in(rng, 3)))
        return FAULT_FREEZE_DEVICE;
    return odds[at].kind;
}

static bool is_loss(enum fault_kind kind)
{
    return kind == FAULT_KILL_DEVICE || kind == FAULT_STALL;
}

static void draw_round(const struct plan *plan, uint32_t number, struct round_plan *round)
{
    struct rng rng = random_of(plan->seed, KEY_ROUND, number, 0);

    round->actions = plan->small ? random_from(&rng, 3, 8) : random_from(&rng, 5, 30);
    round->faults = random_below(&rng, FAULTS_MAX + 1u);
    for (uint32_t i = 0; i < FAULTS_MAX; i++) {
        struct fault *const f = &round->fault[i];
        f->kind = draw_fault(plan, &rng);
        f->target = random_below(&rng, f->kind == FAULT_KILL_CLIENT ? plan->clients : plan->devices);
        f->share = random_below(&rng, 1000);
        f->us = random_one_in(&rng, 2) ? 0 : random_below(&rng, 3000);
        f->amount = f->kind == FAULT_PAUSE ? random_from(&rng, 1, 5) : random_from(&rng, 1, 200);
    }
    for (uint32_t i = 1; i < round->faults; i++)
        for (uint32_t k = i; k > 0 && round->fault[k - 1].share > round->fault[k].share; k--) {
            const struct fault swap = round->fault[k];
            round->fault[k] = round->fault[k - 1];
            round->fault[k - 1] = swap;
        }
}

/* No device is lost too often in one life of a daemon; a doomed one stays so until the end of its round, and then the
 * daemon is replaced. */
static void bound_losses(struct plan *plan)
{
    uint32_t losses[DEVICES_HERE] = {plan->drill[0] != '\0', plan->drill[0] != '\0'};

    for (uint32_t r = 0; r < plan->rounds; r++) {
        bool doomed = false;
        for (uint32_t i = 0; i < plan->round[r].faults; i++) {
            struct fault *const f = &plan->round[r].fault[i];
            if ((is_loss(f->kind) || f->kind == FAULT_DOOM) && (doomed || losses[f->target] >= LOSSES_PLANNED))
                f->kind = FAULT_FREEZE_DEVICE;
            if (is_loss(f->kind))
                losses[f->target]++;
            doomed |= f->kind == FAULT_DOOM;
            if (f->kind == FAULT_KILL_DAEMON || f->kind == FAULT_TERM_DAEMON || f->kind == FAULT_DRAIN) {
                memset(losses, 0, sizeof losses);
                doomed = false;
            }
        }
        if (doomed)
            memset(losses, 0, sizeof losses);
    }
}

void plan_make(struct plan *plan, uint64_t seed, bool small, bool slow)
{
    static const uint32_t parks[] = {5, 50, 2000};
    struct rng rng = random_of(seed, KEY_PLAN, 0, 0);
    uint32_t faults = 0;

    memset(plan, 0, sizeof *plan);
    plan->seed = seed, plan->small = small, plan->slow = slow && !small;
    plan->devices = random_one_in(&rng, 3) ? 2 : 1;
    for (uint32_t i = 0; i < DEVICES_HERE; i++)
        plan->workers[i] = random_from(&rng, 1, 3);
    plan->park_ms = parks[random_below(&rng, 3)];
    plan->clients = random_from(&rng, 2, small ? 3 : CLIENTS_MAX);
    plan->rounds = random_from(&rng, 2, small ? 2 : ROUNDS_MAX);
    make_drill(plan, &rng);
    for (uint32_t r = 0; r < plan->rounds; r++) {
        draw_round(plan, r, &plan->round[r]);
        faults += plan->round[r].faults;
    }
    if (faults == 0)
        plan->round[random_below(&rng, plan->rounds)].faults = 1;
    bound_losses(plan);
}

void plan_client(const struct plan *plan, uint32_t slot, uint32_t incarnation, struct client_plan *client)
{
    static const uint32_t slots[] = {0, 2, 4, 16, 256};
    struct rng rng = random_of(plan->seed, KEY_CLIENT, slot, incarnation);

    memset(client, 0, sizeof *client);
    client->kind = (enum client_kind)random_below(&rng, KINDS);
    client->window = random_from(&rng, 1, 24);
    client->slots = slots[random_below(&rng, sizeof slots / sizeof *slots)];
    client->threads = random_from(&rng, 2, THREADS_MAX);
    const bool dies = random_one_in(&rng, 3);
    client->death = (enum death)random_from(&rng, DEATH_CONNECTED, DEATHS - 1);
    if (client->kind == KIND_RAW)
        client->death = DEATH_GRANULE;
    if (!dies)
        client->death = DEATH_NONE;
    client->death_round = random_below(&rng, 2);
    client->death_action = random_below(&rng, 4);
    client->wait = random_one_in(&rng, 2) ? GM_WAIT_SPIN_THEN_SLEEP : (enum gm_wait_strategy)random_below(&rng, 3);
    client->lane_only = random_one_in(&rng, 4);
}
