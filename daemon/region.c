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

/* A start position other than 0 lets tests cross the wraps of position and lap within seconds. Slots then look as if
 * the lap before had been there, because zeroed memory must not look like lap 0. */
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

int gm_region_create(struct gm_device *v)
{
    const uint64_t bytes = gm_region_bytes();
    const char *text = getenv("GRIDMILL_LANE_START");
    const uint64_t start = text != NULL ? strtoull(text, NULL, 0) : 0;
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
    gm_lane_format(v->region + gm_region_lane0_offset(), GM_LANE0_SLOTS, start);
    gm_lane_format(v->region + gm_region_admin_offset(), GM_ADMIN_SLOTS, start);
    uint32_t *journal = (uint32_t *)(void *)(v->region + gm_region_journal_offset());
    for (uint64_t p = start; start != 0 && p != start + GM_LANE0_SLOTS; p++)
        journal[p & (GM_LANE0_SLOTS - 1u)] = gm_lap(p, (uint32_t)__builtin_ctz(GM_LANE0_SLOTS)) - 1u;
    v->lane = (struct gm_lane_header *)(void *)(v->region + gm_region_lane0_offset());
    v->sq = (struct gm_desc_slot *)(void *)((uint8_t *)v->lane + gm_lane_sq_offset());
    v->cq = (struct gm_granule *)(void *)((uint8_t *)v->lane + gm_lane_cq_offset(GM_LANE0_SLOTS));
    v->head = start, v->reaped = 0;
    return GM_OK;
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
