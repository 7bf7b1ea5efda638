/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking at the socket before sleeping: who wants to look does, who does not sleeps, and nothing that ends a wait is
 * missed meanwhile. Whether a thread sleeps is what the kernel says about it. Run under the thread sanitizer too.
 */
#include "peer.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SAMPLES 100

/* A daemon that answers when it is told to, and a thread that waits for it. */
struct wait {
    struct peer peer;
    struct gm_client *client;
    int go[2];
    bool call; /* a ping instead of a job */
    atomic_int asked, tid;
    int status;
    pthread_t thread;
};

static void serve_when_told(struct peer *peer, int fd)
{
    struct wait *const w = peer->user;
    struct gm_wire_request request;
    char c;

    peer_hello(peer, fd);
    while (peer_next(peer, fd, &request)) {
        atomic_fetch_add(&w->asked, 1);
        if (read(w->go[0], &c, 1) != 1)
            return;
        if (request.method == GM_METHOD_SUBMIT)
            peer_put_done(peer, request.id, 42);
        else
            peer_put_result(peer, request.id, NULL, 0);
        peer_flush(peer, fd);
    }
}

static struct gm_client *open_as(struct peer *peer, struct gm_options options)
{
    struct gm_client *client = NULL;
    struct gm_failure failure;

    options.socket = peer->path;
    options.deadline_ns = in_ms(20000);
    if (gm_open(&options, &client, &failure) != GM_OK)
        fail_msg("gm_open: %s", failure.text);
    return client;
}

static void *ask(void *argument)
{
    struct wait *const w = argument;
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);

    atomic_store(&w->tid, (int)syscall(SYS_gettid));
    w->status = w->call ? gm_ping(w->client, in_ms(60000)) : gm_run(w->client, &nop, in_ms(60000), NULL);
    return NULL;
}

static void wait_start(struct wait *w, struct gm_options options, bool call)
{
    *w = (struct wait){.call = call};
    assert_int_equal(0, pipe(w->go));
    peer_start(&w->peer, serve_when_told, w);
    w->client = open_as(&w->peer, options);
    assert_int_equal(0, pthread_create(&w->thread, NULL, ask, w));
    for (const uint64_t end_ns = in_ms(20000); atomic_load(&w->asked) == 0; usleep(1000))
        assert_true(gm_now_ns() < end_ns);
}

static void wait_answer(const struct wait *w)
{
    assert_int_equal(1, write(w->go[1], "x", 1));
}

static void wait_end(struct wait *w, int status)
{
    pthread_join(w->thread, NULL);
    assert_int_equal(status, w->status);
    gm_close(w->client);
    close(w->go[1]);
    peer_stop(&w->peer);
    close(w->go[0]);
}

static bool sleeps(const struct wait *w)
{
    char path[64], line[512];

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", atomic_load(&w->tid));
    FILE *const file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    return strrchr(line, ')')[2] == 'S';
}

static void falls_asleep(struct wait *w)
{
    int asleep = 0;

    for (const uint64_t end_ns = in_ms(20000); asleep < SAMPLES; usleep(200)) {
        assert_true(gm_now_ns() < end_ns);
        asleep = sleeps(w) ? asleep + 1 : 0;
    }
}

static void who_spins_does_not_sleep(void **state)
{
    struct wait w;
    int asleep = 0;

    (void)state;
    wait_start(&w, (struct gm_options){.wait = GM_WAIT_SPIN}, false);
    for (int i = 0; i < SAMPLES; i++, usleep(1000))
        asleep += sleeps(&w); /* a lock may be held for a moment */
    assert_true(asleep < SAMPLES / 2);
    wait_answer(&w);
    wait_end(&w, GM_OK);
}

static void who_spins_for_a_while_sleeps_then(void **state)
{
    struct wait w;

    (void)state;
    wait_start(&w, (struct gm_options){.spin_ns = 2000000}, false);
    falls_asleep(&w);
    wait_answer(&w);
    wait_end(&w, GM_OK);
}

static void default_and_event_driven_waits_sleep(void **state)
{
    static const enum gm_wait_strategy waits[] = {GM_WAIT_SPIN_THEN_SLEEP, GM_WAIT_EVENT};
    struct wait w;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        wait_start(&w, (struct gm_options){.wait = waits[i]}, false);
        falls_asleep(&w);
        wait_answer(&w);
        wait_end(&w, GM_OK);
    }
}

static void call_that_lasts_never_keeps_a_processor(void **state)
{
    struct wait w;

    (void)state;
    wait_start(&w, (struct gm_options){.wait = GM_WAIT_SPIN}, true);
    falls_asleep(&w);
    wait_answer(&w);
    wait_end(&w, GM_OK);
}

