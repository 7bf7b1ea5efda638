/* SPDX-License-Identifier: Apache-2.0
 *
 * Named arenas of the real daemon: they outlive sessions, are paid once, are read by others of the same user only, and
 * go with their last handle. Test thread and a child daemon.
 */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 8192u

static uint32_t handle_of(const struct gm_wire_response *response)
{
    struct gm_problem problem;
    uint64_t handle = 0;
    assert_false(response->failed);
    assert_int_equal(gm_wire_result_u64(response, "arena", &handle, &problem), GM_OK);
    return (uint32_t)handle;
}

static int create(struct client *c, const char *name, uint64_t bytes, bool device, uint32_t *handle)
{
    struct gm_wire_response response;
    const int status = client_code(c, request_create(name, bytes, device), &response);
    if (status == GM_OK && handle != NULL)
        *handle = handle_of(&response);
    if (status == GM_EINVAL || status == GM_ENOTFOUND)
        assert_string_equal(response.problem.field, "name");
    return status;
}

static int by_name(struct client *c, enum gm_method method, const char *name, uint32_t *handle)
{
    struct gm_wire_response response;
    const int status = client_code(c, request_by_name(method, name), &response);
    if (status == GM_OK && handle != NULL)
        *handle = handle_of(&response);
    if (status == GM_ENOTFOUND)
        assert_string_equal(response.problem.field, "name");
    return status;
}

static int attach(struct client *c, const char *name, uint32_t *handle)
{
    return by_name(c, GM_METHOD_ARENA_ATTACH, name, handle);
}

static int remove_name(struct client *c, const char *name)
{
    return by_name(c, GM_METHOD_ARENA_REMOVE, name, NULL);
}

static int detach(struct client *c, uint32_t handle)
{
    struct gm_wire_request request = request_of(GM_METHOD_ARENA_FREE);
    struct gm_wire_response response;
    request.u.arena_free.arena = handle;
    return client_code(c, request, &response);
}

static uint32_t list(struct client *c, struct gm_wire_arena *rows, uint32_t capacity)
{
    struct gm_wire_response response;
    struct gm_problem problem;
    uint32_t count;
    assert_int_equal(client_code(c, request_of(GM_METHOD_ARENA_LIST), &response), GM_OK);
    assert_int_equal(gm_wire_decode_arenas(&response, rows, capacity, &count, &problem), GM_OK);
    return count;
}

/* Waits until nobody but the caller's sessions holds the only name. */
static void wait_attached(struct client *c, uint32_t attached)
{
    struct gm_wire_arena row;
    for (const uint64_t until = now_ms() + WAIT_MS; now_ms() < until; sleep_ms(5))
        if (list(c, &row, 1) == 1 && row.attached == attached)
            return;
    fail_msg("the arena is still attached");
}

static int take_fd(struct client *c)
{
    const int fd = c->passed_fd;
    c->passed_fd = -1;
    assert_true(fd >= 0);
    return fd;
}

