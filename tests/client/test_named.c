/* SPDX-License-Identifier: Apache-2.0
 *
 * Named arenas: what is sent, what comes of the answers, and that an attached one is for reading.
 */
#include "peer.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct script {
    int memory_fd;
    char name[3][GM_NAME_BYTES_MAX]; /* of create, attach, remove */
    uint32_t frees;
    bool of_device, silent;
    uint32_t late; /* atomic: a silent one answers now */
};

static void put_arena(struct peer *peer, uint32_t id, const struct script *script)
{
    struct gm_wire_out *const out = &peer->out;
    const size_t start = gm_wire_begin_result(out, id);

    gm_wire_put_map(out, script->of_device ? 4 : 3);
    gm_wire_put_str(out, "arena");
    gm_wire_put_u64(out, 0x20003);
    gm_wire_put_str(out, "bytes");
    gm_wire_put_u64(out, 8192);
    gm_wire_put_str(out, "kind");
    gm_wire_put_str(out, script->of_device ? "device" : "shared");
    if (script->of_device) {
        gm_wire_put_str(out, "device");
        gm_wire_put_u64(out, 1);
    }
    if (gm_wire_end(out, start) != GM_OK)
        abort();
}

static void attach(struct peer *peer, int fd, const struct gm_wire_request *request, struct script *script)
{
    char path[64];

    memcpy(script->name[1], request->u.arena_attach.name, GM_NAME_BYTES_MAX);
    if (strcmp(request->u.arena_attach.name, "gone") == 0) {
        peer_put_error(peer, request->id, true, GM_ENOTFOUND, "name", "no arena has this name");
        return;
    }
    put_arena(peer, request->id, script);
    if (script->of_device)
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", script->memory_fd);
    const int readable = open(path, O_RDONLY | O_CLOEXEC);
    peer_flush_fds(peer, fd, &readable, 1);
    close(readable);
}

static void serve(struct peer *peer, int fd)
{
    struct script *const script = peer->user;
    struct gm_wire_request request;

    peer_hello(peer, fd);
    while (peer_next(peer, fd, &request)) {
        if (request.method == GM_METHOD_ARENA_ATTACH && !script->silent) {
            attach(peer, fd, &request, script);
        } else if (request.method == GM_METHOD_ARENA_CREATE) {
            memcpy(script->name[0], request.u.arena_create.name, GM_NAME_BYTES_MAX);
            put_arena(peer, request.id, script);
            peer_flush_fds(peer, fd, &script->memory_fd, 1);
        } else if (request.method == GM_METHOD_ARENA_ATTACH) {
            while (__atomic_load_n(&script->late, __ATOMIC_ACQUIRE) == 0)
                usleep(1000);
            attach(peer, fd, &request, script);
        } else {
            if (request.method == GM_METHOD_ARENA_REMOVE)
                memcpy(script->name[2], request.u.arena_remove.name, GM_NAME_BYTES_MAX);
            __atomic_add_fetch(&script->frees, request.method == GM_METHOD_ARENA_FREE, __ATOMIC_SEQ_CST);
            peer_put_result(peer, request.id, request.method == GM_METHOD_ARENA_LIST ? "arenas" : NULL, 7);
        }
        peer_flush(peer, fd);
    }
}

static struct script script;
static struct peer peer;
static struct gm_client *client;

