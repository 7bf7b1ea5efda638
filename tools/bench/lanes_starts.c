/* SPDX-License-Identifier: Apache-2.0
 *
 * What a new process pays: from connecting to its first answers, and the GPU memory that it holds. The new processes
 * are this program, executed again; free memory is told by bench_peers, which alone has CUDA in it. One thread in each.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lanes.h"

#define NEWCOMERS  100u
#define HOLDERS    16u
#define NUMBERS    1024u
#define ANSWER_MS  20000
#define SETTLE_MS  200u /* until what the last client held is given back */

extern char **environ;

/* What a new process says of itself, in nanoseconds: on its own clock when it was in main, and since then. */
struct report {
    uint64_t main_at, connected, first, summed;
};

static int say(const char *what, struct gm_client *client)
{
    struct gm_failure failure;
    gm_last_failure(client, &failure);
    fprintf(stderr, "bench_lanes: new process: %s: %s\n", what, failure.text);
    return 1;
}

int gm_lanes_newcomer(const char *socket)
{
    const uint64_t begin = gm_bench_now_ns(), deadline = begin + GM_LANES_JOB_NS;
    const struct gm_options options = {.socket = socket, .name = "newcomer", .deadline_ns = deadline};
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    struct gm_request sum = gm_request("sum", GM_F32, NUMBERS);
    struct report report = {.main_at = begin};
    struct gm_result result;
    struct gm_client *client;
    struct gm_arena *arena;
    struct gm_failure failure;
    if (gm_open(&options, &client, &failure) != GM_OK)
        return fprintf(stderr, "bench_lanes: new process: %s\n", failure.text), 1;
    report.connected = gm_bench_now_ns() - begin;
    if (gm_lanes(client) == 0)
        return say("no lane", client);
    if (gm_run(client, &nop, deadline, NULL) != GM_OK)
        return say("first job", client);
    report.first = gm_bench_now_ns() - begin;
    if (gm_arena_create(client, NUMBERS * 4u, GM_MEMORY_SHARED, GM_DEVICE_ANY, deadline, &arena) != GM_OK)
        return say("arena", client);
    for (uint32_t i = 0; i < NUMBERS; i++)
        ((float *)gm_arena_data(arena))[i] = (float)i;
    sum.in[0] = gm_in_arena(arena, 0, NUMBERS * 4u);
    if (gm_run(client, &sum, deadline, &result) != GM_OK)
        return say("sum", client);
    report.summed = gm_bench_now_ns() - begin;
    gm_close(client);
    if (result.value.f64 != NUMBERS * (NUMBERS - 1.0) / 2)
        return fputs("bench_lanes: new process: wrong sum\n", stderr), 1;
    return fwrite(&report, sizeof report, 1, stdout) == 1 && fflush(stdout) == 0 ? 0 : 1;
}

/* A program with pipes at its standard output and, when to is not NULL, its standard input; 0 on failure. */
static pid_t spawn(char *const *argv, int *from, int *to)
{
    int out[2], in[2] = {-1, -1};
    pid_t pid = 0;
    posix_spawn_file_actions_t actions;
    if (pipe2(out, O_CLOEXEC) != 0)
        return 0;
    if (to && pipe2(in, O_CLOEXEC) != 0)
        return close(out[0]), close(out[1]), 0;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    if (to)
        posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    if (posix_spawn(&pid, argv[0], &actions, NULL, argv, environ) != 0)
        pid = 0;
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    if (to)
        close(in[0]), *to = in[1];
    *from = out[0];
    return pid;
}

static bool one_newcomer(struct gm_lanes *l, struct report *report, uint64_t *spawned_at)
{
    char *const argv[] = {(char *)l->self, "--as-newcomer", l->server.socket, NULL};
    int from = -1, status = -1;
    *spawned_at = gm_bench_now_ns();
    const pid_t pid = spawn(argv, &from, NULL);
    if (pid == 0)
        return gm_lanes_fail(l, "new process", "cannot be started");
    const bool whole = read(from, report, sizeof *report) == (ssize_t)sizeof *report;
    close(from);
    (void)waitpid(pid, &status, 0);
    return (whole && status == 0) || gm_lanes_fail(l, "new process", "it failed");
}

