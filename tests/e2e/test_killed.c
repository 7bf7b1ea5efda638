/* SPDX-License-Identifier: Apache-2.0
 *
 * The daemon is killed while clients of every kind are in every kind of call: each call ends before its deadline and
 * says that the connection has, each accepted job is answered, no process stays, and the next daemon serves at once
 * over what the dead one left. One thread a client; every wait is bounded.
 */
#include "harness.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CALL_MS 60000u /* deadline of every call */
#define WINDOW  16u
#define BUSY    50u /* calls of each client that have to be done before the daemon is killed */
#define ROUNDS  3u

struct caller {
    const char *name;
    void (*call)(struct caller *);
    struct gm_options options;
    /* of a round */
    struct gm_client *client;
    struct gm_job job[WINDOW];
    uint64_t submitted, taken;
    _Atomic uint64_t calls;
    bool ended;
    char wrong[120];
    pthread_t thread;
};

static void complain(struct caller *c, const char *what, int status)
{
    if (c->wrong[0] == '\0')
        snprintf(c->wrong, sizeof c->wrong, "%s: %s", what, gm_status_name(status));
    c->ended = true;
}

static void see(struct caller *c, const char *what, int status)
{
    c->calls++;
    if (status == GM_ECLOSED)
        c->ended = true;
    else if (status != GM_OK && status != GM_EBUSY)
        complain(c, what, status);
}

/* Memory of the caller for the socket, none for a lane. */
static struct gm_request next_request(const struct caller *c)
{
    static const uint32_t numbers[256] = {1};
    struct gm_request request = gm_request("nop", GM_NO_ELEMENT, 0);

    if (c->options.lane_slots == GM_NO_LANE) {
        request = gm_request("sum", GM_U32, 256);
        request.in[0] = gm_in_memory(numbers, sizeof numbers);
    }
    return request;
}

static void fill_window(struct caller *c)
{
    const struct gm_request request = next_request(c);

    while (c->submitted - c->taken < WINDOW && !c->ended) {
        const int rc = gm_submit(c->client, &request, &c->job[c->submitted % WINDOW]);
        see(c, "gm_submit", rc);
        if (rc != GM_OK)
            return;
        c->submitted++;
    }
}

static void call_wait(struct caller *c)
{
    fill_window(c);
    if (c->submitted == c->taken)
        return;
    see(c, "gm_wait", gm_wait(c->client, &c->job[c->taken % WINDOW], in_ms(CALL_MS)));
    c->taken++;
}

/* Completions come in any order, so the window is filled when it is empty. */
static void call_loop(struct caller *c)
{
    struct pollfd p = {.fd = gm_fd(c->client)};
    const struct gm_job *job;

    if (c->submitted == c->taken)
        fill_window(c);
    p.events = (short)gm_events(c->client);
    if (!c->ended && poll(&p, 1, CALL_MS) == 0)
        complain(c, "no event", GM_ETIMEDOUT);
    see(c, "gm_poll", gm_poll(c->client));
    while ((job = gm_next(c->client)) != NULL) {
        see(c, "gm_next", gm_job_status(job));
        c->taken++;
    }
    if (c->ended && c->taken != c->submitted)
        complain(c, "jobs without an answer", GM_EAGAIN);
}

/* The daemon gives up on a device process that gets no processor for seconds: no deadline of ours. */
static int unless_ours(int status, uint64_t start_ms)
{
    return status == GM_ETIMEDOUT && now_ms() - start_ms < CALL_MS / 2u ? GM_OK : status;
}

static void call_arena(struct caller *c)
{
    uint64_t start_ms = now_ms();
    struct gm_arena *arena = NULL;

    int rc = gm_arena_create(c->client, 65536, GM_MEMORY_SHARED, GM_DEVICE_ANY, in_ms(CALL_MS), &arena);
    see(c, "gm_arena_create", unless_ours(rc, start_ms));
    if (arena == NULL)
        return;
    start_ms = now_ms();
    rc = gm_arena_free(arena, in_ms(CALL_MS));
    see(c, "gm_arena_free", unless_ours(rc, start_ms));
}

static void call_stats(struct caller *c)
{
    void *bytes = NULL;
    size_t size;

    see(c, "gm_stats", gm_stats(c->client, in_ms(CALL_MS), &bytes, &size));
    gm_free(bytes);
    if (!c->ended)
        see(c, "gm_ping", gm_ping(c->client, in_ms(CALL_MS)));
}

