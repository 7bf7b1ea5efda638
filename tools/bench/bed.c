/* SPDX-License-Identifier: Apache-2.0
 *
 * See bed.h. Opening and closing run on one thread; the path of a job allocates nothing and is bounded by
 * GM_BED_WAIT_NS.
 */
#include "bed.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bells.h"

#define GM_BED_SETTLE_NS   UINT64_C(5000000000)
#define GM_BED_CLOCK_LOOKS 4096u /* looks between two looks at the clock */

const struct gm_backend *gm_bed_backend(const char *name)
{
    if (strcmp(name, "cpu") == 0)
        return &gm_backend_cpu;
#ifdef GM_BED_CUDA
    if (strcmp(name, "cuda") == 0)
        return &gm_backend_cuda;
#endif
    return NULL;
}

static int say(struct gm_bed *bed, int status, const char *what, int error)
{
    snprintf(bed->text, sizeof bed->text, "%s: %s", what, strerror(error));
    return status;
}

static void header_fill(void *at, uint32_t slots_log2, uint64_t start)
{
    struct gm_lane_header *header = at;
    header->magic = GM_LANE_MAGIC;
    header->version = GM_LANE_VERSION;
    header->slots_log2 = slots_log2;
    header->slots = 1u << slots_log2;
    header->generation = 1;
    header->start = start;
    header->state = GM_LANE_OPEN;
}

static int region_make(struct gm_bed *bed, uint64_t lane_start)
{
    uint8_t *m = mmap(NULL, gm_region_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED)
        return say(bed, GM_ENOMEM, "region", errno);
    bed->region = m;
    struct gm_region_header *header = (struct gm_region_header *)(void *)m;
    header->magic = GM_REGION_MAGIC;
    header->version = GM_CONTROL_VERSION;
    header->bytes = gm_region_bytes();
    uint8_t *lane0 = m + gm_region_lane0_offset();
    header_fill(lane0, GM_BED_LANE0_LOG2, lane_start);
    header_fill(m + gm_region_admin_offset(), (uint32_t)__builtin_ctz(GM_ADMIN_SLOTS), 0);
    bed->header = (struct gm_lane_header *)(void *)lane0;
    bed->sq = (struct gm_desc_slot *)(void *)(lane0 + gm_lane_sq_offset());
    bed->cq = (const struct gm_granule *)(void *)(lane0 + gm_lane_cq_offset(GM_LANE0_SLOTS));
    bed->position = lane_start;
    bed->doorbell_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    bed->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    bed->bells_fd = gm_bells_open();
    if (bed->doorbell_fd < 0 || bed->wake_fd < 0 || bed->bells_fd < 0)
        return say(bed, GM_EFDS, "eventfd", errno);
    return gm_bells_add(bed->bells_fd, bed->doorbell_fd);
}

/* What is left when nothing runs any more. */
static void release(struct gm_bed *bed)
{
    for (uint32_t i = 0; i < bed->arenas; i++) {
        struct gm_bed_arena *a = &bed->arena[i];
        if (a->host) {
            (void)bed->backend->unmap(bed->device, a->host, a->bytes, bed->text);
            munmap(a->host, a->bytes);
        } else {
            bed->backend->free(bed->device, a->address);
        }
    }
    if (bed->device)
        bed->backend->close(bed->device);
    if (bed->region)
        munmap(bed->region, gm_region_bytes());
    if (bed->bells_fd >= 0)
        close(bed->bells_fd);
    if (bed->doorbell_fd >= 0)
        close(bed->doorbell_fd);
    if (bed->wake_fd >= 0)
        close(bed->wake_fd);
    bed->device = NULL;
    bed->region = NULL;
    bed->arenas = 0;
}

static int lane0_open(struct gm_bed *bed)
{
    uint64_t address = 0;
    int status = bed->backend->map(bed->device, bed->region, gm_region_bytes(), &address, bed->text);
    if (status != GM_OK)
        return status;
    const struct gm_control_lane lane0 = {.slots_log2 = GM_BED_LANE0_LOG2, .start = bed->position};
    status = gm_admin_lane_open(&bed->admin, &lane0, address + gm_region_lane0_offset(),
                                address + gm_region_journal_offset(0));
    if (status != GM_OK)
        snprintf(bed->text, sizeof bed->text, "the dispatcher did not open lane 0 (status %d)", status);
    return status;
}

