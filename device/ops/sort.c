/* SPDX-License-Identifier: Apache-2.0
 *
 * sort: least significant digit radix sort on order-preserving keys (keys.h), cut by plan.h. One tile is sorted in
 * private memory. More: for each digit, phase 2p counts it chunk by chunk and phase 2p + 1 moves the keys, stably,
 * from in to the workspace, from there to out, and so on; an even number of passes ends in out. One thread a share.
 *
 * A client can change in and out between the counting and the moving of a pass that reads them. Each chunk owns the
 * places that its counts gave it: a key that would leave its digit's places is dropped, and places left empty at the
 * end of a chunk get zeros, so that nothing is written outside and nothing of an earlier job shows through.
 */
#include <string.h>

#include "keys.h"
#include "run.h"
#include "core/plan.h"

struct sorter {
    struct gm_key_rule rule;
    const void *from;
    void *to;
    uint64_t *counts; /* [digit * chunks + chunk] */
    uint64_t chunks, n;
    uint32_t shift;
    bool first, last, wide;
};

static inline uint64_t key_load(const void *keys, uint64_t i, bool wide)
{
    return wide ? gm_load_relaxed_u64((const uint64_t *)keys + i) : gm_load_relaxed_u32((const uint32_t *)keys + i);
}

static inline void key_store(void *keys, uint64_t i, uint64_t key, bool wide)
{
    if (wide)
        gm_store_relaxed_u64((uint64_t *)keys + i, key);
    else
        gm_store_relaxed_u32((uint32_t *)keys + i, (uint32_t)key);
}

static inline uint64_t key_encode(const struct gm_key_rule *rule, uint64_t v, bool wide)
{
    return wide ? gm_key_encode_u64(rule, v) : gm_key_encode_u32(rule, (uint32_t)v);
}

static inline uint64_t key_decode(const struct gm_key_rule *rule, uint64_t key, bool wide)
{
    return wide ? gm_key_decode_u64(rule, key) : gm_key_decode_u32(rule, (uint32_t)key);
}

static struct sorter sorter_make(const struct gm_run *run)
{
    const struct gm_job *job = run->job;
    const uint32_t pass = job->phase / 2u;
    uint8_t *workspace = (uint8_t *)(uintptr_t)job->workspace;
    void *in = gm_run_buffer(run, 0), *out = gm_run_buffer(run, 1), *keys = workspace + gm_sort_keys_offset(job->tiles);
    const struct sorter s = {
        .rule = gm_key_rule(job->dtype, job->flags & GM_FLAG_DESCENDING ? GM_KEY_DESCENDING : GM_KEY_ASCENDING),
        .from = pass == 0 ? in : pass % 2u ? keys : out,
        .to = pass % 2u ? out : keys,
        .counts = (uint64_t *)(void *)workspace,
        .chunks = job->tiles,
        .n = job->n,
        .shift = pass * GM_RADIX_BITS,
        .first = pass == 0,
        .last = job->phase + 1u == job->phases,
        .wide = gm_dtype_bytes(job->dtype) == 8u,
    };
    return s;
}

static inline void chunk_count_keys(const struct sorter *s, uint64_t chunk, uint64_t first, uint64_t count, bool wide)
{
    uint64_t seen[GM_RADIX] = {0};
    for (uint64_t i = first; i < first + count; i++) {
        const uint64_t v = key_load(s->from, i, wide), key = s->first ? key_encode(&s->rule, v, wide) : v;
        seen[key >> s->shift & (GM_RADIX - 1u)]++;
    }
    for (uint32_t d = 0; d < GM_RADIX; d++)
        s->counts[d * s->chunks + chunk] = seen[d];
}

static void chunk_count(const struct sorter *s, uint64_t chunk, uint64_t first, uint64_t count)
{
    if (s->wide)
        chunk_count_keys(s, chunk, first, count, true);
    else
        chunk_count_keys(s, chunk, first, count, false);
}

/* Counts become places: the sum of everything before, digit by digit, chunk by chunk. */
static void counts_scan(const struct sorter *s)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < GM_RADIX * s->chunks; i++) {
        const uint64_t count = s->counts[i];
        s->counts[i] = sum;
        sum += count;
    }
}

