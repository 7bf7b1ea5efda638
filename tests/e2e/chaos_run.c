/* SPDX-License-Identifier: Apache-2.0
 *
 * One seed: starts the daemon and the clients, lets the rounds run, commits the faults when as many jobs are answered
 * as the plan says, and looks at everything between the rounds. One thread; every wait is bounded.
 */
#include "chaos_runner.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define STALL_MS 300u /* without an answer, after which a fault waits for no more */

void runner_figures(struct runner *r, struct figures *f)
{
    struct figures earlier = r->seen;

    if (!figures_get(r->observer, f))
        complain(r->world, "the daemon does not answer stats");
    const char *const wrong = figures_wrong(f, earlier.devices != 0 ? &earlier : NULL);
    if (wrong != NULL)
        complain(r->world, "%s", wrong);
    r->seen = *f;
}

void runner_thaw(struct runner *r, uint32_t d)
{
    if (r->frozen[d] != 0)
        kill(r->frozen[d], SIGCONT);
    r->frozen[d] = 0;
}

/* ---- The daemon ---- */

static void connect_observer(struct runner *r)
{
    const struct gm_options options = {.socket = r->daemon.socket, .admin = 1};
    const uint64_t end_ms = now_ms() + WAIT_MS;
    struct gm_failure failure;
    int status;

    while (gm_open(&options, &r->observer, &failure) != GM_OK) {
        if (waitpid(r->daemon.pid, &status, WNOHANG) == r->daemon.pid)
            complain(r->world, "the daemon ended at its start, status %x", status);
        if (now_ms() > end_ms)
            complain(r->world, "the daemon does not come up: %s", failure.text);
        sleep_ms(2);
    }
}

static bool is_up(const char *state)
{
    return strcmp(state, "up") == 0 || strcmp(state, "asleep") == 0;
}

/* What the driver of a GPU opens with the first lane and the first memory of each kind stays open. No job: all of them
 * are in the ledgers. */
static void warm_up(struct runner *r)
{
    struct gm_client *const client = daemon_open(&r->daemon);
    const uint64_t end_ms = now_ms() + WAIT_MS;
    struct gm_arena *arena;
    struct figures f;
    bool quiet = false;

    if (gm_arena_create(client, 1 << 20, GM_MEMORY_SHARED, 0, in_ms(WAIT_MS), &arena) != GM_OK ||
        gm_arena_create(client, 1 << 20, GM_MEMORY_DEVICE, 0, in_ms(WAIT_MS), &arena) != GM_OK)
        complain(r->world, "the first client gets no memory");
    gm_close(client);
    while (!quiet) {
        runner_figures(r, &f);
        quiet = f.sessions == 1 && f.arenas == 0 && f.device[0].lanes == 0 && f.fds == r->base_fds;
        if (now_ms() > end_ms)
            complain(r->world, "the first client's memory does not come back");
        sleep_ms(1);
    }
}

/* A run on a GPU is one of the GPU. */
static void see_backend(struct runner *r, const struct figures *f)
{
    if (strcmp(f->device[0].backend, on_gpu() ? "cuda" : "cpu") != 0)
        complain(r->world, "device 0 is a %s device", f->device[0].backend);
    snprintf(r->world->device, sizeof r->world->device, "%s", f->device[0].backend);
}

static void await_devices(struct runner *r)
{
    const uint64_t end_ms = now_ms() + WAIT_MS;
    bool up = false;
    struct figures f;

    while (!up) {
        runner_figures(r, &f);
        up = f.devices == r->world->plan.devices;
        for (uint32_t d = 0; d < f.devices; d++)
            up &= is_up(f.device[d].state);
        if (!up && now_ms() > end_ms)
            complain(r->world, "device 0 is %s", f.device[0].state);
        sleep_ms(1);
    }
    see_backend(r, &f);
    for (uint32_t d = 0; d < f.devices; d++)
        r->first[d] = (pid_t)f.device[d].pid;
    if (r->world->life != 1)
        return; /* clients are back already */
    r->base_fds = f.fds;
    if (on_gpu())
        warm_up(r);
    for (uint32_t d = 0; d < f.devices; d++) {
        r->device_fds[d] = descriptors_of(r->first[d]);
        r->device_maps[d] = maps_of(r->first[d]);
    }
}

static void choose_drill(struct runner *r)
{
#ifdef GM_DRILLS
    char text[300];

    r->drill = r->world->life == 0 && r->world->plan.drill[0] != '\0';
    if (!r->drill)
        return;
    r->drill_crashes = strncmp(r->world->plan.drill, "abort", 5) == 0 || strncmp(r->world->plan.drill, "trap", 4) == 0;
    snprintf(text, sizeof text, "%s,once=%s/once", r->world->plan.drill, r->daemon.folder);
    setenv("GRIDMILL_DRILL", text, 1);
    for (uint32_t d = 0; d < DEVICES_HERE; d++)
        r->world->losses[d]++;
#else
    (void)r;
#endif
}

