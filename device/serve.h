/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers gridmilld's control messages for one device. Main thread of the device process only; every request gets
 * exactly one reply; memory and waiting drops are bounded by GM_ARENAS_MAX and GM_LANE_TABLE.
 */
#ifndef GM_DEVICE_SERVE_H
#define GM_DEVICE_SERVE_H

#include "admin.h"

/* How far the drop of an arena or a lane is. */
enum gm_drop_step {
    GM_DROP_NONE = 0,
    GM_DROP_JOBS, /* nothing new may use it; jobs in flight do */
    GM_DROP_STOP  /* no job does; unregistering waits for a stop of the kernel */
};
struct gm_drop {
    enum gm_drop_step step;
    bool answer; /* gridmilld waits for a reply to sequence */
    bool late;   /* a try ran out of time, and is done by the dispatcher before the next one */
    uint32_t sequence;
    int status; /* of unregistering */
};

/* A lane by its index, an arena by GM_LANE_TABLE and its index. */
enum { GM_DROPS_MAX = GM_LANE_TABLE + GM_ARENAS_MAX };

struct gm_mapping {
    void *host; /* shared: our view of the memfd */
    uint64_t bytes, address;
    uint64_t unmapped; /* of bytes, from the beginning */
    uint32_t handle; /* 0: free */
    uint32_t aliases; /* of this memory, which is in use as long as they are */
    uint32_t base;    /* the handle that this one is an alias of, or 0 */
    bool gone;        /* no memory */
    struct gm_drop drop;
};

struct gm_lane_mapping {
    void *host; /* NULL: free */
    uint64_t bytes;
    int doorbell_fd, wake_fd; /* -1: none */
    struct gm_drop drop;
};

/* What pauses cost those who work: from the stop that was asked for until every worker is back. */
struct gm_pauses {
    uint64_t count, unmapped, away_ns, longest_ns;
};

struct gm_server {
    const struct gm_backend *backend;
    struct gm_device *device;
    struct gm_admin admin;
    int control_fd, bells_fd;
    uint64_t region; /* its address as the device sees it */
    struct gm_device_counters *counters;
    bool stopping;
    uint32_t closing, waiting; /* drops in GM_DROP_JOBS, and in GM_DROP_STOP */
    uint32_t first_waiting;    /* in due, a ring of those in GM_DROP_STOP */
    uint16_t due[GM_DROPS_MAX];
    uint64_t first_drop_ms, last_drop_ms; /* of those that wait */
    uint64_t last_pause_ms, next_close_ms;
    struct gm_pauses pauses;
    struct gm_mapping arena[GM_ARENAS_MAX];
    struct gm_lane_mapping lane[GM_LANE_TABLE];
};

/* One message from the socket. OK, ECLOSED when gridmilld is gone, or what made going on impossible (text says). */
int gm_server_receive(struct gm_server *server, char *text);

/* Drops that wait, each when it is its time. timeout_ms: until it wants to be called again, or -1. Not OK: going on is
 * impossible. */
int gm_server_housekeeping(struct gm_server *server, int *timeout_ms, char *text);

/* Serves until a stop was asked for (OK), gridmilld is gone (ECLOSED), or going on is impossible. */
int gm_server_run(struct gm_server *server, char *text);

int gm_server_send_ready(int control_fd, const struct gm_control_hello *hello);
void gm_server_send_failed(int control_fd, int status, const char *text);

/* For the files below. The next step of a drop whose jobs are all answered: true when the memory may be let go of now.
 */
bool gm_server_drop_jobs_done(struct gm_server *server, uint32_t which);
void gm_server_drop_answer(struct gm_server *server, const struct gm_drop *drop, int status);
/* A pause for one arena that was not mapped whole: rare, and not a short one. Not OK: some of it stays mapped. */
int gm_server_unmap_now(struct gm_server *server, struct gm_mapping *map);

/* arenas.c. fd: of a shared one. */
int gm_server_arena_add(struct gm_server *server, const struct gm_control *message, int fd, char *text);
/* OK: the drop answers when it is done. Else nothing was changed. */
int gm_server_arena_drop(struct gm_server *server, uint32_t handle, uint32_t sequence, char *text);
/* One try to take an arena in GM_DROP_JOBS out of the table. EBUSY: a job or another handle uses it. */
int gm_server_arena_close(struct gm_server *server, struct gm_mapping *map, char *text);
/* What has to be done while no kernel is there, and nothing else, one piece of the memory a call: true after the last.
 * Then the rest, and the answer. */
bool gm_server_arena_unmap(struct gm_server *server, struct gm_mapping *map, char *text);
void gm_server_arena_release(struct gm_server *server, struct gm_mapping *map);

/* lanes.c. fd: memory, doorbell, wake; the ones kept are replaced by -1. */
int gm_server_lane_add(struct gm_server *server, const struct gm_control_lane *lane, int *fd, char *text);
/* OK: the drop answers when it is done. Else nothing was changed. */
int gm_server_lane_drop(struct gm_server *server, uint32_t index, uint32_t sequence, char *text);
/* One try to close a lane in GM_DROP_JOBS. EBUSY: again later. */
int gm_server_lane_close(struct gm_server *server, uint32_t index, char *text);
/* As for an arena. */
void gm_server_lane_unmap(struct gm_server *server, uint32_t index, char *text);
void gm_server_lane_release(struct gm_server *server, uint32_t index);

#endif
