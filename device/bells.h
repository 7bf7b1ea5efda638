/* SPDX-License-Identifier: Apache-2.0
 *
 * The doorbells of a device, gridmilld's and those of its clients, as one descriptor that is readable when somebody
 * rang. A doorbell is an eventfd whose open file description the client shares: it could make a read of it block, or
 * take what others are to see. So nobody reads one; every write to it is an edge, and the edge is kept here until it
 * was waited for. Any thread; at most GM_LANE_TABLE doorbells.
 */
#ifndef GM_DEVICE_BELLS_H
#define GM_DEVICE_BELLS_H

#include <stdbool.h>

/* A descriptor without doorbells, to be closed by the caller; or -1 and errno. */
int gm_bells_open(void);

/* OK; EINVAL when it is not a descriptor that can ring, ESYSTEM when there is no room. What rang before counts. */
int gm_bells_add(int bells, int doorbell);

/* Before the doorbell is closed: the client's copy would keep it in the set. */
void gm_bells_drop(int bells, int doorbell);

/* Waits until somebody rings, for at most timeout_ms (-1: for ever, 0: not at all), and forgets who it was. Look for
 * work after it: a ring that comes later is kept for the next call. */
bool gm_bells_wait(int bells, int timeout_ms);

#endif
