/* SPDX-License-Identifier: Apache-2.0
 *
 * A client with a lane is killed at every step of its life: whatever it held comes back, and others notice nothing.
 * (The steps before there is a lane: test_clients.) The victim is a child process that says when it is at its step;
 * every wait is bounded. How long it takes is printed and not looked at.
 */
#include "chaos_lane.h"
#include "chaos_runner.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOTS      8u
#define QUEUED     100u
#define ATTEMPTS   8u
#define RUNS_MS    20u /* of processor time, on a GPU of any: then its job runs for sure */
#define SORTED_LOG 19u /* elements of the job that is long enough to be found running, at first */

/* ---- The victim: a child that does everything up to its step and waits there for its end ---- */

struct victim {
    char socket[200];
    int say, hear; /* its ends of two pipes */
    uint32_t number, log2; /* which of a step's variants; size of its job */
};

/* Not by an assertion: that would go on with the tests in this process. */
static _Noreturn void give_up(const char *what, int status)
{
    fprintf(stderr, "    | victim: %s: %s\n", what, gm_status_name(status));
    _exit(1);
}

static void must(const char *what, int status)
{
    if (status != GM_OK)
        give_up(what, status);
}

static void say(const struct victim *v, char word)
{
    if (write(v->say, &word, 1) != 1)
        give_up("nobody listens", GM_ESYSTEM);
}

static void await_word(const struct victim *v)
{
    char word;

    if (read(v->hear, &word, 1) != 1)
        _exit(0);
}

/* A device process that gets no processor for seconds is given up on: it is asked again. */
static bool again(int status, uint64_t end_ms)
{
    return status == GM_ETIMEDOUT && now_ms() < end_ms;
}

static struct gm_arena *create_arena(struct gm_client *client, uint64_t bytes)
{
    const uint64_t end_ms = now_ms() + WAIT_MS;
    struct gm_arena *arena;
    int status;

    do
        status = gm_arena_create(client, bytes, GM_MEMORY_SHARED, GM_DEVICE_ANY, in_ms(WAIT_MS), &arena);
    while (again(status, end_ms));
    must("gm_arena_create", status);
    return arena;
}

static struct gm_client *open_client(const struct victim *v, enum gm_wait_strategy wait)
{
    const struct gm_options options = {
        .socket = v->socket, .deadline_ns = in_ms(WAIT_MS), .wait = wait, .lane_slots = 64};
    struct gm_client *client;

    must("gm_open", gm_open(&options, &client, NULL));
    return client;
}

struct raw_victim {
    struct raw raw;
    struct raw_lane lane;
};

static void open_raw(const struct victim *v, struct raw_victim *r)
{
    const uint64_t end_ms = now_ms() + WAIT_MS;
    int status;

    must("hello", raw_open(&r->raw, v->socket, WAIT_MS));
    do
        status = raw_lane_open(&r->raw, -1, SLOTS, &r->lane, WAIT_MS);
    while (again(status, end_ms));
    must("lane.open", status);
}

static const uint32_t nop_words[GM_DESC_WORDS] = {GM_OP_nop};

static void at_an_open_lane(const struct victim *v)
{
    struct raw_victim r;

    open_raw(v, &r);
    say(v, 'x');
}

/* So many granules of a descriptor, also of a wide one, whose second half is there first. */
static void in_the_middle_of_a_descriptor(const struct victim *v)
{
    const struct gm_op_row row = gm_op_row(GM_OP_fill);
    struct raw_victim r;

    open_raw(v, &r);
    const uint64_t p = r.lane.start;
    if (v->number >= 4u && row.wide)
        gm_desc_store(r.lane.sq, r.lane.log2, p + 1u, nop_words, 1);
    for (uint32_t i = 0; i < v->number % 4u; i++) {
        const struct gm_granule g = {{i == 0 ? GM_OP_fill | (uint32_t)GM_FLAG_WIDE << 24 : 0, 0, 0,
                                      gm_lap(p, r.lane.log2)}};
        gm_store16_sys(&r.lane.sq[p & (r.lane.slots - 1u)].g[i], g);
    }
    raw_ring_anyway(&r.lane, 1);
    say(v, 'x');
}

