/* SPDX-License-Identifier: Apache-2.0
 *
 * What unique, select_if, partition and run_length share on the CPU: elements that a rule keeps are counted tile by
 * tile, finish makes places of the counts, and a second phase moves elements to their places. One tile does both at
 * once. One thread a share.
 *
 * A client can change the input between the two phases. Each tile owns the places that its count gave it: what would
 * go beyond is dropped, and places left empty get zeros, so that nothing is written outside and all that the result
 * promises is written. Loops are written once and inlined with the type and the rule as constants.
 */
#ifndef GM_OPS_SELECT_H
#define GM_OPS_SELECT_H

#include <string.h>

#include "args.h"
#include "compare.h"
#include "kept.h"
#include "run.h"

#define GM_EACH_TYPE static inline __attribute__((always_inline))

/* Element i as bits, zero-extended. */
GM_EACH_TYPE uint64_t gm_bits_at(const void *data, uint64_t i, uint32_t dtype)
{
    switch (gm_dtype_bytes(dtype)) {
    case 1:
        return ((const uint8_t *)data)[i];
    case 4:
        return ((const uint32_t *)data)[i];
    default:
        return ((const uint64_t *)data)[i];
    }
}

/* The same where the value is used more than once. */
GM_EACH_TYPE uint64_t gm_bits_once(const void *data, uint64_t i, uint32_t dtype)
{
    switch (gm_dtype_bytes(dtype)) {
    case 1:
        return __atomic_load_n((const uint8_t *)data + i, __ATOMIC_RELAXED);
    case 4:
        return gm_load_relaxed_u32((const uint32_t *)data + i);
    default:
        return gm_load_relaxed_u64((const uint64_t *)data + i);
    }
}

GM_EACH_TYPE void gm_bits_put(void *data, uint64_t i, uint64_t bits, uint32_t dtype)
{
    switch (gm_dtype_bytes(dtype)) {
    case 1:
        ((uint8_t *)data)[i] = (uint8_t)bits;
        break;
    case 4:
        ((uint32_t *)data)[i] = (uint32_t)bits;
        break;
    default:
        ((uint64_t *)data)[i] = bits;
        break;
    }
}

/* IEEE 754 for floats: a NaN equals nothing, -0 equals +0. */
GM_EACH_TYPE bool gm_bits_equal(uint64_t a, uint64_t b, uint32_t dtype)
{
    if (dtype == GM_DTYPE_f32) {
        const uint32_t bits[2] = {(uint32_t)a, (uint32_t)b};
        float f[2];
        memcpy(f, bits, sizeof f);
        return f[0] == f[1];
    }
    return dtype == GM_DTYPE_f64 ? gm_f64_of(a) == gm_f64_of(b) : a == b;
}

/* Whether v is kept. before: the element in front of it, where there is one. */
typedef bool gm_keep(const struct gm_predicate *p, bool follows, uint64_t before, uint64_t v, uint32_t dtype);

GM_EACH_TYPE bool gm_keep_starts(const struct gm_predicate *p, bool follows, uint64_t before, uint64_t v,
                                 uint32_t dtype)
{
    (void)p;
    return !follows || !gm_bits_equal(before, v, dtype);
}

GM_EACH_TYPE bool gm_keep_matches(const struct gm_predicate *p, bool follows, uint64_t before, uint64_t v,
                                  uint32_t dtype)
{
    (void)follows, (void)before;
    switch (gm_dtype_bytes(dtype)) {
    case 1:
        return gm_predicate_u8(p, (uint8_t)v);
    case 4:
        return gm_predicate_u32(p, (uint32_t)v);
    default:
        return gm_predicate_u64(p, v);
    }
}

/* A tile on its way: elements of in, and where the kept ones, and for partition the others, go in out. */
struct gm_tile_work {
    const void *in;
    void *out;
    struct gm_predicate p;
    uint64_t first, count;
    struct gm_places kept, others;
};

