/* SPDX-License-Identifier: Apache-2.0
 *
 * Round trips of one client that spins, alone and beside idle lanes of others on the same device; and sums of device
 * memory, whose inputs are rotated so that each is read from memory and not from a cache. One client thread; what
 * others hold is held by child processes. Every answer of a sum is compared.
 */
#include <stdio.h>
#include <unistd.h>

#include "lanes.h"

#define IDLE_PER_PROCESS 32u /* each needs five descriptors */
#define SUM_LOG2_MIN     10u
#define PIECE            (UINT64_C(1) << 18) /* elements that are filled with one value */
#define VALUES           7u

static struct gm_request nop(void) { return gm_request("nop", GM_NO_ELEMENT, 0); }

/* ---- idle lanes ---- */

static bool hold_lanes(struct gm_lanes *l, struct gm_crew_shared *gate, uint32_t index, void *argument)
{
    struct gm_client *client[IDLE_PER_PROCESS] = {NULL};
    const uint32_t first = index * IDLE_PER_PROCESS, all = *(const uint32_t *)argument;
    const struct gm_request request = nop();
    for (uint32_t i = 0; i < IDLE_PER_PROCESS && first + i < all; i++) {
        client[i] = gm_lanes_open(l, GM_WAIT_SPIN_THEN_SLEEP);
        if (!client[i])
            return false;
        if (gm_run(client[i], &request, gm_deadline_in(GM_LANES_JOB_NS), NULL) != GM_OK)
            return gm_lanes_fail_last(l, "no-op of an idle lane", client[i]);
    }
    gm_crew_pass(gate);
    while (!gm_crew_stopped(gate))
        gm_bench_sleep_ms(5);
    for (uint32_t i = 0; i < IDLE_PER_PROCESS; i++)
        gm_close(client[i]);
    return true;
}

static bool beside_idle(struct gm_lanes *l, struct gm_client *client)
{
    const struct gm_request request = nop();
    struct gm_crew crew;
    uint64_t lanes = 0;
    char what[96];
    if (!gm_lanes_trip(l, client, &request, l->count / 2u, l->budget_ns))
        return false;
    gm_figures_latency(l->figures, "trip_nop_alone", "no-op, one client, no other lane", &l->samples);
    if (!gm_crew_start(l, &crew, (l->idle + IDLE_PER_PROCESS - 1u) / IDLE_PER_PROCESS, hold_lanes, &l->idle))
        return false;
    bool good = gm_lanes_stat(l, client, "devices.0.lanes", &lanes) &&
                gm_lanes_trip(l, client, &request, l->count / 2u, l->budget_ns);
    if (good && lanes != l->idle + 1u)
        good = gm_lanes_fail(l, "idle lanes", "not all of them are open");
    snprintf(what, sizeof what, "no-op, one client beside %u idle lanes", l->idle);
    if (good)
        gm_figures_latency(l->figures, "trip_nop_beside_idle", what, &l->samples);
    return gm_crew_end(l, &crew, false) && good;
}

bool gm_lanes_trips(struct gm_lanes *l)
{
    const struct gm_request request = nop();
    if (!gm_lanes_up(l, NULL))
        return false;
    struct gm_client *client = gm_lanes_open(l, GM_WAIT_SPIN);
    bool good = client && gm_lanes_trip(l, client, &request, l->count, 3u * l->budget_ns);
    if (good) {
        gm_figures_value(l->figures, "lane_maps_libcuda", "this client process maps libcuda (0: no)", "",
                         gm_process_maps(getpid(), "libcuda"));
        gm_figures_latency(l->figures, "trip_nop", "no-op, round trip of a client process, spinning", &l->samples);
    }
    good = good && beside_idle(l, client);
    gm_close(client);
    return gm_lanes_down(l, good);
}

/* ---- sums ---- */

struct numbers {
    struct gm_client *client;
    struct gm_arena *arena;
    uint64_t elements;
};

static uint64_t value_of(uint64_t piece) { return 1u + piece % VALUES; }

