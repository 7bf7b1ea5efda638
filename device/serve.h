/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers gridmilld's control messages for one device. Main thread of the device process only; every request gets
 * exactly one reply; arenas and waiting drops are bounded by GM_ARENAS_MAX.
 */
#ifndef GM_DEVICE_SERVE_H
#define GM_DEVICE_SERVE_H

#include "admin.h"

struct gm_mapping {
    void *host; /* shared: our view of the memfd */
    uint64_t bytes, address;
    uint32_t handle; /* 0: free */
    bool device_memory;
    bool dropping; /* cleared from the table; its reply waits for the next stop of the kernel */
    uint32_t drop_sequence;
};

struct gm_server {
    const struct gm_backend *backend;
    struct gm_device *device;
    struct gm_admin admin;
    int control_fd;
    bool stopping;
    uint32_t drops;
    uint64_t first_drop_ms, last_pause_ms;
    struct gm_device_counters *counters;
    struct gm_mapping arena[GM_ARENAS_MAX];
};

/* One message from the socket. OK, ECLOSED when gridmilld is gone, or what made going on impossible (text says). */
int gm_server_receive(struct gm_server *server, char *text);

/* Unregisters what waits for a stop of the kernel, when it is time. Returns milliseconds until it wants to be called
 * again, or -1. */
int gm_server_housekeeping(struct gm_server *server, char *text);

int gm_server_send_ready(int control_fd, const struct gm_control_hello *hello);
void gm_server_send_failed(int control_fd, int status, const char *text);

#endif
