/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies between memory that is shared with the device and memory of the device, both ways, as jobs of a client's
 * lane: latency, and bytes a second. One client thread. What was copied there is copied back to another place, and
 * every byte of that is compared.
 */
#include <stdio.h>

#include "copies.h"
#include "lanes.h"

struct place {
    struct gm_client *client;
    struct gm_arena *shared, *device; /* shared: what is copied from, and what is copied back */
    uint64_t bytes;                   /* of each of them */
};

static void pattern_write(uint64_t *words, uint64_t count, uint64_t seed)
{
    for (uint64_t i = 0; i < count; i++)
        words[i] = (i + seed) * UINT64_C(0x9e3779b97f4a7c15);
}

static bool pattern_is(const uint64_t *words, uint64_t count, uint64_t seed)
{
    for (uint64_t i = 0; i < count; i++)
        if (words[i] != (i + seed) * UINT64_C(0x9e3779b97f4a7c15))
            return false;
    return true;
}

/* Copies so much again and again, for about the budget. */
static bool copy_series(struct gm_lanes *l, const struct place *place, const struct gm_request *copy)
{
    const uint64_t start = gm_bench_now_ns();
    const size_t count = l->count / 10u + 10u;
    uint64_t end = start;
    l->samples.count = 0;
    for (size_t i = 0; i < count && (i < 15u || end - start < l->budget_ns / 2u); i++) {
        const uint64_t begin = gm_bench_now_ns();
        if (gm_run(place->client, copy, begin + GM_LANES_JOB_NS, NULL) != GM_OK)
            return gm_lanes_fail_last(l, "copy", place->client);
        end = gm_bench_now_ns();
        if (i >= 5u) /* the first of a size finds nothing prepared */
            gm_samples_add(&l->samples, end - begin);
    }
    return true;
}

static void tell(struct gm_lanes *l, const char *way, uint32_t log2)
{
    const double bytes = (double)(UINT64_C(1) << log2), ns = (double)gm_samples_at(&l->samples, 0.5);
    char name[48], what[96];
    snprintf(name, sizeof name, "lane_copy_%s_%u", way, log2);
    snprintf(what, sizeof what, "copy of 2^%u bytes %s the device, a job", log2, way[0] == 'u' ? "to" : "from");
    gm_figures_latency(l->figures, name, what, &l->samples);
    snprintf(name, sizeof name, "lane_copy_%s_rate_%u", way, log2);
    snprintf(what, sizeof what, "of it, at the median");
    gm_figures_value(l->figures, name, what, "GB/s", ns != 0 ? bytes / ns : 0);
}

static bool copies_of(struct gm_lanes *l, const struct place *place, uint32_t log2)
{
    const uint64_t bytes = UINT64_C(1) << log2, words = bytes / sizeof(uint64_t);
    uint64_t *from = gm_arena_data(place->shared), *back = from + place->bytes / sizeof(uint64_t);
    struct gm_request up = gm_request("copy", GM_U8, bytes), down = up;
    up.in[0] = gm_in_arena(place->shared, 0, bytes);
    up.out[0] = down.in[0] = gm_in_arena(place->device, 0, bytes);
    down.out[0] = gm_in_arena(place->shared, place->bytes, bytes);
    pattern_write(from, words, log2); /* another one for each size: what an earlier one left would show */
    if (!copy_series(l, place, &up))
        return false;
    tell(l, "up", log2);
    if (!copy_series(l, place, &down))
        return false;
    tell(l, "down", log2);
    return pattern_is(back, words, log2) || gm_lanes_fail(l, "copy", "what came back is not what was sent");
}

bool gm_lanes_copies(struct gm_lanes *l)
{
    struct place place = {.bytes = UINT64_C(1) << l->copy_log2};
    if (!gm_lanes_up(l, NULL))
        return false;
    place.client = gm_lanes_open(l, GM_WAIT_SPIN);
    bool good = place.client != NULL;
    if (good && (gm_arena_create(place.client, 2u * place.bytes, GM_MEMORY_SHARED, 0, gm_deadline_in(GM_LANES_JOB_NS),
                                 &place.shared) != GM_OK ||
                 gm_arena_create(place.client, place.bytes, GM_MEMORY_DEVICE, 0, gm_deadline_in(GM_LANES_JOB_NS),
                                 &place.device) != GM_OK))
        good = gm_lanes_fail_last(l, "memory for copies", place.client);
    for (uint32_t log2 = GM_COPIES_LOG2_MIN; good && log2 <= l->copy_log2; log2 += GM_COPIES_LOG2_STEP)
        good = copies_of(l, &place, log2);
    gm_close(place.client);
    return gm_lanes_down(l, good);
}
