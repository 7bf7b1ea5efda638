/* SPDX-License-Identifier: Apache-2.0
 *
 * See admin.h. Waits by looking at the completion granule, first without, then with short sleeps: the answer comes
 * within microseconds unless the dispatcher has to be woken.
 */
#include "admin.h"

#include <string.h>
#include <time.h>

#define GM_ADMIN_CALL_MS 2000u
#define GM_ADMIN_SPINS   20000u

void gm_admin_clear(void *region)
{
    memset((uint8_t *)region + gm_region_admin_offset() + gm_lane_sq_offset(), 0,
           gm_lane_bytes(GM_ADMIN_SLOTS) - gm_lane_sq_offset());
}

void gm_admin_init(struct gm_admin *admin, const struct gm_backend *backend, struct gm_device *device, void *region)
{
    uint8_t *base = (uint8_t *)region + gm_region_admin_offset();
    admin->backend = backend;
    admin->device = device;
    admin->header = (struct gm_lane_header *)(void *)base;
    admin->sq = (struct gm_desc_slot *)(void *)(base + gm_lane_sq_offset());
    admin->cq = (struct gm_granule *)(void *)(base + gm_lane_cq_offset(GM_ADMIN_SLOTS));
    admin->position = 0;
}

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

static uint64_t post(struct gm_admin *admin, const uint32_t *words)
{
    gm_desc_store(admin->sq, admin->header->slots_log2, admin->position, words, 0);
    return admin->position++;
}

/* Waits for the answer at a position, which may have been posted before. */
static int await(struct gm_admin *admin, uint64_t position, uint64_t *result, uint32_t timeout_ms)
{
    const uint64_t deadline = now_ms() + timeout_ms;
    const uint32_t lap = gm_lap(position, admin->header->slots_log2);
    const struct gm_granule *slot = &admin->cq[position & (GM_ADMIN_SLOTS - 1u)];
    char text[GM_ERROR_TEXT_MAX];
    gm_fence_sys(); /* the client's half of the doorbell: pairs with the fence in gm_park */
    if (gm_load16_sys(slot).w[3] != lap &&
        (!admin->backend->running(admin->device) || gm_load_relaxed_sys_u32(&admin->header->asleep))) {
        const int status = admin->backend->kick(admin->device, text);
        if (status != GM_OK)
            return status;
    }
    for (uint32_t spin = 0;; spin++) {
        const struct gm_granule g = gm_load16_sys(slot);
        if (g.w[3] == lap) {
            if (result)
                *result = gm_completion_result(g);
            return gm_completion_status(g);
        }
        if (spin < GM_ADMIN_SPINS)
            continue;
        if (now_ms() >= deadline)
            return GM_ETIMEDOUT;
        const int status = admin->backend->check(admin->device, text);
        if (status != GM_OK)
            return status;
        const struct timespec nap = {0, 50000};
        nanosleep(&nap, NULL);
    }
}

int gm_admin_call(struct gm_admin *admin, const uint32_t *words, uint64_t *result, uint32_t timeout_ms)
{
    return await(admin, post(admin, words), result, timeout_ms);
}

int gm_admin_lane_open(struct gm_admin *admin, const struct gm_control_lane *lane, uint64_t address, uint64_t journal)
{
    uint32_t words[GM_DESC_WORDS] = {GM_ADMIN_LANE_OPEN, lane->index, lane->session};
    gm_desc_put64(words, GM_A_ADDRESS, address);
    gm_desc_put64(words, GM_A_BYTES, lane->start);
    words[GM_A_FLAGS] = lane->slots_log2;
    gm_desc_put64(words, GM_A_POSITION, journal);
    gm_desc_put64(words, GM_A_COUNT, lane->answered);
    return gm_admin_call(admin, words, NULL, GM_ADMIN_CALL_MS);
}

int gm_admin_lane_close(struct gm_admin *admin, uint32_t lane)
{
    const uint32_t words[GM_DESC_WORDS] = {GM_ADMIN_LANE_CLOSE, lane};
    return gm_admin_call(admin, words, NULL, GM_ADMIN_CALL_MS);
}

int gm_admin_arena_set(struct gm_admin *admin, const struct gm_control_arena *arena, uint64_t address, uint32_t flags)
{
    uint32_t words[GM_DESC_WORDS] = {GM_ADMIN_ARENA_SET, arena->handle, arena->session};
    gm_desc_put64(words, GM_A_ADDRESS, address);
    gm_desc_put64(words, GM_A_BYTES, arena->bytes);
    words[GM_A_FLAGS] = flags;
    return gm_admin_call(admin, words, NULL, GM_ADMIN_CALL_MS);
}

int gm_admin_arena_clear(struct gm_admin *admin, uint32_t handle)
{
    const uint32_t words[GM_DESC_WORDS] = {GM_ADMIN_ARENA_CLEAR, handle};
    return gm_admin_call(admin, words, NULL, GM_ADMIN_CALL_MS);
}

int gm_admin_cancel(struct gm_admin *admin, uint32_t lane, uint64_t position)
{
    uint32_t words[GM_DESC_WORDS] = {GM_ADMIN_CANCEL, lane};
    gm_desc_put64(words, GM_A_POSITION, position);
    return gm_admin_call(admin, words, NULL, GM_ADMIN_CALL_MS);
}

int gm_admin_ping(struct gm_admin *admin, uint64_t *turns, uint32_t timeout_ms)
{
    const uint32_t words[GM_DESC_WORDS] = {GM_ADMIN_PING};
    return gm_admin_call(admin, words, turns, timeout_ms);
}

int gm_admin_stop(struct gm_admin *admin, char *text)
{
    const uint32_t words[GM_DESC_WORDS] = {GM_ADMIN_STOP};
    if (admin->stop || admin->backend->running(admin->device)) {
        if (!admin->stop)
            admin->stop_position = post(admin, words);
        admin->stop = true;
        const int status = await(admin, admin->stop_position, NULL, GM_ADMIN_CALL_MS);
        if (status != GM_OK)
            return status;
        admin->stop = false;
    }
    return admin->backend->join(admin->device, text);
}
