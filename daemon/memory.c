/* SPDX-License-Identifier: Apache-2.0
 *
 * Default budget of all shared arenas: half of what the cgroup, or else the machine, has free. Runs once at start.
 * A budget above the cgroup's limit would let fallocate get the daemon killed instead of failing.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool gm_read_u64(const char *path, uint64_t *value)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    const bool read = fscanf(file, "%" SCNu64, value) == 1; /* "max" is no number: no limit */
    fclose(file);
    return read;
}

static uint64_t gm_machine_free(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    char line[128];
    uint64_t kib = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return kib << 10;
}

/* Free bytes below one limit file, or UINT64_MAX when it sets none. */
static uint64_t gm_limit_free(const char *folder, const char *limit_name, const char *usage_name)
{
    char path[GM_PATH_BYTES];
    uint64_t limit, usage;
    snprintf(path, sizeof path, "%.3000s/%s", folder, limit_name);
    if (!gm_read_u64(path, &limit))
        return UINT64_MAX;
    snprintf(path, sizeof path, "%.3000s/%s", folder, usage_name);
    if (!gm_read_u64(path, &usage))
        usage = 0;
    return limit > usage ? limit - usage : 0;
}

/* The tightest limit from our own group up to the root of the hierarchy. */
static uint64_t gm_cgroup_free(void)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    char line[GM_PATH_BYTES], folder[GM_PATH_BYTES + 64];
    uint64_t least = UINT64_MAX;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = 0;
        char *group = strchr(line, ':');
        char *path = group == NULL ? NULL : strchr(group + 1, ':');
        if (path == NULL)
            continue;
        const bool v2 = strncmp(line, "0::", 3) == 0, v1 = strncmp(group, ":memory:", 8) == 0;
        for (path++; v2 || v1;) {
            snprintf(folder, sizeof folder, "/sys/fs/cgroup%s%s", v1 ? "/memory" : "", path);
            const uint64_t bytes = v2 ? gm_limit_free(folder, "memory.max", "memory.current")
                                      : gm_limit_free(folder, "memory.limit_in_bytes", "memory.usage_in_bytes");
            least = bytes < least ? bytes : least;
            char *slash = strrchr(path, '/');
            if (slash == NULL || path[0] == 0)
                break;
            *slash = 0;
        }
    }
    if (file != NULL)
        fclose(file);
    return least;
}

uint64_t gm_memory_free(void)
{
    const uint64_t machine = gm_machine_free(), group = gm_cgroup_free();
    return group < machine ? group : machine;
}

uint64_t gm_memory_budget(void)
{
    return (gm_memory_free() / 2u) & ~(uint64_t)(GM_ARENA_ALIGN - 1u);
}
