/* SPDX-License-Identifier: Apache-2.0
 *
 * Whom to wake for each lane: gridmilld by an eventfd for lane 0, a client by the write end of a pipe for the others.
 * Changed by the main thread, used by the thread that hears of a wake (the CPU's dispatcher, a host function of CUDA).
 * Nothing here blocks: the descriptors do not, and one that is full is readable anyway.
 */
#ifndef GM_DEVICE_WAKES_H
#define GM_DEVICE_WAKES_H

#include <pthread.h>
#include <stdint.h>

#include "core/core.h"

struct gm_wakes {
    /* Held over a write, so that a descriptor is not used any more once gm_wakes_set has replaced it: the number may
     * be another file's by then. */
    pthread_mutex_t mutex;
    int fd[GM_LANE_TABLE]; /* -1: nobody */
};

void gm_wakes_init(struct gm_wakes *wakes, int daemon_fd);
void gm_wakes_destroy(struct gm_wakes *wakes);

/* fd: not blocking; the caller's to close, after another call for this lane. -1: nobody. */
void gm_wakes_set(struct gm_wakes *wakes, uint32_t lane, int fd);

/* bits: GM_LANE_WORDS words, a bit for each lane. */
void gm_wakes_ring(struct gm_wakes *wakes, const uint32_t *bits);

#endif
