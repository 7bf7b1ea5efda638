/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding the socket, saying hello, and every way that can fail; fork; what a client leaves behind.
 */
#include "peer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int open_at(const char *path, struct gm_failure *failure)
{
    const struct gm_options options = {.socket = path, .deadline_ns = in_ms(20000)};
    struct gm_client *client = NULL;
    const int rc = gm_open(&options, &client, failure);

    assert_int_equal(rc, failure->status);
    assert_int_equal(rc == GM_OK, client != NULL);
    gm_close(client);
    return rc;
}

/* A path of exactly so many bytes in a folder of its own. */
static void long_path(char *path, const char *folder, size_t bytes)
{
    memset(path, 'p', bytes);
    memcpy(path, folder, strlen(folder));
    path[strlen(folder)] = '/';
    path[bytes] = '\0';
}

static void path_of_107_bytes_is_used_whole_and_longer_is_refused(void **state)
{
    struct gm_failure failure;
    struct peer peer;
    char path[200];

    (void)state;
    peer_start(&peer, peer_serve_all, NULL);
    long_path(path, peer.folder, 107);
    assert_int_equal(0, rename(peer.path, path));
    assert_int_equal(GM_OK, open_at(path, &failure));
    long_path(path, peer.folder, 108);
    assert_int_equal(GM_EINVAL, open_at(path, &failure));
    assert_string_equal("socket", failure.field);
    assert_non_null(strstr(failure.text, "108 bytes; at most 107"));
    long_path(path, peer.folder, 140);
    assert_int_equal(GM_EINVAL, open_at(path, &failure));
    assert_non_null(strstr(failure.text, "140 bytes"));
    assert_int_equal(GM_EINVAL, open_at("", &failure));
    long_path(path, peer.folder, 107);
    unlink(path);
    peer_stop(&peer);
}

static void socket_is_looked_up_in_the_documented_order(void **state)
{
    const struct gm_options options = {.deadline_ns = in_ms(20000)};
    struct gm_client *client = NULL;
    struct gm_failure failure;
    struct peer peer;
    char folder[100], path[140];

    (void)state;
    peer_start(&peer, peer_serve_all, NULL);
    snprintf(folder, sizeof folder, "%s/gridmill", peer.folder);
    snprintf(path, sizeof path, "%s/gridmill.sock", folder);
    assert_int_equal(0, mkdir(folder, 0700));
    assert_int_equal(0, symlink(peer.path, path));

    setenv("XDG_RUNTIME_DIR", peer.folder, 1);
    unsetenv("GRIDMILL_SOCKET");
    assert_int_equal(GM_OK, gm_open(&options, &client, NULL));
    gm_close(client);
    setenv("GRIDMILL_SOCKET", "/nonexistent/from-environment", 1);
    assert_int_equal(GM_ECONNECT, gm_open(&options, &client, &failure));
    assert_non_null(strstr(failure.text, "/nonexistent/from-environment: No such file"));
    assert_int_equal(GM_OK, open_at(peer.path, &failure));
    unsetenv("GRIDMILL_SOCKET");
    unsetenv("XDG_RUNTIME_DIR");
    if (access("/run/gridmill/gridmill.sock", F_OK) != 0) {
        assert_int_equal(GM_ECONNECT, gm_open(&options, &client, &failure));
        assert_non_null(strstr(failure.text, "/run/gridmill/gridmill.sock"));
    }
    unlink(path);
    rmdir(folder);
    peer_stop(&peer);
}

static void nobody_listening_is_said(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct gm_failure failure;
    char folder[] = "/tmp/gm-open-XXXXXX", path[64];

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/s", folder);
    assert_int_equal(GM_ECONNECT, open_at(path, &failure));
    /* A stale socket file, as a killed daemon leaves it. */
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(0, bind(fd, (struct sockaddr *)&address, sizeof address));
    close(fd);
    assert_int_equal(GM_ECONNECT, open_at(path, &failure));
    assert_non_null(strstr(failure.text, "Connection refused"));
    assert_true(gm_retriable(failure.status));
    unlink(path);
    rmdir(folder);
}

static void serve_silence(struct peer *peer, int fd)
{
    char c;

    (void)peer;
    while (recv(fd, &c, 1, 0) > 0)
        continue;
}

static void daemon_that_does_not_answer_times_out(void **state)
{
    const struct gm_options options = {.deadline_ns = 1};
    struct gm_client *client = NULL;
    struct gm_failure failure;
    struct peer peer;

    (void)state;
    peer_start(&peer, serve_silence, NULL);
    const uint64_t start_ns = gm_now_ns();
    const struct gm_options soon = {.socket = peer.path, .deadline_ns = in_ms(50)};
    assert_int_equal(GM_ETIMEDOUT, gm_open(&soon, &client, &failure));
    assert_in_range(gm_now_ns() - start_ns, 45000000u, 20000000000u);
    setenv("GRIDMILL_SOCKET", peer.path, 1);
    assert_int_equal(GM_ETIMEDOUT, gm_open(&options, &client, &failure));
    unsetenv("GRIDMILL_SOCKET");
    peer_stop(&peer);
}

