/* SPDX-License-Identifier: Apache-2.0
 *
 * Executes a device process. Loop thread; everything allocated here is freed before it returns.
 */
#include "spawn.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control.h"
#include "errors.h"

#define GM_SPAWN_ARGS 16

/* Everything that a resident kernel will need is loaded before it starts: loading waits for running kernels. */
#define GM_SPAWN_ENVIRONMENT "CUDA_MODULE_LOADING=EAGER"

static char **gm_spawn_environment(void)
{
    size_t count = 0, kept = 0;
    while (environ[count] != NULL)
        count++;
    char **list = calloc(count + 2u, sizeof *list);
    if (list == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "CUDA_MODULE_LOADING=", 20) != 0)
            list[kept++] = environ[i];
    list[kept] = (char *)(uintptr_t)GM_SPAWN_ENVIRONMENT;
    return list;
}

int gm_spawn_device(uv_loop_t *loop, uv_process_t *process, const struct gm_spawn *spawn, char *reason, size_t size)
{
    char numbers[4][24];
    const uint32_t workers = spawn->device->workers != 0 ? spawn->device->workers : spawn->config->workers;
    char *args[GM_SPAWN_ARGS];
    int at = 0;
    args[at++] = (char *)(uintptr_t)spawn->program;
    args[at++] = (char *)(uintptr_t) "--device";
    args[at++] = (char *)(uintptr_t)spawn->device->name;
    if (workers != 0 && spawn->device->backend == GM_BACKEND_CPU) {
        snprintf(numbers[0], sizeof numbers[0], "%" PRIu32, workers);
        args[at++] = (char *)(uintptr_t) "--workers";
        args[at++] = numbers[0];
    }
    if (spawn->config->workspace != 0) {
        snprintf(numbers[1], sizeof numbers[1], "%" PRIu64, spawn->config->workspace);
        args[at++] = (char *)(uintptr_t) "--workspace";
        args[at++] = numbers[1];
    }
    snprintf(numbers[2], sizeof numbers[2], "%" PRIu32, spawn->config->idle_park_ms);
    args[at++] = (char *)(uintptr_t) "--idle-park-ms";
    args[at++] = numbers[2];
    args[at++] = (char *)(uintptr_t) "--log-level";
    snprintf(numbers[3], sizeof numbers[3], "%d", gm_log_priority(spawn->config->level));
    args[at++] = numbers[3];
    args[at] = NULL;

    uv_stdio_container_t stdio[GM_DEVICE_FD_CONTROL + 4];
    memset(stdio, 0, sizeof stdio);
    stdio[0].flags = UV_IGNORE;
    stdio[1].flags = stdio[2].flags = UV_INHERIT_FD;
    stdio[1].data.fd = stdio[2].data.fd = STDERR_FILENO;
    for (int i = 0; i < 4; i++) {
        stdio[GM_DEVICE_FD_CONTROL + i].flags = UV_INHERIT_FD;
        stdio[GM_DEVICE_FD_CONTROL + i].data.fd = spawn->fds[i];
    }
    char **environment = gm_spawn_environment();
    /* Detached: a Ctrl-C at the terminal is for the daemon alone, which finishes its jobs first. */
    const uv_process_options_t options = {.exit_cb = spawn->exited,
                                          .file = spawn->program,
                                          .args = args,
                                          .env = environment,
                                          .flags = UV_PROCESS_DETACHED,
                                          .stdio_count = GM_DEVICE_FD_CONTROL + 4,
                                          .stdio = stdio};
    const int failed = environment == NULL ? UV_ENOMEM : uv_spawn(loop, process, &options);
    free(environment);
    if (failed == 0)
        return GM_OK;
    snprintf(reason, size, "cannot execute %.100s: %s", spawn->program, uv_strerror(failed));
    return GM_ESYSTEM;
}
