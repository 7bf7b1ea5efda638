/* SPDX-License-Identifier: Apache-2.0
 *
 * Wake-up of sleeping clients and of gridmilld: the dispatcher notes the lanes and adds one to a word in mapped memory,
 * a stream waits for that value and then runs a host function that writes to their descriptors (about 85 us, and no CPU
 * time while asleep). Main thread, but for the host function, which notes how far it got and writes.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cuda/gpu.h"

static void CUDART_CB woken(void *arg)
{
    struct gm_device *device = arg;
    const uint64_t one = 1;
    uint32_t bits[GM_LANE_WORDS] = {0};
    /* Acquire: pairs with the release in tell() of kernel.cu; the lanes of every wake counted up to here are seen. A
     * later wake's lane that is seen already is told now, and its own ring finds nobody. */
    const uint32_t counted = gm_load_acquire_sys_u32(device->wake);
    for (uint32_t lane = 0; lane < GM_LANE_TABLE; lane++) {
        const uint32_t word = gm_load_relaxed_sys_u32(&device->wake_lanes[lane]);
        if (word != device->wake_told[lane])
            bits[lane / 32u] |= 1u << (lane & 31u);
        device->wake_told[lane] = word;
    }
    gm_wakes_ring(&device->wakes, bits);
    /* The next wait is for more than was counted above, not for more than the word says when that wait is armed, or a
     * wake in between would be told to nobody. */
    gm_store_release_sys_u32(&device->wake_seen, counted);
    if (write(device->notice_fd, &one, sizeof one) < 0) {
        /* EAGAIN: the counter is full, so the descriptor is readable, which is all that matters. */
    }
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

/* What the last wait's host function told is over; the next wait is for more. */
static void disarm(struct gm_device *device)
{
    device->wake_armed = false;
    device->wake_next = gm_load_acquire_sys_u32(&device->wake_seen) + 1u;
}

static bool told_all(const struct gm_device *device)
{
    return (int32_t)(gm_load_relaxed_sys_u32(device->wake) - device->wake_next) < 0;
}

int gm_wake_drain(struct gm_device *device, char *text)
{
    if (!device->wake)
        return GM_OK; /* it did not come so far */
    /* Twice at most: the first host function may have run before the kernel's last wake. */
    while (device->wake_armed || !told_all(device)) {
        int status = gm_wake_arm(device, text);
        if (status != GM_OK)
            return status;
        /* The kernel is gone, so nobody else writes the word. Nobody is woken by this one: no lane is noted. */
        if (told_all(device))
            gm_store_release_sys_u32(device->wake, device->wake_next);
        const cudaError_t error = cudaStreamSynchronize(device->wake_stream);
        if (error != cudaSuccess)
            return gm_gpu_fail(text, GM_EDEVICELOST, "wake stream", error);
        disarm(device);
    }
    return GM_OK;
}

int gm_wake_service(struct gm_device *device, char *text)
{
    /* Not by asking the stream: the host function notifies before it returns, and nobody would come here again. */
    const uint32_t seen = gm_load_acquire_sys_u32(&device->wake_seen);
    if (!device->wake_armed || (int32_t)(seen - device->wake_next) < 0)
        return GM_OK;
    disarm(device);
    /* A kernel that parked since may have counted once more. */
    return device->resident || !told_all(device) ? gm_wake_arm(device, text) : GM_OK;
}