static void reply_that_another_thread_takes_ends_the_looking(void **state)
{
    struct wait w;

    (void)state;
    for (int i = 0; i < 20; i++) {
        wait_start(&w, (struct gm_options){.wait = GM_WAIT_SPIN}, false);
        wait_answer(&w);
        for (int k = 0; k < 50; k++)
            assert_int_equal(GM_OK, gm_poll(w.client));
        wait_end(&w, GM_OK);
    }
}

static void end_of_the_connection_ends_the_looking(void **state)
{
    struct wait w;

    (void)state;
    wait_start(&w, (struct gm_options){.wait = GM_WAIT_SPIN}, false);
    close(w.go[1]); /* the daemon's thread leaves */
    w.go[1] = dup(w.go[0]);
    wait_end(&w, GM_ECLOSED);
}

static void deadline_ends_the_looking(void **state)
{
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    struct wait w;
    struct gm_job job = {0};

    (void)state;
    wait_start(&w, (struct gm_options){.spin_ns = 600000000000}, true);
    assert_int_equal(GM_OK, gm_submit(w.client, &nop, &job));
    const uint64_t start_ns = gm_now_ns();
    assert_int_equal(GM_ETIMEDOUT, gm_wait(w.client, &job, in_ms(30)));
    assert_in_range(gm_now_ns() - start_ns, 30000000u, 20000000000u);
    assert_int_equal(GM_ETIMEDOUT, gm_wait(w.client, &job, 0));
    wait_answer(&w), wait_answer(&w);
    assert_int_equal(GM_OK, gm_wait(w.client, &job, in_ms(20000)));
    wait_end(&w, GM_OK);
}

/* More than the socket holds: the rest has to be sent by whoever looks. */
static void large_request_goes_out_while_its_thread_looks(void **state)
{
    static const uint64_t zeroes[GM_INLINE_BYTES / sizeof(uint64_t)];
    struct gm_request sum = gm_request("sum", GM_U64, GM_INLINE_BYTES / sizeof(uint64_t));
    struct gm_result result;
    struct peer peer;

    (void)state;
    sum.in[0] = gm_in_memory(zeroes, sizeof zeroes);
    peer_start(&peer, peer_serve_all, NULL);
    struct gm_client *const client = open_as(&peer, (struct gm_options){.wait = GM_WAIT_SPIN});
    for (int i = 0; i < 5; i++) {
        assert_int_equal(GM_OK, gm_run(client, &sum, in_ms(60000), &result));
        assert_int_equal(sum.n, result.value.u64);
    }
    gm_close(client);
    peer_stop(&peer);
}

struct shared {
    struct gm_client *client;
    uint64_t n;
    int wrong;
};

static void *run_many(void *argument)
{
    static const uint64_t zeroes[64];
    struct shared *const shared = argument;
    struct gm_result result;

    for (int i = 0; i < 200; i++) {
        struct gm_request sum = gm_request("sum", GM_U64, (shared->n + (uint64_t)i) % 64);
        sum.in[0] = gm_in_memory(zeroes, sizeof zeroes);
        shared->wrong += gm_run(shared->client, &sum, in_ms(60000), &result) != GM_OK || result.value.u64 != sum.n;
    }
    return NULL;
}

static void threads_that_look_and_threads_that_sleep_share_one_client(void **state)
{
    static const uint64_t spins_ns[] = {5000, 200000, UINT64_MAX};
    struct shared shared[4];
    pthread_t threads[4];
    struct peer peer;

    (void)state;
    for (size_t k = 0; k < 3; k++) {
        peer_start(&peer, peer_serve_all, NULL);
        struct gm_client *const client = open_as(&peer, (struct gm_options){.spin_ns = spins_ns[k]});
        for (uint64_t i = 0; i < 4; i++) {
            shared[i] = (struct shared){.client = client, .n = i * 17};
            assert_int_equal(0, pthread_create(&threads[i], NULL, run_many, &shared[i]));
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
            assert_int_equal(0, shared[i].wrong);
        }
        gm_close(client);
        peer_stop(&peer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_spins_does_not_sleep),
        cmocka_unit_test(who_spins_for_a_while_sleeps_then),
        cmocka_unit_test(default_and_event_driven_waits_sleep),
        cmocka_unit_test(call_that_lasts_never_keeps_a_processor),
        cmocka_unit_test(reply_that_another_thread_takes_ends_the_looking),
        cmocka_unit_test(end_of_the_connection_ends_the_looking),
        cmocka_unit_test(deadline_ends_the_looking),
        cmocka_unit_test(large_request_goes_out_while_its_thread_looks),
        cmocka_unit_test(threads_that_look_and_threads_that_sleep_share_one_client),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
