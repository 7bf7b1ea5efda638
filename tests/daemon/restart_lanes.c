/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes of clients while the process of their device is replaced: which jobs fail, who is woken, what a client that
 * scribbles does to others. Test thread and a child daemon with the fake device.
 */
#include "lane_client.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void lane_loses_started_jobs_only_and_goes_on_by_itself(void **state)
{
    (void)state;
    struct lane lane;
    daemon_start(&child, "once:die", NULL);
    struct client *c = client_open(&child, false);
    assert_int_equal(lane_open(c, 0, 64, &lane), GM_OK);
    for (int i = 0; i < 50; i++)
        lane_put(&lane, GM_OP_nop, 1);
    for (int i = 0; i < 50; i++)
        assert_int_equal(lane_wait(&lane, lane.start + (uint64_t)i), i == 2 ? GM_EDEVICELOST : GM_OK);
    lane_wait_state(&lane, GM_LANE_OPEN);
    for (int i = 0; i < 100; i++)
        assert_int_equal(lane_wait(&lane, lane_put(&lane, GM_OP_nop, 1)), GM_OK);
    daemon_back(&child, 1);
    assert_true(daemon_log_has(&child, "device_suspect device=0 worker=0 lane=1 position=2 op=? session="));
    assert_int_equal(stats_u64(&child, "devices.0.submitted"), 150 + 5);
    assert_int_equal(stats_u64(&child, "devices.0.failed"), 1);
    assert_int_equal(stats_u64(&child, "devices.0.done"), 149 + 5);
    assert_int_equal(stats_u64(&child, "ops.0.failed"), 1);
    assert_int_equal(lane_close(c, &lane), GM_OK);
    lane_unmap(&lane);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

/* The process died before what it had answered was in its counters: it is in those of the device and of the ops all the
 * same, also where the client has written the next job into the slot. */
static void jobs_that_no_counter_tells_of_are_counted(void **state)
{
    (void)state;
    struct lane lane;
    daemon_start(&child, "once:lag", NULL);
    struct client *c = client_open(&child, false);
    assert_int_equal(lane_open(c, 0, 4, &lane), GM_OK);
    for (int i = 0; i < 9; i++) {
        const uint64_t position = lane_put(&lane, i == 6 ? GM_OP_COUNT : GM_OP_nop, 1);
        assert_int_equal(lane_wait(&lane, position), i == 8 ? GM_EDEVICELOST : i == 6 ? GM_EOP : GM_OK);
    }
    daemon_back(&child, 1);
    assert_int_equal(stats_u64(&child, "devices.0.submitted"), 9 + 5);
    assert_int_equal(stats_u64(&child, "devices.0.done"), 7 + 5);
    assert_int_equal(stats_u64(&child, "devices.0.failed"), 1);
    assert_int_equal(stats_u64(&child, "devices.0.rejected"), 1);
    assert_int_equal(stats_u64(&child, "ops.0.done"), 7 + 5);
    assert_int_equal(stats_u64(&child, "ops.0.failed"), 1);
    assert_int_equal(stats_u64(&child, "lanes.0.answered"), 9);
    assert_true(daemon_log_has(&child, "device_jobs device=0 lost=1 of_sockets=0 of_lanes=1"));
    assert_int_equal(lane_close(c, &lane), GM_OK);
    lane_unmap(&lane);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static void lane_that_the_process_did_not_let_go_goes_with_it(void **state)
{
    (void)state;
    struct gm_wire_request close_it = request_of(GM_METHOD_LANE_CLOSE);
    struct gm_wire_response response;
    struct lane lane;
    daemon_start(&child, "once:grip", NULL);
    struct client *c = client_open(&child, false);
    assert_int_equal(lane_open(c, 0, 64, &lane), GM_OK);
    close_it.u.lane_close.lane = lane.handle;
    client_send(c, &close_it);
    for (const uint64_t until = now_ms() + WAIT_MS; !daemon_log_has(&child, "lane_drop device=0") && now_ms() < until;)
        sleep_ms(1);
    kill(daemon_device_pid(&child), SIGKILL); /* before it is asked again */
    assert_true(client_receive(c, &response));
    assert_false(response.failed);
    daemon_back(&child, 1);
    lane_unmap(&lane);
    assert_int_equal(lane_open(c, 0, 64, &lane), GM_OK);
    lane_unmap(&lane);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static void sleeping_client_of_a_lane_is_woken_for_what_was_lost(void **state)
{
    (void)state;
    struct lane lane;
    daemon_start(&child, "once:hold", NULL);
    struct client *c = client_open(&child, false);
    assert_int_equal(lane_open(c, 0, 64, &lane), GM_OK);
    const uint64_t position = lane_put(&lane, GM_OP_nop, 1);
    gm_store16_sys(&lane.header->wait, (struct gm_granule){{0, 0, 1, 0}});
    stats_wait(&child, "devices.0.started", 1);
    kill(daemon_device_pid(&child), SIGKILL);
    struct pollfd ready = {.fd = lane.wake, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, WAIT_MS), 1);
    assert_int_equal(lane_wait(&lane, position), GM_EDEVICELOST);
    daemon_back(&child, 1);
    /* The next process counts on from what its client has read: with its own counts it would not wake it. */
    lane_wait_state(&lane, GM_LANE_OPEN);
    char bytes[64];
    assert_true(read(lane.wake, bytes, sizeof bytes) > 0);
    gm_store16_sys(&lane.header->wait, (struct gm_granule){{1, 0, 1, 0}});
    assert_int_equal(poll(&ready, 1, 0), 0);
    lane_put(&lane, GM_OP_nop, 1);
    assert_int_equal(poll(&ready, 1, WAIT_MS), 1);
    lane_unmap(&lane);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

/* The process died in a job before its note said that it had taken it: what is answered for it counts all the same. */
static void sleeping_client_is_woken_on_after_a_job_that_no_note_tells_of(void **state)
{
    (void)state;
    struct lane lane;
    char bytes[64];
    daemon_start(&child, "once:die", NULL);
    struct client *c = client_open(&child, false);
    assert_int_equal(lane_open(c, 0, 64, &lane), GM_OK);
    for (int i = 0; i < 3; i++)
        lane_put(&lane, GM_OP_nop, 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(lane_wait(&lane, lane.start + (uint64_t)i), i == 2 ? GM_EDEVICELOST : GM_OK);
    daemon_back(&child, 1);
    lane_wait_state(&lane, GM_LANE_OPEN);
    while (read(lane.wake, bytes, sizeof bytes) > 0)
        continue;
    gm_store16_sys(&lane.header->wait, (struct gm_granule){{3, 0, 1, 0}});
    struct pollfd ready = {.fd = lane.wake, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, 0), 0);
    lane_put(&lane, GM_OP_nop, 1);
    assert_int_equal(poll(&ready, 1, WAIT_MS), 1);
    lane_unmap(&lane);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static void many_losses_lose_nothing_that_was_not_started(void **state)
{
    (void)state;
    /* The scribbling client harms itself alone. */
    struct lane lane, scribbled;
    uint64_t random = 7;
    daemon_start(&child, "slow", NULL);
    struct client *c = client_open(&child, false), *d = client_open(&child, false);
    assert_int_equal(lane_open(c, 0, 64, &lane), GM_OK);
    assert_int_equal(lane_open(d, 0, 64, &scribbled), GM_OK);
    for (uint64_t round = 1; round <= 3; round++) {
        for (int i = 0; i < 60; i++)
            lane_put(&lane, GM_OP_nop, 1);
        client_send_nops(c, 100);
        for (uint64_t i = 0; i < scribbled.bytes / 8; i++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            ((uint64_t *)(void *)scribbled.memory)[i] = random;
        }
        sleep_ms(30);
        kill(daemon_device_pid(&child), SIGKILL);
        int lost = 0;
        for (uint64_t p = lane.next - 60; p != lane.next; p++) {
            const int status = lane_wait(&lane, p);
            assert_true(status == GM_OK || status == GM_EDEVICELOST);
            lost += status == GM_EDEVICELOST;
        }
        lost += 100 - client_receive_done(c, 100, GM_EDEVICELOST);
        assert_true(lost <= 1); /* one thread: it was in one job, or between two */
        stats_wait(&child, "devices.0.restarts", round);
    }
    client_close(d);
    assert_int_equal(lane_close(c, &lane), GM_OK);
    stats_add_up(&child);
    lane_unmap(&lane), lane_unmap(&scribbled);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(lane_loses_started_jobs_only_and_goes_on_by_itself),
        CASE(jobs_that_no_counter_tells_of_are_counted),
        CASE(lane_that_the_process_did_not_let_go_goes_with_it),
        CASE(sleeping_client_of_a_lane_is_woken_for_what_was_lost),
        CASE(sleeping_client_is_woken_on_after_a_job_that_no_note_tells_of),
        CASE(many_losses_lose_nothing_that_was_not_started),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
