/* SPDX-License-Identifier: Apache-2.0
 *
 * What a job in a lane costs on this side. First without a device: the lane is memory of this process, and the
 * completions are written between the two times that are taken. Then with a thread for a device, so that every line of
 * the lane comes from another processor: a batch at a time, and with as many in flight as a window holds. Prints
 * nanoseconds a job, the median and the least of many rounds; asserts nothing. An argument is the number of rounds.
 */
#include "lane_peer.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 4001 /* at most; with a device one in so many: */
#define BUSY   13
#define JOBS   256u
#define BATCH  64u

#define ROUND_JOBS  (16u * BATCH)
#define LOOKS       500u /* for nothing, before the other thread may want the processor */
#define SLOTS_READ  32u  /* by a device in one look, which takes it so long: a trip over the bus */
#define LOOK_NS     300u

static struct lane_peer p;
static struct gm_client *client;
static struct gm_job jobs[JOBS], *pointers[JOBS], *found[JOBS];
static struct gm_request requests[JOBS];
static uint64_t submit_ns[ROUNDS], take_ns[ROUNDS];
static uint32_t rounds = ROUNDS;

static void answer_all(void)
{
    uint32_t words[GM_DESC_WORDS];
    uint64_t position;

    while (fake_take(&p.lane[0], words, &position))
        fake_answer(&p.lane[0], position, 1, GM_OK, 700);
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void round_of(uint32_t batch, uint32_t round)
{
    const uint64_t t0 = gm_now_ns();
    if (gm_submit_batch(client, requests, pointers, batch, NULL) != GM_OK)
        exit(1);
    const uint64_t t1 = gm_now_ns();
    answer_all();
    const uint64_t t2 = gm_now_ns();
    if (gm_poll(client) != GM_OK || gm_next_batch(client, found, batch) != batch)
        exit(1);
    const uint64_t t3 = gm_now_ns();
    submit_ns[round] = t1 - t0;
    take_ns[round] = t3 - t2;
}

static void measure(const char *what, uint32_t batch)
{
    for (uint32_t i = 0; i < rounds; i++)
        round_of(batch, i);
    qsort(submit_ns, rounds, sizeof *submit_ns, by_value);
    qsort(take_ns, rounds, sizeof *take_ns, by_value);
    printf("%-12s %5u %9.1f %9.1f %9.1f %9.1f\n", what, batch, (double)submit_ns[rounds / 2] / batch,
           (double)submit_ns[0] / batch, (double)take_ns[rounds / 2] / batch, (double)take_ns[0] / batch);
}

static void measure_all(const char *what, const struct gm_request *request)
{
    for (uint32_t i = 0; i < JOBS; i++) {
        requests[i] = *request;
        pointers[i] = &jobs[i];
    }
    for (uint32_t batch = 1; batch <= JOBS / 2; batch *= 4)
        measure(what, batch);
}

/* ---- A device on another processor ---- */

static uint32_t stop_device; /* atomic */

static void yield_at_times(uint32_t *looks)
{
    if (++*looks % LOOKS == 0)
        sched_yield();
}

/* No-ops only, which are one slot each, and never skipped over since their answers come in order. */
static uint32_t answer_some(struct fake_lane *lane)
{
    const uint64_t mask = (UINT64_C(1) << lane->slots_log2) - 1u, due_ns = gm_now_ns() + LOOK_NS;
    uint32_t there = 0;

    for (uint32_t i = 0; i < SLOTS_READ; i++) {
        const uint32_t lap = gm_load16_sys(&lane->sq[(lane->head + i) & mask].g[3]).w[3];
        there += there == i && lap == gm_lap(lane->head + i, lane->slots_log2);
    }
    while (gm_now_ns() < due_ns)
        continue;
    for (uint32_t i = 0; i < there; i++)
        fake_answer(lane, lane->head++, 1, GM_OK, 700);
    return there;
}

static void *run_device(void *lane)
{
    uint32_t looks = 0;

    while (__atomic_load_n(&stop_device, __ATOMIC_ACQUIRE) == 0)
        if (answer_some(lane) == 0)
            yield_at_times(&looks);
    return NULL;
}

/* Keeps the window full; in batches, as a program with many jobs does. */
static void round_of_window(uint32_t window, uint32_t round)
{
    uint32_t idle = window, submitted = 0, answered = 0, looks = 0;
    uint64_t in_submit_ns = 0;
    struct gm_job *pointer[JOBS];

    for (uint32_t i = 0; i < window; i++)
        pointer[i] = &jobs[i];
    const uint64_t begin_ns = gm_now_ns();
    while (answered < ROUND_JOBS) {
        for (; submitted < ROUND_JOBS && idle >= BATCH; submitted += BATCH, idle -= BATCH) {
            const uint64_t start_ns = gm_now_ns();
            if (gm_submit_batch(client, requests, &pointer[idle - BATCH], BATCH, NULL) != GM_OK)
                exit(1);
            in_submit_ns += gm_now_ns() - start_ns;
        }
        if (gm_poll(client) != GM_OK)
            exit(1);
        const uint32_t taken = (uint32_t)gm_next_batch(client, &pointer[idle], window - idle);
        idle += taken;
        answered += taken;
        if (taken == 0)
            yield_at_times(&looks);
    }
    take_ns[round] = gm_now_ns() - begin_ns;
    submit_ns[round] = in_submit_ns;
}

static void measure_busy(const struct gm_request *request)
{
    const uint32_t busy = rounds / BUSY + 1u;
    pthread_t device;

    for (uint32_t i = 0; i < BATCH; i++)
        requests[i] = *request;
    if (pthread_create(&device, NULL, run_device, &p.lane[0]) != 0)
        exit(1);
    printf("with a device window    submit     least     whole     least\n");
    for (uint32_t window = BATCH; window <= JOBS; window *= 2) {
        for (uint32_t i = 0; i < busy; i++)
            round_of_window(window, i);
        qsort(submit_ns, busy, sizeof *submit_ns, by_value);
        qsort(take_ns, busy, sizeof *take_ns, by_value);
        printf("%-13s %6u %9.1f %9.1f %9.1f %9.1f\n", "nop", window, (double)submit_ns[busy / 2] / ROUND_JOBS,
               (double)submit_ns[0] / ROUND_JOBS, (double)take_ns[busy / 2] / ROUND_JOBS,
               (double)take_ns[0] / ROUND_JOBS);
    }
    __atomic_store_n(&stop_device, 1, __ATOMIC_RELEASE);
    pthread_join(device, NULL);
}

int main(int argc, char **argv)
{
    struct gm_arena *arena;
    struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0), sum = gm_request("sum", GM_F32, 1024);
    struct gm_request fill = gm_request("fill", GM_F32, 1024);

    if (argc > 1)
        rounds = (uint32_t)strtoul(argv[1], NULL, 10);
    if (rounds == 0 || rounds > ROUNDS) {
        fprintf(stderr, "usage: measure_client_lane [ROUNDS, at most %d]\n", ROUNDS);
        return 2;
    }
    lanes_start(&p, 1, JOBS, 0);
    client = lanes_open(&p, (struct gm_options){.lane_only = 1});
    if (gm_arena_create(client, 65536, GM_MEMORY_SHARED, 0, in_ms(10000), &arena) != GM_OK)
        return 1;
    sum.in[0] = gm_in_arena(arena, 4096, 4096);
    fill.out[0] = gm_in_arena(arena, 0, 4096);
    printf("ns a job     batch    submit     least      take     least\n");
    measure_all("nop", &nop);
    measure_all("sum", &sum);
    measure_all("fill (wide)", &fill);
    measure_busy(&nop);
    gm_close(client);
    lanes_stop(&p);
    return 0;
}
