/* SPDX-License-Identifier: Apache-2.0
 *
 * hostile [--seconds S] [--seed N] [--flippers N] [--scribblers N] [--honest N] [--verbose]: clients that mean harm
 * beside honest ones, for so long. The daemon and its device process stay the same, no honest client gets a wrong
 * answer or stands still, and in the end everything is back. How fast the honest ones are is not looked at. Without
 * arguments a short run, as in CI.
 */
#include "hostile.h"

#include "chaos_client.h"
#include "chaos_runner.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define HONEST_MAX 8u

enum { KEY_HONEST = 100 };

struct options {
    uint64_t seconds, seed;
    uint32_t flippers, scribblers, honest;
    bool verbose;
};

static struct harm *harms; /* shared with the hostile processes */

/* ---- For the hostile ---- */

void hostile_status(struct hostile *h, int status)
{
    if (status != GM_OK && strcmp(gm_error_name(status), "E?") == 0)
        complain(h->world, "a hostile client got status %d", status);
}

void hostile_open(struct hostile *h, uint64_t arena_bytes, uint32_t slots)
{
    const uint64_t end_ms = now_ms() + WAIT_MS;

    for (;;) {
        int rc = raw_open(&h->raw, h->world->socket, WAIT_MS);
        if (rc == GM_OK)
            rc = raw_arena_create(&h->raw, arena_bytes, &h->arena, WAIT_MS);
        if (rc == GM_OK)
            rc = raw_lane_open(&h->raw, -1, slots, &h->lane, WAIT_MS);
        if (rc == GM_OK)
            break;
        /* What it did before is still being cleaned up. */
        if (now_ms() > end_ms)
            complain(h->world, "a hostile client cannot come back: %s", gm_status_name(rc));
        hostile_close(h);
        sleep_ms(5);
    }
    h->harm->lanes++;
}

void hostile_close(struct hostile *h)
{
    raw_lane_unmap(&h->lane);
    raw_arena_unmap(&h->arena);
    raw_close(&h->raw);
}

static pid_t start_hostile(struct world *world, struct gm_client *observer, uint32_t number, uint32_t life, bool flips)
{
    static struct hostile hostile;

    fflush(NULL);
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    gm_close(observer);
    hostile = (struct hostile){.world = world, .harm = &harms[number], .number = number, .life = life,
                               .raw.fd = -1};
    if (flips)
        flip_live(&hostile);
    scribble_live(&hostile);
}

/* ---- The honest ---- */

static bool honest_act(struct worker *w, struct rng *rng)
{
    const uint32_t dice = random_below(rng, 16), count = random_from(rng, 1, w->ledger->plan.window);

    if (!work_ready(w))
        return false;
    if (dice == 0)
        return work_free_arenas(w);
    if (dice == 1)
        return work_big(w, rng);
    if (dice == 2)
        return work_chain(w, rng);
    if (dice == 3)
        return work_hurried(w, rng);
    if (w->ledger->plan.kind == KIND_LOOP)
        return work_units(w, rng, count, WAIT_LOOP);
    if (w->ledger->plan.kind == KIND_LOCKSTEP)
        return work_one_by_one(w, rng, count);
    return work_units(w, rng, count, WAIT_AT_RANDOM);
}

static _Noreturn void honest_live(struct world *world, struct ledger *ledger)
{
    static struct worker worker;
    static struct link link;

    client_begin(world, ledger);
    worker = (struct worker){.world = world, .ledger = ledger, .link = &link, .big_elements = 20000};
    link_open(world, ledger, &link);
    for (uint32_t a = 0; !world->over; a++) {
        struct rng rng = random_of(world->plan.seed, KEY_HONEST + ledger->slot, a, 0);
        honest_act(&worker, &rng);
        ledger->rounds_done++;
        if (ledger->records > RECORDS_MAX / 2)
            ledger->records = 0;
    }
    link_close(ledger, &link, &worker, 1);
    free(worker.local);
    exit(0);
}

static void start_honest(struct runner *r, uint32_t slot)
{
    static const enum client_kind kinds[] = {KIND_BATCH, KIND_SOCKET, KIND_LOOP, KIND_LOCKSTEP};
    struct world *const world = r->world;
    struct ledger *const l = &world->ledger[world->ledgers++];

    l->slot = slot;
    l->plan = (struct client_plan){.kind = kinds[slot % 4u], .window = 8, .slots = slot % 2u == 0 ? 0 : 16};
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        gm_close(r->observer);
        honest_live(world, l);
    }
    l->pid = pid;
}

