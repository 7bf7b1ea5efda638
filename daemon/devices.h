/* SPDX-License-Identifier: Apache-2.0
 *
 * The device processes: start, control channel, death and replacement; the region that each shares with us; lane 0 and
 * the clients' lanes. Loop thread only; bounded by GM_DEVICES_MAX devices and fixed tables for requests and messages.
 */
#ifndef GM_DAEMON_DEVICES_H
#define GM_DAEMON_DEVICES_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "config.h"
#include "control.h"
#include "job.h"
#include "lanes.h"
#include "limits.h"
#include "list.h"
#include "staging.h"

struct gm_daemon;
struct gm_device;

/* Jobs of lane 0 at a time: enough to keep the device busy between two looks at it, but not more than it does in
 * GM_WINDOW_NS. The backlog stays in the fair queue, so that a client that comes late stands behind this much and not
 * behind everything that a greedy one sent. */
#define GM_WINDOW_JOBS 512u
#define GM_WINDOW_FIRST 64u
#define GM_WINDOW_FLOOR 4u /* and two for each worker */
#define GM_WINDOW_COST 4096u
#define GM_WINDOW_NS 500000u

/* Requests to a device without a reply, and messages that its socket does not take yet. An arena or a lane is in one
 * request at a time, a job of lane 0 is cancelled once when its client leaves, and what clients may send at will
 * (cancel, pause) is refused while GM_CONTROL_AT_WILL messages wait. So arenas, lanes, departures and pings always fit.
 */
#define GM_CONTROL_WAITS 4096u
#define GM_CONTROL_AT_WILL 200u
#define GM_CONTROL_AT_WILL_PER_USER (GM_CONTROL_AT_WILL / 4u * 3u) /* without an answer */
#define GM_CONTROL_QUEUE (GM_ARENAS_MAX + GM_LANES_MAX + GM_WINDOW_JOBS + GM_CONTROL_AT_WILL + 8u)
static_assert(GM_CONTROL_WAITS >= 2u * GM_CONTROL_QUEUE, "also with what lies in the socket");

enum gm_device_state {
    GM_DEVICE_NONE = 0,
    GM_DEVICE_STARTING, /* until READY and the staging arena */
    GM_DEVICE_UP,
    GM_DEVICE_UNRESPONSIVE, /* a ping is overdue */
    GM_DEVICE_FALLING,      /* lost: killed, and not reaped yet, so its memory is not quiet */
    GM_DEVICE_DOWN,         /* reaped, its lanes are recovered; waits for its restart */
    GM_DEVICE_RISING,       /* the next process starts, and gets arenas and lanes back */
    GM_DEVICE_STOPPING,
    GM_DEVICE_LOST /* out of service */
};

/* reply is NULL when the device was lost first. Called exactly once per request. */
typedef void gm_control_done(struct gm_device *device, const struct gm_control *reply, void *context, uint32_t tag);

struct gm_control_wait {
    uint32_t sequence; /* 0: free */
    uint32_t tag;
    gm_control_done *done;
    void *context;
};

struct gm_control_out {
    struct gm_control message;
    uint32_t fds_count;
    int fds[GM_CONTROL_FDS_MAX]; /* of an arena or a lane, which cannot go away before the reply */
};

struct gm_device {
    struct gm_daemon *daemon;
    uint32_t index;
    enum gm_device_state state;
    struct gm_config_device config;
    struct gm_control_hello hello;
    char reason[GM_ERROR_TEXT_MAX];   /* why it was lost last */
    char fallback[GM_ERROR_TEXT_MAX]; /* auto: why it is not the GPU */
    bool got_ready, exited;
    bool ended; /* it is lost because its channel ended; how it exited says more */

    /* replacement */
    uv_timer_t restart;
    uint32_t losses, refills;          /* refills: replies to come until it is up again */
    uint64_t loss_ns[GM_RESTARTS_MAX]; /* the last ones */
    uint64_t restarts;                 /* times it came up again */
    struct gm_device_counters past;    /* what earlier processes counted */

    /* process */
    uv_process_t process;
    uv_poll_t control_poll, wake_poll;
    uint32_t handles; /* open libuv handles */
    pid_t pid;
    int control, doorbell, wake;
    uint64_t spawned_ns;

    /* control channel */
    uint32_t sequence, waits_count, queue_head, queue_count;
    struct gm_control_wait waits[GM_CONTROL_WAITS];
    struct gm_control_out queue[GM_CONTROL_QUEUE];

    /* region and lane 0 */
    int region_fd;
    uint8_t *region;
    struct gm_lane_header *lane; /* lane 0 */
    struct gm_desc_slot *sq;
    struct gm_granule *cq;
    uint64_t head;   /* next position */
    uint64_t reaped; /* completions so far */
    bool armed;      /* wait granule */
    struct gm_job *slot[GM_LANE0_SLOTS];
    struct gm_job *flight[GM_WINDOW_JOBS];
    uint32_t flight_count, flight_cost;
    uint32_t window;       /* jobs that may be in the lane now */
    uint64_t window_at_ns; /* since when a backlog was seen; 0: there was none */
    uint64_t window_reaped;

