/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for jobs in a lane, by looking and by sleeping, in several threads; what ends a wait early. The device is the
 * test.
 */
#include "lane_peer.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

static struct lane_peer p;
static struct gm_client *client;

static const struct gm_options ways[] = {{.lane_only = 1, .wait = GM_WAIT_SPIN_THEN_SLEEP},
                                         {.lane_only = 1, .wait = GM_WAIT_SPIN_THEN_SLEEP, .spin_ns = 1},
                                         {.lane_only = 1, .wait = GM_WAIT_SPIN_THEN_SLEEP, .spin_ns = 3000000000u},
                                         {.lane_only = 1, .wait = GM_WAIT_SPIN},
                                         {.lane_only = 1, .wait = GM_WAIT_EVENT}};
#define WAYS (sizeof ways / sizeof *ways)

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

/* ---- One thread waits, another is the device or the daemon ---- */

struct waiting {
    struct gm_job job;
    pthread_t thread;
    uint64_t deadline_ns;
    int status;
    uint32_t done; /* atomic */
};

static void *wait_run(void *argument)
{
    struct waiting *const w = argument;

    w->status = gm_wait(client, &w->job, w->deadline_ns);
    __atomic_store_n(&w->done, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void wait_start(struct waiting *w)
{
    *w = (struct waiting){.deadline_ns = in_ms(60000)};
    submit(&w->job);
    assert_int_equal(0, pthread_create(&w->thread, NULL, wait_run, w));
}

static int wait_end(struct waiting *w)
{
    pthread_join(w->thread, NULL);
    return w->status;
}

static void answer_ends_the_wait_however_one_waits(void **state)
{
    struct waiting w;

    (void)state;
    for (size_t i = 0; i < WAYS; i++) {
        begin(ways[i]);
        for (int delay_us = 0; delay_us <= 4000; delay_us += 800) {
            wait_start(&w);
            usleep((useconds_t)delay_us);
            assert_int_equal(0, __atomic_load_n(&w.done, __ATOMIC_ACQUIRE));
            fake_do(&p.lane[0], 0);
            /* A device looks at the wait granule again and again. */
            while (__atomic_load_n(&w.done, __ATOMIC_ACQUIRE) == 0) {
                fake_wake(&p.lane[0]);
                sched_yield();
            }
            assert_int_equal(GM_OK, wait_end(&w));
            assert_false(is_armed(&p.lane[0]));
        }
        end();
    }
}

static void deadline_ends_the_wait_however_one_waits(void **state)
{
    struct gm_job job = {0};

    (void)state;
    for (size_t i = 0; i < WAYS; i++) {
        begin(ways[i]);
        submit(&job);
        const uint64_t start_ns = gm_now_ns();
        assert_int_equal(GM_ETIMEDOUT, gm_wait(client, &job, 0));
        assert_int_equal(GM_ETIMEDOUT, gm_wait(client, &job, start_ns));
        assert_int_equal(GM_ETIMEDOUT, gm_wait(client, &job, start_ns + 5000000));
        assert_true(gm_now_ns() >= start_ns + 5000000);
        assert_int_equal(GM_EAGAIN, gm_job_status(&job));
        fake_do(&p.lane[0], 0);
        assert_int_equal(GM_OK, gm_wait(client, &job, 0));
        end();
    }
}

static void sleeper_is_woken_by_one_byte_and_reads_it(void **state)
{
    struct waiting w;
    char bytes[8];
    int left = 0;

    (void)state;
    begin(ways[4]);
    for (int i = 0; i < 20; i++) {
        wait_start(&w);
        while (!is_armed(&p.lane[0]))
            sched_yield();
        const struct gm_granule wait = gm_load16_sys(&p.lane[0].header->wait);
        assert_int_equal(i, wait.w[0]);
        assert_int_equal(0, wait.w[1]);
        usleep(1000);
        fake_do(&p.lane[0], 0); /* and its one wake */
        assert_int_equal(GM_OK, wait_end(&w));
        assert_false(is_armed(&p.lane[0]));
        /* Unless the last look before the sleep found the completion: then the byte stays for the next time. */
        left += read(p.lane[0].wake_fds[0], bytes, sizeof bytes) > 0;
    }
    assert_true(left < 20);
    end();
}

/* It came after the last look and before the device could see that somebody sleeps. */
static void completion_that_is_there_needs_no_wake(void **state)
{
    uint32_t words[GM_DESC_WORDS];
    struct gm_job job = {0};
    uint64_t position;

    (void)state;
    begin(ways[4]);
    submit(&job);
    assert_true(fake_take(&p.lane[0], words, &position));
    fake_answer(&p.lane[0], position, 0, GM_OK, 1);
    const uint64_t start_ns = gm_now_ns();
    assert_int_equal(GM_OK, gm_wait(client, &job, in_ms(60000)));
    assert_true(gm_now_ns() - start_ns < UINT64_C(30000000000));
    end();
}

static void bytes_for_nothing_do_no_harm(void **state)
{
    char bytes[300] = {0};
    struct waiting w;

    (void)state;
    begin(ways[4]);
    wait_start(&w);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(sizeof bytes, write(p.lane[0].wake_fds[1], bytes, sizeof bytes));
        usleep(300);
    }
    assert_int_equal(0, __atomic_load_n(&w.done, __ATOMIC_ACQUIRE));
    while (!is_armed(&p.lane[0]))
        sched_yield();
    fake_do(&p.lane[0], 0);
    assert_int_equal(GM_OK, wait_end(&w));
    end();
}

/* Fills the pipe, as a device does whose client was awake all the time. */
static void full_pipe_wakes_too(void **state)
{
    char bytes[4096] = {0};
    struct gm_job job = {0};

    (void)state;
    begin(ways[4]);
    while (write(p.lane[0].wake_fds[1], bytes, sizeof bytes) > 0)
        continue;
    assert_int_equal(EAGAIN, errno);
    submit(&job);
    fake_do(&p.lane[0], 0);
    assert_int_equal(GM_OK, gm_wait(client, &job, in_ms(20000)));
    end();
}

/* ---- News of the lane, and of the daemon ---- */

static void assert_failed(struct waiting *w, int status, const char *text)
{
    struct gm_failure failure;

    assert_int_equal(status, wait_end(w));
    gm_job_failure(&w->job, &failure);
    assert_int_equal(status, failure.status);
    if (strstr(failure.text, text) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", failure.text, text);
}

static void byte_of_the_daemon(void)
{
    assert_int_equal(1, write(p.lane[0].wake_fds[1], "", 1));
}

static void closed_lane_fails_its_jobs_with_the_reason(void **state)
{
    struct waiting w;
    struct gm_job other = {0};

    (void)state;
    for (size_t i = 0; i < WAYS; i++) {
        begin(ways[i]);
        submit(&other);
        wait_start(&w);
        usleep(1000);
        fake_do(&p.lane[0], 0); /* what was answered before is a result */
        fake_state(&p.lane[0], GM_LANE_CLOSED, GM_EBOUNDS);
        byte_of_the_daemon();
        assert_failed(&w, GM_ECLOSED,
                      "the daemon closed the lane: out of bounds: a buffer, or an index or offset in one");
        assert_int_equal(GM_OK, gm_wait(client, &other, in_ms(20000)));
        assert_int_equal(0, gm_lanes(client));
        lanes_await(&p.closes, 1);
        /* The client goes on by the socket. */
        submit(&other);
        assert_int_equal(GM_OK, gm_wait(client, &other, in_ms(20000)));
        assert_int_equal(1, p.submits);
        end();
    }
}

static void lost_device_fails_the_jobs_of_its_lane(void **state)
{
    struct waiting w;

    (void)state;
    for (size_t i = 0; i < WAYS; i++) {
        begin(ways[i]);
        wait_start(&w);
        usleep(1000);
        fake_state(&p.lane[0], GM_LANE_LOST, GM_OK);
        byte_of_the_daemon();
        assert_failed(&w, GM_EDEVICELOST, "the device is out of service");
        end();
    }
}

static void recovering_lane_is_waited_for(void **state)
{
    struct waiting w;
    struct gm_job job = {0};

    (void)state;
    for (size_t i = 0; i < WAYS; i++) {
        begin(ways[i]);
        wait_start(&w);
        fake_state(&p.lane[0], GM_LANE_RECOVERING, GM_OK);
        usleep(2000);
        assert_int_equal(0, __atomic_load_n(&w.done, __ATOMIC_ACQUIRE));
        submit(&job); /* queued */
        fake_state(&p.lane[0], GM_LANE_OPEN, GM_OK);
        fake_do(&p.lane[0], 0);
        fake_do(&p.lane[0], 0);
        while (__atomic_load_n(&w.done, __ATOMIC_ACQUIRE) == 0) {
            fake_wake(&p.lane[0]);
            sched_yield();
        }
        assert_int_equal(GM_OK, wait_end(&w));
        assert_int_equal(GM_OK, gm_wait(client, &job, in_ms(20000)));
        assert_int_equal(0, p.submits);
        end();
    }
}

/* Other devices first, while one is being replaced. */
static void recovering_device_comes_last(void **state)
{
    struct gm_job jobs[4];

    (void)state;
    memset(jobs, 0, sizeof jobs);
    lanes_start(&p, 2, 8, 0);
    client = lanes_open(&p, ways[0]);
    fake_state(&p.lane[0], GM_LANE_RECOVERING, GM_OK);
    for (int i = 0; i < 4; i++)
        submit(&jobs[i]);
    for (int i = 0; i < 4; i++)
        fake_do(&p.lane[1], 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(GM_OK, gm_wait(client, &jobs[i], in_ms(20000)));
    end();
}

static void end_of_the_daemon_ends_every_wait(void **state)
{
    struct waiting w;

    (void)state;
    for (size_t i = 0; i < WAYS; i++) {
        begin(ways[i]);
        wait_start(&w);
        usleep(1000);
        lanes_hang_up(&p);
        assert_failed(&w, GM_ECLOSED, "the daemon closed the connection");
        assert_int_equal(GM_ECLOSED, gm_poll(client));
        end();
    }
}

/* A program that only looks, by gm_poll, hears of it too. */
static void end_of_the_daemon_is_seen_by_polling(void **state)
{
    struct gm_job job = {0};

    (void)state;
    begin(ways[0]);
    submit(&job);
    lanes_hang_up(&p);
    while (gm_poll(client) == GM_OK)
        continue;
    assert_int_equal(GM_ECLOSED, gm_job_status(&job));
    end();
}

/* Nobody can wake this client any more, so it must not sleep on. */
static void dropped_wake_pipe_ends_the_lane(void **state)
{
    struct waiting w;

    (void)state;
    begin(ways[4]);
    wait_start(&w);
    while (!is_armed(&p.lane[0]))
        sched_yield();
    close(p.lane[0].wake_fds[1]);
    p.lane[0].wake_fds[1] = -1;
    assert_failed(&w, GM_ECLOSED, "dropped the lane");
    struct gm_job job = {0};
    submit(&job);
    assert_int_equal(GM_OK, gm_wait(client, &job, in_ms(20000)));
    assert_int_equal(1, p.submits);
    end();
}

/* ---- Several threads ---- */

static void several_threads_wait_for_jobs_of_one_lane(void **state)
{
    struct waiting w[6];

    (void)state;
    for (size_t i = 0; i < WAYS; i++) {
        begin(ways[i]);
        for (int k = 0; k < 6; k++)
            wait_start(&w[k]);
        usleep(1000);
        uint32_t words[GM_DESC_WORDS];
        uint64_t positions[6];
        for (int k = 0; k < 6; k++)
            assert_true(fake_take(&p.lane[0], words, &positions[k]));
        for (int k = 0; k < 6; k++) { /* 3, 2, 1, 0, 5, 4 */
            const int which = k < 4 ? 3 - k : 9 - k;
            fake_answer(&p.lane[0], positions[which], 0, GM_OK, 1);
            while (__atomic_load_n(&w[which].done, __ATOMIC_ACQUIRE) == 0) {
                fake_wake(&p.lane[0]);
                sched_yield();
            }
        }
        for (int k = 0; k < 6; k++)
            assert_int_equal(GM_OK, wait_end(&w[k]));
        assert_false(is_armed(&p.lane[0]));
        end();
    }
}

/* The reader sleeps for an answer of the socket that does not come; the lane's waiter is woken all the same. */
static void job_of_the_socket_and_job_of_the_lane_are_waited_for_at_once(void **state)
{
    static uint64_t data[1];
    struct gm_request by_socket = gm_request("sum", GM_U64, 1);
    struct waiting socket_waiter, lane_waiter;

    (void)state;
    by_socket.in[0] = gm_in_memory(data, sizeof data);
    for (size_t i = 0; i < WAYS; i++) {
        lanes_make(&p, 1, 8, 0);
        p.serves_submits = false;
        lanes_serve(&p);
        client = lanes_open(&p, ways[i]);
        socket_waiter = (struct waiting){.deadline_ns = in_ms(60000)};
        assert_int_equal(GM_OK, gm_submit(client, &by_socket, &socket_waiter.job));
        assert_int_equal(0, pthread_create(&socket_waiter.thread, NULL, wait_run, &socket_waiter));
        usleep(1000);
        wait_start(&lane_waiter);
        usleep(1000);
        fake_do(&p.lane[0], 0);
        while (__atomic_load_n(&lane_waiter.done, __ATOMIC_ACQUIRE) == 0) {
            fake_wake(&p.lane[0]);
            sched_yield();
        }
        assert_int_equal(GM_OK, wait_end(&lane_waiter));
        lanes_hang_up(&p);
        assert_int_equal(GM_ECLOSED, wait_end(&socket_waiter));
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answer_ends_the_wait_however_one_waits),
        cmocka_unit_test(deadline_ends_the_wait_however_one_waits),
        cmocka_unit_test(sleeper_is_woken_by_one_byte_and_reads_it),
        cmocka_unit_test(completion_that_is_there_needs_no_wake),
        cmocka_unit_test(bytes_for_nothing_do_no_harm),
        cmocka_unit_test(full_pipe_wakes_too),
        cmocka_unit_test(closed_lane_fails_its_jobs_with_the_reason),
        cmocka_unit_test(lost_device_fails_the_jobs_of_its_lane),
        cmocka_unit_test(recovering_lane_is_waited_for),
        cmocka_unit_test(recovering_device_comes_last),
        cmocka_unit_test(end_of_the_daemon_ends_every_wait),
        cmocka_unit_test(end_of_the_daemon_is_seen_by_polling),
        cmocka_unit_test(dropped_wake_pipe_ends_the_lane),
        cmocka_unit_test(several_threads_wait_for_jobs_of_one_lane),
        cmocka_unit_test(job_of_the_socket_and_job_of_the_lane_are_waited_for_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
