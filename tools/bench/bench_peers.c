/* SPDX-License-Identifier: Apache-2.0
 *
 * What bench_lanes is compared with, and all of that which needs CUDA: the bare echo, of a process without CUDA too,
 * launches, graphs, CUB's sums, the copy engine; with --ops instead the peers of the catalogue's ops. Nobody else may
 * be on the GPU meanwhile. With --free-memory it measures nothing, and answers every line of its input with the free
 * bytes of the GPU. Exit status 1 means that something failed.
 */
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
    uint64_t samples, budget_ns, rotated_bytes;
    uint32_t sum_log2, copy_log2, ops_log2;
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
    const struct gm_bench_option table[] = {
        GM_BENCH_STRING("device", o->device),
        GM_BENCH_STRING("client", o->client),
        GM_BENCH_COUNT("samples", o->samples, 20, 4000000, 1),
        GM_BENCH_COUNT("budget-ms", o->budget_ns, 1, 60000, 1000000),
        GM_BENCH_COUNT("sum-log2", o->sum_log2, 10, 30, 1),
        GM_BENCH_COUNT("rotate-mib", o->rotated_bytes, 1, 65536, 1u << 20),
        GM_BENCH_COUNT("copy-log2", o->copy_log2, GM_COPIES_LOG2_MIN, GM_COPIES_LOG2_MAX, 1),
        GM_BENCH_COUNT("log2-max", o->ops_log2, 10, 28, 1),
        GM_BENCH_SWITCH("free-memory", o->free_memory),
        GM_BENCH_SWITCH("ops", o->ops),
        GM_BENCH_SWITCH("json", o->json),
        {0}};
    return gm_bench_parse(argc, argv, table);
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
        status = gm_peers_sums(peers, figures, o->sum_log2, o->rotated_bytes, o->budget_ns);
    if (status == 0)
        status = gm_peers_copies(peers, figures, o->copy_log2, o->budget_ns / 2u);
    return status;
}

int main(int argc, char **argv)
{
    static char client[PATH_MAX];
    struct options o = {.device = "cuda:0",
                        .samples = 200000,
                        .sum_log2 = 30,
                        .rotated_bytes = UINT64_C(256) << 20,
                        .copy_log2 = GM_COPIES_LOG2_MAX,
                        .ops_log2 = 28};
    struct gm_figures figures;
    uint64_t index = 0;
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
    o.budget_ns = o.budget_ns != 0 ? o.budget_ns : o.ops ? 30000000u : 500000000u; /* there are many ops */
    o.client = o.client ? o.client : gm_bench_beside("bench_lanes", client);
    gm_figures_begin(&figures, stdout, o.json, "bench_peers");
    gm_peers_driver(text, sizeof text);
    gm_figures_fact(&figures, "driver", text);
    gm_figures_fact(&figures, "source_id", GM_SOURCE_ID);
    const int status = o.ops ? gm_peers_ops(&peers, &figures, o.ops_log2, o.rotated_bytes, o.budget_ns)
                             : peers_of_lanes(&peers, &figures, &o);
    if (status != 0)
        fprintf(stderr, "bench_peers: %s\n", peers.text);
    return gm_figures_end(&figures) && status == 0 ? 0 : 1; /* what was measured before a failure stays measured */
}
