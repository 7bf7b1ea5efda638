/* SPDX-License-Identifier: Apache-2.0
 *
 * See bells.h. Edge-triggered: an event is given out once for each time that a doorbell was written to since the last,
 * whatever its counter says.
 */
#include "bells.h"

#include <errno.h>
#include <sys/epoll.h>

#include "errors.h"
#include "limits.h"

#define GM_BELLS_BATCH 64

int gm_bells_open(void) { return epoll_create1(EPOLL_CLOEXEC); }

int gm_bells_add(int bells, int doorbell)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = doorbell};
    if (epoll_ctl(bells, EPOLL_CTL_ADD, doorbell, &event) == 0)
        return GM_OK;
    return errno == ENOMEM || errno == ENOSPC ? GM_ESYSTEM : GM_EINVAL;
}

void gm_bells_drop(int bells, int doorbell)
{
    struct epoll_event event = {.events = 0}; /* for kernels that want one */
    (void)epoll_ctl(bells, EPOLL_CTL_DEL, doorbell, &event);
}

bool gm_bells_wait(int bells, int timeout_ms)
{
    struct epoll_event event[GM_BELLS_BATCH];
    int count;
    do
        count = epoll_wait(bells, event, GM_BELLS_BATCH, timeout_ms);
    while (count < 0 && errno == EINTR);
    const bool rang = count > 0;
    /* Once around the table: clients that ring without end do not keep anybody here. */
    for (unsigned i = 0; i < GM_LANE_TABLE / GM_BELLS_BATCH && count == GM_BELLS_BATCH; i++)
        count = epoll_wait(bells, event, GM_BELLS_BATCH, 0);
    return rang;
}
