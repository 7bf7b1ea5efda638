/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory that all processes of a run share: the step log, the first failure, and what the faults so far explain.
 * Any process, any thread; lines and failures have a bound.
 */
#include "chaos.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct world *world_new(void)
{
    void *const memory =
        mmap(NULL, sizeof(struct world), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED) {
        fprintf(stderr, "no memory for a run\n");
        exit(1);
    }
    struct world *const world = memory;
    world->start_ms = now_ms();
    return world;
}

static void append(struct world *world, const char *text, size_t size)
{
    const uint32_t at = atomic_fetch_add(&world->log_bytes, (uint32_t)size);

    if (at + size <= sizeof world->log)
        memcpy(world->log + at, text, size);
}

void note(struct world *world, const char *format, ...)
{
    char line[400];
    va_list arguments;

    int n = snprintf(line, sizeof line, "%6" PRIu64 " ms  ", now_ms() - world->start_ms);
    va_start(arguments, format);
    n += vsnprintf(line + n, sizeof line - (size_t)n - 1, format, arguments);
    va_end(arguments);
    if ((size_t)n > sizeof line - 2)
        n = sizeof line - 2;
    line[n++] = '\n';
    append(world, line, (size_t)n);
}

void complain(struct world *world, const char *format, ...)
{
    va_list arguments;

    if (atomic_fetch_add(&world->failed, 1) == 0) {
        va_start(arguments, format);
        vsnprintf(world->failure, sizeof world->failure, format, arguments);
        va_end(arguments);
        note(world, "FAILED: %s", world->failure);
        while (world->plan.keep)
            pause();
    }
    _exit(1);
}

static bool lost(const struct world *world, const struct record *record, uint32_t device)
{
    if (record->device != 0 && record->device != device + 1u)
        return false;
    return world->losses[device] > record->repaired[device] || world->doomed[device] == record->life;
}

bool explained(struct world *world, const struct record *record, int status)
{
    const bool ends = world->ending >= record->life || world->draining == record->life;

    switch (status) {
    case GM_ECANCELLED: /* what is written to a lane while it is being closed may run, and is stopped then */
        return (record->flags & RECORD_CANCELLED) != 0 || ends;
    case GM_EDEVICELOST:
        return lost(world, record, 0) || lost(world, record, 1);
    case GM_ETIMEDOUT: /* of a request that the daemon gave to a device process which is too slow for it */
        return record->state == RECORD_FREE;
    case GM_ECLOSED:
    case GM_EDRAINING: /* lanes are closed while the daemon drains */
        return ends;
    default:
        return false;
    }
}

/* ---- For whoever reports ---- */

static void show_log_of(const struct world *world)
{
    char path[300], line[400];
    static char lines[60][400];
    uint64_t count = 0;

    snprintf(path, sizeof path, "%.190s", world->socket);
    char *const end = strrchr(path, '/');
    if (end == NULL)
        return;
    memcpy(end, "/log", 5);
    FILE *const log = fopen(path, "r");
    while (log != NULL && fgets(line, sizeof line, log) != NULL)
        memcpy(lines[count++ % 60], line, sizeof line);
    if (log != NULL)
        fclose(log);
    printf("  the end of %s:\n", path);
    for (uint64_t i = count > 60 ? count - 60 : 0; i < count; i++)
        printf("    | %s", lines[i % 60]);
}

void world_show(const struct world *world, bool all)
{
    const uint32_t bytes = world->log_bytes < sizeof world->log ? world->log_bytes : sizeof world->log;

    printf("%.*s", (int)bytes, world->log);
    if (all)
        show_log_of(world);
}

/* What a runner left when it died: it was their reaper, now we are. */
void world_end_orphans(void)
{
    char path[64], line[64];
    int pid;

    snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    for (uint32_t i = 0; i < 1000; i++) {
        FILE *const file = fopen(path, "r");
        const bool any = file != NULL && fgets(line, sizeof line, file) != NULL && sscanf(line, "%d", &pid) == 1;
        if (file != NULL)
            fclose(file);
        if (!any)
            return;
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
}
