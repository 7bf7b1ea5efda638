/* SPDX-License-Identifier: Apache-2.0
 *
 * Named arenas: memory that belongs to a user and outlives the session that made it. Sessions of the same user attach;
 * their handles read. Loop thread only; every handle and every name is an entry of the table of arenas.
 */
#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon.h"
#include "request.h"

/* Of a list reply: keys and numbers of a row. */
#define GM_LIST_ROW (GM_NAME_BYTES_MAX + 128u)

static bool gm_named_is(const struct gm_arena *arena)
{
    return arena->state != GM_ARENA_FREE && arena->session == NULL && !arena->removed && arena->name[0] != 0;
}

/* The user's arena of this name; also one that its creator does not know of yet. */
static struct gm_arena *gm_named_find(const struct gm_session *session, const char *name)
{
    struct gm_arenas *arenas = &session->daemon->arenas;
    for (uint32_t i = 1; i < GM_ARENAS_MAX; i++)
        if (gm_named_is(&arenas->arena[i]) && arenas->arena[i].user == session->user &&
            strcmp(arenas->arena[i].name, name) == 0)
            return &arenas->arena[i];
    return NULL;
}

int gm_named_check(struct gm_session *session, const char *name, struct gm_problem *problem)
{
    if (gm_named_find(session, name) != NULL)
        return gm_problem_set(problem, GM_EINVAL, "name", "there is an arena of this name");
    /* They stay when their user is gone, so one user must not be able to fill the table. */
    if (session->user->named < GM_ARENAS_PER_SESSION_MAX)
        return GM_OK;
    session->daemon->counters.rejected_quota++;
    return gm_problem_set(problem, GM_EQUOTA, "name", "a user has at most %u named arenas", GM_ARENAS_PER_SESSION_MAX);
}

/* A handle's entry, without its place on the devices. */
static struct gm_arena *gm_named_handle(struct gm_session *session, struct gm_arena *base, bool read_only)
{
    struct gm_arena *handle = gm_arena_new(session->daemon, session->user);
    assert(handle != NULL); /* admitted */
    handle->session = session;
    handle->base = base, handle->read_only = read_only;
    handle->kind = base->kind, handle->bytes = base->bytes;
    handle->state = GM_ARENA_WAITING;
    session->arenas++;
    base->attached++;
    return handle;
}

struct gm_arena *gm_named_create(struct gm_session *session, struct gm_arena *base, const char *name)
{
    base->session = NULL;
    session->arenas--;
    snprintf(base->name, sizeof base->name, "%s", name);
    base->user->named++; /* the user's entry stays as long */
    base->creator = gm_named_handle(session, base, false);
    return base->creator;
}

void gm_named_made(struct gm_arena *base)
{
    struct gm_arena *handle = base->creator;
    base->state = GM_ARENA_READY;
    if (base->error != GM_OK)
        gm_arena_fail(handle, base->error);
    else
        gm_arena_add(handle, base->kind == GM_ARENA_DEVICE ? base->devices : base->targets);
}

/* Who holds a descriptor for reading can open it again, as the mode of the memory allows: for reading, unless he is
 * root or, by way of fchmod, has the daemon's own uid. */
