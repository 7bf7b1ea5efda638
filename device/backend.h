/* SPDX-License-Identifier: Apache-2.0
 *
 * What both backends implement. Calls come from one thread, the device process's main thread (or a test), and may
 * block for as long as is said. Texts of errors go to the caller's buffer of GM_ERROR_TEXT_MAX bytes.
 */
#ifndef GM_DEVICE_BACKEND_H
#define GM_DEVICE_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "control.h"
#include "errors.h"

#ifdef __cplusplus
extern "C" {
#endif

struct gm_device; /* of one backend */

struct gm_device_config {
    const char *device;       /* "cpu"; "cuda:0", "cuda:GPU-<uuid>" */
    uint32_t workers;         /* CPU: threads, 0 = one per processor; CUDA: 0 = one block an SM, else at most that */
    uint64_t workspace_bytes; /* 0: the backend's default */
    uint64_t idle_ns;         /* GPU: park after this long; CPU threads sleep at once. UINT64_MAX: never.
                               * 0: as soon as nothing is left (the bounded mode of the sanitizers) */
    void *region;             /* gm_region_bytes(), mapped and filled by gridmilld */
    int bells_fd;             /* bells.h: rung when a lane says asleep; gm_bells_add goes on while the device is open */
    int wake_fd;              /* eventfd: to the daemon when it sleeps on lane 0 */
    bool plain;               /* CUDA: no bulk copies, as on sm_80 */
    uint64_t copy_bytes;      /* copies between host and device memory of so many and more are the copy engine's; 0: the
                               * backend's default; UINT64_MAX: none is */
    /* Small rings and counters near their wrap, for tests; zero: the product's values. */
    uint32_t tickets_log2, entries_log2;
    uint64_t ticket_start, inbox_start;
    uint32_t copy_start;
    uint64_t copy_piece; /* CPU: bytes of a piece; 0: GM_COPY_PIECE */
    int copy_gate_fd;    /* CPU: a socket that gets a byte before each piece, which waits for one; 0: none */
};

/* Nanoseconds of the main thread: launch call, preparing wake-ups, waiting for every worker. */
struct gm_start_parts {
    uint64_t launch_ns, arm_ns, checkin_ns;
};

struct gm_backend {
    const char *name;
    /* Opens the hardware and makes everything but the workers; fills backend, workers, threads, memory, name, uuid and
     * detail of the hello. CUDA: a second or so. */
    int (*open)(const struct gm_device_config *config, struct gm_device **device, struct gm_control_hello *hello,
                char *text);
    /* Starts workers and dispatcher; returns when every worker has checked in (GM_CHECKIN_MS), or fails with the
     * count that did. */
    int (*start)(struct gm_device *device, char *text);
    /* What the last start took; NULL: not known. */
    const struct gm_start_parts *(*start_parts)(const struct gm_device *device);
    /* Whether workers run. A parked device does not; it starts again by the doorbell or by start. */
    bool (*running)(struct gm_device *device);
    /* Waits until the workers that were told to stop (GM_ADMIN_STOP, or parked by themselves) are gone. */
    int (*join)(struct gm_device *device, char *text);
    /* Tells a sleeping dispatcher to look at its lanes; starts a parked device. */
    int (*kick)(struct gm_device *device, char *text);
    /* Whom to wake when the client of a lane sleeps: a descriptor that one byte is written to and that never blocks, or
     * -1. What was set before is not used any more when this returns. Lane 0 has config.wake_fd. */
    void (*lane_wake)(struct gm_device *device, uint32_t lane, int fd);
    /* EDEVICELOST when the hardware gave up; OK as far as one can tell without asking it anything. Called before the
     * main thread sleeps: a parked device lets go of what would cost processor time. */
    int (*check)(struct gm_device *device, char *text);
    /* Memory. Addresses are the ones that jobs use. unmap only while no worker runs (CUDA would hang). */
    int (*map)(struct gm_device *device, void *host, uint64_t bytes, uint64_t *address, char *text);
    int (*unmap)(struct gm_device *device, void *host, uint64_t bytes, char *text);
    bool unmap_needs_stop;
    /* Whether arenas of host memory are to be marked for the dispatcher (GM_ARENA_HOST): it is another memory than the
     * device's, or is to be taken for it. */
    bool (*marks_host)(const struct gm_device *device);
    /* Everybody waits while that much is unmapped: larger memory is mapped and unmapped in such pieces, one after
     * another, which must come to lie side by side. 0: whatever the size. */
    uint64_t piece_bytes;
    /* What the first unmap would wait for, done while the workers still run; a stop and the unmaps follow at once, and
     * the next start ends it. NULL: nothing. */
    int (*before_unmap)(struct gm_device *device, char *text);
    int (*alloc)(struct gm_device *device, uint64_t bytes, uint64_t *address, char *text);
    void (*free)(struct gm_device *device, uint64_t address);
    /* Readable when service() has something to do: -1 if never. */
    int (*event_fd)(struct gm_device *device);
    int (*service)(struct gm_device *device, char *text);
    void (*close)(struct gm_device *device);
};

extern const struct gm_backend gm_backend_cpu;
extern const struct gm_backend gm_backend_cuda;

#ifdef __cplusplus
}
#endif

#endif
