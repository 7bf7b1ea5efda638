/* SPDX-License-Identifier: Apache-2.0
 *
 * fallocate of the daemon under test: large calls wait while a file named make or punch lies in GATED_FOLDER, and say
 * with held.make or held.punch that they do; while a file named fail is there they fail with the number in it. Any
 * thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include "limits.h"

int __real_fallocate(int fd, int mode, off_t offset, off_t length);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t length);

static const char *path_of(char path[256], const char *what, const char *name)
{
    const char *folder = getenv("GATED_FOLDER");
    snprintf(path, 256, "%s/%s%s", folder != NULL ? folder : ".", what, name);
    return path;
}

static int failure(void)
{
    char path[256];
    int number = 0;
    FILE *file = fopen(path_of(path, "", "fail"), "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%d", &number) != 1)
        number = 0;
    fclose(file);
    return number;
}

int __wrap_fallocate(int fd, int mode, off_t offset, off_t length)
{
    const char *name = (mode & FALLOC_FL_PUNCH_HOLE) != 0 ? "punch" : "make";
    char path[256];
    if ((uint64_t)length <= GM_STAGING_BYTES)
        return __real_fallocate(fd, mode, offset, length);
    if (access(path_of(path, "", name), F_OK) == 0) {
        close(open(path_of(path, "held.", name), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        while (access(path_of(path, "", name), F_OK) == 0)
            usleep(1000);
    }
    const int number = (mode & FALLOC_FL_PUNCH_HOLE) != 0 ? 0 : failure();
    if (number != 0) {
        errno = number;
        return -1;
    }
    return __real_fallocate(fd, mode, offset, length);
}
