/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU device behind backend.h: memory, threads, and the description of the machine. Main thread only.
 */
#include "backend.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bells.h"
#include "cpu.h"
#include "core/init.h"

#define GM_CPU_SPIN_NS     20000u /* about what a futex wake costs; longer burns a core for nothing */

static int fail(char *text, int status, const char *what, int error)
{
    snprintf(text, GM_ERROR_TEXT_MAX, "%s%s%s", what, error ? ": " : "", error ? strerror(error) : "");
    return status;
}

static uint32_t processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    const int n = CPU_COUNT(&set);
    return n < 1 ? 1u : n > (int)GM_CPU_WORKERS_MAX ? GM_CPU_WORKERS_MAX : (uint32_t)n;
}

static uint64_t memory_bytes(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

/* Zeroed memory that costs nothing until it is touched. */
static void *reserve(uint64_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static void release(void *p, uint64_t bytes)
{
    if (p)
        munmap(p, bytes);
}

static uint64_t slots_bytes(const struct gm_core *c)
{
    return (UINT64_C(1) << c->tickets_log2) * sizeof(struct gm_slot);
}
static uint64_t words_bytes(const struct gm_core *c) { return (UINT64_C(1) << c->tickets_log2) * sizeof(uint32_t); }
static uint64_t inbox_bytes(const struct gm_core *c) { return (uint64_t)c->entries_count * sizeof(uint64_t); }
static uint64_t entries_bytes(const struct gm_core *c) { return (uint64_t)c->entries_count * sizeof(struct gm_entry); }
static uint64_t scratch_bytes(const struct gm_core *c) { return (uint64_t)c->entries_count * GM_ENTRY_SCRATCH; }

static void cpu_close(struct gm_device *device)
{
    const struct gm_core *core = &device->core;
    gm_cpu_copies_close(device);
    release(core->copies, sizeof *core->copies);
    release(core->slots, slots_bytes(core));
    release(core->acks, words_bytes(core));
    release(device->waiting, words_bytes(core));
    release(core->inbox, inbox_bytes(core));
    release(core->entries, entries_bytes(core));
    release(core->scratch, scratch_bytes(core));
    release(core->workspace, core->workspace_bytes);
    release(core->counters, sizeof *core->counters);
    release(core->saved, sizeof *core->saved);
    if (device->ring_fd >= 0) {
        gm_bells_drop(device->bells_fd, device->ring_fd);
        close(device->ring_fd);
    }
    gm_wakes_destroy(&device->wakes);
    free(device->workers);
    free(device);
}

static int make_core(struct gm_device *device, const struct gm_device_config *config, uint32_t workers, char *text)
{
    const struct gm_core_shape shape = {
        .tickets_log2 = config->tickets_log2 ? config->tickets_log2 : GM_TICKETS_LOG2,
        .entries_log2 = config->entries_log2 ? config->entries_log2 : GM_ENTRIES_LOG2,
        .workers = workers,
        .host_shares = workers, /* all memory is the host's */
        .ticket_start = config->ticket_start,
        .inbox_start = config->inbox_start,
        .idle_ns = device->spin_ns,
        .workspace_bytes = config->workspace_bytes ? config->workspace_bytes : memory_bytes() / 4u,
        .park_in_flight = 1,
        .copy_start = config->copy_start,
        .copy_bytes = config->copy_bytes, /* workers copy as fast: none by itself */
    };
    struct gm_core *core = &device->core;
    struct gm_counters *counters = reserve(sizeof *counters);
    struct gm_disp *saved = reserve(sizeof *saved);
    if (!counters || !saved) {
        release(counters, sizeof *counters);
        release(saved, sizeof *saved);
        return fail(text, GM_ENOMEM, "scheduler state", errno);
    }
    const int status = gm_core_init(core, counters, saved, &shape);
    core->counters = counters;
    core->saved = saved;
    if (status != GM_OK)
        return fail(text, status, "the rings do not fit the workers", 0);
    core->slots = reserve(slots_bytes(core));
    core->acks = reserve(words_bytes(core));
    device->waiting = reserve(words_bytes(core));
    core->inbox = reserve(inbox_bytes(core));
    core->entries = reserve(entries_bytes(core));
    core->scratch = reserve(scratch_bytes(core));
    core->workspace = reserve(core->workspace_bytes);
    if (!core->slots || !core->acks || !device->waiting || !core->inbox || !core->entries || !core->scratch ||
        !core->workspace)
        return fail(text, GM_ENOMEM, "scheduler memory", errno);
    gm_slots_init(core->slots, &shape);
    uint8_t *region = config->region;
    core->workers_words = (struct gm_granule *)(void *)(region + gm_region_workers_offset());
    core->lane_notes = (struct gm_lane_note *)(void *)(region + gm_region_notes_offset());
    core->device_counters = &((struct gm_region_header *)(void *)region)->counters;
    core->admin_header = (struct gm_lane_header *)(void *)(region + gm_region_admin_offset());
    core->admin_sq = (const struct gm_desc_slot *)(void *)(region + gm_region_admin_offset() + gm_lane_sq_offset());
    core->admin_cq =
        (struct gm_granule *)(void *)(region + gm_region_admin_offset() + gm_lane_cq_offset(GM_ADMIN_SLOTS));
    return GM_OK;
}

static int make_copies(struct gm_device *device, const struct gm_device_config *config, char *text)
{
    device->core.copies = reserve(sizeof *device->core.copies);
    if (!device->core.copies)
        return fail(text, GM_ENOMEM, "copies", errno);
    const int error = gm_cpu_copies_open(device, config);
    return error == 0 ? GM_OK : fail(text, GM_ESYSTEM, "the thread that copies", error);
}

static void describe(struct gm_control_hello *hello, const struct gm_device *device)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[256];
    snprintf(hello->name, sizeof hello->name, "CPU");
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(hello->name, sizeof hello->name, "%.63s", colon + 2);
        break;
    }
    if (f)
        fclose(f);
    hello->backend = GM_BACKEND_CPU;
    hello->workers = device->core.workers;
    hello->threads = 1;
    hello->flags |= GM_HELLO_SKIP;
    hello->memory_bytes = memory_bytes();
    hello->workspace_bytes = device->core.workspace_bytes;
    hello->engine_bytes = device->core.copies ? device->core.copy_bytes : 0;
    snprintf(hello->detail, sizeof hello->detail, "threads");
}

