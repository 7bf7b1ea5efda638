/* SPDX-License-Identifier: Apache-2.0
 *
 * Arenas: made off the loop, admitted against the budget and the user's quota first, announced to the devices, freed
 * when no job uses them. Loop thread, except the marked functions of arena_pool.c, which run in libuv's pool. Bounded
 * by GM_ARENAS_MAX; index 0 is every device's staging arena.
 *
 * A named arena is an entry without a session that holds the memory; every handle on it, its creator's too, is an entry
 * of its own (base says of what). The memory goes when the name was removed and the last handle is gone (named.c).
 */
#ifndef GM_DAEMON_ARENA_H
#define GM_DAEMON_ARENA_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "control.h"
#include "limits.h"
#include "list.h"
#include "wire.h"

struct gm_daemon;
struct gm_device;
struct gm_session;
struct gm_user;
struct gm_wire_request;

enum gm_arena_state {
    GM_ARENA_FREE = 0,
    GM_ARENA_WAITING, /* a first handle: the memory of its base is on the way */
    GM_ARENA_MAKING,  /* pool thread: memfd, fallocate, seals */
    GM_ARENA_ADDING,  /* devices map it */
    GM_ARENA_ZEROING, /* device memory: our fill job */
    GM_ARENA_READY,
    GM_ARENA_DROPPING, /* devices let go of it */
    GM_ARENA_PUNCHING  /* pool thread: pages and the descriptor go back */
};

struct gm_arena {
    uv_work_t work;
    struct gm_link turn; /* in gm_user.work while it waits for the pool */
    struct gm_daemon *daemon;
    struct gm_session *session; /* lives at least as long; NULL: the memory of a named arena */
    struct gm_user *user;       /* who pays */
    struct gm_arena *base;      /* the named arena that this handle is on, which outlives it; NULL: memory of its own */
    enum gm_arena_state state;
    enum gm_arena_kind kind;
    uint32_t index, generation;
    uint64_t bytes;                         /* whole pages */
    int fd;                                 /* shared memory of its own */
    bool read_only;                         /* the handle */
    int error;                              /* first failure on the way; pool thread or loop, never both at a time */
    uint32_t devices;                       /* bit set: where jobs may use it, now or when the device is back */
    bool gone;                              /* device memory, lost with the process of its device */
    uint32_t jobs;                          /* in flight on it */
    uint32_t waiting;                       /* replies of devices to come */
    uint32_t request;                       /* id of the request that waits for an answer */
    bool answer;                            /* one waits */
    bool punch;                             /* for the pool thread: nobody reads the memory any more */
    uint32_t last_session, last_generation; /* of the previous owner: stale, or never his? */

    /* memory of a named arena */
    char name[GM_NAME_BYTES_MAX];
    struct gm_arena *creator; /* the handle that came with it, until it is ready: nobody else sees the name before */
    uint32_t attached;        /* handles on it */
    uint32_t targets;         /* bit set: devices that it was asked for */
    bool removed;             /* nobody attaches any more */
};

struct gm_arenas {
    struct gm_arena arena[GM_ARENAS_MAX];
    uint32_t count;   /* with memory of their own */
    uint32_t entries; /* these, and handles on named ones */
    uint32_t cursor;
    uint32_t asked;        /* requests that wait for an answer */
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
/* What ARENA_ADD says of an arena, and the descriptor that goes with it (-1: none). Of a base and its handles, the
 * base's message must be sent first. */
int gm_arena_message(const struct gm_arena *arena, struct gm_control *add);

/* The memory that a handle names: two handles of one named arena have the same. */
static inline const struct gm_arena *gm_arena_memory(const struct gm_arena *arena)
{
    return arena->base != NULL ? arena->base : arena;
}

/* arena_recover.c: a device process is replaced */
/* Shared memory that the device does not have now will be given to its next process. */
bool gm_arena_can_wait(const struct gm_arena *arena, const struct gm_device *v);
/* The process is gone, and its memory with it. */
void gm_arenas_device_reaped(struct gm_daemon *d, uint32_t device);
/* The next one hears of all arenas. How many replies will call gm_restart_refilled. */
uint32_t gm_arenas_refill(struct gm_device *v);
/* There will be no next one. */
void gm_arenas_device_lost(struct gm_daemon *d, uint32_t device);

/* named.c */
void gm_arena_attach(struct gm_session *session, const struct gm_wire_request *request);
void gm_arena_list(struct gm_session *session, uint32_t id);
void gm_arena_remove(struct gm_session *session, const struct gm_wire_request *request);

/* arena_pool.c */
/* Its memory is made, or given back, as its state says; then one of the next two is called. */
void gm_arena_work(struct gm_arena *arena);
void gm_arena_made(struct gm_arena *arena);
void gm_arena_given_back(struct gm_arena *arena);
/* Nobody wants it any more: when its turn has not come yet, it is not made. */
void gm_arena_forget(struct gm_arena *arena);

/* Between arena.c, arena_create.c and named.c. */
/* A free entry, counted, which the user pays for; NULL: all are in use. */
struct gm_arena *gm_arena_new(struct gm_daemon *d, struct gm_user *user);
/* How many handles a session may have, and entries its user, and all: OK or EQUOTA. */
int gm_arena_admit_handle(struct gm_session *session, uint32_t entries, struct gm_problem *problem);
/* Announces it to the devices of the bit set; goes on by itself until it is ready or has failed. */
void gm_arena_add(struct gm_arena *arena, uint32_t targets);
/* This request will be answered when the arena is ready, or has failed, or is gone. */
void gm_arena_ask(struct gm_arena *arena, uint32_t request);
/* Answers the request with the error and takes it back. */
void gm_arena_fail(struct gm_arena *arena, int status);
void gm_arena_drop(struct gm_arena *arena);
/* Turns a new arena into a named one with a first handle, which is returned; NULL: no entry. */
struct gm_arena *gm_named_create(struct gm_session *session, struct gm_arena *base, const char *name);
/* OK; EINVAL: the user has an arena of that name; EQUOTA: too many of them. */
int gm_named_check(struct gm_session *session, const char *name, struct gm_problem *problem);
/* The memory is there, or is not (base->error). */
void gm_named_made(struct gm_arena *base);
/* A handle is ready: the first one publishes the name. */
void gm_named_ready(struct gm_arena *handle);
/* A handle is gone. */
void gm_named_detached(struct gm_arena *base);
/* The descriptor for the client of a handle, its own to close; -1: none (then EFDS). */
int gm_named_descriptor(const struct gm_arena *handle);

#endif
