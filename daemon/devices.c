/* SPDX-License-Identifier: Apache-2.0
 *
 * Device processes: start, ready, lost, stop. Loop thread; bounded by GM_DEVICES_MAX. An explicit device that does not
 * start ends the daemon with the reason; only `auto` turns to the CPU, and says so.
 */
#include "devices.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon.h"
#include "enqueue.h"
#include "reap.h"
#include "server.h"
#include "source_id.h"
#include "spawn.h"

static void gm_device_exited(uv_process_t *process, int64_t status, int signal);

const char *gm_device_state_name(const struct gm_device *v)
{
    switch (v->state) {
    case GM_DEVICE_STARTING:
        return "starting";
    case GM_DEVICE_UP:
        return gm_load_relaxed_sys_u32(&v->lane->asleep) != 0 ? "asleep" : "up";
    case GM_DEVICE_UNRESPONSIVE:
        return "unresponsive";
    case GM_DEVICE_STOPPING:
        return "stopping";
    default:
        return "lost";
    }
}

static int gm_device_staging(struct gm_device *v)
{
    v->staging_fd = gm_memfd("gridmill-staging", GM_STAGING_BYTES, true);
    if (v->staging_fd < 0)
        return v->staging_fd;
    void *memory = mmap(NULL, GM_STAGING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, v->staging_fd, 0);
    if (memory == MAP_FAILED)
        return GM_ENOMEM;
    v->staging_bytes = memory;
    gm_staging_init(&v->staging);
    return GM_OK;
}

static void gm_close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void gm_device_release(struct gm_device *v)
{
    gm_region_release(v);
    if (v->staging_bytes != NULL)
        munmap(v->staging_bytes, GM_STAGING_BYTES);
    v->staging_bytes = NULL;
    gm_close_fd(&v->staging_fd);
    gm_close_fd(&v->control);
    gm_close_fd(&v->doorbell);
    gm_close_fd(&v->wake);
}

static int gm_device_start(struct gm_device *v);

static void gm_device_handle_closed(uv_handle_t *handle)
{
    struct gm_device *v = handle->data;
    if (--v->handles != 0 || v->state != GM_DEVICE_NONE)
        return;
    /* The GPU of `auto` did not come up, and nothing of the attempt is left. */
    struct gm_daemon *d = v->daemon;
    gm_device_release(v);
    if (d->phase != GM_PHASE_STARTING)
        return;
    v->config.backend = GM_BACKEND_CPU;
    memcpy(v->config.name, "cpu", sizeof "cpu");
    const int status = gm_device_start(v);
    if (status != GM_OK)
        gm_server_failed(d, v->reason);
}

static void gm_device_close_handles(struct gm_device *v)
{
    uv_handle_t *handles[] = {(uv_handle_t *)&v->control_poll, (uv_handle_t *)&v->wake_poll};
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++)
        if (handles[i]->data != NULL && !uv_is_closing(handles[i])) {
            uv_poll_stop((uv_poll_t *)handles[i]);
            uv_close(handles[i], gm_device_handle_closed);
        }
}

static void gm_device_woken(uv_poll_t *poll, int status, int events)
{
    struct gm_device *v = poll->data;
    uint64_t count;
    (void)status, (void)events;
    gm_turn_start(v->daemon);
    if (read(v->wake, &count, sizeof count) < 0 && errno != EAGAIN && errno != EINTR)
        gm_device_lost(v, "the wake descriptor failed: %s", strerror(errno));
}

