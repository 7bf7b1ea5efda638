/* SPDX-License-Identifier: Apache-2.0
 *
 * Many jobs of one call: each is what its own request says, goes to its own device, and comes back once. The device is
 * the test. Nothing here depends on time.
 */
#include "lane_peer.h"

#include <sched.h>
#include <string.h>

static struct lane_peer p;
static struct gm_client *client;

static void begin(uint32_t devices, uint32_t slots, struct gm_options options)
{
    lanes_start(&p, devices, slots, 0);
    options.lane_only = 1;
    client = lanes_open(&p, options);
}

static void end(void)
{
    gm_close(client);
    lanes_stop(&p);
}

/* The op of the next descriptor of a lane, which is answered with the number. */
static uint32_t op_of_next(uint32_t lane, uint64_t result)
{
    uint32_t words[GM_DESC_WORDS];
    uint64_t position;

    assert_true(fake_take(&p.lane[lane], words, &position));
    fake_answer(&p.lane[lane], position, result, GM_OK, 1);
    return words[GM_W_OP] & 0xffffu;
}

static uint32_t waiting_in(uint32_t lane)
{
    uint32_t words[GM_DESC_WORDS], count = 0;
    uint64_t position;

    for (; fake_take(&p.lane[lane], words, &position); count++)
        fake_answer(&p.lane[lane], position, 0, GM_OK, 1);
    return count;
}

static void each_job_of_a_batch_is_what_its_request_says(void **state)
{
    static const uint32_t expected[6] = {GM_OP_nop, GM_OP_sum, GM_OP_sum, GM_OP_fill, GM_OP_nop, GM_OP_sum};
    char same_text[] = "sum";
    struct gm_arena *arena;
    struct gm_job jobs[6], *pointers[6];
    struct gm_request requests[6];
    size_t accepted;

    (void)state;
    begin(1, 16, (struct gm_options){0});
    assert_int_equal(GM_OK, gm_arena_create(client, 4096, GM_MEMORY_SHARED, GM_DEVICE_ANY, in_ms(20000), &arena));
    memset(jobs, 0, sizeof jobs);
    for (int i = 0; i < 6; i++) {
        requests[i] = nop();
        pointers[i] = &jobs[i];
    }
    requests[1] = requests[2] = requests[5] = gm_request("sum", GM_F32, 8);
    requests[2].op = same_text;
    requests[3] = gm_request("fill", GM_U8, 8);
    requests[1].in[0] = requests[2].in[0] = requests[5].in[0] = requests[3].out[0] = gm_in_arena(arena, 0, 4096);
    assert_int_equal(GM_OK, gm_submit_batch(client, requests, pointers, 6, &accepted));
    assert_int_equal(6, accepted);
    for (int i = 0; i < 6; i++)
        assert_int_equal(expected[i], op_of_next(0, 0));
    end();
}

static void name_that_was_written_over_is_read_again(void **state)
{
    char name[8] = "nop";
    struct gm_arena *arena;
    struct gm_job jobs[2] = {{0}};
    struct gm_request request = gm_request(name, GM_F32, 8);

    (void)state;
    begin(1, 16, (struct gm_options){0});
    assert_int_equal(GM_OK, gm_arena_create(client, 4096, GM_MEMORY_SHARED, GM_DEVICE_ANY, in_ms(20000), &arena));
    request.n = 0;
    assert_int_equal(GM_OK, gm_submit(client, &request, &jobs[0]));
    memcpy(name, "sum", 4);
    request.n = 8;
    request.in[0] = gm_in_arena(arena, 0, 4096);
    assert_int_equal(GM_OK, gm_submit(client, &request, &jobs[1]));
    assert_int_equal(GM_OP_nop, op_of_next(0, 0));
    assert_int_equal(GM_OP_sum, op_of_next(0, 0));
    end();
}

static void name_that_is_none_ends_the_batch(void **state)
{
    static const char *const bad[] = {NULL, "", "none", "nopp", "no"};
    struct gm_job jobs[3] = {{0}}, *const pointers[3] = {&jobs[0], &jobs[1], &jobs[2]};
    struct gm_request requests[3] = {nop(), nop(), nop()};
    struct gm_failure failure;
    size_t accepted;

    (void)state;
    begin(1, 16, (struct gm_options){0});
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (size_t at = 0; at < 3; at++) {
            memset(jobs, 0, sizeof jobs);
            for (size_t k = 0; k < 3; k++)
                requests[k].op = k == at ? bad[i] : "nop";
            assert_int_equal(GM_EOP, gm_submit_batch(client, requests, pointers, 3, &accepted));
            assert_int_equal(at, accepted);
            gm_last_failure(client, &failure);
            assert_string_equal("op", failure.field);
            assert_int_equal(at, waiting_in(0));
            assert_int_equal(GM_OK, gm_poll(client));
            while (gm_next(client) != NULL)
                continue;
        }
    end();
}

static void jobs_of_a_batch_go_to_the_devices_they_name(void **state)
{
    static const int32_t device[8] = {0, 1, 1, 2, 1, 0, 1, 1}; /* two, five, one */
    struct gm_job jobs[8], *pointers[8];
    struct gm_request requests[8];

    (void)state;
    begin(3, 16, (struct gm_options){0});
    memset(jobs, 0, sizeof jobs);
    for (int i = 0; i < 8; i++) {
        requests[i] = nop();
        requests[i].device = device[i];
        pointers[i] = &jobs[i];
    }
    assert_int_equal(GM_OK, gm_submit_batch(client, requests, pointers, 8, NULL));
    assert_int_equal(2, waiting_in(0));
    assert_int_equal(5, waiting_in(1));
    assert_int_equal(1, waiting_in(2));
    end();
}