static void what_a_session_left_under_a_name_is_read_by_the_next(void **state)
{
    (void)state;
    struct gm_wire_arena row;
    daemon_start(&child, "normal", NULL);
    const uint64_t fds = stats_u64(&child, "daemon.fds");
    struct client *c = client_open(&child, false);
    assert_int_equal(create(c, "w\xc3\xa9ights", BYTES - 1, false, NULL), GM_OK);
    int fd = take_fd(c);
    uint32_t *words = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(words, MAP_FAILED);
    words[BYTES / 4 - 1] = 12345;
    munmap(words, BYTES);
    close(fd);
    client_close(c);
    c = client_open(&child, false);
    wait_attached(c, 0);
    assert_int_equal(stats_u64(&child, "daemon.arenas"), 1);
    assert_int_equal(stats_u64(&child, "daemon.arena_bytes"), BYTES);
    assert_int_equal(list(c, &row, 1), 1);
    assert_string_equal(row.name, "w\xc3\xa9ights");
    assert_int_equal(row.bytes, BYTES);
    assert_false(row.device_memory);
    assert_false(row.has_uid);
    assert_int_equal(attach(c, "w\xc3\xa9ights", NULL), GM_OK);
    fd = take_fd(c);
    assert_ptr_equal(mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    assert_int_equal(errno, EACCES);
    words = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(words, MAP_FAILED);
    assert_int_equal(words[BYTES / 4 - 1], 12345);
    assert_int_not_equal(mprotect(words, BYTES, PROT_READ | PROT_WRITE), 0);
    munmap(words, BYTES);
    close(fd);
    assert_int_equal(remove_name(c, "w\xc3\xa9ights"), GM_OK);
    client_close(c);
    stats_wait(&child, "daemon.arenas", 0);
    stats_wait(&child, "daemon.arena_bytes", 0);
    stats_wait(&child, "daemon.fds", fds);
    assert_int_equal(daemon_stop(&child), 0);
}

static void a_name_is_there_once_and_free_when_removed(void **state)
{
    (void)state;
    uint32_t first, second;
    daemon_start(&child, "normal", NULL);
    struct client *c = client_open(&child, false);
    assert_int_equal(create(c, "w", BYTES, false, &first), GM_OK);
    assert_int_equal(create(c, "w", BYTES, true, NULL), GM_EINVAL);
    assert_int_equal(create(c, "W", BYTES, false, NULL), GM_OK);
    assert_int_equal(attach(c, "v", NULL), GM_ENOTFOUND);
    assert_int_equal(remove_name(c, "v"), GM_ENOTFOUND);
    assert_int_equal(remove_name(c, "w"), GM_OK);
    assert_int_equal(remove_name(c, "w"), GM_ENOTFOUND);
    assert_int_equal(attach(c, "w", NULL), GM_ENOTFOUND);
    assert_int_equal(create(c, "w", BYTES, false, &second), GM_OK); /* the old one is still held by its creator */
    assert_int_not_equal(first, second);
    assert_int_equal(stats_u64(&child, "daemon.arena_bytes"), 3 * BYTES);
    assert_int_equal(detach(c, first), GM_OK);
    assert_int_equal(detach(c, first), GM_ESTALE);
    stats_wait(&child, "daemon.arena_bytes", 2 * BYTES);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static void the_memory_goes_with_the_last_handle(void **state)
{
    (void)state;
    for (int device = 0; device < 2; device++) {
        struct client *c[3];
        uint32_t handle[3];
        daemon_start(&child, "normal", NULL);
        for (int i = 0; i < 3; i++)
            c[i] = client_open(&child, false);
        assert_int_equal(create(c[0], "w", BYTES, device != 0, &handle[0]), GM_OK);
        for (int i = 1; i < 3; i++)
            assert_int_equal(attach(c[i], "w", &handle[i]), GM_OK);
        wait_attached(c[0], 3);
        assert_int_equal(stats_u64(&child, "daemon.arenas"), 1);
        assert_int_equal(remove_name(c[1], "w"), GM_OK);
        assert_int_equal(list(c[0], NULL, 0), 0);
        assert_int_equal(detach(c[0], handle[0]), GM_OK);
        client_close(c[1]);
        stats_wait(&child, "daemon.sessions", 3); /* c[0], c[2], and the one that asks */
        assert_int_equal(stats_u64(&child, "daemon.arena_bytes"), BYTES);
        assert_int_equal(detach(c[2], handle[2]), GM_OK);
        stats_wait(&child, "daemon.arena_bytes", 0);
        stats_wait(&child, "daemon.arenas", 0);
        client_close(c[0]), client_close(c[2]);
        assert_int_equal(daemon_stop(&child), 0);
        daemon_clean(&child);
    }
}

static void the_owner_pays_once_until_the_memory_is_gone(void **state)
{
    (void)state;
    static const char *const args[] = {"--quota", "40m", NULL};
    daemon_start(&child, "normal", args);
    struct client *c = client_open(&child, false);
    assert_int_equal(create(c, "w", 30 << 20, false, NULL), GM_OK);
    close(take_fd(c));
    for (int i = 0; i < 5; i++)
        assert_int_equal(attach(c, "w", NULL), GM_OK);
    assert_int_equal(stats_u64(&child, "daemon.arena_bytes"), 30 << 20);
    assert_int_equal(create(c, "", 10 << 20, false, NULL), GM_OK);
    assert_int_equal(create(c, "", 1, false, NULL), GM_EQUOTA);
    client_close(c);
    c = client_open(&child, false);
    stats_wait(&child, "daemon.arena_bytes", 30 << 20);
    assert_int_equal(create(c, "", 11 << 20, false, NULL), GM_EQUOTA); /* nobody is attached, and it is paid still */
    assert_int_equal(remove_name(c, "w"), GM_OK);
    stats_wait(&child, "daemon.arena_bytes", 0);
    assert_int_equal(create(c, "", 40 << 20, false, NULL), GM_OK);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static void handles_are_bounded(void **state)
{
    (void)state;
    static const char *const args[] = {"--user-arenas", "1023", NULL};
    daemon_start(&child, "normal", args);
    struct client *c = client_open(&child, false);
    assert_int_equal(create(c, "w", BYTES, true, NULL), GM_OK);
    for (uint32_t i = 1; i < GM_ARENAS_PER_SESSION_MAX; i++)
        assert_int_equal(attach(c, "w", NULL), GM_OK);
    assert_int_equal(attach(c, "w", NULL), GM_EQUOTA);
    assert_int_equal(create(c, "v", BYTES, true, NULL), GM_EQUOTA);
    struct client *more[4];
    uint32_t handles = GM_ARENAS_PER_SESSION_MAX; /* and the memory's own entry */
    for (int i = 0; i < 4; i++) {
        more[i] = client_open(&child, false);
        for (uint32_t k = 0; k < GM_ARENAS_PER_SESSION_MAX && handles + 1u < GM_ARENAS_MAX - 1u; k++, handles++)
            assert_int_equal(attach(more[i], "w", NULL), GM_OK);
    }
    struct client *last = client_open(&child, false);
    assert_int_equal(attach(last, "w", NULL), GM_EQUOTA);
    assert_int_equal(create(last, "", BYTES, true, NULL), GM_EQUOTA);
    client_close(more[0]);
    wait_attached(last, GM_ARENAS_MAX - 2u - GM_ARENAS_PER_SESSION_MAX);
    assert_int_equal(attach(last, "w", NULL), GM_OK);
    assert_int_equal(stats_u64(&child, "daemon.arenas"), 1);
    client_close(c), client_close(last);
    for (int i = 1; i < 4; i++)
        client_close(more[i]);
    assert_int_equal(daemon_stop(&child), 0);
}

static void names_of_a_user_are_bounded(void **state)
{
    (void)state;
    char name[16] = "0";
    uint32_t handle;
    daemon_start(&child, "normal", NULL);
    struct client *c = client_open(&child, false);
    for (uint32_t i = 0; i < GM_ARENAS_PER_SESSION_MAX; i++) {
        snprintf(name, sizeof name, "%u", i);
        assert_int_equal(create(c, name, BYTES, true, &handle), GM_OK);
        assert_int_equal(detach(c, handle), GM_OK);
    }
    assert_int_equal(create(c, "one more", BYTES, true, NULL), GM_EQUOTA);
    assert_int_equal(create(c, "", BYTES, true, NULL), GM_OK);
    assert_int_equal(remove_name(c, name), GM_OK);
    stats_wait(&child, "daemon.arenas", GM_ARENAS_PER_SESSION_MAX); /* the one without a name among them */
    assert_int_equal(create(c, "one more", BYTES, true, NULL), GM_OK);
    assert_int_equal(list(c, NULL, 0), GM_ARENAS_PER_SESSION_MAX);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static int copy(struct client *c, uint32_t in, uint32_t out, uint64_t offset, struct gm_wire_response *response)
{
    struct gm_wire_request request = request_of(GM_METHOD_SUBMIT);
    request.u.submit.op = GM_OP_copy, request.u.submit.args.dtype = GM_DTYPE_u32, request.u.submit.args.n = 64;
    request.u.submit.buffers = 2;
    request.u.submit.buffer[0] = (struct gm_wire_buffer){.place = GM_PLACE_ARENA, .arena = in};
    request.u.submit.buffer[1] = (struct gm_wire_buffer){.place = GM_PLACE_ARENA, .arena = out, .offset = offset};
    return client_code(c, request, response);
}

static void an_attached_handle_reads_and_does_not_write(void **state)
{
    (void)state;
    for (int device = 0; device < 2; device++) {
        struct gm_wire_response response;
        uint32_t mine, attached, work;
        daemon_start(&child, "normal", NULL);
        struct client *c = client_open(&child, false), *other = client_open(&child, false);
        assert_int_equal(create(c, "w", BYTES, device != 0, &mine), GM_OK);
        assert_int_equal(attach(c, "w", &attached), GM_OK);
        assert_int_equal(create(c, "", BYTES, device != 0, &work), GM_OK);
        assert_int_equal(copy(c, attached, work, 0, &response), GM_OK);
        assert_int_equal(copy(c, work, mine, 0, &response), GM_OK);
        assert_int_equal(copy(c, work, attached, 0, &response), GM_EREADONLY);
        assert_string_equal(response.problem.field, "out[0].arena");
        assert_int_equal(copy(c, attached, mine, 4, &response), GM_EALIAS); /* the same memory by two handles */
        assert_int_equal(copy(c, attached, mine, 256, &response), GM_OK);
        assert_int_equal(copy(other, attached, work, 0, &response), GM_EARENA); /* handles are the session's */
        client_close(c), client_close(other);
        assert_int_equal(daemon_stop(&child), 0);
        daemon_clean(&child);
    }
}

static void an_attach_says_what_it_is_on(void **state)
{
    (void)state;
    struct gm_wire_request request = request_of(GM_METHOD_ARENA_ATTACH);
    struct gm_wire_response response;
    struct gm_problem problem;
    char kind[16];
    uint64_t value;
    daemon_start(&child, "normal", NULL);
    struct client *c = client_open(&child, false);
    assert_int_equal(create(c, "device", BYTES, true, NULL), GM_OK);
    assert_int_equal(create(c, "shared", BYTES, false, NULL), GM_OK);
    memcpy(request.u.arena_attach.name, "device", 6);
    assert_int_equal(client_code(c, request, &response), GM_OK);
    assert_int_equal(gm_wire_result_text(&response, "kind", kind, sizeof kind, &problem), GM_OK);
    assert_string_equal(kind, "device");
    assert_int_equal(gm_wire_result_u64(&response, "device", &value, &problem), GM_OK);
    assert_int_equal(value, 0);
    assert_int_equal(gm_wire_result_u64(&response, "bytes", &value, &problem), GM_OK);
    assert_int_equal(value, BYTES);
    memcpy(request.u.arena_attach.name, "shared", 6);
    assert_int_equal(client_code(c, request, &response), GM_OK);
    assert_int_equal(gm_wire_result_text(&response, "kind", kind, sizeof kind, &problem), GM_OK);
    assert_string_equal(kind, "shared");
    assert_int_equal(gm_wire_result_u64(&response, "device", &value, &problem), GM_EPROTO);
    client_close(c);
    assert_int_equal(daemon_stop(&child), 0);
}

static void the_admin_socket_lists_every_user(void **state)
{
    (void)state;
    struct gm_wire_arena row[2];
    daemon_start(&child, "normal", NULL);
    struct client *c = client_open(&child, false), *admin = client_open(&child, true);
    assert_int_equal(create(c, "w", BYTES, true, NULL), GM_OK);
    assert_int_equal(list(admin, row, 2), 1);
    assert_true(row[0].has_uid);
    assert_int_equal(row[0].uid, geteuid());
    assert_true(row[0].device_memory);
    assert_int_equal(row[0].device, 0);
    assert_int_equal(row[0].attached, 1);
    client_close(c), client_close(admin);
    assert_int_equal(daemon_stop(&child), 0);
}

/* In a child process of another user: exit status 0 when everything is as it must be. */
static int sees_his_own_only(void)
{
    struct gm_wire_arena row;
    struct client *c = client_open(&child, false);
    if (attach(c, "w", NULL) != GM_ENOTFOUND || remove_name(c, "w") != GM_ENOTFOUND || list(c, &row, 1) != 0)
        return 2;
    if (create(c, "w", BYTES, false, NULL) != GM_OK) /* names are each user's own */
        return 3;
    client_close(c); /* it stays, and so does the user's entry */
    c = client_open(&child, false);
    for (const uint64_t until = now_ms() + WAIT_MS; list(c, &row, 1) != 1 || row.attached != 0; sleep_ms(5))
        if (now_ms() > until)
            return 4;
    if (attach(c, "w", NULL) != GM_OK)
        return 5;
    /* The descriptor is for reading, and nobody opens it again for writing. */
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", c->passed_fd);
    return open(path, O_RDWR | O_CLOEXEC) < 0 && errno == EACCES ? 0 : 6;
}

static void other_users_do_not_see_it(void **state)
{
    (void)state;
    struct gm_wire_arena row[3];
    needs_root();
    daemon_start(&child, "normal", NULL);
    struct client *c = client_open(&child, false);
    assert_int_equal(create(c, "w", BYTES, false, NULL), GM_OK);
    assert_int_equal(as_another_user(sees_his_own_only), 0);
    assert_int_equal(list(c, row, 3), 1);
    struct client *admin = client_open(&child, true);
    assert_int_equal(list(admin, row, 3), 2);
    assert_int_equal(row[0].uid + row[1].uid, OTHER_UID);
    stats_wait(&child, "daemon.arena_bytes", 2 * BYTES);
    client_close(c), client_close(admin);
    assert_int_equal(daemon_stop(&child), 0);
}

static void a_device_that_refuses_leaves_no_name_behind(void **state)
{
    (void)state;
    daemon_start(&child, "refuse", NULL);
    struct client *c = client_open(&child, false);
    for (int device = 0; device < 2; device++) {
        assert_int_equal(create(c, "w", BYTES, device != 0, NULL), GM_ENOMEM);
        assert_int_equal(attach(c, "w", NULL), GM_ENOTFOUND);
        assert_int_equal(list(c, NULL, 0), 0);
        stats_wait(&child, "daemon.arenas", 0);
    }
    assert_int_equal(create(c, "w", BYTES, false, NULL), GM_ENOMEM); /* and not EINVAL */
    client_close(c);
    stats_wait(&child, "daemon.arena_bytes", 0);
    assert_int_equal(daemon_stop(&child), 0);
}

static void a_lost_device_takes_its_memory_and_says_so(void **state)
{
    (void)state;
    int status = GM_OK;
    daemon_start(&child, "normal", NULL);
    struct client *c = client_open(&child, false);
    assert_int_equal(create(c, "w", BYTES, true, NULL), GM_OK);
    assert_int_equal(kill(daemon_device_pid(&child), SIGKILL), 0);
    for (const uint64_t until = now_ms() + WAIT_MS; status == GM_OK && now_ms() < until; sleep_ms(5))
        status = attach(c, "w", NULL);
    assert_int_equal(status, GM_EDEVICELOST);
    assert_int_equal(remove_name(c, "w"), GM_OK);
    client_close(c);
    stats_wait(&child, "daemon.arena_bytes", 0);
    assert_int_equal(daemon_stop(&child), 0);
}

static void clients_that_leave_at_any_moment_leave_whole_names_or_none(void **state)
{
    (void)state;
    daemon_start(&child, "slow", NULL);
    const uint64_t fds = stats_u64(&child, "daemon.fds");
    struct gm_wire_arena rows[64];
    struct client *remover = client_open(&child, false);
    for (int i = 0; i < 60; i++) {
        struct client *c = client_open(&child, false);
        char name[8] = {'n', (char)('a' + i / 4 % 4)};
        struct gm_wire_request request = request_create(name, 1 << 16, i % 3 == 0);
        struct gm_wire_request next = request_of(GM_METHOD_ARENA_ATTACH);
        memcpy(next.u.arena_attach.name, name, sizeof name);
        client_send(c, &request);
        client_send(c, &next);
        if (i % 2 != 0)
            sleep_ms((unsigned)(i % 5));
        if (i % 7 == 0)
            (void)remove_name(remover, name);
        client_close(c);
    }
    struct client *c = client_open(&child, false);
    for (const uint64_t until = now_ms() + WAIT_MS; now_ms() < until; sleep_ms(5)) {
        const uint32_t count = list(c, rows, 64);
        uint32_t attached = 0;
        for (uint32_t i = 0; i < count; i++)
            attached += rows[i].attached;
        if (attached == 0 && stats_u64(&child, "daemon.arenas") == count)
            break;
    }
    const uint32_t count = list(c, rows, 64);
    assert_int_equal(stats_u64(&child, "daemon.arenas"), count);
    assert_true(count <= 4);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(remove_name(c, rows[i].name), GM_OK);
    stats_wait(&child, "daemon.arenas", 0);
    stats_wait(&child, "daemon.arena_bytes", 0);
    client_close(c), client_close(remover);
    stats_wait(&child, "daemon.fds", fds);
    assert_int_equal(daemon_stop(&child), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_a_session_left_under_a_name_is_read_by_the_next),
        TEST(a_name_is_there_once_and_free_when_removed),
        TEST(the_memory_goes_with_the_last_handle),
        TEST(the_owner_pays_once_until_the_memory_is_gone),
        TEST(handles_are_bounded),
        TEST(names_of_a_user_are_bounded),
        TEST(an_attached_handle_reads_and_does_not_write),
        TEST(an_attach_says_what_it_is_on),
        TEST(the_admin_socket_lists_every_user),
        TEST(other_users_do_not_see_it),
        TEST(a_device_that_refuses_leaves_no_name_behind),
        TEST(a_lost_device_takes_its_memory_and_says_so),
        TEST(clients_that_leave_at_any_moment_leave_whole_names_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
