/* SPDX-License-Identifier: Apache-2.0
 *
 * See load.h. Children connect by themselves after the fork, because a connection belongs to one process; the gate and
 * the counts lie in memory that they share.
 */
#include "load.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define BATCH        64u /* jobs of one submission, or a fourth of the window: one is written while others run */
#define GATE_NS      UINT64_C(10000000000) /* until every client has connected */
#define AHEAD_NS     UINT64_C(2000000)     /* first arrival after the start */
#define DRAIN_NS     UINT64_C(10000000000) /* for what is in flight at the end */

struct meeting {
    uint32_t ready, open, failed;
    uint64_t answered[LOAD_CLIENTS_MAX], spent_ns[LOAD_CLIENTS_MAX]; /* read after the client's end */
};

int load_connect(const struct load *load, struct gm_client **client)
{
    struct gm_options options = {.socket = load->common->socket, .name = "gridmill bench"};
    struct gm_failure failure;

    options.lane_slots = load->path == LOAD_SOCKET ? GM_NO_LANE : GM_LANE_JOBS;
    options.lane_only = load->path == LOAD_LANE;
    const int status = gm_open(&options, client, &failure);
    if (status != GM_OK)
        return complain(exit_code_of(status), "cannot reach the daemon: %s", failure.text);
    if (load->path == LOAD_SOCKET || gm_lanes(*client) > 0)
        return EXIT_DONE;
    gm_last_failure(*client, &failure);
    gm_close(*client);
    *client = NULL;
    return complain(EXIT_FAILED, "no lane: %s", failure.text);
}

/* One submission, of the last so many that are idle. False: it failed. */
static bool submit_some(struct gm_client *client, const struct gm_request *requests, struct gm_job **idle,
                        uint32_t *free_count, uint32_t want)
{
    size_t accepted = 0;
    struct gm_job **const piece = &idle[*free_count - want];
    const int status = gm_submit_batch(client, requests, (struct gm_job *const *)piece, want, &accepted);

    /* The accepted ones are the first of the piece: what is left of it moves down. */
    memmove(piece, piece + accepted, (want - accepted) * sizeof *piece);
    *free_count -= (uint32_t)accepted;
    return status == GM_OK || status == GM_EBUSY;
}

/* One child's share: the window is kept full, in batches. The number of answers, or 0 when something failed. */
static uint64_t keep_full(const struct load *load, struct gm_client *client)
{
    static struct gm_job jobs[LOAD_WINDOW_MAX];
    struct gm_job *idle[LOAD_WINDOW_MAX];
    struct gm_request requests[BATCH];
    const uint32_t batch = load->window / 4u >= BATCH ? BATCH : load->window >= 4u ? load->window / 4u : 1u;
    uint32_t free_count = load->window;
    uint64_t answered = 0, now = gm_now_ns();

    for (uint32_t i = 0; i < BATCH; i++) {
        requests[i] = gm_request("nop", GM_NO_ELEMENT, 0);
        requests[i].device = load->device;
    }
    for (uint32_t i = 0; i < load->window; i++)
        idle[i] = &jobs[i];
    for (const uint64_t end = now + load->seconds_ns; free_count < load->window || now < end; now = gm_now_ns()) {
        while (now < end && free_count >= batch) {
            const uint32_t before = free_count;
            if (!submit_some(client, requests, idle, &free_count, batch))
                return 0;
            if (free_count == before)
                break; /* no room; some of them will be answered */
        }
        if (gm_poll(client) != GM_OK || now > end + DRAIN_NS)
            return 0;
        const size_t taken = gm_next_batch(client, &idle[free_count], load->window - free_count);
        for (size_t i = 0; i < taken; i++)
            if (gm_job_status(idle[free_count + i]) != GM_OK)
                return 0;
        free_count += (uint32_t)taken;
        answered += taken;
    }
    return answered;
}

static _Noreturn void child(const struct load *load, struct meeting *meeting, uint32_t index)
{
    struct gm_client *client = NULL;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int rc = load_connect(load, &client);
    __atomic_add_fetch(rc == EXIT_DONE ? &meeting->ready : &meeting->failed, 1, __ATOMIC_RELEASE);
    if (rc != EXIT_DONE)
        _exit(rc);
    while (__atomic_load_n(&meeting->open, __ATOMIC_ACQUIRE) == 0)
        usleep(500);
    const uint64_t begin = gm_now_ns();
    meeting->answered[index] = keep_full(load, client);
    meeting->spent_ns[index] = gm_now_ns() - begin;
    gm_close(client);
    _exit(meeting->answered[index] == 0 ? EXIT_FAILED : EXIT_DONE);
}

static bool all_ready(const struct meeting *meeting, uint32_t clients)
{
    const uint64_t deadline = gm_now_ns() + GATE_NS;

    while (__atomic_load_n(&meeting->ready, __ATOMIC_ACQUIRE) < clients) {
        if (__atomic_load_n(&meeting->failed, __ATOMIC_ACQUIRE) != 0 || gm_now_ns() > deadline)
            return false;
        usleep(500);
    }
    return true;
}

