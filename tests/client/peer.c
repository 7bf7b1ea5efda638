/* SPDX-License-Identifier: Apache-2.0
 *
 * The scripted daemon: one thread, one connection at a time, blocking I/O. Bounded by the test's time limit.
 */
#include "peer.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct gm_request nop(void)
{
    return gm_request("nop", GM_NO_ELEMENT, 0);
}

uint64_t in_ms(uint64_t ms)
{
    return gm_deadline_in(ms * 1000000u);
}

static void *run(void *argument)
{
    struct peer *const peer = argument;
    struct pollfd fds[2] = {{.fd = peer->listener, .events = POLLIN}, {.fd = peer->stop_fd[0], .events = POLLIN}};

    while (poll(fds, 2, -1) > 0 && fds[1].revents == 0) {
        const int fd = accept4(peer->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            break;
        peer->connections++;
        peer->out.size = 0;
        peer->serve(peer, fd);
        close(fd);
    }
    return NULL;
}

void peer_start(struct peer *peer, void (*serve)(struct peer *peer, int fd), void *user)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    sigset_t all, old;

    memset(peer, 0, sizeof *peer);
    peer->serve = serve;
    peer->user = user;
    snprintf(peer->folder, sizeof peer->folder, "/tmp/gm-peer-XXXXXX");
    assert_non_null(mkdtemp(peer->folder));
    snprintf(peer->path, sizeof peer->path, "%s/s", peer->folder);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", peer->path);
    peer->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(0, bind(peer->listener, (struct sockaddr *)&address, sizeof address));
    assert_int_equal(0, listen(peer->listener, 16));
    assert_int_equal(0, pipe(peer->stop_fd));
    peer->body = malloc(PEER_BUFFER);
    peer->out_bytes = malloc(2 * PEER_BUFFER);
    assert_non_null(peer->body);
    assert_non_null(peer->out_bytes);
    peer->out = (struct gm_wire_out){.bytes = peer->out_bytes, .capacity = 2 * PEER_BUFFER};
    /* Signals of a test are for the client's thread. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    assert_int_equal(0, pthread_create(&peer->thread, NULL, run, peer));
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void peer_stop(struct peer *peer)
{
    assert_int_equal(1, write(peer->stop_fd[1], "", 1));
    pthread_join(peer->thread, NULL);
    close(peer->stop_fd[0]);
    close(peer->stop_fd[1]);
    close(peer->listener);
    unlink(peer->path);
    rmdir(peer->folder);
    free(peer->body);
    free(peer->out_bytes);
}

static bool read_whole(int fd, uint8_t *to, size_t size)
{
    for (size_t at = 0; at < size;) {
        const ssize_t n = recv(fd, to + at, size - at, 0);
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

bool peer_next(struct peer *peer, int fd, struct gm_wire_request *request)
{
    struct gm_problem problem;
    uint8_t head[4];
    bool has_id;

    if (!read_whole(fd, head, sizeof head))
        return false;
    const size_t size = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
    if (size > PEER_BUFFER || !read_whole(fd, peer->body, size))
        return false;
    if (gm_wire_decode_request(peer->body, size, request, &has_id, &problem) == GM_OK)
        return true;
    fprintf(stderr, "the client sent a bad request: %s: %s\n", problem.field, problem.text);
    abort();
}

void peer_flush(struct peer *peer, int fd)
{
    peer_flush_fds(peer, fd, NULL, 0);
}

void peer_flush_fds(struct peer *peer, int fd, const int *fds, size_t count)
{
    char control[CMSG_SPACE(64 * sizeof(int))] = {0};
    size_t at = 0;

    while (at < peer->out.size) {
        struct iovec io = {peer->out.bytes + at, peer->out.size - at};
        struct msghdr message = {.msg_iov = &io, .msg_iovlen = 1};
        if (count > 0 && at == 0) {
            message.msg_control = control;
            message.msg_controllen = CMSG_SPACE(count * sizeof(int));
            struct cmsghdr *const c = CMSG_FIRSTHDR(&message);
            c->cmsg_level = SOL_SOCKET;
            c->cmsg_type = SCM_RIGHTS;
            c->cmsg_len = CMSG_LEN(count * sizeof(int));
            memcpy(CMSG_DATA(c), fds, count * sizeof(int));
        }
        const ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    peer->out.size = 0;
}

void peer_put_result(struct peer *peer, uint32_t id, const char *key, uint64_t value)
{
    const size_t start = gm_wire_begin_result(&peer->out, id);

    gm_wire_put_map(&peer->out, key == NULL ? 0 : 1);
    if (key != NULL) {
        gm_wire_put_str(&peer->out, key);
        gm_wire_put_u64(&peer->out, value);
    }
    if (gm_wire_end(&peer->out, start) != GM_OK)
        abort();
}

void peer_put_done(struct peer *peer, uint32_t id, uint64_t result)
{
    const struct gm_wire_done done = {.result_dtype = GM_DTYPE_u64, .result = result, .wait_ns = 1, .run_ns = 2};

    if (gm_wire_encode_done(&peer->out, id, &done) != GM_OK)
        abort();
}

void peer_put_error(struct peer *peer, uint32_t id, bool has_id, int code, const char *field, const char *text)
{
    struct gm_problem problem;

    gm_problem_set(&problem, code, field, "%s", text);
    if (gm_wire_encode_error(&peer->out, id, has_id, &problem) != GM_OK)
        abort();
}

void peer_hello(struct peer *peer, int fd)
{
    struct gm_wire_request request;

    if (!peer_next(peer, fd, &request) || request.method != GM_METHOD_HELLO)
        abort();
    peer_put_result(peer, request.id, "version", 1);
    peer_flush(peer, fd);
}

static void serve_submit(struct peer *peer, const struct gm_wire_request *request)
{
    struct gm_wire_done done = {.result_dtype = GM_DTYPE_COUNT};

    if (request->u.submit.op == GM_OP_sum) {
        done.result_dtype = GM_DTYPE_u64;
        done.result = request->u.submit.args.n;
    }
    if (request->u.submit.op == GM_OP_copy) {
        done.outputs = 1;
        done.out[0] = (struct gm_wire_output){request->u.submit.buffer[0].bytes, request->u.submit.buffer[0].size};
    }
    if (gm_wire_encode_done(&peer->out, request->id, &done) != GM_OK)
        abort();
}

void peer_serve_all(struct peer *peer, int fd)
{
    struct gm_wire_request request;

    while (peer_next(peer, fd, &request)) {
        if (request.method == GM_METHOD_SUBMIT)
            serve_submit(peer, &request);
        else
            peer_put_result(peer, request.id, request.method == GM_METHOD_HELLO ? "version" : NULL, 1);
        peer_flush(peer, fd);
    }
}

struct gm_client *peer_open(struct peer *peer)
{
    const struct gm_options options = {.socket = peer->path, .deadline_ns = in_ms(10000)};
    struct gm_client *client = NULL;
    struct gm_failure failure;

    if (gm_open(&options, &client, &failure) != GM_OK)
        fail_msg("gm_open: %s", failure.text);
    return client;
}
