/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection over a socketpair: framing at every cut, output bound, descriptors. Single thread, a loop of its own.
 */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn.h"

static uv_loop_t loop;
static struct gm_conn_io io;
static struct gm_conn conn;
static int peer;
static bool busy, gone, closed;
static char reason[64];

/* What on_frame saw: lengths and a checksum of all bytes. */
static size_t frames, frame_bytes;
static uint64_t checksum;
static void (*on_frame)(const uint8_t *body, size_t size);
static size_t not_now; /* this frame, counted from 1, has to wait; 0: none has */

static uint64_t mix(uint64_t sum, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ bytes[i]) * UINT64_C(1099511628211);
    return sum;
}

static bool saw_frame(struct gm_conn *c, const uint8_t *body, size_t size)
{
    (void)c;
    if (not_now == frames + 1)
        return false;
    frames++, frame_bytes += size;
    checksum = mix(checksum, body, size);
    if (on_frame != NULL)
        on_frame(body, size);
    return true;
}

static void saw_gone(struct gm_conn *c, const char *why)
{
    (void)c;
    assert_false(gone);
    gone = true;
    snprintf(reason, sizeof reason, "%s", why);
}

static void saw_closed(struct gm_conn *c)
{
    (void)c;
    closed = true;
}

static bool is_busy(const struct gm_conn *c)
{
    (void)c;
    return busy;
}

static int set_up(void **state)
{
    (void)state;
    int pair[2];
    if (uv_loop_init(&loop) != 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
        return -1;
    memset(&io, 0, sizeof io);
    io.loop = &loop, io.on_frame = saw_frame, io.on_gone = saw_gone, io.on_closed = saw_closed, io.is_busy = is_busy;
    peer = pair[1];
    frames = frame_bytes = 0, checksum = 7, busy = gone = closed = false, on_frame = NULL, not_now = 0, reason[0] = 0;
    return gm_conn_open(&conn, &io, pair[0]);
}

static int tear_down(void **state)
{
    (void)state;
    gm_conn_close(&conn, "test");
    uv_run(&loop, UV_RUN_DEFAULT);
    if (peer >= 0)
        close(peer);
    return closed ? uv_loop_close(&loop) : -1;
}

static void turn(void)
{
    uv_run(&loop, UV_RUN_NOWAIT);
    gm_conn_flush_all(&io);
    while (gm_conn_resume_all(&io))
        gm_conn_flush_all(&io);
}

static void feed(const uint8_t *bytes, size_t size)
{
    while (size != 0 && !gone) {
        const ssize_t n = send(peer, bytes, size, MSG_NOSIGNAL);
        if (n > 0)
            bytes += n, size -= (size_t)n;
        else
            assert_int_equal(errno, EAGAIN);
        turn();
    }
    for (int i = 0; i < 50; i++)
        turn();
}

static size_t put_frame(uint8_t *at, size_t size, uint64_t *random)
{
    at[0] = (uint8_t)(size >> 24), at[1] = (uint8_t)(size >> 16), at[2] = (uint8_t)(size >> 8), at[3] = (uint8_t)size;
    for (size_t i = 0; i < size; i++)
        at[4 + i] = (uint8_t)unit_random(random);
    return size + 4;
}

static void frames_survive_every_cut(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 3, 4, 5, 60, 2, 1};
    uint8_t stream[256];
    uint64_t random = 3, expected = 7;
    size_t total = 0, bodies = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const size_t n = put_frame(stream + total, sizes[i], &random);
        expected = mix(expected, stream + total + 4, sizes[i]);
        total += n, bodies += sizes[i];
    }
    for (size_t cut = 0; cut <= total; cut++)
        for (size_t second = cut; second <= total; second += 3) {
            frames = frame_bytes = 0, checksum = 7;
            feed(stream, cut);
            feed(stream + cut, second - cut);
            feed(stream + second, total - second);
            assert_int_equal(frames, 7);
            assert_int_equal(frame_bytes, bodies);
            assert_true(checksum == expected);
        }
    assert_int_equal(conn.in_size, 0);
}