void runner_start_daemon(struct runner *r)
{
    const struct plan *const plan = &r->world->plan;
    static char names[DEVICES_HERE][16], park[16];

    for (uint32_t d = 0; d < DEVICES_HERE; d++)
        snprintf(names[d], sizeof names[d], "cpu:%u", plan->workers[d]);
    snprintf(park, sizeof park, "%u", plan->park_ms);
    if (!on_gpu()) /* there is one GPU: the second device is always a CPU */
        setenv("GRIDMILL_TEST_DEVICE", names[0], 1);
    uint32_t n = 0;
    r->daemon.arguments[n++] = "--idle-park-ms", r->daemon.arguments[n++] = park;
    if (plan->devices > 1)
        r->daemon.arguments[n++] = "--device", r->daemon.arguments[n++] = names[1];
    r->daemon.arguments[n] = NULL;
    /* Of every second seed all copies between shared and device memory are the copy engine's. */
    setenv("GRIDMILL_ENGINE_BYTES", plan->seed % 2u == 1u ? "1" : "0", 1);
    choose_drill(r);
    memset(&r->seen, 0, sizeof r->seen);
    r->world->life++;
    daemon_spawn(&r->daemon);
    unsetenv("GRIDMILL_DRILL");
    note(r->world, "daemon %u is process %d", r->world->life, r->daemon.pid);
    connect_observer(r);
    await_devices(r);
}

void runner_end_daemon(struct runner *r, int signal)
{
    const int expected = signal == SIGKILL ? 128 + SIGKILL : 0;

    r->world->ending = r->world->life;
    if (signal != SIGKILL)
        for (uint32_t d = 0; d < DEVICES_HERE; d++)
            runner_thaw(r, d);
    kill(r->daemon.pid, signal);
    const int status = daemon_wait(&r->daemon, WAIT_MS);
    if (status != expected)
        complain(r->world, "after signal %d the daemon ended with %d", signal, status);
    for (uint32_t d = 0; d < DEVICES_HERE; d++)
        runner_thaw(r, d);
    gm_close(r->observer);
    r->observer = NULL;
}

/* ---- Clients ---- */

static void start_client(struct runner *r, uint32_t slot, uint32_t round)
{
    struct world *const world = r->world;
    struct ledger *const l = &world->ledger[world->ledgers];

    if (world->ledgers == LEDGERS_MAX)
        return;
    l->slot = slot, l->incarnation = r->incarnations[slot]++, l->first_round = round;
    plan_client(&world->plan, slot, l->incarnation, &l->plan);
    note(world, "client %u.%u: %s, window %u, slots %u%s%s", slot, l->incarnation, kind_name(l->plan.kind),
         l->plan.window, l->plan.slots, l->plan.death != DEATH_NONE ? ", dies: " : "", death_name(l->plan.death));
    fflush(NULL);
    const pid_t pid = fork();
    if (pid < 0)
        complain(world, "fork failed");
    if (pid == 0) {
        gm_close(r->observer);
        client_live(world, l);
    }
    l->pid = pid;
    world->ledgers++;
    r->client[slot] = l;
}

static void client_ended(struct runner *r, struct ledger *l, int status)
{
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;

    l->dead = true;
    if (r->client[l->slot] == l)
        r->client[l->slot] = NULL;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && r->world->over)
        return;
    if (!killed || !(l->killed || l->plan.death != DEATH_NONE))
        complain(r->world, "client %u.%u (%s) ended with status %x", l->slot, l->incarnation, kind_name(l->plan.kind),
                 status);
}

static void child_ended(struct runner *r, pid_t pid, int status)
{
    for (uint32_t i = 0; i < r->world->ledgers; i++) {
        struct ledger *const l = &r->world->ledger[i];
        if (l->pid == pid && !l->dead)
            client_ended(r, l, status);
        if (l->holder == pid) {
            l->holder = 0;
            if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                complain(r->world, "a forked child of client %u ended with status %x", l->slot, status);
        }
    }
}

void runner_reap(struct runner *r)
{
    siginfo_t info;
    int status;

    for (;;) {
        memset(&info, 0, sizeof info);
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
            return;
        if (info.si_pid == r->daemon.pid)
            complain(r->world, "the daemon ended by itself: %s %d", info.si_code == CLD_EXITED ? "status" : "signal",
                     info.si_status);
        if (waitpid(info.si_pid, &status, 0) == info.si_pid)
            child_ended(r, info.si_pid, status);
    }
}

static void turn(struct runner *r)
{
    runner_reap(r);
    if (r->world->failed)
        exit(1);
    for (uint32_t d = 0; d < DEVICES_HERE; d++)
        if (r->frozen[d] != 0 && now_ms() >= r->thaw_ms[d])
            runner_thaw(r, d);
    sleep_ms(1);
}