    struct gm_lane client[GM_LANES_MAX + 1u]; /* by index, from 1 on */
    uint32_t clients;                         /* entries in use */
    uint64_t abused;                          /* lanes closed by us because of what their client wrote */
    uint64_t waiting;                         /* jobs in lanes that it had not taken at the last look at them */
    uint64_t waiting_ns;                      /* since when the oldest of them was seen */
    uint64_t looked_ns;                       /* that look */
    uint32_t sample_next;                     /* the lane whose completions the next look begins with */

    /* staging arena */
    int staging_fd;
    uint8_t *staging_bytes;
    struct gm_staging staging;
    bool staging_touched; /* since its pages last left our page tables */

    /* fair queue */
    struct gm_link users;
    uint32_t queued;

    /* watchdog */
    bool ping_waits, ping_failed, unresponsive_logged, kill_sent;
    uint64_t ping_sent_ns, ping_answered_ns;

    /* counters */
    uint64_t submitted, done, failed, rejected, cancelled, depth; /* of sockets */
    uint64_t depth_high;          /* of sockets always, with lanes when they were looked at */
    uint64_t busy_ns, busy_at_ns; /* at the last stats call */
};

struct gm_devices {
    uint32_t count, starting;
    struct gm_device device[GM_DEVICES_MAX];
};

/* Starts the device processes of the configuration. Afterwards, when all are up or one failed, gm_server_devices_up or
 * gm_server_failed is called. */
int gm_devices_start(struct gm_daemon *d);
/* Asks all devices to stop, or kills them; gm_server_devices_down is called when the last process is gone. */
void gm_devices_stop(struct gm_daemon *d);
void gm_devices_kill(struct gm_daemon *d);
bool gm_devices_gone(const struct gm_daemon *d);
/* Once a second: pages of staging arenas that nobody uses leave our page tables. */
void gm_devices_tick(struct gm_daemon *d);
/* Timers; before the loop ends. */
void gm_devices_close(struct gm_daemon *d);
/* Memory and descriptors; after the loop. */
void gm_devices_release(struct gm_daemon *d);

/* Answers its jobs and lanes, or will when it is back. */
static inline bool gm_device_live(const struct gm_device *v)
{
    return v->state == GM_DEVICE_UP || v->state == GM_DEVICE_UNRESPONSIVE;
}
static inline bool gm_device_recovering(const struct gm_device *v)
{
    return v->state == GM_DEVICE_FALLING || v->state == GM_DEVICE_DOWN || v->state == GM_DEVICE_RISING;
}
/* Takes jobs: now, or they wait until it is back. */
static inline bool gm_device_serves(const struct gm_device *v)
{
    return gm_device_live(v) || gm_device_recovering(v);
}
/* "starting", "up", "asleep", "unresponsive", "recovering", "stopping", "lost" */
const char *gm_device_state_name(const struct gm_device *v);

/* launch.c: one process, from exec to exit */
int gm_launch(struct gm_device *v);
bool gm_launch_gpu_here(void);               /* whether or not we can use it */
void gm_launch_close(struct gm_device *v);   /* its polls */
void gm_launch_release(struct gm_device *v); /* its descriptors */
void gm_device_ready(struct gm_device *v, const struct gm_control_hello *hello);
int gm_device_stage(struct gm_device *v, gm_control_done *done);
/* It has everything: in service. */
void gm_device_up(struct gm_device *v);
/* It did not start: the CPU for `auto`, the end for everything else. */
void gm_device_failed(struct gm_device *v, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* restart.c: what follows a loss */
/* The process is of no use any more, or is gone already. Killed, reaped, its jobs and lanes recovered, started again.
 */
void gm_device_lost(struct gm_device *v, const char *format, ...) __attribute__((format(printf, 2, 3)));
void gm_restart_reaped(struct gm_device *v);
/* READY of the next process: it gets back what it had. */
void gm_restart_refill(struct gm_device *v);
/* One reply fewer to wait for. */
void gm_restart_refilled(struct gm_device *v);

/* region.c */
int gm_region_create(struct gm_device *v);
void gm_region_release(struct gm_device *v);
/* For the next process, when the last one is reaped: lane 0 and the admin lane as new, the counters kept in past. */
void gm_region_renew(struct gm_device *v);
uint64_t gm_region_busy_ns(const struct gm_device *v);
struct gm_lane_note *gm_region_note(const struct gm_device *v, uint32_t lane);
uint32_t *gm_region_journal(const struct gm_device *v, uint32_t lane);
/* An empty lane, and its journal and note. */
void gm_region_lane(struct gm_device *v, uint32_t lane, uint8_t *memory, uint32_t slots);
int gm_memfd(const char *name, uint64_t bytes, bool allocate);

/* control.c */
/* Sends a request. OK: done will be called. EBUSY: the channel is full; EDEVICELOST: there is no process. */
int gm_device_request(struct gm_device *v, struct gm_control *message, int fd, gm_control_done *done, void *context,
                      uint32_t tag);
int gm_device_request_fds(struct gm_device *v, struct gm_control *message, const int *fds, uint32_t count,
                          gm_control_done *done, void *context, uint32_t tag);
/* The same for what clients send as often as they like. */
int gm_device_request_at_will(struct gm_device *v, struct gm_control *message, gm_control_done *done, void *context,
                              uint32_t tag);
void gm_control_readable(uv_poll_t *poll, int status, int events);
void gm_control_flush(struct gm_device *v);
/* Every request is answered with NULL: nobody will reply. */
void gm_control_abandon(struct gm_device *v);

#endif