static void jobs_of_a_batch_for_any_device_are_spread_evenly(void **state)
{
    struct gm_job jobs[9], *pointers[9];
    struct gm_request requests[9];

    (void)state;
    begin(3, 16, (struct gm_options){0});
    memset(jobs, 0, sizeof jobs);
    for (int i = 0; i < 9; i++) {
        requests[i] = nop();
        pointers[i] = &jobs[i];
    }
    assert_int_equal(GM_OK, gm_submit_batch(client, requests, pointers, 9, NULL));
    for (uint32_t lane = 0; lane < 3; lane++)
        assert_int_equal(3, waiting_in(lane));
    end();
}

/* Of more jobs than the lane holds, and what a batch finds complete when it needs room. */
static void batch_fills_the_lane_and_takes_what_is_complete_for_room(void **state)
{
    struct gm_job jobs[24], *pointers[24];
    struct gm_request requests[24];
    size_t accepted;

    (void)state;
    begin(1, 16, (struct gm_options){0});
    memset(jobs, 0, sizeof jobs);
    for (int i = 0; i < 24; i++) {
        requests[i] = nop();
        pointers[i] = &jobs[i];
    }
    assert_int_equal(GM_EBUSY, gm_submit_batch(client, requests, pointers, 24, &accepted));
    assert_int_equal(16, accepted);
    for (int i = 0; i < 5; i++)
        (void)op_of_next(0, (uint64_t)i);
    assert_int_equal(GM_EBUSY, gm_submit_batch(client, requests, pointers + 16, 8, &accepted));
    assert_int_equal(5, accepted);
    for (int i = 0; i < 5; i++)
        assert_ptr_equal(&jobs[i], gm_next(client));
    assert_null(gm_next(client));
    assert_int_equal(16, waiting_in(0));
    end();
}

static void next_batch_leaves_the_rest_in_order(void **state)
{
    struct gm_job jobs[6], *found[8];
    const struct gm_request request = nop();

    (void)state;
    begin(1, 16, (struct gm_options){0});
    memset(jobs, 0, sizeof jobs);
    for (int i = 0; i < 6; i++)
        assert_int_equal(GM_OK, gm_submit(client, &request, &jobs[i]));
    for (int i = 0; i < 5; i++)
        (void)op_of_next(0, 0);
    assert_int_equal(GM_OK, gm_poll(client));
    assert_int_equal(0, gm_next_batch(client, found, 0));
    assert_int_equal(2, gm_next_batch(client, found, 2));
    assert_ptr_equal(&jobs[0], found[0]);
    assert_ptr_equal(&jobs[1], found[1]);
    (void)op_of_next(0, 0);
    assert_int_equal(GM_OK, gm_wait(client, &jobs[3], in_ms(20000))); /* out of the middle */
    assert_int_equal(GM_OK, gm_poll(client));
    assert_int_equal(3, gm_next_batch(client, found, 8));
    assert_ptr_equal(&jobs[2], found[0]);
    assert_ptr_equal(&jobs[4], found[1]);
    assert_ptr_equal(&jobs[5], found[2]);
    assert_int_equal(0, gm_next_batch(client, found, 8));
    end();
}

static void *wait_for(void *job)
{
    return (void *)(intptr_t)gm_wait(client, job, in_ms(60000));
}

/* Whichever of the two threads comes first. */
static void job_that_a_thread_waits_for_is_left_to_it(void **state)
{
    struct gm_job jobs[5], *found[8];
    const struct gm_request request = nop();
    pthread_t thread;
    void *status;

    (void)state;
    begin(1, 16, (struct gm_options){.wait = GM_WAIT_EVENT});
    for (int round = 0; round < 50; round++) {
        memset(jobs, 0, sizeof jobs);
        for (int i = 0; i < 5; i++)
            assert_int_equal(GM_OK, gm_submit(client, &request, &jobs[i]));
        assert_int_equal(0, pthread_create(&thread, NULL, wait_for, &jobs[round % 5]));
        while (gm_load16_sys(&p.lane[0].header->wait).w[2] == 0)
            sched_yield(); /* it has not gone to sleep yet */
        for (int i = 0; i < 5; i++)
            (void)op_of_next(0, 0);
        assert_int_equal(GM_OK, gm_poll(client));
        assert_int_equal(4, gm_next_batch(client, found, 8));
        /* The sleeper's last look may have taken some before the others were answered: so in any order. */
        uint32_t seen = 1u << round % 5;
        for (int i = 0; i < 4; i++)
            seen |= 1u << (found[i] - jobs);
        assert_int_equal(31, seen);
        pthread_join(thread, &status);
        assert_int_equal(GM_OK, (int)(intptr_t)status);
        assert_null(gm_next(client));
    }
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_job_of_a_batch_is_what_its_request_says),
        cmocka_unit_test(name_that_was_written_over_is_read_again),
        cmocka_unit_test(name_that_is_none_ends_the_batch),
        cmocka_unit_test(jobs_of_a_batch_go_to_the_devices_they_name),
        cmocka_unit_test(jobs_of_a_batch_for_any_device_are_spread_evenly),
        cmocka_unit_test(batch_fills_the_lane_and_takes_what_is_complete_for_room),
        cmocka_unit_test(next_batch_leaves_the_rest_in_order),
        cmocka_unit_test(job_that_a_thread_waits_for_is_left_to_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
