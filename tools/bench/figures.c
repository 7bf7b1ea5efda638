/* SPDX-License-Identifier: Apache-2.0
 *
 * See figures.h. Names and texts are this program's own; a value from outside (the name of a device) has its quotes
 * and control characters replaced.
 */
#include "figures.h"

#include <stdlib.h>
#include <string.h>

bool gm_samples_make(struct gm_samples *samples, size_t capacity)
{
    samples->ns = malloc(capacity * sizeof *samples->ns); /* touched here, not under the clock */
    samples->capacity = samples->ns ? capacity : 0;
    samples->count = 0;
    if (samples->ns)
        memset(samples->ns, 0xff, capacity * sizeof *samples->ns);
    return samples->ns != NULL;
}

void gm_samples_free(struct gm_samples *samples)
{
    free(samples->ns);
    samples->ns = NULL;
    samples->count = samples->capacity = 0;
}

static void put_text(const struct gm_figures *figures, const char *text)
{
    for (; *text != 0; text++)
        fputc(*text == '"' || *text == '\\' || (unsigned char)*text < 0x20 ? ' ' : *text, figures->to);
}

void gm_figures_begin(struct gm_figures *figures, FILE *to, bool json, const char *program)
{
    figures->to = to;
    figures->json = json;
    figures->facts = figures->figures = 0;
    if (json)
        fprintf(to, "{\"program\": \"%s\", \"facts\": {", program);
}

void gm_figures_fact(struct gm_figures *figures, const char *key, const char *value)
{
    if (figures->json) {
        fprintf(figures->to, "%s\"%s\": \"", figures->facts++ == 0 ? "" : ", ", key);
        put_text(figures, value);
        fputc('"', figures->to);
    } else {
        fprintf(figures->to, "%-14s ", key);
        put_text(figures, value);
        fputc('\n', figures->to);
    }
}

static void figure_begin(struct gm_figures *figures, const char *name)
{
    if (figures->json)
        fprintf(figures->to, "%s\n  {\"name\": \"%s\", ", figures->figures == 0 ? "}, \"figures\": [" : ",", name);
    figures->figures++;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

uint64_t gm_samples_at(struct gm_samples *samples, double share)
{
    size_t at = (size_t)(share * (double)samples->count);
    if (samples->count == 0)
        return 0;
    qsort(samples->ns, samples->count, sizeof *samples->ns, by_value);
    if (at >= samples->count)
        at = samples->count - 1u;
    return samples->ns[at];
}

static double percentile_us(struct gm_samples *samples, double share)
{
    return (double)gm_samples_at(samples, share) / 1e3;
}

void gm_figures_latency_with(struct gm_figures *figures, const char *name, const char *what, struct gm_samples *samples,
                             const struct gm_figure_part *parts, size_t count)
{
    if (samples->count == 0) {
        gm_figures_skipped(figures, name, "no samples");
        return;
    }
    const double p50 = percentile_us(samples, 0.5), p99 = percentile_us(samples, 0.99);
    const double p999 = percentile_us(samples, 0.999), most = percentile_us(samples, 1.0);
    figure_begin(figures, name);
    if (figures->json)
        fprintf(figures->to,
                "\"what\": \"%s\", \"unit\": \"us\", \"count\": %zu, \"p50\": %.3f, \"p99\": %.3f, \"p999\": %.3f, "
                "\"max\": %.3f",
                what, samples->count, p50, p99, p999, most);
    else
        fprintf(figures->to, "%-62s p50 %9.2f  p99 %9.2f  p99.9 %9.2f  max %10.2f us  (%zu)", what, p50, p99, p999,
                most, samples->count);
    for (size_t i = 0; i < count; i++)
        fprintf(figures->to, figures->json ? ", \"%s\": %.10g" : "  %s %.6g", parts[i].key, parts[i].value);
    fputs(figures->json ? "}" : "\n", figures->to);
    fflush(figures->to);
    samples->count = 0;
}

void gm_figures_latency(struct gm_figures *figures, const char *name, const char *what, struct gm_samples *samples)
{
    gm_figures_latency_with(figures, name, what, samples, NULL, 0);
}

void gm_figures_value(struct gm_figures *figures, const char *name, const char *what, const char *unit, double value)
{
    figure_begin(figures, name);
    if (figures->json)
        fprintf(figures->to, "\"what\": \"%s\", \"unit\": \"%s\", \"value\": %.10g}", what, unit, value);
    else
        fprintf(figures->to, "%-62s %13.6g %s\n", what, value, unit);
    fflush(figures->to);
}

void gm_figures_skipped(struct gm_figures *figures, const char *name, const char *why)
{
    figure_begin(figures, name);
    if (figures->json)
        fprintf(figures->to, "\"skipped\": \"%s\"}", why);
    else
        fprintf(figures->to, "%-62s skipped: %s\n", name, why);
}

bool gm_figures_end(struct gm_figures *figures)
{
    if (figures->json)
        fprintf(figures->to, "%s]}\n", figures->figures == 0 ? "}, \"figures\": [" : "");
    return fflush(figures->to) == 0 && !ferror(figures->to);
}
