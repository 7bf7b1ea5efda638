/* SPDX-License-Identifier: Apache-2.0
 *
 * cycles [--cycles N] [--seed S] [--width W] [--verbose]: N clients that connect, get a lane and an arena, run jobs and
 * leave, every other one by SIGKILL at a step that the seed chooses, W at a time, while one client loads the device and
 * another takes the time of its jobs. Afterwards memory, descriptors, lanes, arenas and sessions of the daemon and of
 * its device process are what they were. Times are printed and not looked at. Without arguments a short run, as in CI.
 */
#include "chaos_runner.h"
#include "cycles.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CYCLES     300u
#define WIDTH      2u
#define WIDTH_MAX  16u
#define GROWTH_MAX (1u << 20) /* bytes of each process that may stay: pages of pools that were touched later */

enum { KEY_CYCLE = 60 };

static const char *const phase_names[PHASES] = {"alone", "births alone", "cycles"};

struct options {
    uint64_t cycles, seed;
    uint32_t width;
    bool verbose;
};

/* ---- The runner ---- */

struct base {
    uint64_t sessions, lanes, arenas, arena_bytes;
    size_t daemon_fds, device_fds, device_maps;
    uint64_t daemon_memory, device_memory;
};

struct run {
    struct daemon daemon;
    struct gm_client *observer;
    pid_t device, witness, load;
};

/* Of its own and shared; program text comes and goes as the kernel likes. */
static uint64_t memory_of(pid_t pid)
{
    static const char *const names[] = {"RssAnon:", "RssShmem:", "VmSwap:"};
    char path[64], line[256];
    uint64_t kib = 0;

    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *const file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (strncmp(line, names[i], strlen(names[i])) == 0)
                kib += strtoull(line + strlen(names[i]), NULL, 10);
    if (file != NULL)
        fclose(file);
    return kib * 1024u;
}

static struct base look(struct run *r)
{
    struct figures f;

    if (!figures_get(r->observer, &f))
        fail_msg("the daemon does not answer");
    if ((pid_t)f.device[0].pid != r->device)
        fail_msg("the device process was replaced: %s", f.device[0].reason);
    const char *const wrong = figures_wrong(&f, NULL);
    if (wrong != NULL)
        fail_msg("%s", wrong);
    return (struct base){.sessions = f.sessions, .lanes = f.device[0].lanes, .arenas = f.arenas,
                         .arena_bytes = f.arena_bytes, .daemon_fds = descriptors_of(r->daemon.pid),
                         .device_fds = descriptors_of(r->device), .device_maps = maps_of(r->device),
                         .daemon_memory = memory_of(r->daemon.pid),
                         .device_memory = memory_of(r->device)};
}

static void show(const char *when, const struct base *b)
{
    printf("# %s: sessions %" PRIu64 ", lanes %" PRIu64 ", arenas %" PRIu64 " (%" PRIu64 " bytes); daemon %" PRIu64
           " KiB, %zu descriptors; device %" PRIu64 " KiB, %zu descriptors, %zu memory files\n",
           when, b->sessions, b->lanes, b->arenas, b->arena_bytes, b->daemon_memory / 1024u, b->daemon_fds,
           b->device_memory / 1024u, b->device_fds, b->device_maps);
}

static bool same(const struct base *a, const struct base *b)
{
    const size_t slack = SANITIZED ? 4 : 0;

    return a->sessions == b->sessions && a->lanes == b->lanes && a->arenas == b->arenas &&
           a->arena_bytes == b->arena_bytes && a->daemon_fds == b->daemon_fds &&
           a->device_fds <= b->device_fds + slack && a->device_maps == b->device_maps;
}

/* What the witness, the load and the observer have, and nothing else. */
static struct base await_rest(struct run *r)
{
    const uint64_t end_ms = now_ms() + WAIT_MS;
    struct base b = look(r);

    while (b.sessions != 3 || b.lanes != 2 || b.arenas != 1) {
        if (now_ms() > end_ms) {
            show("left behind", &b);
            fail_msg("clients that are gone are not forgotten");
        }
        sleep_ms(2);
        b = look(r);
    }
    return b;
}

static void await_base(struct run *r, const struct base *base)
{
    const uint64_t end_ms = now_ms() + WAIT_MS;
    struct base b = look(r);

    while (!same(&b, base) && now_ms() < end_ms) {
        sleep_ms(2);
        b = look(r);
    }
    show("after", &b);
    if (!same(&b, base))
        fail_msg("something is left behind");
    if (SANITIZED) /* they keep freed memory for a while */
        return;
    assert_true(b.daemon_memory <= base->daemon_memory + GROWTH_MAX);
    assert_true(b.device_memory <= base->device_memory + GROWTH_MAX);
}

static void see_failure(void)
{
    if (stage->failed)
        fail_msg("%s", stage->failure);
}

static pid_t start(void (*live)(void))
{
    fflush(NULL);
    const pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        live();
    }
    assert_true(pid > 0);
    return pid;
}

static void reap_one(const bool *killed_of, const pid_t *pid_of, uint32_t width, uint32_t *freed)
{
    int status;
    const pid_t pid = waitpid(-1, &status, 0);

    see_failure();
    for (*freed = 0; *freed < width && pid_of[*freed] != pid; ++*freed)
        continue;
    if (*freed == width)
        fail_msg("another child ended: status %x", (unsigned)status);
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (killed != killed_of[*freed] || (!killed && status != 0))
        fail_msg("a client ended with status %x", (unsigned)status);
}

