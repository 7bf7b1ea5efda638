/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes and descriptors: replies in every cut, floods in both directions, and everything a daemon can do wrong.
 */
#include "peer.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct gm_request *sum_of(uint64_t n)
{
    static struct gm_request request;
    static const uint64_t zeroes[64];

    request = gm_request("sum", GM_U64, n);
    request.in[0] = gm_in_memory(zeroes, sizeof zeroes);
    return &request;
}

/* Sends the reply to the first job in pieces of *user bytes. */
static void serve_pieces(struct peer *peer, int fd)
{
    const size_t piece = *(const size_t *)peer->user;
    struct gm_wire_request request;

    peer_hello(peer, fd);
    while (peer_next(peer, fd, &request)) {
        peer_put_done(peer, request.id, request.u.submit.args.n);
        const size_t size = peer->out.size;
        for (size_t at = 0; at < size; at += piece) {
            const size_t n = size - at < piece ? size - at : piece;
            if (send(fd, peer->out.bytes + at, n, MSG_NOSIGNAL) != (ssize_t)n)
                return;
            usleep(100);
        }
        peer->out.size = 0;
    }
}

static void reply_is_read_whatever_pieces_it_comes_in(void **state)
{
    struct gm_result result;
    struct peer peer;
    size_t piece;

    (void)state;
    for (piece = 1; piece < 70; piece += piece < 8 ? 1 : 13) {
        peer_start(&peer, serve_pieces, &piece);
        struct gm_client *const client = peer_open(&peer);
        assert_int_equal(GM_OK, gm_run(client, sum_of(piece % 64), in_ms(10000), &result));
        assert_int_equal(piece % 64, result.value.u64);
        gm_close(client);
        peer_stop(&peer);
    }
}

/* Answers the first job with the first *user bytes of the reply, and goes. */
static void serve_cut(struct peer *peer, int fd)
{
    struct gm_wire_request request;

    peer_hello(peer, fd);
    if (!peer_next(peer, fd, &request))
        return;
    peer_put_done(peer, request.id, 7);
    if (*(size_t *)peer->user < peer->out.size)
        peer->out.size = *(size_t *)peer->user;
    peer_flush(peer, fd);
}

static void reply_cut_at_any_byte_is_a_closed_connection(void **state)
{
    struct gm_failure failure;
    struct peer peer;
    size_t cut;
    int rc = GM_ECLOSED;

    (void)state;
    for (cut = 0; rc == GM_ECLOSED; cut++) {
        peer_start(&peer, serve_cut, &cut);
        struct gm_client *const client = peer_open(&peer);
        rc = gm_run(client, sum_of(1), in_ms(10000), NULL);
        gm_last_failure(client, &failure);
        assert_int_equal(rc, failure.status);
        if (rc == GM_ECLOSED)
            assert_string_equal("the daemon closed the connection", failure.text);
        gm_close(client);
        peer_stop(&peer);
    }
    assert_int_equal(GM_OK, rc);
    assert_true(cut > 40);
}

/* Sends *user, which is no valid reply, and stays. */
struct garbage {
    const uint8_t *bytes;
    size_t size;
};

static void serve_garbage(struct peer *peer, int fd)
{
    const struct garbage *const garbage = peer->user;
    struct gm_wire_request request;

    peer_hello(peer, fd);
    if (send(fd, garbage->bytes, garbage->size, MSG_NOSIGNAL) < 0)
        abort();
    while (peer_next(peer, fd, &request))
        continue;
}

static void malformed_replies_end_the_connection_at_once(void **state)
{
    static const uint8_t too_long[] = {0xff, 0xff, 0xff, 0xff}, empty[] = {0, 0, 0, 0};
    static const uint8_t bomb[] = {0, 0, 0, 5, 0xdd, 0x0f, 0xff, 0xff, 0xff};
    static const uint8_t unknown_id[] = {0, 0, 0, 9, 0x94, 1, 0xce, 0x7f, 0xff, 0xff, 0xff, 0xc0, 0x80};
    static const uint8_t request[] = {0, 0, 0, 8, 0x94, 0, 1, 0xa3, 'n', 'o', 'p', 0x80};
    static const uint8_t no_map[] = {0, 0, 0, 5, 0x94, 1, 1, 0xc0, 0x01};
    const struct garbage all[] = {{too_long, sizeof too_long}, {empty, sizeof empty},     {bomb, sizeof bomb},
                                  {unknown_id, sizeof unknown_id}, {request, sizeof request}, {no_map, sizeof no_map}};
    struct garbage garbage;
    struct peer peer;

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        garbage = all[i];
        peer_start(&peer, serve_garbage, &garbage);
        struct gm_client *const client = peer_open(&peer);
        assert_int_equal(GM_ECLOSED, gm_ping(client, in_ms(10000)));
        assert_int_equal(GM_ECLOSED, gm_ping(client, in_ms(10000)));
        assert_int_equal(GM_ECLOSED, gm_poll(client));
        gm_close(client);
        peer_stop(&peer);
    }
}

