/* SPDX-License-Identifier: Apache-2.0
 *
 * A fault of the device while the lanes of many clients are full: how long it takes until the next right answer, and
 * what becomes of every job. The fault is a drill of a device process that was built for it, so this daemon runs that
 * one. Data lies in shared arenas, which outlive a device. Client processes share where they write down their answers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lanes.h"
#include "limits.h"

#define NUMBERS  (UINT64_C(1) << 17) /* of a job: it lasts long enough for the lanes to fill */
#define LENGTHS  64u                 /* jobs differ, so that an answer of another one is wrong */
#define FAULT_AT "40"                /* position in a lane: what comes before is answered or has begun by then */
#define FAULT_NS UINT64_C(60000000000)

struct answers {
    uint32_t right, lost, wrong;
    uint64_t submitted_ns, first_lost_ns; /* when the lane was full; when the first lost job was seen, or 0 */
    uint64_t right_ns[GM_LANE_JOBS];
};

struct fault {
    struct gm_lanes *l;
    struct answers answers[GM_LANES_CREW_MAX];
};

/* ---- a client ---- */

static double expected(uint64_t n) { return (double)(n / 8u * 28u + n % 8u * (n % 8u - 1u) / 2u); }

static bool submit_all(struct gm_lanes *l, struct gm_client *client, const struct gm_arena *arena, struct gm_job *jobs)
{
    for (uint32_t i = 0; i < l->fault_jobs; i++) {
        struct gm_request sum = gm_request("sum", GM_F32, NUMBERS - i % LENGTHS);
        sum.in[0] = gm_in_arena(arena, 0, sum.n * 4u);
        jobs[i].user = (void *)(uintptr_t)sum.n;
        if (gm_submit(client, &sum, &jobs[i]) != GM_OK)
            return gm_lanes_fail_last(l, "submit", client);
    }
    return true;
}

static void judge(struct answers *a, const struct gm_job *job)
{
    struct gm_result result;
    const int status = gm_job_result(job, &result);
    const uint64_t now = gm_bench_now_ns();
    if (status == GM_OK && result.dtype == GM_F64 && result.value.f64 == expected((uintptr_t)job->user))
        a->right_ns[a->right++] = now;
    else if (status == GM_EDEVICELOST)
        a->first_lost_ns = a->lost++ == 0 ? now : a->first_lost_ns;
    else
        a->wrong++;
}

static bool suffer(struct gm_lanes *l, struct gm_crew_shared *gate, uint32_t index, void *argument)
{
    struct answers *a = &((struct fault *)argument)->answers[index];
    struct gm_job *jobs = calloc(l->fault_jobs, sizeof *jobs);
    struct gm_client *client = gm_lanes_open(l, GM_WAIT_SPIN);
    struct gm_arena *arena;
    if (!client || !jobs)
        return false;
    if (gm_arena_create(client, NUMBERS * 4u, GM_MEMORY_SHARED, 0, gm_deadline_in(GM_LANES_JOB_NS), &arena) != GM_OK)
        return gm_lanes_fail_last(l, "arena", client);
    for (uint64_t i = 0; i < NUMBERS; i++)
        ((float *)gm_arena_data(arena))[i] = (float)(i % 8u);
    gm_crew_pass(gate);
    if (!submit_all(l, client, arena, jobs))
        return false;
    a->submitted_ns = gm_bench_now_ns();
    const uint64_t end = a->submitted_ns + FAULT_NS;
    while (a->right + a->lost + a->wrong < l->fault_jobs) {
        if (gm_poll(client) != GM_OK)
            return gm_lanes_fail_last(l, "poll", client);
        for (struct gm_job *job; (job = gm_next(client)) != NULL;)
            judge(a, job);
        if (gm_bench_now_ns() > end)
            return gm_lanes_fail(l, "fault", "jobs were never answered");
    }
    gm_close(client);
    free(jobs);
    return true;
}

/* ---- all of them ---- */

