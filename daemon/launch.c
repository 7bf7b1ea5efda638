/* SPDX-License-Identifier: Apache-2.0
 *
 * One device process from exec to exit: descriptors, READY, its last words. Loop thread. An explicit device that does
 * not start with the daemon ends the daemon with the reason; only `auto` turns to the CPU, and says so.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon.h"
#include "server.h"
#include "source_id.h"
#include "spawn.h"

static int gm_launch_staging(struct gm_device *v)
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

/* Memory that outlives the process. */
static int gm_launch_memory(struct gm_device *v)
{
    const int status = v->region != NULL ? GM_OK : gm_region_create(v);
    return status == GM_OK && v->staging_bytes == NULL ? gm_launch_staging(v) : status;
}

static void gm_close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void gm_launch_release(struct gm_device *v)
{
    gm_close_fd(&v->control);
    gm_close_fd(&v->doorbell);
    gm_close_fd(&v->wake);
}

static void gm_launch_closed(uv_handle_t *handle)
{
    struct gm_device *v = handle->data;
    if (--v->handles != 0)
        return;
    if (v->state == GM_DEVICE_FALLING) {
        gm_restart_reaped(v);
    } else if (v->state == GM_DEVICE_NONE && v->daemon->phase == GM_PHASE_STARTING) {
        /* The GPU of `auto` did not come up, and nothing of the attempt is left. */
        gm_launch_release(v);
        v->config.backend = GM_BACKEND_CPU;
        memcpy(v->config.name, "cpu", sizeof "cpu");
        v->state = GM_DEVICE_STARTING;
        if (gm_launch(v) != GM_OK)
            gm_device_failed(v, "%s", v->reason);
    }
}

void gm_launch_close(struct gm_device *v)
{
    uv_handle_t *handles[] = {(uv_handle_t *)&v->control_poll, (uv_handle_t *)&v->wake_poll};
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++)
        if (handles[i]->data != NULL && !uv_is_closing(handles[i])) {
            uv_poll_stop((uv_poll_t *)handles[i]);
            uv_close(handles[i], gm_launch_closed);
        }
}

static void gm_launch_woken(uv_poll_t *poll, int status, int events)
{
    struct gm_device *v = poll->data;
    uint64_t count;
    (void)status, (void)events;
    gm_turn_start(v->daemon);
    if (read(v->wake, &count, sizeof count) < 0 && errno != EAGAIN && errno != EINTR)
        gm_device_lost(v, "the wake descriptor failed: %s", strerror(errno));
}

static void gm_launch_exited(uv_process_t *process, int64_t status, int signal)
{
    struct gm_device *v = process->data;
    char how[64];
    gm_turn_start(v->daemon);
    v->exited = true;
    if (v->state == GM_DEVICE_STARTING || v->state == GM_DEVICE_RISING || gm_device_live(v))
        gm_control_readable(&v->control_poll, 0, UV_READABLE); /* its last words */
    if (signal != 0)
        snprintf(how, sizeof how, "was ended by signal %d (%s)", signal, strsignal(signal));
    else
        snprintf(how, sizeof how, "exited with status %" PRId64, status);
    if (v->state == GM_DEVICE_STARTING)
        gm_device_failed(v, "the device process %s before it was ready", how);
    else if (v->state == GM_DEVICE_RISING)
        gm_device_lost(v, "the device process %s before it was ready", how);
    else if (gm_device_live(v))
        gm_device_lost(v, "the device process %s", how);
    else if (v->state == GM_DEVICE_FALLING && v->ended)
        snprintf(v->reason, sizeof v->reason, "the device process %s", how);
    gm_log(GM_LOG_INFO, "device_exit", "device=%" PRIu32 " pid=%ld %s", v->index, (long)v->pid, how);
    if (v->state == GM_DEVICE_STOPPING) {
        v->state = GM_DEVICE_LOST;
        gm_control_abandon(v);
    }
    gm_launch_close(v);
    uv_close((uv_handle_t *)&v->process, gm_launch_closed);
}

bool gm_launch_gpu_here(void)
{
    return access("/dev/nvidiactl", F_OK) == 0;
}

/* Its descriptors and the process itself. The reason is filled in when it fails; then nothing is left of it. */
int gm_launch(struct gm_device *v)
{
    char path[GM_PATH_BYTES];
    int pair[2] = {-1, -1};
    v->got_ready = v->ended = v->ping_waits = v->ping_failed = v->unresponsive_logged = v->kill_sent = false;
    v->exited = true;
    v->control_poll.data = v->wake_poll.data = v->process.data = NULL;
    if (!gm_config_program(&v->daemon->config, v->config.backend, path, sizeof path)) {
        snprintf(v->reason, sizeof v->reason, "there is no device program %.72s: %s--device-program says where it is",
                 path, v->config.backend == GM_BACKEND_CUDA ? "build with nvcc, or " : "");
        return GM_ENODEVICE;
    }
    int status = gm_launch_memory(v);
    if (status != GM_OK) {
        snprintf(v->reason, sizeof v->reason, "no shared memory: %s", gm_error_text(status));
        return status;
    }
    v->doorbell = eventfd(0, EFD_CLOEXEC);
    v->wake = eventfd(0, EFD_CLOEXEC);
    if (v->doorbell < 0 || v->wake < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        status = errno == EMFILE ? GM_EFDS : GM_ESYSTEM;
        snprintf(v->reason, sizeof v->reason, "no descriptors: %s", strerror(errno));
        gm_launch_release(v);
        return status;
    }
    v->control = pair[0];
    const struct gm_spawn spawn = {.program = path,
                                   .config = &v->daemon->config,
                                   .device = &v->config,
                                   .fds = {pair[1], v->region_fd, v->doorbell, v->wake},
                                   .exited = gm_launch_exited};
    status = gm_spawn_device(&v->daemon->loop, &v->process, &spawn, v->reason, sizeof v->reason);
    close(pair[1]);
    if (status != GM_OK) {
        gm_launch_release(v);
        return status;
    }
    v->process.data = v->control_poll.data = v->wake_poll.data = v;
    v->pid = v->process.pid, v->exited = false;
    v->spawned_ns = gm_now_ns();
    uv_poll_init(&v->daemon->loop, &v->control_poll, v->control);
    uv_poll_init(&v->daemon->loop, &v->wake_poll, v->wake);
    v->handles = 3;
    uv_poll_start(&v->control_poll, UV_READABLE, gm_control_readable);
    uv_poll_start(&v->wake_poll, UV_READABLE, gm_launch_woken);
    return GM_OK;
}

