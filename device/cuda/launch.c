/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of the resident kernel: one cooperative launch with the grid from occupancy, check-in of every block within
 * a deadline, its end (parked, stopped or dead), and the next launch. Main thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "bells.h"
#include "cuda/gpu.h"

/* Under compute-sanitizer a block begins when the tool has done its part. */
#define GM_BOUNDED_CHECKIN_MS 120000u

/* The bounded mode of backend.h. Nobody sleeps on such a device, and a tool that waits for the whole context around a
 * launch would wait for ever for the stream that waits for the next wake. */
static bool bounded(const struct gm_device *device) { return device->core.idle_ns == 0; }

/* Looks at mapped words between two questions to the driver, which cost a microsecond each. */
#define GM_LOOKS_PER_QUESTION 64u

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The grid: a dispatcher and as many workers as are wanted and fit, from the occupancy of exactly this kernel. */
static int choose_grid(struct gm_device *device, uint32_t workers, char *text)
{
    int per_sm = 0;
    device->shared_bytes = gm_kernel_shared_bytes();
    cudaError_t error = cudaFuncSetAttribute(gm_kernel_address(), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                             (int)device->shared_bytes);
    if (error == cudaSuccess)
        error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, gm_kernel_address(), GM_CUDA_THREADS,
                                                              device->shared_bytes);
    if (error != cudaSuccess)
        return gm_gpu_fail(text, GM_ESYSTEM, "occupancy", error);
    const uint32_t most = per_sm < GM_CUDA_BLOCKS_PER_SM ? (uint32_t)per_sm : GM_CUDA_BLOCKS_PER_SM;
    uint32_t capacity = most * (uint32_t)device->properties.multiProcessorCount;
    if (capacity > GM_SHARES_MAX + 1u)
        capacity = GM_SHARES_MAX + 1u;
    if (capacity < 2 || workers + 1u > capacity) {
        snprintf(text, GM_ERROR_TEXT_MAX, "%u workers and a dispatcher do not fit: %u blocks of %d threads on %d SMs",
                 workers ? workers : 1u, capacity, GM_CUDA_THREADS, device->properties.multiProcessorCount);
        return GM_ESIZE;
    }
    device->blocks = workers ? workers + 1u : capacity;
    return GM_OK;
}

static int make_streams(struct gm_device *device, const struct gm_device_config *config, char *text)
{
    cudaError_t error = cudaStreamCreateWithFlags(&device->kernel_stream, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&device->wake_stream, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&device->memory_stream, cudaStreamNonBlocking);
    if (error != cudaSuccess)
        return gm_gpu_fail(text, GM_ESYSTEM, "streams", error);
    device->bells_fd = config->bells_fd;
    device->notice_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    device->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    if (device->notice_fd < 0 || device->epoll_fd < 0 ||
        epoll_ctl(device->epoll_fd, EPOLL_CTL_ADD, device->notice_fd, &event) != 0 ||
        epoll_ctl(device->epoll_fd, EPOLL_CTL_ADD, device->bells_fd, &event) != 0) {
        snprintf(text, GM_ERROR_TEXT_MAX, "eventfd: %s", strerror(errno));
        return GM_ESYSTEM;
    }
    return GM_OK;
}

/* A kernel ends by itself only when it parks, and it says so before; one that was told to stop is waited for by join.
 * So the driver is asked only about a device that says asleep. */
static bool gpu_running(struct gm_device *device)
{
    if (device->resident && gm_load_relaxed_sys_u32(&device->admin_header->asleep) != 0 &&
        cudaStreamQuery(device->kernel_stream) == cudaSuccess)
        device->resident = false;
    return device->resident;
}

static void destroy_streams(const struct gm_device *device)
{
    const cudaStream_t streams[] = {device->kernel_stream, device->wake_stream, device->memory_stream};
    for (uint32_t i = 0; i < sizeof streams / sizeof *streams; i++)
        if (streams[i]) {
            (void)cudaStreamSynchronize(streams[i]); /* memory that was freed in stream order goes back here */
            (void)cudaStreamDestroy(streams[i]);
        }
}

/* Gives back what there is, also after an open that failed half-way. Beside a kernel that may still run, or on a device
 * that is lost, every call here would wait for ever: then all of it is left to the end of the process. */
