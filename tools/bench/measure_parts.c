/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the time of a pause goes, what each kind of housekeeping costs those who work meanwhile, and which threads an
 * idle device keeps awake, see measure.h. The opening thread makes every call to the backend; a working thread only
 * submits. Bounded by counts, and by a time for each kind of housekeeping.
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "measure.h"

#define ROUNDS      200u
#define BYTES       (UINT64_C(64) << 10) /* about a lane, or a small arena */
#define NAP_US      1000u
#define KIND_NS     UINT64_C(500000000)
#define KIND_MOST   400u /* rounds of a kind; each may leave memory that is registered */
#define BATCH       8u
#define KIND_SAMPLES 200000u
#define IDLE_US     3000000u
#define CALL_MS     5000u

static const uint32_t nop_words[GM_DESC_WORDS] = {GM_OP_nop};

/* Registered memory for the device; NULL: it could not be had. */
static void *registered(struct gm_bed *bed, uint64_t bytes, uint64_t *address)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    if (bed->backend->map(bed->device, memory, bytes, address, bed->text) == GM_OK)
        return memory;
    munmap(memory, bytes);
    return NULL;
}

static int unregister(struct gm_bed *bed, void *memory, uint64_t bytes)
{
    const int status = bed->backend->unmap(bed->device, memory, bytes, bed->text);
    munmap(memory, bytes);
    return status;
}

static int quiet(struct gm_bed *bed)
{
    return bed->backend->before_unmap ? bed->backend->before_unmap(bed->device, bed->text) : GM_OK;
}

/* ---- the parts of a pause ---- */

#define PARTS(P)                                                                                                       \
    P(QUIET, "pause_part_quiet", "before the stop, beside the kernel: nothing waits for wakes any more")               \
    P(ANSWERED, "pause_part_answered", "stop asked for until it is answered")                                          \
    P(GONE, "pause_part_gone", "until every worker is gone")                                                           \
    P(UNMAP, "pause_part_unmap", "unregistering 64 KiB")                                                               \
    P(LAUNCH, "pause_part_launch", "launch call")                                                                      \
    P(ARM, "pause_part_arm", "preparing wake-ups, while the workers begin")                                            \
    P(CHECKIN, "pause_part_checkin", "waiting for every worker")                                                       \
    P(START, "pause_part_start", "the last three, and what is around them")                                            \
    P(FIRST, "pause_part_first", "first no-op after it")                                                               \
    P(WHOLE, "pause_part_whole", "stop asked for until the first no-op is answered, unregistering included")

enum part {
#define P(id, name, what) id,
    PARTS(P)
#undef P
        PART_COUNT
};

static const char *const part_name[] = {
#define P(id, name, what) name,
    PARTS(P)
#undef P
};
static const char *const part_what[] = {
#define P(id, name, what) what,
    PARTS(P)
#undef P
};

/* The time since *at, which moves to now. */
static uint64_t lap(uint64_t *at)
{
    const uint64_t now = gm_bed_now_ns(), spent = now - *at;
    *at = now;
    return spent;
}

static int pause_by_parts(struct gm_bed *bed, uint64_t part[PART_COUNT])
{
    static const uint32_t stop[GM_DESC_WORDS] = {GM_ADMIN_STOP};
    uint64_t address, at;
    void *memory = registered(bed, BYTES, &address);
    if (!memory)
        return GM_ENOMEM;
    at = gm_bed_now_ns();
    int status = quiet(bed);
    part[QUIET] = lap(&at);
    const uint64_t begin = at;
    if (status == GM_OK)
        status = gm_admin_call(&bed->admin, stop, NULL, CALL_MS);
    part[ANSWERED] = lap(&at);
    if (status == GM_OK)
        status = bed->backend->join(bed->device, bed->text);
    part[GONE] = lap(&at);
    if (status != GM_OK)
        return status; /* something runs on: the memory stays */
    status = unregister(bed, memory, BYTES);
    part[UNMAP] = lap(&at);
    if (status == GM_OK)
        status = bed->backend->start(bed->device, bed->text);
    part[START] = lap(&at);
    if (status == GM_OK)
        status = gm_bed_run(bed, nop_words, NULL);
    part[FIRST] = lap(&at);
    part[WHOLE] = at - begin;
    if (bed->backend->start_parts) {
        const struct gm_start_parts *start = bed->backend->start_parts(bed->device);
        part[LAUNCH] = start->launch_ns, part[ARM] = start->arm_ns, part[CHECKIN] = start->checkin_ns;
    }
    return status;
}

int gm_measure_parts(struct gm_measure *m)
{
    static uint64_t part[ROUNDS][PART_COUNT];
    int status = GM_OK;
    for (uint32_t i = 0; i < ROUNDS && status == GM_OK; i++) {
        status = pause_by_parts(m->bed, part[i]);
        usleep(NAP_US);
    }
    for (uint32_t p = 0; p < PART_COUNT && status == GM_OK; p++) {
        if (!m->bed->backend->start_parts && (p == LAUNCH || p == ARM || p == CHECKIN))
            continue;
        for (uint32_t i = 0; i < ROUNDS; i++)
            gm_samples_add(&m->samples, part[i][p]);
        gm_figures_latency(m->figures, part_name[p], part_what[p], &m->samples);
    }
    return status;
}

