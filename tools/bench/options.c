/* SPDX-License-Identifier: Apache-2.0
 *
 * See options.h. Nothing here changes anything; what is returned is in memory of the caller.
 */
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool gm_bench_number(const char *text, unsigned long low, unsigned long high, unsigned long *value)
{
    char *end;
    errno = 0;
    *value = strtoul(text, &end, 10);
    return errno == 0 && end != text && *end == 0 && *value >= low && *value <= high;
}

const char *gm_bench_beside(const char *name, char path[PATH_MAX])
{
    const ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 64);
    if (n <= 0)
        return name;
    path[n] = 0;
    char *at = strrchr(path, '/') + 1;
    snprintf(at, (size_t)(path + PATH_MAX - at), "%s", name);
    return path;
}

const char *gm_bench_on_path(const char *name, char path[PATH_MAX])
{
    const char *at = getenv("PATH");
    while (at && *at) {
        const size_t size = strcspn(at, ":");
        snprintf(path, PATH_MAX, "%.*s/%s", (int)size, at, name);
        if (size != 0 && access(path, X_OK) == 0)
            return path;
        at += size + (at[size] == ':');
    }
    return NULL;
}
