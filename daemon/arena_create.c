/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may have how much memory: the request for an arena, everything that can be refused before anything is made, and
 * the entry. Loop thread. Memory is admitted, and paid, before it is allocated.
 */
#include <assert.h>

#include "daemon.h"
#include "request.h"

struct gm_arena *gm_arena_new(struct gm_daemon *d, struct gm_user *user)
{
    for (uint32_t tried = 1; tried < GM_ARENAS_MAX; tried++) {
        struct gm_arena *arena = &d->arenas.arena[d->arenas.cursor];
        const uint32_t index = d->arenas.cursor;
        d->arenas.cursor = index + 1u < GM_ARENAS_MAX ? index + 1u : 1u;
        if (arena->state != GM_ARENA_FREE)
            continue;
        arena->daemon = d, arena->user = user;
        arena->index = index;
        arena->generation = arena->generation % 65535u + 1u; /* 1 .. 65535 */
        arena->fd = -1, arena->error = GM_OK, arena->jobs = arena->waiting = arena->devices = arena->attached = 0;
        arena->base = arena->creator = NULL;
        arena->read_only = arena->removed = arena->answer = arena->gone = false;
        arena->name[0] = 0;
        d->arenas.entries++, user->arenas++;
        return arena;
    }
    return NULL;
}

int gm_arena_admit_handle(struct gm_session *session, uint32_t entries, struct gm_problem *problem)
{
    if (session->arenas >= GM_ARENAS_PER_SESSION_MAX)
        return gm_problem_set(problem, GM_EQUOTA, "", "a connection has at most %u arenas", GM_ARENAS_PER_SESSION_MAX);
    const struct gm_daemon *d = session->daemon;
    if (session->user->arenas + entries > d->config.user_arenas) {
        session->user->counted.refused++;
        return gm_problem_set(problem, GM_EQUOTA, "", "the user has %u of %u arenas (--user-arenas)",
                              session->user->arenas, d->config.user_arenas);
    }
    if (d->arenas.entries + entries >= GM_ARENAS_MAX)
        return gm_problem_set(problem, GM_EQUOTA, "", "all %u arenas are in use, %u by the user", GM_ARENAS_MAX - 1u,
                              session->user->arenas);
    return GM_OK;
}

/* Where the arena will be: the named device; else any one for device memory, all for shared memory, which can also wait
 * for a device that is being replaced. */
static int gm_arena_targets(const struct gm_daemon *d, const struct gm_wire_request *request, uint32_t *targets,
                            struct gm_problem *problem)
{
    const bool named = request->u.arena_create.has_device, single = request->u.arena_create.device_memory;
    *targets = 0;
    if (named && request->u.arena_create.device >= d->devices.count)
        return gm_problem_set(problem, GM_ENODEVICE, "device", "there are %u devices", d->devices.count);
    for (uint32_t i = 0; i < d->devices.count; i++) {
        const struct gm_device *v = &d->devices.device[i];
        if ((single ? gm_device_live(v) : gm_device_serves(v)) && (!named || request->u.arena_create.device == i) &&
            (!single || *targets == 0))
            *targets |= 1u << i;
    }
    return *targets != 0 ? GM_OK : gm_problem_set(problem, GM_EDEVICELOST, "device", "the device is out of service");
}

/* Everything that can be refused before anything is made. bytes: whole pages. */
static int gm_arena_check(struct gm_session *session, const struct gm_wire_request *request, uint64_t bytes,
                          uint32_t *targets, struct gm_problem *problem)
{
    struct gm_daemon *d = session->daemon;
    const char *name = request->u.arena_create.name;
    if (d->draining)
        return gm_problem_set(problem, GM_EDRAINING, "", "%s", gm_error_text(GM_EDRAINING));
    if (bytes == 0 || bytes > GM_ARENA_BYTES_MAX)
        return gm_problem_set(problem, GM_ESIZE, "bytes", "1 to %llu bytes", (unsigned long long)GM_ARENA_BYTES_MAX);
    int status = gm_arena_targets(d, request, targets, problem);
    if (status == GM_OK && name[0] != 0)
        status = gm_named_check(session, name, problem);
    if (status != GM_OK)
        return status;
    status = gm_arena_admit_handle(session, name[0] != 0 ? 2 : 1, problem);
    if (status == GM_OK)
        status = gm_user_admit(session, bytes, !request->u.arena_create.device_memory, "bytes", problem);
    if (status != GM_OK)
        d->counters.rejected_quota++;
    return status;
}

void gm_arena_create(struct gm_session *session, const struct gm_wire_request *request)
{
    struct gm_daemon *d = session->daemon;
    struct gm_problem problem;
    uint32_t targets = 0;
    const bool device = request->u.arena_create.device_memory, named = request->u.arena_create.name[0] != 0;
    uint64_t bytes = request->u.arena_create.bytes;
    if (bytes <= GM_ARENA_BYTES_MAX)
        bytes = (bytes + GM_ARENA_ALIGN - 1u) & ~(uint64_t)(GM_ARENA_ALIGN - 1u);
    if (gm_arena_check(session, request, bytes, &targets, &problem) != GM_OK) {
        gm_request_error(session, request->id, &problem);
        return;
    }
    struct gm_arena *arena = gm_arena_new(d, session->user);
    assert(arena != NULL); /* counted above */
    arena->session = session, arena->bytes = bytes;
    arena->kind = device ? GM_ARENA_DEVICE : GM_ARENA_SHARED;
    arena->targets = targets;
    d->arenas.count++;
    d->arenas.bytes += bytes;
    gm_user_pay(d, session->user, bytes, !device);
    session->arenas++;
    struct gm_arena *handle = named ? gm_named_create(session, arena, request->u.arena_create.name) : arena;
    gm_arena_ask(handle, request->id);
    if (device) {
        gm_arena_add(arena, targets);
        return;
    }
    arena->state = GM_ARENA_MAKING;
    gm_arena_work(arena);
}
