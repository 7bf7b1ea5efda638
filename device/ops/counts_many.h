/* SPDX-License-Identifier: Apache-2.0
 *
 * Histograms of the CPU backend of more bins than a share has a row for: one row in the workspace for all shares, in
 * the phases that plan.h names. One thread a share. As in counts_many.cuh: a share counts the bins that it saw first
 * for a place of a small table there, so that a bin that many elements have is no word that all threads write; elements
 * that are sorted by their bins' high bits go by way of a little memory for each digit, so that whole lines are
 * written, and are counted where the caches hold the counters.
 *
 * A source of bins is a function that is inlined: the bin of element first + k of the job, GM_BIN_NONE for none.
 */
#ifndef GM_OPS_COUNTS_MANY_H
#define GM_OPS_COUNTS_MANY_H

#include "core/plan.h"
#include "counts.h"

#define GM_MANY_PLACES 4096u                /* of a share's table */
#define GM_MANY_LINE 64u                    /* bins of one digit that are moved at a time */
#define GM_MANY_STRETCH (UINT64_C(1) << 30) /* elements that are added to 32-bit counters before these are emptied */
#define GM_MANY_INLINE static inline __attribute__((always_inline))

typedef uint32_t gm_many_source(const void *context, uint64_t first, uint64_t k);

struct gm_many_row {
    void *words;
    uint32_t bins;
    bool narrow;
};

static inline struct gm_many_row gm_many_row(const struct gm_job *job)
{
    const struct gm_many_row row = {(uint8_t *)(uintptr_t)job->workspace + gm_hist_row_offset(job), job->bins,
                                    gm_hist_word(job) == 4u};
    return row;
}

/* For a bin of any other thread's too. */
static inline void gm_many_add(const struct gm_many_row *row, uint32_t bin, uint32_t times)
{
    if (bin >= row->bins)
        return;
    if (row->narrow)
        (void)gm_fetch_add_relaxed_u32((uint32_t *)row->words + bin, times);
    else
        (void)gm_fetch_add_relaxed_u64((uint64_t *)row->words + bin, times);
}

/* Of each digit, in the workspace: where it begins, the next free place, where it ends. */
static inline uint64_t *gm_many_places(const struct gm_job *job, uint32_t which)
{
    return (uint64_t *)(uintptr_t)job->workspace + which * GM_RADIX;
}
static inline uint64_t *gm_many_own(const struct gm_job *job, uint32_t share)
{
    return (uint64_t *)(uintptr_t)(job->workspace + gm_hist_share_offset(share));
}
static inline uint32_t *gm_many_bins(const struct gm_job *job)
{
    return (uint32_t *)(uintptr_t)(job->workspace + gm_hist_bins_offset(job));
}

static inline void gm_many_clear(const struct gm_run *run)
{
    const struct gm_many_row row = gm_many_row(run->job);
    const uint64_t word = gm_hist_word(run->job);
    uint32_t end;
    const uint32_t first = gm_hist_slice(run->job, run->share, &end);
    memset((uint8_t *)row.words + first * word, 0, (end - first) * word);
}

/* What was counted goes out; the share's sum into the workspace. */
static inline void gm_many_store(const struct gm_run *run, uint32_t output)
{
    const struct gm_many_row row = gm_many_row(run->job);
    uint64_t *out = gm_run_buffer(run, output), counted = 0;
    uint32_t end;
    for (uint32_t bin = gm_hist_slice(run->job, run->share, &end); bin < end; bin++) {
        const uint64_t times = row.narrow ? ((const uint32_t *)row.words)[bin] : ((const uint64_t *)row.words)[bin];
        out[bin] = times;
        counted += times;
    }
    *gm_many_own(run->job, run->share) = counted;
}

/* ---- direct ---- */

struct gm_many_table {
    uint32_t bin[GM_MANY_PLACES], times[GM_MANY_PLACES];
    uint64_t since;
};

static inline void gm_many_flush(const struct gm_many_row *row, struct gm_many_table *table)
{
    for (uint32_t place = 0; place < GM_MANY_PLACES; place++)
        if (table->times[place] != 0)
            gm_many_add(row, table->bin[place], table->times[place]);
    memset(table, 0, sizeof *table);
}

GM_MANY_INLINE void gm_many_count(struct gm_run *run, gm_many_source *cell, const void *context, uint32_t per)
{
    const struct gm_many_row row = gm_many_row(run->job);
    struct gm_many_table table;
    uint64_t tile, count;
    memset(&table, 0, sizeof table);
    while (gm_run_next_tile(run, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count) * per;
        for (uint64_t k = 0; k < count * per; k++) {
            const uint32_t bin = cell(context, first, k), place = bin * 2654435761u >> 20;
            static_assert(GM_MANY_PLACES == 1u << 12, "a place has the 12 highest bits");
            if (table.times[place] == 0)
                table.bin[place] = bin;
            if (table.bin[place] == bin)
                table.times[place]++;
            else
                gm_many_add(&row, bin, 1);
        }
        table.since += count * per;
        if (table.since >= GM_MANY_STRETCH)
            gm_many_flush(&row, &table);
    }
    gm_many_flush(&row, &table);
}

/* ---- sorted by high bits ---- */

/* What is in no bin has the last digit. */
static inline uint32_t gm_many_digit(uint32_t bin, uint32_t shift)
{
    return bin >> shift & (GM_RADIX - 1u);
}

