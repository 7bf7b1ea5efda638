/* SPDX-License-Identifier: Apache-2.0
 *
 * What sleeping costs: the first job after the device has parked, and how late a client that sleeps sees an answer. The
 * daemon's device parks soon; clients that sleep use the event-driven way of the library. One thread.
 */
#include <stdio.h>
#include <string.h>

#include "lanes.h"

#define PARK_MS     "20"
#define PARKS       60u
#define PARK_NS     UINT64_C(10000000000) /* a device that is not asleep after this long never is */
#define WAKES       400u
#define WAKE_LOG2   24u /* of a sum that lasts longer than going to sleep does */
#define NAP_MS      1u

static bool wait_asleep(struct gm_lanes *l, struct gm_client *client)
{
    const uint64_t end = gm_bench_now_ns() + PARK_NS;
    char state[32] = "";
    while (strcmp(state, "asleep") != 0) {
        if (gm_bench_now_ns() > end)
            return gm_lanes_fail(l, "the device does not park; it is", state);
        gm_bench_sleep_ms(5);
        if (!gm_lanes_stat_text(l, client, "devices.0.state", state, sizeof state))
            return false;
    }
    return true;
}

static bool parks(struct gm_lanes *l, struct gm_client *client)
{
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    const uint64_t start = gm_bench_now_ns();
    l->samples.count = 0;
    for (uint32_t i = 0; i < PARKS && (i < 3u || gm_bench_now_ns() - start < 4u * l->budget_ns); i++) {
        if (!wait_asleep(l, client))
            return false;
        const uint64_t begin = gm_bench_now_ns();
        if (gm_run(client, &nop, begin + GM_LANES_JOB_NS, NULL) != GM_OK)
            return gm_lanes_fail_last(l, "first job after a park", client);
        gm_samples_add(&l->samples, gm_bench_now_ns() - begin);
    }
    gm_figures_latency(l->figures, "first_after_park", "first no-op after the device parked, spinning client",
                       &l->samples);
    return true;
}

/* One job after the other with a nap between them, so that what a wake leaves to do is done before the next. */
static bool apart(struct gm_lanes *l, struct gm_client *client, const struct gm_request *request)
{
    const uint64_t start = gm_bench_now_ns();
    l->samples.count = 0;
    for (uint32_t i = 0; i < WAKES && (i < 10u || gm_bench_now_ns() - start < l->budget_ns); i++) {
        gm_bench_sleep_ms(NAP_MS);
        const uint64_t begin = gm_bench_now_ns();
        if (gm_run(client, request, begin + GM_LANES_JOB_NS, NULL) != GM_OK)
            return gm_lanes_fail_last(l, request->op, client);
        if (i >= 5u)
            gm_samples_add(&l->samples, gm_bench_now_ns() - begin);
    }
    return true;
}

/* A sum over device memory of its own; the client frees it when it closes. */
static bool sum_of(struct gm_lanes *l, struct gm_client *client, uint64_t n, struct gm_request *sum)
{
    struct gm_arena *arena;
    if (gm_arena_create(client, n * 4u, GM_MEMORY_DEVICE, 0, gm_deadline_in(GM_LANES_JOB_NS), &arena) != GM_OK)
        return gm_lanes_fail_last(l, "device memory", client);
    *sum = gm_request("sum", GM_F32, n);
    sum->in[0] = gm_in_arena(arena, 0, n * 4u);
    return true;
}

/* The same job by a client that looks and by one that sleeps: what is between them is the wake. */
static bool wakes(struct gm_lanes *l, struct gm_client *looks, struct gm_client *sleeps)
{
    const uint32_t log2 = l->sum_log2 < WAKE_LOG2 ? l->sum_log2 : WAKE_LOG2;
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    struct gm_request sum;
    char what[64];
    if (!sum_of(l, looks, UINT64_C(1) << log2, &sum) || !apart(l, looks, &sum))
        return false;
    const double spun_us = (double)gm_samples_at(&l->samples, 0.5) / 1e3;
    snprintf(what, sizeof what, "sum of 2^%u f32, client that spins", log2);
    gm_figures_latency(l->figures, "wake_sum_spin", what, &l->samples);
    if (!sum_of(l, sleeps, UINT64_C(1) << log2, &sum) || !apart(l, sleeps, &sum))
        return false;
    const double slept_us = (double)gm_samples_at(&l->samples, 0.5) / 1e3;
    gm_figures_latency(l->figures, "wake_sum_sleep", "the same sum, client that sleeps", &l->samples);
    gm_figures_value(l->figures, "wake_client", "wake of a sleeping client: difference of these medians", "us",
                     slept_us - spun_us);
    if (!apart(l, sleeps, &nop))
        return false;
    gm_figures_latency(l->figures, "event_nop", "no-op, client that sleeps at once", &l->samples);
    return true;
}

bool gm_lanes_sleep(struct gm_lanes *l)
{
    static const char *const soon[] = {"--idle-park-ms", PARK_MS, NULL};
    if (!gm_lanes_up(l, soon))
        return false;
    struct gm_client *looks = gm_lanes_open(l, GM_WAIT_SPIN), *sleeps = gm_lanes_open(l, GM_WAIT_EVENT);
    const bool good = looks && sleeps && parks(l, looks) && wakes(l, looks, sleeps);
    gm_close(looks);
    gm_close(sleeps);
    return gm_lanes_down(l, good);
}