/* Answers a ping, and the next request with the id of that ping. */
static void serve_twice(struct peer *peer, int fd)
{
    struct gm_wire_request request;

    peer_hello(peer, fd);
    if (!peer_next(peer, fd, &request))
        return;
    const uint32_t first = request.id;
    peer_put_result(peer, first, NULL, 0);
    peer_flush(peer, fd);
    if (!peer_next(peer, fd, &request))
        return;
    peer_put_result(peer, first, NULL, 0);
    peer_flush(peer, fd);
    while (peer_next(peer, fd, &request))
        continue;
}

/* The slot of the first request serves the second one too, but the old id is nobody's. */
static void reply_that_comes_twice_is_not_taken_for_another(void **state)
{
    struct peer peer;

    (void)state;
    peer_start(&peer, serve_twice, NULL);
    struct gm_client *const client = peer_open(&peer);
    assert_int_equal(GM_OK, gm_ping(client, in_ms(10000)));
    assert_int_equal(GM_ECLOSED, gm_ping(client, in_ms(10000)));
    gm_close(client);
    peer_stop(&peer);
}

static void serve_goodbye(struct peer *peer, int fd)
{
    struct gm_wire_request request;

    peer_hello(peer, fd);
    for (int i = 0; i < 3; i++)
        peer_next(peer, fd, &request);
    peer_put_error(peer, 0, false, GM_EBUSY, "", "replies were not read");
    peer_flush(peer, fd);
}

static void everything_pending_learns_the_reason_of_the_close(void **state)
{
    struct gm_job jobs[3] = {0};
    struct gm_failure failure;
    struct peer peer;

    (void)state;
    peer_start(&peer, serve_goodbye, NULL);
    struct gm_client *const client = peer_open(&peer);
    for (int i = 0; i < 3; i++)
        assert_int_equal(GM_OK, gm_submit(client, sum_of(1), &jobs[i]));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(GM_ECLOSED, gm_wait(client, &jobs[i], in_ms(10000)));
        gm_job_failure(&jobs[i], &failure);
        assert_int_equal(GM_ECLOSED, failure.status);
        assert_string_equal("replies were not read", failure.text);
    }
    assert_int_equal(GM_ECLOSED, gm_submit(client, sum_of(1), &jobs[0]));
    gm_last_failure(client, &failure);
    assert_string_equal("replies were not read", failure.text);
    gm_close(client);
    peer_stop(&peer);
}

static void closed_peer_raises_no_signal(void **state)
{
    struct gm_job job = {0};
    struct peer peer;
    size_t cut = 0;

    (void)state;
    signal(SIGPIPE, SIG_DFL);
    peer_start(&peer, serve_cut, &cut);
    struct gm_client *const client = peer_open(&peer);
    assert_int_equal(GM_ECLOSED, gm_run(client, sum_of(1), in_ms(10000), NULL));
    assert_int_equal(GM_ECLOSED, gm_submit(client, sum_of(1), &job));
    assert_int_equal(GM_ECLOSED, gm_ping(client, in_ms(1000)));
    gm_close(client);
    peer_stop(&peer);
}

/* Reads nothing until it is told, so that the client's output has to wait. */
static void serve_late(struct peer *peer, int fd)
{
    char go;

    peer_hello(peer, fd);
    if (read(*(int *)peer->user, &go, 1) == 1) {
        struct gm_wire_request request;
        while (peer_next(peer, fd, &request)) {
            const struct gm_wire_done done = {.result_dtype = GM_DTYPE_COUNT,
                                              .outputs = 1,
                                              .out = {{request.u.submit.buffer[0].bytes,
                                                       request.u.submit.buffer[0].size}}};
            if (gm_wire_encode_done(&peer->out, request.id, &done) != GM_OK)
                abort();
            peer_flush(peer, fd);
        }
    }
}