static void frame_byte_by_byte_and_largest_frame_arrive_whole(void **state)
{
    (void)state;
    static uint8_t stream[GM_FRAME_BYTES_MAX + 200];
    uint64_t random = 5;
    const size_t small = put_frame(stream, 100, &random);
    for (size_t i = 0; i < small; i++)
        feed(stream + i, 1);
    assert_int_equal(frames, 1);
    const size_t large = put_frame(stream, GM_FRAME_BYTES_MAX, &random);
    const size_t both = large + put_frame(stream + large, 9, &random);
    checksum = 7;
    feed(stream, both);
    assert_int_equal(frames, 3);
    assert_true(checksum == mix(mix(7, stream + 4, GM_FRAME_BYTES_MAX), stream + large + 4, 9));
    gm_conn_trim(&conn);
    assert_int_equal(conn.in_capacity, 0);
}

static void buffer_grows_with_data_and_not_with_the_announced_length(void **state)
{
    (void)state;
    static uint8_t stream[GM_FRAME_BYTES_MAX + 4];
    uint64_t random = 9;
    put_frame(stream, GM_FRAME_BYTES_MAX, &random);
    feed(stream, 100);
    assert_int_equal(conn.in_size, 100);
    assert_true(conn.in_capacity <= 4096);
    feed(stream + 100, 20000);
    assert_true(conn.in_capacity <= 65536);
}

static bool read_error(int code, const char *text)
{
    uint8_t bytes[4096];
    struct gm_wire_response response;
    struct gm_problem problem;
    const ssize_t n = recv(peer, bytes, sizeof bytes, 0);
    return n > 4 && gm_wire_decode_response(bytes + 4, (size_t)n - 4, &response, &problem) == code && response.failed &&
           response.problem.code == code && strcmp(response.problem.text, text) == 0;
}

static void bad_lengths_are_answered_and_end_the_connection(void **state)
{
    const uint32_t lengths[] = {0, GM_FRAME_BYTES_MAX + 1, UINT32_MAX};
    const char *const texts[] = {"frame of length 0", "a frame of 1114113 bytes; at most 1114112",
                                 "a frame of 4294967295 bytes; at most 1114112"};
    for (size_t i = 0; i < 3; i++) {
        const uint8_t header[8] = {(uint8_t)(lengths[i] >> 24), (uint8_t)(lengths[i] >> 16), (uint8_t)(lengths[i] >> 8),
                                   (uint8_t)lengths[i]};
        if (i != 0)
            assert_int_equal(set_up(state), 0);
        feed(header, sizeof header);
        assert_true(gone);
        assert_true(conn.broken);
        assert_int_equal(frames, 0);
        assert_true(read_error(i == 0 ? GM_EPROTO : GM_ETOOLARGE, texts[i]));
        if (i != 2)
            assert_int_equal(tear_down(state), 0);
    }
}

static bool reply(size_t size, int fd)
{
    struct gm_wire_out out;
    if (!gm_conn_reserve(&conn, size + 64, &out))
        return false;
    uint8_t *body = calloc(1, size);
    const size_t start = gm_wire_begin(&out);
    gm_wire_put_bin(&out, body, size);
    free(body);
    assert_int_equal(gm_wire_end(&out, start), GM_OK);
    gm_conn_commit(&conn, &out, fd);
    return true;
}

static void unread_output_is_bounded_then_goodbye_with_a_reason(void **state)
{
    (void)state;
    size_t replies = 0;
    while (reply(100000, -1)) {
        assert_true(++replies < 200);
        assert_true(gm_conn_unsent(&conn) <= GM_CONN_OUTPUT_MAX);
    }
    assert_true(replies >= GM_CONN_OUTPUT_MAX / 100100);
    assert_true(conn.slow);
    assert_int_equal(conn.state, GM_CONN_GOODBYE);
    assert_false(reply(1, -1));
    /* A reader that wakes up gets every reply and then the reason. */
    static uint8_t bytes[1 << 20];
    size_t got = 0, last = 0;
    while (!gone) {
        const ssize_t n = recv(peer, bytes, sizeof bytes, 0);
        if (n > 0)
            got += (size_t)n, last = (size_t)n;
        turn();
    }
    for (ssize_t n; (n = recv(peer, bytes, sizeof bytes, 0)) > 0; last = (size_t)n)
        got += (size_t)n;
    assert_true(got > replies * 100000);
    assert_true(last > 0);
    assert_string_equal(reason, "slow reader");
}

