/* SPDX-License-Identifier: Apache-2.0
 *
 * A client with lanes in an event loop: its descriptor is readable exactly when there is something to do. And what a
 * child of fork finds: nothing.
 */
#include "lane_peer.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static struct lane_peer p;
static struct gm_client *client;

static void begin(struct gm_options options)
{
    lanes_start(&p, 1, 8, 0);
    client = lanes_open(&p, options);
}

static void end(void)
{
    gm_close(client);
    lanes_stop(&p);
}

static void submit(struct gm_job *job)
{
    const struct gm_request request = nop();

    assert_int_equal(GM_OK, gm_submit(client, &request, job));
}

static bool is_armed(const struct fake_lane *lane)
{
    return gm_load16_sys(&lane->header->wait).w[2] == 1;
}

static const struct gm_options lane_only = {.lane_only = 1};

/* Turns of a loop until a job is there. */
static uint32_t loop_until_job(struct gm_job **job, uint32_t *empty_turns)
{
    uint32_t turns = 0;

    while ((*job = gm_next(client)) == NULL) {
        struct pollfd fd = {.fd = gm_fd(client), .events = (short)gm_events(client)};
        assert_int_equal(1, poll(&fd, 1, 20000));
        assert_int_equal(GM_OK, gm_poll(client));
        turns++;
        *empty_turns += gm_job_status(p.user) == GM_EAGAIN;
    }
    return turns;
}

static void event_loop_turns_once_a_completion_and_sleeps_else(void **state)
{
    struct gm_job job = {0}, *found;
    uint32_t empty = 0;

    (void)state;
    begin(lane_only);
    p.user = &job;
    struct pollfd fd = {.fd = gm_fd(client), .events = (short)gm_events(client)};
    assert_int_equal(POLLIN, fd.events);
    for (int i = 0; i < 50; i++) {
        submit(&job); /* armed by this: the loop need not come by first */
        assert_true(is_armed(&p.lane[0]));
        assert_int_equal(0, poll(&fd, 1, 1));
        fake_do(&p.lane[0], 0);
        assert_int_equal(1, loop_until_job(&found, &empty));
        assert_ptr_equal(&job, found);
        assert_int_equal(0, poll(&fd, 1, 0));
    }
    assert_int_equal(0, empty);
    end();
}

static void event_loop_hears_of_what_other_calls_took(void **state)
{
    struct gm_job first = {0}, second = {0}, *found;
    struct gm_arena *arena;

    (void)state;
    begin(lane_only);
    struct pollfd fd = {.fd = gm_fd(client), .events = POLLIN};
    submit(&first);
    submit(&second);
    fake_do(&p.lane[0], 0);
    fake_do(&p.lane[0], 0);
    assert_int_equal(GM_OK, gm_wait(client, &second, in_ms(20000)));
    assert_int_equal(1, poll(&fd, 1, 0));
    assert_int_equal(GM_OK, gm_poll(client));
    found = gm_next(client);
    assert_ptr_equal(&first, found);
    assert_int_equal(0, poll(&fd, 1, 0));
    submit(&first);
    fake_do(&p.lane[0], 0);
    assert_int_equal(GM_OK, gm_arena_create(client, 4096, GM_MEMORY_SHARED, GM_DEVICE_ANY, in_ms(20000), &arena));
    assert_int_equal(GM_OK, gm_arena_free(arena, in_ms(20000)));
    assert_int_equal(1, poll(&fd, 1, 20000));
    assert_int_equal(GM_OK, gm_poll(client));
    assert_ptr_equal(&first, gm_next(client));
    assert_int_equal(0, poll(&fd, 1, 0));
    end();
}

static void event_loop_serves_socket_and_lane(void **state)
{
    static uint64_t data[4];
    struct gm_request by_socket = gm_request("sum", GM_U64, 4);
    struct gm_job jobs[2] = {0}, *found;
    uint32_t empty = 0, turns = 0;

    (void)state;
    begin(lane_only);
    p.user = &jobs[1];
    (void)gm_fd(client);
    by_socket.in[0] = gm_in_memory(data, sizeof data);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(GM_OK, gm_submit(client, &by_socket, &jobs[0]));
        submit(&jobs[1]);
        turns += loop_until_job(&found, &empty);
        assert_ptr_equal(&jobs[0], found);
        fake_do(&p.lane[0], 0);
        turns += loop_until_job(&found, &empty);
        assert_ptr_equal(&jobs[1], found);
    }
    /* A frame may come in two pieces; nothing else turns the loop for nothing. */
    assert_in_range(turns, 40, 80);
    end();
}

static void event_loop_hears_of_the_end(void **state)
{
    struct gm_job job = {0};

    (void)state;
    begin(lane_only);
    struct pollfd fd = {.fd = gm_fd(client), .events = POLLIN};
    submit(&job);
    assert_int_equal(0, poll(&fd, 1, 0));
    lanes_hang_up(&p);
    assert_int_equal(1, poll(&fd, 1, 20000));
    assert_int_equal(GM_ECLOSED, gm_poll(client));
    assert_ptr_equal(&job, gm_next(client));
    assert_int_equal(GM_ECLOSED, gm_job_status(&job));
    end();
}