static void submit_some(struct gm_client *client)
{
    static struct gm_job jobs[QUEUED];
    struct gm_request sum = gm_request("sum", GM_U32, 1024);

    sum.in[0] = gm_in_arena(create_arena(client, 1 << 20), 0, 4096);
    for (uint32_t i = 0; i < QUEUED; i++) {
        const int rc = gm_submit(client, &sum, &jobs[i]);
        if (rc != GM_OK && rc != GM_EBUSY)
            give_up("gm_submit", rc);
    }
}

/* The device stands still, so nothing of it has been taken; what the lane has no room for goes by the socket. */
static void with_jobs_queued(const struct victim *v)
{
    struct gm_client *const client = open_client(v, GM_WAIT_SPIN_THEN_SLEEP);
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    static struct gm_job job[QUEUED];
    uint32_t sent = 0;

    say(v, 'r');
    await_word(v);
    while (sent < QUEUED && gm_submit(client, &nop, &job[sent]) == GM_OK)
        sent++;
    must("gm_ping", gm_ping(client, in_ms(WAIT_MS))); /* the daemon has read what went by the socket */
    say(v, 'x');
}

/* Asleep on a wake that comes after its death. */
static void asleep(const struct victim *v)
{
    struct gm_client *const client = open_client(v, GM_WAIT_EVENT);
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    struct gm_job job = {0};

    say(v, 'r');
    await_word(v);
    must("gm_submit", gm_submit(client, &nop, &job));
    say(v, 'x');
    (void)gm_wait(client, &job, GM_NO_DEADLINE);
}

static void with_a_job_running(const struct victim *v)
{
    struct gm_client *const client = open_client(v, GM_WAIT_SPIN_THEN_SLEEP);
    const uint64_t n = UINT64_C(1) << v->log2;
    struct gm_request sort = gm_request("sort", GM_U64, n);
    struct gm_arena *const arena = create_arena(client, 16u * n);
    struct gm_job job = {0};

    uint64_t *const keys = gm_arena_data(arena);
    for (uint64_t i = 0; i < n; i++)
        keys[i] = i * UINT64_C(0x9e3779b97f4a7c15);
    sort.in[0] = gm_in_arena(arena, 0, 8u * n);
    sort.out[0] = gm_in_arena(arena, 8u * n, 8u * n);
    say(v, 'r');
    await_word(v);
    must("gm_submit", gm_submit(client, &sort, &job));
    say(v, 's');
    await_word(v); /* the device has worked */
    must("gm_poll", gm_poll(client));
    say(v, gm_job_status(&job) == GM_EAGAIN ? 'x' : 'd');
}

static void with_completions_unread(const struct victim *v)
{
    const uint64_t end_ms = now_ms() + WAIT_MS;
    struct raw_victim r;

    open_raw(v, &r);
    for (uint32_t i = 0; i < SLOTS; i++)
        gm_desc_store(r.lane.sq, r.lane.log2, r.lane.start + i, nop_words, 0);
    raw_ring(&r.lane);
    for (uint32_t i = 0; i < SLOTS; i++) {
        const uint64_t p = r.lane.start + i;
        while (gm_load16_sys(&r.lane.cq[p & (SLOTS - 1u)]).w[3] != gm_lap(p, r.lane.log2) && now_ms() < end_ms)
            sleep_ms(1);
    }
    say(v, now_ms() < end_ms ? 'x' : 'd');
}

/* A child lives on, with the socket and the lane; it ends when it hears so. */
static void with_a_child_that_holds_the_socket(const struct victim *v)
{
    submit_some(open_client(v, GM_WAIT_SPIN_THEN_SLEEP));
    fflush(NULL);
    if (fork() == 0) {
        await_word(v);
        /* Not by _exit(), where the thread sanitizer looks for threads of the parent. */
        (void)syscall(SYS_exit_group, 0);
    }
    say(v, 'x');
}

/* ---- Whoever looks on ---- */

