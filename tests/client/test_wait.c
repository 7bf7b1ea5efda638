/* SPDX-License-Identifier: Apache-2.0
 *
 * Deadlines, and many threads on one client: run under the thread sanitizer too.
 */
#include "peer.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static struct gm_request sum_of(uint64_t n)
{
    static const uint64_t zeroes[256];
    struct gm_request request = gm_request("sum", GM_U64, n);

    request.in[0] = gm_in_memory(zeroes, sizeof zeroes);
    return request;
}

/* Answers jobs only when it is told to: one byte on the pipe is one answer. */
static void serve_on_demand(struct peer *peer, int fd)
{
    const int *const go = peer->user;
    struct gm_wire_request request;
    char c;

    peer_hello(peer, fd);
    while (peer_next(peer, fd, &request)) {
        if (request.method == GM_METHOD_SUBMIT && read(*go, &c, 1) != 1)
            return;
        if (request.method == GM_METHOD_SUBMIT)
            peer_put_done(peer, request.id, 42);
        else
            peer_put_result(peer, request.id, NULL, 0);
        peer_flush(peer, fd);
    }
}

static void deadline_leaves_the_job_pending_and_it_can_be_waited_for_again(void **state)
{
    const struct gm_request request = nop();
    struct gm_job job = {0};
    struct gm_result result;
    struct peer peer;
    int go[2];

    (void)state;
    assert_int_equal(0, pipe(go));
    peer_start(&peer, serve_on_demand, &go[0]);
    struct gm_client *const client = peer_open(&peer);
    assert_int_equal(GM_OK, gm_submit(client, &request, &job));
    const uint64_t start_ns = gm_now_ns();
    assert_int_equal(GM_ETIMEDOUT, gm_wait(client, &job, in_ms(30)));
    assert_in_range(gm_now_ns() - start_ns, 30000000u, 20000000000u);
    assert_int_equal(GM_ETIMEDOUT, gm_wait(client, &job, 0));
    assert_int_equal(GM_EAGAIN, gm_job_status(&job));
    assert_int_equal(GM_EINVAL, gm_submit(client, &request, &job));
    assert_int_equal(1, write(go[1], "x", 1));
    assert_int_equal(GM_OK, gm_wait(client, &job, GM_NO_DEADLINE));
    assert_int_equal(GM_OK, gm_job_result(&job, &result));
    assert_int_equal(42, result.value.u64);
    assert_int_equal(GM_EINVAL, gm_wait(client, &job, 0));
    gm_close(client);
    close(go[1]);
    peer_stop(&peer);
    close(go[0]);
}

static void run_that_times_out_never_touches_the_callers_memory_again(void **state)
{
    const struct gm_request request = nop();
    struct peer peer;
    int go[2];

    (void)state;
    assert_int_equal(0, pipe(go));
    peer_start(&peer, serve_on_demand, &go[0]);
    struct gm_client *const client = peer_open(&peer);
    assert_int_equal(GM_ETIMEDOUT, gm_run(client, &request, in_ms(20), NULL));
    assert_int_equal(GM_ETIMEDOUT, gm_ping(client, in_ms(20)));
    assert_int_equal(1, write(go[1], "x", 1));
    /* The late answers to the run, its cancel and the ping meet nobody; the next call gets its own. */
    assert_int_equal(GM_OK, gm_ping(client, in_ms(10000)));
    assert_null(gm_next(client));
    gm_close(client);
    close(go[1]);
    peer_stop(&peer);
    close(go[0]);
}

static volatile sig_atomic_t alarms;

static void count_alarm(int signal_number)
{
    (void)signal_number;
    alarms++;
}

