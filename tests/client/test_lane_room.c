/* SPDX-License-Identifier: Apache-2.0
 *
 * Room in a lane, with the test as the device: what goes where when it is full, across the end of the ring and of the
 * laps, when the doorbell rings, how long a slot and an arena stay taken, which lane a job takes.
 */
#include "lane_jobs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void full_lane_sends_by_the_socket(void **state)
{
    struct gm_job jobs[6];
    const struct gm_request request = nop();

    (void)state;
    begin_with(1, 4, 0, false, (struct gm_options){0});
    memset(jobs, 0, sizeof jobs);
    for (int i = 0; i < 6; i++)
        submit(&request, &jobs[i]);
    for (int i = 4; i < 6; i++)
        assert_int_equal(GM_OK, gm_wait(client, &jobs[i], in_ms(20000)));
    assert_int_equal(2, p.submits);
    for (int i = 0; i < 4; i++)
        fake_do(&p.lane[0], 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(GM_OK, gm_wait(client, &jobs[i], in_ms(20000)));
    /* And there is room again. */
    submit(&request, &jobs[0]);
    fake_do(&p.lane[0], 0);
    assert_int_equal(GM_OK, gm_wait(client, &jobs[0], in_ms(20000)));
    assert_int_equal(2, p.submits);
    end();
}

static void full_lane_is_busy_where_that_is_asked_for(void **state)
{
    struct gm_request requests[6];
    struct gm_job jobs[6], *pointers[6];
    struct gm_failure failure;
    size_t accepted;

    (void)state;
    begin(4);
    memset(jobs, 0, sizeof jobs);
    for (int i = 0; i < 6; i++) {
        requests[i] = nop();
        pointers[i] = &jobs[i];
    }
    assert_int_equal(GM_EBUSY, gm_submit_batch(client, requests, pointers, 6, &accepted));
    assert_int_equal(4, accepted);
    gm_last_failure(client, &failure);
    assert_string_equal("the lane is full", failure.text);
    /* A completion that is there makes room by itself. */
    fake_do(&p.lane[0], 0);
    submit(&requests[4], &jobs[4]);
    assert_int_equal(GM_EBUSY, gm_submit(client, &requests[5], &jobs[5]));
    assert_int_equal(GM_OK, gm_job_status(&jobs[0]));
    assert_int_equal(0, p.submits);
    /* Data of the caller's goes by the socket as ever. */
    uint64_t one = 1;
    struct gm_request by_socket = gm_request("sum", GM_U64, 1);
    by_socket.in[0] = gm_in_memory(&one, sizeof one);
    assert_int_equal(GM_OK, gm_run(client, &by_socket, in_ms(20000), NULL));
    end();
}

static void wide_descriptor_crosses_the_end_of_the_ring(void **state)
{
    uint32_t words[GM_DESC_WORDS];
    struct gm_result result;
    struct gm_job job = {0};
    uint64_t position;

    (void)state;
    begin(4);
    const struct gm_request wide = fill_of(3, UINT64_C(0x1122334455667788)), narrow = sum_of(1);
    for (int i = 0; i < 20; i++) {
        if (i % 3 == 0) { /* shifts the wide ones by one slot */
            submit(&narrow, &job);
            fake_do(&p.lane[0], 9);
            assert_int_equal(GM_OK, gm_wait(client, &job, in_ms(20000)));
        }
        submit(&wide, &job);
        assert_true(fake_take(&p.lane[0], words, &position));
        assert_true(words[GM_W_VALUE0] == 0x55667788 && words[GM_W_VALUE0 + 1] == 0x11223344);
        fake_answer(&p.lane[0], position, 0, GM_OK, 1);
        assert_int_equal(GM_OK, gm_wait(client, &job, in_ms(20000)));
        assert_int_equal(GM_OK, gm_job_result(&job, &result));
    }
    end();
}

/* Laps have 32 bits: 2^32 - 1 is followed by 0, and by 1. In a fresh lane memory of zeros must not answer for lap 0. */
static void laps_wrap_at_32_bits(void **state)
{
    const uint64_t slots[] = {2, 8};
    struct gm_result result;

    (void)state;
    for (size_t s = 0; s < 2; s++) {
        const uint64_t start = ((UINT64_C(1) << 32) - 3) * slots[s];
        begin_with(1, (uint32_t)slots[s], start, true, (struct gm_options){.lane_only = 1});
        struct gm_job jobs[2] = {0};
        for (uint64_t i = 0; i < 6 * slots[s]; i++) {
            struct gm_job *const job = &jobs[i % 2];
            const struct gm_request request = i % 5 == 4 ? fill_of(1, i) : sum_of(i);
            submit(&request, job);
            assert_int_equal(GM_OK, gm_poll(client));
            assert_int_equal(GM_EAGAIN, gm_job_status(job));
            fake_do(&p.lane[0], i);
            assert_int_equal(GM_OK, gm_wait(client, job, in_ms(20000)));
            gm_job_result(job, &result);
            assert_int_equal(i, result.value.u64);
        }
        assert_true(p.lane[0].head - start > 5 * slots[s]);
        end();
    }
}

static uint64_t rings(void)
{
    uint64_t rung = 0;

    return read(p.lane[0].doorbell_fd, &rung, sizeof rung) == sizeof rung ? rung : 0;
}

static void doorbell_is_rung_once_a_call_and_only_for_sleepers(void **state)
{
    struct gm_request requests[4];
    struct gm_job jobs[8], *pointers[4];

    (void)state;
    begin(16);
    memset(jobs, 0, sizeof jobs);
    for (int i = 0; i < 4; i++) {
        requests[i] = nop();
        pointers[i] = &jobs[i];
    }
    assert_int_equal(GM_OK, gm_submit_batch(client, requests, pointers, 4, NULL));
    assert_int_equal(0, rings());
    gm_store_relaxed_sys_u32(&p.lane[0].header->asleep, 1);
    for (int i = 0; i < 4; i++)
        pointers[i] = &jobs[4 + i];
    assert_int_equal(GM_OK, gm_submit_batch(client, requests, pointers, 3, NULL));
    assert_int_equal(1, rings());
    submit(&requests[3], pointers[3]);
    assert_int_equal(1, rings());
    gm_store_relaxed_sys_u32(&p.lane[0].header->asleep, 0);
    assert_int_equal(GM_OK, gm_poll(client));
    assert_int_equal(0, rings());
    end();
}

static void doorbell_that_nobody_reads_never_blocks(void **state)
{
    const uint64_t nearly_full = UINT64_MAX - 1;
    const struct gm_request request = nop();
    struct gm_job job = {0};

    (void)state;
    begin(4);
    assert_int_equal(sizeof nearly_full, write(p.lane[0].doorbell_fd, &nearly_full, sizeof nearly_full));
    gm_store_relaxed_sys_u32(&p.lane[0].header->asleep, 1);
    for (int i = 0; i < 10; i++) {
        submit(&request, &job);
        fake_do(&p.lane[0], 0);
        assert_int_equal(GM_OK, gm_wait(client, &job, in_ms(20000)));
    }
    end();
}

/* The job's memory is gone when gm_run returns, its slot and its arena are not. */
static void run_that_times_out_keeps_its_slot_and_arena_until_answered(void **state)
{
    struct gm_request request;
    struct gm_job job = {0};

    (void)state;
    begin(2);
    request = sum_of(4);
    assert_int_equal(GM_ETIMEDOUT, gm_run(client, &request, in_ms(1), NULL));
    lanes_await(&p.cancels, 1);
    assert_int_equal(GM_EBUSY, gm_arena_free(arena, in_ms(20000)));
    const struct gm_request other = nop();
    submit(&other, &job);
    struct gm_job third = {0};
    assert_int_equal(GM_EBUSY, gm_submit(client, &other, &third));
    fake_do(&p.lane[0], 1);
    fake_do(&p.lane[0], 2);
    assert_int_equal(GM_OK, gm_wait(client, &job, in_ms(20000)));
    assert_null(gm_next(client));
    submit(&other, &third);
    assert_int_equal(GM_OK, gm_arena_free(arena, in_ms(20000)));
    assert_int_equal(1, p.frees);
    end();
}

static void arena_of_a_pending_job_is_busy(void **state)
{
    struct gm_request request;
    struct gm_arena *other;
    struct gm_job job = {0};
    struct gm_failure failure;

    (void)state;
    begin(4);
    assert_int_equal(GM_OK, gm_arena_create(client, 64, GM_MEMORY_SHARED, GM_DEVICE_ANY, in_ms(20000), &other));
    request = gm_request("copy", GM_U64, 8);
    request.in[0] = gm_in_arena(other, 0, 64);
    request.out[0] = gm_in_arena(arena, 0, 64);
    submit(&request, &job);
    assert_int_equal(GM_EBUSY, gm_arena_free(arena, in_ms(20000)));
    assert_int_equal(GM_EBUSY, gm_arena_free(other, in_ms(20000)));
    gm_last_failure(client, &failure);
    assert_string_equal("jobs that use the arena are pending", failure.text);
    assert_int_equal(0, p.frees);
    /* Answered is enough: it need not have been taken. */
    fake_do(&p.lane[0], 0);
    assert_int_equal(GM_OK, gm_arena_free(other, in_ms(20000)));
    assert_int_equal(GM_OK, gm_wait(client, &job, in_ms(20000)));
    end();
}

static uint64_t read_so_far(const struct fake_lane *lane)
{
    return lane->head;
}

static void job_goes_where_its_arenas_are_or_least_is_pending(void **state)
{
    struct gm_arena *on_two, *somewhere;
    struct gm_job jobs[8];
    const struct gm_request any = nop();

    (void)state;
    begin_with(3, 8, 0, false, (struct gm_options){0});
    memset(jobs, 0, sizeof jobs);
    assert_int_equal(GM_OK, gm_arena_create(client, 64, GM_MEMORY_DEVICE, 2, in_ms(20000), &on_two));
    assert_int_equal(GM_OK, gm_arena_create(client, 64, GM_MEMORY_DEVICE, GM_DEVICE_ANY, in_ms(20000), &somewhere));
    struct gm_request request = gm_request("sum", GM_U64, 1);
    request.in[0] = gm_in_arena(on_two, 0, 64);
    submit(&request, &jobs[0]);
    submit(&request, &jobs[1]);
    fake_do(&p.lane[2], 0);
    fake_do(&p.lane[2], 0);
    assert_int_equal(GM_OK, gm_wait(client, &jobs[0], in_ms(20000)));
    assert_int_equal(GM_OK, gm_wait(client, &jobs[1], in_ms(20000)));
    /* Three jobs that may run anywhere go to three devices; one more that names its device goes there. */
    for (int i = 0; i < 3; i++)
        submit(&any, &jobs[i]);
    struct gm_request named = nop();
    named.device = 1;
    submit(&named, &jobs[3]);
    fake_do(&p.lane[0], 0);
    fake_do(&p.lane[1], 0);
    fake_do(&p.lane[1], 0);
    fake_do(&p.lane[2], 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(GM_OK, gm_wait(client, &jobs[i], in_ms(20000)));
    assert_int_equal(0, p.submits);
    /* The daemon knows where this one is, and what is wrong with that one. */
    request.in[0] = gm_in_arena(somewhere, 0, 64);
    submit(&request, &jobs[0]);
    request.in[0] = gm_in_arena(on_two, 0, 64);
    request.device = 1;
    submit(&request, &jobs[1]);
    lanes_await(&p.submits, 2);
    assert_true(read_so_far(&p.lane[0]) == 1 && read_so_far(&p.lane[1]) == 2 && read_so_far(&p.lane[2]) == 3);
    end();
}

static void only_devices_of_one_daemon_need_no_number(void **state)
{
    struct gm_arena *device_memory;
    struct gm_job job = {0};

    (void)state;
    begin(4);
    assert_int_equal(GM_OK,
                     gm_arena_create(client, 64, GM_MEMORY_DEVICE, GM_DEVICE_ANY, in_ms(20000), &device_memory));
    struct gm_request request = gm_request("sum", GM_U64, 1);
    request.in[0] = gm_in_arena(device_memory, 0, 64);
    submit(&request, &job);
    fake_do(&p.lane[0], 5);
    assert_int_equal(GM_OK, gm_wait(client, &job, in_ms(20000)));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_lane_sends_by_the_socket),
        cmocka_unit_test(full_lane_is_busy_where_that_is_asked_for),
        cmocka_unit_test(wide_descriptor_crosses_the_end_of_the_ring),
        cmocka_unit_test(laps_wrap_at_32_bits),
        cmocka_unit_test(doorbell_is_rung_once_a_call_and_only_for_sleepers),
        cmocka_unit_test(doorbell_that_nobody_reads_never_blocks),
        cmocka_unit_test(run_that_times_out_keeps_its_slot_and_arena_until_answered),
        cmocka_unit_test(arena_of_a_pending_job_is_busy),
        cmocka_unit_test(job_goes_where_its_arenas_are_or_least_is_pending),
        cmocka_unit_test(only_devices_of_one_daemon_need_no_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
