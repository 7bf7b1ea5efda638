/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU device: one dispatcher thread and a thread per worker, all running device/core, and one that copies when the
 * device has a copy engine. Threads sleep when they have nothing to do: a worker on its own ticket slot, the dispatcher
 * on the doorbells.
 */
#ifndef GM_DEVICE_CPU_H
#define GM_DEVICE_CPU_H

#include <pthread.h>
#include <semaphore.h>

#include "backend.h"
#include "copier.h"
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
    /* Of a device with a copy engine. */
    struct gm_copier copier; /* the thread's own */
    pthread_t copier_thread;
    sem_t copies_due; /* it sleeps on it */
    int copy_gate_fd;
    bool copier_runs;
    uint32_t copier_leaves;
};

void *gm_cpu_dispatcher(void *device);
void *gm_cpu_worker(void *worker);

/* copies.c: the thread is there from open to close, whether workers run or not. */
int gm_cpu_copies_open(struct gm_device *device, const struct gm_device_config *config); /* an errno */
void gm_cpu_copies_tell(struct gm_device *device);                                       /* there is a request */
/* Copies that go on are left where they are; nobody answers them any more. */
void gm_cpu_copies_close(struct gm_device *device);

/* Ends a sleep of the dispatcher, or the next one. */
void gm_cpu_wake_dispatcher(struct gm_device *device);
/* That, if it sleeps; after a store that it must see. */
void gm_cpu_ring(struct gm_device *device);

#endif
