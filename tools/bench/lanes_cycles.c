/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients that come and go while others work: each cycle is a process that connects, makes an arena, runs jobs over its
 * lane, and leaves, every second one by SIGKILL with jobs in flight. Then everything must be back where it was, and the
 * others are to have noticed little. Bounded by a count and a time.
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lanes.h"

#define CYCLERS_MAX  8u
#define LOADERS      2u
#define JOBS         32u
#define NUMBERS      4096u
#define WARM_UP      200u /* cycles before the base is taken: what is allocated once is there then */
#define BACK_S_LEAST 5u
#define SAMPLES      (1u << 20) /* of a loader and phase */
#define GROWTH_BYTES (UINT64_C(4) << 20) /* of resident memory that is no leak: far below a page a cycle */

/* ---- one cycle ---- */

static bool live(struct gm_lanes *l, bool killed)
{
    static struct gm_job jobs[JOBS];
    struct gm_client *client = gm_lanes_open(l, GM_WAIT_SPIN_THEN_SLEEP);
    struct gm_request sum = gm_request("sum", GM_U32, NUMBERS);
    struct gm_arena *arena;
    struct gm_result result;
    if (!client)
        return false;
    if (gm_arena_create(client, NUMBERS * 4u, GM_MEMORY_SHARED, GM_DEVICE_ANY, gm_deadline_in(GM_LANES_JOB_NS),
                        &arena) != GM_OK)
        return gm_lanes_fail_last(l, "arena", client);
    for (uint32_t i = 0; i < NUMBERS; i++)
        ((uint32_t *)gm_arena_data(arena))[i] = i;
    sum.in[0] = gm_in_arena(arena, 0, NUMBERS * 4u);
    for (uint32_t i = 0; i < JOBS; i++)
        if (gm_submit(client, &sum, &jobs[i]) != GM_OK)
            return gm_lanes_fail_last(l, "submit", client);
    if (killed)
        kill(getpid(), SIGKILL);
    for (uint32_t i = 0; i < JOBS; i++)
        if (gm_wait(client, &jobs[i], gm_deadline_in(GM_LANES_JOB_NS)) != GM_OK)
            return gm_lanes_fail_last(l, "job", client);
        else if (gm_job_result(&jobs[i], &result) != GM_OK || result.value.u64 != NUMBERS * (NUMBERS - 1u) / 2u)
            return gm_lanes_fail(l, "job", "wrong sum");
    gm_close(client);
    return true;
}

static bool cycle(struct gm_lanes *l, bool killed)
{
    int status = 0;
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const bool good = live(l, killed);
        if (!good)
            fprintf(stderr, "bench_lanes: cycle: %s\n", l->text);
        _exit(good ? 0 : 1);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return gm_lanes_fail(l, "cycle", "no process");
    if (killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == 0)
        return true;
    return gm_lanes_fail(l, "cycle", "the client failed");
}

struct cycles {
    uint32_t wanted, begun, done, failed; /* shared by the processes that run them */
    uint64_t end_ns;
};

static bool run_cycles(struct gm_lanes *l, struct gm_crew_shared *gate, uint32_t index, void *argument)
{
    struct cycles *c = argument;
    (void)index;
    gm_crew_pass(gate);
    while (gm_bench_now_ns() < __atomic_load_n(&c->end_ns, __ATOMIC_RELAXED)) {
        const uint32_t mine = __atomic_fetch_add(&c->begun, 1, __ATOMIC_RELAXED);
        if (mine >= c->wanted)
            break;
        if (!cycle(l, mine % 2u == 1u))
            return __atomic_add_fetch(&c->failed, 1, __ATOMIC_RELAXED), false;
        __atomic_add_fetch(&c->done, 1, __ATOMIC_RELAXED);
    }
    return true;
}

static bool cycles_of(struct gm_lanes *l, struct cycles *c, uint32_t wanted, uint64_t limit_ns)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const uint32_t count = processors >= 16 ? CYCLERS_MAX : 2u; /* the loaders spin, and so does the device's thread */
    struct gm_crew crew;
    c->wanted = wanted;
    c->begun = c->done = 0;
    c->end_ns = gm_bench_now_ns() + limit_ns;
    if (!gm_crew_start(l, &crew, count, run_cycles, c))
        return false;
    gm_crew_open(&crew);
    return gm_crew_end(l, &crew, false);
}

/* ---- those who work meanwhile ---- */

enum phase { ALONE, BESIDE, PHASES };

struct loader {
    uint32_t phase; /* that samples belong to now; PHASES: none */
    uint32_t count[LOADERS][PHASES];
    uint64_t ns[LOADERS][PHASES][SAMPLES];
};