static void call_run(struct caller *c)
{
    const struct gm_request request = next_request(c);

    see(c, "gm_run", gm_run(c->client, &request, in_ms(CALL_MS), NULL));
}

static struct caller callers[] = {
    {.name = "spins and sleeps", .call = call_wait},
    {.name = "spins", .call = call_wait, .options = {.wait = GM_WAIT_SPIN}},
    {.name = "sleeps", .call = call_wait, .options = {.wait = GM_WAIT_EVENT, .lane_only = 1}},
    {.name = "small lane", .call = call_wait, .options = {.lane_slots = 2}},
    {.name = "socket", .call = call_wait, .options = {.lane_slots = GM_NO_LANE}},
    {.name = "event loop", .call = call_loop},
    {.name = "one at a time", .call = call_run},
    {.name = "arenas", .call = call_arena, .options = {.lane_slots = GM_NO_LANE}},
    {.name = "stats", .call = call_stats, .options = {.lane_slots = GM_NO_LANE}},
};
enum { CALLERS = sizeof callers / sizeof *callers };

/* Calls until the end of the connection; then everything that is still pending is answered at once. */
static void *live(void *argument)
{
    struct caller *const c = argument;

    while (!c->ended)
        c->call(c);
    for (; c->call == call_wait && c->taken < c->submitted; c->taken++) {
        const int status = gm_wait(c->client, &c->job[c->taken % WINDOW], in_ms(CALL_MS));
        if (status != GM_OK && status != GM_ECLOSED)
            complain(c, "a pending job", status);
    }
    if (c->wrong[0] == '\0' && gm_ping(c->client, in_ms(CALL_MS)) != GM_ECLOSED)
        complain(c, "gm_ping after the end", GM_OK);
    return NULL;
}

static bool all_are_busy(void *argument)
{
    bool busy = true;

    (void)argument;
    for (int i = 0; i < CALLERS; i++)
        busy &= callers[i].calls >= BUSY;
    return busy;
}

static bool is_gone(void *argument)
{
    return kill(*(const pid_t *)argument, 0) != 0 && errno == ESRCH;
}

static bool gives_a_lane(void *argument)
{
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    struct gm_client *const client = daemon_open(argument);
    const bool gives = gm_lanes(client) == 1;

    assert_int_equal(GM_OK, gm_run(client, &nop, in_ms(CALL_MS), NULL));
    gm_close(client);
    return gives;
}

static void start_callers(const struct daemon *d)
{
    for (int i = 0; i < CALLERS; i++) {
        struct caller *const c = &callers[i];
        c->options.socket = d->socket, c->options.deadline_ns = in_ms(CALL_MS);
        memset(c->job, 0, sizeof c->job);
        c->submitted = c->taken = 0;
        c->calls = 0;
        c->ended = false;
        assert_int_equal(GM_OK, gm_open(&c->options, &c->client, NULL));
        assert_int_equal(0, pthread_create(&c->thread, NULL, live, c));
    }
}

static void end_callers(uint64_t killed_ms)
{
    uint64_t longest_ms = 0;

    for (int i = 0; i < CALLERS; i++) {
        struct caller *const c = &callers[i];
        pthread_join(c->thread, NULL);
        longest_ms = now_ms() - killed_ms;
        if (c->wrong[0] != '\0')
            fail_msg("%s: %s", c->name, c->wrong);
        gm_close(c->client);
    }
    printf("# every call had ended %" PRIu64 " ms after the daemon\n", longest_ms);
    assert_true(longest_ms < CALL_MS);
}

static void killed_daemon_ends_every_call_and_the_next_one_serves(void **state)
{
    struct daemon *const d = *state;

    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct gm_client *const observer = daemon_open_without_lanes(d);
        pid_t device = device_pid(observer);
        gm_close(observer);
        start_callers(d);
        assert_true(eventually(all_are_busy, NULL, CALL_MS));
        const uint64_t killed_ms = now_ms();
        daemon_kill(d);
        end_callers(killed_ms);
        daemon_start(d); /* nothing is removed by hand */
        assert_true(eventually(gives_a_lane, d, CALL_MS));
        assert_true(eventually(is_gone, &device, CALL_MS));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(killed_daemon_ends_every_call_and_the_next_one_serves, daemon_setup,
                                        daemon_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