static int cpu_open(const struct gm_device_config *config, struct gm_device **out, struct gm_control_hello *hello,
                    char *text)
{
    const uint32_t here = processors(), workers = config->workers ? config->workers : here;
    struct gm_device *device = calloc(1, sizeof *device);
    if (!device)
        return fail(text, GM_ENOMEM, "device", errno);
    if (workers > GM_CPU_WORKERS_MAX) {
        free(device);
        snprintf(text, GM_ERROR_TEXT_MAX, "%u workers; at most %u", workers, GM_CPU_WORKERS_MAX);
        return GM_ESIZE;
    }
    device->bells_fd = config->bells_fd;
    device->ring_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    gm_wakes_init(&device->wakes, config->wake_fd);
    device->spin_ns = here > 2 ? GM_CPU_SPIN_NS : 0; /* with two processors a spinning thread stands in the way */
    device->workers = calloc(workers, sizeof *device->workers);
    int status = device->ring_fd >= 0 && gm_bells_add(device->bells_fd, device->ring_fd) == GM_OK
                     ? GM_OK
                     : fail(text, GM_ESYSTEM, "doorbells", errno);
    if (status == GM_OK)
        status = device->workers ? make_core(device, config, workers, text) : fail(text, GM_ENOMEM, "workers", errno);
    if (status == GM_OK && device->core.copy_bytes != UINT64_MAX)
        status = make_copies(device, config, text);
    if (status != GM_OK) {
        cpu_close(device);
        return status;
    }
    describe(hello, device);
    *out = device;
    return GM_OK;
}