static bool work(struct gm_lanes *l, struct gm_crew_shared *gate, uint32_t index, void *argument)
{
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    struct loader *loader = argument;
    struct gm_client *client = gm_lanes_open(l, GM_WAIT_SPIN);
    if (!client)
        return false;
    gm_crew_pass(gate);
    while (!gm_crew_stopped(gate)) {
        const uint32_t phase = __atomic_load_n(&loader->phase, __ATOMIC_RELAXED);
        const uint64_t begin = gm_bench_now_ns();
        if (gm_run(client, &nop, begin + GM_LANES_JOB_NS, NULL) != GM_OK)
            return gm_lanes_fail_last(l, "job beside the cycles", client);
        const uint64_t spent_ns = gm_bench_now_ns() - begin;
        /* When there are more than fit, the later ones take the places of earlier ones. */
        if (phase < PHASES) {
            const uint32_t count = loader->count[index][phase];
            loader->ns[index][phase][count % SAMPLES] = spent_ns;
            __atomic_store_n(&loader->count[index][phase], count + 1u, __ATOMIC_RELAXED);
        }
    }
    gm_close(client);
    return true;
}

/* Of all loaders together. */
static void tell_load(struct gm_lanes *l, const struct loader *loader, enum phase phase, const char *name,
                      const char *what)
{
    struct gm_samples all;
    if (!gm_samples_make(&all, (size_t)LOADERS * SAMPLES)) {
        gm_figures_skipped(l->figures, name, "no memory");
        return;
    }
    for (uint32_t i = 0; i < LOADERS; i++)
        for (uint32_t k = 0; k < loader->count[i][phase] && k < SAMPLES; k++)
            gm_samples_add(&all, loader->ns[i][phase][k]);
    gm_figures_latency(l->figures, name, what, &all);
    gm_samples_free(&all);
}

/* ---- what is held ---- */

static const char *const counted[] = {"daemon.sessions", "daemon.arenas", "daemon.arena_bytes", "devices.0.lanes",
                                      "devices.0.queue_depth"};
enum { COUNTED = sizeof counted / sizeof *counted };

struct held {
    uint64_t stats[COUNTED], descriptors, resident;
};

