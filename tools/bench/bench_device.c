/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures one device in this process: no-op round trips, rates, jobs on device memory, pauses and parks, and on a GPU
 * the peers (bare echo, launch, graph, CUB) before the resident kernel starts. Prints figures, never judges them; exit
 * status 1 means that a job failed or answered wrong. Bounded by sample counts and a time budget per figure.
 */
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "options.h"
#include "source_id.h"
#ifdef GM_BED_CUDA
#include "peers.h"
#endif

#define PARK_AFTER_NS UINT64_C(5000000)

struct options {
    const char *backend, *device;
    uint64_t samples, budget_ns;
    uint32_t workers;
    bool json, peers, plain, life;
};

static const char usage_text[] =
    "usage: bench_device [--backend cpu|cuda] [--device NAME] [--samples N] [--budget-ms N] [--workers N] [--plain]\n"
    "                    [--no-peers] [--life] [--json]\n";

static bool parse(int argc, char **argv, struct options *o)
{
    const struct gm_bench_option table[] = {GM_BENCH_STRING("backend", o->backend),
                                            GM_BENCH_STRING("device", o->device),
                                            GM_BENCH_COUNT("samples", o->samples, 100, 100000000, 1),
                                            GM_BENCH_COUNT("budget-ms", o->budget_ns, 1, 60000, 1000000),
                                            GM_BENCH_COUNT("workers", o->workers, 1, GM_SHARES_MAX, 1),
                                            GM_BENCH_SWITCH("plain", o->plain),
                                            GM_BENCH_SWITCH_OFF("no-peers", o->peers),
                                            GM_BENCH_SWITCH("life", o->life),
                                            GM_BENCH_SWITCH("json", o->json),
                                            {0}};
    if (!gm_bench_parse(argc, argv, table))
        return false;
    o->peers = o->peers && !o->life;
    return true;
}

static void facts(struct gm_figures *figures, const struct gm_bed *bed)
{
    char text[160];
    gm_figures_fact(figures, "backend", bed->backend->name);
    gm_figures_fact(figures, "device", bed->hello.name);
    gm_figures_fact(figures, "detail", bed->hello.detail);
    snprintf(text, sizeof text, "%u x %u threads", bed->hello.workers, bed->hello.threads);
    gm_figures_fact(figures, "workers", text);
#ifdef GM_BED_CUDA
    gm_peers_driver(text, sizeof text);
    gm_figures_fact(figures, "driver", text);
    snprintf(text, sizeof text, "%d x %d threads an SM, %d registers", GM_CUDA_BLOCKS_PER_SM,
             GM_CUDA_THREADS, GM_CUDA_REGISTERS);
    gm_figures_fact(figures, "shape", strcmp(bed->backend->name, "cuda") == 0 ? text : "threads");
#endif
    gm_figures_fact(figures, "source_id", GM_SOURCE_ID);
}

/* Facts need the device, figures of peers come before it runs: so it is opened once for its description. */
static int describe(const struct options *o, const struct gm_backend *backend, const struct gm_device_config *config,
                    struct gm_figures *figures, struct gm_bed *bed)
{
    int status = gm_bed_open(bed, backend, config, 0);
    if (status != GM_OK)
        return status;
    facts(figures, bed);
    status = gm_bed_close(bed);
#ifdef GM_BED_CUDA
    if (status == GM_OK && o->peers && strcmp(backend->name, "cuda") == 0) {
        struct gm_peers peers = {.samples = o->samples};
        uint64_t index = 0;
        const bool known = strncmp(o->device, "cuda:", 5) == 0 && gm_bench_number(o->device + 5, 0, 1000, &index);
        peers.device = (int)index;
        if (!known || gm_peers_run(&peers, figures) != 0) {
            snprintf(bed->text, sizeof bed->text, "peers: %.140s", known ? peers.text : "need --device cuda:INDEX");
            status = GM_ESYSTEM;
        }
    }
#else
    (void)o;
#endif
    return status;
}

static int measure_all(const struct options *o, const struct gm_backend *backend, struct gm_device_config *config,
                       struct gm_measure *m)
{
    int status = gm_bed_open(m->bed, backend, config, 0);
    if (status != GM_OK)
        return status;
    status = gm_measure_nop(m);
    if (status == GM_OK && !o->life)
        status = gm_measure_rates(m);
    if (status == GM_OK && !o->life)
        status = gm_measure_ops(m);
    if (status == GM_OK)
        status = gm_measure_pauses(m);
    if (status == GM_OK)
        status = gm_measure_parts(m);
    if (status == GM_OK)
        status = gm_measure_beside(m);
    if (status != GM_OK) {
        char text[GM_ERROR_TEXT_MAX]; /* the failure above is the one to tell */
        memcpy(text, m->bed->text, sizeof text);
        (void)gm_bed_close(m->bed);
        memcpy(m->bed->text, text, sizeof text);
        return status;
    }
    status = gm_bed_close(m->bed);
    config->idle_ns = PARK_AFTER_NS;
    if (status == GM_OK)
        status = gm_bed_open(m->bed, backend, config, 0);
    if (status == GM_OK)
        status = gm_measure_sleep(m);
    return status == GM_OK ? gm_bed_close(m->bed) : status;
}

int main(int argc, char **argv)
{
    static struct gm_bed bed;
    struct options o = {.backend = "cpu", .samples = 200000, .budget_ns = 1000000000u, .peers = true};
    struct gm_figures figures;
    if (!parse(argc, argv, &o)) {
        fputs(usage_text, stderr);
        return 2;
    }
    const struct gm_backend *backend = gm_bed_backend(o.backend);
    if (!backend) {
        fprintf(stderr, "bench_device: this build has no %s backend\n", o.backend);
        return 2;
    }
    o.device = o.device ? o.device : strcmp(o.backend, "cuda") == 0 ? "cuda:0" : "cpu";
    setenv("CUDA_MODULE_LOADING", "EAGER", 1); /* before the peers' first CUDA call, as the backend wants it */
    struct gm_device_config config = {.device = o.device, .workers = o.workers, .plain = o.plain,
                                      .workspace_bytes = UINT64_C(1) << 30, .idle_ns = UINT64_MAX,
                                      .copy_bytes = UINT64_MAX}; /* nobody here serves the copy engine */
    struct gm_measure m = {.bed = &bed, .figures = &figures, .count = o.samples,
                           .budget_ns = o.budget_ns};
    if (!gm_samples_make(&m.samples, o.samples + PARK_AFTER_NS / 1000u)) {
        fputs("bench_device: no memory for samples\n", stderr);
        return 1;
    }
    gm_figures_begin(&figures, stdout, o.json, "bench_device");
    int status = describe(&o, backend, &config, &figures, &bed);
    if (status == GM_OK)
        status = measure_all(&o, backend, &config, &m);
    gm_samples_free(&m.samples);
    if (status != GM_OK) {
        fprintf(stderr, "bench_device: %s (status %d)\n", bed.text, status);
        return 1;
    }
    return gm_figures_end(&figures) ? 0 : 1;
}
