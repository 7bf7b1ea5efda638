/* SPDX-License-Identifier: Apache-2.0
 *
 * See harness.h. Waits look first and sleep then, because the machine may have fewer processors than threads.
 */
#include "harness.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "bells.h"

#define LOOKS 2000u

uint64_t gm_harness_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

static const char *backend_name(void)
{
    const char *name = getenv("GRIDMILL_TEST_BACKEND");
    return name && *name ? name : "cpu";
}

static uint32_t env_number(const char *name, uint32_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? (uint32_t)strtoul(text, NULL, 0) : otherwise;
}

bool gm_harness_is_cuda(void) { return strcmp(backend_name(), "cuda") == 0; }

const struct gm_backend *gm_harness_backend(void)
{
    if (strcmp(backend_name(), "cpu") == 0)
        return &gm_backend_cpu;
#ifdef GM_TEST_CUDA
    if (gm_harness_is_cuda())
        return &gm_backend_cuda;
#endif
    return NULL;
}

/* A header as gridmilld fills it before anybody else sees it. */
static void header_fill(struct gm_lane_header *header, uint32_t slots_log2, uint64_t start)
{
    header->magic = GM_LANE_MAGIC;
    header->version = GM_LANE_VERSION;
    header->slots_log2 = slots_log2;
    header->slots = 1u << slots_log2;
    header->generation = 1;
    header->start = start;
    header->state = GM_LANE_OPEN;
}

static uint32_t log2_of(uint32_t v)
{
    uint32_t log2 = 0;
    while (1u << log2 < v)
        log2++;
    return log2;
}

