/* SPDX-License-Identifier: Apache-2.0
 *
 * The loads of gridmill bench: client processes that are counted, and arrivals that were fixed before the first job was
 * sent. Every answer is checked, so that no figure is of wrong work. One thread a process; bounded by time.
 */
#ifndef GM_LOAD_H
#define GM_LOAD_H

#include "command.h"
#include "figures.h"

#define LOAD_CLIENTS_MAX 64u
#define LOAD_WINDOW_MAX  1024u

enum load_path { LOAD_LANE = 0, LOAD_SOCKET = 1 };

struct load {
    const struct common *common;
    int device;
    enum load_path path;
    uint64_t seconds_ns; /* of one figure */
    uint32_t window;     /* jobs of one client in flight */
    uint64_t seed;
};

/* A client that goes this way only. Returns an exit code. */
int load_connect(const struct load *load, struct gm_client **client);

/* No-op jobs a second of so many processes that start together, each with a full window: submitted in batches, taken
 * by one gm_poll and one gm_next_batch for all that are complete. Returns an exit code. */
int load_processes(const struct load *load, uint32_t clients, double *per_second);

/* No-op jobs whose arrival times are fixed in advance, exponential gaps, this many a second on the average: samples are
 * from the time that a job should have been sent to its answer, however late it was sent. Returns an exit code. */
int load_arrivals(const struct load *load, struct gm_client *client, double per_second, struct gm_samples *samples);

#endif
