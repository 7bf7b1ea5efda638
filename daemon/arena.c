/* SPDX-License-Identifier: Apache-2.0
 *
 * Arenas from request to give-back. Loop thread, except gm_arena_make and gm_arena_punch, which run in libuv's pool on
 * fields that the loop leaves alone meanwhile. Memory is admitted before it is allocated and leaves the quota only
 * after its pages are given back.
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

static void gm_arena_reply_error(struct gm_arena *arena, int status, const char *text)
{
    struct gm_problem problem;
    if (!arena->answer)
        return;
    arena->answer = false;
    gm_problem_set(&problem, status, "", "%s", text != NULL ? text : gm_error_text(status));
    gm_request_error(arena->session, arena->request, &problem);
}

/* The last step: quota, budget and the entry itself. */
static void gm_arena_release(struct gm_arena *arena)
{
    struct gm_daemon *d = arena->daemon;
    struct gm_session *session = arena->session;
    struct gm_arena *base = arena->base;
    if (arena->fd >= 0) {
        close(arena->fd);
        arena->fd = -1;
        gm_server_fd_free(d);
    }
    d->arenas.entries--;
    if (base == NULL) {
        d->arenas.count--;
        d->arenas.bytes -= arena->bytes;
        if (arena->kind == GM_ARENA_SHARED)
            d->arenas.shared_bytes -= arena->bytes;
        arena->user->arena_bytes -= arena->bytes;
    }
    if (session == NULL)
        arena->user->named--;
    arena->last_session = session != NULL ? session->id : 0, arena->last_generation = arena->generation;
    arena->state = GM_ARENA_FREE;
    arena->session = NULL;
    if (base != NULL)
        gm_named_detached(base);
    if (session == NULL)
        return;
    session->arenas--;
    if (arena->answer) {
        arena->answer = false;
        gm_request_ok(session, arena->request);
    }
    gm_session_settle(session);
}

/* ---- give-back ---- */

/* Pool thread. Pages go back although the client may still have them mapped. */
static void gm_arena_punch(uv_work_t *work)
{
    struct gm_arena *arena = GM_CONTAINER(work, struct gm_arena, work);
    while (fallocate(arena->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)arena->bytes) != 0 &&
           errno == EINTR)
        ;
}

static void gm_arena_punched(uv_work_t *work, int status)
{
    (void)status; /* never cancelled */
    struct gm_arena *arena = GM_CONTAINER(work, struct gm_arena, work);
    gm_turn_start(arena->daemon);
    gm_arena_release(arena);
}

