/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures what client processes get over lanes of the real gridmilld: round trips, sums, copies, sleep, new processes,
 * clients that come and go, a fault. No CUDA is linked into this program, so its processes are such as the users have.
 * Prints figures, never judges them; exit status 1 means that something failed. Bounded by counts and a budget per
 * figure.
 */
#include <getopt.h>
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

enum flag { PART, DEVICE, DAEMON, DRILL, JSON, HELP, START, SAMPLES, BUDGET, SUM, COPY, ROTATE, IDLE, CYCLES, CYCLES_S,
            FAULT_CLIENTS, FAULT_JOBS };

static bool take_number(struct gm_lanes *l, enum flag flag, const char *text)
{
    unsigned long v = 0;
    switch (flag) {
    case START:
        return gm_bench_number(text, 1, 3600, &v) && (l->start_s = (uint32_t)v, true);
    case SAMPLES:
        return gm_bench_number(text, 20, SAMPLES_MOST, &v) && (l->count = v, true);
    case BUDGET:
        return gm_bench_number(text, 1, 60000, &v) && (l->budget_ns = (uint64_t)v * 1000000u, true);
    case SUM:
        return gm_bench_number(text, 10, 34, &v) && (l->sum_log2 = (uint32_t)v, true);
    case COPY:
        return gm_bench_number(text, GM_COPIES_LOG2_MIN, GM_COPIES_LOG2_MAX, &v) && (l->copy_log2 = (uint32_t)v, true);
    case ROTATE:
        return gm_bench_number(text, 1, 65536, &v) && (l->rotated_bytes = (uint64_t)v << 20, true);
    case IDLE:
        return gm_bench_number(text, 1, 255, &v) && (l->idle = (uint32_t)v, true);
    case CYCLES:
        return gm_bench_number(text, 2, 1000000, &v) && (l->cycles = (uint32_t)v, true);
    case CYCLES_S:
        return gm_bench_number(text, 1, 3600, &v) && (l->cycles_s = (uint32_t)v, true);
    case FAULT_CLIENTS:
        return gm_bench_number(text, 1, GM_LANES_CREW_MAX, &v) && (l->fault_clients = (uint32_t)v, true);
    default:
        return gm_bench_number(text, 50, GM_LANE_JOBS, &v) && (l->fault_jobs = (uint32_t)v, true);
    }
}

static bool take(struct gm_lanes *l, struct options *o, enum flag flag, const char *text)
{
    switch (flag) {
    case PART:
        o->part = text;
        return known_part(text);
    case DEVICE:
        l->device = text;
        return true;
    case DAEMON:
        l->daemon = text;
        return true;
    case DRILL:
        l->drill = text;
        return true;
    case JSON:
        return o->json = true;
    case HELP:
        return o->help = true;
    default:
        return take_number(l, flag, text);
    }
}

static bool parse(int argc, char **argv, struct gm_lanes *l, struct options *o)
{
    static const struct option options[] = {{"part", required_argument, NULL, PART},
                                            {"device", required_argument, NULL, DEVICE},
                                            {"daemon", required_argument, NULL, DAEMON},
                                            {"drill", required_argument, NULL, DRILL},
                                            {"start-s", required_argument, NULL, START},
                                            {"samples", required_argument, NULL, SAMPLES},
                                            {"budget-ms", required_argument, NULL, BUDGET},
                                            {"sum-log2", required_argument, NULL, SUM},
                                            {"copy-log2", required_argument, NULL, COPY},
                                            {"rotate-mib", required_argument, NULL, ROTATE},
                                            {"idle", required_argument, NULL, IDLE},
                                            {"cycles", required_argument, NULL, CYCLES},
                                            {"cycles-s", required_argument, NULL, CYCLES_S},
                                            {"fault-clients", required_argument, NULL, FAULT_CLIENTS},
                                            {"fault-jobs", required_argument, NULL, FAULT_JOBS},
                                            {"json", no_argument, NULL, JSON},
                                            {"help", no_argument, NULL, HELP},
                                            {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;)
        if (c == '?' || !take(l, o, (enum flag)c, optarg))
            return false;
    return optind == argc;
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