static int by_time(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The longest time in which nobody had a right answer, from the first full lane on. It begins before the fault, with
 * the last answer before it. */
static double outage_ms(const struct fault *fault, uint32_t clients, uint64_t *times, uint64_t *from_ns)
{
    size_t count = 0;
    uint64_t longest = 0, before = UINT64_MAX;
    for (uint32_t i = 0; i < clients; i++) {
        const struct answers *a = &fault->answers[i];
        before = a->submitted_ns < before ? a->submitted_ns : before;
        memcpy(times + count, a->right_ns, a->right * sizeof *times);
        count += a->right;
    }
    qsort(times, count, sizeof *times, by_time);
    for (size_t i = 0; i < count; i++) {
        if (times[i] > before && times[i] - before > longest)
            longest = times[i] - before, *from_ns = before;
        before = times[i] > before ? times[i] : before;
    }
    return (double)longest / 1e6;
}

static bool tell(struct gm_lanes *l, const struct fault *fault, uint64_t restarts)
{
    uint64_t right = 0, lost = 0, wrong = 0, before = 0, from_ns = 0;
    uint64_t *times = malloc((size_t)l->fault_clients * GM_LANE_JOBS * sizeof *times);
    if (!times)
        return gm_lanes_fail(l, "fault", "no memory");
    const double outage = outage_ms(fault, l->fault_clients, times, &from_ns);
    free(times);
    for (uint32_t i = 0; i < l->fault_clients; i++) {
        const struct answers *a = &fault->answers[i];
        right += a->right, lost += a->lost, wrong += a->wrong;
        for (uint32_t k = 0; k < a->right; k++)
            before += a->right_ns[k] <= from_ns;
    }
    struct gm_figures *f = l->figures;
    gm_figures_value(f, "fault_outage", "fault: the longest time without a right answer of anybody", "ms", outage);
    gm_figures_value(f, "fault_queued", "fault: jobs that were queued then, answered right later", "",
                     (double)(right - before));
    gm_figures_value(f, "fault_lost", "fault: jobs that had started, answered device_lost", "", (double)lost);
    gm_figures_value(f, "fault_wrong", "fault: jobs with any other answer", "", (double)wrong);
    gm_figures_value(f, "fault_restarts", "fault: device processes replaced", "", (double)restarts);
    if (lost == 0 || restarts == 0)
        return gm_lanes_fail(l, "fault", "the drill did not happen");
    if (wrong != 0 || lost > GM_ENTRIES_MAX)
        return gm_lanes_fail(l, "fault", wrong ? "wrong answers" : "more jobs are lost than can have started");
    return true;
}

static bool drill(struct gm_lanes *l, struct fault *fault)
{
    struct gm_crew crew;
    uint64_t restarts = 0;
    if (!gm_crew_start(l, &crew, l->fault_clients, suffer, fault))
        return false;
    gm_crew_open(&crew);
    if (!gm_crew_end(l, &crew, false))
        return false;
    struct gm_client *client = gm_lanes_open(l, GM_WAIT_SPIN_THEN_SLEEP);
    const bool good = client && gm_lanes_stat(l, client, "devices.0.restarts", &restarts);
    gm_close(client);
    return good && tell(l, fault, restarts);
}

bool gm_lanes_fault(struct gm_lanes *l)
{
    const char *const more[] = {"--device-program", l->drill, NULL};
    char text[160];
    if (!l->drill) {
        gm_figures_skipped(l->figures, "fault_outage", "no device process with drills (--drill)");
        return true;
    }
    struct fault *fault = gm_lanes_share(l, sizeof *fault);
    if (!fault)
        return false;
    snprintf(text, sizeof text, "abort-in-job=" FAULT_AT ",once=/tmp/gridmill-bench-%d.once", (int)getpid());
    setenv("GRIDMILL_DRILL", text, 1);
    const bool up = gm_lanes_up(l, more);
    unsetenv("GRIDMILL_DRILL");
    const bool good = up && gm_lanes_down(l, drill(l, fault));
    unlink(strchr(text, '/'));
    munmap(fault, sizeof *fault);
    return good;
}