/* Descriptors, memory and the process of one device. The reason is filled in when it fails. */
static int gm_device_start(struct gm_device *v)
{
    char path[GM_PATH_BYTES];
    int pair[2] = {-1, -1};
    v->state = GM_DEVICE_STARTING;
    v->got_ready = v->exited = v->ended = false;
    v->control = v->doorbell = v->wake = v->staging_fd = v->region_fd = -1;
    v->control_poll.data = v->wake_poll.data = v->process.data = NULL;
    if (!gm_config_program(&v->daemon->config, v->config.backend, path, sizeof path)) {
        snprintf(v->reason, sizeof v->reason, "there is no device program %.100s", path);
        return GM_ENODEVICE;
    }
    int status = gm_region_create(v);
    if (status == GM_OK)
        status = gm_device_staging(v);
    if (status != GM_OK) {
        snprintf(v->reason, sizeof v->reason, "no shared memory: %s", gm_error_text(status));
        goto fail;
    }
    v->doorbell = eventfd(0, EFD_CLOEXEC);
    v->wake = eventfd(0, EFD_CLOEXEC);
    if (v->doorbell < 0 || v->wake < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        status = errno == EMFILE ? GM_EFDS : GM_ESYSTEM;
        snprintf(v->reason, sizeof v->reason, "no descriptors: %s", strerror(errno));
        goto fail;
    }
    v->control = pair[0];
    const struct gm_spawn spawn = {.program = path,
                                   .config = &v->daemon->config,
                                   .device = &v->config,
                                   .fds = {pair[1], v->region_fd, v->doorbell, v->wake},
                                   .exited = gm_device_exited};
    status = gm_spawn_device(&v->daemon->loop, &v->process, &spawn, v->reason, sizeof v->reason);
    close(pair[1]);
    if (status != GM_OK)
        goto fail;
    v->process.data = v->control_poll.data = v->wake_poll.data = v;
    v->pid = v->process.pid;
    v->spawned_ns = gm_now_ns();
    uv_poll_init(&v->daemon->loop, &v->control_poll, v->control);
    uv_poll_init(&v->daemon->loop, &v->wake_poll, v->wake);
    v->handles = 3;
    uv_poll_start(&v->control_poll, UV_READABLE, gm_control_readable);
    uv_poll_start(&v->wake_poll, UV_READABLE, gm_device_woken);
    return GM_OK;
fail:
    gm_device_release(v);
    v->state = GM_DEVICE_LOST;
    return status;
}

/* Start-up did not work: the CPU for `auto`, the end for everything else. */
void gm_device_failed(struct gm_device *v, const char *format, ...)
{
    va_list args;
    if (v->state != GM_DEVICE_STARTING)
        return;
    va_start(args, format);
    vsnprintf(v->reason, sizeof v->reason, format, args);
    va_end(args);
    const bool again = v->config.automatic && v->config.backend == GM_BACKEND_CUDA;
    v->state = again ? GM_DEVICE_NONE : GM_DEVICE_LOST;
    if (!v->exited)
        uv_process_kill(&v->process, SIGKILL);
    gm_control_abandon(v);
    gm_device_close_handles(v);
    if (again)
        snprintf(v->fallback, sizeof v->fallback, "%s", v->reason);
    else
        gm_server_failed(v->daemon, v->reason);
}

static void gm_device_staged(struct gm_device *v, const struct gm_control *reply, void *context, uint32_t tag)
{
    struct gm_daemon *d = v->daemon;
    (void)context, (void)tag;
    if (v->state != GM_DEVICE_STARTING)
        return;
    if (reply == NULL || reply->status != GM_OK) {
        gm_device_failed(v, "cannot register the staging arena: %s", reply == NULL ? "lost" : reply->u.text);
        return;
    }
    v->state = GM_DEVICE_UP;
    v->ping_answered_ns = v->busy_at_ns = gm_now_ns();
    v->window = GM_WINDOW_FIRST;
    char text[GM_ERROR_TEXT_MAX + 128];
    if (v->config.backend == GM_BACKEND_CUDA)
        snprintf(text, sizeof text, "%s, %s, %" PRIu32 " workers", v->config.name, v->hello.name, v->hello.workers);
    else
        snprintf(text, sizeof text, "cpu, %" PRIu32 " workers%s%s%s", v->hello.workers,
                 v->fallback[0] != 0 ? " (no GPU: " : "", v->fallback, v->fallback[0] != 0 ? ")" : "");
    gm_log(GM_LOG_INFO, "device", "%" PRIu32 ": %s pid=%ld", v->index, text, (long)v->pid);
    if (--d->devices.starting == 0)
        gm_server_devices_up(d);
}

