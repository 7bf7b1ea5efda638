/* SPDX-License-Identifier: Apache-2.0
 *
 * See wakes.h. The mutex is held for a write to a descriptor that does not block, at most one for each lane.
 */
#include "wakes.h"

#include <unistd.h>

void gm_wakes_init(struct gm_wakes *wakes, int daemon_fd)
{
    pthread_mutex_init(&wakes->mutex, NULL);
    for (uint32_t lane = 0; lane < GM_LANE_TABLE; lane++)
        wakes->fd[lane] = -1;
    wakes->fd[0] = daemon_fd;
}

void gm_wakes_destroy(struct gm_wakes *wakes) { pthread_mutex_destroy(&wakes->mutex); }

void gm_wakes_set(struct gm_wakes *wakes, uint32_t lane, int fd)
{
    pthread_mutex_lock(&wakes->mutex);
    wakes->fd[lane] = fd;
    pthread_mutex_unlock(&wakes->mutex);
}

void gm_wakes_ring(struct gm_wakes *wakes, const uint32_t *bits)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&wakes->mutex);
    for (uint32_t word = 0; word < GM_LANE_WORDS; word++) {
        for (uint32_t left = bits[word]; left != 0; left &= left - 1u) {
            const uint32_t lane = word * 32u + (uint32_t)__builtin_ctz(left);
            if (lane >= GM_LANE_TABLE || wakes->fd[lane] < 0)
                continue;
            /* An eventfd takes eight bytes, a pipe any number. */
            if (write(wakes->fd[lane], &one, lane == 0 ? sizeof one : 1u) < 0) {
                /* EAGAIN: it is full, so the sleeper finds it readable. EPIPE: nobody is there any more. */
            }
        }
    }
    pthread_mutex_unlock(&wakes->mutex);
}
