/* SPDX-License-Identifier: Apache-2.0
 *
 * What stats say of jobs in clients' lanes, of the real daemon: how many wait and for how long, whose lanes they are,
 * which run times were found there; and that stats answer whatever the devices do. Test thread and a child daemon with
 * the fake device, which answers a job with a run time of 1000 ns.
 */
#include "lane_client.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ops.h"

#define DEPTH "devices.0.queue_depth"
#define WAITING "devices.0.waiting"
#define HIGH "devices.0.queue_high"
#define OLDEST "devices.0.oldest_ms"
#define NOP_SAMPLES "ops.0.lane_run.count"

/* Words into a slot, with the lap of the position or without the last granule. */
static void put_half(const struct lane *lane, uint64_t position, uint32_t first, bool whole)
{
    struct gm_desc_slot *slot =
        (struct gm_desc_slot *)(void *)(lane->memory + gm_lane_sq_offset()) + (position & (lane->slots - 1u));
    const uint32_t lap = gm_lap(position, lane->log2);
    for (uint32_t i = 0; i < (whole ? 4u : 3u); i++)
        gm_store16_sys(&slot->g[i], (struct gm_granule){{i == 0 ? first : 0, 0, 0, lap}});
}

static const uint32_t wide_op = GM_OP_fill | (uint32_t)GM_FLAG_WIDE << 24;

static void what_waits_in_a_lane_is_in_the_queue(void **state)
{
    (void)state;
    struct gm_wire_response r;
    struct lane lane;
    daemon_start(&child, "hang", NULL);
    struct client *c = client_open(&child, false), *d = client_open(&child, false);
    assert_int_equal(lane_open(c, 0, 16, &lane), GM_OK);
    client_send_nops(d, 3);
    stats_wait(&child, DEPTH, 3);
    assert_int_equal(stats_u64(&child, WAITING), 0);
    for (int i = 0; i < 4; i++)
        lane_put(&lane, GM_OP_nop, 1);
    put_half(&lane, lane.next++, GM_DESC_SKIP_MARK, true); /* no job */
    put_half(&lane, lane.next++, wide_op, true);           /* one job in two slots */
    put_half(&lane, lane.next++, GM_DESC_WIDE_MARK, true);
    struct client *e = client_open(&child, false);
    snapshot(e, &r);
    assert_int_equal(response_u64(&r, WAITING), 5);
    assert_int_equal(response_u64(&r, DEPTH), 8);
    assert_int_equal(response_u64(&r, "devices.0.submitted"), 3); /* nobody took the others yet */
    /* Not written whole: it does not wait yet, and neither does what stands behind it. */
    put_half(&lane, lane.next, wide_op, true);
    put_half(&lane, lane.next + 1, GM_DESC_WIDE_MARK, false);
    put_half(&lane, lane.next + 2, GM_OP_nop, true);
    assert_int_equal(stats_u64(&child, WAITING), 5);
    put_half(&lane, lane.next + 1, GM_DESC_WIDE_MARK, true);
    assert_int_equal(stats_u64(&child, WAITING), 7);
    assert_int_equal(stats_u64(&child, HIGH), 10);
    stats_add_up(&child);
    lane_unmap(&lane);
    client_close(c); /* what nobody took is gone with it */
    stats_wait(&child, "devices.0.lanes", 0);
    assert_int_equal(stats_u64(&child, DEPTH), 3);
    assert_int_equal(stats_u64(&child, HIGH), 10);
    client_close(d), client_close(e);
    daemon_kill(&child); /* a device that takes nothing cannot be drained */
}

