/* SPDX-License-Identifier: Apache-2.0
 *
 * Arenas from the moment that their memory is there until it is given back. Loop thread. Memory leaves the quota only
 * after its pages are gone.
 */
#include "arena.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "daemon.h"
#include "enqueue.h"
#include "request.h"
#include "server.h"

static uint32_t gm_arena_handle(const struct gm_arena *arena)
{
    return gm_handle(arena->index, arena->generation);
}

void gm_arenas_init(struct gm_daemon *d)
{
    for (uint32_t i = 0; i < GM_ARENAS_MAX; i++)
        d->arenas.arena[i].fd = -1;
    d->arenas.cursor = 1;
    const uint64_t available = gm_memory_free();
    if (d->config.memory > available) /* fallocate would not fail, but get us killed */
        gm_log(GM_LOG_WARN, "memory", "the budget of %llu bytes is more than the %llu that are free",
               (unsigned long long)d->config.memory, (unsigned long long)available);
}

int gm_arena_find(struct gm_session *session, uint32_t handle, struct gm_arena **found)
{
    const uint32_t index = gm_handle_index(handle), generation = gm_handle_generation(handle);
    if (index == 0 || index >= GM_ARENAS_MAX)
        return GM_EARENA;
    struct gm_arena *arena = &session->daemon->arenas.arena[index];
    const bool mine = arena->state != GM_ARENA_FREE && arena->session == session && arena->generation == generation;
    if (mine && arena->state == GM_ARENA_READY) {
        *found = arena;
        return GM_OK;
    }
    if (mine && (arena->state == GM_ARENA_DROPPING || arena->state == GM_ARENA_PUNCHING))
        return GM_ESTALE;
    return arena->last_session == session->id && arena->last_generation == generation ? GM_ESTALE : GM_EARENA;
}

void gm_arena_ask(struct gm_arena *arena, uint32_t request)
{
    arena->request = request, arena->answer = true;
    arena->session->asked++, arena->daemon->arenas.asked++;
}

/* The request gets its answer now, or there is nobody any more to hear it. */
static void gm_arena_answered(struct gm_arena *arena)
{
    if (!arena->answer)
        return;
    arena->answer = false;
    arena->session->asked--, arena->daemon->arenas.asked--;
}

static void gm_arena_reply_error(struct gm_arena *arena, int status, const char *text)
{
    struct gm_problem problem;
    if (!arena->answer)
        return;
    gm_arena_answered(arena);
    gm_problem_set(&problem, status, "", "%s", text != NULL ? text : gm_error_text(status));
    gm_request_error(arena->session, arena->request, &problem);
}

/* The last step: quota, budget and the entry itself. */
static void gm_arena_release(struct gm_arena *arena)
{
    struct gm_daemon *d = arena->daemon;
    struct gm_session *session = arena->session;
    struct gm_arena *base = arena->base;
    const bool answer = arena->answer;
    gm_arena_answered(arena);
    d->arenas.entries--, arena->user->arenas--;
    if (base == NULL) {
        d->arenas.count--;
        d->arenas.bytes -= arena->bytes;
        gm_user_pay_back(d, arena->user, arena->bytes, arena->kind == GM_ARENA_SHARED);
    }
    if (session == NULL) {
        arena->user->named--;
        gm_user_settle(d, arena->user);
    }
    arena->last_session = session != NULL ? session->id : 0, arena->last_generation = arena->generation;
    arena->state = GM_ARENA_FREE;
    arena->session = NULL;
    if (base != NULL)
        gm_named_detached(base);
    if (session == NULL)
        return;
    session->arenas--;
    if (answer)
        gm_request_ok(session, arena->request);
    gm_session_settle(session);
}

/* ---- give-back ---- */

static void gm_arena_give_back(struct gm_arena *arena)
{
    if (arena->fd < 0) {
        gm_arena_release(arena);
        return;
    }
    arena->state = GM_ARENA_PUNCHING;
    gm_arena_work(arena);
}

void gm_arena_given_back(struct gm_arena *arena)
{
    gm_server_fd_free(arena->daemon);
    gm_arena_release(arena);
}

static void gm_arena_dropped(struct gm_device *v, const struct gm_control *reply, void *context, uint32_t tag)
{
    struct gm_arena *arena = context;
    (void)tag;
    if (reply != NULL && reply->status != GM_OK)
        gm_log(GM_LOG_ERROR, "arena_drop", "device=%u status=%s", v->index, gm_error_name(reply->status));
    if (--arena->waiting == 0)
        gm_arena_give_back(arena);
}

