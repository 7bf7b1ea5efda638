/* SPDX-License-Identifier: Apache-2.0
 *
 * chaos [--seed N | --seeds A..B] [--seconds S] [--small | --slow] [--verbose] [--keep]: one line for each seed; for
 * one that fails, what was wrong, its steps and the end of the daemon's log. Without arguments a short run, as in CI.
 * The same seed makes the same decisions; it does not make the same interleaving.
 */
#include "chaos.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEED_MS 400000u /* for one seed: something is stuck that has no bound of its own */

struct options {
    uint64_t first, last, seconds;
    bool small, slow, verbose, keep;
};

/* ---- One seed ---- */

static int await_runner(pid_t runner, struct world *world)
{
    const uint64_t end_ms = now_ms() + SEED_MS;
    int status = 0;

    while (waitpid(runner, &status, WNOHANG) == 0) {
        if (now_ms() > end_ms && !world->plan.keep) {
            note(world, "the runner is stuck");
            kill(runner, SIGKILL);
        }
        sleep_ms(2);
    }
    return status;
}

static uint64_t jobs_of(const struct world *world)
{
    uint64_t jobs = 0;

    for (uint32_t i = 0; i < world->ledgers; i++)
        for (uint32_t k = 0; k < world->ledger[i].records && k < RECORDS_MAX; k++)
            jobs += world->ledger[i].record[k].state == RECORD_ANSWERED;
    return jobs;
}

static bool run_seed(uint64_t seed, const struct options *options)
{
    struct world *const world = world_new();
    uint32_t faults = 0;

    plan_make(&world->plan, seed, options->small, options->slow);
    world->plan.keep = options->keep;
    fflush(NULL);
    const pid_t runner = fork();
    if (runner == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run(world);
    }
    const int status = runner > 0 ? await_runner(runner, world) : 1;
    const bool good = status == 0 && world->failed == 0;
    world_end_orphans();
    for (uint32_t i = 0; i < world->plan.rounds; i++)
        faults += world->plan.round[i].faults;
    printf("seed %" PRIu64 " %s on %s: %u clients, %" PRIu64 " jobs answered, %u faults%s%s, %u daemons, %.1f s%s%s\n",
           seed, good ? "ok" : "FAILED", world->device, (uint32_t)world->ledgers, jobs_of(world), faults,
           world->plan.drill[0] != '\0' ? ", drill " : "", world->plan.drill, (uint32_t)world->life,
           (double)(now_ms() - world->start_ms) / 1000.0, good ? "" : ": ", good ? "" : world->failure);
    if (!good || options->verbose)
        world_show(world, !good);
    if (!good)
        printf("again: chaos --seed %" PRIu64 "%s%s\n", seed, options->small ? " --small" : "",
               options->slow ? " --slow" : "");
    fflush(NULL);
    munmap(world, sizeof *world);
    return good;
}

/* ---- Options ---- */

static void usage(void)
{
    fprintf(stderr, "usage: chaos [--seed N | --seeds A..B] [--seconds S] [--small | --slow] [--verbose] [--keep]\n");
    exit(2);
}

static struct options parse(int argc, char **argv)
{
    struct options o = {.first = 1, .last = UINT64_MAX};

    for (int i = 1; i < argc; i++) {
        const char *const value = i + 1 < argc ? argv[i + 1] : NULL;
        char *end = NULL;
        if (strcmp(argv[i], "--small") == 0)
            o.small = true;
        else if (strcmp(argv[i], "--slow") == 0)
            o.slow = true;
        else if (strcmp(argv[i], "--verbose") == 0)
            o.verbose = true;
        else if (strcmp(argv[i], "--keep") == 0)
            o.keep = true;
        else if (value == NULL)
            usage();
        else if (strcmp(argv[i], "--seed") == 0)
            o.first = o.last = strtoull(argv[++i], &end, 10);
        else if (strcmp(argv[i], "--seconds") == 0)
            o.seconds = strtoull(argv[++i], &end, 10);
        else if (strcmp(argv[i], "--seeds") == 0 && strstr(value, "..") != NULL)
            o.first = strtoull(argv[++i], NULL, 10), o.last = strtoull(strstr(value, "..") + 2, &end, 10);
        else
            usage();
        if (end != NULL && *end != '\0')
            usage();
    }
    if (argc == 1)
        o.small = true, o.seconds = 8, o.last = 20;
    if (o.last == UINT64_MAX && o.seconds == 0)
        usage();
    return o;
}

int main(int argc, char **argv)
{
    const struct options options = parse(argc, argv);
    const uint64_t end_ms = options.seconds != 0 ? now_ms() + options.seconds * 1000u : UINT64_MAX;
    uint64_t passed = 0, failed = 0;

    signal(SIGPIPE, SIG_DFL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (uint64_t seed = options.first; seed <= options.last && now_ms() < end_ms; seed++) {
        if (run_seed(seed, &options))
            passed++;
        else
            failed++;
        if (seed == UINT64_MAX)
            break;
    }
    printf("%" PRIu64 " seeds passed, %" PRIu64 " failed\n", passed, failed);
    return failed == 0 && passed != 0 ? 0 : 1;
}
