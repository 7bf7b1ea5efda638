/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures what client processes get over lanes of the real gridmilld: round trips, sums, copies, sleep, new processes,
 * clients that come and go, a fault. No CUDA is linked into this program, so its processes are such as the users have.
 * Prints figures, never judges them; exit status 1 means that something failed. Bounded by counts and a budget per
 * figure.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "copies.h"
#include "echo.h"
#include "lanes.h"
#include "options.h"
#include "source_id.h"

#define PARTS(P)                                                                                                       \
    P(trips, "no-op round trips of one client, alone and beside idle lanes")                                           \
    P(sums, "sums of 2^10, 2^12 ... f32 in device memory")                                                             \
    P(copies, "copies of 2^12, 2^16 ... bytes between shared and device memory, both ways")                            \
    P(sleep, "the first job after a park, the wake of a client that sleeps")                                           \
    P(starts, "connect to first result in a new process, and its GPU memory")                                          \
    P(cycles, "clients that come, go and are killed beside others that work")                                          \
    P(fault, "a fault of the device with full lanes (needs --drill)")

static const struct {
    const char *name, *help;
    bool (*run)(struct gm_lanes *l);
} parts[] = {
#define P(name, help) {#name, help, gm_lanes_##name},
    PARTS(P)
#undef P
};
enum { PARTS_COUNT = sizeof parts / sizeof *parts };

enum { SAMPLES_MOST = 4000000 };

static void usage(FILE *to)
{
    fputs("usage: bench_lanes [OPTION...]\n\n"
          "Starts gridmilld and measures what client processes get over their lanes.\n\n"
          "  --part NAME        only this part (default: all)\n"
          "  --device NAME      cpu or cuda:INDEX (default: cpu)\n"
          "  --daemon PATH      gridmilld (default: beside this program)\n"
          "  --drill PATH       device process built with GM_DRILLS, or the folder of it\n"
          "  --start-s N        the daemon is given up after so long without an answer (default 60)\n"
          "  --samples N        round trips of one figure (default 200000)\n"
          "  --budget-ms N      one figure takes about so long at most (default 1000)\n"
          "  --sum-log2 N       of the largest sum (default 30 on a GPU, else 22)\n"
          "  --copy-log2 N      of the bytes of the largest copy (default 28 on a GPU, else 20)\n"
          "  --rotate-mib N     inputs of sums are taken in turn from so much memory (default 256)\n"
          "  --idle N           idle lanes beside the active one (default 255)\n"
          "  --cycles N         clients that come and go (default 10000)\n"
          "  --cycles-s N       and the time for them (default 30)\n"
          "  --fault-clients N  clients with full lanes at the fault (default 16)\n"
          "  --fault-jobs N     jobs of each (default 900)\n"
          "  --json             print JSON\n\nparts:\n",
          to);
    for (uint32_t i = 0; i < PARTS_COUNT; i++)
        fprintf(to, "  %-18s %s\n", parts[i].name, parts[i].help);
}

struct options {
    const char *part;
    bool json, help;
};

static bool known_part(const char *name)
{
    for (uint32_t i = 0; i < PARTS_COUNT; i++)
        if (strcmp(parts[i].name, name) == 0)
            return true;
    return false;
}