int gm_bed_open(struct gm_bed *bed, const struct gm_backend *backend, const struct gm_device_config *config,
                uint64_t lane_start)
{
    struct gm_device_config c = *config;
    memset(bed, 0, sizeof *bed);
    bed->backend = backend;
    bed->doorbell_fd = bed->bells_fd = bed->wake_fd = -1;
    /* With few processors a client that only looks keeps the workers from running. */
    bed->spins = sysconf(_SC_NPROCESSORS_ONLN) > 4 ? 0 : 200;
    int status = lane_start % GM_LANE0_SLOTS == 0 && gm_lap(lane_start, GM_BED_LANE0_LOG2) != 0
                     ? region_make(bed, lane_start)
                     : say(bed, GM_EINVAL, "lane start", EINVAL);
    c.region = bed->region;
    c.bells_fd = bed->bells_fd;
    c.wake_fd = bed->wake_fd;
    if (status == GM_OK)
        status = backend->open(&c, &bed->device, &bed->hello, bed->text);
    if (status == GM_OK) {
        gm_admin_init(&bed->admin, bed->backend, bed->device, bed->region);
        status = backend->start(bed->device, bed->text);
        if (status == GM_OK)
            status = lane0_open(bed);
        if (status != GM_OK) {
            char text[GM_ERROR_TEXT_MAX]; /* the first error is the one to tell */
            if (gm_admin_stop(&bed->admin, text) != GM_OK)
                return status; /* something still runs, and freeing would wait for it: the process is to end */
        }
    }
    if (status != GM_OK)
        release(bed);
    return status;
}

int gm_bed_close(struct gm_bed *bed)
{
    const int status = gm_admin_stop(&bed->admin, bed->text);
    if (status == GM_OK) /* else the workers still use everything; the process is about to end */
        release(bed);
    return status;
}