/* Whatever was read of it when one of its frames has no room, everything arrives once, in order, and only after the
 * peer was sent something. */
static void frames_without_room_wait_until_output_was_sent(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 3, 4, 5, 60, 2, 1};
    uint8_t stream[256], bytes[64];
    uint64_t random = 3, expected = 7;
    size_t total = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const size_t n = put_frame(stream + total, sizes[i], &random);
        expected = mix(expected, stream + total + 4, sizes[i]);
        total += n;
    }
    for (size_t waits = 1; waits <= 7; waits++)
        for (size_t cut = 0; cut <= total; cut++) {
            frames = frame_bytes = 0, checksum = 7, not_now = waits;
            conn.promised = 100;
            feed(stream, cut);
            feed(stream + cut, total - cut);
            assert_int_equal(frames, waits - 1);
            assert_true(conn.held);
            not_now = waits < 7 ? waits + 1 : 0; /* the next one has to wait too */
            turn();
            assert_int_equal(frames, waits - 1);
            assert_true(reply(10, -1));
            turn();
            assert_int_equal(frames, waits);
            not_now = 0;
            assert_true(reply(10, -1));
            for (int i = 0; i < 5; i++)
                turn();
            assert_int_equal(frames, 7);
            assert_true(checksum == expected);
            assert_false(conn.held);
            assert_int_equal(conn.in_size, 0);
            while (recv(peer, bytes, sizeof bytes, 0) > 0) {
            }
        }
}

static void one_that_is_held_is_not_read_and_its_end_is_seen(void **state)
{
    (void)state;
    static uint8_t stream[GM_FRAME_BYTES_MAX + 4];
    uint64_t random = 3;
    const size_t size = put_frame(stream, GM_FRAME_BYTES_MAX, &random);
    ssize_t n;
    not_now = 1, conn.promised = 100;
    feed(stream, size);
    assert_true(conn.held);
    for (int rounds = 0; rounds < 1000; rounds++) { /* fills the socket and then nothing more goes in */
        n = send(peer, stream, 4096, MSG_NOSIGNAL);
        turn();
    }
    assert_int_equal(n, -1);
    assert_int_equal(errno, EAGAIN);
    assert_true(conn.in_size <= size + GM_CONN_SCRATCH);
    assert_false(gone);
    close(peer);
    peer = -1;
    turn(), turn();
    assert_true(gone);
    assert_int_equal(frames, 0);
}

static size_t open_fds(void)
{
    size_t count = 0;
    DIR *list = opendir("/proc/self/fd");
    while (readdir(list) != NULL)
        count++;
    closedir(list);
    return count;
}

static void send_with_fds(const uint8_t *bytes, size_t size, int count)
{
    static char space[CMSG_SPACE(253 * sizeof(int))] __attribute__((aligned(16)));
    struct iovec piece = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = space,
                             .msg_controllen = CMSG_SPACE((size_t)count * sizeof(int))};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
    for (int i = 0; i < count; i++)
        memcpy(CMSG_DATA(header) + (size_t)i * sizeof(int), &peer, sizeof(int));
    assert_int_equal(sendmsg(peer, &message, MSG_NOSIGNAL), (ssize_t)size);
}

static void stray_descriptors_are_closed(void **state)
{
    (void)state;
    uint8_t frame[32];
    uint64_t random = 1;
    const size_t size = put_frame(frame, 8, &random), before = open_fds();
    for (int i = 0; i < 1000; i++) {
        send_with_fds(frame, size, (int)GM_FDS_PER_FRAME_MAX);
        turn();
    }
    assert_int_equal(frames, 1000);
    assert_int_equal(open_fds(), before);
}