static int cpu_join(struct gm_device *device, char *text)
{
    (void)text;
    if (device->live == 0)
        return GM_OK;
    pthread_join(device->dispatcher, NULL);
    for (uint32_t i = 0; i < device->live - 1u; i++)
        pthread_join(device->workers[i].thread, NULL);
    device->live = 0;
    return GM_OK;
}

static bool cpu_running(struct gm_device *device) { return device->live != 0; }

static int cpu_start(struct gm_device *device, char *text)
{
    const struct gm_core *core = &device->core;
    if (device->live != 0)
        return GM_OK;
    device->checked_in = 0;
    for (uint32_t i = 0; i < core->workers; i++) {
        struct gm_worker *w = &device->workers[i];
        w->device = device;
        w->index = i;
        const int error = pthread_create(&w->thread, NULL, gm_cpu_worker, w);
        if (error) {
            snprintf(text, GM_ERROR_TEXT_MAX, "worker %u of %u: %s", i + 1u, core->workers, strerror(error));
            return GM_ESYSTEM;
        }
    }
    core->saved->counters.launches++;
    const int error = pthread_create(&device->dispatcher, NULL, gm_cpu_dispatcher, device);
    if (error)
        return fail(text, GM_ESYSTEM, "dispatcher", error);
    device->live = core->workers + 1u;
    for (uint32_t ms = 0; __atomic_load_n(&device->checked_in, __ATOMIC_ACQUIRE) < core->workers; ms++) {
        if (ms >= GM_CHECKIN_MS) {
            snprintf(text, GM_ERROR_TEXT_MAX, "%u of %u workers checked in", device->checked_in, core->workers);
            return GM_ETIMEDOUT;
        }
        usleep(1000);
    }
    return GM_OK;
}

static int cpu_kick(struct gm_device *device, char *text)
{
    if (device->live == 0)
        return cpu_start(device, text);
    gm_cpu_wake_dispatcher(device);
    return GM_OK;
}

static void cpu_lane_wake(struct gm_device *device, uint32_t lane, int fd) { gm_wakes_set(&device->wakes, lane, fd); }

static int cpu_check(struct gm_device *device, char *text) { return (void)device, (void)text, GM_OK; }

static bool cpu_marks_host(const struct gm_device *device) { return device->core.copies != NULL; }

static int cpu_map(struct gm_device *device, void *host, uint64_t bytes, uint64_t *address, char *text)
{
    (void)device, (void)bytes, (void)text;
    *address = (uint64_t)(uintptr_t)host;
    return GM_OK;
}

static int cpu_unmap(struct gm_device *device, void *host, uint64_t bytes, char *text)
{
    (void)device, (void)host, (void)bytes, (void)text;
    return GM_OK;
}

/* A device arena on the CPU is private memory of the device process. The size stands in front of it. */
static int cpu_alloc(struct gm_device *device, uint64_t bytes, uint64_t *address, char *text)
{
    (void)device;
    uint64_t *p = reserve(bytes + GM_ARENA_ALIGN);
    if (!p)
        return fail(text, GM_ENOMEM, "device arena", errno);
    *p = bytes + GM_ARENA_ALIGN;
    *address = (uint64_t)(uintptr_t)p + GM_ARENA_ALIGN;
    return GM_OK;
}

static void cpu_free(struct gm_device *device, uint64_t address)
{
    (void)device;
    uint64_t *p = (uint64_t *)(uintptr_t)(address - GM_ARENA_ALIGN);
    munmap(p, *p);
}

static int cpu_event_fd(struct gm_device *device) { return (void)device, -1; }
static int cpu_service(struct gm_device *device, char *text) { return (void)device, (void)text, GM_OK; }

const struct gm_backend gm_backend_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .start = cpu_start,
    .running = cpu_running,
    .join = cpu_join,
    .kick = cpu_kick,
    .lane_wake = cpu_lane_wake,
    .check = cpu_check,
    .map = cpu_map,
    .unmap = cpu_unmap,
    .unmap_needs_stop = false,
    .marks_host = cpu_marks_host,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .event_fd = cpu_event_fd,
    .service = cpu_service,
    .close = cpu_close,
};