enum { BIG = 256 * 1024, BIG_JOBS = 16 };

static void output_is_bounded_and_goes_on_when_there_is_room(void **state)
{
    static uint8_t in[BIG], out[BIG_JOBS][BIG];
    static struct gm_job jobs[BIG_JOBS];
    struct gm_request request = gm_request("copy", GM_U8, BIG);
    struct gm_failure failure;
    struct peer peer;
    int go[2], count = 0, rc;

    (void)state;
    for (size_t i = 0; i < BIG; i++)
        in[i] = (uint8_t)(i * 7);
    assert_int_equal(0, pipe(go));
    peer_start(&peer, serve_late, &go[0]);
    struct gm_client *const client = peer_open(&peer);
    request.in[0] = gm_in_memory(in, BIG);
    do {
        request.out[0] = gm_in_memory(out[count], BIG);
        rc = gm_submit(client, &request, &jobs[count]);
        count += rc == GM_OK;
    } while (rc == GM_OK && count < BIG_JOBS);
    assert_int_equal(GM_EBUSY, rc);
    assert_in_range(count, 3, BIG_JOBS - 1);
    gm_last_failure(client, &failure);
    assert_non_null(strstr(failure.text, "output buffer is full"));
    assert_int_equal(POLLIN | POLLOUT, gm_events(client));
    assert_int_equal(1, write(go[1], "g", 1));
    for (int i = 0; i < count; i++) {
        assert_int_equal(GM_OK, gm_wait(client, &jobs[i], in_ms(20000)));
        assert_memory_equal(in, out[i], BIG);
    }
    assert_int_equal(POLLIN, gm_events(client));
    gm_close(client);
    peer_stop(&peer);
    close(go[0]);
    close(go[1]);
}

/* ---- Descriptors ---- */

static int sealed_memory(uint64_t bytes)
{
    const int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
        abort();
    return fd;
}

struct fds_script {
    size_t with_ping, with_arena; /* descriptors beside each reply */
    bool sealed;
    uint64_t bytes;
    int freed; /* arena.free requests seen */
    int kept;  /* > 0: this descriptor goes along instead of new ones */
};

static void put_arena(struct peer *peer, uint32_t id, uint64_t bytes)
{
    const size_t start = gm_wire_begin_result(&peer->out, id);

    gm_wire_put_map(&peer->out, 2);
    gm_wire_put_str(&peer->out, "arena");
    gm_wire_put_u64(&peer->out, 5);
    gm_wire_put_str(&peer->out, "bytes");
    gm_wire_put_u64(&peer->out, bytes);
    if (gm_wire_end(&peer->out, start) != GM_OK)
        abort();
}

static void serve_fds(struct peer *peer, int fd)
{
    struct fds_script *const script = peer->user;
    struct gm_wire_request request;
    int fds[64];

    peer_hello(peer, fd);
    while (peer_next(peer, fd, &request)) {
        const bool create = request.method == GM_METHOD_ARENA_CREATE;
        const size_t count = create ? script->with_arena : request.method == GM_METHOD_PING ? script->with_ping : 0;
        if (create)
            put_arena(peer, request.id, script->bytes);
        else
            peer_put_result(peer, request.id, NULL, 0);
        __atomic_add_fetch(&script->freed, request.method == GM_METHOD_ARENA_FREE, __ATOMIC_SEQ_CST);
        for (size_t i = 0; i < count; i++)
            fds[i] = script->kept > 0   ? script->kept
                     : script->sealed ? sealed_memory(4096)
                                      : open("/dev/zero", O_RDWR | O_CLOEXEC);
        peer_flush_fds(peer, fd, fds, count);
        for (size_t i = 0; i < count && script->kept == 0; i++)
            close(fds[i]);
    }
}

