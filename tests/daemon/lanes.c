/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes of clients of the real daemon: what comes with them, what they cost, who may have them, how they end. Test
 * thread and a child daemon with the fake device.
 */
#include "lane_client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void lane_comes_with_memory_doorbell_and_wake_and_takes_jobs(void **state)
{
    (void)state;
    struct lane lane;
    uint64_t result = 0;
    char byte;
    daemon_start(&child, "normal", NULL);
    struct client *c = client_open(&child, false);
    assert_int_equal(lane_open(c, -1, 0, &lane), GM_OK);
    assert_int_equal(lane.slots, GM_CLIENT_LANE_SLOTS_DEFAULT);
    assert_int_equal(lane.bytes, gm_lane_bytes(lane.slots));
    assert_int_equal(lane.header->magic, GM_LANE_MAGIC);
    assert_int_equal(lane.header->slots, lane.slots);
    assert_int_equal(lane.header->start, lane.start);
    assert_int_equal(lane.header->state, GM_LANE_OPEN);
    assert_int_equal(ftruncate(lane.fd, 0), -1);
    assert_int_equal(ftruncate(lane.fd, 1 << 20), -1);
    assert_int_equal(fcntl(lane.fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    assert_true(fcntl(lane.doorbell, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(lane.wake, F_GETFL) & O_NONBLOCK);
    assert_int_equal(fcntl(lane.wake, F_GETFL) & O_ACCMODE, O_RDONLY);
    for (uint64_t i = 0; i < 3u * lane.slots; i++) {
        const uint64_t position = lane_put(&lane, GM_OP_nop, 1000 + i);
        assert_int_equal(lane_wait(&lane, position), GM_OK);
        assert_true(lane_look(&lane, position, NULL, &result));
        assert_int_equal(result, 1000 + i);
    }
    /* Asleep, it is woken by the pipe. */
    assert_int_equal(read(lane.wake, &byte, 1), -1);
    gm_store16_sys(&lane.header->wait, (struct gm_granule){{3u * lane.slots, 0, 1, 0}});
    lane_put(&lane, GM_OP_nop, 1);
    struct pollfd ready = {.fd = lane.wake, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, WAIT_MS), 1);
    assert_int_equal(stats_u64(&child, "devices.0.lanes"), 1);
    assert_int_equal(stats_u64(&child, "devices.0.submitted"), 3u * lane.slots + 1u);
    stats_wait(&child, "devices.0.done", 3u * lane.slots + 1u); /* counted when the client was woken */
    stats_add_up(&child);
    assert_int_equal(lane_close(c, &lane), GM_OK);
    assert_int_equal(lane.header->state, 0); /* given back whole, although it is mapped here */
    assert_int_equal(lane_close(c, &lane), GM_ENOTFOUND);
    assert_int_equal(stats_u64(&child, "devices.0.lanes"), 0);
    lane_unmap(&lane);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static void who_may_have_which_lane(void **state)
{
    (void)state;
    static const char *const two[] = {"--device", "cpu", "--device", "cpu", "--quota", "1m", NULL};
    static const uint32_t bad[] = {1, 3, 255, GM_CLIENT_LANE_SLOTS_MAX + 1, 2 * GM_CLIENT_LANE_SLOTS_MAX};
    struct lane lane[4], other;
    daemon_start(&child, "normal", two);
    struct client *c = client_open(&child, false), *d = client_open(&child, false);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(lane_open(c, -1, bad[i], &other), GM_ESIZE);
    assert_int_equal(lane_open(c, 2, 0, &other), GM_ENODEVICE);
    assert_int_equal(lane_open(c, 1, GM_LANE_SLOTS_MIN, &lane[0]), GM_OK);
    assert_int_equal(lane[0].device, 1);
    assert_int_equal(lane_open(c, 1, 0, &other), GM_EQUOTA); /* one of a session on a device */
    assert_int_equal(lane_open(d, -1, 0, &lane[1]), GM_OK);
    assert_int_equal(lane[1].device, 0); /* where there are fewer */
    assert_int_equal(lane_open(c, 0, GM_CLIENT_LANE_SLOTS_MAX, &lane[2]), GM_OK);
    assert_int_equal(lane[2].slots, GM_CLIENT_LANE_SLOTS_MAX);
    /* Somebody else's is none of ours, and neither is one that never was. */
    const uint32_t handles[] = {0, 1u << 16, lane[0].handle + 1, UINT32_MAX, 16u << 16 | 1u};
    assert_int_equal(lane_close(d, &lane[0]), GM_ENOTFOUND);
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++) {
        other = lane[0], other.handle = handles[i];
        assert_int_equal(lane_close(c, &other), GM_ENOTFOUND);
    }
    /* Lanes are paid like arenas: 1 MiB is the user's. */
    struct gm_wire_request create = request_of(GM_METHOD_ARENA_CREATE);
    struct gm_wire_response response;
    create.u.arena_create.bytes = (1 << 20) - lane[0].bytes - lane[1].bytes - lane[2].bytes;
    client_call(c, &create, &response);
    assert_false(response.failed);
    assert_int_equal(lane_open(d, 1, 2, &other), GM_EQUOTA);
    assert_int_equal(stats_u64(&child, "daemon.rejected_quota"), 2);
    assert_int_equal(lane_close(c, &lane[0]), GM_OK);
    assert_int_equal(lane_open(d, 1, 2, &lane[3]), GM_OK);
    for (int i = 0; i < 4; i++)
        lane_unmap(&lane[i]);
    client_close(c), client_close(d);
    stats_wait(&child, "devices.0.lanes", 0);
    stats_wait(&child, "devices.1.lanes", 0);
    stats_wait(&child, "daemon.arenas", 0);
    assert_int_equal(daemon_stop(&child), 0);
}

static void all_lanes_of_a_device_may_be_in_use_and_no_more(void **state)
{
    (void)state;
    static struct client *clients[GM_LANES_MAX + 1];
    static struct lane lanes[GM_LANES_MAX + 1];
    static const char *const args[] = {"--user-lanes", "256", NULL};
    daemon_start(&child, "normal", args);
    const uint64_t fds = stats_u64(&child, "daemon.fds");
    for (uint32_t i = 0; i <= GM_LANES_MAX; i++) {
        clients[i] = client_open(&child, false);
        assert_int_equal(lane_open(clients[i], 0, 2, &lanes[i]), i < GM_LANES_MAX ? GM_OK : GM_EQUOTA);
    }
    for (uint32_t i = 0; i < GM_LANES_MAX; i++)
        lane_put(&lanes[i], GM_OP_nop, i);
    for (uint32_t i = 0; i < GM_LANES_MAX; i++) {
        uint64_t result = 0;
        assert_int_equal(lane_wait(&lanes[i], lanes[i].start), GM_OK);
        lane_look(&lanes[i], lanes[i].start, NULL, &result);
        assert_int_equal(result, i);
    }
    for (uint32_t i = 0; i <= GM_LANES_MAX; i++) {
        if (i < GM_LANES_MAX)
            lane_unmap(&lanes[i]);
        client_close(clients[i]);
    }
    stats_wait(&child, "devices.0.lanes", 0);
    stats_wait(&child, "daemon.fds", fds);
    stats_add_up(&child);
    assert_int_equal(daemon_stop(&child), 0);
}

static void clients_leave_at_any_moment_and_nothing_stays(void **state)
{
    (void)state;
    struct lane lane;
    daemon_start(&child, "hold", NULL);
    const uint64_t fds = stats_u64(&child, "daemon.fds");
    const pid_t device = daemon_device_pid(&child);
    for (int i = 0; i < 30; i++) {
        struct client *c = client_open(&child, false);
        if (i % 3 == 0)
            process_stop(device); /* the lane is not there yet when its client leaves */
        lane_ask(c, 0, 16);
        if (i % 3 != 0) {
            assert_int_equal(lane_receive(c, &lane), GM_OK);
            for (int k = 0; k < i % 5; k++)
                lane_put(&lane, GM_OP_nop, 1);
            lane_unmap(&lane);
        } else if (i % 2 != 0) {
            sleep_ms(5);
        }
        client_close(c);
        kill(device, SIGCONT);
    }
    stats_wait(&child, "devices.0.lanes", 0);
    stats_wait(&child, "daemon.sessions", 1);
    stats_wait(&child, "daemon.fds", fds);
    stats_wait(&child, "devices.0.queue_depth", 0);
    stats_add_up(&child);
    struct client *c = client_open(&child, false); /* the quota is whole, and so are the indices */
    assert_int_equal(lane_open(c, 0, 0, &lane), GM_OK);
    assert_int_equal(lane.handle, 1);
    lane_unmap(&lane);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static void client_that_ended_its_side_still_gets_the_lane_that_it_asked_for(void **state)
{
    (void)state;
    struct lane lane;
    struct gm_wire_response response;
    daemon_start(&child, "normal", NULL);
    const pid_t device = daemon_device_pid(&child);
    struct client *c = client_open(&child, false);
    process_stop(device);
    lane_ask(c, 0, 16);
    assert_int_equal(shutdown(c->fd, SHUT_WR), 0);
    stats_wait(&child, "devices.0.lanes", 1);
    stats_wait(&child, "daemon.sessions", 2);
    kill(device, SIGCONT);
    assert_int_equal(lane_receive(c, &lane), GM_OK);
    assert_false(client_receive(c, &response)); /* and then the end, which takes the lane along */
    stats_wait(&child, "devices.0.lanes", 0);
    lane_unmap(&lane);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static void client_that_ended_its_side_still_gets_the_answer_to_its_cancel(void **state)
{
    (void)state;
    struct lane lane;
    struct gm_wire_response response;
    struct gm_wire_request cancel = request_of(GM_METHOD_CANCEL);
    daemon_start(&child, "normal", NULL);
    const pid_t device = daemon_device_pid(&child);
    struct client *c = client_open(&child, false);
    assert_int_equal(lane_open(c, 0, 16, &lane), GM_OK);
    process_stop(device);
    cancel.u.cancel.has_lane = true, cancel.u.cancel.lane = lane.handle, cancel.u.cancel.position = lane.start;
    client_send(c, &cancel); /* the session has nothing else on its way */
    assert_int_equal(shutdown(c->fd, SHUT_WR), 0);
    stats_wait(&child, "daemon.sessions", 2);
    kill(device, SIGCONT);
    assert_true(client_receive(c, &response));
    assert_int_equal(response.id, cancel.id);
    assert_int_equal(code_of(&response), GM_ENOTFOUND); /* there is no job */
    assert_false(client_receive(c, &response));
    lane_unmap(&lane);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static void descriptors_of_a_client_that_does_not_read_are_closed(void **state)
{
    (void)state;
    daemon_start(&child, "normal", NULL);
    const uint64_t fds = stats_u64(&child, "daemon.fds");
    for (uint32_t i = 0; i < GM_SESSIONS_PER_UID_DEFAULT + 50; i++) { /* more than could be there at a time */
        struct client *c = client_open(&child, false);
        lane_ask(c, 0, 2);
        client_close(c); /* the reply finds nobody, or was never read */
        if (i % 64 == 0) /* a session stays until its lane is made: the device may have fallen behind */
            stats_wait(&child, "daemon.sessions", 1);
    }
    stats_wait(&child, "devices.0.lanes", 0);
    stats_wait(&child, "daemon.fds", fds);
    assert_int_equal(daemon_stop(&child), 0);
}

static void lane_that_the_device_refuses_is_an_error_and_costs_nothing(void **state)
{
    (void)state;
    struct lane lane;
    daemon_start(&child, "nolane", NULL);
    const uint64_t fds = stats_u64(&child, "daemon.fds");
    struct client *c = client_open(&child, false);
    for (int i = 0; i < 20; i++)
        assert_int_equal(lane_open(c, 0, 0, &lane), GM_ESYSTEM);
    assert_int_equal(stats_u64(&child, "devices.0.lanes"), 0);
    client_close(c);
    stats_wait(&child, "daemon.fds", fds);
    assert_int_equal(daemon_stop(&child), 0);
}

/* What a device took too late it still has: its places are not given to others before it has let go of them. */
static void memory_that_the_device_takes_too_late_is_taken_back(void **state)
{
    (void)state;
    struct lane lane;
    struct gm_wire_response response;
    daemon_start(&child, "late", NULL);
    const uint64_t fds = stats_u64(&child, "daemon.fds");
    struct client *c = client_open(&child, false);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(lane_open(c, 0, 0, &lane), GM_ETIMEDOUT);
        stats_wait(&child, "devices.0.lanes", 0);
    }
    /* Every place is used again. */
    for (uint32_t i = 0; i < GM_ARENAS_MAX + 20u; i++) {
        struct gm_wire_request create = request_of(GM_METHOD_ARENA_CREATE);
        create.u.arena_create.bytes = 4096;
        create.u.arena_create.device_memory = i % 2 != 0;
        client_call(c, &create, &response);
        assert_true(response.failed);
        assert_int_equal(response.problem.code, GM_ETIMEDOUT);
    }
    stats_wait(&child, "daemon.arenas", 0);
    client_close(c);
    stats_wait(&child, "daemon.fds", fds);
    assert_int_equal(daemon_stop(&child), 0);
}

static void lane_that_the_device_does_not_let_go_is_asked_for_again(void **state)
{
    (void)state;
    struct lane lane;
    daemon_start(&child, "grip", NULL);
    struct client *c = client_open(&child, false);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(lane_open(c, 0, 0, &lane), GM_OK);
        assert_int_equal(lane_close(c, &lane), GM_OK); /* comes when it is true */
        lane_unmap(&lane);
    }
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static int cancel_of(struct client *c, uint32_t lane, uint64_t position, char *field)
{
    struct gm_wire_request cancel = request_of(GM_METHOD_CANCEL);
    struct gm_wire_response response;
    cancel.u.cancel.has_lane = true, cancel.u.cancel.lane = lane, cancel.u.cancel.position = position;
    client_call(c, &cancel, &response);
    memcpy(field, response.problem.field, GM_FIELD_BYTES_MAX);
    return response.failed ? response.problem.code : GM_OK;
}

static void job_of_a_lane_is_cancelled_by_its_position(void **state)
{
    (void)state;
    struct lane lane;
    char field[GM_FIELD_BYTES_MAX];
    daemon_start(&child, "hold", NULL);
    struct client *c = client_open(&child, false), *d = client_open(&child, false);
    assert_int_equal(lane_open(c, 0, 0, &lane), GM_OK);
    const uint64_t first = lane_put(&lane, GM_OP_nop, 1), second = lane_put(&lane, GM_OP_nop, 1);
    stats_wait(&child, "devices.0.started", 2);
    assert_int_equal(cancel_of(d, lane.handle, first, field), GM_ENOTFOUND); /* not its lane */
    assert_string_equal(field, "lane");
    assert_int_equal(cancel_of(c, lane.handle, first, field), GM_OK);
    assert_int_equal(lane_wait(&lane, first), GM_ECANCELLED);
    assert_false(lane_look(&lane, second, NULL, NULL));
    assert_int_equal(cancel_of(c, lane.handle, first, field), GM_ENOTFOUND);
    assert_string_equal(field, "position");
    assert_int_equal(stats_u64(&child, "devices.0.cancelled"), 1);
    assert_int_equal(stats_u64(&child, "devices.0.queue_depth"), 1);
    stats_add_up(&child);
    lane_unmap(&lane);
    client_close(c), client_close(d);
    stats_wait(&child, "devices.0.cancelled", 2);
    stats_wait(&child, "devices.0.queue_depth", 0);
    assert_int_equal(daemon_stop(&child), 0);
}

static void abused_lane_is_closed_with_its_reason_and_counted(void **state)
{
    (void)state;
    struct lane lane, honest;
    daemon_start(&child, "abuse", NULL);
    struct client *c = client_open(&child, false), *d = client_open(&child, false);
    assert_int_equal(lane_open(d, 0, 0, &honest), GM_OK);
    assert_int_equal(lane_open(c, 0, 0, &lane), GM_OK);
    for (int i = 0; i < 4; i++)
        lane_put(&lane, GM_OP_COUNT + 1, 0);
    assert_int_equal(lane_wait(&lane, lane_put(&lane, GM_OP_nop, 0)), GM_OK); /* not in a row */
    for (int i = 0; i < 5; i++)
        lane_put(&lane, GM_OP_COUNT + 1, 0);
    lane_wait_state(&lane, GM_LANE_CLOSED);
    assert_int_equal(lane.header->reason, GM_EOP);
    struct pollfd ready = {.fd = lane.wake, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, WAIT_MS), 1); /* who sleeps hears of it */
    stats_wait(&child, "devices.0.lanes_abused", 1);
    assert_true(daemon_log_has(&child, "lane_abuse closed: "));
    assert_int_equal(stats_u64(&child, "devices.0.rejected"), 9);
    assert_int_equal(lane_open(c, 0, 0, &lane), GM_EQUOTA); /* it still has one, though a dead one */
    lane.handle = honest.handle + 1;
    assert_int_equal(lane_close(c, &lane), GM_OK);
    assert_int_equal(lane_open(c, 0, 0, &lane), GM_OK);
    assert_int_equal(lane_wait(&lane, lane_put(&lane, GM_OP_nop, 0)), GM_OK);
    assert_int_equal(lane_wait(&honest, lane_put(&honest, GM_OP_nop, 0)), GM_OK);
    stats_add_up(&child);
    lane_unmap(&lane), lane_unmap(&honest);
    client_close(c), client_close(d);
    assert_int_equal(daemon_stop(&child), 0);
}

static void sigterm_finishes_what_lanes_hold_and_closes_them(void **state)
{
    (void)state;
    struct gm_wire_response response;
    struct lane lane, idle;
    daemon_start(&child, "slow", NULL);
    struct client *c = client_open(&child, false), *d = client_open(&child, false);
    assert_int_equal(lane_open(c, 0, 256, &lane), GM_OK);
    assert_int_equal(lane_open(d, 0, 256, &idle), GM_OK);
    for (int i = 0; i < 200; i++)
        lane_put(&lane, GM_OP_nop, 1);
    kill(child.pid, SIGTERM);
    lane_wait_state(&idle, GM_LANE_CLOSED);
    lane_wait_state(&lane, GM_LANE_CLOSED);
    assert_int_equal(lane.header->reason, GM_EDRAINING);
    for (int i = 0; i < 200; i++) {
        int status = GM_EAGAIN;
        assert_true(lane_look(&lane, lane.start + (uint64_t)i, &status, NULL)); /* all of it, before it was closed */
        assert_int_equal(status, GM_OK);
    }
    assert_false(client_receive(c, &response));
    assert_int_equal(daemon_wait(&child), 0);
    assert_true(lane_look(&lane, lane.start, NULL, NULL)); /* and it stays */
    lane_unmap(&lane), lane_unmap(&idle);
    client_close(c), client_close(d);
}

static void drain_closes_lanes_and_refuses_new_ones(void **state)
{
    (void)state;
    struct gm_wire_request drain = request_of(GM_METHOD_DRAIN);
    struct gm_wire_response response;
    struct lane lane, other;
    daemon_start(&child, "slow", NULL);
    struct client *c = client_open(&child, false), *admin = client_open(&child, true);
    assert_int_equal(lane_open(c, 0, 0, &lane), GM_OK);
    for (int i = 0; i < 50; i++)
        lane_put(&lane, GM_OP_nop, 1);
    client_call(admin, &drain, &response);
    assert_false(response.failed);
    assert_int_equal(lane.header->state, GM_LANE_CLOSED);
    assert_int_equal(lane.header->reason, GM_EDRAINING);
    for (int i = 0; i < 50; i++)
        assert_true(lane_look(&lane, lane.start + (uint64_t)i, NULL, NULL));
    assert_int_equal(lane_open(c, 0, 0, &other), GM_EDRAINING);
    assert_int_equal(lane_close(c, &lane), GM_OK);
    assert_int_equal(stats_u64(&child, "devices.0.done"), 50);
    lane_unmap(&lane);
    client_close(c), client_close(admin);
    assert_int_equal(daemon_stop(&child), 0);
}

static void lane_that_does_not_finish_is_closed_at_the_deadline(void **state)
{
    (void)state;
    static const char *const short_drain[] = {"--drain-ms", "300", NULL};
    struct lane lane;
    daemon_start(&child, "hold", short_drain);
    struct client *c = client_open(&child, false);
    assert_int_equal(lane_open(c, 0, 0, &lane), GM_OK);
    const uint64_t position = lane_put(&lane, GM_OP_nop, 1);
    stats_wait(&child, "devices.0.queue_depth", 1);
    kill(child.pid, SIGTERM);
    lane_wait_state(&lane, GM_LANE_CLOSED);
    assert_int_equal(lane.header->reason, GM_EDRAINING);
    assert_false(lane_look(&lane, position, NULL, NULL) && lane_wait(&lane, position) == GM_OK);
    assert_int_equal(daemon_wait(&child), 1);
    lane_unmap(&lane);
    client_close(c);
}

static void killed_daemon_is_an_end_of_file_and_its_device_does_not_stay(void **state)
{
    (void)state;
    struct gm_wire_response response;
    struct lane lane;
    daemon_start(&child, "hold", NULL);
    const pid_t device = daemon_device_pid(&child);
    struct client *c = client_open(&child, false);
    assert_int_equal(lane_open(c, 0, 0, &lane), GM_OK);
    lane_put(&lane, GM_OP_nop, 1);
    kill(child.pid, SIGKILL);
    assert_false(client_receive(c, &response));
    assert_int_equal(daemon_wait(&child), 128 + SIGKILL);
    for (const uint64_t until = now_ms() + WAIT_MS; kill(device, 0) == 0 && now_ms() < until;)
        sleep_ms(5);
    assert_int_equal(kill(device, 0), -1);
    /* The wake pipe has no writer left: who sleeps on it wakes. */
    struct pollfd ready = {.fd = lane.wake, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, WAIT_MS), 1);
    lane_unmap(&lane);
    client_close(c);
    daemon_start(&child, "normal", NULL); /* over the same socket */
    assert_int_equal(daemon_stop(&child), 0);
}

static void wraps_of_a_lane_are_crossed(void **state)
{
    (void)state;
    static const char *const starts[] = {"8589934580", "18446744073709551600"}; /* laps of 2 slots; 2^64 - 16 */
    for (size_t i = 0; i < 2; i++) {
        struct lane lane;
        setenv("GRIDMILL_LANE_START", starts[i], 1);
        daemon_start(&child, "normal", NULL);
        unsetenv("GRIDMILL_LANE_START");
        struct client *c = client_open(&child, false);
        assert_int_equal(lane_open(c, 0, 2, &lane), GM_OK);
        assert_int_equal(lane.start, strtoull(starts[i], NULL, 10));
        for (int k = 0; k < 200; k++)
            assert_int_equal(lane_wait(&lane, lane_put(&lane, GM_OP_nop, 1)), GM_OK);
        assert_int_equal(lane_close(c, &lane), GM_OK);
        lane_unmap(&lane);
        client_close(c);
        assert_int_equal(daemon_stop(&child), 0);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(lane_comes_with_memory_doorbell_and_wake_and_takes_jobs),
        CASE(who_may_have_which_lane),
        CASE(all_lanes_of_a_device_may_be_in_use_and_no_more),
        CASE(clients_leave_at_any_moment_and_nothing_stays),
        CASE(client_that_ended_its_side_still_gets_the_lane_that_it_asked_for),
        CASE(client_that_ended_its_side_still_gets_the_answer_to_its_cancel),
        CASE(descriptors_of_a_client_that_does_not_read_are_closed),
        CASE(lane_that_the_device_refuses_is_an_error_and_costs_nothing),
        CASE(memory_that_the_device_takes_too_late_is_taken_back),
        CASE(lane_that_the_device_does_not_let_go_is_asked_for_again),
        CASE(job_of_a_lane_is_cancelled_by_its_position),
        CASE(abused_lane_is_closed_with_its_reason_and_counted),
        CASE(sigterm_finishes_what_lanes_hold_and_closes_them),
        CASE(drain_closes_lanes_and_refuses_new_ones),
        CASE(lane_that_does_not_finish_is_closed_at_the_deadline),
        CASE(killed_daemon_is_an_end_of_file_and_its_device_does_not_stay),
        CASE(wraps_of_a_lane_are_crossed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
