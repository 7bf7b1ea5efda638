/* SPDX-License-Identifier: Apache-2.0
 *
 * Arenas: made off the loop, admitted against the budget and the user's quota first, announced to the devices, freed
 * when no job uses them. Loop thread, except the two marked functions of arena.c that run in libuv's pool. Bounded by
 * GM_ARENAS_MAX; index 0 is every device's staging arena.
 */
#ifndef GM_DAEMON_ARENA_H
#define GM_DAEMON_ARENA_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "control.h"
#include "limits.h"

struct gm_daemon;
struct gm_device;
struct gm_session;
struct gm_wire_request;

enum gm_arena_state {
    GM_ARENA_FREE = 0,
    GM_ARENA_MAKING,  /* pool thread: memfd, fallocate, seals */
    GM_ARENA_ADDING,  /* devices map it */
    GM_ARENA_ZEROING, /* device memory: our fill job */
    GM_ARENA_READY,
    GM_ARENA_DROPPING, /* devices let go of it */
    GM_ARENA_PUNCHING  /* pool thread: pages go back */
};

struct gm_arena {
    uv_work_t work;
    struct gm_daemon *daemon;
    struct gm_session *session; /* lives at least as long */
    enum gm_arena_state state;
    enum gm_arena_kind kind;
    uint32_t index, generation;
    uint64_t bytes;                         /* whole pages */
    int fd;                                 /* shared */
    int error;                              /* first failure on the way; pool thread or loop, never both at a time */
    uint32_t devices;                       /* bit set: where jobs may use it */
    uint32_t jobs;                          /* in flight on it */
    uint32_t waiting;                       /* replies of devices to come */
    uint32_t request;                       /* id of the request that waits for an answer */
    bool answer;                            /* one waits */
    uint32_t last_session, last_generation; /* of the previous owner: stale, or never his? */
};

struct gm_arenas {
    struct gm_arena arena[GM_ARENAS_MAX];
    uint32_t count, cursor;
    uint64_t bytes;        /* all kinds */
    uint64_t shared_bytes; /* against the budget */
};

void gm_arenas_init(struct gm_daemon *d);
void gm_arena_create(struct gm_session *session, const struct gm_wire_request *request);
void gm_arena_free(struct gm_session *session, const struct gm_wire_request *request);
/* The session's arena of this handle, ready for jobs: OK, EARENA or ESTALE. */
int gm_arena_find(struct gm_session *session, uint32_t handle, struct gm_arena **found);
void gm_arena_pin(struct gm_arena *arena);
void gm_arena_unpin(struct gm_arena *arena);
/* The fill job of a device arena ended. */
void gm_arena_zeroed(struct gm_arena *arena, int status);
/* Frees what a session that left owns, as far as it is not in use. */
void gm_arenas_leave(struct gm_session *session);
/* A device is gone: its memory with it. */
void gm_arenas_device_lost(struct gm_daemon *d, uint32_t device);

#endif
