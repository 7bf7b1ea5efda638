/* SPDX-License-Identifier: Apache-2.0
 *
 * What takes long of an arena, in libuv's pool: its memory is made and given back there, a third of a second for 1 GiB.
 * The two marked functions run on a pool thread, on fields of one arena that the loop leaves alone meanwhile; the rest
 * on the loop. GM_ARENA_WORKS of a user at a time; the others wait for their turn here, so that nobody stands behind
 * everything that a greedy one asked for.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "daemon.h"

#define GM_ARENA_WORKS 2u /* of the four threads of the pool */

/* Pool thread. */
static void gm_arena_make(struct gm_arena *arena)
{
    const int fd = gm_memfd("gridmill-arena", arena->bytes, true);
    arena->fd = fd < 0 ? -1 : fd;
    arena->error = fd < 0 ? fd : GM_OK;
}

/* Pool thread. Pages go back although the client may still have them mapped; when the daemon ends, its clients may
 * still read their results, and the memory goes with the last of them. */
static void gm_arena_punch(struct gm_arena *arena)
{
    while (arena->punch &&
           fallocate(arena->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)arena->bytes) != 0 &&
           errno == EINTR)
        ;
    close(arena->fd);
    arena->fd = -1;
}

/* Pool thread. */
static void gm_work(uv_work_t *work)
{
    struct gm_arena *arena = GM_CONTAINER(work, struct gm_arena, work);
    if (arena->state == GM_ARENA_MAKING)
        gm_arena_make(arena);
    else
        gm_arena_punch(arena);
}

static void gm_work_next(struct gm_user *user);

static void gm_worked(uv_work_t *work, int status)
{
    (void)status; /* never cancelled */
    struct gm_arena *arena = GM_CONTAINER(work, struct gm_arena, work);
    gm_turn_start(arena->daemon);
    arena->user->works--;
    gm_work_next(arena->user); /* first: the user may go with his last arena */
    if (arena->state == GM_ARENA_MAKING)
        gm_arena_made(arena);
    else
        gm_arena_given_back(arena);
}

static void gm_work_next(struct gm_user *user)
{
    while (user->works < GM_ARENA_WORKS && !gm_list_empty(&user->work)) {
        struct gm_arena *arena = GM_CONTAINER(user->work.next, struct gm_arena, turn);
        gm_list_remove(&arena->turn);
        user->works++;
        arena->punch = arena->daemon->phase < GM_PHASE_FINISHING;
        if (uv_queue_work(&arena->daemon->loop, &arena->work, gm_work, gm_worked) != 0) {
            gm_work(&arena->work);
            gm_worked(&arena->work, 0);
        }
    }
}

void gm_arena_work(struct gm_arena *arena)
{
    gm_list_push(&arena->user->work, &arena->turn);
    gm_work_next(arena->user);
}

void gm_arena_forget(struct gm_arena *arena)
{
    if (arena->state != GM_ARENA_MAKING || !gm_list_linked(&arena->turn))
        return;
    gm_list_remove(&arena->turn);
    arena->error = GM_ECLOSED;
    gm_arena_made(arena);
}
