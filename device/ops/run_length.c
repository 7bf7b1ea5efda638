/* SPDX-License-Identifier: Apache-2.0
 *
 * run_length: the first element of each run, and how long it is. See select.h for the way; runs begin where unique
 * keeps an element. A tile writes the values of the runs that begin in it, and the lengths of those that end where
 * these begin: their last one may have begun in any tile before. The last tile ends the last run. One thread a share.
 */
#include "select.h"

/* The first element of the tile's last run. */
GM_EACH_TYPE uint64_t last_start(const struct gm_tile_work *w, uint32_t dtype)
{
    for (uint64_t i = w->first + w->count; i-- > w->first;)
        if (gm_keep_starts(NULL, i != 0, i != 0 ? gm_bits_at(w->in, i - 1u, dtype) : 0, gm_bits_at(w->in, i, dtype),
                           dtype))
            return i;
    return GM_KEPT_NO_START;
}

/* The run in front of the one at place `at` is so long. */
static inline void end_run(uint64_t *lengths, uint64_t at, uint64_t length)
{
    if (at != 0)
        lengths[at - 1u] = length;
}

/* start: of the run that the first element may belong to. Lengths are differences of positions that this loop saw, and
 * lie where the tile's places are, one in front. */
GM_EACH_TYPE void move_runs(const struct gm_tile_work *w, uint64_t *lengths, uint64_t start, uint64_t n, uint32_t dtype)
{
    struct gm_places runs = w->kept;
    bool follows = w->first != 0;
    uint64_t before = follows ? gm_bits_once(w->in, w->first - 1u, dtype) : 0;
    for (uint64_t i = w->first; i < w->first + w->count; i++) {
        const uint64_t v = gm_bits_once(w->in, i, dtype);
        if (gm_keep_starts(NULL, follows, before, v, dtype) && runs.next < runs.end) {
            gm_bits_put(w->out, runs.next, v, dtype);
            end_run(lengths, runs.next, i - start);
            runs.next++;
            start = i;
        }
        follows = true;
        before = v;
    }
    for (uint64_t at = runs.next; at < runs.end; at++)
        end_run(lengths, at, 0);
    gm_places_close(w->out, runs, dtype);
    if (w->first + w->count == n)
        end_run(lengths, runs.end, n - start);
}

GM_EACH_TYPE void runs_tile(struct gm_run *run, uint64_t tile, uint32_t dtype)
{
    const struct gm_job *job = run->job;
    struct gm_kept *all = (struct gm_kept *)(uintptr_t)job->workspace;
    struct gm_tile_work w = {.in = gm_run_buffer(run, 0), .out = gm_run_buffer(run, 1)};
    w.first = gm_run_tile(run, tile, &w.count);
    if (job->phases == 1) {
        run->result = gm_tile_count(&w, gm_keep_starts, dtype);
        w.kept = gm_places_make(0, run->result, job->n);
        move_runs(&w, gm_run_buffer(run, 2), 0, job->n, dtype);
    } else if (job->phase == 0) {
        all[tile] = gm_kept_make(0, gm_tile_count(&w, gm_keep_starts, dtype), last_start(&w, dtype));
    } else {
        w.kept = gm_places_make(gm_kept_before(&all[tile]), gm_kept_count(&all[tile]), job->n);
        move_runs(&w, gm_run_buffer(run, 2), all[tile].start, job->n, dtype);
    }
}

void gm_op_run_length_share(struct gm_run *run)
{
    uint64_t tile;
    while (gm_run_next_tile(run, &tile)) {
        switch (run->job->dtype) {
        case GM_DTYPE_f32:
            runs_tile(run, tile, GM_DTYPE_f32);
            break;
        case GM_DTYPE_f64:
            runs_tile(run, tile, GM_DTYPE_f64);
            break;
        case GM_DTYPE_u8:
            runs_tile(run, tile, GM_DTYPE_u8);
            break;
        case GM_DTYPE_i32:
        case GM_DTYPE_u32:
            runs_tile(run, tile, GM_DTYPE_u32);
            break;
        default:
            runs_tile(run, tile, GM_DTYPE_u64);
            break;
        }
    }
}

void gm_op_run_length_finish(struct gm_run *run)
{
    gm_select_finish(run);
}