/* ---- The runner ---- */

struct crowd {
    pid_t hostile[HOSTILE_MAX];
    uint32_t progress[HONEST_MAX];
    uint64_t since_ms[HONEST_MAX];
    uint32_t restarts;
};

/* A hostile client that killed itself comes back. */
static void see_hostile(struct runner *r, struct crowd *crowd, const struct options *o)
{
    int status;

    for (uint32_t i = 0; i < o->flippers + o->scribblers; i++) {
        if (waitpid(crowd->hostile[i], &status, WNOHANG) != crowd->hostile[i])
            continue;
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
            complain(r->world, "hostile client %u ended with status %x", i, status);
        crowd->hostile[i] = start_hostile(r->world, r->observer, i, ++crowd->restarts, i < o->flippers);
    }
}

static void see_progress(struct runner *r, struct crowd *crowd, const struct options *o)
{
    for (uint32_t i = 0; i < o->honest; i++) {
        const uint32_t now = r->world->ledger[i].rounds_done;
        if (now != crowd->progress[i])
            crowd->progress[i] = now, crowd->since_ms[i] = now_ms();
        else if (now_ms() - crowd->since_ms[i] > 2u * WAIT_MS)
            complain(r->world, "honest client %u (%s) stands still", i, kind_name(r->world->ledger[i].plan.kind));
    }
}

static void see_daemon(struct runner *r)
{
    struct figures f;

    runner_figures(r, &f);
    for (uint32_t d = 0; d < f.devices; d++)
        if ((pid_t)f.device[d].pid != r->first[d])
            complain(r->world, "device %u was replaced", d);
}

static void watch(struct runner *r, struct crowd *crowd, const struct options *o)
{
    const uint64_t end_ms = now_ms() + o->seconds * 1000u;

    while (now_ms() < end_ms) {
        see_hostile(r, crowd, o);
        runner_reap(r);
        if (r->world->failed)
            exit(1);
        see_progress(r, crowd, o);
        see_daemon(r);
        sleep_ms(20);
    }
}

static void dismiss(struct runner *r, const struct crowd *crowd, const struct options *o)
{
    const uint64_t end_ms = now_ms() + 2u * WAIT_MS;
    bool left = true;

    for (uint32_t i = 0; i < o->flippers + o->scribblers; i++) {
        kill(crowd->hostile[i], SIGKILL);
        waitpid(crowd->hostile[i], NULL, 0);
    }
    r->world->over = true;
    while (left) {
        runner_reap(r);
        if (r->world->failed)
            exit(1);
        left = false;
        for (uint32_t i = 0; i < o->honest; i++)
            left |= !r->world->ledger[i].dead;
        if (left && now_ms() > end_ms)
            complain(r->world, "an honest client does not come to its end");
        sleep_ms(1);
    }
}

/* Whoever did what: nothing of it is left. */
static void see_base(struct runner *r)
{
    const uint64_t end_ms = now_ms() + WAIT_MS;
    struct figures f;

    for (;;) {
        runner_figures(r, &f);
        if (f.sessions == 1 && f.arenas == 0 && f.arena_bytes == 0 && f.fds == r->base_fds && f.device[0].lanes == 0 &&
            f.device[0].depth == 0)
            break;
        if (now_ms() > end_ms)
            complain(r->world,
                     "left behind: sessions %" PRIu64 ", arenas %" PRIu64 ", bytes %" PRIu64 ", descriptors %" PRIu64
                     " instead of %" PRIu64 ", lanes %" PRIu64 ", jobs %" PRIu64,
                     f.sessions, f.arenas, f.arena_bytes, f.fds, r->base_fds, f.device[0].lanes, f.device[0].depth);
        sleep_ms(5);
    }
    check_device_base(r, &f, 0);
}

