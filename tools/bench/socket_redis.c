/* SPDX-License-Identifier: Apache-2.0
 *
 * The peer at the socket, see socket.h: PING to a Redis server of our own on a Unix socket, by a client that does
 * nothing but write requests and count reply bytes.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "socket.h"

#define PING       "*1\r\n$4\r\nPING\r\n"
#define PONG       "+PONG\r\n"
#define PING_BYTES (sizeof PING - 1u)
#define PONG_BYTES (sizeof PONG - 1u)
#define DEPTH      64u
#define START_NS   UINT64_C(10000000000)

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct timeval limit = {.tv_sec = 20};
    if (strlen(path) >= sizeof address.sun_path)
        return -1;
    memcpy(address.sun_path, path, strlen(path) + 1u);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Sends count PINGs in one write and reads their replies. */
static bool ping(int fd, const char *requests, uint32_t count)
{
    char reply[DEPTH * PONG_BYTES];
    const size_t want = count * PONG_BYTES, size = count * PING_BYTES;
    for (size_t sent = 0; sent < size;) {
        const ssize_t n = send(fd, requests + sent, size - sent, MSG_NOSIGNAL);
        if (n <= 0 && errno != EINTR)
            return false;
        sent += n > 0 ? (size_t)n : 0;
    }
    for (size_t got = 0; got < want;) {
        const ssize_t n = recv(fd, reply + got, want - got, 0);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        got += n > 0 ? (size_t)n : 0;
    }
    for (uint32_t i = 0; i < count; i++)
        if (memcmp(reply + i * PONG_BYTES, PONG, PONG_BYTES) != 0)
            return false;
    return true;
}

static void fill_requests(char *requests)
{
    for (uint32_t i = 0; i < DEPTH; i++)
        memcpy(requests + i * PING_BYTES, PING, PING_BYTES);
}

static uint64_t pipelined(struct gm_socket_bench *bench, const char *socket, uint32_t window, struct gm_gate *gate)
{
    char requests[DEPTH * PING_BYTES];
    const int fd = connect_to(socket);
    uint64_t answered = 0;
    bool good = fd >= 0 && window <= DEPTH;
    fill_requests(requests);
    gm_gate_pass(gate);
    const uint64_t end = gm_bench_now_ns() + bench->budget_ns;
    while (good && gm_bench_now_ns() < end) {
        good = ping(fd, requests, window);
        answered += good ? window : 0;
    }
    if (fd >= 0)
        close(fd);
    if (!good)
        snprintf(bench->text, sizeof bench->text, "Redis: no PONG");
    return good ? answered : 0;
}

static bool round_trips(struct gm_socket_bench *bench, const char *socket)
{
    const size_t warm_up = bench->count / 20u + 20u;
    const int fd = connect_to(socket);
    bool good = fd >= 0;
    const uint64_t start = gm_bench_now_ns();
    uint64_t end = start;
    const size_t least = warm_up + 100u;
    for (size_t i = 0; good && i < bench->count + warm_up && (i < least || end - start < 4u * bench->budget_ns); i++) {
        const uint64_t begin = gm_bench_now_ns();
        good = ping(fd, PING, 1);
        end = gm_bench_now_ns();
        if (i >= warm_up)
            gm_samples_add(&bench->samples, end - begin);
    }
    if (fd >= 0)
        close(fd);
    if (good)
        gm_figures_latency(bench->figures, "redis_ping", "Redis PING over a Unix socket, round trip of one client",
                           &bench->samples);
    return good;
}

static bool wait_ready(struct gm_server_process *server)
{
    const uint64_t end = gm_bench_now_ns() + START_NS;
    while (gm_process_alive(server) && gm_bench_now_ns() < end) {
        const int fd = connect_to(server->socket);
        const bool ready = fd >= 0 && ping(fd, PING, 1);
        if (fd >= 0)
            close(fd);
        if (ready)
            return true;
        gm_bench_sleep_ms(10);
    }
    return false;
}

static bool measure(struct gm_socket_bench *bench, const char *socket)
{
    static const uint32_t clients[] = {1, 4};
    if (!round_trips(bench, socket))
        return false;
    for (uint32_t c = 0; c < 2; c++) {
        char name[48], what[96];
        const double rate = gm_bench_processes(bench, pipelined, socket, clients[c], DEPTH);
        if (rate == 0)
            return false;
        snprintf(name, sizeof name, "redis_rate_%ux%u", clients[c], DEPTH);
        snprintf(what, sizeof what, "Redis PING of %u client%s, %u in flight each", clients[c],
                 clients[c] == 1 ? "" : "s", DEPTH);
        gm_figures_value(bench->figures, name, what, "requests/s", rate);
    }
    return true;
}

bool gm_bench_redis(struct gm_socket_bench *bench)
{
    struct gm_server_process server;
    if (!bench->redis) {
        gm_figures_skipped(bench->figures, "redis_ping", "redis-server not found: no comparison");
        return true;
    }
    if (!gm_process_folder(&server)) {
        snprintf(bench->text, sizeof bench->text, "no folder in /tmp");
        return false;
    }
    const char *const argv[] = {bench->redis, "--port", "0", "--unixsocket", server.socket, "--save", "",
                                "--appendonly", "no", "--dir", server.folder, NULL};
    bool good = true;
    if (!gm_process_start(&server, (char *const *)argv) || !wait_ready(&server))
        gm_figures_skipped(bench->figures, "redis_ping", "redis-server did not come up: no comparison");
    else
        good = measure(bench, server.socket);
    if (!good || server.pid == 0)
        gm_process_show_log(&server);
    (void)gm_process_stop(&server, 10000);
    return good;
}
