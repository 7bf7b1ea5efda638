/* SPDX-License-Identifier: Apache-2.0
 *
 * The dispatcher thread of the CPU device: turns of device/core, and sleep on the doorbells when a turn says park.
 */
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bells.h"
#include "cpu.h"
#include "core/turn.h"
#include "drill.h"

void gm_cpu_wake_dispatcher(struct gm_device *device)
{
    const uint64_t one = 1;
    if (write(device->ring_fd, &one, sizeof one) < 0) {
        /* Full after 2^64 - 2 rings. */
    }
}

void gm_cpu_ring(struct gm_device *device)
{
    gm_fence_sys(); /* pairs with the fence in gm_park: the push before, the flag after */
    if (gm_load_relaxed_sys_u32(&device->core.admin_header->asleep))
        gm_cpu_wake_dispatcher(device);
}

/* Wakes the workers that sleep on the slots just published. */
static void wake_workers(struct gm_device *device, uint64_t from, uint64_t to)
{
    const struct gm_core *core = &device->core;
    if (from == to)
        return;
    gm_fence_sys(); /* pairs with the fence in wait_for_slot */
    for (uint64_t p = from; p != to; p++) {
        uint32_t *waiting = &device->waiting[gm_slot_index(core, p)];
        if (gm_load_relaxed_u32(waiting) == 0)
            continue;
        gm_store_relaxed_u32(waiting, 0);
        syscall(SYS_futex, &gm_slot_at(core, p)->g[0].w[3], FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

/* And the copy engine, of which the turn does not say whether it is meant. */
static void wake_clients(struct gm_device *device, struct gm_disp *d)
{
    gm_wakes_ring(&device->wakes, d->wake_lanes);
    gm_cpu_copies_tell(device);
    memset(d->wake_lanes, 0, sizeof d->wake_lanes);
    d->wake = 0;
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
        gm_drill_counts(d->counters.started, d->counters.completed);
        if (d->wake)
            wake_clients(device, d);
        if (result == GM_TURN_STOP)
            break;
        if (result == GM_TURN_PARK) {
            gm_drill_park();
            (void)gm_bells_wait(device->bells_fd, -1);
            gm_park_flag(core, d, 0);
            gm_turn_begin(core, d, &fetch);
            d->counters.parks++;
        } else if (result == GM_TURN_EMPTY) {
            sched_yield();
        }
    }
    gm_counters_store(d);
    return NULL;
}