/* ---- beside each kind of housekeeping ---- */

#define KINDS(K)                                                                                                       \
    K(NOTHING, "beside_nothing", "no-op, nothing else happens")                                                        \
    K(PINGS, "beside_pings", "no-op, beside pings of the dispatcher")                                                  \
    K(ARENAS, "beside_arenas", "no-op, beside arenas that are entered and cleared")                                    \
    K(LANES, "beside_lanes", "no-op, beside lanes that are opened and closed")                                         \
    K(MAPS, "beside_maps", "no-op, beside registering 64 KiB")                                                         \
    K(QUIETS, "beside_quiets", "no-op, beside pauses with nothing to do, made quiet before")                           \
    K(PAUSES, "beside_pauses", "no-op, beside pauses that unregister 8 pieces of 64 KiB")

enum kind {
#define K(id, name, what) id,
    KINDS(K)
#undef K
        KIND_COUNT
};

static const char *const kind_name[] = {
#define K(id, name, what) name,
    KINDS(K)
#undef K
};
static const char *const kind_what[] = {
#define K(id, name, what) what,
    KINDS(K)
#undef K
};

struct work {
    struct gm_bed *bed;
    uint32_t kind; /* that samples belong to now; KIND_COUNT: none */
    uint32_t stop;
    int status;
    struct gm_samples samples[KIND_COUNT];
};

static void *work_thread(void *arg)
{
    struct work *work = arg;
    while (work->status == GM_OK && !__atomic_load_n(&work->stop, __ATOMIC_RELAXED)) {
        const uint32_t kind = __atomic_load_n(&work->kind, __ATOMIC_RELAXED);
        const uint64_t begin = gm_bed_now_ns();
        work->status = gm_bed_run(work->bed, nop_words, NULL);
        if (kind < KIND_COUNT)
            gm_samples_add(&work->samples[kind], gm_bed_now_ns() - begin);
    }
    return NULL;
}

struct keeping {
    struct gm_bed *bed;
    void *lane;
    uint64_t lane_address, region_address;
    void *memory[KIND_MOST]; /* registered, and left so until the next pause */
    uint32_t memories;
};

static int keep_lane(struct keeping *k)
{
    struct gm_bed *bed = k->bed;
    const uint32_t log2 = (uint32_t)__builtin_ctz(GM_CLIENT_LANE_SLOTS_DEFAULT);
    const struct gm_control_lane lane = {.index = 1, .session = GM_BED_SESSION, .slots_log2 = log2};
    int status = gm_admin_lane_open(&bed->admin, &lane, k->lane_address,
                                    k->region_address + gm_region_journal_offset(1));
    if (status == GM_OK)
        status = gm_admin_lane_close(&bed->admin, lane.index);
    return status;
}

static int keep_arena(struct keeping *k)
{
    const struct gm_control_arena arena = {.handle = gm_handle(GM_BED_ARENAS, 1), .kind = GM_ARENA_SHARED,
                                           .session = GM_BED_SESSION, .bytes = 4096};
    int status = gm_admin_arena_set(&k->bed->admin, &arena, k->lane_address, GM_ARENA_HOST);
    if (status == GM_OK)
        status = gm_admin_arena_clear(&k->bed->admin, arena.handle);
    return status;
}

static int keep_map(struct keeping *k)
{
    uint64_t address;
    void *memory = k->memories < KIND_MOST ? registered(k->bed, BYTES, &address) : NULL;
    if (memory)
        k->memory[k->memories++] = memory;
    return memory ? GM_OK : GM_ENOMEM;
}

static int keep_pause(struct keeping *k, uint32_t unregister_most)
{
    int status = quiet(k->bed);
    if (status == GM_OK)
        status = gm_admin_stop(&k->bed->admin, k->bed->text);
    for (; status == GM_OK && unregister_most != 0 && k->memories != 0; unregister_most--)
        status = unregister(k->bed, k->memory[--k->memories], BYTES);
    return status == GM_OK ? k->bed->backend->start(k->bed->device, k->bed->text) : status;
}

static int keep(struct keeping *k, enum kind kind)
{
    int status = GM_OK;
    switch (kind) {
    case PINGS:
        return gm_admin_ping(&k->bed->admin, NULL, CALL_MS);
    case ARENAS:
        return keep_arena(k);
    case LANES:
        return keep_lane(k);
    case MAPS:
        return keep_map(k);
    case QUIETS:
        return keep_pause(k, 0);
    case PAUSES:
        for (uint32_t i = 0; i < BATCH && status == GM_OK; i++)
            status = keep_map(k);
        return status == GM_OK ? keep_pause(k, BATCH) : status;
    default:
        return GM_OK;
    }
}

