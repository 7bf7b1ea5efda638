/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients' lanes: opened, polled by a device, closed. Loop thread only; bounded by GM_LANES_MAX a device and one of a
 * session on a device. A lane takes jobs without our help, so what we know of it is what its rings and the dispatcher's
 * note say.
 */
#ifndef GM_DAEMON_LANES_H
#define GM_DAEMON_LANES_H

#include <stdbool.h>
#include <stdint.h>

#include "lane.h"
#include "limits.h"

struct gm_control;
struct gm_daemon;
struct gm_device;
struct gm_recovered;
struct gm_session;
struct gm_wire_request;

enum gm_lane_phase {
    GM_LANE_UNUSED = 0,
    GM_LANE_ADDING,  /* lane.open waits until the device polls it */
    GM_LANE_TAPPED,  /* in use */
    GM_LANE_SHUT,    /* closed by us, and the device lets go of it; the client sees why until it closes it */
    GM_LANE_DROPPING /* everything goes when the device has let go of it */
};

struct gm_lane {
    struct gm_device *device;
    struct gm_session *session; /* lives at least as long */
    enum gm_lane_phase phase;
    uint32_t index, slots_log2;
    uint32_t request; /* of the client, when one waits for an answer */
    bool answer;
    bool noted;    /* the dispatcher's note is of this lane, and not of one before it */
    bool held;     /* the device may reach its memory */
    bool asked;    /* a request about it is on its way to the device */
    bool draining; /* cut is valid: jobs below it were accepted before the drain */
    uint64_t start, cut;
    uint64_t answered; /* jobs that earlier processes of the device answered, or we for them */
    uint64_t bytes;
    uint8_t *memory;
    int fd, doorbell, wake, wake_read; /* wake_read: -1 once the client has it */

    /* what the last look at its rings found */
    uint32_t waiting;             /* jobs that the device had not taken */
    uint64_t seen_head, seen_end; /* they stand in this window */
    uint64_t seen_taken;          /* jobs that it had taken */
    uint64_t seen_ns;             /* since when the first of them was seen waiting */
    uint64_t first;               /* position of its first job ever */
    uint64_t sampled_to;          /* completions below were looked at, and found where the bit of their slot is set */
    uint64_t sampled_answered;
    uint64_t sampled[GM_CLIENT_LANE_SLOTS_MAX / 64u];
};

/* Requests of clients. */
void gm_lane_open(struct gm_session *session, const struct gm_wire_request *request);
void gm_lane_close(struct gm_session *session, const struct gm_wire_request *request);
/* The session's lane of this number; NULL: none. */
struct gm_lane *gm_lane_find(struct gm_session *session, uint32_t handle);
/* A request of it about a lane waits for an answer. */
bool gm_lanes_asked(const struct gm_session *session);
/* The client is gone. */
void gm_lanes_leave(struct gm_session *session);

/* Closed by us: reason is what the client reads. */
void gm_lane_shut(struct gm_lane *lane, int reason);
/* Asks the device to let go of it, as soon as that can be asked. */
void gm_lane_let_go(struct gm_lane *lane);
/* The device has it, or gets it: OK when it was asked. tag: 1 when it is part of a refill. */
int gm_lane_add(struct gm_lane *lane, uint32_t tag);
/* lane.open fails. */
void gm_lane_refuse(struct gm_lane *lane, int status, const char *text);
void gm_lane_wake(const struct gm_lane *lane);

static inline struct gm_lane_header *gm_lane_header(const struct gm_lane *lane)
{
    return (struct gm_lane_header *)(void *)lane->memory;
}

/* lanes_watch.c */
/* From the tick, and before stats: lanes that the dispatcher closed. */
void gm_lanes_watch(struct gm_daemon *d);
/* While the daemon drains: lanes whose accepted jobs are answered are closed. How many are left. */
uint32_t gm_lanes_drain(struct gm_daemon *d);
/* The rest of them, too. */
void gm_lanes_shut_all(struct gm_daemon *d, int reason);

/* lanes_queue.c: what the rings show */
/* Jobs of a device's lanes so far, as the dispatcher counts them: submitted are those that it took. */
struct gm_lane_totals {
    uint64_t submitted, done, failed, rejected, cancelled;
};
struct gm_lane_totals gm_lanes_totals(const struct gm_device *v);
/* How many jobs are written whole from a position on, up to an end; the position behind them. */
uint64_t gm_lane_published(const struct gm_lane *lane, uint64_t from, uint64_t end, uint32_t *jobs);
/* Before stats, and about once a second from gm_lanes_watch: what waits in the lanes, and run times found there. */
void gm_lanes_look_now(struct gm_device *v, uint64_t now);
/* In the queue of a device: accepted and not answered, or waiting in a lane at the last look. */
uint64_t gm_lanes_depth(const struct gm_device *v, const struct gm_lane_totals *totals);
const char *gm_lane_state_name(const struct gm_lane *lane);
/* Adds the jobs that the device took from it, and those that were answered, as the dispatcher says. */
void gm_lane_count(const struct gm_lane *lane, uint64_t *submitted, uint64_t *answered);

/* lanes_recover.c: a device process is replaced */
void gm_lanes_fall(struct gm_device *v);
/* It is reaped: jobs that it had taken are answered, the others will be taken by the next one. How many were lost. */
uint64_t gm_lanes_recover(struct gm_device *v);
/* No request about a lane is on its way any more: what nobody holds can go. */
void gm_lanes_reaped(struct gm_device *v);
/* The next one gets them. How many replies will call gm_restart_refilled. */
uint32_t gm_lanes_refill(struct gm_device *v);
/* There will be no next one. */
void gm_lanes_lost(struct gm_device *v);
/* Of any lane, also while it is polled. */
void gm_lanes_look(const struct gm_device *v, uint32_t index, const uint8_t *memory, uint32_t slots_log2,
                   struct gm_recovered *recovered);

#endif