static uint64_t descriptors_of(pid_t pid)
{
    char path[64];
    uint64_t count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *folder = opendir(path);
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

static bool look(struct gm_lanes *l, struct gm_client *client, struct held *held)
{
    pid_t family[GM_PROCESSES_MAX];
    memset(held, 0, sizeof *held);
    for (uint32_t i = 0; i < COUNTED; i++)
        if (!gm_lanes_stat(l, client, counted[i], &held->stats[i]))
            return false;
    const uint32_t count = gm_process_family(l->server.pid, family);
    for (uint32_t i = 0; i < count; i++) {
        held->descriptors += descriptors_of(family[i]);
        held->resident += gm_process_resident(family[i]);
    }
    return true;
}

/* How many of the things that are counted exactly are more than before. */
static uint32_t left_over(const struct held *base, const struct held *now)
{
    uint32_t left = now->descriptors > base->descriptors;
    for (uint32_t i = 0; i < COUNTED; i++)
        left += now->stats[i] > base->stats[i];
    return left;
}

/* For what is given back a moment later; in proportion to the time for the cycles. */
static uint64_t back_ns(const struct gm_lanes *l)
{
    return (uint64_t)(l->cycles_s / 6u > BACK_S_LEAST ? l->cycles_s / 6u : BACK_S_LEAST) * 1000000000u;
}

/* Until nothing is left over, or its time is over. The queue of those who work is never empty: that is looked at
 * afterwards. */
static bool settle(struct gm_lanes *l, struct gm_client *client, const struct held *base, struct held *now)
{
    const uint64_t end = gm_bench_now_ns() + back_ns(l);
    do {
        gm_bench_sleep_ms(20);
        if (!look(l, client, now))
            return false;
    } while (left_over(base, now) != 0 && gm_bench_now_ns() < end);
    return true;
}

/* What an idle daemon with one client holds. */
static bool base_of(struct gm_lanes *l, struct gm_client *client, struct held *base)
{
    const struct held idle = {.stats = {1, 0, 0, 1, 0}, .descriptors = UINT64_MAX};
    struct held again;
    if (!settle(l, client, &idle, base))
        return false;
    /* Descriptors have no expected number: two looks apart that agree. */
    const uint64_t end = gm_bench_now_ns() + back_ns(l);
    for (again = *base, base->descriptors = 0; again.descriptors != base->descriptors && gm_bench_now_ns() < end;) {
        *base = again;
        gm_bench_sleep_ms(300);
        if (!look(l, client, &again))
            return false;
    }
    return left_over(&idle, base) == 0 || gm_lanes_fail(l, "cycles", "nothing is back after the warm-up");
}

static void tell_held(struct gm_lanes *l, const struct held *base, const struct held *now)
{
    struct gm_figures *f = l->figures;
    const double grown = (double)now->resident - (double)base->resident;
    gm_figures_value(f, "cycles_descriptors", "descriptors of daemon and device process, now less before", "",
                     (double)now->descriptors - (double)base->descriptors);
    gm_figures_value(f, "cycles_lanes", "lanes of the device, now less before", "",
                     (double)now->stats[3] - (double)base->stats[3]);
    gm_figures_value(f, "cycles_resident", "resident memory of both, now less before", "KiB", grown / 1024);
    gm_figures_value(f, "cycles_left", "kinds of things that are not back: sessions, arenas, lanes, memory ...", "",
                     left_over(base, now) + (grown > (double)GROWTH_BYTES));
}

/* ---- the part ---- */

/* Until the budget is spent and every loader has samples, however slow the machine is. */
static void work_alone(const struct gm_lanes *l, struct loader *loader)
{
    const uint64_t end = gm_bench_now_ns() + (uint64_t)l->cycles_s * 1000000000u;
    bool enough = false;
    gm_bench_sleep_ms(200);
    __atomic_store_n(&loader->phase, ALONE, __ATOMIC_RELAXED);
    gm_bench_sleep_ms((uint32_t)(l->budget_ns / 1000000u));
    while (!enough && gm_bench_now_ns() < end) {
        enough = true;
        for (uint32_t i = 0; i < LOADERS; i++)
            enough = enough && __atomic_load_n(&loader->count[i][ALONE], __ATOMIC_RELAXED) != 0;
        gm_bench_sleep_ms(1);
    }
}

static bool under_load(struct gm_lanes *l, struct cycles *c, struct loader *loader)
{
    struct gm_crew crew;
    loader->phase = PHASES;
    if (!gm_crew_start(l, &crew, LOADERS, work, loader))
        return false;
    gm_crew_open(&crew);
    work_alone(l, loader);
    __atomic_store_n(&loader->phase, BESIDE, __ATOMIC_RELAXED);
    const uint64_t begin = gm_bench_now_ns();
    bool good = cycles_of(l, c, l->cycles, (uint64_t)l->cycles_s * 1000000000u);
    const uint64_t spent_ns = gm_bench_now_ns() - begin;
    __atomic_store_n(&loader->phase, PHASES, __ATOMIC_RELAXED);
    good = gm_crew_end(l, &crew, !good) && good;
    if (!good)
        return false;
    gm_figures_value(l->figures, "cycles_done", "cycles of connect, arena, jobs, leave (half by SIGKILL)", "", c->done);
    gm_figures_value(l->figures, "cycles_rate", "cycles a second", "1/s", c->done * 1e9 / (double)spent_ns);
    tell_load(l, loader, ALONE, "cycles_alone", "no-op of two clients that work, nobody comes or goes");
    tell_load(l, loader, BESIDE, "cycles_beside", "no-op of two clients that work, beside the cycles");
    return true;
}

static bool measure(struct gm_lanes *l, struct gm_client *client, struct cycles *c, struct loader *loader)
{
    struct held base, now;
    double free_before = 0, free_after = 0;
    if (!cycles_of(l, c, l->cycles < WARM_UP ? l->cycles : WARM_UP, back_ns(l)) || !base_of(l, client, &base) ||
        (l->peers && !gm_lanes_free_memory(l, &free_before)) || !under_load(l, c, loader) ||
        !settle(l, client, &base, &now))
        return false;
    tell_held(l, &base, &now);
    if (!l->peers)
        return true;
    if (!gm_lanes_free_memory(l, &free_after))
        return false;
    gm_figures_value(l->figures, "cycles_gpu_memory", "memory of the GPU in use, now less before", "MiB",
                     (free_before - free_after) / 1048576.0);
    return true;
}

bool gm_lanes_cycles(struct gm_lanes *l)
{
    struct cycles *c = gm_lanes_share(l, sizeof *c);
    struct loader *loader = c ? gm_lanes_share(l, sizeof *loader) : NULL;
    if (!loader || !gm_lanes_up(l, NULL))
        return false;
    struct gm_client *client = gm_lanes_open(l, GM_WAIT_SPIN_THEN_SLEEP);
    const bool good = client && measure(l, client, c, loader);
    gm_close(client);
    munmap(loader, sizeof *loader);
    munmap(c, sizeof *c);
    return gm_lanes_down(l, good);
}