static int one_kind(struct gm_measure *m, struct keeping *k, struct work *work, enum kind kind)
{
    int status = GM_OK;
    const uint64_t end = gm_bed_now_ns() + KIND_NS;
    __atomic_store_n(&work->kind, kind, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < KIND_MOST && status == GM_OK && gm_bed_now_ns() < end; i++) {
        const uint64_t begin = gm_bed_now_ns();
        status = keep(k, kind);
        gm_samples_add(&m->samples, gm_bed_now_ns() - begin);
        usleep(NAP_US);
    }
    __atomic_store_n(&work->kind, KIND_COUNT, __ATOMIC_RELAXED);
    if (kind == MAPS && status == GM_OK)
        status = keep_pause(k, KIND_MOST);
    if (kind != NOTHING && status == GM_OK) {
        char name[64], what[160];
        snprintf(name, sizeof name, "%s_call", kind_name[kind]);
        snprintf(what, sizeof what, "the housekeeping itself, of: %s", kind_what[kind]);
        gm_figures_latency(m->figures, name, what, &m->samples);
    }
    m->samples.count = 0;
    return status;
}

static int all_kinds(struct gm_measure *m, struct keeping *k, struct work *work)
{
    pthread_t thread;
    int status = GM_OK;
    if (pthread_create(&thread, NULL, work_thread, work) != 0)
        return GM_ESYSTEM;
    for (uint32_t kind = 0; kind < KIND_COUNT && status == GM_OK; kind++)
        status = one_kind(m, k, work, (enum kind)kind);
    __atomic_store_n(&work->stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    for (uint32_t kind = 0; kind < KIND_COUNT && status == GM_OK; kind++)
        gm_figures_latency(m->figures, kind_name[kind], kind_what[kind], &work->samples[kind]);
    return status == GM_OK ? work->status : status;
}

int gm_measure_beside(struct gm_measure *m)
{
    static struct keeping k;
    struct work work = {.bed = m->bed, .kind = KIND_COUNT};
    int status = GM_OK;
    k = (struct keeping){.bed = m->bed};
    for (uint32_t kind = 0; kind < KIND_COUNT; kind++)
        if (!gm_samples_make(&work.samples[kind], KIND_SAMPLES))
            status = GM_ENOMEM;
    const uint64_t lane_bytes = gm_lane_bytes(GM_CLIENT_LANE_SLOTS_DEFAULT);
    k.lane = status == GM_OK ? registered(m->bed, lane_bytes, &k.lane_address) : NULL;
    if (!k.lane)
        status = GM_ENOMEM;
    if (status == GM_OK)
        status = m->bed->backend->map(m->bed->device, m->bed->region, gm_region_bytes(), &k.region_address,
                                      m->bed->text);
    if (status == GM_OK)
        status = all_kinds(m, &k, &work);
    if (status == GM_OK) {
        status = gm_admin_stop(&m->bed->admin, m->bed->text);
        if (status == GM_OK)
            status = unregister(m->bed, k.lane, lane_bytes);
        if (status == GM_OK)
            status = m->bed->backend->start(m->bed->device, m->bed->text);
    }
    for (uint32_t kind = 0; kind < KIND_COUNT; kind++)
        gm_samples_free(&work.samples[kind]);
    return status;
}

/* ---- what an idle device keeps awake ---- */

#define THREADS_MOST 64u

struct thread_time {
    long id;
    char name[32];
    uint64_t ns;
};

static uint32_t thread_times(struct thread_time *t)
{
    uint32_t count = 0;
    DIR *folder = opendir("/proc/self/task");
    for (struct dirent *e; folder && (e = readdir(folder)) != NULL && count < THREADS_MOST;) {
        char path[300];
        unsigned long long ns = 0;
        if (e->d_name[0] == '.')
            continue;
        memset(&t[count], 0, sizeof t[count]);
        t[count].id = strtol(e->d_name, NULL, 10);
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", e->d_name);
        FILE *f = fopen(path, "re");
        if (f && fscanf(f, "%31[^\n]", t[count].name) != 1)
            t[count].name[0] = 0;
        if (f)
            fclose(f);
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", e->d_name);
        f = fopen(path, "re");
        const int got = f ? fscanf(f, "%llu", &ns) : 0;
        if (f)
            fclose(f);
        t[count].ns = ns;
        count += got == 1;
    }
    if (folder)
        closedir(folder);
    return count;
}

void gm_measure_idle(struct gm_measure *m, const char *name, const char *what)
{
    struct thread_time before[THREADS_MOST], after[THREADS_MOST];
    uint64_t all = 0, most = 0;
    const char *who = "none";
    char text[200];
    const uint32_t first = thread_times(before);
    const uint64_t begin = gm_bed_now_ns();
    usleep(IDLE_US);
    const double seconds_ns = (double)(gm_bed_now_ns() - begin);
    const uint32_t last = thread_times(after);
    for (uint32_t i = 0; i < last; i++)
        for (uint32_t k = 0; k < first; k++) {
            if (before[k].id != after[i].id)
                continue;
            const uint64_t spent = after[i].ns - before[k].ns;
            all += spent;
            if (spent > most)
                most = spent, who = after[i].name;
        }
    snprintf(text, sizeof text, "%s; most of it by thread %s: %.4f", what, who, 100.0 * (double)most / seconds_ns);
    gm_figures_value(m->figures, name, text, "%", 100.0 * (double)all / seconds_ns);
}
