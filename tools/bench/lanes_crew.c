/* SPDX-License-Identifier: Apache-2.0
 *
 * Client processes of bench_lanes that start together and end together, see lanes.h. The gate lies in memory that they
 * share with their parent; a child that hangs is ended by its alarm.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lanes.h"

#define CHILD_S  120u /* beyond the time that the cycles have */
#define READY_NS UINT64_C(60000000000)

void *gm_lanes_share(struct gm_lanes *l, size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        (void)gm_lanes_fail(l, "shared memory", strerror(errno));
        return NULL;
    }
    return memory;
}

void gm_crew_pass(struct gm_crew_shared *gate)
{
    __atomic_add_fetch(&gate->ready, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&gate->open, __ATOMIC_ACQUIRE) == 0)
        gm_bench_sleep_ms(1);
}

bool gm_crew_stopped(const struct gm_crew_shared *gate)
{
    return __atomic_load_n(&gate->stop, __ATOMIC_RELAXED) != 0;
}

void gm_crew_open(struct gm_crew *crew)
{
    __atomic_store_n(&crew->shared->open, 1, __ATOMIC_RELEASE);
}

static _Noreturn void child(struct gm_lanes *l, struct gm_crew *crew, uint32_t index, gm_crew_body *body,
                            void *argument)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(CHILD_S + l->cycles_s);
    const bool good = body(l, crew->shared, index, argument);
    if (!good)
        fprintf(stderr, "bench_lanes: client process %u: %s\n", index, l->text);
    fflush(stderr);
    _exit(good ? 0 : 1); /* what is buffered of the figures is the parent's */
}

/* Takes those that ended by themselves; how many of them failed. */
static uint32_t ended(struct gm_crew *crew)
{
    for (uint32_t i = 0; i < crew->count; i++) {
        int status;
        if (crew->pids[i] == 0 || waitpid(crew->pids[i], &status, WNOHANG) != crew->pids[i])
            continue;
        crew->pids[i] = 0;
        crew->failed += status != 0;
    }
    return crew->failed;
}

bool gm_crew_start(struct gm_lanes *l, struct gm_crew *crew, uint32_t count, gm_crew_body *body, void *argument)
{
    const uint64_t end = gm_bench_now_ns() + READY_NS;
    memset(crew, 0, sizeof *crew);
    crew->shared = gm_lanes_share(l, sizeof *crew->shared);
    if (!crew->shared)
        return false;
    fflush(NULL);
    bool good = count <= GM_LANES_CREW_MAX;
    for (; good && crew->count < count; crew->count += good) {
        crew->pids[crew->count] = fork();
        if (crew->pids[crew->count] == 0)
            child(l, crew, crew->count, body, argument);
        good = crew->pids[crew->count] > 0;
    }
    while (good && __atomic_load_n(&crew->shared->ready, __ATOMIC_ACQUIRE) < count) {
        good = ended(crew) == 0 && gm_bench_now_ns() < end;
        gm_bench_sleep_ms(1);
    }
    if (good)
        return true;
    (void)gm_crew_end(l, crew, true);
    return gm_lanes_fail(l, "client processes", "not all of them got ready");
}

bool gm_crew_end(struct gm_lanes *l, struct gm_crew *crew, bool kill_them)
{
    bool good = crew->failed == 0;
    if (!crew->shared)
        return false;
    __atomic_store_n(&crew->shared->stop, 1, __ATOMIC_RELAXED);
    gm_crew_open(crew);
    for (uint32_t i = 0; i < crew->count; i++) {
        int status = 0;
        if (crew->pids[i] == 0)
            continue;
        if (kill_them)
            kill(crew->pids[i], SIGKILL);
        while (waitpid(crew->pids[i], &status, 0) < 0 && errno == EINTR) {
        }
        good = good && (kill_them || status == 0);
    }
    munmap(crew->shared, sizeof *crew->shared);
    crew->shared = NULL;
    crew->count = 0;
    return good || gm_lanes_fail(l, "client processes", "one of them failed");
}