/* Connections fill the backlog of a listener that never accepts; connect itself then waits. */
static void full_backlog_times_out(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct gm_client *client = NULL;
    struct gm_failure failure;
    char folder[] = "/tmp/gm-open-XXXXXX";
    int fds[8];
    size_t count = 0;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(address.sun_path, sizeof address.sun_path, "%s/s", folder);
    const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(0, bind(listener, (struct sockaddr *)&address, sizeof address));
    assert_int_equal(0, listen(listener, 0));
    do {
        fds[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    } while (connect(fds[count++], (struct sockaddr *)&address, sizeof address) == 0 && count < 8);
    assert_int_equal(EAGAIN, errno);
    const struct gm_options options = {.socket = address.sun_path, .deadline_ns = in_ms(50)};
    assert_int_equal(GM_ETIMEDOUT, gm_open(&options, &client, &failure));
    assert_non_null(strstr(failure.text, "did not accept"));
    while (count > 0)
        close(fds[--count]);
    close(listener);
    unlink(address.sun_path);
    rmdir(folder);
}

static void serve_no_version(struct peer *peer, int fd)
{
    struct gm_wire_request request;

    if (!peer_next(peer, fd, &request))
        return;
    if (peer->connections == 1)
        peer_put_error(peer, request.id, true, GM_EVERSION, "version_min", "this daemon speaks 7 to 9");
    else
        peer_put_result(peer, request.id, "version", peer->connections == 2 ? 7u : GM_WIRE_VERSION_MAX + 1u);
    peer_flush(peer, fd);
    serve_silence(peer, fd);
}

static void no_common_version_is_said(void **state)
{
    struct gm_failure failure;
    struct peer peer;

    (void)state;
    peer_start(&peer, serve_no_version, NULL);
    assert_int_equal(GM_EVERSION, open_at(peer.path, &failure));
    assert_string_equal("this daemon speaks 7 to 9", failure.text);
    assert_string_equal("version_min", failure.field);
    assert_int_equal(GM_EVERSION, open_at(peer.path, &failure));
    assert_non_null(strstr(failure.text, "version 7"));
    assert_int_equal(GM_EVERSION, open_at(peer.path, &failure)); /* the next one, which does not exist yet */
    peer_stop(&peer);
}

static void serve_refusal(struct peer *peer, int fd)
{
    peer_put_error(peer, 0, false, GM_EFDS, "", "no descriptors left for another client");
    peer_flush(peer, fd);
}

static void reason_of_a_refused_connection_arrives(void **state)
{
    struct gm_failure failure;
    struct peer peer;

    (void)state;
    peer_start(&peer, serve_refusal, NULL);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(GM_EFDS, open_at(peer.path, &failure));
        assert_string_equal("no descriptors left for another client", failure.text);
    }
    peer_stop(&peer);
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

static void closed_and_failed_clients_leave_no_descriptor(void **state)
{
    struct gm_failure failure;
    struct peer peer;

    (void)state;
    peer_start(&peer, peer_serve_all, NULL);
    const size_t before = open_descriptors();
    for (int i = 0; i < 20; i++) {
        gm_close(peer_open(&peer));
        assert_int_equal(GM_ECONNECT, open_at("/nonexistent/s", &failure));
    }
    /* The last connection's other end closes on the peer's thread. */
    struct gm_client *const client = peer_open(&peer);
    assert_true(open_descriptors() <= before + 3);
    assert_true(fcntl(gm_fd(client), F_GETFD) & FD_CLOEXEC);
    gm_close(client);
    gm_close(NULL);
    peer_stop(&peer);
}

static void child_of_fork_is_refused_and_cannot_disturb(void **state)
{
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    struct gm_client *client;
    struct gm_failure failure;
    struct gm_job job = {0};
    struct peer peer;
    int status;

    (void)state;
    peer_start(&peer, peer_serve_all, NULL);
    client = peer_open(&peer);
    const pid_t child = fork();
    if (child == 0) {
        int wrong = gm_ping(client, in_ms(1000)) != GM_EFORKED || gm_submit(client, &nop, &job) != GM_EFORKED ||
                    gm_wait(client, &job, 0) != GM_EFORKED || gm_poll(client) != GM_EFORKED ||
                    gm_fd(client) != GM_EFORKED || gm_events(client) != GM_EFORKED || gm_next(client) != NULL ||
                    gm_cancel(client, &job) != GM_EFORKED || gm_run(client, &nop, 0, NULL) != GM_EFORKED;
        gm_last_failure(client, &failure);
        wrong |= failure.status != GM_EFORKED;
        gm_close(client);
        _exit(wrong);
    }
    assert_int_equal(child, waitpid(child, &status, 0));
    assert_true(WIFEXITED(status));
    assert_int_equal(0, WEXITSTATUS(status));
    assert_int_equal(GM_OK, gm_ping(client, in_ms(5000)));
    assert_int_equal(GM_OK, gm_run(client, &nop, in_ms(5000), NULL));
    gm_close(client);
    peer_stop(&peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(path_of_107_bytes_is_used_whole_and_longer_is_refused),
        cmocka_unit_test(socket_is_looked_up_in_the_documented_order),
        cmocka_unit_test(nobody_listening_is_said),
        cmocka_unit_test(daemon_that_does_not_answer_times_out),
        cmocka_unit_test(full_backlog_times_out),
        cmocka_unit_test(no_common_version_is_said),
        cmocka_unit_test(reason_of_a_refused_connection_arrives),
        cmocka_unit_test(closed_and_failed_clients_leave_no_descriptor),
        cmocka_unit_test(child_of_fork_is_refused_and_cannot_disturb),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