static _Noreturn void run_hostile(struct world *world, const struct options *o)
{
    static struct runner runner;
    static struct crowd crowd;
    struct runner *const r = &runner;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    r->world = world;
    daemon_init(&r->daemon);
    snprintf(world->socket, sizeof world->socket, "%s", r->daemon.socket);
    runner_start_daemon(r);
    for (uint32_t i = 0; i < o->honest; i++) {
        start_honest(r, i);
        crowd.since_ms[i] = now_ms();
    }
    for (uint32_t i = 0; i < o->flippers + o->scribblers; i++)
        crowd.hostile[i] = start_hostile(world, r->observer, i, 0, i < o->flippers);
    watch(r, &crowd, o);
    for (uint32_t i = 0; i < o->honest; i++)
        if (crowd.progress[i] == 0)
            complain(world, "honest client %u got nothing done", i);
    dismiss(r, &crowd, o);
    see_base(r);
    note(world, "hostile clients killed themselves %u times", crowd.restarts);
    runner_end_daemon(r, SIGTERM);
    check_log(r);
    daemon_remove(&r->daemon);
    exit(0);
}

static void show_harm(const struct options *o)
{
    for (uint32_t i = 0; i < o->flippers + o->scribblers; i++) {
        const struct harm *const h = &harms[i];
        printf("%s %u: %" PRIu64 " lanes, %" PRIu64 " of them closed; jobs %" PRIu64 ", answers %" PRIu64
               ", flips %" PRIu64 ", descriptors %" PRIu64 ", words %" PRIu64 ", rings %" PRIu64 ", cancels %" PRIu64
               "\n",
               i < o->flippers ? "flipper" : "scribbler", i, (uint64_t)h->lanes, (uint64_t)h->closed,
               (uint64_t)h->jobs, (uint64_t)h->answers, (uint64_t)h->flips, (uint64_t)h->descriptors,
               (uint64_t)h->words, (uint64_t)h->bells, (uint64_t)h->cancels);
    }
}

/* ---- Options ---- */

static struct options parse(int argc, char **argv)
{
    struct options o = {.seconds = 4, .seed = 1, .flippers = 1, .scribblers = 1, .honest = 2};

    for (int i = 1; i < argc; i++) {
        char *end = NULL;
        const bool has_value = i + 1 < argc;
        if (strcmp(argv[i], "--verbose") == 0)
            o.verbose = true;
        else if (has_value && strcmp(argv[i], "--seconds") == 0)
            o.seconds = strtoull(argv[++i], &end, 10);
        else if (has_value && strcmp(argv[i], "--seed") == 0)
            o.seed = strtoull(argv[++i], &end, 10);
        else if (has_value && strcmp(argv[i], "--flippers") == 0)
            o.flippers = (uint32_t)strtoul(argv[++i], &end, 10);
        else if (has_value && strcmp(argv[i], "--scribblers") == 0)
            o.scribblers = (uint32_t)strtoul(argv[++i], &end, 10);
        else if (has_value && strcmp(argv[i], "--honest") == 0)
            o.honest = (uint32_t)strtoul(argv[++i], &end, 10);
        else
            end = argv[i];
        if ((end != NULL && *end != '\0') || o.flippers > HOSTILE_MAX || o.scribblers > HOSTILE_MAX - o.flippers ||
            o.honest > HONEST_MAX) {
            fprintf(stderr, "usage: hostile [--seconds S] [--seed N] [--flippers N] [--scribblers N] [--honest N] "
                            "[--verbose]\n");
            exit(2);
        }
    }
    return o;
}

int main(int argc, char **argv)
{
    const struct options o = parse(argc, argv);
    struct world *const world = world_new();
    int status;

    harms = mmap(NULL, HOSTILE_MAX * sizeof *harms, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (harms == MAP_FAILED)
        return 1;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    world->plan = (struct plan){.seed = o.seed, .devices = 1, .workers = {2, 1}, .park_ms = 50};
    const pid_t runner = fork();
    if (runner == 0)
        run_hostile(world, &o);
    const bool good = runner > 0 && waitpid(runner, &status, 0) == runner && status == 0 && world->failed == 0;
    world_end_orphans();
    printf("seed %" PRIu64 " %s on %s: %" PRIu64 " s, honest jobs %" PRIu64 "%s%s\n", o.seed, good ? "ok" : "FAILED",
           world->device, o.seconds, (uint64_t)world->answered, good ? "" : ": ", good ? "" : world->failure);
    show_harm(&o);
    if (!good || o.verbose)
        world_show(world, !good);
    return good ? 0 : 1;
}
