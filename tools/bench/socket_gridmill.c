/* SPDX-License-Identifier: Apache-2.0
 *
 * gridmilld through libgridmill, see socket.h: round trips, pipelined jobs from one and from several processes, and
 * what the daemon and its device cost while nobody asks for anything. One thread; bounded by counts and budgets.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gridmill.h"
#include "socket.h"

#define START_NS     UINT64_C(60000000000)
#define JOB_NS       UINT64_C(20000000000)
#define WINDOW_MAX   1000u
#define BATCH        64u
#define NUMBERS      1024u
#define SETTLE_MS    3500u /* longer than the idle time after which a device parks */

static bool fail(struct gm_socket_bench *bench, const char *what, const struct gm_failure *failure)
{
    snprintf(bench->text, sizeof bench->text, "%s: %s %.120s", what, gm_status_name(failure->status), failure->text);
    return false;
}

/* Without lanes: it is the socket that is measured. */
static struct gm_client *connect_waiting(struct gm_socket_bench *bench, const char *socket, enum gm_wait_strategy wait)
{
    const struct gm_options options = {.socket = socket, .name = "bench", .lane_slots = GM_NO_LANE, .wait = wait};
    struct gm_client *client = NULL;
    struct gm_failure failure;
    if (gm_open(&options, &client, &failure) != GM_OK)
        (void)fail(bench, "connect", &failure);
    return client;
}

static struct gm_client *connect_to(struct gm_socket_bench *bench, const char *socket)
{
    return connect_waiting(bench, socket, GM_WAIT_SPIN_THEN_SLEEP);
}

/* Until the daemon answers a job. */
static bool wait_ready(struct gm_socket_bench *bench, struct gm_server_process *server)
{
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    const uint64_t end = gm_bench_now_ns() + START_NS;
    bool ready = false;
    while (!ready && gm_process_alive(server) && gm_bench_now_ns() < end) {
        struct gm_client *client = connect_to(bench, server->socket);
        ready = client && gm_run(client, &nop, gm_deadline_in(JOB_NS), NULL) == GM_OK;
        gm_close(client);
        if (!ready)
            gm_bench_sleep_ms(20);
    }
    if (!ready) {
        gm_process_show_log(server);
        snprintf(bench->text, sizeof bench->text, "%.200s did not come up", bench->daemon);
    }
    return ready;
}

static bool round_trips(struct gm_socket_bench *bench, struct gm_client *client, const struct gm_request *request,
                        double expected, const char *name, const char *what)
{
    const size_t warm_up = bench->count / 20u + 20u;
    const uint64_t start = gm_bench_now_ns();
    uint64_t end = start;
    for (size_t i = 0; i < bench->count + warm_up && (i < warm_up + 100u || end - start < 4u * bench->budget_ns); i++) {
        struct gm_result result = {0};
        struct gm_failure failure;
        const uint64_t begin = gm_bench_now_ns();
        const int status = gm_run(client, request, gm_deadline_in(JOB_NS), &result);
        end = gm_bench_now_ns();
        if (status != GM_OK) {
            gm_last_failure(client, &failure);
            return fail(bench, what, &failure);
        }
        if (result.dtype == GM_F64 && result.value.f64 != expected) {
            snprintf(bench->text, sizeof bench->text, "%s: %.17g is not %.17g", what, result.value.f64, expected);
            return false;
        }
        if (i >= warm_up)
            gm_samples_add(&bench->samples, end - begin);
    }
    gm_figures_latency(bench->figures, name, what, &bench->samples);
    return true;
}

struct pump {
    struct gm_client *client;
    struct gm_job *jobs;
    struct gm_job *free[WINDOW_MAX];
    uint32_t free_count;
    uint64_t answered;
};

/* Takes what is complete; false when a job failed. */
static bool pump_take(struct gm_socket_bench *bench, struct pump *p)
{
    struct gm_failure failure;
    int status = gm_poll(p->client);
    for (struct gm_job *job; status == GM_OK && (job = gm_next(p->client)) != NULL;) {
        status = gm_job_status(job);
        p->free[p->free_count++] = job;
        p->answered++;
    }
    if (status == GM_OK)
        return true;
    gm_last_failure(p->client, &failure);
    return fail(bench, "pipelined job", &failure);
}

static bool pump_submit(struct gm_socket_bench *bench, struct pump *p, const struct gm_request *requests)
{
    struct gm_failure failure;
    size_t accepted = 0;
    const uint32_t want = p->free_count < BATCH ? p->free_count : BATCH;
    if (want == 0)
        return true;
    struct gm_job *const *jobs = &p->free[p->free_count - want];
    const int status = gm_submit_batch(p->client, requests, jobs, want, &accepted);
    /* The first of them were accepted: what is left moves down. */
    memmove(&p->free[p->free_count - want], &p->free[p->free_count - want + accepted],
            (want - accepted) * sizeof p->free[0]);
    p->free_count -= (uint32_t)accepted;
    if (status == GM_OK || status == GM_EBUSY)
        return true;
    gm_last_failure(p->client, &failure);
    return fail(bench, "submit", &failure);
}