static void gm_arena_give_back(struct gm_arena *arena)
{
    /* When the daemon ends, its clients may still read their results; the memory goes with the last of them. */
    if (arena->fd < 0 || arena->daemon->phase >= GM_PHASE_FINISHING) {
        gm_arena_release(arena);
        return;
    }
    arena->state = GM_ARENA_PUNCHING;
    if (uv_queue_work(&arena->daemon->loop, &arena->work, gm_arena_punch, gm_arena_punched) != 0) {
        gm_arena_punch(&arena->work);
        gm_arena_release(arena);
    }
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
        status = gm_problem_set(&problem, GM_EBUSY, "arena", "%u jobs in flight use the arena", arena->jobs);
    if (status != GM_OK) {
        gm_request_error(session, request->id, &problem);
        return;
    }
    arena->request = request->id, arena->answer = true;
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
    for (uint32_t i = 1; i < GM_ARENAS_MAX && session->arenas != 0; i++)
        if (arenas->arena[i].session == session)
            gm_arena_settle(&arenas->arena[i]);
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
    arena->answer = false;
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
    if (reply != NULL ? reply->status == GM_OK : gm_arena_can_wait(arena, v)) {
        arena->devices |= 1u << v->index;
    } else if (arena->error == GM_OK && (reply != NULL || arena->kind == GM_ARENA_DEVICE)) {
        /* Shared memory can do without a device that died; a refusal ends it. */
        arena->error = reply == NULL ? GM_EDEVICELOST : reply->status;
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

/* Pool thread. */
static void gm_arena_make(uv_work_t *work)
{
    struct gm_arena *arena = GM_CONTAINER(work, struct gm_arena, work);
    const int fd = gm_memfd("gridmill-arena", arena->bytes, true);
    arena->fd = fd < 0 ? -1 : fd;
    arena->error = fd < 0 ? fd : GM_OK;
}

static void gm_arena_made(uv_work_t *work, int status)
{
    struct gm_arena *arena = GM_CONTAINER(work, struct gm_arena, work);
    (void)status; /* never cancelled */
    gm_turn_start(arena->daemon);
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

struct gm_arena *gm_arena_new(struct gm_daemon *d)
{
    for (uint32_t tried = 1; tried < GM_ARENAS_MAX; tried++) {
        struct gm_arena *arena = &d->arenas.arena[d->arenas.cursor];
        const uint32_t index = d->arenas.cursor;
        d->arenas.cursor = index + 1u < GM_ARENAS_MAX ? index + 1u : 1u;
        if (arena->state != GM_ARENA_FREE)
            continue;
        arena->daemon = d;
        arena->index = index;
        arena->generation = arena->generation % 65535u + 1u; /* 1 .. 65535 */
        arena->fd = -1, arena->error = GM_OK, arena->jobs = arena->waiting = arena->devices = arena->attached = 0;
        arena->base = arena->creator = NULL;
        arena->read_only = arena->removed = arena->answer = arena->gone = false;
        arena->name[0] = 0;
        d->arenas.entries++;
        return arena;
    }
    return NULL;
}

int gm_arena_admit_handle(struct gm_session *session, uint32_t entries, struct gm_problem *problem)
{
    if (session->arenas >= GM_ARENAS_PER_SESSION_MAX)
        return gm_problem_set(problem, GM_EQUOTA, "", "a connection has at most %u arenas", GM_ARENAS_PER_SESSION_MAX);
    if (session->daemon->arenas.entries + entries >= GM_ARENAS_MAX)
        return gm_problem_set(problem, GM_EQUOTA, "", "all %u arenas are in use", GM_ARENAS_MAX - 1u);
    return GM_OK;
}

static int gm_arena_admit(struct gm_session *session, uint64_t bytes, bool device, struct gm_problem *problem)
{
    struct gm_daemon *d = session->daemon;
    if (bytes > d->config.quota || session->user->arena_bytes > d->config.quota - bytes)
        return gm_problem_set(problem, GM_EQUOTA, "bytes", "the user has %llu of %llu bytes",
                              (unsigned long long)session->user->arena_bytes, (unsigned long long)d->config.quota);
    if (!device && (bytes > d->config.memory || d->arenas.shared_bytes > d->config.memory - bytes))
        return gm_problem_set(problem, GM_ENOMEM, "bytes", "%llu of the daemon's %llu bytes for arenas are taken",
                              (unsigned long long)d->arenas.shared_bytes, (unsigned long long)d->config.memory);
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
        status = gm_arena_admit(session, bytes, request->u.arena_create.device_memory, problem);
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
    struct gm_arena *arena = gm_arena_new(d);
    assert(arena != NULL); /* counted above */
    arena->session = session, arena->user = session->user, arena->bytes = bytes;
    arena->kind = device ? GM_ARENA_DEVICE : GM_ARENA_SHARED;
    arena->targets = targets;
    d->arenas.count++;
    d->arenas.bytes += bytes;
    if (!device)
        d->arenas.shared_bytes += bytes;
    session->user->arena_bytes += bytes;
    session->arenas++;
    struct gm_arena *handle = named ? gm_named_create(session, arena, request->u.arena_create.name) : arena;
    handle->request = request->id, handle->answer = true;
    if (device) {
        gm_arena_add(arena, targets);
        return;
    }
    arena->state = GM_ARENA_MAKING;
    if (uv_queue_work(&d->loop, &arena->work, gm_arena_make, gm_arena_made) != 0) {
        arena->error = GM_ENOMEM;
        gm_arena_made(&arena->work, 0);
    }
}
