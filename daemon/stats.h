/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters of the daemon and the one snapshot that `gridmill stats` renders. Taken from memory only: it never asks a
 * device, so it answers whatever the devices do. Loop thread only.
 */
#ifndef GM_DAEMON_STATS_H
#define GM_DAEMON_STATS_H

#include <stdint.h>

#include "histo.h"
#include "ops.h"

struct gm_session;

#define GM_STATS_SCHEMA 1u

struct gm_op_counters {
    uint64_t done, failed; /* these and the two below: jobs of sockets */
    struct gm_histo wait, run;
    struct gm_histo lane_run; /* samples of the others */
};

struct gm_counters {
    uint64_t sessions_total, sessions_refused, protocol_errors, slow_readers;
    uint64_t rejected_busy, rejected_bad, rejected_quota, rejected_draining;
    uint64_t loop_lag_max_ns;
    struct gm_op_counters op[GM_OP_COUNT];
};

void gm_stats_reply(struct gm_session *session, uint32_t id);

#endif
