/* SPDX-License-Identifier: Apache-2.0
 *
 * A device that is a thread of its own, answers in an order of its own and sleeps whenever it can, against every way of
 * using a client: nothing is lost, no wake is missed on either side. A lost wake is a hang, and the time limit's.
 */
#include "../brief.h"
#include "lane_peer.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 4

static struct lane_peer p;
static struct fake_device device;
static struct gm_client *client;
static struct gm_arena *arena;

static void begin(uint32_t devices, uint32_t slots, uint32_t window, struct gm_options options)
{
    /* Near the end of the laps. */
    lanes_make(&p, devices, slots, ((UINT64_C(1) << 32) - 40) * slots);
    p.skip = true;
    lanes_serve(&p);
    client = lanes_open(&p, options);
    assert_int_equal(devices, gm_lanes(client));
    assert_int_equal(GM_OK, gm_arena_create(client, 65536, GM_MEMORY_SHARED, GM_DEVICE_ANY, in_ms(20000), &arena));
    device_start(&device, &p, window);
}

static void end(void)
{
    device_stop(&device);
    gm_close(client);
    lanes_stop(&p);
}

static struct gm_request request_of(uint64_t n)
{
    struct gm_request request = gm_request(n % 5 == 0 ? "fill" : "sum", GM_U32, n);

    if (n % 5 == 0)
        request.out[0] = gm_in_arena(arena, 0, 65536);
    else
        request.in[0] = gm_in_arena(arena, 0, 65536);
    return request;
}

static bool is_right(const struct gm_job *job, uint64_t n)
{
    struct gm_result result;

    return gm_job_result(job, &result) == GM_OK && (n % 5 == 0 || result.value.u64 == n);
}

/* ---- One job after the other, and several threads ---- */

struct one {
    uint64_t jobs, wrong;
    uint32_t depth;
    uint32_t number;
};

static void *run_many(void *argument)
{
    struct one *const one = argument;
    struct gm_job jobs[4];
    uint64_t sizes[4];

    memset(jobs, 0, sizeof jobs);
    for (uint64_t i = 0; i < one->jobs; i += one->depth) {
        for (uint32_t k = 0; k < one->depth; k++) {
            sizes[k] = (i * 7 + k * 3 + one->number) % 1000 + 1;
            const struct gm_request request = request_of(sizes[k]);
            one->wrong += gm_submit(client, &request, &jobs[k]) != GM_OK;
        }
        for (uint32_t k = 0; k < one->depth; k++) {
            one->wrong += gm_wait(client, &jobs[k], in_ms(100000)) != GM_OK;
            one->wrong += !is_right(&jobs[k], sizes[k]);
        }
        /* Long enough for the device to fall asleep. */
        if (i % 128 == 0)
            usleep(300);
    }
    return NULL;
}

static const struct gm_options ways[] = {{.wait = GM_WAIT_SPIN_THEN_SLEEP}, {.wait = GM_WAIT_SPIN},
                                         {.wait = GM_WAIT_EVENT}, {.wait = GM_WAIT_SPIN_THEN_SLEEP, .spin_ns = 1}};

static void one_thread_after_the_other_job(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct one one = {.jobs = gm_rounds(1500), .depth = 1 + (uint32_t)i % 3};
        begin(1, i % 2 == 0 ? 2 : 16, 0, ways[i]);
        run_many(&one);
        device_await_sleep(&device);
        run_many(&one);
        assert_int_equal(0, one.wrong);
        end();
    }
}

static void threads_share_a_client(void **state)
{
    struct one ones[THREADS];
    pthread_t threads[THREADS];

    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        begin(1 + (uint32_t)i % 2, 8, 3, ways[i]);
        for (uint32_t k = 0; k < THREADS; k++) {
            ones[k] = (struct one){.jobs = gm_rounds(600), .depth = 1 + k, .number = k};
            assert_int_equal(0, pthread_create(&threads[k], NULL, run_many, &ones[k]));
        }
        for (uint32_t k = 0; k < THREADS; k++) {
            pthread_join(threads[k], NULL);
            assert_int_equal(0, ones[k].wrong);
        }
        end();
    }
}

/* ---- Many in flight ---- */

#define PUMPED 32u

struct pump {
    struct gm_job jobs[PUMPED], *pointers[PUMPED], *free[PUMPED];
    struct gm_request requests[PUMPED];
    uint32_t frees;
    uint64_t submitted, done;
};

static void pump_submit(struct pump *pump, uint64_t all)
{
    size_t accepted;
    uint32_t count = 0;

    while (pump->frees > 0 && pump->submitted + count < all) {
        struct gm_job *const job = pump->free[--pump->frees];
        const uint64_t n = (pump->submitted + count) % 999 + 1;
        job->user = (void *)(uintptr_t)n;
        pump->requests[count] = request_of(n);
        pump->pointers[count++] = job;
    }
    const int rc = gm_submit_batch(client, pump->requests, pump->pointers, count, &accepted);
    assert_true(rc == GM_OK || (rc == GM_EBUSY && accepted < count));
    pump->submitted += accepted;
    while (count > accepted)
        pump->free[pump->frees++] = pump->pointers[--count];
}

static void pump_take(struct pump *pump, bool by_events)
{
    struct gm_job *found[PUMPED];
    const size_t count = gm_next_batch(client, found, PUMPED);

    for (size_t i = 0; i < count; i++) {
        assert_true(is_right(found[i], (uintptr_t)found[i]->user));
        pump->free[pump->frees++] = found[i];
    }
    pump->done += count;
    if (count == 0 && !by_events)
        sched_yield(); /* the device is a thread, and may want this processor */
}

static void pump_run(bool by_events, uint64_t all)
{
    static struct pump pump;

    memset(&pump, 0, sizeof pump);
    for (; pump.frees < PUMPED; pump.frees++)
        pump.free[pump.frees] = &pump.jobs[pump.frees];
    while (pump.done < all) {
        pump_submit(&pump, all);
        if (by_events) {
            struct pollfd fd = {.fd = gm_fd(client), .events = (short)gm_events(client)};
            if (poll(&fd, 1, 60000) != 1)
                fail_msg("no event; %u of %u are done", (uint32_t)pump.done, (uint32_t)pump.submitted);
        }
        assert_int_equal(GM_OK, gm_poll(client));
        pump_take(&pump, by_events);
    }
    assert_int_equal(PUMPED, pump.frees);
}

static void pump_keeps_a_lane_full(void **state)
{
    (void)state;
    for (uint32_t slots = 2; slots <= 64; slots *= 4) {
        begin(1, slots, slots / 2 < 8 ? slots / 2 : 8, (struct gm_options){.lane_only = 1});
        pump_run(false, gm_rounds(20000));
        assert_int_equal(0, p.submits);
        end();
    }
}

static void pump_uses_the_socket_beside_full_lanes(void **state)
{
    (void)state;
    begin(2, 4, 1, (struct gm_options){0});
    pump_run(false, gm_rounds(5000));
    end();
    assert_true(p.submits > 0 && device.jobs > 0);
}

static void event_loop_misses_nothing(void **state)
{
    (void)state;
    for (uint32_t devices = 1; devices <= 2; devices++) {
        begin(devices, 16, 3, (struct gm_options){.lane_only = devices == 1});
        pump_run(true, gm_rounds(6000));
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_after_the_other_job),
        cmocka_unit_test(threads_share_a_client),
        cmocka_unit_test(pump_keeps_a_lane_full),
        cmocka_unit_test(pump_uses_the_socket_beside_full_lanes),
        cmocka_unit_test(event_loop_misses_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