int load_processes(const struct load *load, uint32_t clients, double *per_second)
{
    struct meeting *const meeting =
        mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[LOAD_CLIENTS_MAX];
    uint32_t started = 0;
    bool good = clients <= LOAD_CLIENTS_MAX;

    if (meeting == MAP_FAILED)
        return complain(EXIT_FAILED, "out of memory");
    fflush(NULL); /* or every child would write it again */
    for (; good && started < clients; started += good) {
        pids[started] = fork();
        if (pids[started] == 0)
            child(load, meeting, started);
        good = pids[started] > 0;
    }
    good = good && all_ready(meeting, clients);
    __atomic_store_n(&meeting->open, 1, __ATOMIC_RELEASE);
    *per_second = 0;
    for (uint32_t i = 0; i < started; i++) {
        int status = 0;
        if (!good)
            kill(pids[i], SIGKILL);
        good = waitpid(pids[i], &status, 0) == pids[i] && status == 0 && good;
        if (good)
            *per_second += (double)meeting->answered[i] * 1e9 / (double)meeting->spent_ns[i];
    }
    munmap(meeting, sizeof *meeting);
    return good ? EXIT_DONE : complain(EXIT_FAILED, "a client process failed");
}

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* In nanoseconds, exponential with the mean. */
static double gap_ns(uint64_t *random, double mean_ns)
{
    const double u = ((double)(next_random(random) >> 11) + 1.0) / 9007199254740993.0; /* never 0 */

    return -mean_ns * log(u);
}

/* Answers that have come: the job's time of arrival stands in its user word. */
static int take_answers(struct gm_client *client, struct gm_job **idle, uint32_t *free_count,
                        struct gm_samples *samples)
{
    if (gm_poll(client) != GM_OK)
        return complain_last(client, "poll");
    for (struct gm_job *job; (job = gm_next(client)) != NULL;) {
        if (gm_job_status(job) != GM_OK)
            return complain(EXIT_FAILED, "a job failed: %s", gm_strerror(gm_job_status(job)));
        gm_samples_add(samples, gm_now_ns() - (uint64_t)(uintptr_t)job->user);
        idle[(*free_count)++] = job;
    }
    return EXIT_DONE;
}

/* Jobs that are due, in one submission: as a program does that finds several. arrival: their times, and how many;
 * those that find no room are late from now on, and their samples say so. */
static bool submit_due(struct gm_client *client, const struct gm_request *requests, struct gm_job **idle,
                       uint32_t *free_count, double *arrival, uint32_t *waiting)
{
    const uint32_t want = *waiting < *free_count ? *waiting : *free_count, before = *free_count;

    if (want == 0)
        return true;
    for (uint32_t i = 0; i < want; i++)
        idle[before - want + i]->user = (void *)(uintptr_t)arrival[i];
    if (!submit_some(client, requests, idle, free_count, want))
        return false;
    const uint32_t accepted = before - *free_count;
    memmove(arrival, arrival + accepted, (*waiting - accepted) * sizeof *arrival);
    *waiting -= accepted;
    return true;
}

int load_arrivals(const struct load *load, struct gm_client *client, double per_second, struct gm_samples *samples)
{
    static struct gm_job jobs[LOAD_WINDOW_MAX];
    struct gm_job *idle[LOAD_WINDOW_MAX];
    struct gm_request requests[BATCH];
    double arrival[BATCH];
    uint32_t free_count = LOAD_WINDOW_MAX, waiting = 0;
    uint64_t random = load->seed;
    int rc = EXIT_DONE;

    memset(jobs, 0, sizeof jobs);
    for (uint32_t i = 0; i < BATCH; i++) {
        requests[i] = gm_request("nop", GM_NO_ELEMENT, 0);
        requests[i].device = load->device;
    }
    for (uint32_t i = 0; i < LOAD_WINDOW_MAX; i++)
        idle[i] = &jobs[i];
    const uint64_t begin = gm_now_ns() + AHEAD_NS, end = begin + load->seconds_ns;
    double due = (double)begin;
    while (rc == EXIT_DONE && (due < (double)end || waiting != 0 || free_count < LOAD_WINDOW_MAX)) {
        const uint64_t now = gm_now_ns();
        if (now > end + DRAIN_NS)
            return complain(EXIT_FAILED, "jobs were not answered in time");
        for (; waiting < BATCH && due <= (double)now && due < (double)end; due += gap_ns(&random, 1e9 / per_second))
            arrival[waiting++] = due;
        rc = submit_due(client, requests, idle, &free_count, arrival, &waiting)
                 ? take_answers(client, idle, &free_count, samples)
                 : complain_last(client, "submit");
    }
    return rc;
}