/* Whatever a client writes: at most its slots, and from any start. */
static void a_full_lane_counts_its_slots(void **state)
{
    (void)state;
    static const char *const starts[] = {"0", "1", "0xfffffffffffffff9", "0x0000000ffffffff9"};
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        struct lane lane;
        assert_int_equal(setenv("GRIDMILL_LANE_START", starts[i], 1), 0);
        daemon_start(&child, "hang", NULL);
        struct client *c = client_open(&child, false);
        assert_int_equal(lane_open(c, 0, 8, &lane), GM_OK);
        assert_int_equal(lane.start, strtoull(starts[i], NULL, 0));
        assert_int_equal(stats_u64(&child, WAITING), 0);
        assert_int_equal(stats_u64(&child, NOP_SAMPLES), 0);
        for (uint64_t k = 0; k < 7; k++) {
            put_half(&lane, lane.start + k, GM_OP_nop, true);
            assert_int_equal(stats_u64(&child, WAITING), k + 1);
        }
        put_half(&lane, lane.start + 7, wide_op, true); /* its second half would be the first slot */
        assert_int_equal(stats_u64(&child, WAITING), 7);
        put_half(&lane, lane.start + 7, GM_OP_nop, true);
        assert_int_equal(stats_u64(&child, WAITING), 8);
        memset(lane.memory + gm_lane_sq_offset(), 0xff, 8 * sizeof(struct gm_desc_slot)); /* nobody is hurt */
        assert_int_equal(stats_u64(&child, WAITING), 8);
        lane_unmap(&lane);
        client_close(c);
        daemon_kill(&child);
    }
}

static void the_oldest_is_as_old_as_the_sight_of_it(void **state)
{
    (void)state;
    struct gm_wire_response r;
    struct lane lane;
    daemon_start(&child, "normal", NULL);
    const pid_t device = daemon_device_pid(&child);
    struct client *c = client_open(&child, false), *d = client_open(&child, false);
    assert_int_equal(lane_open(c, 0, 16, &lane), GM_OK);
    assert_int_equal(stats_u64(&child, OLDEST), 0);
    for (int round = 0; round < 3; round++) {
        process_stop(device);
        const uint64_t written = now_ms();
        const uint64_t position = lane_put(&lane, GM_OP_nop, 1);
        lane_put(&lane, GM_OP_nop, 1);
        snapshot(d, &r);
        const uint64_t seen = now_ms();
        assert_int_equal(response_u64(&r, WAITING), 2);
        assert_true(response_u64(&r, OLDEST) <= seen - written + 1u); /* not the age of the round before */
        sleep_ms(50);
        const uint64_t again = now_ms();
        snapshot(d, &r);
        assert_true(response_u64(&r, OLDEST) + 1u >= again - seen);
        assert_true(response_u64(&r, OLDEST) <= now_ms() - written + 1u);
        assert_int_equal(response_u64(&r, OLDEST), response_u64(&r, "lanes.0.oldest_ms"));
        kill(device, SIGCONT);
        assert_int_equal(lane_wait(&lane, position + 1), GM_OK);
        stats_wait(&child, DEPTH, 0);
        assert_int_equal(stats_u64(&child, OLDEST), 0);
    }
    lane_unmap(&lane);
    client_close(c), client_close(d);
    assert_int_equal(daemon_stop(&child), 0);
}

