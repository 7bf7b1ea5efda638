/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that takes long to make or to give back, of a real daemon whose fallocate waits at a gate or fails: nobody
 * else waits for it, what is paid is paid from the start and given back on every way out. Test thread and a child
 * daemon.
 */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lane.h"

#define BYTES (UINT64_C(40) << 20) /* more than anything that is not an arena, and more than half the budget */

static int set_up_gated(void **state)
{
    const int status = set_up(state);
    child.program = "gated_gridmilld";
    return status;
}

/* ---- the gate ---- */

static const char *gate_path(const char *what, const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s%s", child.folder, what, name);
    return path;
}

static void gate_close(const char *name)
{
    unlink(gate_path("held.", name));
    const int fd = open(gate_path("", name), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void gate_wait(const char *name)
{
    for (const uint64_t until = now_ms() + WAIT_MS; now_ms() < until; sleep_ms(1))
        if (access(gate_path("held.", name), F_OK) == 0)
            return;
    fail_msg("nobody came to the gate %s", name);
}

static void gate_open(const char *name)
{
    assert_int_equal(unlink(gate_path("", name)), 0);
}

static void gate_fail(int number)
{
    FILE *file = fopen(gate_path("", "fail"), "we");
    assert_non_null(file);
    fprintf(file, "%d\n", number);
    fclose(file);
}

/* ---- requests ---- */

static uint32_t ask_create(struct client *c, uint64_t bytes, const char *name)
{
    struct gm_wire_request request = request_create(name, bytes, false);
    client_send(c, &request);
    return request.id;
}

static int create(struct client *c, uint64_t bytes, const char *name)
{
    struct gm_wire_response response;
    return client_code(c, request_create(name, bytes, false), &response);
}

static uint32_t ask_free(struct client *c, uint32_t handle)
{
    struct gm_wire_request request = request_of(GM_METHOD_ARENA_FREE);
    request.u.arena_free.arena = handle;
    client_send(c, &request);
    return request.id;
}

static int by_name(struct client *c, enum gm_method method, const char *name)
{
    struct gm_wire_response response;
    return client_code(c, request_by_name(method, name), &response);
}

static void does_a_job(struct client *c)
{
    client_send_nops(c, 1);
    assert_int_equal(client_receive_done(c, 1, 0), 1);
}

static void nothing_is_left(uint64_t fds)
{
    stats_wait(&child, "daemon.arenas", 0);
    stats_wait(&child, "daemon.arena_bytes", 0);
    stats_wait(&child, "daemon.sessions", 1);
    stats_wait(&child, "daemon.fds", fds);
}

/* ---- tests ---- */

static void nobody_waits_for_memory_that_is_made_or_given_back(void **state)
{
    (void)state;
    struct gm_wire_response response;
    daemon_start(&child, "normal", NULL);
    struct client *c = client_open(&child, false), *d = client_open(&child, false);
    gate_close("make");
    const uint32_t id = ask_create(c, BYTES, "");
    gate_wait("make");
    does_a_job(d);
    does_a_job(c); /* also its own, which overtake it */
    assert_int_equal(create(d, 1 << 20, ""), GM_OK);
    assert_int_equal(stats_u64(&child, "daemon.arenas"), 2);
    assert_int_equal(stats_u64(&child, "daemon.arena_bytes"), BYTES + (1 << 20));
    /* Its handle is none before the answer, although it is not hard to guess. */
    const uint32_t guess = gm_handle(1, 1), freed = ask_free(c, guess);
    assert_true(client_receive(c, &response));
    assert_int_equal(response.id, freed);
    assert_int_equal(code_of(&response), GM_EARENA);
    gate_open("make");
    assert_true(client_receive(c, &response));
    assert_int_equal(response.id, id);
    assert_int_equal(response_u64(&response, "arena"), guess);
    assert_int_equal(response_u64(&response, "bytes"), BYTES);
    assert_int_equal(c->passed_count, 1);
    gate_close("punch");
    const uint32_t last = ask_free(c, guess);
    gate_wait("punch");
    does_a_job(d);
    does_a_job(c);
    assert_int_equal(stats_u64(&child, "daemon.arena_bytes"), BYTES + (1 << 20)); /* until it is gone */
    gate_open("punch");
    assert_true(client_receive(c, &response));
    assert_int_equal(response.id, last);
    assert_int_equal(code_of(&response), GM_OK);
    assert_int_equal(stats_u64(&child, "daemon.arena_bytes"), 1 << 20);
    client_close(c), client_close(d);
    assert_int_equal(daemon_stop(&child), 0);
}

static void what_is_being_made_is_paid_already(void **state)
{
    (void)state;
    static const char *const args[] = {"--quota", "100m", "--user-memory", "80m", NULL}; /* the budget is 64 MiB */
    struct gm_wire_response response;
    daemon_start(&child, "normal", args);
    struct client *c = client_open(&child, false), *d = client_open(&child, false);
    const uint64_t fds = stats_u64(&child, "daemon.fds") - 2u;
    gate_close("make");
    ask_create(c, BYTES, "");
    gate_wait("make");
    assert_int_equal(create(d, BYTES, ""), GM_ENOMEM); /* together they are over the budget */
    /* And with this one over the user's quota. */
    assert_int_equal(client_code(d, request_create("", UINT64_C(61) << 20, true), &response), GM_EQUOTA);
    assert_int_equal(stats_u64(&child, "daemon.rejected_quota"), 2);
    gate_open("make");
    assert_true(client_receive(c, &response));
    assert_int_equal(code_of(&response), GM_OK);
    client_close(c);
    stats_wait(&child, "daemon.arena_bytes", 0);
    assert_int_equal(create(d, BYTES, ""), GM_OK);
    client_close(d);
    nothing_is_left(fds);
    assert_int_equal(daemon_stop(&child), 0);
}

static void a_client_may_leave_while_its_memory_is_made(void **state)
{
    (void)state;
    struct gm_wire_response response;
    daemon_start(&child, "normal", NULL);
    const uint64_t fds = stats_u64(&child, "daemon.fds");
    for (int i = 0; i < 4; i++) {
        struct client *c = client_open(&child, false);
        gate_close("make");
        ask_create(c, BYTES, i % 2 ? "name" : "");
        gate_wait("make");
        client_close(c);
        assert_int_equal(stats_u64(&child, "daemon.arena_bytes"), BYTES); /* the pages are there, or will be */
        gate_open("make");
        nothing_is_left(fds);
    }
    struct client *c = client_open(&child, false);
    assert_int_equal(by_name(c, GM_METHOD_ARENA_ATTACH, "name"), GM_ENOTFOUND);
    /* Leaving while it is given back. */
    assert_int_equal(create(c, BYTES, ""), GM_OK);
    gate_close("punch");
    client_close(c);
    gate_wait("punch");
    assert_int_equal(stats_u64(&child, "daemon.arena_bytes"), BYTES);
    gate_open("punch");
    nothing_is_left(fds);
    /* One that only ended its own side still reads. */
    c = client_open(&child, false);
    gate_close("make");
    ask_create(c, BYTES, "");
    gate_wait("make");
    assert_int_equal(shutdown(c->fd, SHUT_WR), 0);
    assert_int_equal(stats_u64(&child, "daemon.arenas"), 1);
    gate_open("make");
    assert_true(client_receive(c, &response));
    assert_int_equal(code_of(&response), GM_OK);
    assert_int_equal(c->passed_count, 1);
    assert_false(client_receive(c, &response));
    client_close(c);
    nothing_is_left(fds);
    assert_int_equal(daemon_stop(&child), 0);
}

static void a_name_is_nobodys_before_its_memory_is_there(void **state)
{
    (void)state;
    struct gm_wire_response response;
    daemon_start(&child, "normal", NULL);
    struct client *c = client_open(&child, false), *d = client_open(&child, false);
    gate_close("make");
    ask_create(c, BYTES, "name");
    gate_wait("make");
    assert_int_equal(by_name(d, GM_METHOD_ARENA_ATTACH, "name"), GM_ENOTFOUND);
    assert_int_equal(by_name(d, GM_METHOD_ARENA_REMOVE, "name"), GM_ENOTFOUND);
    assert_int_equal(create(d, 4096, "name"), GM_EINVAL); /* but it is taken */
    gate_open("make");
    assert_true(client_receive(c, &response));
    assert_int_equal(code_of(&response), GM_OK);
    assert_int_equal(by_name(d, GM_METHOD_ARENA_ATTACH, "name"), GM_OK);
    client_close(c), client_close(d);
    assert_int_equal(daemon_stop(&child), 0);
}

static void a_daemon_that_is_told_to_stop_finishes_what_it_makes(void **state)
{
    (void)state;
    for (int signals = 1; signals <= 2; signals++) {
        struct gm_wire_response response;
        daemon_start(&child, "normal", NULL);
        struct client *c = client_open(&child, false), *d = client_open(&child, false);
        assert_int_equal(create(d, 4096, ""), GM_OK);
        gate_close("make");
        ask_create(c, BYTES, "");
        gate_wait("make");
        for (int i = 0; i < signals; i++) {
            assert_int_equal(kill(child.pid, SIGTERM), 0);
            for (const uint64_t until = now_ms() + WAIT_MS; now_ms() < until; sleep_ms(20)) {
                if (daemon_log_has(&child, i == 0 ? "finishing jobs" : "second signal"))
                    break;
                if (i == 1) /* again and again: in quick succession they count as one */
                    assert_int_equal(kill(child.pid, SIGTERM), 0);
            }
        }
        assert_int_equal(waitpid(child.pid, NULL, WNOHANG), 0);
        gate_open("make");
        if (signals == 1) {
            assert_true(client_receive(c, &response));
            assert_int_equal(code_of(&response), GM_OK);
        }
        assert_false(client_receive(c, &response));
        assert_int_equal(daemon_wait(&child), signals == 1 ? 0 : 1);
        client_close(c), client_close(d);
        assert_int_equal(truncate(child.log, 0), 0);
    }
}

static void nobody_waits_for_the_answer_to_a_client_that_left(void **state)
{
    (void)state;
    struct gm_wire_response response;
    struct gm_wire_request drain = request_of(GM_METHOD_DRAIN);
    daemon_start(&child, "normal", NULL);
    struct client *c = client_open(&child, false), *admin = client_open(&child, true);
    gate_close("make");
    ask_create(c, BYTES, "");
    gate_wait("make");
    client_close(c);
    stats_wait(&child, "daemon.sessions", 2);
    client_call(admin, &drain, &response);
    assert_int_equal(code_of(&response), GM_OK);
    gate_open("make");
    client_close(admin);
    assert_int_equal(daemon_stop(&child), 0);
}

static void a_drain_waits_for_memory_that_is_made(void **state)
{
    (void)state;
    struct gm_wire_response response;
    struct gm_wire_request drain = request_of(GM_METHOD_DRAIN);
    daemon_start(&child, "normal", NULL);
    struct client *c = client_open(&child, false), *admin = client_open(&child, true);
    gate_close("make");
    ask_create(c, BYTES, "");
    gate_wait("make");
    client_send(admin, &drain);
    stats_wait(&child, "daemon.draining", 1);
    assert_int_equal(create(admin, 4096, ""), GM_EDRAINING); /* and this answer overtakes the drain's */
    gate_open("make");
    assert_true(client_receive(admin, &response));
    assert_int_equal(response.id, drain.id);
    assert_int_equal(code_of(&response), GM_OK);
    assert_true(client_receive(c, &response));
    assert_int_equal(code_of(&response), GM_OK);
    client_close(c), client_close(admin);
    assert_int_equal(daemon_stop(&child), 0);
}

static void memory_that_cannot_be_had_is_an_error_and_leaves_nothing(void **state)
{
    (void)state;
    static const struct {
        int number, code;
    } rows[] = {{ENOMEM, GM_ENOMEM}, {ENOSPC, GM_ENOMEM}, {EFBIG, GM_ENOMEM}, {EIO, GM_ESYSTEM}};
    daemon_start(&child, "normal", NULL);
    const uint64_t fds = stats_u64(&child, "daemon.fds");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int named = 0; named < 2; named++) {
            struct client *c = client_open(&child, false);
            gate_fail(rows[i].number);
            assert_int_equal(create(c, BYTES, named ? "name" : ""), rows[i].code);
            assert_int_equal(c->passed_count, 0);
            stats_wait(&child, "daemon.arenas", 0);
            assert_int_equal(stats_u64(&child, "daemon.arena_bytes"), 0);
            assert_int_equal(unlink(gate_path("", "fail")), 0);
            assert_int_equal(create(c, BYTES, named ? "name" : ""), GM_OK);
            if (named)
                assert_int_equal(by_name(c, GM_METHOD_ARENA_REMOVE, "name"), GM_OK);
            client_close(c);
            nothing_is_left(fds);
        }
    assert_int_equal(daemon_stop(&child), 0);
}

/* The kernel's own refusal, whose signal would end a daemon that does not expect it. */
static void an_arena_over_the_limit_of_files_is_an_error(void **state)
{
    (void)state;
    struct rlimit small = {.rlim_cur = 8 << 20, .rlim_max = RLIM_INFINITY}, old;
    daemon_start(&child, "normal", NULL);
    struct client *c = client_open(&child, false);
    assert_int_equal(prlimit(child.pid, RLIMIT_FSIZE, NULL, &old), 0);
    small.rlim_max = old.rlim_max;
    assert_int_equal(prlimit(child.pid, RLIMIT_FSIZE, &small, NULL), 0);
    assert_int_equal(create(c, BYTES, ""), GM_ENOMEM);
    assert_int_equal(create(c, 1 << 20, ""), GM_OK);
    assert_int_equal(stats_u64(&child, "daemon.arena_bytes"), 1 << 20);
    assert_int_equal(prlimit(child.pid, RLIMIT_FSIZE, &old, NULL), 0);
    assert_int_equal(create(c, BYTES, ""), GM_OK);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

/* In a child process of another user: exit status 0 when he gets memory at once. */
static int has_memory_at_once(void)
{
    struct client *c = client_open(&child, false);
    return create(c, 4096, "") == GM_OK ? 0 : 2;
}

static void a_user_does_not_stand_behind_everything_that_another_asked_for(void **state)
{
    (void)state;
    static const char *const args[] = {"--memory", "1g", "--quota", "1g", NULL};
    struct gm_wire_response response;
    daemon_start(&child, "normal", args);
    const uint64_t fds = stats_u64(&child, "daemon.fds");
    struct client *c = client_open(&child, false), *d = client_open(&child, false);
    gate_close("make");
    for (int i = 0; i < 5; i++)
        ask_create(c, BYTES, i == 4 ? "name" : "");
    const uint32_t small = ask_create(d, 4096, ""); /* the same user's, so it waits */
    gate_wait("make");
    stats_wait(&child, "daemon.arenas", 6);
    if (geteuid() == 0)
        assert_int_equal(as_another_user(has_memory_at_once), 0);
    /* What nobody wants any more and was not begun is not made, and what waited behind it has its turn: two are at the
     * gate. */
    client_close(c);
    stats_wait(&child, "daemon.arena_bytes", 2 * BYTES + 4096);
    gate_open("make");
    assert_true(client_receive(d, &response));
    assert_int_equal(response.id, small);
    assert_int_equal(code_of(&response), GM_OK);
    client_close(d);
    nothing_is_left(fds);
    assert_int_equal(daemon_stop(&child), 0);
}

/* In a child process of another user, beside BYTES of the first one's: the code of each request. */
static int has_his_own_quota(void)
{
    struct client *c = client_open(&child, false);
    if (create(c, BYTES, "") != GM_ENOMEM) /* the budget is everybody's */
        return 2;
    if (create(c, UINT64_C(20) << 20, "mine") != GM_OK || create(c, UINT64_C(20) << 20, "") != GM_ENOMEM)
        return 3;
    const struct gm_wire_request device = request_create("", UINT64_C(20) << 20, true);
    struct gm_wire_response response;
    if (client_code(c, device, &response) != GM_OK) /* device memory takes nothing of it */
        return 4;
    return client_code(c, device, &response) == GM_EQUOTA ? 0 : 5;
}

static void a_quota_is_each_users_and_the_budget_is_everybodys(void **state)
{
    (void)state;
    static const char *const args[] = {"--quota", "40m", NULL}; /* the budget is 64 MiB */
    needs_root();
    daemon_start(&child, "normal", args);
    struct client *c = client_open(&child, false);
    assert_int_equal(create(c, BYTES, ""), GM_OK);
    assert_int_equal(create(c, 4096, ""), GM_EQUOTA);
    assert_int_equal(as_another_user(has_his_own_quota), 0);
    stats_wait(&child, "daemon.arena_bytes", BYTES + (UINT64_C(20) << 20)); /* his named one stays */
    client_close(c);
    stats_wait(&child, "daemon.arena_bytes", UINT64_C(20) << 20);
    assert_int_equal(daemon_stop(&child), 0);
}

static void a_budget_that_is_not_there_is_told_at_the_start(void **state)
{
    (void)state;
    static const char *const huge[] = {"--memory", "1t", NULL}; /* as much as can be said */
    if ((uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) >= UINT64_C(1) << 40)
        skip();
    daemon_start(&child, "normal", NULL);
    assert_false(daemon_log_has(&child, "more than the"));
    assert_int_equal(daemon_stop(&child), 0);
    daemon_start(&child, "normal", huge);
    assert_true(daemon_log_has(&child, "more than the"));
    assert_int_equal(daemon_stop(&child), 0);
}

/* As many as a session may have at once, more than the pool has threads, and all of it is given back. */
static void many_are_made_at_once(void **state)
{
    (void)state;
    struct gm_wire_response response;
    int made = 0, refused = 0;
    daemon_start(&child, "normal", NULL);
    const uint64_t fds = stats_u64(&child, "daemon.fds");
    for (int round = 0; round < 3; round++) {
        struct client *c = client_open(&child, false);
        for (uint32_t i = 0; i < GM_ARENAS_PER_SESSION_MAX + 10; i++)
            ask_create(c, 65536, "");
        for (uint32_t i = 0; round != 1 && i < GM_ARENAS_PER_SESSION_MAX + 10; i++) {
            assert_true(client_receive(c, &response));
            made += !response.failed, refused += code_of(&response) == GM_EQUOTA;
            if (c->passed_fd >= 0)
                close(c->passed_fd), c->passed_fd = -1;
        }
        client_close(c);
        nothing_is_left(fds);
    }
    assert_int_equal(made, 2 * GM_ARENAS_PER_SESSION_MAX);
    assert_int_equal(refused, 20);
    assert_int_equal(daemon_stop(&child), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up_gated, tear_down)
    const struct CMUnitTest tests[] = {
        T(nobody_waits_for_memory_that_is_made_or_given_back),
        T(what_is_being_made_is_paid_already),
        T(a_client_may_leave_while_its_memory_is_made),
        T(a_name_is_nobodys_before_its_memory_is_there),
        T(a_daemon_that_is_told_to_stop_finishes_what_it_makes),
        T(nobody_waits_for_the_answer_to_a_client_that_left),
        T(a_drain_waits_for_memory_that_is_made),
        T(memory_that_cannot_be_had_is_an_error_and_leaves_nothing),
        T(an_arena_over_the_limit_of_files_is_an_error),
        T(a_user_does_not_stand_behind_everything_that_another_asked_for),
        T(a_quota_is_each_users_and_the_budget_is_everybodys),
        T(a_budget_that_is_not_there_is_told_at_the_start),
        T(many_are_made_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