static void signals_neither_end_nor_lengthen_a_wait(void **state)
{
    const struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    const struct gm_request request = nop();
    struct gm_job job = {0};
    struct sigaction action = {.sa_handler = count_alarm};
    struct peer peer;
    int go[2];

    (void)state;
    assert_int_equal(0, pipe(go));
    peer_start(&peer, serve_on_demand, &go[0]);
    struct gm_client *const client = peer_open(&peer);
    assert_int_equal(GM_OK, gm_submit(client, &request, &job));
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    alarms = 0;
    for (const uint64_t end_ns = in_ms(20000); alarms <= 2;) { /* a busy machine makes few of many alarms */
        const uint64_t start_ns = gm_now_ns();
        assert_true(start_ns < end_ns);
        assert_int_equal(GM_ETIMEDOUT, gm_wait(client, &job, in_ms(60)));
        assert_in_range(gm_now_ns() - start_ns, 60000000u, 20000000000u);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    gm_close(client);
    assert_int_equal(GM_ECLOSED, gm_job_status(&job));
    close(go[1]);
    peer_stop(&peer);
    close(go[0]);
}

struct shared {
    struct gm_client *client;
    int rounds;
    uint64_t seed;
    int wrong;
};

enum { THREADS = 8, ROUNDS = 300 };

static void *submit_and_wait(void *argument)
{
    struct shared *const shared = argument;
    struct gm_job jobs[4] = {0};
    struct gm_result result;
    uint64_t x = shared->seed;

    for (int i = 0; i < shared->rounds; i++) {
        uint64_t n[4];
        for (int j = 0; j < 4; j++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            n[j] = x >> 56;
            const struct gm_request request = sum_of(n[j]);
            shared->wrong += gm_submit(shared->client, &request, &jobs[j]) != GM_OK;
        }
        for (int j = 3; j >= 0; j--) {
            int rc = gm_wait(shared->client, &jobs[j], x & 1 ? in_ms(60000) : 0);
            while (rc == GM_ETIMEDOUT)
                rc = gm_wait(shared->client, &jobs[j], in_ms(1));
            shared->wrong += rc != GM_OK || gm_job_result(&jobs[j], &result) != GM_OK || result.value.u64 != n[j];
        }
    }
    return NULL;
}

/* Answers in bunches and in reverse order, so that waiters complete each other's jobs. */
static void serve_bunches(struct peer *peer, int fd)
{
    struct gm_wire_request requests[16];
    size_t count = 0;

    peer_hello(peer, fd);
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (count < 16 && poll(&p, 1, count > 0 ? 0 : -1) > 0) {
            if (!peer_next(peer, fd, &requests[count]))
                return;
            count++;
            continue;
        }
        while (count > 0) {
            count--;
            peer_put_done(peer, requests[count].id, requests[count].u.submit.args.n);
        }
        peer_flush(peer, fd);
    }
}