/* Lanes of a device that comes back hold their jobs meanwhile, and so does the queue. */
static void what_waits_for_a_lost_device_is_in_the_queue(void **state)
{
    (void)state;
    struct gm_wire_response r;
    struct lane lane;
    daemon_start(&child, "later:mute", NULL);
    const pid_t device = daemon_device_pid(&child);
    struct client *c = client_open(&child, false), *d = client_open(&child, false);
    assert_int_equal(lane_open(c, 0, 16, &lane), GM_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(lane_wait(&lane, lane_put(&lane, GM_OP_nop, 1)), GM_OK);
    process_stop(device);
    for (int i = 0; i < 5; i++)
        lane_put(&lane, GM_OP_nop, 1);
    assert_int_equal(stats_u64(&child, WAITING), 5);
    kill(device, SIGKILL);
    stats_wait_text(&child, "devices.0.state", "recovering");
    stats_wait_text(&child, "lanes.0.state", "recovering");
    stats_wait(&child, "daemon.healthy", 0);
    lane_put(&lane, GM_OP_nop, 1); /* it still takes jobs */
    snapshot(d, &r);
    assert_int_equal(response_u64(&r, WAITING), 6);
    assert_int_equal(response_u64(&r, DEPTH), 6);
    assert_int_equal(response_u64(&r, "devices.0.done"), 3);
    assert_int_equal(response_u64(&r, "ops.0.done"), 3);
    assert_int_equal(response_u64(&r, "lanes.0.submitted"), 3);
    assert_int_equal(response_u64(&r, "lanes.0.answered"), 3);
    stats_add_up(&child);
    lane_unmap(&lane);
    client_close(c), client_close(d);
    stats_wait(&child, DEPTH, 0);
    daemon_kill(&child);
}

static void a_lane_has_a_row_that_says_whose_it_is(void **state)
{
    (void)state;
    static const char *const two[] = {"--device", "cpu", "--device", "cpu", NULL};
    struct gm_wire_response r;
    struct lane lane[3];
    char text[16];
    daemon_start(&child, "hold", two);
    struct client *c = client_open(&child, false), *d = client_open(&child, false);
    assert_int_equal(lane_open(c, 1, 0, &lane[0]), GM_OK);
    assert_int_equal(lane_open(d, 1, 32, &lane[1]), GM_OK);
    assert_int_equal(lane_open(d, 0, 64, &lane[2]), GM_OK);
    lane_put(&lane[1], GM_OP_nop, 1), lane_put(&lane[1], GM_OP_COUNT, 1);
    stats_wait(&child, "lanes.2.submitted", 2);
    stats_wait(&child, "lanes.2.answered", 1); /* the other one is held */
    struct client *e = client_open(&child, false);
    snapshot(e, &r);
    const struct {
        const char *key;
        uint64_t value[3];
    } rows[] = {{"device", {0, 1, 1}},
                {"lane", {lane[2].handle, lane[0].handle, lane[1].handle}},
                {"slots", {64, GM_CLIENT_LANE_SLOTS_DEFAULT, 32}},
                {"pid", {(uint64_t)getpid(), (uint64_t)getpid(), (uint64_t)getpid()}},
                {"uid", {getuid(), getuid(), getuid()}},
                {"submitted", {0, 0, 2}},
                {"answered", {0, 0, 1}},
                {"waiting", {0, 0, 0}}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (uint32_t k = 0; k < 3; k++) {
            char path[64];
            snprintf(path, sizeof path, "lanes.%u.%s", k, rows[i].key);
            assert_int_equal(response_u64(&r, path), rows[i].value[k]);
        }
    assert_int_equal(response_u64(&r, "lanes.0.session"), response_u64(&r, "lanes.2.session"));
    assert_int_not_equal(response_u64(&r, "lanes.0.session"), response_u64(&r, "lanes.1.session"));
    stats_text(&child, "lanes.0.state", text, sizeof text);
    assert_string_equal(text, "open");
    assert_int_equal(lane_close(d, &lane[2]), GM_OK);
    assert_int_equal(stats_u64(&child, "lanes.0.lane"), lane[0].handle);
    for (int i = 0; i < 3; i++)
        lane_unmap(&lane[i]);
    client_close(c), client_close(d), client_close(e);
    assert_int_equal(daemon_stop(&child), 0);
}

static struct client *opened_by_root; /* on the admin socket */

static int sees_his_own_lane_only(void)
{
    struct gm_wire_response r;
    struct lane own;
    struct client *c = client_open(&child, false);
    snapshot(c, &r);
    if (response_count(&r, "lanes") != 0 || response_u64(&r, "devices.0.lanes") != 1)
        return 2;
    if (lane_open(c, 0, 0, &own) != GM_OK)
        return 3;
    snapshot(c, &r);
    if (response_count(&r, "lanes") != 1 || response_u64(&r, "lanes.0.uid") != OTHER_UID)
        return 4;
    snapshot(opened_by_root, &r); /* both, whoever asks */
    return response_count(&r, "lanes") == 2 ? 0 : 5;
}

static void lanes_of_others_are_not_shown(void **state)
{
    (void)state;
    struct lane lane;
    needs_root();
    daemon_start(&child, "normal", NULL);
    struct client *c = client_open(&child, false);
    opened_by_root = client_open(&child, true);
    assert_int_equal(lane_open(c, 0, 0, &lane), GM_OK);
    assert_int_equal(as_another_user(sees_his_own_lane_only), 0);
    lane_unmap(&lane);
    client_close(c), client_close(opened_by_root);
    assert_int_equal(daemon_stop(&child), 0);
}

/* ---- counts and run times of ops ---- */

static void jobs_of_lanes_are_in_the_counts_of_ops_and_their_times_are_samples(void **state)
{
    (void)state;
    struct gm_wire_response r;
    struct lane lane;
    uint64_t last = 0;
    daemon_start(&child, "normal", NULL);
    struct client *c = client_open(&child, false), *d = client_open(&child, false);
    assert_int_equal(lane_open(c, 0, 64, &lane), GM_OK);
    for (int i = 0; i < 40; i++)
        last = lane_put(&lane, GM_OP_nop, 1);
    assert_int_equal(lane_wait(&lane, last), GM_OK);
    client_send_nops(d, 7);
    assert_int_equal(client_receive_done(d, 7, 0), 7);
    for (int i = 0; i < 3; i++) { /* nothing is found twice */
        snapshot(d, &r);
        assert_int_equal(response_u64(&r, "ops.0.done"), 47);
        assert_int_equal(response_u64(&r, "ops.0.run.count"), 7);
        assert_int_equal(response_u64(&r, "ops.0.wait.count"), 7);
        assert_int_equal(response_u64(&r, NOP_SAMPLES), 40);
    }
    assert_int_equal(response_u64(&r, "ops.0.lane_run.max"), 1000);
    assert_int_equal(response_u64(&r, "ops.0.lane_run.p50"), 1000);
    assert_int_equal(response_u64(&r, "ops.3.lane_run.count"), 0);
    /* Round and round: what was written over is not found, what lies there now is. */
    for (int i = 0; i < 640; i++)
        assert_int_equal(lane_wait(&lane, lane_put(&lane, GM_OP_nop, 1)), GM_OK);
    snapshot(d, &r);
    const uint64_t samples = response_u64(&r, NOP_SAMPLES);
    assert_int_equal(response_u64(&r, "ops.0.done"), 687);
    assert_true(samples >= 40 + 64 && samples <= 680);
    snapshot(d, &r);
    assert_int_equal(response_u64(&r, NOP_SAMPLES), samples);
    stats_add_up(&child);
    lane_unmap(&lane);
    client_close(c), client_close(d);
    assert_int_equal(daemon_stop(&child), 0);
}

/* A client that writes its own answers changes the samples and nothing else. */
static void what_a_client_writes_into_its_completions_is_bounded(void **state)
{
    (void)state;
    struct gm_wire_response r;
    struct lane lane;
    daemon_start(&child, "hang", NULL);
    struct client *c = client_open(&child, false), *d = client_open(&child, false);
    assert_int_equal(lane_open(c, 0, 8, &lane), GM_OK);
    struct gm_granule *cq = (struct gm_granule *)(void *)(lane.memory + gm_lane_cq_offset(lane.slots));
    for (uint32_t i = 0; i < 8; i++) {
        lane_put(&lane, i % 2 ? GM_OP_nop : 0xfff0u, 1);
        gm_store16_sys(&cq[i], gm_completion(UINT64_MAX, GM_OK, UINT64_MAX, gm_lap(lane.start + i, lane.log2)));
    }
    snapshot(d, &r);
    assert_int_equal(response_u64(&r, NOP_SAMPLES), 0); /* nobody took them, so nobody answered them */
    assert_int_equal(response_u64(&r, WAITING), 8);
    assert_int_equal(response_u64(&r, "ops.0.done"), 0);
    assert_int_equal(response_u64(&r, "ops.0.run.count"), 0);
    lane_unmap(&lane);
    client_close(c), client_close(d);
    daemon_kill(&child);
}

static void the_real_device_tells_run_times_too(void **state)
{
    (void)state;
    char program[512];
    program_path("gridmill-device-cpu", program, sizeof program);
    if (access(program, X_OK) != 0)
        skip();
    const char *const args[] = {"--device", "cpu", "--workers", "2", "--device-program", program, NULL};
    struct gm_wire_response r;
    struct lane lane;
    daemon_start(&child, "normal", args);
    struct client *c = client_open(&child, false), *d = client_open(&child, false);
    assert_int_equal(lane_open(c, 0, 64, &lane), GM_OK);
    for (int i = 0; i < 50; i++)
        assert_int_equal(lane_wait(&lane, lane_put(&lane, GM_OP_nop, 0)), GM_OK);
    stats_wait(&child, "ops.0.done", 50);
    stats_wait(&child, DEPTH, 0);
    snapshot(d, &r);
    assert_int_equal(response_u64(&r, NOP_SAMPLES), 50);
    assert_true(response_u64(&r, "ops.0.lane_run.max") > 0);
    assert_int_equal(response_u64(&r, "ops.0.run.count"), 0);
    stats_wait(&child, "lanes.0.answered", 50);
    lane_unmap(&lane);
    client_close(c), client_close(d);
    assert_int_equal(daemon_stop(&child), 0);
}

/* ---- under load ---- */

#define LANES 250u
#define SUBMITTERS (GM_INFLIGHT_MAX / GM_INFLIGHT_PER_SESSION_MAX)

static void fill_lane(struct client *c, struct lane *lane)
{
    assert_int_equal(lane_open(c, 0, GM_CLIENT_LANE_SLOTS_MAX, lane), GM_OK);
    close(lane->fd), close(lane->doorbell), close(lane->wake);
    for (uint64_t k = 0; k < lane->slots; k++)
        put_half(lane, lane->start + k, GM_OP_nop, true);
}

/* Nobody takes a job any more, everything that can hold one is full, and then the device process does not even run. */
static void stats_answer_with_every_queue_full_and_the_device_stopped(void **state)
{
    (void)state;
    static struct client *clients[LANES], *submitters[SUBMITTERS];
    static struct lane lanes[LANES];
    static const char *const args[] = {"--user-lanes", "256", "--user-jobs", "16384", NULL};
    struct rlimit limit;
    struct gm_wire_response r;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < 2048)
        skip();
    daemon_start(&child, "hang", args);
    const pid_t device = daemon_device_pid(&child);
    for (uint32_t i = 0; i < LANES; i++)
        fill_lane(clients[i] = client_open(&child, false), &lanes[i]);
    for (uint32_t i = 0; i < SUBMITTERS; i++) {
        submitters[i] = client_open(&child, false);
        client_send_nops(submitters[i], GM_INFLIGHT_PER_SESSION_MAX);
    }
    const uint64_t jobs = LANES * GM_CLIENT_LANE_SLOTS_MAX;
    stats_wait(&child, DEPTH, GM_INFLIGHT_MAX + jobs);
    process_stop(device);
    struct client *c = client_open(&child, false);
    uint64_t longest = 0;
    for (int i = 0; i < 10; i++) {
        const uint64_t start = now_ms();
        snapshot(c, &r); /* fails the test when it does not come */
        longest = now_ms() - start > longest ? now_ms() - start : longest;
    }
    print_message("stats of %u full lanes: %llu bytes, at most %llu ms; longest turn of the loop %.1f ms\n", LANES,
                  (unsigned long long)c->size, (unsigned long long)longest,
                  (double)response_u64(&r, "daemon.loop_lag_max_ns") / 1e6);
    assert_int_equal(response_u64(&r, WAITING), jobs);
    assert_int_equal(response_u64(&r, DEPTH), GM_INFLIGHT_MAX + jobs);
    assert_int_equal(response_u64(&r, "lanes.249.waiting"), GM_CLIENT_LANE_SLOTS_MAX);
    kill(device, SIGCONT);
    for (uint32_t i = 0; i < LANES; i++)
        munmap(lanes[i].memory, lanes[i].bytes), client_close(clients[i]);
    for (uint32_t i = 0; i < SUBMITTERS; i++)
        client_close(submitters[i]);
    stats_wait(&child, "devices.0.lanes", 0);
    assert_int_equal(stats_u64(&child, WAITING), 0);
    client_close(c);
    daemon_kill(&child);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(what_waits_in_a_lane_is_in_the_queue),
        T(a_full_lane_counts_its_slots),
        T(the_oldest_is_as_old_as_the_sight_of_it),
        T(what_waits_for_a_lost_device_is_in_the_queue),
        T(a_lane_has_a_row_that_says_whose_it_is),
        T(lanes_of_others_are_not_shown),
        T(jobs_of_lanes_are_in_the_counts_of_ops_and_their_times_are_samples),
        T(what_a_client_writes_into_its_completions_is_bounded),
        T(the_real_device_tells_run_times_too),
        T(stats_answer_with_every_queue_full_and_the_device_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