int gm_named_descriptor(const struct gm_arena *handle)
{
    char path[32];
    if (!handle->read_only)
        return fcntl(handle->base->fd, F_DUPFD_CLOEXEC, 0);
    if (fchmod(handle->base->fd, S_IRUSR) != 0)
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", handle->base->fd);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* A creator that left before it could hear of it would leave something behind that nobody knows. */
void gm_named_ready(struct gm_arena *handle)
{
    struct gm_arena *base = handle->base;
    if (base->creator != handle)
        return;
    base->creator = NULL;
    base->removed = handle->session->state != GM_SESSION_OPEN;
    if (!base->removed)
        gm_log(GM_LOG_INFO, "arena_named", "uid=%ld name=\"%s\" bytes=%" PRIu64 " kind=%s", (long)base->user->uid,
               base->name, base->bytes, base->kind == GM_ARENA_DEVICE ? "device" : "shared");
}

void gm_named_detached(struct gm_arena *base)
{
    base->attached--;
    if (base->creator != NULL)
        base->creator = NULL, base->removed = true; /* its first handle failed */
    if (base->removed && base->attached == 0)
        gm_arena_drop(base);
}

void gm_arena_attach(struct gm_session *session, const struct gm_wire_request *request)
{
    struct gm_problem problem;
    struct gm_arena *base = gm_named_find(session, request->u.arena_attach.name);
    int status = GM_OK;
    if (session->daemon->draining)
        status = gm_problem_set(&problem, GM_EDRAINING, "", "%s", gm_error_text(GM_EDRAINING));
    else if (base == NULL || base->creator != NULL)
        status = gm_problem_set(&problem, GM_ENOTFOUND, "name", "there is no arena of this name");
    else if (base->kind == GM_ARENA_DEVICE && (base->gone || base->devices == 0))
        status = gm_problem_set(&problem, GM_EDEVICELOST, "name", "the arena went with its device");
    else if ((status = gm_arena_admit_handle(session, 1, &problem)) != GM_OK)
        session->daemon->counters.rejected_quota++;
    if (status != GM_OK) {
        gm_request_error(session, request->id, &problem);
        return;
    }
    struct gm_arena *handle = gm_named_handle(session, base, true);
    gm_arena_ask(handle, request->id);
    gm_arena_add(handle, base->kind == GM_ARENA_DEVICE ? base->devices : base->targets);
}

static void gm_list_put(struct gm_wire_out *out, const struct gm_arena *arena, bool with_uid)
{
    const bool device = arena->kind == GM_ARENA_DEVICE;
    gm_wire_put_map(out, 4u + device + with_uid);
    gm_wire_put_str(out, "name"), gm_wire_put_str(out, arena->name);
    gm_wire_put_str(out, "bytes"), gm_wire_put_u64(out, arena->bytes);
    gm_wire_put_str(out, "kind"), gm_wire_put_str(out, device ? "device" : "shared");
    gm_wire_put_str(out, "attached"), gm_wire_put_u64(out, arena->attached);
    if (device)
        gm_wire_put_str(out, "device"), gm_wire_put_u64(out, (uint32_t)__builtin_ctz(arena->targets));
    if (with_uid)
        gm_wire_put_str(out, "uid"), gm_wire_put_u64(out, (uint64_t)arena->user->uid);
}

void gm_arena_list(struct gm_session *session, uint32_t id)
{
    struct gm_arenas *arenas = &session->daemon->arenas;
    struct gm_wire_out out;
    uint32_t rows[GM_ARENAS_MAX], count = 0;
    for (uint32_t i = 1; i < GM_ARENAS_MAX; i++) {
        const struct gm_arena *arena = &arenas->arena[i];
        if (gm_named_is(arena) && arena->creator == NULL && (session->admin || arena->user == session->user))
            rows[count++] = i;
    }
    if (!gm_conn_reserve(&session->conn, GM_REPLY_SMALL + count * GM_LIST_ROW, &out))
        return;
    const size_t start = gm_wire_begin_result(&out, id);
    gm_wire_put_map(&out, 1);
    gm_wire_put_str(&out, "arenas"), gm_wire_put_array(&out, count);
    for (uint32_t i = 0; i < count; i++)
        gm_list_put(&out, &arenas->arena[rows[i]], session->admin);
    const int status = gm_wire_end(&out, start);
    assert(status == GM_OK);
    gm_conn_commit(&session->conn, &out, -1);
}
static_assert(GM_REPLY_SMALL + GM_ARENAS_MAX * GM_LIST_ROW <= GM_FRAME_BYTES_MAX, "every name fits one frame");

void gm_arena_remove(struct gm_session *session, const struct gm_wire_request *request)
{
    struct gm_problem problem;
    struct gm_arena *base = gm_named_find(session, request->u.arena_remove.name);
    if (base == NULL || base->creator != NULL) {
        gm_problem_set(&problem, GM_ENOTFOUND, "name", "there is no arena of this name");
        gm_request_error(session, request->id, &problem);
        return;
    }
    gm_log(GM_LOG_INFO, "arena_removed", "uid=%ld name=\"%s\" attached=%" PRIu32, (long)base->user->uid, base->name,
           base->attached);
    base->removed = true;
    if (base->attached == 0)
        gm_arena_drop(base);
    gm_request_ok(session, request->id);
}