void gm_device_ready(struct gm_device *v, const struct gm_control_hello *hello)
{
    if (v->state != GM_DEVICE_STARTING)
        return;
    v->hello = *hello;
    v->hello.source_id[sizeof v->hello.source_id - 1] = 0;
    v->hello.name[sizeof v->hello.name - 1] = v->hello.uuid[sizeof v->hello.uuid - 1] = 0;
    v->hello.detail[sizeof v->hello.detail - 1] = 0;
    if (hello->control_version != GM_CONTROL_VERSION || strcmp(v->hello.source_id, GM_SOURCE_ID) != 0) {
        gm_device_failed(v, "the device program is of another build (%.32s, this is %.32s): install both together",
                         v->hello.source_id, GM_SOURCE_ID);
        return;
    }
    struct gm_control add = {.type = GM_CONTROL_ARENA_ADD};
    add.u.arena = (struct gm_control_arena){
        .handle = gm_handle(0, 1), .kind = GM_ARENA_SHARED, .flags = GM_ARENA_STAGING, .bytes = GM_STAGING_BYTES};
    const int status = gm_device_request(v, &add, v->staging_fd, gm_device_staged, NULL, 0);
    if (status != GM_OK)
        gm_device_failed(v, "cannot send the staging arena: %s", gm_error_text(status));
}

static void gm_device_exited(uv_process_t *process, int64_t status, int signal)
{
    struct gm_device *v = process->data;
    gm_turn_start(v->daemon);
    v->exited = true;
    if (v->state == GM_DEVICE_STARTING || gm_device_live(v))
        gm_control_readable(&v->control_poll, 0, UV_READABLE); /* its last words */
    char how[64];
    if (signal != 0)
        snprintf(how, sizeof how, "was ended by signal %d (%s)", signal, strsignal(signal));
    else
        snprintf(how, sizeof how, "exited with status %" PRId64, status);
    if (v->state == GM_DEVICE_STARTING)
        gm_device_failed(v, "the device process %s before it was ready", how);
    else if (gm_device_live(v))
        gm_device_lost(v, "the device process %s", how);
    else if (v->state == GM_DEVICE_LOST && v->ended)
        snprintf(v->reason, sizeof v->reason, "the device process %s", how);
    gm_log(GM_LOG_INFO, "device_exit", "device=%" PRIu32 " pid=%ld %s", v->index, (long)v->pid, how);
    if (v->state == GM_DEVICE_STOPPING) {
        v->state = GM_DEVICE_LOST;
        gm_control_abandon(v);
    }
    gm_device_close_handles(v);
    uv_close((uv_handle_t *)&v->process, gm_device_handle_closed);
}

/* What becomes of the jobs of a dead device. A restart of the process would keep the ones that did not start. */
static void gm_device_fail_jobs(struct gm_device *v)
{
    const uint32_t *journal = (const uint32_t *)(const void *)(v->region + gm_region_journal_offset());
    struct gm_job *job;
    while (v->flight_count != 0) {
        job = v->flight[--v->flight_count];
        const uint32_t slot = (uint32_t)(job->position & (GM_LANE0_SLOTS - 1u));
        const bool started = gm_load_acquire_sys_u32(&journal[slot]) == gm_lap(job->position, v->lane->slots_log2);
        gm_job_finish(v->daemon, job, GM_EDEVICELOST, 0, 0,
                      started ? NULL : "the device was lost before the job started");
    }
    v->flight_cost = 0;
    memset(v->slot, 0, sizeof v->slot);
    while ((job = gm_enqueue_next(v)) != NULL)
        gm_job_finish(v->daemon, job, GM_EDEVICELOST, 0, 0, "the device was lost before the job started");
}

