/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of gridmilld in one struct, shared by its modules: devices, sessions, arenas, jobs, counters. One thread
 * (the loop) owns all of it; libuv's pool threads see only the fields of an arena that are named for them. Every table
 * is an array sized by limits.h; pages of it that were never used cost no memory.
 */
#ifndef GM_DAEMON_DAEMON_H
#define GM_DAEMON_DAEMON_H

#include <sys/types.h>
#include <time.h>
#include <uv.h>

#include "arena.h"
#include "config.h"
#include "conn.h"
#include "control.h"
#include "devices.h"
#include "histo.h"
#include "job.h"
#include "limits.h"
#include "linger.h"
#include "list.h"
#include "session.h"
#include "socket.h"
#include "stats.h"
#include "user.h"
#include "wire.h"

enum gm_phase {
    GM_PHASE_STARTING = 0, /* device processes come up */
    GM_PHASE_RUNNING,
    GM_PHASE_FINISHING, /* SIGTERM: accepted jobs finish, replies are written */
    GM_PHASE_STOPPING,  /* device processes stop */
    GM_PHASE_DONE
};

/* Timing that tests shorten; production values are those of limits.h. */
struct gm_times {
    uint32_t hello_ms, ping_ms, ping_deadline_ms, ping_kill_ms, stop_ms;
};

/* Admins that wait for the drain. */
#define GM_DRAIN_WAITERS 8u

/* So many clients of the admin socket get in when there is no other descriptor left. */
#define GM_ACCEPT_SPARES 2u

struct gm_server {
    struct gm_socket socket[2]; /* public, admin */
    uv_poll_t accept[2];
    uv_timer_t accept_timer; /* out of descriptors: try again later */
    uv_signal_t signal[3];
    uv_timer_t tick, deadline;
    uv_timer_t lanes; /* while the daemon drains: looks at lanes that are not finished */
    uv_prepare_t turn;
    uv_idle_t spin;
    int lock;
    bool listening, rests[2];    /* rests: out of descriptors, the listener is not watched */
    int spare[GM_ACCEPT_SPARES]; /* descriptors of nothing, kept for clients of the admin socket */
    uint32_t spares;
    uint32_t accept_failed;  /* out of descriptors, since the log said so */
    uint64_t accept_said_ns; /* when that was; 0: it never did */
    bool calm;               /* nothing has to be looked at before the long tick */
    uint32_t lanes_left;     /* while the daemon drains: lanes that are not closed yet */
    uint64_t second_ns;      /* when what is done once a second was done last */
    uint64_t signal_ns;      /* the signal that began the stop; 0: none did */
    uint64_t finished_ms;    /* while stopping: when the last job was answered */
    uint32_t waiters;
    struct {
        uint32_t session, request;
    } waiter[GM_DRAIN_WAITERS];
};

struct gm_daemon {
    struct gm_config config;
    struct gm_times times;
    uv_loop_t loop;
    enum gm_phase phase;
    int exit_status;
    bool draining; /* refuse new jobs: drain, or SIGTERM */
    bool spinning; /* the loop does not sleep: a completion or a request is expected soon */
    uint64_t spin_budget_ns;
    struct gm_linger linger;
    uint64_t started_ns, turn_ns, last_activity_ns;
    uint64_t turn; /* of the loop, from one look at the sockets to the next */
    struct gm_server server;
    struct gm_conn_io io;
    struct gm_counters counters;
    struct gm_devices devices;
    struct gm_sessions sessions;
    struct gm_users users;
    struct gm_arenas arenas;
    struct gm_jobs jobs;
};

static inline uint64_t gm_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Time of the first event of this turn; callbacks that start work call it, so that the turn's length is known. */
static inline uint64_t gm_turn_start(struct gm_daemon *d)
{
    if (d->turn_ns == 0)
        d->turn_ns = gm_now_ns();
    return d->turn_ns;
}

#endif
