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

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
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

static bool gpu_running(struct gm_device *device)
{
    if (device->resident && cudaStreamQuery(device->kernel_stream) == cudaSuccess)
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
    if (gpu_running(device) || gm_wake_drain(device, text) != GM_OK)
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
    if (status != GM_OK) {
        gpu_close(device);
        return status;
    }
    gm_gpu_describe(device, hello);
    *out = device;
    return GM_OK;
}

/* Runs when the kernel has ended. */
static void CUDART_CB ended(void *arg)
{
    const struct gm_device *device = arg;
    const uint64_t one = 1;
    if (write(device->notice_fd, &one, sizeof one) < 0) {
        /* EAGAIN: already readable. */
    }
}

static int wait_for_checkin(struct gm_device *device, char *text)
{
    const uint32_t limit_ms = bounded(device) ? GM_BOUNDED_CHECKIN_MS : GM_CHECKIN_MS;
    const uint64_t deadline = now_ms() + limit_ms;
    for (;;) {
        uint32_t present = 0;
        for (uint32_t b = 0; b < device->blocks; b++)
            present += gm_load_relaxed_sys_u32(&device->checkin[b]) == device->launch;
        if (present == device->blocks)
            return GM_OK;
        const cudaError_t error = cudaStreamQuery(device->kernel_stream);
        if (error == cudaSuccess)
            return GM_OK; /* it has come and gone: with no idle time it parks at once */
        if (error != cudaErrorNotReady)
            return gm_gpu_fail(text, GM_EDEVICELOST, "resident kernel", error);
        if (now_ms() > deadline) {
            snprintf(text, GM_ERROR_TEXT_MAX, "%u of %u blocks checked in within %u ms", present, device->blocks,
                     limit_ms);
            return GM_ETIMEDOUT;
        }
    }
}

static int gpu_start(struct gm_device *device, char *text)
{
    struct gm_launch launch = {device->core,       device->checkin,     device->wake,
                               device->wake_lanes, device->launch + 1u, device->bulk};
#ifdef GM_DRILLS
    launch.drill = gm_drill;
#endif
    void *arguments[] = {&launch};
    const dim3 grid = {device->blocks, 1, 1}, block = {GM_CUDA_THREADS, 1, 1};
    if (device->resident)
        return GM_OK;
    device->launch++;
    cudaError_t error = cudaLaunchCooperativeKernel(gm_kernel_address(), grid, block, arguments, device->shared_bytes,
                                                    device->kernel_stream);
    if (error == cudaSuccess)
        error = cudaLaunchHostFunc(device->kernel_stream, ended, device);
    if (error != cudaSuccess)
        return gm_gpu_fail(text, GM_ESYSTEM, "cooperative launch", error);
    device->resident = true;
    const int status = wait_for_checkin(device, text);
    return status == GM_OK && !bounded(device) ? gm_wake_arm(device, text) : status;
}

static int gpu_join(struct gm_device *device, char *text)
{
    if (!device->resident)
        return GM_OK;
    const cudaError_t error = cudaStreamSynchronize(device->kernel_stream);
    if (error != cudaSuccess)
        return gm_gpu_fail(text, GM_EDEVICELOST, "resident kernel", error);
    device->resident = false;
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

static int gpu_check(struct gm_device *device, char *text)
{
    const cudaError_t error = device->resident ? cudaStreamQuery(device->kernel_stream) : cudaSuccess;
    if (error == cudaSuccess || error == cudaErrorNotReady)
        return GM_OK;
    return gm_gpu_fail(text, GM_EDEVICELOST, "resident kernel", error);
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
    if (take(device->notice_fd)) {
        status = gm_wake_service(device, text);
        (void)gpu_running(device);
    }
    if (status == GM_OK && gm_bells_wait(device->bells_fd, 0))
        status = gpu_kick(device, text);
    return status;
}

const struct gm_backend gm_backend_cuda = {
    .name = "cuda",
    .open = gpu_open,
    .start = gpu_start,
    .running = gpu_running,
    .join = gpu_join,
    .kick = gpu_kick,
    .lane_wake = gpu_lane_wake,
    .check = gpu_check,
    .map = gm_gpu_map,
    .unmap = gm_gpu_unmap,
    .unmap_needs_stop = true,
    .alloc = gm_gpu_alloc,
    .free = gm_gpu_free,
    .event_fd = gpu_event_fd,
    .service = gpu_service,
    .close = gpu_close,
};