static bool newcomers(struct gm_lanes *l)
{
    static const struct {
        const char *name, *what;
    } figures[] = {{"connect", "new process: gm_open, which opens its lane"},
                   {"connect_first", "new process: gm_open and its first no-op"},
                   {"connect_sum", "new process: these, an arena, and a sum of 2^10 f32 in it"},
                   {"connect_exec", "new process: from posix_spawn on to the first no-op's answer"}};
    const uint32_t count = l->count <= NEWCOMERS * 10u ? 10u : NEWCOMERS;
    uint64_t ns[4][NEWCOMERS];
    for (uint32_t i = 0; i < count; i++) {
        struct report r;
        uint64_t spawned_at;
        if (!one_newcomer(l, &r, &spawned_at))
            return false;
        ns[0][i] = r.connected, ns[1][i] = r.first, ns[2][i] = r.summed;
        ns[3][i] = r.main_at - spawned_at + r.first;
    }
    for (uint32_t f = 0; f < 4u; f++) {
        l->samples.count = 0;
        for (uint32_t i = 0; i < count; i++)
            gm_samples_add(&l->samples, ns[f][i]);
        gm_figures_latency(l->figures, figures[f].name, figures[f].what, &l->samples);
    }
    return true;
}

/* ---- memory ---- */

/* bench_peers, which answers every line with the free bytes of the GPU. */
struct meter {
    pid_t pid;
    int from, to;
};

static bool meter_start(struct gm_lanes *l, struct meter *meter)
{
    char *const argv[] = {(char *)l->peers, "--device", (char *)l->device, "--free-memory", NULL};
    meter->pid = spawn(argv, &meter->from, &meter->to);
    return meter->pid != 0 || gm_lanes_fail(l, "GPU memory", "bench_peers cannot be started");
}

static bool meter_read(struct gm_lanes *l, const struct meter *meter, double *bytes)
{
    char line[64];
    struct pollfd ready = {.fd = meter->from, .events = POLLIN};
    ssize_t n = 0;
    gm_bench_sleep_ms(SETTLE_MS);
    if (write(meter->to, "\n", 1) == 1 && poll(&ready, 1, ANSWER_MS) == 1)
        n = read(meter->from, line, sizeof line - 1u);
    if (n <= 1)
        return gm_lanes_fail(l, "GPU memory", "bench_peers does not tell it");
    line[n] = 0;
    *bytes = strtod(line, NULL);
    return *bytes > 0 || gm_lanes_fail(l, "GPU memory", line);
}

static void meter_stop(struct meter *meter)
{
    close(meter->to);
    close(meter->from);
    kill(meter->pid, SIGKILL);
    (void)waitpid(meter->pid, NULL, 0);
}

bool gm_lanes_free_memory(struct gm_lanes *l, double *bytes)
{
    struct meter meter = {0, -1, -1};
    if (!meter_start(l, &meter))
        return false;
    const bool good = meter_read(l, &meter, bytes);
    meter_stop(&meter);
    return good;
}

static bool hold(struct gm_lanes *l, struct gm_crew_shared *gate, uint32_t index, void *argument)
{
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    (void)index, (void)argument;
    struct gm_client *client = gm_lanes_open(l, GM_WAIT_SPIN_THEN_SLEEP);
    if (!client)
        return false;
    if (gm_run(client, &nop, gm_deadline_in(GM_LANES_JOB_NS), NULL) != GM_OK)
        return gm_lanes_fail_last(l, "no-op", client);
    gm_crew_pass(gate);
    while (!gm_crew_stopped(gate))
        gm_bench_sleep_ms(5);
    gm_close(client);
    return true;
}

static bool memory(struct gm_lanes *l)
{
    struct meter meter = {0, -1, -1};
    struct gm_crew crew;
    double before = 0, during = 0;
    if (!l->peers) {
        gm_figures_skipped(l->figures, "client_gpu_memory", "no GPU");
        return true;
    }
    if (!meter_start(l, &meter))
        return false;
    bool good = meter_read(l, &meter, &before) && gm_crew_start(l, &crew, HOLDERS, hold, NULL);
    if (good) {
        good = meter_read(l, &meter, &during);
        gm_figures_value(l->figures, "client_maps_libcuda", "such a client process maps libcuda (0: no)", "",
                         gm_process_maps(crew.pids[0], "libcuda"));
        good = gm_crew_end(l, &crew, false) && good;
    }
    if (good)
        gm_figures_value(l->figures, "client_gpu_memory", "GPU memory of a client process (16 of them, free memory)",
                         "MiB", (before - during) / 1048576.0 / HOLDERS);
    meter_stop(&meter);
    return good;
}

bool gm_lanes_starts(struct gm_lanes *l)
{
    return gm_lanes_up(l, NULL) && gm_lanes_down(l, newcomers(l) && memory(l));
}