void gm_device_failed(struct gm_device *v, const char *format, ...)
{
    va_list args;
    char reason[GM_ERROR_TEXT_MAX];
    if (v->state != GM_DEVICE_STARTING)
        return;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    memcpy(v->reason, reason, sizeof v->reason);
    const bool again = v->config.automatic && v->config.backend == GM_BACKEND_CUDA;
    v->state = again ? GM_DEVICE_NONE : GM_DEVICE_LOST;
    if (!v->exited)
        uv_process_kill(&v->process, SIGKILL);
    gm_control_abandon(v);
    gm_launch_close(v);
    if (again)
        snprintf(v->fallback, sizeof v->fallback, "%.16s: %.140s", v->config.name, reason);
    else
        gm_server_failed(v->daemon, v->reason);
}

static void gm_launch_staged(struct gm_device *v, const struct gm_control *reply, void *context, uint32_t tag)
{
    struct gm_daemon *d = v->daemon;
    (void)context, (void)tag;
    if (v->state != GM_DEVICE_STARTING)
        return;
    if (reply == NULL || reply->status != GM_OK) {
        gm_device_failed(v, "cannot register the staging arena: %s", reply == NULL ? "lost" : reply->u.text);
        return;
    }
    gm_device_up(v);
    if (--d->devices.starting == 0)
        gm_server_devices_up(d);
}

/* A GPU that is there and does nothing is worth a warning. */
static void gm_launch_say(const struct gm_device *v)
{
    char text[GM_ERROR_TEXT_MAX + 128];
    const bool idle_gpu = v->fallback[0] != 0 && gm_launch_gpu_here();
    if (v->config.backend == GM_BACKEND_CUDA)
        snprintf(text, sizeof text, "%s, %s, %" PRIu32 " workers", v->config.name, v->hello.name, v->hello.workers);
    else
        snprintf(text, sizeof text, "cpu, %" PRIu32 " workers%s%s%s", v->hello.workers, v->fallback[0] != 0 ? " (" : "",
                 v->fallback, v->fallback[0] != 0 ? ")" : "");
    gm_log(idle_gpu ? GM_LOG_WARN : GM_LOG_INFO, "device", "%" PRIu32 ": %s pid=%ld", v->index, text, (long)v->pid);
}

void gm_device_up(struct gm_device *v)
{
    v->state = GM_DEVICE_UP;
    v->ping_answered_ns = v->busy_at_ns = gm_now_ns();
    v->busy_ns = 0;
    v->window = GM_WINDOW_FIRST, v->window_at_ns = 0;
    gm_launch_say(v);
}

int gm_device_stage(struct gm_device *v, gm_control_done *done)
{
    struct gm_control add = {.type = GM_CONTROL_ARENA_ADD};
    add.u.arena = (struct gm_control_arena){
        .handle = gm_handle(0, 1), .kind = GM_ARENA_SHARED, .flags = GM_ARENA_STAGING, .bytes = GM_STAGING_BYTES};
    return gm_device_request(v, &add, v->staging_fd, done, NULL, 0);
}

void gm_device_ready(struct gm_device *v, const struct gm_control_hello *hello)
{
    if (v->state != GM_DEVICE_STARTING && v->state != GM_DEVICE_RISING)
        return;
    v->hello = *hello;
    v->hello.source_id[sizeof v->hello.source_id - 1] = 0;
    v->hello.name[sizeof v->hello.name - 1] = v->hello.uuid[sizeof v->hello.uuid - 1] = 0;
    v->hello.detail[sizeof v->hello.detail - 1] = 0;
    if (hello->control_version != GM_CONTROL_VERSION || strcmp(v->hello.source_id, GM_SOURCE_ID) != 0) {
        char text[GM_ERROR_TEXT_MAX];
        snprintf(text, sizeof text,
                 "the device program is of another build (%.32s, this is %.32s): install both together",
                 v->hello.source_id, GM_SOURCE_ID);
        if (v->state == GM_DEVICE_STARTING)
            gm_device_failed(v, "%s", text);
        else
            gm_device_lost(v, "%s", text);
        return;
    }
    if (v->state == GM_DEVICE_RISING) {
        gm_restart_refill(v);
        return;
    }
    const int status = gm_device_stage(v, gm_launch_staged);
    if (status != GM_OK)
        gm_device_failed(v, "cannot send the staging arena: %s", gm_error_text(status));
}
