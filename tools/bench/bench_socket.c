/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the real gridmilld over its socket, beside Redis on a socket of the same kind: round trips, pipelined
 * requests of one and of four client processes, and the cost of doing nothing. Prints figures, never judges them; exit
 * status 1 means that something failed. Bounded by sample counts and a time budget per figure.
 */
#include "options.h"
#include "socket.h"
#include "source_id.h"

static const char usage_text[] =
    "usage: bench_socket [--device cpu|cuda:N] [--daemon PATH] [--redis PATH] [--samples N] [--budget-ms N]\n"
    "                    [--idle-s N] [--json]\n";

static bool parse(int argc, char **argv, struct gm_socket_bench *bench, bool *json)
{
    const struct gm_bench_option table[] = {GM_BENCH_STRING("device", bench->device),
                                            GM_BENCH_STRING("daemon", bench->daemon),
                                            GM_BENCH_STRING("redis", bench->redis),
                                            GM_BENCH_COUNT("samples", bench->count, 100, 100000000, 1),
                                            GM_BENCH_COUNT("budget-ms", bench->budget_ns, 1, 60000, 1000000),
                                            GM_BENCH_COUNT("idle-s", bench->idle_s, 1, 600, 1),
                                            GM_BENCH_SWITCH("json", *json),
                                            {0}};
    return gm_bench_parse(argc, argv, table);
}

int main(int argc, char **argv)
{
    static char daemon_path[PATH_MAX], redis_path[PATH_MAX];
    struct gm_socket_bench bench = {.device = "cpu", .count = 50000, .budget_ns = 1000000000u, .idle_s = 10};
    struct gm_figures figures;
    bool json = false;
    if (!parse(argc, argv, &bench, &json)) {
        fputs(usage_text, stderr);
        return 2;
    }
    bench.figures = &figures;
    bench.daemon = bench.daemon ? bench.daemon : gm_bench_beside("gridmilld", daemon_path);
    bench.redis = bench.redis ? bench.redis : gm_bench_on_path("redis-server", redis_path);
    if (!gm_samples_make(&bench.samples, bench.count)) {
        fputs("bench_socket: no memory for samples\n", stderr);
        return 1;
    }
    gm_figures_begin(&figures, stdout, json, "bench_socket");
    gm_figures_fact(&figures, "socket_device", bench.device);
    gm_figures_fact(&figures, "source_id", GM_SOURCE_ID);
    const bool good = gm_bench_redis(&bench) && gm_bench_gridmill(&bench);
    gm_samples_free(&bench.samples);
    if (!good) {
        fprintf(stderr, "bench_socket: %s\n", bench.text);
        return 1;
    }
    return gm_figures_end(&figures) ? 0 : 1;
}