GM_MANY_INLINE void gm_many_digits(struct gm_run *run, gm_many_source *cell, const void *context)
{
    const uint32_t shift = gm_hist_shift(run->job->bins);
    uint64_t *seen = gm_many_own(run->job, run->share), tile, count;
    memset(seen, 0, GM_RADIX * sizeof *seen);
    while (gm_run_next_tile(run, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count);
        for (uint64_t k = 0; k < count; k++)
            seen[gm_many_digit(cell(context, first, k), shift)]++;
    }
}

/* Digits of all shares become places below n, whatever was counted. By the last share. */
static inline void gm_many_split(const struct gm_job *job)
{
    uint64_t upto = 0;
    for (uint32_t d = 0; d < GM_RADIX; d++) {
        gm_many_places(job, 0)[d] = gm_many_places(job, 1)[d] = upto < job->n ? upto : job->n;
        for (uint32_t share = 0; share < job->shares; share++)
            upto += gm_many_own(job, share)[d];
        gm_many_places(job, 2)[d] = upto < job->n ? upto : job->n;
    }
}

struct gm_many_lines {
    uint32_t bin[GM_RADIX][GM_MANY_LINE];
    uint32_t held[GM_RADIX];
};

/* Bins of one digit to places that nobody else was given. The client may have changed what was counted: then a digit
 * has more elements than places, and they are dropped, or fewer. */
static inline void gm_many_put(const struct gm_job *job, struct gm_many_lines *lines, uint32_t d)
{
    const uint64_t first = gm_fetch_add_relaxed_u64(&gm_many_places(job, 1)[d], lines->held[d]);
    const uint64_t end = gm_many_places(job, 2)[d], room = first < end ? end - first : 0;
    const uint64_t some = lines->held[d] < room ? lines->held[d] : room;
    memcpy(gm_many_bins(job) + first, lines->bin[d], some * sizeof(uint32_t));
    lines->held[d] = 0;
}

GM_MANY_INLINE void gm_many_move(struct gm_run *run, gm_many_source *cell, const void *context)
{
    const uint32_t shift = gm_hist_shift(run->job->bins);
    struct gm_many_lines lines;
    uint64_t tile, count;
    memset(lines.held, 0, sizeof lines.held);
    while (gm_run_next_tile(run, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count);
        for (uint64_t k = 0; k < count; k++) {
            const uint32_t bin = cell(context, first, k), d = gm_many_digit(bin, shift);
            lines.bin[d][lines.held[d]++] = bin;
            if (lines.held[d] == GM_MANY_LINE)
                gm_many_put(run->job, &lines, d);
        }
    }
    for (uint32_t d = 0; d < GM_RADIX; d++)
        gm_many_put(run->job, &lines, d);
}

/* Elements of one digit, those of GM_HIST_ROW_BINS bins from base on, into the row by way of a share's own counters. */
static inline void gm_many_part(const struct gm_many_row *row, const uint32_t *bins, uint64_t count, uint32_t base)
{
    uint32_t counter[GM_HIST_ROW_BINS];
    memset(counter, 0, sizeof counter);
    for (uint64_t k = 0; k < count; k++)
        if (bins[k] - base < GM_HIST_ROW_BINS)
            counter[bins[k] - base]++;
    for (uint32_t i = 0; i < GM_HIST_ROW_BINS; i++)
        if (counter[i] != 0)
            gm_many_add(row, base + i, counter[i]);
}

/* A share's tiles of places; what nobody put there is not looked at, since it is of an earlier job. */
static inline void gm_many_reduce(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    const struct gm_many_row row = gm_many_row(job);
    const uint32_t shift = gm_hist_shift(job->bins);
    uint64_t tile, count;
    while (gm_run_next_tile(run, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count);
        for (uint32_t d = 0; d < GM_RADIX; d++) {
            const uint64_t begin = gm_many_places(job, 0)[d], next = gm_many_places(job, 1)[d];
            const uint64_t end = gm_many_places(job, 2)[d], filled = next < end ? next : end;
            const uint64_t to = filled < first + count ? filled : first + count;
            for (uint64_t from = begin > first ? begin : first; from < to;) {
                const uint64_t some = to - from < GM_MANY_STRETCH ? to - from : GM_MANY_STRETCH;
                for (uint32_t part = 0; part < 1u << shift; part += GM_HIST_ROW_BINS)
                    gm_many_part(&row, gm_many_bins(job) + from, some, (d << shift) + part);
                from += some;
            }
        }
    }
}

/* ---- phases ---- */

GM_MANY_INLINE void gm_many_share(struct gm_run *run, gm_many_source *cell, const void *context, uint32_t per,
                                  uint32_t output)
{
    const struct gm_job *job = run->job;
    const bool sorted = gm_hist_sorted(job);
    if (job->phase == 0)
        gm_many_clear(run);
    if (job->phase + 1u == job->phases)
        gm_many_store(run, output);
    else if (job->phase == 0 && sorted)
        gm_many_digits(run, cell, context);
    else if (job->phase == 1u && sorted)
        gm_many_move(run, cell, context);
    else if (job->phase == 1u)
        gm_many_count(run, cell, context, per);
    else if (job->phase == 2u)
        gm_many_reduce(run);
}

/* The end of a phase: by the last share. */
static inline void gm_many_finish(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    if (job->phase == 0 && gm_hist_sorted(job))
        gm_many_split(job);
    if (job->phase + 1u != job->phases)
        return;
    uint64_t counted = 0;
    for (uint32_t share = 0; share < job->shares; share++)
        counted += *gm_many_own(job, share);
    run->result = counted;
}

#endif