GM_EACH_TYPE uint64_t gm_tile_count(const struct gm_tile_work *w, gm_keep *keep, uint32_t dtype)
{
    const struct gm_predicate p = w->p;
    const void *in = w->in;
    const uint64_t first = w->first, end = w->first + w->count;
    const bool follows = first != 0;
    uint32_t kept =
        keep(&p, follows, follows ? gm_bits_at(in, first - 1u, dtype) : 0, gm_bits_at(in, first, dtype), dtype);
    for (uint64_t i = first + 1u; i < end; i++)
        kept += keep(&p, true, gm_bits_at(in, i - 1u, dtype), gm_bits_at(in, i, dtype), dtype);
    return kept;
}

/* Zeros where nothing came. */
GM_EACH_TYPE void gm_places_close(void *out, struct gm_places places, uint32_t dtype)
{
    for (; places.next < places.end; places.next++)
        gm_bits_put(out, places.next, 0, dtype);
}

/* Without a branch on what is kept: one that is not is overwritten by the next one that is. */
GM_EACH_TYPE void gm_tile_move(const struct gm_tile_work *w, gm_keep *keep, bool both, uint32_t dtype)
{
    const struct gm_predicate p = w->p;
    const void *in = w->in;
    void *out = w->out;
    struct gm_places kept = w->kept, others = w->others;
    bool follows = w->first != 0;
    uint64_t before = follows ? gm_bits_once(in, w->first - 1u, dtype) : 0;
    for (uint64_t i = w->first; i < w->first + w->count; i++) {
        const uint64_t v = gm_bits_once(in, i, dtype);
        const bool yes = keep(&p, follows, before, v, dtype);
        const uint64_t at = both && !yes ? others.next : kept.next, end = both && !yes ? others.end : kept.end;
        if (at < end)
            gm_bits_put(out, at, v, dtype);
        kept.next += yes;
        others.next += !yes;
        follows = true;
        before = v;
    }
    gm_places_close(out, kept, dtype);
    if (both)
        gm_places_close(out, others, dtype);
}

/* One tile is the whole job, or in one of its phases. */
GM_EACH_TYPE void gm_select_tile(struct gm_run *run, uint64_t tile, gm_keep *keep, bool both, uint32_t dtype)
{
    const struct gm_job *job = run->job;
    struct gm_kept *all = (struct gm_kept *)(uintptr_t)job->workspace;
    struct gm_tile_work w = {.in = gm_run_buffer(run, 0), .out = gm_run_buffer(run, 1)};
    w.first = gm_run_tile(run, tile, &w.count);
    if (keep == gm_keep_matches)
        w.p = gm_predicate_make(job->dtype, job->bins, job->value[0], job->value[1]);
    if (job->phases == 1) {
        run->result = gm_tile_count(&w, keep, dtype);
        w.kept = gm_places_make(0, run->result, job->n);
        w.others = gm_places_make(run->result, w.count - run->result, job->n);
        gm_tile_move(&w, keep, both, dtype);
    } else if (job->phase == 0) {
        all[tile] = gm_kept_make(0, gm_tile_count(&w, keep, dtype), GM_KEPT_NO_START);
    } else {
        const uint64_t before = gm_kept_before(&all[tile]), count = gm_kept_count(&all[tile]);
        w.kept = gm_places_make(before, count, job->n);
        w.others = gm_places_make(gm_kept_upto(&all[job->tiles - 1u]) + (w.first - before), w.count - count, job->n);
        gm_tile_move(&w, keep, both, dtype);
    }
}

static inline void gm_select_finish(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    struct gm_kept *all = (struct gm_kept *)(uintptr_t)job->workspace;
    uint64_t before = 0, start = 0; /* the first tile has none before it, and does not ask */
    if (job->phases == 1)
        return; /* the share has answered; of nothing the answer is 0 */
    if (job->phase != 0) {
        run->result = gm_kept_upto(&all[job->tiles - 1u]);
        return;
    }
    for (uint64_t t = 0; t < job->tiles; t++) {
        const struct gm_kept tile = all[t];
        all[t] = gm_kept_make(before, gm_kept_count(&tile), start);
        before += gm_kept_count(&tile);
        start = tile.start == GM_KEPT_NO_START ? start : tile.start;
    }
}

#endif