static int start(void **state)
{
    (void)state;
    script = (struct script){.memory_fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    assert_int_equal(0, ftruncate(script.memory_fd, 8192));
    assert_int_equal(0, fcntl(script.memory_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
    peer_start(&peer, serve, &script);
    client = peer_open(&peer);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    gm_close(client);
    peer_stop(&peer);
    close(script.memory_fd);
    return 0;
}

static void names_travel_and_what_one_writes_another_reads(void **state)
{
    struct gm_arena *made, *attached;
    void *bytes;
    size_t size;

    (void)state;
    assert_int_equal(GM_OK, gm_arena_create_named(client, "weights.v1", 8192, GM_MEMORY_SHARED, GM_DEVICE_ANY,
                                                  in_ms(20000), &made));
    assert_int_equal(GM_OK, gm_arena_attach(client, "weights.v1", in_ms(20000), &attached));
    assert_int_equal(8192, gm_arena_bytes(attached));
    memcpy(gm_arena_data(made), "hello", 6);
    assert_string_equal("hello", (const char *)gm_arena_data(attached));
    assert_int_equal(GM_OK, gm_arena_list(client, in_ms(20000), &bytes, &size));
    static const uint8_t listed[] = {0x81, 0xa6, 'a', 'r', 'e', 'n', 'a', 's', 7};
    assert_int_equal(sizeof listed, size);
    assert_memory_equal(listed, bytes, size);
    gm_free(bytes);
    assert_int_equal(GM_OK, gm_arena_remove(client, "weights.v2", in_ms(20000)));
    assert_string_equal("weights.v1", script.name[0]);
    assert_string_equal("weights.v1", script.name[1]);
    assert_string_equal("weights.v2", script.name[2]);
    assert_int_equal(GM_OK, gm_arena_free(attached, in_ms(20000)));
    assert_int_equal(1, script.frees);
}

static void attached_arena_is_for_reading(void **state)
{
    struct gm_arena *attached;
    struct gm_failure failure;
    struct gm_job job = {0};
    int status;

    (void)state;
    assert_int_equal(GM_OK, gm_arena_attach(client, "a", in_ms(20000), &attached));
    struct gm_request fill = gm_request("fill", GM_U8, 10);
    fill.out[0] = gm_in_arena(attached, 0, 10);
    assert_int_equal(GM_EREADONLY, gm_submit(client, &fill, &job));
    gm_last_failure(client, &failure);
    assert_string_equal("out[0]", failure.field);
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        __atomic_store_n((char *)gm_arena_data(attached), 1, __ATOMIC_RELAXED);
        _exit(0);
    }
    assert_int_equal(child, waitpid(child, &status, 0));
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void attached_device_memory_has_a_device_and_no_mapping(void **state)
{
    struct gm_arena *attached;

    (void)state;
    script.of_device = true;
    assert_int_equal(GM_OK, gm_arena_attach(client, "a", in_ms(20000), &attached));
    assert_null(gm_arena_data(attached));
    assert_int_equal(8192, gm_arena_bytes(attached));
    assert_int_equal(GM_OK, gm_arena_free(attached, in_ms(20000)));
}

static void bad_names_are_refused_here_and_unknown_ones_there(void **state)
{
    struct gm_arena *arena;
    struct gm_failure failure;
    char name[80];

    (void)state;
    memset(name, 'n', sizeof name);
    name[64] = '\0';
    assert_int_equal(GM_EINVAL, gm_arena_attach(client, name, in_ms(20000), &arena));
    assert_null(arena);
    assert_int_equal(GM_EINVAL, gm_arena_attach(client, "", in_ms(20000), &arena));
    assert_int_equal(GM_EINVAL, gm_arena_attach(client, NULL, in_ms(20000), &arena));
    assert_int_equal(GM_EINVAL, gm_arena_remove(client, name, in_ms(20000)));
    assert_int_equal(GM_EINVAL, gm_arena_create_named(client, name, 1, GM_MEMORY_SHARED, 0, in_ms(20000), &arena));
    gm_last_failure(client, &failure);
    assert_string_equal("name", failure.field);
    assert_int_equal(GM_EINVAL, gm_arena_create(client, 1, (enum gm_memory)2, 0, in_ms(20000), &arena));
    gm_last_failure(client, &failure);
    assert_string_equal("memory", failure.field);
    name[63] = '\0';
    assert_int_equal(GM_OK, gm_arena_attach(client, name, in_ms(20000), &arena));
    assert_int_equal(GM_ENOTFOUND, gm_arena_attach(client, "gone", in_ms(20000), &arena));
    assert_null(arena);
}

static void arena_that_comes_too_late_is_given_back(void **state)
{
    struct gm_arena *arena;

    (void)state;
    script.silent = true;
    assert_int_equal(GM_ETIMEDOUT, gm_arena_attach(client, "late", in_ms(5), &arena));
    assert_null(arena);
    __atomic_store_n(&script.late, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&script.frees, __ATOMIC_SEQ_CST) == 0)
        assert_int_equal(GM_OK, gm_ping(client, in_ms(20000)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_travel_and_what_one_writes_another_reads, start, stop),
        cmocka_unit_test_setup_teardown(attached_arena_is_for_reading, start, stop),
        cmocka_unit_test_setup_teardown(attached_device_memory_has_a_device_and_no_mapping, start, stop),
        cmocka_unit_test_setup_teardown(bad_names_are_refused_here_and_unknown_ones_there, start, stop),
        cmocka_unit_test_setup_teardown(arena_that_comes_too_late_is_given_back, start, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
