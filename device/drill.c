/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults on request, for tests of recovery. Compiled only with GM_DRILLS=ON, and never in what is installed. The
 * environment variable GRIDMILL_DRILL of the device process (gridmilld hands its own on) names one of
 *
 *   exit-in-pause             the process exits between a stop of the device and its next start
 *   kill-after-jobs=N         SIGKILL when N jobs are complete
 *   stall-dispatcher-after=N  the dispatcher loops for ever when N jobs have been started
 *   abort-in-job=N            a worker writes to address 8 in the first job at position N or later of any lane
 *   trap-in-job=N             a worker executes a trap there
 *   slow-park=N               the dispatcher of the CPU takes N microseconds between its last look and its sleep
 *   hold-copies=N             the copy engine of the CPU stops for ever when it has copied N pieces
 *
 * and may go on with ",once=PATH": only the process that can create the file PATH has the drill, so that the one that
 * is started after it serves in peace. Jobs of the self-test are not counted.
 */
#include "drill.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "say.h"
#include "selftest.h"

#define GM_DRILL_EXIT    3
#define GM_DRILL_NOWHERE 8u /* on the page that nothing is ever mapped to */

struct gm_drill gm_drill;

/* A variable, since compilers refuse a store to an address that they know to be no object's. */
static uint32_t *nowhere;

static const struct {
    const char *name;
    enum gm_drill_kind kind;
    uint32_t more; /* what the counters hold before anybody's first job */
} drills[] = {
    {"exit-in-pause", GM_DRILL_EXIT_IN_PAUSE, 0},
    {"kill-after-jobs=", GM_DRILL_KILL_AFTER_JOBS, GM_SELFTEST_JOBS},
    {"stall-dispatcher-after=", GM_DRILL_STALL_DISPATCHER_AFTER, GM_SELFTEST_JOBS},
    {"abort-in-job=", GM_DRILL_ABORT_IN_JOB, 0},
    {"trap-in-job=", GM_DRILL_TRAP_IN_JOB, 0},
    {"slow-park=", GM_DRILL_SLOW_PARK, 0},
    {"hold-copies=", GM_DRILL_HOLD_COPIES, 0},
};

static bool armed(const char *text)
{
    const char *once = strstr(text, ",once=");
    if (!once)
        return true;
    const int fd = open(once + 6, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

void gm_drill_init(void)
{
    const char *text = getenv("GRIDMILL_DRILL");
    nowhere = (uint32_t *)(uintptr_t)GM_DRILL_NOWHERE;
    for (size_t i = 0; text && i < sizeof drills / sizeof drills[0]; i++) {
        const size_t length = strlen(drills[i].name);
        if (strncmp(text, drills[i].name, length) != 0 || !armed(text))
            continue;
        gm_drill.kind = drills[i].kind;
        gm_drill.at = strtoull(text + length, NULL, 10) + drills[i].more;
        gm_say(LOG_WARNING, "drill %s", text);
        return;
    }
}

void gm_drill_pause(void)
{
    if (gm_drill.kind == GM_DRILL_EXIT_IN_PAUSE)
        _exit(GM_DRILL_EXIT);
}

void gm_drill_counts(uint64_t started, uint64_t completed)
{
    if (gm_drill.kind == GM_DRILL_KILL_AFTER_JOBS && completed >= gm_drill.at)
        kill(getpid(), SIGKILL);
    while (gm_drill.kind == GM_DRILL_STALL_DISPATCHER_AFTER && started >= gm_drill.at)
        usleep(1000); /* not a busy loop: it would take the processor from whoever is to notice */
}

void gm_drill_job(uint32_t lane, uint64_t position)
{
    if (lane == GM_SELFTEST_LANE || position < gm_drill.at)
        return;
    if (gm_drill.kind == GM_DRILL_ABORT_IN_JOB) {
        gm_store_relaxed_u32(nowhere, 1);
    } else if (gm_drill.kind == GM_DRILL_TRAP_IN_JOB) {
        __builtin_trap();
    }
}

void gm_drill_park(void)
{
    if (gm_drill.kind == GM_DRILL_SLOW_PARK)
        usleep((useconds_t)gm_drill.at);
}

void gm_drill_copy(void)
{
    static uint64_t pieces; /* of the one thread that copies */
    while (gm_drill.kind == GM_DRILL_HOLD_COPIES && pieces >= gm_drill.at)
        pause();
    pieces++;
}