static void a_flood_of_descriptors_is_a_protocol_error(void **state)
{
    (void)state;
    uint8_t frame[32];
    uint64_t random = 1;
    const size_t size = put_frame(frame, 8, &random), before = open_fds();
    send_with_fds(frame, size, 253);
    turn(), turn();
    assert_true(gone);
    assert_int_equal(frames, 0);
    assert_int_equal(open_fds(), before - 1); /* its own */
    assert_true(read_error(GM_EPROTO, "too many descriptors"));
}

static void descriptors_travel_with_their_own_frame(void **state)
{
    (void)state;
    int pipes[3][2];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pipe2(pipes[i], O_CLOEXEC), 0);
    assert_true(reply(10, -1));
    assert_true(reply(20, pipes[0][0]));
    assert_true(reply(30, pipes[1][0]));
    assert_true(reply(40, -1));
    assert_true(reply(50, pipes[2][0]));
    gm_conn_flush_all(&io);
    static const size_t sizes[] = {10, 20, 30, 40, 50};
    static const int carries[] = {-1, 0, 1, -1, 2};
    for (int i = 0; i < 5; i++) {
        uint8_t bytes[128];
        union {
            struct cmsghdr header;
            char bytes[CMSG_SPACE(sizeof(int))];
        } space;
        struct iovec piece = {.iov_base = bytes, .iov_len = sizes[i] + 6}; /* length, bin 8 header, bytes */
        struct msghdr message = {
            .msg_iov = &piece, .msg_iovlen = 1, .msg_control = space.bytes, .msg_controllen = sizeof space.bytes};
        assert_int_equal(recvmsg(peer, &message, MSG_CMSG_CLOEXEC), (ssize_t)sizes[i] + 6);
        assert_int_equal(bytes[3], sizes[i] + 2);
        const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        assert_true((header != NULL) == (carries[i] >= 0));
        if (header == NULL)
            continue;
        int fd;
        char byte = 0;
        memcpy(&fd, CMSG_DATA(header), sizeof fd);
        assert_int_equal(write(pipes[carries[i]][1], &(char){(char)('a' + i)}, 1), 1);
        assert_int_equal(read(fd, &byte, 1), 1);
        assert_int_equal(byte, 'a' + i);
        close(fd);
    }
    for (int i = 0; i < 3; i++)
        close(pipes[i][1]);
}

/* Receives a frame of so many bytes, the first of which is this one, and what came with it; returns how many
 * descriptors.
 */
static uint32_t receive_with_fds(size_t size, int first, int fds[GM_FDS_PER_FRAME_MAX])
{
    uint8_t bytes[128];
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(GM_FDS_PER_FRAME_MAX * sizeof(int))];
    } space;
    struct iovec piece = {.iov_base = bytes, .iov_len = size + 6}; /* length, bin 8 header, bytes */
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = space.bytes, .msg_controllen = sizeof space.bytes};
    assert_int_equal(recvmsg(peer, &message, MSG_CMSG_CLOEXEC), (ssize_t)size + 6);
    assert_int_equal(message.msg_flags & MSG_CTRUNC, 0);
    assert_int_equal(bytes[6], first);
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header == NULL)
        return 0;
    const uint32_t count = (uint32_t)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    memcpy(fds, CMSG_DATA(header), count * sizeof(int));
    return count;
}

