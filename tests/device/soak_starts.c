/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts a device in a new process, many times in a row: each opens the hardware, checks every worker in, answers a
 * job, closes it and ends through its exit handlers, as a device process does. With --beside-load another process keeps
 * the GPU busy meanwhile. The parent makes no CUDA call; a child that is not done in CHILD_S is killed and counts as
 * failed. Exit status 1 when any start failed.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bed.h"
#ifdef GM_BED_CUDA
#include "peers.h"
#endif

#define CHILD_S 30u
#define NUMBERS 50000u
#define LOAD_US 500u
#define FAILURES_MOST 5u /* enough to see; the rest would say the same */
#define TELL_EVERY 25u

/* In the child: a device from nothing to an answer and back. */
static int one_start(const struct gm_backend *backend)
{
    static struct gm_bed bed;
    const struct gm_device_config config = {.device = strcmp(backend->name, "cuda") == 0 ? "cuda:0" : "cpu",
                                            .workspace_bytes = UINT64_C(64) << 20,
                                            .idle_ns = UINT64_MAX};
    struct gm_bed_arena *arena = NULL;
    uint32_t words[GM_DESC_WORDS];
    uint64_t result = 0;
    int status = gm_bed_open(&bed, backend, &config, 0);
    if (status == GM_OK)
        status = gm_bed_arena_open(&bed, NUMBERS * 4u, false, 1, &arena);
    if (status == GM_OK) {
        for (uint32_t i = 0; i < NUMBERS; i++)
            ((uint32_t *)(void *)arena->host)[i] = i;
        gm_bed_words(words, GM_OP_sum, GM_DTYPE_u32, NUMBERS, arena, 0, NULL, 0);
        status = gm_bed_run(&bed, words, &result);
    }
    if (status == GM_OK && result != (uint64_t)NUMBERS * (NUMBERS - 1u) / 2u) {
        snprintf(bed.text, sizeof bed.text, "wrong sum");
        status = GM_EINTERNAL;
    }
    if (status == GM_OK)
        status = gm_bed_close(&bed);
    if (status != GM_OK && status != GM_ENODEVICE)
        fprintf(stderr, "soak_starts: %s (status %d)\n", bed.text, status);
    return status == GM_OK ? 0 : status == GM_ENODEVICE ? 77 : 1;
}

static void die_with_parent(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(CHILD_S);
}

static pid_t start_load(bool wanted)
{
    const pid_t child = wanted ? fork() : -1;
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
#ifdef GM_BED_CUDA
        static const uint32_t never;
        struct gm_peers peers = {0};
        if (gm_peers_load(&peers, &never, LOAD_US) != 0)
            fprintf(stderr, "soak_starts: load: %s\n", peers.text);
#endif
        _exit(1);
    }
    if (child > 0)
        sleep(2); /* its context takes a moment; the starts are to happen beside running kernels */
    return child;
}

static int run(const struct gm_backend *backend, uint32_t count, bool beside_load, const pid_t load)
{
    uint64_t slowest = 0, begin = gm_bed_now_ns();
    uint32_t failed = 0;
    for (uint32_t i = 0; i < count && failed < FAILURES_MOST; i++) {
        int status = 0;
        const uint64_t start = gm_bed_now_ns();
        const pid_t child = fork();
        if (child < 0)
            return perror("soak_starts: fork"), 1;
        if (child == 0) {
            die_with_parent();
            const int own = one_start(backend);
            if (own != 0)
                _exit(own); /* something may still run, and an exit handler would wait for it */
            exit(0);
        }
        while (waitpid(child, &status, 0) != child) {
        }
        const uint64_t took = gm_bed_now_ns() - start;
        slowest = took > slowest ? took : slowest;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
            return fprintf(stderr, "soak_starts: skipped: no device\n"), 77;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            failed++;
            fprintf(stderr, "soak_starts: start %u failed, wait status %#x\n", i + 1u, (unsigned)status);
        }
        if (load > 0 && waitpid(load, &status, WNOHANG) == load)
            return fprintf(stderr, "soak_starts: the load ended early\n"), 1;
        if ((i + 1u) % TELL_EVERY == 0) {
            printf("# %u starts in %.1f s, %u failed\n", i + 1u, (double)(gm_bed_now_ns() - begin) / 1e9, failed);
            fflush(stdout);
        }
    }
    printf("soak_starts backend=%s starts=%u failed=%u beside_load=%d mean_ms=%.1f slowest_ms=%.1f\n", backend->name,
           count, failed, beside_load, (double)(gm_bed_now_ns() - begin) / 1e6 / count, (double)slowest / 1e6);
    return failed == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"backend", required_argument, NULL, 'b'},
                                            {"starts", required_argument, NULL, 'n'},
                                            {"beside-load", no_argument, NULL, 'l'},
                                            {NULL, 0, NULL, 0}};
    const char *name = "cpu";
    bool beside_load = false;
    long starts = 200;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        char *end = NULL;
        if (c == 'b')
            name = optarg;
        else if (c == 'l')
            beside_load = true;
        else if (c != 'n' || (starts = strtol(optarg, &end, 10), *end != 0) || starts < 1 || starts > 100000)
            return fputs("usage: soak_starts [--backend cpu|cuda] [--starts N] [--beside-load]\n", stderr), 2;
    }
    const struct gm_backend *backend = gm_bed_backend(name);
    if (!backend || (beside_load && strcmp(name, "cuda") != 0)) {
        fprintf(stderr, "soak_starts: skipped: %s\n",
                backend ? "a load beside it is for GPUs" : "this build has no such backend");
        return 77;
    }
    const pid_t load = start_load(beside_load);
    const int status = run(backend, (uint32_t)starts, beside_load, load);
    if (load > 0) {
        kill(load, SIGKILL);
        (void)waitpid(load, NULL, 0);
    }
    return status;
}