void gm_arena_drop(struct gm_arena *arena)
{
    struct gm_devices *devices = &arena->daemon->devices;
    arena->state = GM_ARENA_DROPPING;
    arena->waiting = 1; /* ours, so that replies on the spot do not end it early */
    for (uint32_t i = 0; i < devices->count; i++) {
        struct gm_control drop = {.type = GM_CONTROL_ARENA_DROP};
        drop.u.arena.handle = gm_arena_handle(arena);
        drop.u.arena.kind = arena->kind;
        drop.u.arena.session = arena->session != NULL ? arena->session->id : 0;
        drop.u.arena.bytes = arena->bytes;
        /* A device that is gone has let go already; other failures cannot be: the channel has room for every arena. */
        if ((arena->devices >> i & 1u) != 0 &&
            gm_device_request(&devices->device[i], &drop, -1, gm_arena_dropped, arena, 0) == GM_OK)
            arena->waiting++;
    }
    arena->devices = 0;
    if (--arena->waiting == 0)
        gm_arena_give_back(arena);
}

void gm_arena_fail(struct gm_arena *arena, int status)
{
    gm_arena_reply_error(arena, status, NULL);
    gm_arena_drop(arena);
}

void gm_arena_free(struct gm_session *session, const struct gm_wire_request *request)
{
    struct gm_problem problem;
    struct gm_arena *arena = NULL;
    int status = gm_arena_find(session, request->u.arena_free.arena, &arena);
    if (status != GM_OK)
        gm_problem_set(&problem, status, "arena", "%s", gm_error_text(status));
    else if (arena->jobs != 0)
        status = gm_problem_set(&problem, GM_EBUSY, "arena", "%u buffers of jobs in flight lie in it", arena->jobs);
    if (status != GM_OK) {
        gm_request_error(session, request->id, &problem);
        return;
    }
    gm_arena_ask(arena, request->id);
    gm_arena_drop(arena);
}

static void gm_arena_settle(struct gm_arena *arena)
{
    if (arena->state == GM_ARENA_READY && arena->jobs == 0 && arena->session->state == GM_SESSION_LEAVING)
        gm_arena_drop(arena);
}

void gm_arena_pin(struct gm_arena *arena)
{
    arena->jobs++;
}

void gm_arena_unpin(struct gm_arena *arena)
{
    arena->jobs--;
    gm_arena_settle(arena);
}

void gm_arenas_leave(struct gm_session *session)
{
    struct gm_arenas *arenas = &session->daemon->arenas;
    for (uint32_t i = 1; i < GM_ARENAS_MAX && session->arenas != 0; i++) {
        struct gm_arena *arena = &arenas->arena[i];
        if (arena->session != session)
            continue;
        gm_arena_answered(arena);
        if (arena->state == GM_ARENA_MAKING || arena->state == GM_ARENA_WAITING)
            gm_arena_forget(arena->base != NULL ? arena->base : arena);
        else
            gm_arena_settle(arena);
    }
}

/* ---- creation ---- */

static void gm_arena_ready(struct gm_arena *arena)
{
    struct gm_session *session = arena->session;
    struct gm_wire_out out;
    int fd = -1;
    arena->state = GM_ARENA_READY;
    if (arena->kind == GM_ARENA_SHARED)
        fd = arena->base != NULL ? gm_named_descriptor(arena) : fcntl(arena->fd, F_DUPFD_CLOEXEC, 0);
    if (arena->kind == GM_ARENA_SHARED && fd < 0) {
        gm_arena_fail(arena, GM_EFDS);
        return;
    }
    if (arena->base != NULL)
        gm_named_ready(arena);
    gm_arena_answered(arena);
    if (gm_conn_reserve(&session->conn, GM_REPLY_SMALL, &out)) {
        const bool where = arena->kind == GM_ARENA_DEVICE;
        const size_t start = gm_wire_begin_result(&out, arena->request);
        gm_wire_put_map(&out, 2u + arena->read_only + where);
        gm_wire_put_str(&out, "arena"), gm_wire_put_u64(&out, gm_arena_handle(arena));
        gm_wire_put_str(&out, "bytes"), gm_wire_put_u64(&out, arena->bytes);
        if (arena->read_only)
            gm_wire_put_str(&out, "kind"), gm_wire_put_str(&out, where ? "device" : "shared");
        if (where)
            gm_wire_put_str(&out, "device"), gm_wire_put_u64(&out, (uint32_t)__builtin_ctz(arena->devices));
        const int status = gm_wire_end(&out, start);
        assert(status == GM_OK);
        gm_conn_commit(&session->conn, &out, fd);
    } else if (fd >= 0) {
        close(fd);
    }
    gm_arena_settle(arena);
}

