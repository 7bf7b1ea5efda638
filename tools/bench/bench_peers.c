/* SPDX-License-Identifier: Apache-2.0
 *
 * What bench_lanes is compared with, and all of that which needs CUDA: the bare echo, of a process without CUDA too,
 * launches, graphs, CUB's sums, the copy engine; with --ops instead the peers of the catalogue's ops. Nobody else may
 * be on the GPU meanwhile. With --free-memory it measures nothing, and answers every line of its input with the free
 * bytes of the GPU. Exit status 1 means that something failed.
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

#include "copies.h"
#include "options.h"
#include "peers.h"
#include "source_id.h"

struct options {
    const char *device, *client;
    unsigned long samples, budget_ms, sum_log2, copy_log2, ops_log2, rotate_mib;
    bool json, free_memory, ops;
};

static const char usage_text[] =
    "usage: bench_peers [--device cuda:INDEX] [--client PATH] [--samples N] [--budget-ms N] [--sum-log2 N]\n"
    "                   [--copy-log2 N] [--rotate-mib N] [--json]\n"
    "       bench_peers --ops [--device cuda:INDEX] [--samples N] [--budget-ms N] [--log2-max N] [--rotate-mib N]\n"
    "                   [--json]\n"
    "       bench_peers [--device cuda:INDEX] --free-memory\n"
    "\n"
    "  --client PATH   the echo's client, a program without CUDA (default: bench_lanes beside this program)\n";

static bool parse(int argc, char **argv, struct options *o)
{
    static const struct option options[] = {
        {"device", required_argument, NULL, 'd'},    {"client", required_argument, NULL, 'c'},
        {"samples", required_argument, NULL, 's'},   {"budget-ms", required_argument, NULL, 't'},
        {"sum-log2", required_argument, NULL, 'l'},  {"rotate-mib", required_argument, NULL, 'r'},
        {"copy-log2", required_argument, NULL, 'p'}, {"json", no_argument, NULL, 'j'},
        {"free-memory", no_argument, NULL, 'f'},     {"ops", no_argument, NULL, 'o'},
        {"log2-max", required_argument, NULL, 'm'},  {NULL, 0, NULL, 0},
    };
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == '?' || (c == 's' && !gm_bench_number(optarg, 20, 4000000, &o->samples)) ||
            (c == 't' && !gm_bench_number(optarg, 1, 60000, &o->budget_ms)) ||
            (c == 'l' && !gm_bench_number(optarg, 10, 30, &o->sum_log2)) ||
            (c == 'p' && !gm_bench_number(optarg, GM_COPIES_LOG2_MIN, GM_COPIES_LOG2_MAX, &o->copy_log2)) ||
            (c == 'm' && !gm_bench_number(optarg, 10, 28, &o->ops_log2)) ||
            (c == 'r' && !gm_bench_number(optarg, 1, 65536, &o->rotate_mib)))
            return false;
        if (c == 'd')
            o->device = optarg;
        else if (c == 'c')
            o->client = optarg;
        else if (c == 'j')
            o->json = true;
        else if (c == 'f')
            o->free_memory = true;
        else if (c == 'o')
            o->ops = true;
    }
    return optind == argc;
}

static int tell_free_memory(int device)
{
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        printf("%llu\n", (unsigned long long)gm_peers_free_memory(device));
        if (fflush(stdout) != 0)
            return 1;
    }
    return 0;
}

static int peers_of_lanes(struct gm_peers *peers, struct gm_figures *figures, const struct options *o)
{
    int status = gm_peers_floor(peers, figures);
    if (status == 0)
        status = gm_peers_rate(peers, figures);
    if (status == 0)
        status = gm_peers_echo_process(peers, figures, o->client);
    if (status == 0)
        status = gm_peers_sums(peers, figures, (unsigned)o->sum_log2, (uint64_t)o->rotate_mib << 20,
                               (uint64_t)o->budget_ms * 1000000u);
    if (status == 0)
        status = gm_peers_copies(peers, figures, (unsigned)o->copy_log2, (uint64_t)o->budget_ms * 1000000u / 2u);
    return status;
}

int main(int argc, char **argv)
{
    static char client[PATH_MAX];
    struct options o = {.device = "cuda:0",
                        .samples = 200000,
                        .sum_log2 = 30,
                        .rotate_mib = 256,
                        .copy_log2 = GM_COPIES_LOG2_MAX,
                        .ops_log2 = 28};
    struct gm_figures figures;
    unsigned long index = 0;
    char text[160];
    if (!parse(argc, argv, &o) || strncmp(o.device, "cuda:", 5) != 0 ||
        !gm_bench_number(o.device + 5, 0, 1000, &index)) {
        fputs(usage_text, stderr);
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a kernel of ours must not outlive whoever measures */
    struct gm_peers peers = {.device = (int)index, .samples = o.samples};
    setenv("CUDA_MODULE_LOADING", "EAGER", 1); /* before the first CUDA call: no sample loads a kernel */
    if (o.free_memory)
        return tell_free_memory(peers.device);
    o.budget_ms = o.budget_ms != 0 ? o.budget_ms : o.ops ? 30 : 500; /* there are many ops */
    o.client = o.client ? o.client : gm_bench_beside("bench_lanes", client);
    gm_figures_begin(&figures, stdout, o.json, "bench_peers");
    gm_peers_driver(text, sizeof text);
    gm_figures_fact(&figures, "driver", text);
    gm_figures_fact(&figures, "source_id", GM_SOURCE_ID);
    const int status = o.ops ? gm_peers_ops(&peers, &figures, (unsigned)o.ops_log2, (uint64_t)o.rotate_mib << 20,
                                            (uint64_t)o.budget_ms * 1000000u)
                             : peers_of_lanes(&peers, &figures, &o);
    if (status != 0)
        fprintf(stderr, "bench_peers: %s\n", peers.text);
    return gm_figures_end(&figures) && status == 0 ? 0 : 1; /* what was measured before a failure stays measured */
}
