/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA device behind backend.h, shared by its files. All CUDA calls come from the main thread; the host
 * function that a stream runs only writes to descriptors.
 */
#ifndef GM_CUDA_GPU_H
#define GM_CUDA_GPU_H

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "backend.h"
#include "copier.h"
#include "cuda/kernel.h"
#include "wakes.h"

/* Driver calls that the runtime does not wrap, found through it, so that nothing links libcuda. */
struct gm_driver {
    CUresult (*wait_value)(CUstream, CUdeviceptr, cuuint32_t, unsigned int);
    CUresult (*write_value)(CUstream, CUdeviceptr, cuuint32_t, unsigned int);
    CUresult (*loading_mode)(CUmoduleLoadingMode *);
};

/* One direction of the copy engine. */
struct gm_copy_way {
    cudaStream_t pieces, notices;
    cudaEvent_t event;
    cudaError_t error;    /* of what should have told of pieces */
    uint32_t begun, done; /* pieces; done: the host function's, a few at a time */
    int notice_fd;
};

struct gm_device {
    struct gm_driver driver;
    int ordinal, lock_fd;
    struct cudaDeviceProp properties;
    cudaStream_t kernel_stream, wake_stream, memory_stream;
    struct gm_core core; /* given to every launch */
    /* device memory */
    void *tables; /* counters, state, rings, inbox, entries, scratch: one allocation */
    void *workspace;
    /* host memory */
    uint8_t *region;          /* registered */
    uint32_t *checkin, *wake, *wake_lanes; /* pinned and mapped */
    const struct gm_lane_header *admin_header;
    uint32_t blocks, shared_bytes, launch, bulk;
    bool resident;   /* launched and not yet joined */
    bool wake_armed; /* a stream waits for wake == wake_next */
    uint32_t wake_next; /* or, while no stream waits, what the next one is to wait for */
    uint32_t wake_seen; /* the word when sleepers were last told; stored by the host function before it notifies */
    uint32_t wake_told[GM_LANE_TABLE]; /* wake_lanes at that time; the host function's while a stream waits */
    struct gm_copier copier;
    struct gm_copy_way copy_way[GM_COPY_DIRECTIONS];
    bool copies_rest; /* nothing is begun before the next launch */
    struct gm_start_parts parts;
    struct gm_wakes wakes;
    int bells_fd;
    int notice_fd; /* written by the host function, for service() */
    int epoll_fd;  /* notice and bells together: what event_fd() returns */
};

int gm_gpu_fail(char *text, int status, const char *what, cudaError_t error);

/* gpu.c: which GPU, and nobody else's. */
int gm_gpu_choose(struct gm_device *device, const char *name, char *text);
void gm_gpu_describe(const struct gm_device *device, struct gm_control_hello *hello);
int gm_gpu_driver(struct gm_device *device, char *text);

/* memory.c */
int gm_gpu_make_core(struct gm_device *device, const struct gm_device_config *config, char *text);
void gm_gpu_release(struct gm_device *device);
int gm_gpu_map(struct gm_device *device, void *host, uint64_t bytes, uint64_t *address, char *text);
int gm_gpu_unmap(struct gm_device *device, void *host, uint64_t bytes, char *text);
int gm_gpu_alloc(struct gm_device *device, uint64_t bytes, uint64_t *address, char *text);
void gm_gpu_free(struct gm_device *device, uint64_t address);

/* copies.c: the copy engine, when the core says that it has something to do. */
int gm_copy_open(struct gm_device *device, char *text);
/* Goes on with all copies as far as is allowed at one time. Blocks for nothing. */
int gm_copy_look(struct gm_device *device, char *text);
/* Waits until nothing that was begun is under way, which is some pieces, and begins no more before the next launch. */
int gm_copy_quiet(struct gm_device *device, char *text);
/* When no stream is to be waited for any more; also after an open that failed half-way. */
void gm_copy_close(struct gm_device *device);

/* wake.c: sleepers are woken with nobody polling. */
/* Before a launch: what the dispatcher counts from and what is waited for agree. */
void gm_wake_level(struct gm_device *device);
/* After a launch. */
int gm_wake_arm(struct gm_device *device, char *text);
/* Also while the kernel runs: no stream waits any more (a pending wait would hang whoever frees or unregisters). Until
 * the next launch gm_wake_tell takes its place. */
int gm_wake_quiet(struct gm_device *device, char *text);
void gm_wake_tell(struct gm_device *device);
/* The two, when the kernel is gone. */
int gm_wake_drain(struct gm_device *device, char *text);
/* After a notice: arms the next wait when the last one is over. */
int gm_wake_service(struct gm_device *device, char *text);

#endif