/* Of elements that begin with a piece or lie in one. Whole numbers below 2^53: every order of adding gives this. */
static double expected(uint64_t first, uint64_t n)
{
    uint64_t sum = 0;
    if (n <= PIECE)
        return (double)(n * value_of(first / PIECE));
    for (uint64_t p = first / PIECE; p < (first + n) / PIECE; p++)
        sum += PIECE * value_of(p);
    return (double)sum;
}

static bool fill_pieces(struct gm_lanes *l, const struct numbers *numbers)
{
    for (uint64_t p = 0; p * PIECE < numbers->elements; p++) {
        struct gm_request fill = gm_request("fill", GM_F32, PIECE);
        fill.value = gm_bits_f32((float)value_of(p));
        fill.out[0] = gm_in_arena(numbers->arena, p * PIECE * 4u, PIECE * 4u);
        if (gm_run(numbers->client, &fill, gm_deadline_in(GM_LANES_JOB_NS), NULL) != GM_OK)
            return gm_lanes_fail_last(l, "fill", numbers->client);
    }
    return true;
}

static bool one_sum(struct gm_lanes *l, const struct numbers *numbers, uint64_t first, uint64_t n, uint64_t *spent_ns)
{
    struct gm_request sum = gm_request("sum", GM_F32, n);
    struct gm_result result;
    sum.in[0] = gm_in_arena(numbers->arena, first * 4u, n * 4u);
    const uint64_t begin = gm_bench_now_ns();
    const int status = gm_run(numbers->client, &sum, begin + GM_LANES_JOB_NS, &result);
    *spent_ns = gm_bench_now_ns() - begin;
    if (status != GM_OK)
        return gm_lanes_fail_last(l, "sum", numbers->client);
    if (result.dtype == GM_F64 && result.value.f64 == expected(first, n))
        return true;
    snprintf(l->text, sizeof l->text, "sum of %llu elements from %llu: %.17g is not %.17g", (unsigned long long)n,
             (unsigned long long)first, result.value.f64, expected(first, n));
    return false;
}

static bool sums_of(struct gm_lanes *l, const struct numbers *numbers, uint32_t log2)
{
    const uint64_t n = UINT64_C(1) << log2, places = l->rotated_bytes / 4u > n ? l->rotated_bytes / 4u / n : 1u;
    const size_t count = l->count / 10u + 10u;
    const uint64_t start = gm_bench_now_ns();
    char name[32], what[96];
    uint64_t now = start, spent_ns;
    l->samples.count = 0;
    for (size_t i = 0; i < count && (i < 15u || now - start < l->budget_ns); i++) {
        if (!one_sum(l, numbers, i % places * n, n, &spent_ns))
            return false;
        now = gm_bench_now_ns();
        if (i >= 5u) /* the first of a size finds nothing prepared */
            gm_samples_add(&l->samples, spent_ns);
    }
    snprintf(name, sizeof name, "lane_sum_%u", log2);
    snprintf(what, sizeof what, "sum of 2^%u f32 in device memory, %llu inputs in turn", log2,
             (unsigned long long)places);
    gm_figures_latency(l->figures, name, what, &l->samples);
    return true;
}

bool gm_lanes_sums(struct gm_lanes *l)
{
    struct numbers numbers = {.elements = l->rotated_bytes / 4u};
    if (numbers.elements < UINT64_C(1) << l->sum_log2)
        numbers.elements = UINT64_C(1) << l->sum_log2;
    if (!gm_lanes_up(l, NULL))
        return false;
    numbers.client = gm_lanes_open(l, GM_WAIT_SPIN);
    bool good = numbers.client != NULL;
    if (good && gm_arena_create(numbers.client, numbers.elements * 4u, GM_MEMORY_DEVICE, 0,
                                gm_deadline_in(GM_LANES_JOB_NS), &numbers.arena) != GM_OK)
        good = gm_lanes_fail_last(l, "device memory", numbers.client);
    good = good && fill_pieces(l, &numbers);
    for (uint32_t log2 = SUM_LOG2_MIN; good && log2 <= l->sum_log2; log2 += 2u)
        good = sums_of(l, &numbers, log2);
    gm_close(numbers.client);
    return gm_lanes_down(l, good);
}
