/* SPDX-License-Identifier: Apache-2.0
 *
 * What a job in a lane costs on this side, without a device: the lane is memory of this process, and the completions
 * are written between the two times that are taken. Prints nanoseconds a job, the median and the least of many rounds;
 * asserts nothing.
 */
#include "lane_peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 4001
#define JOBS   256u

static struct lane_peer p;
static struct gm_client *client;
static struct gm_job jobs[JOBS], *pointers[JOBS], *found[JOBS];
static struct gm_request requests[JOBS];
static uint64_t submit_ns[ROUNDS], take_ns[ROUNDS];

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
    for (uint32_t i = 0; i < ROUNDS; i++)
        round_of(batch, i);
    qsort(submit_ns, ROUNDS, sizeof *submit_ns, by_value);
    qsort(take_ns, ROUNDS, sizeof *take_ns, by_value);
    printf("%-12s %5u %9.1f %9.1f %9.1f %9.1f\n", what, batch, (double)submit_ns[ROUNDS / 2] / batch,
           (double)submit_ns[0] / batch, (double)take_ns[ROUNDS / 2] / batch, (double)take_ns[0] / batch);
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

int main(void)
{
    struct gm_arena *arena;
    struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0), sum = gm_request("sum", GM_F32, 1024);
    struct gm_request fill = gm_request("fill", GM_F32, 1024);

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
    gm_close(client);
    lanes_stop(&p);
    return 0;
}
