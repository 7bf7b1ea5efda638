/* SPDX-License-Identifier: Apache-2.0
 *
 * The dispatcher thread of the CPU device: turns of device/core, and sleep on the doorbell when a turn says park.
 */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cpu.h"
#include "core/turn.h"

void gm_cpu_ring(struct gm_device *device)
{
    gm_fence_sys(); /* pairs with the fence in gm_park: the push before, the flag after */
    if (gm_load_relaxed_sys_u32(&device->core.admin_header->asleep)) {
        const uint64_t one = 1;
        if (write(device->doorbell_fd, &one, sizeof one) < 0) {
            /* EAGAIN: the counter is full, so it is readable, which is all that matters. */
        }
    }
}

/* Wakes the workers that sleep on the slots just published. */
static void wake_workers(struct gm_device *device, uint64_t from, uint64_t to)
{
    const struct gm_core *core = &device->core;
    const uint64_t mask = (UINT64_C(1) << core->tickets_log2) - 1u;
    if (from == to)
        return;
    gm_fence_sys(); /* pairs with the fence in wait_for_slot */
    for (uint64_t p = from; p != to; p++) {
        uint32_t *waiting = &device->waiting[p & mask];
        if (gm_load_relaxed_u32(waiting) == 0)
            continue;
        gm_store_relaxed_u32(waiting, 0);
        uint32_t *word = (uint32_t *)(void *)&core->slots[p & mask];
        syscall(SYS_futex, __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? word + 1 : word, FUTEX_WAKE_PRIVATE, 1, NULL,
                NULL, 0);
    }
}

static void wake_client(struct gm_device *device)
{
    const uint64_t one = 1;
    if (write(device->wake_fd, &one, sizeof one) < 0) {
        /* as in gm_cpu_ring */
    }
}

static void sleep_on_doorbell(struct gm_device *device)
{
    struct pollfd p = {.fd = device->doorbell_fd, .events = POLLIN};
    uint64_t count;
    while (poll(&p, 1, -1) < 0 && errno == EINTR) {
    }
    if (read(device->doorbell_fd, &count, sizeof count) < 0) {
        /* EAGAIN: nothing to clear; the next turn looks anyway. */
    }
}

void *gm_cpu_dispatcher(void *arg)
{
    struct gm_device *device = arg;
    const struct gm_core *core = &device->core;
    struct gm_disp *d = core->saved;
    struct gm_fetch fetch;
    gm_park_flag(core, d, 0);
    gm_turn_begin(core, d, &fetch);
    for (;;) {
        const uint64_t published = d->published;
        const enum gm_turn_result result = gm_turn(core, d, &fetch);
        wake_workers(device, published, d->published);
        if (d->wake) {
            d->wake = 0;
            wake_client(device);
        }
        if (result == GM_TURN_STOP)
            break;
        if (result == GM_TURN_PARK) {
            sleep_on_doorbell(device);
            gm_park_flag(core, d, 0);
            gm_turn_begin(core, d, &fetch);
            d->counters.parks++;
        } else if (result == GM_TURN_EMPTY) {
            sched_yield();
        }
    }
    gm_counters_store(core, d);
    return NULL;
}