static size_t open_descriptors(void)
{
    DIR *const folder = opendir("/proc/self/fd");
    size_t count = 0;

    assert_non_null(folder);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static void arena_is_mapped_from_the_descriptor_of_its_own_reply(void **state)
{
    struct fds_script script = {.with_arena = 1, .sealed = true, .bytes = 4096};
    struct gm_arena *arena;
    struct peer peer;

    (void)state;
    peer_start(&peer, serve_fds, &script);
    struct gm_client *const client = peer_open(&peer);
    const size_t before = open_descriptors();
    for (int i = 0; i < 10; i++) {
        assert_int_equal(GM_OK, gm_ping(client, in_ms(10000)));
        assert_int_equal(GM_OK,
                         gm_arena_create(client, 100, GM_MEMORY_SHARED, GM_DEVICE_ANY, in_ms(10000), &arena));
        assert_int_equal(4096, gm_arena_bytes(arena));
        memset(gm_arena_data(arena), 0xab, 4096);
        if (i % 2 == 0)
            assert_int_equal(GM_OK, gm_arena_free(arena, in_ms(10000)));
    }
    /* The peer's own copy of the last descriptor closes on its thread. */
    assert_in_range(open_descriptors(), before, before + 1);
    assert_int_equal(GM_OK, gm_arena_free(NULL, 0));
    gm_close(client);
    peer_stop(&peer);
}

static void arena_that_could_end_the_process_is_refused(void **state)
{
    static const struct fds_script scripts[] = {{.with_arena = 1, .sealed = false, .bytes = 4096},
                                                {.with_arena = 1, .sealed = true, .bytes = 8192},
                                                {.with_arena = 1, .sealed = true, .bytes = 99},
                                                {.with_arena = 0, .sealed = true, .bytes = 4096}};
    struct fds_script script;
    struct gm_arena *arena;
    struct peer peer;

    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        script = scripts[i];
        peer_start(&peer, serve_fds, &script);
        struct gm_client *const client = peer_open(&peer);
        assert_int_equal(GM_EPROTO,
                         gm_arena_create(client, 100, GM_MEMORY_SHARED, GM_DEVICE_ANY, in_ms(10000), &arena));
        assert_null(arena);
        assert_int_equal(GM_OK, gm_ping(client, in_ms(10000)));
        assert_int_equal(1, __atomic_load_n(&script.freed, __ATOMIC_SEQ_CST));
        gm_close(client);
        peer_stop(&peer);
    }
}

static void stray_descriptors_are_closed_and_end_the_connection(void **state)
{
    struct fds_script script = {.sealed = true};
    struct peer peer;

    (void)state;
    const size_t before = open_descriptors();
    for (script.with_ping = 1; script.with_ping <= 64; script.with_ping *= 4) {
        peer_start(&peer, serve_fds, &script);
        struct gm_client *const client = peer_open(&peer);
        /* The reply itself is read first, and is right. */
        (void)gm_ping(client, in_ms(10000));
        assert_int_equal(GM_ECLOSED, gm_ping(client, in_ms(10000)));
        gm_close(client);
        peer_stop(&peer);
    }
    assert_int_equal(before, open_descriptors());
}

static void arena_without_room_for_its_descriptor_says_so(void **state)
{
    struct fds_script script = {.with_arena = 1, .bytes = 4096, .kept = sealed_memory(4096)};
    struct gm_arena *arena;
    struct rlimit old, full;
    struct peer peer;

    (void)state;
    peer_start(&peer, serve_fds, &script);
    struct gm_client *const client = peer_open(&peer);
    assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &old));
    full = old;
    const int next = dup(0);
    close(next);
    full.rlim_cur = (rlim_t)next;
    assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &full));
    const int rc = gm_arena_create(client, 100, GM_MEMORY_SHARED, GM_DEVICE_ANY, in_ms(10000), &arena);
    setrlimit(RLIMIT_NOFILE, &old);
    assert_int_equal(GM_EFDS, rc);
    assert_int_equal(GM_OK, gm_ping(client, in_ms(10000)));
    assert_int_equal(1, __atomic_load_n(&script.freed, __ATOMIC_SEQ_CST));
    gm_close(client);
    peer_stop(&peer);
    close(script.kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reply_is_read_whatever_pieces_it_comes_in),
        cmocka_unit_test(reply_cut_at_any_byte_is_a_closed_connection),
        cmocka_unit_test(malformed_replies_end_the_connection_at_once),
        cmocka_unit_test(reply_that_comes_twice_is_not_taken_for_another),
        cmocka_unit_test(everything_pending_learns_the_reason_of_the_close),
        cmocka_unit_test(closed_peer_raises_no_signal),
        cmocka_unit_test(output_is_bounded_and_goes_on_when_there_is_room),
        cmocka_unit_test(arena_is_mapped_from_the_descriptor_of_its_own_reply),
        cmocka_unit_test(arena_that_could_end_the_process_is_refused),
        cmocka_unit_test(stray_descriptors_are_closed_and_end_the_connection),
        cmocka_unit_test(arena_without_room_for_its_descriptor_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