void gm_device_lost(struct gm_device *v, const char *format, ...)
{
    va_list args;
    if (v->state == GM_DEVICE_LOST || v->state == GM_DEVICE_NONE)
        return;
    gm_reap_device(v); /* completions that are in the ring count */
    va_start(args, format);
    vsnprintf(v->reason, sizeof v->reason, format, args);
    va_end(args);
    const bool starting = v->state == GM_DEVICE_STARTING;
    v->state = GM_DEVICE_LOST;
    gm_store_release_sys_u32(&v->lane->state, GM_LANE_LOST);
    gm_log(GM_LOG_ERROR, "device_lost", "device=%" PRIu32 " pid=%ld jobs=%" PRIu32 " queued=%" PRIu32 " reason=\"%s\"",
           v->index, (long)v->pid, v->flight_count, v->queued, v->reason);
    if (!v->exited)
        uv_process_kill(&v->process, SIGKILL);
    gm_device_fail_jobs(v);
    gm_arenas_device_lost(v->daemon, v->index);
    gm_control_abandon(v);
    gm_device_close_handles(v);
    if (starting)
        gm_server_failed(v->daemon, v->reason);
}

int gm_devices_start(struct gm_daemon *d)
{
    d->devices.count = d->config.devices;
    d->devices.starting = d->devices.count;
    for (uint32_t i = 0; i < d->devices.count; i++) {
        struct gm_device *v = &d->devices.device[i];
        v->daemon = d, v->index = i;
        v->config = d->config.device[i];
        v->control = v->doorbell = v->wake = v->staging_fd = v->region_fd = -1;
        gm_list_init(&v->users);
    }
    for (uint32_t i = 0; i < d->devices.count; i++) {
        struct gm_device *v = &d->devices.device[i];
        int status = gm_device_start(v);
        if (status != GM_OK && v->config.automatic) {
            memcpy(v->fallback, v->reason, sizeof v->fallback);
            v->config.backend = GM_BACKEND_CPU;
            memcpy(v->config.name, "cpu", sizeof "cpu");
            status = gm_device_start(v);
        }
        if (status != GM_OK) {
            gm_server_failed(d, v->reason);
            return status;
        }
    }
    return GM_OK;
}

static void gm_device_stopped(struct gm_device *v, const struct gm_control *reply, void *context, uint32_t tag)
{
    (void)context, (void)tag;
    if (reply != NULL && reply->status != GM_OK)
        gm_log(GM_LOG_WARN, "device_stop", "device=%" PRIu32 " status=%s", v->index, gm_error_name(reply->status));
}

void gm_devices_stop(struct gm_daemon *d)
{
    for (uint32_t i = 0; i < d->devices.count; i++) {
        struct gm_device *v = &d->devices.device[i];
        struct gm_control stop = {.type = GM_CONTROL_STOP};
        if (gm_device_live(v) && gm_device_request(v, &stop, -1, gm_device_stopped, NULL, 0) == GM_OK)
            v->state = GM_DEVICE_STOPPING;
        else if (v->pid != 0 && !v->exited)
            uv_process_kill(&v->process, SIGKILL);
    }
}

void gm_devices_kill(struct gm_daemon *d)
{
    for (uint32_t i = 0; i < d->devices.count; i++) {
        struct gm_device *v = &d->devices.device[i];
        if (v->pid == 0 || v->exited)
            continue;
        if (v->state != GM_DEVICE_LOST)
            gm_log(GM_LOG_WARN, "device_kill", "device=%" PRIu32 " pid=%ld", v->index, (long)v->pid);
        if (v->state == GM_DEVICE_STARTING || gm_device_live(v))
            v->state = GM_DEVICE_STOPPING;
        uv_process_kill(&v->process, SIGKILL);
    }
}

bool gm_devices_gone(const struct gm_daemon *d)
{
    for (uint32_t i = 0; i < d->devices.count; i++)
        if (d->devices.device[i].handles != 0)
            return false;
    return true;
}

void gm_devices_tick(struct gm_daemon *d)
{
    for (uint32_t i = 0; i < d->devices.count; i++) {
        struct gm_device *v = &d->devices.device[i];
        if (v->staging_bytes == NULL || v->staging.used != 0 || !v->staging_touched)
            continue;
        /* The pages stay in the memfd; they are only not counted as resident here any more. */
        madvise(v->staging_bytes, GM_STAGING_BYTES, MADV_DONTNEED);
        v->staging_touched = false;
    }
}

void gm_devices_release(struct gm_daemon *d)
{
    for (uint32_t i = 0; i < d->devices.count; i++)
        gm_device_release(&d->devices.device[i]);
}