struct scene {
    struct daemon *daemon;
    struct gm_client *client; /* without lanes */
    pid_t device, victim;
    int hear, say;
    size_t daemon_fds, device_fds, device_maps;
    uint64_t restarts;
};

static char hear(const struct scene *s)
{
    struct pollfd p = {.fd = s->hear, .events = POLLIN};
    char word = '\0';

    if (poll(&p, 1, WAIT_MS) != 1 || read(s->hear, &word, 1) != 1)
        fail_msg("the victim does not come to its step");
    return word;
}

static void tell(const struct scene *s)
{
    assert_int_equal(1, write(s->say, "g", 1));
}

static void start_victim(struct scene *s, void (*live)(const struct victim *), uint32_t number, uint32_t log2)
{
    int up[2], down[2];

    assert_int_equal(0, pipe(up));
    assert_int_equal(0, pipe(down));
    fflush(NULL);
    s->victim = fork();
    assert_true(s->victim >= 0);
    if (s->victim == 0) {
        struct victim v = {.say = up[1], .hear = down[0], .number = number, .log2 = log2};
        memcpy(v.socket, s->daemon->socket, sizeof v.socket);
        close(up[0]);
        close(down[1]);
        live(&v);
        for (;;)
            pause();
    }
    close(up[1]);
    close(down[0]);
    s->hear = up[0];
    s->say = down[1];
}

static void end_victim(struct scene *s)
{
    int status;

    kill(s->victim, SIGKILL);
    assert_int_equal(s->victim, waitpid(s->victim, &status, 0));
    if (!WIFSIGNALED(status))
        fail_msg("the victim ended by itself with %#x", (unsigned)status);
}

static bool is_back(const struct scene *s)
{
    const size_t slack = SANITIZED ? 4 : 0, fds = descriptors_of(s->device), maps = maps_of(s->device);
    struct figures f;

    if (!figures_get(s->client, &f))
        fail_msg("the daemon does not answer");
    return f.sessions == 1 && f.arenas == 0 && f.arena_bytes == 0 && f.device[0].lanes == 0 && f.device[0].depth == 0 &&
           descriptors_of(s->daemon->pid) == s->daemon_fds && fds <= s->device_fds + slack && maps <= s->device_maps;
}

static void show_scene(const struct scene *s)
{
    struct figures f;

    figures_get(s->client, &f);
    fprintf(stderr, "    | sessions %" PRIu64 ", arenas %" PRIu64 " (%" PRIu64 " bytes), lanes %" PRIu64
            ", jobs %" PRIu64 ", descriptors %zu of %zu, of the device %zu of %zu, maps %zu of %zu\n",
            f.sessions, f.arenas, f.arena_bytes, f.device[0].lanes, f.device[0].depth, descriptors_of(s->daemon->pid),
            s->daemon_fds, descriptors_of(s->device), s->device_fds, maps_of(s->device), s->device_maps);
}

static void assert_all_is_back(const struct scene *s, const char *step)
{
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    const uint64_t start_ms = now_ms();

    assert_int_equal(GM_OK, gm_run(s->client, &nop, in_ms(WAIT_MS), NULL));
    while (!is_back(s)) {
        if (now_ms() - start_ms > WAIT_MS) {
            show_scene(s);
            fail_msg("%s: something is left after %u ms", step, WAIT_MS);
        }
        sleep_ms(1);
    }
    printf("# %s: all is back after %" PRIu64 " ms\n", step, now_ms() - start_ms);
    assert_int_equal(s->device, device_pid(s->client));
    assert_int_equal(s->restarts, stat_of(s->client, "devices.0.restarts"));
    close(s->hear);
    close(s->say);
}

/* What is opened once, by a process or by its sanitizer, is open when the base is taken. */
static void set_scene(struct scene *s, struct daemon *d)
{
    *s = (struct scene){.daemon = d, .client = daemon_open_without_lanes(d)};
    s->device = device_pid(s->client);
    wait_for_stat(s->client, "daemon.sessions", 1, WAIT_MS);
    wait_for_stat(s->client, "devices.0.lanes", 0, WAIT_MS);
    s->daemon_fds = descriptors_of(d->pid);
    s->device_fds = descriptors_of(s->device);
    s->device_maps = maps_of(s->device);
}