int gm_bed_arena_open(struct gm_bed *bed, uint64_t bytes, bool on_device, uint32_t generation,
                      struct gm_bed_arena **out)
{
    struct gm_bed_arena *a = &bed->arena[bed->arenas];
    if (bed->arenas == GM_BED_ARENAS)
        return say(bed, GM_ENOMEM, "arenas of a bed", ENOSPC);
    a->bytes = (bytes + GM_ARENA_ALIGN - 1u) / GM_ARENA_ALIGN * GM_ARENA_ALIGN;
    a->handle = gm_handle(bed->arenas, generation);
    a->host = NULL;
    int status;
    if (on_device) {
        status = bed->backend->alloc(bed->device, a->bytes, &a->address, bed->text);
    } else {
        a->host = mmap(NULL, a->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (a->host == MAP_FAILED)
            return say(bed, GM_ENOMEM, "arena", errno);
        status = bed->backend->map(bed->device, a->host, a->bytes, &a->address, bed->text);
        if (status != GM_OK)
            munmap(a->host, a->bytes);
    }
    if (status != GM_OK)
        return status;
    bed->arenas++;
    const struct gm_control_arena set = {.handle = a->handle,
                                         .kind = on_device ? GM_ARENA_DEVICE : GM_ARENA_SHARED,
                                         .session = GM_BED_SESSION,
                                         .bytes = a->bytes};
    const uint32_t host = !on_device && bed->backend->marks_host(bed->device) ? GM_ARENA_HOST : 0;
    status = gm_admin_arena_set(&bed->admin, &set, a->address, host);
    if (status != GM_OK)
        snprintf(bed->text, sizeof bed->text, "the dispatcher did not take an arena (status %d)", status);
    *out = a;
    return status;
}

struct gm_device_counters gm_bed_counters(const struct gm_bed *bed)
{
    struct gm_device_counters counters;
    const struct gm_region_header *header = (const struct gm_region_header *)(const void *)bed->region;
    const uint64_t *from = (const uint64_t *)(const void *)&header->counters;
    uint64_t *to = (uint64_t *)(void *)&counters;
    for (uint32_t i = 0; i < sizeof counters / sizeof *to; i++)
        to[i] = gm_load_relaxed_sys_u64(&from[i]);
    return counters;
}

int gm_bed_settle(struct gm_bed *bed)
{
    const uint64_t deadline = gm_bed_now_ns() + GM_BED_SETTLE_NS;
    for (;;) {
        /* The counters are stored now and then; a ping makes the dispatcher turn. */
        const int status = gm_admin_ping(&bed->admin, NULL, GM_BED_SETTLE_NS / 1000000u);
        const struct gm_device_counters c = gm_bed_counters(bed);
        if (status != GM_OK || (c.entries == 0 && c.started == c.completed))
            return status;
        if (gm_bed_now_ns() > deadline) {
            snprintf(bed->text, sizeof bed->text, "%llu jobs stay in the device", (unsigned long long)c.entries);
            return GM_ETIMEDOUT;
        }
        usleep(100);
    }
}

int gm_bed_pause(struct gm_bed *bed)
{
    const int status = gm_admin_stop(&bed->admin, bed->text);
    return status == GM_OK ? bed->backend->start(bed->device, bed->text) : status;
}

int gm_bed_ring(struct gm_bed *bed)
{
    const uint64_t one = 1;
    if (!gm_bed_asleep(bed))
        return GM_OK;
    if (bed->backend->unmap_needs_stop) /* a kernel that has ended; only the opening thread may start it */
        return bed->backend->kick(bed->device, bed->text);
    if (write(bed->doorbell_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        return say(bed, GM_ESYSTEM, "doorbell", errno);
    return GM_OK;
}

int gm_bed_submit(struct gm_bed *bed, const uint32_t *words, uint64_t *position)
{
    *position = bed->position;
    bed->position = gm_bed_put(bed, bed->position, words);
    return gm_bed_ring(bed);
}

int gm_bed_wait(struct gm_bed *bed, uint64_t position, struct gm_granule *completion)
{
    uint64_t deadline = 0;
    for (uint32_t look = 1; !gm_bed_answered(bed, position, completion); look++) {
        gm_bed_relax();
        if (bed->spins != 0 && look >= bed->spins)
            sched_yield();
        if (look % GM_BED_CLOCK_LOOKS != 0)
            continue;
        const uint64_t now = gm_bed_now_ns();
        deadline = deadline ? deadline : now + GM_BED_WAIT_NS;
        if (now > deadline) {
            snprintf(bed->text, sizeof bed->text, "the job at position %llu was not answered",
                     (unsigned long long)position);
            return GM_ETIMEDOUT;
        }
    }
    return GM_OK;
}

int gm_bed_run(struct gm_bed *bed, const uint32_t *words, uint64_t *result)
{
    uint64_t position;
    struct gm_granule completion;
    int status = gm_bed_submit(bed, words, &position);
    if (status == GM_OK)
        status = gm_bed_wait(bed, position, &completion);
    if (status != GM_OK)
        return status;
    if (result)
        *result = gm_completion_result(completion);
    status = gm_completion_status(completion);
    if (status != GM_OK)
        snprintf(bed->text, sizeof bed->text, "the job at position %llu failed with status %d",
                 (unsigned long long)position, status);
    return status;
}

static void words_buffer(uint32_t *words, uint32_t which, const struct gm_bed_arena *arena, uint64_t offset)
{
    words[which == 0 ? GM_W_ARENA0 : GM_W_ARENA1] = arena->handle;
    gm_desc_put64(words, which == 0 ? GM_W_OFFSET0 : GM_W_OFFSET1, offset);
}

void gm_bed_words(uint32_t *words, uint32_t op, uint32_t dtype, uint64_t n, const struct gm_bed_arena *in,
                  uint64_t in_offset, const struct gm_bed_arena *out, uint64_t out_offset)
{
    memset(words, 0, GM_DESC_WORDS * sizeof *words);
    words[GM_W_OP] = op | dtype << 16;
    words[GM_W_SESSION] = GM_BED_SESSION;
    gm_desc_put64(words, GM_W_N, n);
    if (in)
        words_buffer(words, 0, in, in_offset);
    if (out)
        words_buffer(words, in ? 1 : 0, out, out_offset);
}

void gm_bed_words_fill(uint32_t *words, uint32_t dtype, uint64_t n, uint64_t value, const struct gm_bed_arena *out,
                       uint64_t out_offset)
{
    gm_bed_words(words, GM_OP_fill, dtype, n, NULL, 0, out, out_offset);
    words[GM_W_OP] |= (uint32_t)GM_FLAG_WIDE << 24;
    words[GM_W_WIDE] = GM_DESC_WIDE_MARK;
    gm_desc_put64(words, GM_W_VALUE0, value);
}

void gm_bed_words_histogram(uint32_t *words, uint32_t dtype, uint64_t n, uint32_t bins, double lo, double hi,
                            const struct gm_bed_arena *in, const struct gm_bed_arena *out, uint64_t out_offset)
{
    uint64_t bits;
    gm_bed_words(words, GM_OP_histogram, dtype, n, in, 0, out, out_offset);
    words[GM_W_OP] |= (uint32_t)GM_FLAG_WIDE << 24;
    words[GM_W_WIDE] = GM_DESC_WIDE_MARK;
    words[GM_W_COUNT] = bins;
    memcpy(&bits, &lo, sizeof bits);
    gm_desc_put64(words, GM_W_VALUE0, bits);
    memcpy(&bits, &hi, sizeof bits);
    gm_desc_put64(words, GM_W_VALUE1, bits);
}