static uint64_t pipelined(struct gm_socket_bench *bench, const char *socket, uint32_t window, struct gm_gate *gate)
{
    struct pump p = {.client = connect_to(bench, socket), .jobs = calloc(window, sizeof(struct gm_job))};
    struct gm_request requests[BATCH];
    bool good = p.client && p.jobs && window <= WINDOW_MAX;
    for (uint32_t i = 0; i < BATCH; i++)
        requests[i] = gm_request("nop", GM_NO_ELEMENT, 0);
    for (uint32_t i = 0; good && i < window; i++)
        p.free[p.free_count++] = &p.jobs[i];
    gm_gate_pass(gate);
    const uint64_t end = gm_bench_now_ns() + bench->budget_ns;
    bool more = true;
    while (good && (more || p.free_count < window)) {
        const uint64_t before = p.answered;
        const uint32_t was_free = p.free_count;
        if (more)
            good = pump_submit(bench, &p, requests);
        good = good && pump_take(bench, &p);
        more = gm_bench_now_ns() < end;
        if (good && p.answered == before && (p.free_count == was_free || p.free_count == 0)) {
            struct pollfd fd = {.fd = gm_fd(p.client), .events = (short)gm_events(p.client)};
            (void)poll(&fd, 1, 1000);
        }
    }
    gm_close(p.client);
    free(p.jobs);
    return good ? p.answered : 0;
}

static bool rates(struct gm_socket_bench *bench, const char *socket)
{
    static const uint32_t windows[] = {64, 256, 1000}, clients[] = {1, 4};
    double best = 0;
    for (uint32_t c = 0; c < 2; c++)
        for (uint32_t w = 0; w < 3; w++) {
            char name[48], what[96];
            const double rate = gm_bench_processes(bench, pipelined, socket, clients[c], windows[w]);
            if (rate == 0)
                return false;
            snprintf(name, sizeof name, "socket_rate_%ux%u", clients[c], windows[w]);
            snprintf(what, sizeof what, "socket: no-op jobs of %u client%s, %u in flight each", clients[c],
                     clients[c] == 1 ? "" : "s", windows[w]);
            gm_figures_value(bench->figures, name, what, "jobs/s", rate);
            best = rate > best ? rate : best;
        }
    gm_figures_value(bench->figures, "socket_rate_best", "socket: best of these", "jobs/s", best);
    return true;
}

/* Nobody asks for anything: what do all processes of gridmill cost? */
static void idle(struct gm_socket_bench *bench, const struct gm_server_process *server)
{
    pid_t family[GM_PROCESSES_MAX];
    uint64_t before = 0, after = 0;
    gm_bench_sleep_ms(SETTLE_MS);
    const uint32_t count = gm_process_family(server->pid, family);
    for (uint32_t i = 0; i < count; i++)
        before += gm_process_cpu_ns(family[i]);
    gm_bench_sleep_ms(bench->idle_s * 1000u);
    for (uint32_t i = 0; i < count; i++)
        after += gm_process_cpu_ns(family[i]);
    gm_figures_value(bench->figures, "idle_cpu", "idle: CPU of the daemon and its device processes", "%",
                     (double)(after - before) / 1e7 / (double)bench->idle_s);
    gm_figures_value(bench->figures, "idle_processes", "idle: processes counted", "processes", count);
    gm_figures_value(bench->figures, "daemon_resident", "resident memory of gridmilld", "MiB",
                     (double)gm_process_resident(server->pid) / 1048576.0);
    gm_figures_value(bench->figures, "daemon_maps_libcuda", "gridmilld maps libcuda (0: no)", "",
                     gm_process_maps(server->pid, "libcuda"));
}

/* No-op jobs of clients that wait in every way. */
static bool waits(struct gm_socket_bench *bench, const char *socket)
{
    static const struct {
        enum gm_wait_strategy wait;
        const char *name, *what;
    } rows[] = {{GM_WAIT_SPIN_THEN_SLEEP, "socket_nop", "socket: no-op, round trip of one client"},
                {GM_WAIT_SPIN, "socket_nop_spin", "socket: the same, by a client that spins"},
                {GM_WAIT_EVENT, "socket_nop_sleep", "socket: the same, by a client that sleeps"}};
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    bool good = true;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && good; i++) {
        struct gm_client *client = connect_waiting(bench, socket, rows[i].wait);
        good = client && round_trips(bench, client, &nop, 0, rows[i].name, rows[i].what);
        gm_close(client);
    }
    return good;
}

static bool measure(struct gm_socket_bench *bench, struct gm_server_process *server)
{
    float numbers[NUMBERS];
    double expected = 0;
    if (!waits(bench, server->socket))
        return false;
    for (uint32_t i = 0; i < NUMBERS; i++) {
        numbers[i] = (float)(i * 37u % 1000u) / 8.0f;
        expected += (double)numbers[i];
    }
    struct gm_request sum = gm_request("sum", GM_F32, NUMBERS);
    sum.in[0] = gm_in_memory(numbers, sizeof numbers);
    struct gm_client *client = connect_to(bench, server->socket);
    if (!client)
        return false;
    const bool good = round_trips(bench, client, &sum, expected, "socket_sum_10",
                                  "socket: sum of 2^10 f32 in the message, round trip");
    gm_close(client);
    if (!good || !rates(bench, server->socket))
        return false;
    idle(bench, server);
    return true;
}

bool gm_bench_gridmill(struct gm_socket_bench *bench)
{
    struct gm_server_process server;
    if (!gm_process_folder(&server)) {
        snprintf(bench->text, sizeof bench->text, "no folder in /tmp");
        return false;
    }
    const char *const argv[] = {bench->daemon, "--socket", server.socket, "--device", bench->device, "--log-level",
                                "warn", NULL};
    bool good = gm_process_start(&server, (char *const *)argv) && wait_ready(bench, &server);
    const bool came_up = good;
    good = good && measure(bench, &server);
    if (came_up && !good)
        gm_process_show_log(&server);
    const int status = gm_process_stop(&server, 40000);
    if (good && status != 0) {
        snprintf(bench->text, sizeof bench->text, "gridmilld ended with status %d", status);
        good = false;
    }
    return good;
}