static void client_with_a_lane_killed_at_any_step_leaves_nothing_behind(void **state)
{
    static const struct {
        const char *name;
        void (*live)(const struct victim *);
        uint32_t variants;
        bool frozen;
    } steps[] = {{"lane opened", at_an_open_lane, 1, false},
                 {"half a descriptor", in_the_middle_of_a_descriptor, 8, false},
                 {"jobs queued", with_jobs_queued, 1, true},
                 {"asleep", asleep, 1, true},
                 {"completions unread", with_completions_unread, 1, false}};
    struct scene s;

    set_scene(&s, *state);
    for (uint32_t round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
            for (uint32_t number = 0; number < steps[i].variants; number++) {
                start_victim(&s, steps[i].live, number, 0);
                if (steps[i].frozen) {
                    assert_int_equal('r', hear(&s));
                    freeze_device(s.client, s.device);
                    tell(&s);
                }
                assert_int_equal('x', hear(&s));
                end_victim(&s);
                if (steps[i].frozen)
                    thaw(s.device);
                assert_all_is_back(&s, steps[i].name);
            }
    gm_close(s.client);
}

/* Waits until the device has worked for a while, and stops it; false: there was not that much to do. On a GPU nobody
 * sees from outside who works, and nobody can stop it. */
static bool let_it_work(struct scene *s, uint64_t before_ms)
{
    const uint64_t end_ms = now_ms() + WAIT_MS / 10u;

    if (on_gpu()) {
        sleep_ms(RUNS_MS);
        return true;
    }
    while (cpu_ms_of(s->device) < before_ms + RUNS_MS && now_ms() < end_ms)
        sleep_ms(1);
    freeze(s->device);
    return cpu_ms_of(s->device) >= before_ms + RUNS_MS;
}

/* False: it was too short to be met running. */
static bool kill_while_it_runs(struct scene *s, uint32_t log2)
{
    start_victim(s, with_a_job_running, 0, log2);
    assert_int_equal('r', hear(s));
    const uint64_t before_ms = cpu_ms_of(s->device);
    tell(s);
    assert_int_equal('s', hear(s));
    const bool worked = let_it_work(s, before_ms);
    tell(s);
    const bool runs = hear(s) == 'x' && worked;
    end_victim(s);
    thaw(s->device);
    return runs;
}

static void client_killed_while_its_job_runs_leaves_nothing_behind(void **state)
{
    struct scene s;
    uint32_t attempt = 0;
    bool ran = false;

    set_scene(&s, *state);
    for (; attempt < ATTEMPTS && !ran; attempt++) {
        ran = kill_while_it_runs(&s, SORTED_LOG + attempt);
        assert_all_is_back(&s, "running");
    }
    assert_true(ran);
    gm_close(s.client);
}

static void clients_child_that_holds_the_socket_holds_up_nobody(void **state)
{
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    struct scene s;

    set_scene(&s, *state);
    start_victim(&s, with_a_child_that_holds_the_socket, 0, 0);
    assert_int_equal('x', hear(&s));
    end_victim(&s);
    struct gm_client *const other = daemon_open(s.daemon);
    assert_int_equal(GM_OK, gm_run(other, &nop, in_ms(WAIT_MS), NULL));
    gm_close(other);
    wait_for_stat(s.client, "devices.0.queue_depth", 0, WAIT_MS);
    tell(&s);
    assert_all_is_back(&s, "forked child");
    gm_close(s.client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(client_with_a_lane_killed_at_any_step_leaves_nothing_behind,
                                        daemon_setup_to_freeze, daemon_teardown),
        cmocka_unit_test_setup_teardown(client_killed_while_its_job_runs_leaves_nothing_behind, daemon_setup,
                                        daemon_teardown),
        cmocka_unit_test_setup_teardown(clients_child_that_holds_the_socket_holds_up_nobody, daemon_setup,
                                        daemon_teardown),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
