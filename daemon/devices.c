/* SPDX-License-Identifier: Apache-2.0
 *
 * All devices: start, stop, names of their states. Loop thread; bounded by GM_DEVICES_MAX. What a single process goes
 * through is in launch.c, what follows when it is lost in restart.c.
 *
 *   NONE -> STARTING -> UP <-> UNRESPONSIVE      lost: -> FALLING -> DOWN -> RISING -> UP
 *                                                            '------------------^ lost again; too often: -> LOST
 */
#include "devices.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon.h"
#include "server.h"

const char *gm_device_state_name(const struct gm_device *v)
{
    switch (v->state) {
    case GM_DEVICE_STARTING:
        return "starting";
    case GM_DEVICE_UP:
        return gm_load_relaxed_sys_u32(&v->lane->asleep) != 0 ? "asleep" : "up";
    case GM_DEVICE_UNRESPONSIVE:
        return "unresponsive";
    case GM_DEVICE_FALLING:
    case GM_DEVICE_DOWN:
    case GM_DEVICE_RISING:
        return "recovering";
    case GM_DEVICE_STOPPING:
        return "stopping";
    default:
        return "lost";
    }
}

static int gm_device_start(struct gm_device *v)
{
    v->state = GM_DEVICE_STARTING;
    int status = gm_launch(v);
    if (status != GM_OK && v->config.automatic && v->config.backend == GM_BACKEND_CUDA) {
        if (status == GM_ENODEVICE) /* there is no such program */
            snprintf(v->fallback, sizeof v->fallback, "%s",
                     gm_launch_gpu_here() ? "a GPU is here, but gridmill-device-cuda was not built or installed"
                                          : "no GPU here: there is no /dev/nvidiactl");
        else
            memcpy(v->fallback, v->reason, sizeof v->fallback);
        v->config.backend = GM_BACKEND_CPU;
        memcpy(v->config.name, "cpu", sizeof "cpu");
        status = gm_launch(v);
    }
    if (status != GM_OK)
        v->state = GM_DEVICE_LOST;
    return status;
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
        v->exited = true;
        gm_list_init(&v->users);
        uv_timer_init(&d->loop, &v->restart);
        v->restart.data = v;
    }
    for (uint32_t i = 0; i < d->devices.count; i++) {
        const int status = gm_device_start(&d->devices.device[i]);
        if (status != GM_OK) {
            gm_server_failed(d, d->devices.device[i].reason);
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
        uv_timer_stop(&v->restart);
        if (gm_device_live(v) && gm_device_request(v, &stop, -1, gm_device_stopped, NULL, 0) == GM_OK) {
            v->state = GM_DEVICE_STOPPING;
        } else if (!v->exited) {
            v->state = v->state == GM_DEVICE_FALLING ? v->state : GM_DEVICE_STOPPING;
            uv_process_kill(&v->process, SIGKILL);
        }
    }
}

void gm_devices_kill(struct gm_daemon *d)
{
    for (uint32_t i = 0; i < d->devices.count; i++) {
        struct gm_device *v = &d->devices.device[i];
        uv_timer_stop(&v->restart);
        if (v->exited)
            continue;
        if (v->state != GM_DEVICE_LOST && v->state != GM_DEVICE_FALLING)
            gm_log(GM_LOG_WARN, "device_kill", "device=%" PRIu32 " pid=%ld", v->index, (long)v->pid);
        if (v->state == GM_DEVICE_STARTING || v->state == GM_DEVICE_RISING || gm_device_live(v))
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

void gm_devices_close(struct gm_daemon *d)
{
    for (uint32_t i = 0; i < d->devices.count; i++)
        uv_close((uv_handle_t *)&d->devices.device[i].restart, NULL);
}

void gm_devices_release(struct gm_daemon *d)
{
    for (uint32_t i = 0; i < d->devices.count; i++) {
        struct gm_device *v = &d->devices.device[i];
        gm_launch_release(v);
        gm_region_release(v);
        if (v->staging_bytes != NULL)
            munmap(v->staging_bytes, GM_STAGING_BYTES);
        if (v->staging_fd >= 0)
            close(v->staging_fd);
        v->staging_bytes = NULL, v->staging_fd = -1;
    }
}