static void *memory(uint64_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

static uint64_t map(struct gm_harness *h, void *host, uint64_t bytes)
{
    uint64_t address = 0;
    assert_true(h->maps < GM_HARNESS_MAPS);
    const int status = h->backend->map(h->device, host, bytes, &address, h->text);
    if (status != GM_OK)
        fail_msg("map: %s", h->text);
    h->map[h->maps].host = host;
    h->map[h->maps].bytes = bytes;
    h->map[h->maps++].address = address;
    return address;
}

void gm_harness_open(struct gm_harness *h, const struct gm_device_config *config)
{
    struct gm_device_config c = *config;
    memset(h, 0, sizeof *h);
    h->backend = gm_harness_backend();
    if (!h->backend) {
        fprintf(stderr, "skipped: this build has no %s backend\n", backend_name());
        exit(77);
    }
    h->region = memory(gm_region_bytes());
    struct gm_region_header *header = (struct gm_region_header *)(void *)h->region;
    header->magic = GM_REGION_MAGIC;
    header->version = GM_CONTROL_VERSION;
    header->bytes = gm_region_bytes();
    header_fill((struct gm_lane_header *)(void *)(h->region + gm_region_lane0_offset()), log2_of(GM_LANE0_SLOTS), 0);
    header_fill((struct gm_lane_header *)(void *)(h->region + gm_region_admin_offset()), log2_of(GM_ADMIN_SLOTS), 0);
    h->doorbell_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    h->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    h->bells_fd = gm_bells_open();
    assert_true(h->doorbell_fd >= 0 && h->wake_fd >= 0 && h->bells_fd >= 0);
    assert_int_equal(gm_bells_add(h->bells_fd, h->doorbell_fd), GM_OK);
    c.region = h->region;
    c.bells_fd = h->bells_fd;
    c.wake_fd = h->wake_fd;
    if (!c.device)
        c.device = gm_harness_is_cuda() ? "cuda:0" : "cpu";
    if (c.workers == 0)
        c.workers = env_number("GRIDMILL_TEST_WORKERS", gm_harness_is_cuda() ? 0 : 4);
    c.plain = env_number("GRIDMILL_TEST_PLAIN", c.plain);
    const int status = h->backend->open(&c, &h->device, &h->hello, h->text);
    if (status == GM_ENODEVICE) {
        fprintf(stderr, "skipped: no %s: %s\n", c.device, h->text);
        exit(77);
    }
    if (status != GM_OK || h->backend->start(h->device, h->text) != GM_OK)
        fail_msg("%s does not start: %s", c.device, h->text);
    gm_admin_init(&h->admin, h->backend, h->device, h->region);
}

void gm_harness_close(struct gm_harness *h)
{
    if (gm_admin_stop(&h->admin, h->text) != GM_OK)
        fail_msg("stop: %s", h->text);
    for (uint32_t i = 0; i < h->maps; i++) {
        if (!h->map[i].host) {
            h->backend->free(h->device, h->map[i].address);
            continue;
        }
        if (h->backend->unmap(h->device, h->map[i].host, h->map[i].bytes, h->text) != GM_OK)
            fail_msg("unmap: %s", h->text);
        munmap(h->map[i].host, h->map[i].bytes); /* the guard pages of an arena stay: an address is never reused */
    }
    h->backend->close(h->device);
    munmap(h->region, gm_region_bytes());
    close(h->bells_fd);
    close(h->doorbell_fd);
    close(h->wake_fd);
}

void gm_harness_lane_open(struct gm_harness *h, struct gm_harness_lane *lane, uint32_t index, uint32_t slots_log2,
                          uint64_t start)
{
    const uint64_t lane_bytes = gm_lane_bytes(1u << slots_log2), bytes = lane_bytes + GM_LANE_SLOTS_MAX * 4u;
    uint8_t *base = memory(bytes);
    const uint64_t address = map(h, base, bytes);
    memset(lane, 0, sizeof *lane);
    lane->harness = h;
    lane->header = (struct gm_lane_header *)(void *)base;
    lane->sq = (struct gm_desc_slot *)(void *)(base + gm_lane_sq_offset());
    lane->cq = (struct gm_granule *)(void *)(base + gm_lane_cq_offset(1u << slots_log2));
    lane->index = index;
    lane->slots_log2 = slots_log2;
    lane->position = start;
    header_fill(lane->header, slots_log2, start);
    const struct gm_control_lane open = {
        .index = index, .session = GM_HARNESS_SESSION, .slots_log2 = slots_log2, .start = start};
    assert_int_equal(gm_admin_lane_open(&h->admin, &open, address, address + lane_bytes), GM_OK);
}

void gm_harness_arena_open(struct gm_harness *h, struct gm_harness_arena *arena, uint64_t bytes, bool on_device)
{
    const uint64_t page = GM_ARENA_ALIGN;
    memset(arena, 0, sizeof *arena);
    arena->bytes = (bytes + page - 1u) & ~(page - 1u);
    if (on_device) {
        if (h->backend->alloc(h->device, arena->bytes, &arena->address, h->text) != GM_OK)
            fail_msg("device memory: %s", h->text);
        assert_true(h->maps < GM_HARNESS_MAPS);
        h->map[h->maps].host = NULL;
        h->map[h->maps++].address = arena->address;
    } else {
        uint8_t *base = memory(arena->bytes + 2u * page);
        assert_int_equal(mprotect(base, page, PROT_NONE), 0);
        assert_int_equal(mprotect(base + page + arena->bytes, page, PROT_NONE), 0);
        arena->data = base + page;
        arena->address = map(h, arena->data, arena->bytes);
    }
    arena->handle = gm_handle(h->arenas++, 1);
    const struct gm_control_arena set = {.handle = arena->handle,
                                         .kind = on_device ? GM_ARENA_DEVICE : GM_ARENA_SHARED,
                                         .session = GM_HARNESS_SESSION,
                                         .bytes = arena->bytes};
    const uint32_t flags = !on_device && h->backend->marks_host(h->device) ? GM_ARENA_HOST : 0;
    assert_int_equal(gm_admin_arena_set(&h->admin, &set, arena->address, flags), GM_OK);
}

static void ring(struct gm_harness_lane *lane)
{
    struct gm_harness *h = lane->harness;
    gm_fence_sys(); /* the client's half of the doorbell: pairs with the fence in gm_park */
    if (h->backend->running(h->device) && !gm_load_relaxed_sys_u32(&lane->header->asleep))
        return;
    if (h->backend->kick(h->device, h->text) != GM_OK)
        fail_msg("kick: %s", h->text);
}

uint64_t gm_harness_submit(struct gm_harness_lane *lane, const uint32_t *words)
{
    const uint32_t slots = 1u << lane->slots_log2, halves = words[GM_W_OP] >> 24 & GM_FLAG_WIDE ? 2 : 1;
    const uint64_t position = lane->position;
    for (uint32_t half = 0; half < halves; half++) {
        uint8_t *pending = &lane->pending[(position + half) & (slots - 1u)];
        assert_int_equal(*pending, 0);
        *pending = (uint8_t)(half == 0 ? halves : 1u);
    }
    for (uint32_t half = 0; half < halves; half++)
        gm_desc_store(lane->sq, lane->slots_log2, position + half, words, half);
    lane->position += halves;
    ring(lane);
    return position;
}

bool gm_harness_answered(const struct gm_harness_lane *lane, uint64_t position, struct gm_granule *completion)
{
    *completion = gm_load16_sys(&lane->cq[position & ((1u << lane->slots_log2) - 1u)]);
    return completion->w[3] == gm_lap(position, lane->slots_log2);
}

/* A device that parked with work before it (the bounded mode of the sanitizers) is started again by whoever waits. */
static void wait_step(struct gm_harness *h, uint32_t look)
{
    const struct timespec nap = {0, 50000};
    if (look < LOOKS) {
        sched_yield();
        return;
    }
    if (h->backend->event_fd(h->device) >= 0 && h->backend->service(h->device, h->text) != GM_OK)
        fail_msg("service: %s", h->text);
    nanosleep(&nap, NULL);
}

struct gm_granule gm_harness_wait(struct gm_harness_lane *lane, uint64_t position)
{
    const uint32_t mask = (1u << lane->slots_log2) - 1u;
    const uint64_t deadline = gm_harness_now_ms() + GM_HARNESS_WAIT_MS;
    struct gm_granule completion;
    for (uint32_t look = 0; !gm_harness_answered(lane, position, &completion); look++) {
        wait_step(lane->harness, look);
        if (look >= LOOKS && gm_harness_now_ms() > deadline)
            fail_msg("lane %u: no answer at position %llu", lane->index, (unsigned long long)position);
        if (look >= LOOKS)
            ring(lane);
    }
    if (lane->pending[position & mask] == 2)
        lane->pending[(position + 1u) & mask] = 0;
    lane->pending[position & mask] = 0;
    return completion;
}

struct gm_device_counters gm_harness_idle(struct gm_harness *h)
{
    const uint64_t deadline = gm_harness_now_ms() + GM_HARNESS_WAIT_MS;
    struct gm_device_counters counters;
    const uint64_t *from = (const uint64_t *)(void *)&((struct gm_region_header *)(void *)h->region)->counters;
    for (uint32_t look = 0;; look++) {
        uint64_t *to = (uint64_t *)(void *)&counters;
        /* The dispatcher stores its counters now and then; a ping's answer makes it turn. */
        assert_int_equal(gm_admin_ping(&h->admin, NULL, GM_HARNESS_WAIT_MS), GM_OK);
        for (uint32_t i = 0; i < sizeof counters / sizeof *to; i++)
            to[i] = gm_load_relaxed_sys_u64(&from[i]);
        if (counters.entries == 0 && counters.workspace == 0 && counters.started == counters.completed)
            return counters;
        if (gm_harness_now_ms() > deadline)
            fail_msg("%llu jobs and %llu bytes of workspace stay behind", (unsigned long long)counters.entries,
                     (unsigned long long)counters.workspace);
        wait_step(h, look);
    }
}