static bool all_done(const struct runner *r, uint32_t round)
{
    bool done = true;

    for (uint32_t i = 0; i < CLIENTS_MAX; i++)
        done &= r->client[i] == NULL || r->client[i]->rounds_done > round;
    return done;
}

static void await_all(struct runner *r, uint32_t round)
{
    const uint64_t end_ms = now_ms() + 3u * WAIT_MS;

    while (!all_done(r, round)) {
        turn(r);
        if (now_ms() <= end_ms)
            continue;
        for (uint32_t i = 0; i < CLIENTS_MAX; i++)
            if (r->client[i] != NULL && r->client[i]->rounds_done <= round)
                complain(r->world, "client %u.%u (%s, process %d) does not come to the end of round %u", i,
                         r->client[i]->incarnation, kind_name(r->client[i]->plan.kind), r->client[i]->pid, round);
    }
}

/* ---- Rounds ---- */

static uint64_t jobs_expected(const struct runner *r, uint32_t round)
{
    uint64_t jobs = 0;

    for (uint32_t i = 0; i < CLIENTS_MAX; i++)
        if (r->client[i] != NULL)
            jobs += r->world->plan.round[round].actions * (r->client[i]->plan.window / 2u + 1u);
    return jobs;
}

/* Its time comes with the jobs that are answered; when those stop, now. */
static void await_fault(struct runner *r, uint32_t round, uint64_t jobs)
{
    uint64_t answered = r->world->answered, since_ms = now_ms();

    while (r->world->answered < jobs && !all_done(r, round) && now_ms() - since_ms < STALL_MS) {
        turn(r);
        if (r->world->answered != answered)
            answered = r->world->answered, since_ms = now_ms();
    }
}

static void play_round(struct runner *r, uint32_t round)
{
    struct world *const world = r->world;
    const struct round_plan *const plan = &world->plan.round[round];
    bool doomed = false;

    for (uint32_t i = 0; i < world->plan.clients; i++)
        if (r->client[i] == NULL)
            start_client(r, i, round);
    note(world, "round %u: %u actions, %u faults", round, plan->actions, plan->faults);
    world->answered = 0;
    const uint64_t jobs = jobs_expected(r, round);
    world->round = round + 1u;
    for (uint32_t i = 0; i < plan->faults; i++) {
        const struct fault *const f = &plan->fault[i];
        await_fault(r, round, jobs * f->share / 1000u);
        if (f->us != 0)
            usleep(f->us);
        runner_fault(r, f);
    }
    await_all(r, round);
    for (uint32_t d = 0; d < DEVICES_HERE; d++) {
        runner_thaw(r, d);
        doomed |= world->doomed[d] == world->life;
    }
    check_quiet(r);
    if (doomed) {
        runner_end_daemon(r, SIGTERM);
        runner_start_daemon(r);
    }
}

static void dismiss_clients(struct runner *r)
{
    const uint64_t end_ms = now_ms() + WAIT_MS;
    bool left = true;

    r->world->over = true;
    while (left) {
        turn(r);
        left = false;
        for (uint32_t i = 0; i < r->world->ledgers; i++)
            left |= !r->world->ledger[i].dead || r->world->ledger[i].holder != 0;
        if (left && now_ms() > end_ms)
            complain(r->world, "a client does not come to its end");
    }
}

static void await_no_child(struct runner *r)
{
    const uint64_t end_ms = now_ms() + 20000;
    pid_t pid;

    while ((pid = waitpid(-1, NULL, WNOHANG)) >= 0 || errno != ECHILD) {
        if (pid == 0 && now_ms() > end_ms)
            complain(r->world, "a process is left behind");
        sleep_ms(1);
    }
}

void run(struct world *world)
{
    static struct runner runner;
    struct runner *const r = &runner;

    prctl(PR_SET_CHILD_SUBREAPER, 1);
    r->world = world;
    daemon_init(&r->daemon);
    snprintf(world->socket, sizeof world->socket, "%s", r->daemon.socket);
    note(world, "folder %s, devices %u (cpu:%u, cpu:%u), park %u ms, clients %u, rounds %u, drill \"%s\"",
         r->daemon.folder, world->plan.devices, world->plan.workers[0], world->plan.workers[1], world->plan.park_ms,
         world->plan.clients, world->plan.rounds, world->plan.drill);
    runner_start_daemon(r);
    for (uint32_t round = 0; round < world->plan.rounds; round++)
        play_round(r, round);
    dismiss_clients(r);
    check_base(r);
    runner_end_daemon(r, SIGTERM);
    await_no_child(r);
    check_log(r);
    daemon_remove(&r->daemon);
    exit(0);
}