static void eight_threads_share_one_client(void **state)
{
    struct shared shared[THREADS];
    pthread_t threads[THREADS];
    struct peer peer;

    (void)state;
    peer_start(&peer, serve_bunches, NULL);
    struct gm_client *const client = peer_open(&peer);
    for (int i = 0; i < THREADS; i++) {
        shared[i] = (struct shared){.client = client, .rounds = ROUNDS, .seed = (uint64_t)i + 1};
        assert_int_equal(0, pthread_create(&threads[i], NULL, submit_and_wait, &shared[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(0, shared[i].wrong);
    }
    assert_null(gm_next(client));
    gm_close(client);
    peer_stop(&peer);
}

struct handed {
    struct gm_client *client;
    struct gm_job jobs[64];
    int status[64];
    uint32_t submitted; /* release by the submitter, acquire by the waiter */
};

static void *wait_for_handed(void *argument)
{
    struct handed *const handed = argument;

    for (uint32_t i = 0; i < 64; i++) {
        while (__atomic_load_n(&handed->submitted, __ATOMIC_ACQUIRE) <= i)
            usleep(50);
        handed->status[i] = gm_wait(handed->client, &handed->jobs[i], in_ms(60000));
    }
    return NULL;
}

static void one_thread_submits_while_another_waits(void **state)
{
    static struct handed handed;
    const struct gm_request request = sum_of(9);
    pthread_t thread;
    struct peer peer;

    (void)state;
    memset(&handed, 0, sizeof handed);
    peer_start(&peer, serve_bunches, NULL);
    handed.client = peer_open(&peer);
    assert_int_equal(0, pthread_create(&thread, NULL, wait_for_handed, &handed));
    for (uint32_t i = 0; i < 64; i++) {
        assert_int_equal(GM_OK, gm_submit(handed.client, &request, &handed.jobs[i]));
        __atomic_store_n(&handed.submitted, i + 1, __ATOMIC_RELEASE);
        if (i % 8 == 0)
            (void)gm_poll(handed.client);
    }
    pthread_join(thread, NULL);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(GM_OK, handed.status[i]);
    gm_close(handed.client);
    peer_stop(&peer);
}

/* A thread sleeps in poll as the reader while this one reads its reply with gm_poll: it must be woken. */
static void reader_wakes_when_another_thread_reads_its_reply(void **state)
{
    static struct handed handed;
    const struct gm_request request = sum_of(9);
    pthread_t thread;
    struct peer peer;

    (void)state;
    for (int round = 0; round < 20; round++) {
        memset(&handed, 0, sizeof handed);
        peer_start(&peer, serve_bunches, NULL);
        handed.client = peer_open(&peer);
        assert_int_equal(0, pthread_create(&thread, NULL, wait_for_handed, &handed));
        for (uint32_t i = 0; i < 64; i++) {
            assert_int_equal(GM_OK, gm_submit(handed.client, &request, &handed.jobs[i]));
            __atomic_store_n(&handed.submitted, i + 1, __ATOMIC_RELEASE);
            while (gm_job_status(&handed.jobs[i]) == GM_EAGAIN)
                (void)gm_poll(handed.client);
        }
        pthread_join(thread, NULL);
        for (uint32_t i = 0; i < 64; i++)
            assert_int_equal(GM_OK, handed.status[i]);
        gm_close(handed.client);
        peer_stop(&peer);
    }
}

static void *wait_for_close(void *argument)
{
    struct shared *const shared = argument;
    const struct gm_request request = nop();
    struct gm_job job = {0};

    if (gm_submit(shared->client, &request, &job) != GM_OK ||
        gm_wait(shared->client, &job, in_ms(60000)) != GM_ECLOSED)
        shared->wrong = 1;
    return NULL;
}

static void serve_until_eight(struct peer *peer, int fd)
{
    struct gm_wire_request request;

    peer_hello(peer, fd);
    for (int i = 0; i < THREADS; i++)
        if (!peer_next(peer, fd, &request))
            return;
}

static void every_waiting_thread_learns_of_the_close_at_once(void **state)
{
    struct shared shared[THREADS];
    pthread_t threads[THREADS];
    struct peer peer;

    (void)state;
    peer_start(&peer, serve_until_eight, NULL);
    struct gm_client *const client = peer_open(&peer);
    const uint64_t start_ns = gm_now_ns();
    for (int i = 0; i < THREADS; i++) {
        shared[i] = (struct shared){.client = client};
        assert_int_equal(0, pthread_create(&threads[i], NULL, wait_for_close, &shared[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(0, shared[i].wrong);
    }
    assert_true(gm_now_ns() - start_ns < 30000000000u);
    gm_close(client);
    peer_stop(&peer);
}

struct same {
    struct gm_client *client;
    struct gm_job *job;
    int status;
};

static void *wait_for_same(void *argument)
{
    struct same *const same = argument;

    /* The other thread's short waits get in between. */
    do
        same->status = gm_wait(same->client, same->job, in_ms(60000));
    while (same->status == GM_EINVAL);
    return NULL;
}

static void second_thread_waiting_for_the_same_job_is_refused(void **state)
{
    const struct gm_request request = nop();
    struct gm_job job = {0};
    struct peer peer;
    pthread_t thread;
    int go[2], rc;

    (void)state;
    assert_int_equal(0, pipe(go));
    peer_start(&peer, serve_on_demand, &go[0]);
    struct same same = {.client = peer_open(&peer), .job = &job};
    assert_int_equal(GM_OK, gm_submit(same.client, &request, &job));
    assert_int_equal(0, pthread_create(&thread, NULL, wait_for_same, &same));
    do {
        rc = gm_wait(same.client, &job, 0);
    } while (rc == GM_ETIMEDOUT);
    assert_int_equal(GM_EINVAL, rc);
    assert_int_equal(1, write(go[1], "x", 1));
    pthread_join(thread, NULL);
    assert_int_equal(GM_OK, same.status);
    gm_close(same.client);
    close(go[1]);
    peer_stop(&peer);
    close(go[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deadline_leaves_the_job_pending_and_it_can_be_waited_for_again),
        cmocka_unit_test(run_that_times_out_never_touches_the_callers_memory_again),
        cmocka_unit_test(signals_neither_end_nor_lengthen_a_wait),
        cmocka_unit_test(eight_threads_share_one_client),
        cmocka_unit_test(one_thread_submits_while_another_waits),
        cmocka_unit_test(reader_wakes_when_another_thread_reads_its_reply),
        cmocka_unit_test(every_waiting_thread_learns_of_the_close_at_once),
        cmocka_unit_test(second_thread_waiting_for_the_same_job_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