static void several_descriptors_of_a_frame_arrive_together_and_in_order(void **state)
{
    (void)state;
    int pipes[30][2], fds[GM_FDS_PER_FRAME_MAX];
    const size_t before = open_fds();
    for (int i = 0; i < 30; i++)
        assert_int_equal(pipe2(pipes[i], O_CLOEXEC), 0);
    for (int i = 0; i < 10; i++) { /* more than the connection keeps: the first ones are sent early */
        struct gm_wire_out out;
        const int three[3] = {pipes[3 * i][0], pipes[3 * i + 1][0], pipes[3 * i + 2][0]};
        assert_true(gm_conn_reserve(&conn, 128, &out));
        const size_t start = gm_wire_begin(&out);
        const uint8_t bytes[20] = {(uint8_t)(i + 1)};
        gm_wire_put_bin(&out, bytes, sizeof bytes);
        assert_int_equal(gm_wire_end(&out, start), GM_OK);
        gm_conn_commit_fds(&conn, &out, three, i % 2 == 0 ? 3 : 2);
        if (i % 2 != 0)
            close(three[2]);
        assert_true(reply(10, -1));
    }
    gm_conn_flush_all(&io);
    for (int i = 0; i < 10; i++) {
        const uint32_t count = receive_with_fds(20, i + 1, fds);
        assert_int_equal(count, i % 2 == 0 ? 3 : 2);
        for (uint32_t k = 0; k < count; k++) {
            char byte = 0;
            assert_int_equal(write(pipes[3 * i + (int)k][1], &(char){(char)('a' + k)}, 1), 1);
            assert_int_equal(read(fds[k], &byte, 1), 1);
            assert_int_equal(byte, 'a' + k);
            close(fds[k]);
        }
        assert_int_equal(receive_with_fds(10, 0, fds), 0);
    }
    for (int i = 0; i < 30; i++)
        close(pipes[i][1]);
    assert_int_equal(open_fds(), before);
    const int left[3] = {dup(peer), dup(peer), dup(peer)}; /* and those that are never sent are closed */
    struct gm_wire_out out;
    assert_true(gm_conn_reserve(&conn, 128, &out));
    const size_t start = gm_wire_begin(&out);
    gm_wire_put_nil(&out);
    assert_int_equal(gm_wire_end(&out, start), GM_OK);
    gm_conn_commit_fds(&conn, &out, left, 3);
    gm_conn_close(&conn, "test");
    assert_int_equal(open_fds(), before - 1);
}

static void half_close_still_gets_its_answers(void **state)
{
    (void)state;
    uint8_t frame[32], bytes[64];
    uint64_t random = 1;
    feed(frame, put_frame(frame, 8, &random));
    busy = true;
    shutdown(peer, SHUT_WR);
    turn(), turn();
    assert_false(gone);
    assert_true(reply(10, -1));
    busy = false;
    turn();
    assert_true(gone);
    assert_int_equal(recv(peer, bytes, sizeof bytes, 0), 16);
    assert_int_equal(recv(peer, bytes, sizeof bytes, 0), 0);
}

static void hang_up_ends_it_although_jobs_run(void **state)
{
    (void)state;
    busy = true;
    shutdown(peer, SHUT_WR);
    turn(), turn();
    assert_false(gone);
    close(peer);
    peer = -1;
    turn(), turn();
    assert_true(gone);
}

static void close_inside_a_frame(const uint8_t *body, size_t size)
{
    static uint8_t last;
    gm_conn_close(&conn, "handler");
    /* The frame outlives the connection. Atomic, so that the read cannot be left out. */
    __atomic_store_n(&last, body[size - 1], __ATOMIC_RELAXED);
}

static void handler_may_close_the_connection(void **state)
{
    uint8_t stream[64];
    uint64_t random = 1;
    const size_t one = put_frame(stream, 8, &random), two = one + put_frame(stream + one, 8, &random);
    on_frame = close_inside_a_frame;
    feed(stream, two);
    assert_int_equal(frames, 1);
    assert_int_equal(tear_down(state), 0);
    assert_int_equal(set_up(state), 0);
    on_frame = close_inside_a_frame;
    feed(stream, 7); /* the frame then lies in the connection's own buffer */
    feed(stream + 7, two - 7);
    assert_int_equal(frames, 1);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(frames_survive_every_cut),
        CASE(frame_byte_by_byte_and_largest_frame_arrive_whole),
        CASE(buffer_grows_with_data_and_not_with_the_announced_length),
        CASE(bad_lengths_are_answered_and_end_the_connection),
        CASE(unread_output_is_bounded_then_goodbye_with_a_reason),
        CASE(frames_without_room_wait_until_output_was_sent),
        CASE(one_that_is_held_is_not_read_and_its_end_is_seen),
        CASE(stray_descriptors_are_closed),
        CASE(a_flood_of_descriptors_is_a_protocol_error),
        CASE(descriptors_travel_with_their_own_frame),
        CASE(several_descriptors_of_a_frame_arrive_together_and_in_order),
        CASE(half_close_still_gets_its_answers),
        CASE(hang_up_ends_it_although_jobs_run),
        CASE(handler_may_close_the_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