static void event_loop_hears_of_a_closed_lane_and_goes_on(void **state)
{
    struct gm_job job = {0};

    (void)state;
    begin(lane_only);
    struct pollfd fd = {.fd = gm_fd(client), .events = POLLIN};
    submit(&job);
    fake_state(&p.lane[0], GM_LANE_CLOSED, GM_EINVAL);
    assert_int_equal(1, write(p.lane[0].wake_fds[1], "", 1));
    assert_int_equal(1, poll(&fd, 1, 20000));
    assert_int_equal(GM_OK, gm_poll(client));
    assert_ptr_equal(&job, gm_next(client));
    assert_int_equal(GM_ECLOSED, gm_job_status(&job));
    /* The answer to lane.close comes yet; then the descriptor is quiet, although the pipe has ended. */
    close(p.lane[0].wake_fds[1]);
    p.lane[0].wake_fds[1] = -1;
    lanes_await(&p.closes, 1);
    assert_int_equal(GM_OK, gm_ping(client, in_ms(20000)));
    assert_int_equal(0, poll(&fd, 1, 0));
    end();
}

/* With more output than the socket takes, the descriptor tells of room. */
static void event_descriptor_tells_of_room_for_output(void **state)
{
    static uint8_t data[GM_INLINE_BYTES];
    static struct gm_job jobs[8];
    struct gm_request copy = gm_request("sum", GM_U64, sizeof data / 8);

    (void)state;
    begin((struct gm_options){0});
    memset(jobs, 0, sizeof jobs);
    struct pollfd fd = {.fd = gm_fd(client), .events = POLLIN};
    copy.in[0] = gm_in_memory(data, sizeof data);
    for (int done = 0, sent = 0; done < 8;) {
        if (sent < 8 && gm_submit(client, &copy, &jobs[sent]) == GM_OK) {
            sent++;
            continue;
        }
        assert_int_equal(1, poll(&fd, 1, 20000));
        assert_int_equal(GM_OK, gm_poll(client));
        while (gm_next(client) != NULL)
            done++;
    }
    assert_int_equal(0, poll(&fd, 1, 0));
    end();
}

/* Mappings of lanes in this process, the test's own among them. */
static int lane_mappings(void)
{
    FILE *const maps = fopen("/proc/self/maps", "r");
    char line[512];
    int count = 0;

    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        count += strstr(line, "memfd:test") != NULL;
    if (maps != NULL)
        fclose(maps);
    return count;
}

static void child_of_fork_has_no_lane_and_touches_none(void **state)
{
    const struct gm_request request = nop();
    struct gm_job job = {0}, childs = {0}, *one;
    int status;

    (void)state;
    begin(lane_only);
    (void)gm_fd(client);
    submit(&job);
    const struct gm_granule wait = gm_load16_sys(&p.lane[0].header->wait);
    assert_int_equal(2, lane_mappings());
    const pid_t child = fork();
    if (child == 0) {
        int wrong = gm_submit(client, &request, &childs) != GM_EFORKED || gm_lanes(client) != GM_EFORKED ||
                    gm_wait(client, &job, 0) != GM_EFORKED || gm_poll(client) != GM_EFORKED ||
                    gm_fd(client) != GM_EFORKED || gm_next_batch(client, &one, 1) != 0 ||
                    gm_cancel(client, &job) != GM_EFORKED;
        wrong |= lane_mappings() != 1;
        /* New memory may come to lie where the parent's lane is: closing must leave it alone. */
        uint8_t *more[64];
        for (int i = 0; i < 64; i++) {
            more[i] = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            more[i][0] = 1;
        }
        gm_close(client);
        for (int i = 0; i < 64; i++)
            more[i][1] = more[i][0];
        _exit(wrong);
    }
    assert_int_equal(child, waitpid(child, &status, 0));
    assert_true(WIFEXITED(status));
    assert_int_equal(0, WEXITSTATUS(status));
    const struct gm_granule after = gm_load16_sys(&p.lane[0].header->wait);
    assert_memory_equal(&wait, &after, sizeof wait);
    fake_do(&p.lane[0], 0);
    assert_int_equal(GM_OK, gm_wait(client, &job, in_ms(20000)));
    assert_int_equal(1, gm_lanes(client));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(event_loop_turns_once_a_completion_and_sleeps_else),
        cmocka_unit_test(event_loop_hears_of_what_other_calls_took),
        cmocka_unit_test(event_loop_serves_socket_and_lane),
        cmocka_unit_test(event_loop_hears_of_the_end),
        cmocka_unit_test(event_loop_hears_of_a_closed_lane_and_goes_on),
        cmocka_unit_test(event_descriptor_tells_of_room_for_output),
        cmocka_unit_test(child_of_fork_has_no_lane_and_touches_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