/* So many cycles from first on, some at a time; births: of processes that do nothing. */
static void play(const struct options *o, uint64_t first, uint64_t count, bool births)
{
    pid_t pid[WIDTH_MAX] = {0};
    bool killed[WIDTH_MAX] = {0};
    uint32_t at = 0;

    for (uint64_t i = 0; i < count + o->width; i++) {
        if (i < o->width)
            at = (uint32_t)i;
        else
            reap_one(killed, pid, o->width, &at);
        pid[at] = 0;
        if (i >= count)
            continue;
        struct rng rng = random_of(o->seed, KEY_CYCLE, first + i, births);
        killed[at] = !births && (first + i) % 2u == 1u;
        const enum step death = killed[at] ? (enum step)random_below(&rng, STEPS) : STEPS;
        pid[at] = fork();
        if (pid[at] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (births)
                _exit(0);
            cycle(rng, death);
        }
        assert_true(pid[at] > 0);
        if (!births)
            *(killed[at] ? &stage->killed : &stage->left) += 1;
    }
}

static double microseconds(enum phase phase, uint64_t thousandth)
{
    const uint64_t rank = stage->taken[phase] * thousandth / 1000u;
    uint64_t seen = 0;

    for (uint32_t i = 0; i < BUCKETS; i++)
        if ((seen += stage->bucket[phase][i]) > rank)
            return (i + 0.5) * BUCKET_NS / 1000.0;
    return 0;
}

static void show_times(void)
{
    for (enum phase p = 0; p < PHASES; p++)
        printf("# the witness, %-12s: %7" PRIu64 " jobs, p50 %7.1f us, p99 %8.1f us, longest %8.1f us\n",
               phase_names[p], (uint64_t)stage->taken[p], microseconds(p, 500), microseconds(p, 990),
               (double)stage->longest_ns[p] / 1000.0);
    printf("# p99 in cycles: %.2f of alone, %.2f of births alone\n",
           microseconds(PHASE_CYCLES, 990) / microseconds(PHASE_ALONE, 990),
           microseconds(PHASE_CYCLES, 990) / microseconds(PHASE_BIRTHS, 990));
}

static void await_jobs_of_witness(enum phase phase, uint64_t jobs)
{
    const uint64_t end_ms = now_ms() + WAIT_MS;

    stage->phase = phase;
    while (stage->taken[phase] < jobs) {
        see_failure();
        if (now_ms() > end_ms)
            fail_msg("the witness stands still");
        sleep_ms(5);
    }
}

static void begin(struct run *r)
{
    daemon_init(&r->daemon);
    snprintf(stage->socket, sizeof stage->socket, "%s", r->daemon.socket);
    daemon_start(&r->daemon);
    r->observer = daemon_open_without_lanes(&r->daemon);
    r->device = device_pid(r->observer);
    r->witness = start(witness_live);
    r->load = start(load_live);
    await_jobs_of_witness(PHASE_ALONE, 1);
}

static void end(struct run *r)
{
    const pid_t others[] = {r->witness, r->load};
    int status;

    stage->over = true;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(others[i], waitpid(others[i], &status, 0));
        see_failure();
        assert_int_equal(0, status);
    }
    gm_close(r->observer);
    daemon_stop(&r->daemon);
    daemon_remove(&r->daemon);
}

static struct options options = {.cycles = CYCLES, .seed = 1, .width = WIDTH};

static void cycles_leave_nothing_behind(void **state)
{
    const uint64_t part = options.cycles / 10u + 1u;
    static struct run r;

    (void)state;
    begin(&r);
    await_jobs_of_witness(PHASE_ALONE, 5u * part);
    stage->phase = PHASE_BIRTHS;
    while (stage->taken[PHASE_BIRTHS] < part)
        play(&options, 0, part, true);
    stage->phase = PHASE_CYCLES;
    play(&options, 0, 50u + part, false); /* until pools are filled */
    const struct base base = await_rest(&r);
    show("before", &base);
    const uint64_t start_ms = now_ms();
    for (uint64_t done = 0; done < options.cycles; done += part) {
        play(&options, 50u + part + done, done + part < options.cycles ? part : options.cycles - done, false);
        const struct base now = look(&r);
        if (options.verbose)
            show("now", &now);
    }
    printf("# %" PRIu64 " cycles in %.1f s, and %" PRIu64 " before; %" PRIu64 " jobs; %" PRIu64
           " clients killed, %" PRIu64 " left\n",
           options.cycles, (double)(now_ms() - start_ms) / 1000.0, 50u + part, (uint64_t)stage->jobs,
           (uint64_t)stage->killed, (uint64_t)stage->left);
    await_base(&r, &base);
    show_times();
    end(&r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cycles_leave_nothing_behind)};

    for (int i = 1; i < argc; i++) {
        char *text_end = NULL;
        if (strcmp(argv[i], "--verbose") == 0)
            options.verbose = true;
        else if (i + 1 < argc && strcmp(argv[i], "--cycles") == 0)
            options.cycles = strtoull(argv[++i], &text_end, 10);
        else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0)
            options.seed = strtoull(argv[++i], &text_end, 10);
        else if (i + 1 < argc && strcmp(argv[i], "--width") == 0)
            options.width = (uint32_t)strtoul(argv[++i], &text_end, 10);
        else
            text_end = argv[i];
        if ((text_end != NULL && *text_end != '\0') || options.width == 0 || options.width > WIDTH_MAX) {
            fprintf(stderr, "usage: cycles [--cycles N] [--seed S] [--width W] [--verbose]\n");
            return 2;
        }
    }
    stage = mmap(NULL, sizeof *stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (stage == MAP_FAILED)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
