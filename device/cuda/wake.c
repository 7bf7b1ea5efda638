/* SPDX-License-Identifier: Apache-2.0
 *
 * Wake-up of a sleeping gridmilld: the dispatcher adds one to a word in mapped memory, a stream waits for that value
 * and then runs a host function that writes an eventfd (about 85 us, and no CPU time while asleep). Main thread, but
 * for the host function, which notes how far it got and writes.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cuda/gpu.h"

static void ring(int fd)
{
    const uint64_t one = 1;
    if (write(fd, &one, sizeof one) < 0) {
        /* EAGAIN: the counter is full, so the descriptor is readable, which is all that matters. */
    }
}

static void CUDART_CB woken(void *arg)
{
    struct gm_device *device = arg;
    /* What was counted up to here is told by this ring; the next wait is for more than that, not for more than the
     * word says when that wait is armed, or a wake in between would be told to nobody. */
    gm_store_release_sys_u32(&device->wake_seen, gm_load_acquire_sys_u32(device->wake));
    ring(device->daemon_wake_fd);
    ring(device->notice_fd);
}

int gm_wake_arm(struct gm_device *device, char *text)
{
    if (device->wake_armed)
        return GM_OK;
    /* Whatever the word counted up to meanwhile satisfies the wait: it is for "at least", in wrapping order. */
    const CUdeviceptr word = (CUdeviceptr)(uintptr_t)device->wake;
    const CUresult result = device->driver.wait_value((CUstream)device->wake_stream, word, device->wake_next,
                                                      CU_STREAM_WAIT_VALUE_GEQ);
    if (result != CUDA_SUCCESS) {
        snprintf(text, GM_ERROR_TEXT_MAX, "stream wait-value: driver error %d", (int)result);
        return GM_ESYSTEM;
    }
    const cudaError_t error = cudaLaunchHostFunc(device->wake_stream, woken, device);
    if (error != cudaSuccess)
        return gm_gpu_fail(text, GM_ESYSTEM, "host function", error);
    device->wake_armed = true;
    return GM_OK;
}

int gm_wake_drain(struct gm_device *device, char *text)
{
    if (!device->wake_armed)
        return GM_OK;
    /* The kernel is gone, so nobody else writes the word. gridmilld wakes for nothing, looks, and sleeps again. */
    if ((int32_t)(gm_load_relaxed_sys_u32(device->wake) - device->wake_next) < 0)
        gm_store_release_sys_u32(device->wake, device->wake_next);
    const cudaError_t error = cudaStreamSynchronize(device->wake_stream);
    if (error != cudaSuccess)
        return gm_gpu_fail(text, GM_EDEVICELOST, "wake stream", error);
    device->wake_armed = false;
    device->wake_next = gm_load_acquire_sys_u32(&device->wake_seen) + 1u;
    return GM_OK;
}
