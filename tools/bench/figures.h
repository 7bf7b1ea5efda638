/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures of a benchmark: samples of a latency become percentiles, everything is written as it is measured, as lines
 * for people or as one JSON object. One thread; a set of samples has the capacity that it was made with.
 */
#ifndef GM_BENCH_FIGURES_H
#define GM_BENCH_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gm_samples {
    uint64_t *ns;
    size_t count, capacity;
};

struct gm_figures {
    FILE *to;
    bool json;
    uint32_t facts, figures;
};

struct gm_figure_part {
    const char *key;
    double value;
};

/* false: no memory. */
bool gm_samples_make(struct gm_samples *samples, size_t capacity);
void gm_samples_free(struct gm_samples *samples);
/* Samples beyond the capacity are not kept. */
static inline void gm_samples_add(struct gm_samples *samples, uint64_t ns)
{
    if (samples->count < samples->capacity)
        samples->ns[samples->count++] = ns;
}

/* Sorts the samples. The smallest one that at least this share of them does not exceed; 0 when there are none. */
uint64_t gm_samples_at(struct gm_samples *samples, double share);

void gm_figures_begin(struct gm_figures *figures, FILE *to, bool json, const char *program);
/* Facts come before the first figure. */
void gm_figures_fact(struct gm_figures *figures, const char *key, const char *value);
/* Sorts the samples: count, p50, p99, p99.9 and the largest, in microseconds. Empties them for the next figure. */
void gm_figures_latency(struct gm_figures *figures, const char *name, const char *what, struct gm_samples *samples);
/* The same, and more that belongs to it, each by a key of its own. */
void gm_figures_latency_with(struct gm_figures *figures, const char *name, const char *what, struct gm_samples *samples,
                             const struct gm_figure_part *parts, size_t count);
void gm_figures_value(struct gm_figures *figures, const char *name, const char *what, const char *unit, double value);
/* Something that was not measured, and why. */
void gm_figures_skipped(struct gm_figures *figures, const char *name, const char *why);
/* false: the output could not be written. */
bool gm_figures_end(struct gm_figures *figures);

#ifdef __cplusplus
}
#endif

#endif
