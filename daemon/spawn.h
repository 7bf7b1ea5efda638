/* SPDX-License-Identifier: Apache-2.0
 *
 * Executes a device process with its four descriptors, arguments and environment. Loop thread.
 */
#ifndef GM_DAEMON_SPAWN_H
#define GM_DAEMON_SPAWN_H

#include <stddef.h>
#include <uv.h>

#include "config.h"

struct gm_spawn {
    const char *program;
    const struct gm_config *config;
    const struct gm_config_device *device;
    int fds[4]; /* control, region, doorbell, wake: become GM_DEVICE_FD_CONTROL and following */
    uv_exit_cb exited;
};

/* OK, or ESYSTEM and a reason; then the handle was not initialised. */
int gm_spawn_device(uv_loop_t *loop, uv_process_t *process, const struct gm_spawn *spawn, char *reason, size_t size);

#endif