static bool parse(int argc, char **argv, struct gm_lanes *l, struct options *o)
{
    const struct gm_bench_option table[] = {
        GM_BENCH_STRING("part", o->part),
        GM_BENCH_STRING("device", l->device),
        GM_BENCH_STRING("daemon", l->daemon),
        GM_BENCH_STRING("drill", l->drill),
        GM_BENCH_COUNT("start-s", l->start_s, 1, 3600, 1),
        GM_BENCH_COUNT("samples", l->count, 20, SAMPLES_MOST, 1),
        GM_BENCH_COUNT("budget-ms", l->budget_ns, 1, 60000, 1000000),
        GM_BENCH_COUNT("sum-log2", l->sum_log2, 10, 34, 1),
        GM_BENCH_COUNT("copy-log2", l->copy_log2, GM_COPIES_LOG2_MIN, GM_COPIES_LOG2_MAX, 1),
        GM_BENCH_COUNT("rotate-mib", l->rotated_bytes, 1, 65536, 1u << 20),
        GM_BENCH_COUNT("idle", l->idle, 1, 255, 1),
        GM_BENCH_COUNT("cycles", l->cycles, 2, 1000000, 1),
        GM_BENCH_COUNT("cycles-s", l->cycles_s, 1, 3600, 1),
        GM_BENCH_COUNT("fault-clients", l->fault_clients, 1, GM_LANES_CREW_MAX, 1),
        GM_BENCH_COUNT("fault-jobs", l->fault_jobs, 50, GM_LANE_JOBS, 1),
        GM_BENCH_SWITCH("json", o->json),
        GM_BENCH_SWITCH("help", o->help),
        {0}};
    if (!gm_bench_parse(argc, argv, table))
        return false;
    if (o->part && !known_part(o->part))
        return fprintf(stderr, "bench_lanes: --part: no part %s\n", o->part), false;
    return true;
}

/* 256 lanes need more descriptors than a process has by itself; the daemon inherits the limit. */
static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max < 8192u ? limit.rlim_max : 8192u;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void facts(const struct gm_lanes *l)
{
    char text[32];
    gm_figures_fact(l->figures, "lanes_device", l->device);
    snprintf(text, sizeof text, "%ld, clients not pinned", sysconf(_SC_NPROCESSORS_ONLN));
    gm_figures_fact(l->figures, "cores", text);
    gm_figures_fact(l->figures, "source_id", GM_SOURCE_ID);
}

int main(int argc, char **argv)
{
    static char daemon_path[PATH_MAX], peers_path[PATH_MAX], self[PATH_MAX];
    struct gm_figures figures;
    struct options o = {0};
    struct gm_lanes l = {.figures = &figures, .device = "cpu", .count = 200000, .budget_ns = 1000000000u, .start_s = 60,
                         .idle = 255, .cycles = 10000, .cycles_s = 30, .fault_clients = 16, .fault_jobs = 900,
                         .rotated_bytes = UINT64_C(256) << 20};
    if (argc == 3 && strcmp(argv[1], GM_ECHO_FLAG) == 0)
        return gm_lanes_echo(argv[2]);
    if (argc == 3 && strcmp(argv[1], "--as-newcomer") == 0)
        return gm_lanes_newcomer(argv[2]);
    if (!parse(argc, argv, &l, &o) || o.help) {
        usage(o.help ? stdout : stderr);
        return o.help ? 0 : 2;
    }
    const bool gpu = strncmp(l.device, "cuda", 4) == 0;
    l.self = gm_bench_beside("bench_lanes", self);
    l.daemon = l.daemon ? l.daemon : gm_bench_beside("gridmilld", daemon_path);
    l.peers = gpu && access(gm_bench_beside("bench_peers", peers_path), X_OK) == 0 ? peers_path : NULL;
    l.sum_log2 = l.sum_log2 ? l.sum_log2 : gpu ? 30u : 22u;
    l.copy_log2 = l.copy_log2 ? l.copy_log2 : gpu ? GM_COPIES_LOG2_MAX : 20u;
    raise_descriptors();
    signal(SIGPIPE, SIG_IGN); /* a child that ended early is told as what it is */
    if (!gm_samples_make(&l.samples, l.count + 1000u)) {
        fputs("bench_lanes: no memory for samples\n", stderr);
        return 1;
    }
    gm_figures_begin(&figures, stdout, o.json, "bench_lanes");
    facts(&l);
    bool good = true;
    for (uint32_t i = 0; good && i < PARTS_COUNT; i++)
        good = (o.part && strcmp(o.part, parts[i].name) != 0) || parts[i].run(&l);
    gm_samples_free(&l.samples);
    if (!good)
        fprintf(stderr, "bench_lanes: %s\n", l.text);
    return gm_figures_end(&figures) && good ? 0 : 1; /* what was measured before a failure stays measured */
}
