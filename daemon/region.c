/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that gridmilld makes and others map: the region of a device (counters, journal, lane 0, admin lane) and
 * sealed memfds in general. Loop thread; gm_memfd also in the pool. Sizes come from control.h.
 */
#include "devices.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "errors.h"

static int gm_memfd_error(void)
{
    if (errno == EMFILE || errno == ENFILE)
        return GM_EFDS;
    return errno == ENOSPC || errno == ENOMEM || errno == EFBIG ? GM_ENOMEM : GM_ESYSTEM;
}

/* The descriptor, or a negative error. allocate: all pages now, so that a lack of memory is an error here and not a
 * SIGBUS later. */
int gm_memfd(const char *name, uint64_t bytes, bool allocate)
{
    const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return gm_memfd_error();
    int failed = ftruncate(fd, (off_t)bytes);
    while (failed == 0 && allocate && (failed = fallocate(fd, 0, 0, (off_t)bytes)) != 0 && errno == EINTR)
        failed = 0;
    if (failed == 0)
        failed = fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    if (failed == 0)
        return fd;
    const int error = gm_memfd_error();
    close(fd);
    return error;
}

/* A start position other than 0 lets tests cross the wraps of position and lap within seconds. */
static uint64_t gm_region_first_position(void)
{
    const char *text = getenv("GRIDMILL_LANE_START");
    return text != NULL ? strtoull(text, NULL, 0) : 0;
}

/* Slots look as if the lap before had been there, because zeroed memory must not look like lap 0. */
static void gm_lane_format(uint8_t *lane, uint32_t slots, uint64_t start)
{
    struct gm_lane_header *header = (struct gm_lane_header *)(void *)lane;
    struct gm_desc_slot *sq = (struct gm_desc_slot *)(void *)(lane + gm_lane_sq_offset());
    struct gm_granule *cq = (struct gm_granule *)(void *)(lane + gm_lane_cq_offset(slots));
    header->magic = GM_LANE_MAGIC, header->version = GM_LANE_VERSION;
    header->slots = slots, header->slots_log2 = (uint32_t)__builtin_ctz(slots);
    header->generation = 1, header->start = start;
    header->state = GM_LANE_OPEN;
    for (uint64_t p = start; start != 0 && p != start + slots; p++) {
        const uint32_t slot = (uint32_t)(p & (slots - 1u)), lap = gm_lap(p, header->slots_log2) - 1u;
        for (uint32_t i = 0; i < 4; i++)
            sq[slot].g[i].w[3] = lap;
        cq[slot].w[3] = lap;
    }
}

struct gm_lane_note *gm_region_note(const struct gm_device *v, uint32_t lane)
{
    return (struct gm_lane_note *)(void *)(v->region + gm_region_notes_offset()) + lane;
}

uint32_t *gm_region_journal(const struct gm_device *v, uint32_t lane)
{
    return (uint32_t *)(void *)(v->region + gm_region_journal_offset(lane));
}

void gm_region_lane(struct gm_device *v, uint32_t lane, uint8_t *memory, uint32_t slots)
{
    const uint64_t start = gm_region_first_position();
    struct gm_lane_note *note = gm_region_note(v, lane);
    uint32_t *journal = gm_region_journal(v, lane);
    gm_lane_format(memory, slots, start);
    for (uint64_t p = start; p != start + slots; p++)
        journal[p & (slots - 1u)] = start != 0 ? gm_lap(p, (uint32_t)__builtin_ctz(slots)) - 1u : 0;
    *note = (struct gm_lane_note){.head = start};
}

int gm_region_create(struct gm_device *v)
{
    const uint64_t bytes = gm_region_bytes();
    v->region_fd = gm_memfd("gridmill-region", bytes, true);
    if (v->region_fd < 0)
        return v->region_fd;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, v->region_fd, 0);
    if (memory == MAP_FAILED) {
        close(v->region_fd);
        v->region_fd = -1;
        return GM_ENOMEM;
    }
    v->region = memory;
    struct gm_region_header *header = memory;
    header->magic = GM_REGION_MAGIC, header->version = GM_CONTROL_VERSION, header->bytes = bytes;
    gm_lane_format(v->region + gm_region_admin_offset(), GM_ADMIN_SLOTS, gm_region_first_position());
    v->lane = (struct gm_lane_header *)(void *)(v->region + gm_region_lane0_offset());
    v->sq = (struct gm_desc_slot *)(void *)((uint8_t *)v->lane + gm_lane_sq_offset());
    v->cq = (struct gm_granule *)(void *)((uint8_t *)v->lane + gm_lane_cq_offset(GM_LANE0_SLOTS));
    gm_region_lane(v, 0, (uint8_t *)v->lane, GM_LANE0_SLOTS);
    v->head = v->lane->start, v->reaped = 0;
    return GM_OK;
}

/* What a process counted is added to what the ones before it did; the rest are levels, and begin anew. */
static void gm_region_keep(struct gm_device_counters *past, const struct gm_device_counters *now)
{
    past->turns += now->turns, past->polled += now->polled, past->refused += now->refused;
    past->started += now->started, past->completed += now->completed, past->phases += now->phases;
    past->tickets += now->tickets, past->held += now->held, past->wakes += now->wakes;
    past->launches += now->launches, past->parks += now->parks, past->pauses += now->pauses;
    past->lane_submitted += now->lane_submitted, past->lane_done += now->lane_done;
    past->lane_failed += now->lane_failed, past->lane_rejected += now->lane_rejected;
    past->lane_cancelled += now->lane_cancelled;
    past->engine_copies += now->engine_copies, past->engine_full += now->engine_full, past->leases += now->leases;
    for (uint32_t op = 0; op < GM_OP_COUNT; op++)
        past->op_done[op] += now->op_done[op], past->op_failed[op] += now->op_failed[op];
}

void gm_region_renew(struct gm_device *v)
{
    struct gm_region_header *header = (struct gm_region_header *)(void *)v->region;
    uint8_t *admin = v->region + gm_region_admin_offset();
    gm_region_keep(&v->past, &header->counters);
    memset(&header->counters, 0, sizeof header->counters);
    memset(v->region + gm_region_workers_offset(), 0, GM_SHARES_MAX * sizeof(struct gm_granule));
    memset(admin, 0, gm_lane_bytes(GM_ADMIN_SLOTS));
    gm_lane_format(admin, GM_ADMIN_SLOTS, gm_region_first_position());
    /* Nothing is left in lane 0: it goes on behind everything that was written to it, and counts from 0. */
    v->lane->start = v->head, v->lane->asleep = 0;
    v->reaped = v->window_reaped = 0, v->armed = false;
    v->lane->wait = (struct gm_granule){{0, 0, 0, 0}};
    *gm_region_note(v, 0) = (struct gm_lane_note){.head = v->head};
}

void gm_region_release(struct gm_device *v)
{
    if (v->region != NULL)
        munmap(v->region, gm_region_bytes());
    if (v->region_fd >= 0)
        close(v->region_fd);
    v->region = NULL, v->region_fd = -1, v->lane = NULL;
}

uint64_t gm_region_busy_ns(const struct gm_device *v)
{
    const struct gm_granule *words = (const struct gm_granule *)(const void *)(v->region + gm_region_workers_offset());
    uint64_t sum = 0;
    for (uint32_t i = 0; i < v->hello.workers && i < GM_SHARES_MAX; i++) {
        const struct gm_granule g = gm_load16_sys(&words[i]);
        sum += g.w[0] | (uint64_t)g.w[1] << 32;
    }
    return sum;
}
