/* SPDX-License-Identifier: Apache-2.0
 *
 * See selftest.h. Uses the last lane of the table and an arena row that clients cannot name (its session is none of
 * theirs), and closes both again; the memory stays mapped until the process ends, because unmapping needs a stop.
 */
#include "selftest.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define GM_SELFTEST_SESSION 0xffffffffu
#define GM_SELFTEST_SLOTS   16u
#define GM_SELFTEST_LOG2    4u
#define GM_SELFTEST_NUMBERS 4096u
#define GM_SELFTEST_MS      5000u

struct selftest {
    struct gm_lane_header *header;
    struct gm_desc_slot *sq;
    struct gm_granule *cq;
    uint64_t position;
};

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

/* Submits one descriptor and waits for its completion. */
static int answer(struct gm_admin *admin, struct selftest *t, const uint32_t *words, uint64_t *result, char *text)
{
    const uint64_t p = t->position++, deadline = now_ms() + GM_SELFTEST_MS;
    gm_desc_store(t->sq, GM_SELFTEST_LOG2, p, words, 0);
    gm_fence_sys(); /* pairs with the fence in gm_park */
    if (gm_load_relaxed_sys_u32(&t->header->asleep) || !admin->backend->running(admin->device)) {
        const int status = admin->backend->kick(admin->device, text);
        if (status != GM_OK)
            return status;
    }
    for (;;) {
        const struct gm_granule g = gm_load16_sys(&t->cq[p & (GM_SELFTEST_SLOTS - 1u)]);
        if (g.w[3] == gm_lap(p, GM_SELFTEST_LOG2)) {
            *result = gm_completion_result(g);
            return gm_completion_status(g);
        }
        if (now_ms() > deadline) {
            snprintf(text, GM_ERROR_TEXT_MAX, "self-test: job %llu was not answered", (unsigned long long)p);
            return GM_ETIMEDOUT;
        }
    }
}

static int run_jobs(struct gm_admin *admin, struct selftest *t, uint32_t handle, char *text)
{
    const uint64_t expected = (uint64_t)GM_SELFTEST_NUMBERS * (GM_SELFTEST_NUMBERS + 1u) / 2u;
    uint64_t result = 0;
    for (uint32_t i = 0; i < GM_SELFTEST_NOPS; i++) {
        const uint32_t words[GM_DESC_WORDS] = {GM_OP_nop};
        const int status = answer(admin, t, words, &result, text);
        if (status != GM_OK)
            return status;
    }
    uint32_t words[GM_DESC_WORDS] = {GM_OP_sum | GM_DTYPE_u32 << 16};
    words[GM_W_ARENA0] = handle;
    gm_desc_put64(words, GM_W_N, GM_SELFTEST_NUMBERS);
    const int status = answer(admin, t, words, &result, text);
    if (status == GM_OK && result != expected) {
        snprintf(text, GM_ERROR_TEXT_MAX, "self-test: sum is %llu, not %llu", (unsigned long long)result,
                 (unsigned long long)expected);
        return GM_EINTERNAL;
    }
    return status;
}

int gm_selftest(struct gm_admin *admin, char *text)
{
    const uint64_t lane_bytes = gm_lane_bytes(GM_SELFTEST_SLOTS), data_bytes = GM_SELFTEST_NUMBERS * sizeof(uint32_t);
    const uint64_t bytes = lane_bytes + 4096u + data_bytes;
    uint64_t address = 0;
    uint8_t *m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED) {
        snprintf(text, GM_ERROR_TEXT_MAX, "self-test memory: %s", strerror(errno));
        return GM_ENOMEM;
    }
    int status = admin->backend->map(admin->device, m, bytes, &address, text);
    if (status != GM_OK)
        return status;
    struct selftest t = {(struct gm_lane_header *)(void *)m, (struct gm_desc_slot *)(void *)(m + gm_lane_sq_offset()),
                         (struct gm_granule *)(void *)(m + gm_lane_cq_offset(GM_SELFTEST_SLOTS)), 0};
    t.header->slots = GM_SELFTEST_SLOTS;
    t.header->slots_log2 = GM_SELFTEST_LOG2;
    uint32_t *numbers = (uint32_t *)(void *)(m + lane_bytes + 4096u);
    for (uint32_t i = 0; i < GM_SELFTEST_NUMBERS; i++)
        numbers[i] = i + 1u;
    const struct gm_control_lane lane = {
        .index = GM_SELFTEST_LANE, .session = GM_SELFTEST_SESSION, .slots_log2 = GM_SELFTEST_LOG2};
    status = gm_admin_lane_open(admin, &lane, address, address + lane_bytes);
    if (status != GM_OK) {
        snprintf(text, GM_ERROR_TEXT_MAX, "self-test: the dispatcher did not open a lane (%d)", status);
        return status;
    }
    const struct gm_control_arena arena = {.handle = gm_handle(GM_ARENAS_MAX - 1u, 1), .session = GM_SELFTEST_SESSION,
                                           .bytes = data_bytes};
    status = gm_admin_arena_set(admin, &arena, address + lane_bytes + 4096u,
                                admin->backend->marks_host(admin->device) ? GM_ARENA_HOST : 0u);
    if (status == GM_OK)
        status = run_jobs(admin, &t, arena.handle, text);
    /* The entry of the last job comes back a moment after its answer; until then the lane is busy. */
    for (uint64_t end = now_ms() + GM_SELFTEST_MS; status == GM_OK;) {
        const int closed = gm_admin_lane_close(admin, GM_SELFTEST_LANE);
        if (closed != GM_EBUSY || now_ms() > end) {
            status = closed;
            break;
        }
    }
    return status == GM_OK ? gm_admin_arena_clear(admin, arena.handle) : status;
}
