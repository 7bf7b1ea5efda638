/* SPDX-License-Identifier: Apache-2.0
 *
 * Which socket a client takes that was not told one, on a machine whose /run/gridmill is a folder of the test.
 */
#include "peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define RUN "/run/gridmill"

/* Of the whole program: the linker sends it here. */
int __wrap_access(const char *path, int mode);
int __real_access(const char *path, int mode);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t size);
int __real_connect(int fd, const struct sockaddr *address, socklen_t size);

static char run_folder[24]; /* stands for RUN */
static bool run_closed;     /* it may not be looked into */
static char connected[sizeof((struct sockaddr_un *)0)->sun_path];

static void moved(const char *path, char *there, size_t size)
{
    const bool in_run = strncmp(path, RUN "/", strlen(RUN) + 1) == 0;
    const int length = snprintf(there, size, "%s%s", in_run ? run_folder : "", in_run ? path + strlen(RUN) : path);

    assert_in_range(length, 0, size - 1);
}

static bool is_closed(const char *path)
{
    return run_closed && strncmp(path, RUN "/", strlen(RUN) + 1) == 0;
}

int __wrap_access(const char *path, int mode)
{
    char there[160];

    moved(path, there, sizeof there);
    if (is_closed(path)) {
        errno = EACCES;
        return -1;
    }
    return __real_access(there, mode);
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t size)
{
    struct sockaddr_un there = {.sun_family = AF_UNIX};
    const char *const path = ((const struct sockaddr_un *)(const void *)address)->sun_path;

    (void)size;
    snprintf(connected, sizeof connected, "%s", path);
    moved(path, there.sun_path, sizeof there.sun_path);
    if (is_closed(path)) {
        errno = EACCES;
        return -1;
    }
    return __real_connect(fd, (const struct sockaddr *)&there, sizeof there);
}

/* The folder of a session, with room for a socket, and that of the machine. */
static char session[24], own_folder[40], own[64], machine[64];

static int set_up(void **state)
{
    (void)state;
    snprintf(session, sizeof session, "/tmp/gm-session-XXXXXX");
    snprintf(run_folder, sizeof run_folder, "/tmp/gm-run-XXXXXX");
    assert_non_null(mkdtemp(session));
    assert_non_null(mkdtemp(run_folder));
    snprintf(own_folder, sizeof own_folder, "%s/gridmill", session);
    snprintf(own, sizeof own, "%s/gridmill.sock", own_folder);
    snprintf(machine, sizeof machine, "%s/gridmill.sock", run_folder);
    assert_int_equal(0, mkdir(own_folder, 0700));
    setenv("XDG_RUNTIME_DIR", session, 1);
    unsetenv("GRIDMILL_SOCKET");
    run_closed = false;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(own), unlink(machine);
    rmdir(own_folder), rmdir(session), rmdir(run_folder);
    return 0;
}

static int open_default(struct gm_failure *failure)
{
    const struct gm_options options = {.deadline_ns = in_ms(20000)};
    struct gm_client *client = NULL;
    const int rc = gm_open(&options, &client, failure);

    gm_close(client);
    return rc;
}

static void own_daemon_comes_before_that_of_the_machine(void **state)
{
    struct gm_failure failure;
    struct peer peer;

    (void)state;
    peer_start(&peer, peer_serve_all, NULL);
    assert_int_equal(0, symlink(peer.path, own));
    assert_int_equal(0, symlink(peer.path, machine));
    assert_int_equal(GM_OK, open_default(&failure));
    assert_string_equal(own, connected);
    peer_stop(&peer);
}

static void without_an_own_daemon_that_of_the_machine_is_taken(void **state)
{
    struct gm_failure failure;
    struct peer peer;

    (void)state;
    peer_start(&peer, peer_serve_all, NULL);
    assert_int_equal(0, symlink(peer.path, machine));
    assert_int_equal(GM_OK, open_default(&failure));
    assert_string_equal(RUN "/gridmill.sock", connected);
    /* Not even the folder need be there. */
    assert_int_equal(0, rmdir(own_folder));
    assert_int_equal(GM_OK, open_default(&failure));
    setenv("XDG_RUNTIME_DIR", "", 1);
    assert_int_equal(GM_OK, open_default(&failure));
    peer_stop(&peer);
}

static void own_daemon_that_is_dead_is_not_replaced_by_another(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct gm_failure failure;
    struct peer peer;

    (void)state;
    peer_start(&peer, peer_serve_all, NULL);
    assert_int_equal(0, symlink(peer.path, machine));
    snprintf(address.sun_path, sizeof address.sun_path, "%s", own);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(0, bind(fd, (struct sockaddr *)&address, sizeof address));
    close(fd);
    assert_int_equal(GM_ECONNECT, open_default(&failure));
    assert_non_null(strstr(failure.text, own));
    assert_non_null(strstr(failure.text, "Connection refused"));
    peer_stop(&peer);
}

static void without_any_daemon_the_first_path_is_named(void **state)
{
    struct gm_failure failure;

    (void)state;
    assert_int_equal(GM_ECONNECT, open_default(&failure));
    assert_non_null(strstr(failure.text, own));
    assert_non_null(strstr(failure.text, "No such file"));
}

/* As for a user who is not in the daemon's group. */
static void machine_that_may_not_be_looked_into_is_named(void **state)
{
    struct gm_failure failure;

    (void)state;
    run_closed = true;
    assert_int_equal(GM_ECONNECT, open_default(&failure));
    assert_non_null(strstr(failure.text, RUN "/gridmill.sock: Permission denied"));
}

static void path_that_was_named_has_no_substitute(void **state)
{
    struct gm_failure failure;
    struct peer peer;

    (void)state;
    peer_start(&peer, peer_serve_all, NULL);
    assert_int_equal(0, symlink(peer.path, machine));
    setenv("GRIDMILL_SOCKET", "/nonexistent/named", 1);
    assert_int_equal(GM_ECONNECT, open_default(&failure));
    assert_non_null(strstr(failure.text, "/nonexistent/named"));
    unsetenv("GRIDMILL_SOCKET");
    peer_stop(&peer);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(own_daemon_comes_before_that_of_the_machine),
        CASE(without_an_own_daemon_that_of_the_machine_is_taken),
        CASE(own_daemon_that_is_dead_is_not_replaced_by_another),
        CASE(without_any_daemon_the_first_path_is_named),
        CASE(machine_that_may_not_be_looked_into_is_named),
        CASE(path_that_was_named_has_no_substitute),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