static void gpu_close(struct gm_device *device)
{
    char text[GM_ERROR_TEXT_MAX];
    if (gpu_running(device) || gm_wake_drain(device, text) != GM_OK || gm_copy_quiet(device, text) != GM_OK)
        return;
    destroy_streams(device);
    gm_gpu_release(device);
    if (device->notice_fd >= 0)
        close(device->notice_fd);
    if (device->epoll_fd >= 0)
        close(device->epoll_fd);
    if (device->lock_fd >= 0)
        close(device->lock_fd);
    gm_wakes_destroy(&device->wakes);
    free(device);
}

static int gpu_open(const struct gm_device_config *config, struct gm_device **out, struct gm_control_hello *hello,
                    char *text)
{
    struct gm_device *device = calloc(1, sizeof *device);
    if (!device)
        return GM_ENOMEM;
    device->lock_fd = device->notice_fd = device->epoll_fd = -1;
    gm_wakes_init(&device->wakes, config->wake_fd);
    setenv("CUDA_MODULE_LOADING", "EAGER", 1); /* before the first CUDA call */
    int status = gm_gpu_choose(device, config->device, text);
    if (status == GM_OK)
        status = gm_gpu_driver(device, text);
    if (status == GM_OK)
        status = choose_grid(device, config->workers, text);
    if (status == GM_OK) {
        device->bulk = device->properties.major >= 9 && !config->plain;
        status = gm_gpu_make_core(device, config, text);
    }
    if (status == GM_OK)
        status = make_streams(device, config, text);
    if (status == GM_OK && device->core.copy_bytes != UINT64_MAX)
        status = gm_copy_open(device, text);
    if (status != GM_OK) {
        gpu_close(device);
        return status;
    }
    gm_gpu_describe(device, hello);
    *out = device;
    return GM_OK;
}

static uint32_t present(const struct gm_device *device, uint32_t from)
{
    while (from < device->blocks && gm_load_relaxed_sys_u32(&device->checkin[from]) == device->launch)
        from++;
    return from;
}

static int wait_for_checkin(struct gm_device *device, char *text)
{
    const uint32_t limit_ms = bounded(device) ? GM_BOUNDED_CHECKIN_MS : GM_CHECKIN_MS;
    const uint64_t deadline = now_ns() + limit_ms * UINT64_C(1000000);
    uint32_t blocks = 0;
    for (uint32_t look = 1;; look++) {
        blocks = present(device, blocks);
        if (blocks == device->blocks)
            return GM_OK;
        if (look % GM_LOOKS_PER_QUESTION != 0)
            continue;
        const cudaError_t error = cudaStreamQuery(device->kernel_stream);
        if (error == cudaSuccess)
            return GM_OK; /* it has come and gone: with no idle time it parks at once */
        if (error != cudaErrorNotReady)
            return gm_gpu_fail(text, GM_EDEVICELOST, "resident kernel", error);
        if (now_ns() > deadline) {
            snprintf(text, GM_ERROR_TEXT_MAX, "%u of %u blocks checked in within %u ms", blocks, device->blocks,
                     limit_ms);
            return GM_ETIMEDOUT;
        }
    }
}

/* Nothing in the stream follows the kernel: a host function there would hold up everybody who waits for its end for as
 * long as a thread of the driver needs to wake up. */
static int launch(struct gm_device *device, char *text)
{
    struct gm_launch launch = {device->core,       device->checkin,     device->wake,
                               device->wake_lanes, device->launch + 1u, device->bulk};
#ifdef GM_DRILLS
    launch.drill = gm_drill;
#endif
    void *arguments[] = {&launch};
    const dim3 grid = {device->blocks, 1, 1}, block = {GM_CUDA_THREADS, 1, 1};
    gm_wake_level(device);
    device->launch++;
    const cudaError_t error = cudaLaunchCooperativeKernel(gm_kernel_address(), grid, block, arguments,
                                                          device->shared_bytes, device->kernel_stream);
    if (error != cudaSuccess)
        return gm_gpu_fail(text, GM_ESYSTEM, "cooperative launch", error);
    device->resident = true;
    device->copies_rest = false;
    return GM_OK;
}

