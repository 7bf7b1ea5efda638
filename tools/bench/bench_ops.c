/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures every op of the catalogue, as a client process without CUDA sees it over its lane: seven sizes, data that
 * lies in memory of the device, inputs taken in turn from more memory than a cache holds; then all ops in turn. Prints
 * figures, never judges them; exit status 1 means that something failed. Bounded by a budget per figure.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "options.h"
#include "ops_bench.h"
#include "source_id.h"
#include "wire.h"

#define SAMPLES_MOST 4000000u

static const char usage_text[] =
    "usage: bench_ops [OPTION...]\n\n"
    "Starts gridmilld and measures every op at 2^10, 2^12, 2^14, 2^16, 2^20, 2^24 and 2^28 elements.\n\n"
    "  --device NAME    cpu or cuda:INDEX (default: cpu)\n"
    "  --op NAME        only this op\n"
    "  --types WHICH    default: one or two that an op is mostly used with; all\n"
    "  --log2-max N     of the largest size (default 28 on a GPU, else 24)\n"
    "  --daemon PATH    gridmilld (default: beside this program)\n"
    "  --start-s N      the daemon is given up after so long without an answer (default 60)\n"
    "  --samples N      at most so many jobs of one figure (default 20000)\n"
    "  --budget-ms N    one figure takes about so long at most (default 30)\n"
    "  --rotate-mib N   inputs are taken in turn from so much memory (default 256 on a GPU, else 64)\n"
    "  --not-in-turn    leave out the ops in turn\n"
    "  --json           print JSON\n"
    "  --help           print this\n";

struct options {
    const char *types;
    bool json, help;
};

static bool parse(int argc, char **argv, struct gm_ops_bench *b, struct options *o)
{
    struct gm_lanes *l = &b->lanes;
    const struct gm_bench_option table[] = {GM_BENCH_STRING("device", l->device),
                                            GM_BENCH_STRING("op", b->op),
                                            GM_BENCH_STRING("types", o->types),
                                            GM_BENCH_COUNT("log2-max", b->log2_max, 10, 28, 1),
                                            GM_BENCH_STRING("daemon", l->daemon),
                                            GM_BENCH_COUNT("start-s", l->start_s, 1, 3600, 1),
                                            GM_BENCH_COUNT("samples", l->count, 20, SAMPLES_MOST, 1),
                                            GM_BENCH_COUNT("budget-ms", l->budget_ns, 1, 60000, 1000000),
                                            GM_BENCH_COUNT("rotate-mib", l->rotated_bytes, 1, 4096, 1u << 20),
                                            GM_BENCH_SWITCH_OFF("not-in-turn", b->alternate),
                                            GM_BENCH_SWITCH("json", o->json),
                                            GM_BENCH_SWITCH("help", o->help),
                                            {0}};
    if (!gm_bench_parse(argc, argv, table))
        return false;
    if (b->op && gm_op_by_name(b->op, strlen(b->op)) < 0)
        return fprintf(stderr, "bench_ops: --op: no op %s\n", b->op), false;
    b->all_types = strcmp(o->types, "all") == 0;
    if (!b->all_types && strcmp(o->types, "default") != 0)
        return fprintf(stderr, "bench_ops: --types: %s is neither default nor all\n", o->types), false;
    return true;
}

static void facts(const struct gm_ops_bench *b)
{
    char text[64];
    gm_figures_fact(b->lanes.figures, "ops_device", b->lanes.device);
    snprintf(text, sizeof text, "%llu MiB", (unsigned long long)(b->lanes.rotated_bytes >> 20));
    gm_figures_fact(b->lanes.figures, "inputs_in_turn", text);
    gm_figures_fact(b->lanes.figures, "source_id", GM_SOURCE_ID);
}

static bool measure(struct gm_ops_bench *b)
{
    static const char *const more[] = {"--quota", "34359738368", NULL}; /* the widest ops at the largest size */
    struct gm_lanes *l = &b->lanes;
    if (!gm_lanes_up(l, more))
        return false;
    /* Beside the threads of a cpu device a client that only spins takes a processor from them. */
    b->client = gm_lanes_open(l, strcmp(l->device, "cpu") == 0 ? GM_WAIT_SPIN_THEN_SLEEP : GM_WAIT_SPIN);
    bool good = b->client != NULL;
    if (good) {
        gm_figures_value(l->figures, "ops_maps_libcuda", "this client process maps libcuda (0: no)", "",
                         gm_process_maps(getpid(), "libcuda"));
        good = gm_ops_alone(b) && (!b->alternate || gm_ops_in_turn(b));
        gm_ops_forget(b);
    }
    gm_close(b->client);
    return gm_lanes_down(l, good);
}

int main(int argc, char **argv)
{
    static char daemon_path[PATH_MAX];
    static struct gm_ops_bench b;
    struct gm_figures figures;
    struct options o = {.types = "default"};
    b.alternate = true;
    b.lanes =
        (struct gm_lanes){.figures = &figures, .device = "cpu", .count = 20000, .budget_ns = 30000000u, .start_s = 60};
    if (!parse(argc, argv, &b, &o) || o.help) {
        fputs(usage_text, o.help ? stdout : stderr);
        return o.help ? 0 : 2;
    }
    const bool gpu = strncmp(b.lanes.device, "cuda", 4) == 0;
    b.lanes.daemon = b.lanes.daemon ? b.lanes.daemon : gm_bench_beside("gridmilld", daemon_path);
    b.log2_max = b.log2_max ? b.log2_max : gpu ? 28u : 24u;
    b.lanes.rotated_bytes = b.lanes.rotated_bytes ? b.lanes.rotated_bytes : UINT64_C(1) << (gpu ? 28u : 26u);
    b.keep_bytes = UINT64_C(1) << (gpu ? 34u : 30u);
    signal(SIGPIPE, SIG_IGN); /* a child that ended early is told as what it is */
    if (!gm_samples_make(&b.lanes.samples, b.lanes.count) || !gm_samples_make(&b.run, b.lanes.count)) {
        fputs("bench_ops: no memory for samples\n", stderr);
        return 1;
    }
    gm_figures_begin(&figures, stdout, o.json, "bench_ops");
    facts(&b);
    const bool good = measure(&b);
    gm_samples_free(&b.lanes.samples);
    gm_samples_free(&b.run);
    if (!good)
        fprintf(stderr, "bench_ops: %s\n", b.lanes.text);
    return gm_figures_end(&figures) && good && b.failed == 0 ? 0 : 1; /* what was measured stays measured */
}