static inline void chunk_move_keys(const struct sorter *s, uint64_t chunk, uint64_t first, uint64_t count, bool wide)
{
    uint64_t next[GM_RADIX], end[GM_RADIX];
    for (uint32_t d = 0; d < GM_RADIX; d++) {
        const uint64_t at = d * s->chunks + chunk;
        const uint64_t after = at + 1u < GM_RADIX * s->chunks ? s->counts[at + 1u] : s->n;
        next[d] = s->counts[at];
        end[d] = after < s->n ? after : s->n;
    }
    for (uint64_t i = first; i < first + count; i++) {
        const uint64_t v = key_load(s->from, i, wide), key = s->first ? key_encode(&s->rule, v, wide) : v;
        const uint32_t d = key >> s->shift & (GM_RADIX - 1u);
        if (next[d] < end[d])
            key_store(s->to, next[d]++, s->last ? key_decode(&s->rule, key, wide) : key, wide);
    }
    for (uint32_t d = 0; d < GM_RADIX; d++)
        for (; next[d] < end[d]; next[d]++)
            key_store(s->to, next[d], 0, wide);
}

static void chunk_move(const struct sorter *s, uint64_t chunk, uint64_t first, uint64_t count)
{
    if (s->wide)
        chunk_move_keys(s, chunk, first, count, true);
    else
        chunk_move_keys(s, chunk, first, count, false);
}

/* One digit of a tile from one private array to the other; false when all keys have the same digit. */
static bool tile_pass(const void *from, void *to, uint32_t count, uint32_t shift, bool wide)
{
    uint32_t next[GM_RADIX] = {0};
    for (uint32_t i = 0; i < count; i++)
        next[key_load(from, i, wide) >> shift & (GM_RADIX - 1u)]++;
    if (next[key_load(from, 0, wide) >> shift & (GM_RADIX - 1u)] == count)
        return false;
    for (uint32_t d = 0, sum = 0; d < GM_RADIX; d++) {
        const uint32_t digits = next[d];
        next[d] = sum;
        sum += digits;
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t key = key_load(from, i, wide);
        key_store(to, next[key >> shift & (GM_RADIX - 1u)]++, key, wide);
    }
    return true;
}

static void tile_insertion(void *keys, uint32_t count, bool wide)
{
    for (uint32_t i = 1; i < count; i++) {
        const uint64_t key = key_load(keys, i, wide);
        uint32_t k = i;
        for (; k > 0 && key_load(keys, k - 1u, wide) > key; k--)
            key_store(keys, k, key_load(keys, k - 1u, wide), wide);
        key_store(keys, k, key, wide);
    }
}

/* The whole job in one tile: read in once, sort where nobody else can write, write out once. */
static void tile_sort_keys(const struct sorter *s, void *out, bool wide)
{
    _Alignas(8) uint8_t memory[2][GM_TILE_BYTES_sort];
    void *from = memory[0], *to = memory[1];
    const uint32_t count = (uint32_t)s->n;
    for (uint32_t i = 0; i < count; i++)
        key_store(from, i, key_encode(&s->rule, key_load(s->from, i, wide), wide), wide);
    if (count <= 32u) {
        tile_insertion(from, count, wide);
    } else {
        for (uint32_t shift = 0; shift < (wide ? 64u : 32u); shift += GM_RADIX_BITS) {
            if (!tile_pass(from, to, count, shift, wide))
                continue;
            void *sorted = to;
            to = from;
            from = sorted;
        }
    }
    for (uint32_t i = 0; i < count; i++)
        key_store(out, i, key_decode(&s->rule, key_load(from, i, wide), wide), wide);
}

void gm_op_sort_share(struct gm_run *run)
{
    const struct sorter s = sorter_make(run);
    uint64_t chunk, count;
    while (gm_run_next_tile(run, &chunk)) {
        const uint64_t first = gm_run_tile(run, chunk, &count);
        if (run->job->phases == 1) {
            if (s.wide)
                tile_sort_keys(&s, gm_run_buffer(run, 1), true);
            else
                tile_sort_keys(&s, gm_run_buffer(run, 1), false);
        } else if (run->job->phase % 2u == 0) {
            chunk_count(&s, chunk, first, count);
        } else {
            chunk_move(&s, chunk, first, count);
        }
    }
}

void gm_op_sort_finish(struct gm_run *run)
{
    if (run->job->phases == 1 || run->job->phase % 2u != 0)
        return;
    const struct sorter s = sorter_make(run);
    counts_scan(&s);
}
