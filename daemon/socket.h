/* SPDX-License-Identifier: Apache-2.0
 *
 * The listening sockets and the lock that says who owns their path. Used at start and at exit, on the main thread.
 */
#ifndef GM_DAEMON_SOCKET_H
#define GM_DAEMON_SOCKET_H

#include <sys/stat.h>
#include <sys/types.h>

#include "config.h"

#define GM_SOCKET_ERROR 320u

struct gm_socket {
    int fd; /* -1: not open */
    dev_t device;
    ino_t inode; /* of the path: a dying daemon must not remove its successor's */
    char path[GM_SOCKET_PATH_MAX + 1];
};

/* Makes the parent folder when it is missing and locks PATH.lock for the life of the process. The descriptor, or
 * EBUSY when another daemon holds it (its pid is in the text), or ESYSTEM. */
int gm_socket_lock(const char *path, char error[GM_SOCKET_ERROR]);

/* Whether a socket could be made at a path: before anything is started for it, because it takes a while until it is
 * made. Changes nothing. OK, or an error as gm_socket_listen has it. */
int gm_socket_check(const char *path, char error[GM_SOCKET_ERROR]);

/* Listens at a path with exactly this mode. A socket that nobody answers on is replaced: the caller holds the lock. */
int gm_socket_listen(struct gm_socket *s, const char *path, mode_t mode, char error[GM_SOCKET_ERROR]);

/* Closes, and unlinks the path when it is still ours. */
void gm_socket_close(struct gm_socket *s);

#endif