/* New device memory holds what somebody else left there: the client hears of it after it is cleared. */
static void gm_arena_zero(struct gm_arena *arena)
{
    struct gm_daemon *d = arena->daemon;
    struct gm_job *job = gm_job_new(d, true);
    if (job == NULL) {
        gm_arena_fail(arena, GM_EBUSY);
        return;
    }
    arena->state = GM_ARENA_ZEROING;
    job->session = arena->session, job->zeroes = arena;
    job->device = &d->devices.device[__builtin_ctz(arena->devices)];
    job->op = GM_OP_fill, job->wide = true;
    job->cost = gm_enqueue_cost(arena->bytes);
    job->words[GM_W_OP] = GM_OP_fill | (uint32_t)GM_DTYPE_u8 << 16 | (uint32_t)GM_FLAG_WIDE << 24;
    job->words[GM_W_SESSION] = arena->session->id;
    job->words[GM_W_ARENA0] = gm_arena_handle(arena);
    gm_desc_put64(job->words, GM_W_N, arena->bytes);
    job->words[GM_W_WIDE] = GM_DESC_WIDE_MARK;
    gm_job_accept(d, job);
}

void gm_arena_zeroed(struct gm_arena *arena, int status)
{
    if (status == GM_OK) {
        gm_arena_ready(arena);
        return;
    }
    gm_arena_fail(arena, status);
}

/* Every device has said what it thinks of it. */
static void gm_arena_announced(struct gm_arena *arena)
{
    if (arena->devices == 0 && arena->error == GM_OK)
        arena->error = GM_EDEVICELOST;
    if (arena->session == NULL) {
        gm_named_made(arena);
    } else if (arena->error != GM_OK) {
        gm_arena_fail(arena, arena->error);
    } else if (arena->kind == GM_ARENA_DEVICE && !arena->read_only) {
        gm_arena_zero(arena);
    } else {
        gm_arena_ready(arena);
    }
}

static void gm_arena_added(struct gm_device *v, const struct gm_control *reply, void *context, uint32_t tag)
{
    struct gm_arena *arena = context;
    (void)tag;
    const int status = reply != NULL ? reply->status : gm_arena_can_wait(arena, v) ? GM_OK : GM_EDEVICELOST;
    /* One that ran out of time may still take it, and has to let go like one that did. */
    if (status == GM_OK || status == GM_ETIMEDOUT)
        arena->devices |= 1u << v->index;
    if (status != GM_OK && arena->error == GM_OK && (reply != NULL || arena->kind == GM_ARENA_DEVICE)) {
        /* Shared memory can do without a device that died; a refusal ends it. */
        arena->error = status;
        if (reply != NULL)
            gm_log(GM_LOG_WARN, "arena_refused", "device=%u bytes=%llu status=%s text=\"%s\"", v->index,
                   (unsigned long long)arena->bytes, gm_error_name(reply->status), reply->u.text);
    }
    if (--arena->waiting == 0)
        gm_arena_announced(arena);
}

int gm_arena_message(const struct gm_arena *arena, struct gm_control *add)
{
    const bool alias = arena->base != NULL && arena->kind == GM_ARENA_DEVICE && !arena->gone;
    *add = (struct gm_control){.type = GM_CONTROL_ARENA_ADD, .value = alias ? gm_arena_handle(arena->base) : 0};
    add->u.arena = (struct gm_control_arena){
        .handle = gm_arena_handle(arena),
        .kind = arena->kind,
        .flags = (arena->read_only ? GM_ARENA_READONLY : 0u) | (alias ? GM_ARENA_ALIAS : 0u) |
                 (arena->gone ? GM_ARENA_GONE : 0u),
        .session = arena->session != NULL ? arena->session->id : 0, /* no session has this number */
        .bytes = arena->bytes};
    return gm_arena_memory(arena)->fd;
}

void gm_arena_add(struct gm_arena *arena, uint32_t targets)
{
    struct gm_devices *devices = &arena->daemon->devices;
    arena->state = GM_ARENA_ADDING;
    arena->devices = 0;
    arena->waiting = 1;
    for (uint32_t i = 0; i < devices->count; i++) {
        struct gm_control add;
        const int fd = gm_arena_message(arena, &add);
        if ((targets >> i & 1u) == 0 || !gm_device_serves(&devices->device[i]))
            continue;
        const int status = gm_device_request(&devices->device[i], &add, fd, gm_arena_added, arena, 0);
        if (status == GM_OK)
            arena->waiting++;
        else if (status == GM_EDEVICELOST && gm_arena_can_wait(arena, &devices->device[i]))
            arena->devices |= 1u << i;
        else if (arena->error == GM_OK)
            arena->error = status;
    }
    if (--arena->waiting == 0)
        gm_arena_announced(arena);
}

void gm_arena_made(struct gm_arena *arena)
{
    if (arena->error != GM_OK)
        gm_log(GM_LOG_WARN, "arena_failed", "bytes=%llu error=%s", (unsigned long long)arena->bytes,
               gm_error_name(arena->error));
    if (arena->session == NULL) {
        gm_named_made(arena);
    } else if (arena->error == GM_OK) {
        gm_arena_add(arena, arena->targets);
    } else {
        gm_arena_reply_error(arena, arena->error, NULL);
        gm_arena_release(arena);
    }
}
