/* SPDX-License-Identifier: Apache-2.0
 *
 * Listening Unix sockets made by hand: lock file, stale paths, modes. Main thread, at start and exit. The lock file
 * decides about a second daemon, not an answer on the socket: a stopped daemon answers nothing and still owns it.
 */
#include "socket.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "errors.h"

#define GM_SOCKET_BACKLOG ((int)GM_SESSIONS_MAX)
/* A child needs milliseconds from its fork to its exec; on a machine that is short of processors, more. */
#define GM_LOCK_TRIES 60u
#define GM_LOCK_TRY_US 50000u

static int gm_socket_parent(const char *path, char *error)
{
    char folder[GM_SOCKET_PATH_MAX + 1];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash == NULL || slash == folder)
        return GM_OK;
    *slash = 0;
    /* A service's folder is for its clients; a user's own is his own. */
    if (mkdir(folder, geteuid() == 0 ? 0755 : 0700) != 0 && errno != EEXIST) {
        snprintf(error, GM_SOCKET_ERROR, "cannot make the folder %s: %s", folder, strerror(errno));
        return GM_ESYSTEM;
    }
    return GM_OK;
}

static int gm_socket_held(int fd, const char *path, char *error)
{
    char pid[16] = "?";
    const ssize_t got = pread(fd, pid, sizeof pid - 1, 0);
    if (got > 0)
        pid[got] = 0, pid[strcspn(pid, "\n")] = 0;
    snprintf(error, GM_SOCKET_ERROR, "another gridmilld (pid %s) is running on %s", pid, path);
    return GM_EBUSY;
}

/* Whether the process that holds the lock is dead: then a child of it does, between its fork and its exec, where the
 * descriptor is closed. */
static bool gm_socket_orphaned(int fd)
{
    char pid[16] = "";
    const ssize_t got = pread(fd, pid, sizeof pid - 1, 0);
    const long owner = got > 0 ? strtol(pid, NULL, 10) : 0;
    return owner > 0 && kill((pid_t)owner, 0) != 0 && errno == ESRCH;
}

int gm_socket_lock(const char *path, char error[GM_SOCKET_ERROR])
{
    char lock[GM_SOCKET_PATH_MAX + sizeof GM_LOCK_SUFFIX], pid[16];
    struct stat mine, there;
    uint32_t tries = 0;
    int status = gm_socket_parent(path, error);
    if (status != GM_OK)
        return status;
    snprintf(lock, sizeof lock, "%s" GM_LOCK_SUFFIX, path);
    for (;;) {
        const int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0) {
            snprintf(error, GM_SOCKET_ERROR, "cannot open the lock file %s: %s", lock, strerror(errno));
            return GM_ESYSTEM;
        }
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            if (errno == EWOULDBLOCK && gm_socket_orphaned(fd) && tries++ < GM_LOCK_TRIES) {
                close(fd);
                usleep(GM_LOCK_TRY_US);
                continue;
            }
            status = errno == EWOULDBLOCK ? gm_socket_held(fd, path, error) : GM_ESYSTEM;
            if (status == GM_ESYSTEM)
                snprintf(error, GM_SOCKET_ERROR, "cannot lock %s: %s", lock, strerror(errno));
            close(fd);
            return status;
        }
        /* Somebody may have removed the file between open and flock: then this is a lock that nobody else sees. */
        if (fstat(fd, &mine) == 0 && stat(lock, &there) == 0 && mine.st_ino == there.st_ino &&
            mine.st_dev == there.st_dev) {
            const int length = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
            if (ftruncate(fd, 0) == 0 && pwrite(fd, pid, (size_t)length, 0) == length)
                return fd;
            snprintf(error, GM_SOCKET_ERROR, "cannot write %s: %s", lock, strerror(errno));
            close(fd);
            return GM_ESYSTEM;
        }
        close(fd);
    }
}

