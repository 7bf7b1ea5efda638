/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU device: one dispatcher thread and a thread per worker, all running device/core. Threads sleep when they have
 * nothing to do: a worker on its own ticket slot, the dispatcher on the doorbells.
 */
#ifndef GM_DEVICE_CPU_H
#define GM_DEVICE_CPU_H

#include <pthread.h>

#include "backend.h"
#include "core/core.h"
#include "wakes.h"

struct gm_worker {
    pthread_t thread;
    struct gm_device *device;
    uint32_t index;
    uint64_t busy_ns;
};

struct gm_device {
    struct gm_core core;
    uint32_t *waiting; /* one per ticket slot: a worker sleeps on it */
    struct gm_worker *workers;
    pthread_t dispatcher;
    struct gm_wakes wakes;
    int bells_fd, ring_fd;     /* ring_fd: the device's own doorbell, among the bells */
    uint32_t checked_in, live; /* live: threads to join */
    uint32_t stopped;          /* the dispatcher has published stop tickets and left */
    uint32_t spin_ns;          /* how long a thread looks before it sleeps */
};

void *gm_cpu_dispatcher(void *device);
void *gm_cpu_worker(void *worker);

/* Ends a sleep of the dispatcher, or the next one. */
void gm_cpu_wake_dispatcher(struct gm_device *device);
/* That, if it sleeps; after a store that it must see. */
void gm_cpu_ring(struct gm_device *device);

#endif
