/* SPDX-License-Identifier: Apache-2.0
 *
 * Lock file and listening sockets: second owner, stale path, foreign path, modes, unlinking. Forks for the second
 * owner.
 */
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "errors.h"
#include "socket.h"

static char folder[64], path[GM_SOCKET_PATH_MAX + 64], error[GM_SOCKET_ERROR];

static int set_up(void **state)
{
    (void)state;
    memcpy(folder, "/tmp/gridmill-test-XXXXXX", sizeof "/tmp/gridmill-test-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/sub/s", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

static void lock_is_for_one_process(void **state)
{
    (void)state;
    const int lock = gm_socket_lock(path, error);
    assert_true(lock >= 0);
    const pid_t child = fork();
    if (child == 0) {
        char pid[32];
        snprintf(pid, sizeof pid, "pid %ld", (long)getppid());
        _exit(gm_socket_lock(path, error) == GM_EBUSY && strstr(error, pid) != NULL ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(lock);
    const int again = gm_socket_lock(path, error);
    assert_true(again >= 0);
    close(again);
}

static void lock_of_a_dead_process_is_free(void **state)
{
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        gm_socket_lock(path, error);
        raise(SIGKILL);
    }
    int status;
    waitpid(child, &status, 0);
    const int lock = gm_socket_lock(path, error);
    assert_true(lock >= 0);
    close(lock);
}

static void modes_do_not_depend_on_the_umask(void **state)
{
    (void)state;
    static const mode_t masks[] = {0, 022, 077, 0777}, modes[] = {0660, 0600};
    const int lock = gm_socket_lock(path, error);
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 2; j++) {
            struct gm_socket s;
            struct stat there;
            const mode_t before = umask(masks[i]);
            const int status = gm_socket_listen(&s, path, modes[j], error);
            assert_int_equal(umask(before), masks[i]);
            assert_int_equal(status, GM_OK);
            assert_int_equal(lstat(path, &there), 0);
            assert_true(S_ISSOCK(there.st_mode));
            assert_int_equal(there.st_mode & 0777, modes[j]);
            gm_socket_close(&s);
            assert_int_equal(lstat(path, &there), -1);
        }
    close(lock);
}

static void stale_socket_is_replaced_and_only_our_own_is_removed(void **state)
{
    (void)state;
    struct gm_socket old, new;
    struct stat there;
    const int lock = gm_socket_lock(path, error);
    assert_int_equal(gm_socket_listen(&old, path, 0660, error), GM_OK);
    struct gm_socket dying = old;
    dying.fd = dup(old.fd);
    close(old.fd), close(dying.fd);
    dying.fd = open("/dev/null", O_RDONLY); /* the socket is dead, its path is there */
    assert_int_equal(gm_socket_listen(&new, path, 0660, error), GM_OK);
    dying.inode = new.inode + 1; /* file systems reuse numbers at once: make sure that they differ */
    gm_socket_close(&dying);
    assert_int_equal(lstat(path, &there), 0);
    assert_int_equal(there.st_ino, new.inode);
    gm_socket_close(&new);
    assert_int_equal(lstat(path, &there), -1);
    close(lock);
}

static void foreign_paths_are_left_alone(void **state)
{
    (void)state;
    struct gm_socket s;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int lock = gm_socket_lock(path, error);
    const int file = open(path, O_CREAT | O_WRONLY, 0600);
    close(file);
    assert_int_equal(gm_socket_check(path, error), GM_ESYSTEM);
    assert_non_null(strstr(error, path));
    assert_int_equal(gm_socket_listen(&s, path, 0660, error), GM_ESYSTEM);
    assert_non_null(strstr(error, path));
    assert_int_equal(unlink(path), 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%.100s", path);
    const int other = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(other, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(gm_socket_check(path, error), GM_OK); /* stale, and it stays until the new one is made */
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(listen(other, 1), 0);
    assert_int_equal(gm_socket_check(path, error), GM_EBUSY);
    assert_int_equal(gm_socket_listen(&s, path, 0660, error), GM_EBUSY);
    assert_non_null(strstr(error, "another program"));
    assert_int_equal(access(path, F_OK), 0);
    close(other);
    close(lock);
}

static void path_of_107_bytes_is_exact_and_108_is_refused(void **state)
{
    (void)state;
    struct gm_socket s;
    char longer[160];
    for (size_t length = 107; length <= 108; length++) {
        const int at = snprintf(longer, sizeof longer, "%s/", folder);
        memset(longer + at, 'x', sizeof longer - (size_t)at);
        longer[length] = 0;
        const int status = gm_socket_listen(&s, longer, 0660, error);
        assert_int_equal(status, length == 107 ? GM_OK : GM_EINVAL);
        if (status == GM_OK) {
            assert_int_equal(access(longer, F_OK), 0);
            gm_socket_close(&s);
        } else {
            assert_non_null(strstr(error, "107"));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lock_is_for_one_process, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lock_of_a_dead_process_is_free, set_up, tear_down),
        cmocka_unit_test_setup_teardown(modes_do_not_depend_on_the_umask, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stale_socket_is_replaced_and_only_our_own_is_removed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(foreign_paths_are_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(path_of_107_bytes_is_exact_and_108_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