/* The path is free, or a dead daemon left its socket there (stale); everything else that may be there is refused. */
static int gm_socket_look(const struct sockaddr_un *address, bool *stale, char *error)
{
    struct stat there;
    const char *path = address->sun_path;
    *stale = false;
    if (lstat(path, &there) != 0) {
        if (errno == ENOENT)
            return GM_OK;
        snprintf(error, GM_SOCKET_ERROR, "cannot look at %s: %s", path, strerror(errno));
        return GM_ESYSTEM;
    }
    if (!S_ISSOCK(there.st_mode)) {
        snprintf(error, GM_SOCKET_ERROR, "%s exists and is no socket", path);
        return GM_ESYSTEM;
    }
    const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const bool answered =
        probe >= 0 && (connect(probe, (const struct sockaddr *)address, sizeof *address) == 0 || errno == EAGAIN);
    if (probe >= 0)
        close(probe);
    if (answered) {
        snprintf(error, GM_SOCKET_ERROR, "%s belongs to another program that is listening", path);
        return GM_EBUSY;
    }
    *stale = true;
    return GM_OK;
}

static int gm_socket_clear(const struct sockaddr_un *address, char *error)
{
    bool stale;
    const int status = gm_socket_look(address, &stale, error);
    if (status != GM_OK || !stale || unlink(address->sun_path) == 0 || errno == ENOENT)
        return status;
    snprintf(error, GM_SOCKET_ERROR, "cannot remove the stale socket %s: %s", address->sun_path, strerror(errno));
    return GM_ESYSTEM;
}

static int gm_socket_address(struct sockaddr_un *address, const char *path, char *error)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    static_assert(sizeof address->sun_path == GM_SOCKET_PATH_MAX + 1, "the path bound is the kernel's");
    if (strlen(path) > GM_SOCKET_PATH_MAX) {
        snprintf(error, GM_SOCKET_ERROR, "the socket path has %zu bytes; at most %u are possible", strlen(path),
                 GM_SOCKET_PATH_MAX);
        return GM_EINVAL;
    }
    memcpy(address->sun_path, path, strlen(path) + 1u);
    return GM_OK;
}

int gm_socket_check(const char *path, char error[GM_SOCKET_ERROR])
{
    struct sockaddr_un address;
    bool stale;
    const int status = gm_socket_address(&address, path, error);
    return status == GM_OK ? gm_socket_look(&address, &stale, error) : status;
}

int gm_socket_listen(struct gm_socket *s, const char *path, mode_t mode, char error[GM_SOCKET_ERROR])
{
    struct sockaddr_un address;
    struct stat there;
    s->fd = -1;
    int status = gm_socket_address(&address, path, error);
    if (status == GM_OK)
        status = gm_socket_clear(&address, error);
    if (status != GM_OK)
        return status;
    memcpy(s->path, path, strlen(path) + 1u);
    s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->fd < 0) {
        snprintf(error, GM_SOCKET_ERROR, "cannot make a socket: %s", strerror(errno));
        return GM_ESYSTEM;
    }
    /* The mode is right from the first moment; a chmod afterwards would leave a gap, and follow a link. */
    const mode_t before = umask(0777 & ~mode);
    const int bound = bind(s->fd, (const struct sockaddr *)&address, sizeof address);
    const int reason = errno;
    umask(before);
    if (bound != 0) {
        snprintf(error, GM_SOCKET_ERROR, "cannot bind %s: %s", path, strerror(reason));
        close(s->fd);
        s->fd = -1;
        return GM_ESYSTEM;
    }
    if (lstat(path, &there) == 0)
        s->device = there.st_dev, s->inode = there.st_ino;
    if (listen(s->fd, GM_SOCKET_BACKLOG) != 0) {
        snprintf(error, GM_SOCKET_ERROR, "cannot listen on %s: %s", path, strerror(errno));
        gm_socket_close(s);
        return GM_ESYSTEM;
    }
    return GM_OK;
}

void gm_socket_close(struct gm_socket *s)
{
    struct stat there;
    if (s->fd < 0)
        return;
    if (lstat(s->path, &there) == 0 && there.st_dev == s->device && there.st_ino == s->inode)
        unlink(s->path);
    close(s->fd);
    s->fd = -1;
}