static int gpu_start(struct gm_device *device, char *text)
{
    struct gm_start_parts *parts = &device->parts;
    if (device->resident)
        return GM_OK;
    const uint64_t begin = now_ns();
    int status = launch(device, text);
    if (status != GM_OK)
        return status;
    const uint64_t launched = now_ns();
    if (!bounded(device))
        status = gm_wake_arm(device, text); /* while the GPU begins */
    const uint64_t armed = now_ns();
    if (status == GM_OK)
        status = wait_for_checkin(device, text);
    parts->launch_ns = launched - begin;
    parts->arm_ns = armed - launched;
    parts->checkin_ns = now_ns() - armed;
    return status;
}

static const struct gm_start_parts *gpu_start_parts(const struct gm_device *device) { return &device->parts; }

/* Not by waiting for the stream: while no stream waits for wakes, they are told from here. */
static int gpu_join(struct gm_device *device, char *text)
{
    while (device->resident) {
        const cudaError_t error = cudaStreamQuery(device->kernel_stream);
        if (error == cudaSuccess)
            device->resident = false;
        else if (error != cudaErrorNotReady)
            return gm_gpu_fail(text, GM_EDEVICELOST, "resident kernel", error);
        gm_wake_tell(device);
    }
    return GM_OK;
}

/* Somebody rang, or posted to a device that says asleep. A kernel that says so is on its way out, or has just begun, or
 * has found something in its last look and goes on: one of the two ends the wait within microseconds. Waiting for the
 * end alone would hang in the last case. */
static int gpu_kick(struct gm_device *device, char *text)
{
    while (device->resident) {
        const cudaError_t error = cudaStreamQuery(device->kernel_stream);
        if (error == cudaSuccess)
            device->resident = false;
        else if (error != cudaErrorNotReady)
            return gm_gpu_fail(text, GM_EDEVICELOST, "resident kernel", error);
        else if (gm_load_relaxed_sys_u32(&device->admin_header->asleep) == 0)
            return GM_OK;
    }
    return gpu_start(device, text);
}

static void gpu_lane_wake(struct gm_device *device, uint32_t lane, int fd) { gm_wakes_set(&device->wakes, lane, fd); }

/* Beside a parked device nothing is to wait in a stream: the driver may look after what does. Whoever runs may have put
 * a copy at any time, also when no stream waited for the wake. */
static int gpu_check(struct gm_device *device, char *text)
{
    const cudaError_t error = device->resident ? cudaStreamQuery(device->kernel_stream) : cudaSuccess;
    if (error == cudaErrorNotReady)
        return gm_copy_look(device, text);
    if (error != cudaSuccess)
        return gm_gpu_fail(text, GM_EDEVICELOST, "resident kernel", error);
    device->resident = false;
    return gm_wake_drain(device, text);
}

static int gpu_event_fd(struct gm_device *device) { return device->epoll_fd; }

static bool take(int fd)
{
    uint64_t count;
    return read(fd, &count, sizeof count) == (ssize_t)sizeof count;
}

static int gpu_service(struct gm_device *device, char *text)
{
    int status = GM_OK;
    if (take(device->notice_fd))
        status = gm_wake_service(device, text);
    if (status == GM_OK)
        status = gm_copy_look(device, text);
    if (status == GM_OK && gm_bells_wait(device->bells_fd, 0))
        status = gpu_kick(device, text);
    return status;
}

static bool gpu_marks_host(const struct gm_device *device) { return (void)device, true; }

/* No stream waits for a wake, and no copy is under way: the driver would wait for both while everybody waits for it.
 * Copies that are not whole go on behind the pause. */
static int gpu_before_unmap(struct gm_device *device, char *text)
{
    const int status = gm_wake_quiet(device, text);
    return status == GM_OK ? gm_copy_quiet(device, text) : status;
}

const struct gm_backend gm_backend_cuda = {
    .name = "cuda",
    .open = gpu_open,
    .start = gpu_start,
    .start_parts = gpu_start_parts,
    .running = gpu_running,
    .join = gpu_join,
    .kick = gpu_kick,
    .lane_wake = gpu_lane_wake,
    .check = gpu_check,
    .map = gm_gpu_map,
    .before_unmap = gpu_before_unmap,
    .unmap = gm_gpu_unmap,
    .unmap_needs_stop = true,
    .marks_host = gpu_marks_host,
    .piece_bytes = GM_COPY_PIECE, /* 0.45 ms; no piece of a copy goes over a border of these */
    .alloc = gm_gpu_alloc,
    .free = gm_gpu_free,
    .event_fd = gpu_event_fd,
    .service = gpu_service,
    .close = gpu_close,
};
