/* SPDX-License-Identifier: Apache-2.0
 *
 * Wake-up of sleeping clients and of gridmilld: the dispatcher notes the lanes and adds one to a word in mapped memory,
 * a stream waits for that value and then runs a host function that writes to their descriptors (about 85 us, and no CPU
 * time while asleep). While no stream waits the main thread looks at the notes itself. Main thread, but for the host
 * function, which notes how far it got and writes.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cuda/gpu.h"

/* More than the dispatcher can count between a load of the word and the store after it. */
#define GM_WAKE_JUMP 4096u

/* Writes to whoever was noted since the last time; returns how far the dispatcher had counted. By one thread at a time:
 * the host function, or the main thread when no host function is pending. */
static uint32_t tell(struct gm_device *device)
{
    uint32_t bits[GM_LANE_WORDS] = {0}, any = 0;
    /* Acquire: pairs with the release in tell() of kernel.cu; the lanes of every wake counted up to here are seen, and
     * their completions can be seen by whom is told. Lanes of a later wake are told after that one is counted. */
    const uint32_t counted = gm_load_acquire_sys_u32(device->wake);
    for (uint32_t lane = 0; lane < GM_LANE_TABLE; lane++) {
        const uint32_t word = gm_load_relaxed_sys_u32(&device->wake_lanes[lane]);
        if (word == device->wake_told[lane] || (int32_t)(word - counted) > 0)
            continue;
        any = bits[lane / 32u] |= 1u << (lane & 31u);
        device->wake_told[lane] = word;
    }
    if (any != 0)
        gm_wakes_ring(&device->wakes, bits);
    return counted;
}

static void CUDART_CB woken(void *arg)
{
    struct gm_device *device = arg;
    const uint64_t one = 1;
    /* The next wait is for more than was counted here, not for more than the word says when that wait is armed, or a
     * wake in between would be told to nobody. */
    gm_store_release_sys_u32(&device->wake_seen, tell(device));
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

/* Every lane says what the word says, so that none says by chance, when the word has come around, what it said when it
 * was last told. */
void gm_wake_level(struct gm_device *device)
{
    if (device->wake_armed)
        return;
    const uint32_t word = tell(device);
    if ((int32_t)(word - device->wake_next) >= 0)
        device->wake_next = word + 1u;
    const uint32_t counted = device->wake_next - 1u;
    gm_store_release_sys_u32(device->wake, counted);
    for (uint32_t lane = 0; lane < GM_LANE_TABLE; lane++) {
        gm_store_relaxed_sys_u32(&device->wake_lanes[lane], counted);
        device->wake_told[lane] = counted;
    }
}

void gm_wake_tell(struct gm_device *device)
{
    if (!device->wake_armed)
        (void)tell(device);
}

int gm_wake_quiet(struct gm_device *device, char *text)
{
    if (!device->wake_armed)
        return GM_OK;
    /* A dispatcher that runs goes on counting from where it was, behind this value; the next launch begins behind it.
     * So no lane's word is ever what it was when somebody was told before. */
    const uint32_t word = gm_load_relaxed_sys_u32(device->wake);
    const uint32_t ahead = (int32_t)(word - device->wake_next) > 0 ? word : device->wake_next;
    gm_store_release_sys_u32(device->wake, ahead + GM_WAKE_JUMP);
    const cudaError_t error = cudaStreamSynchronize(device->wake_stream);
    if (error != cudaSuccess)
        return gm_gpu_fail(text, GM_EDEVICELOST, "wake stream", error);
    device->wake_armed = false;
    device->wake_next = ahead + GM_WAKE_JUMP + 1u;
    return GM_OK;
}

int gm_wake_drain(struct gm_device *device, char *text)
{
    if (!device->wake)
        return GM_OK; /* it did not come so far */
    const int status = gm_wake_quiet(device, text);
    if (status == GM_OK)
        gm_wake_tell(device);
    return status;
}

int gm_wake_service(struct gm_device *device, char *text)
{
    /* Not by asking the stream: the host function notifies before it returns, and nobody would come here again. */
    const uint32_t seen = gm_load_acquire_sys_u32(&device->wake_seen);
    if (!device->wake_armed || (int32_t)(seen - device->wake_next) < 0)
        return GM_OK;
    device->wake_armed = false;
    device->wake_next = seen + 1u;
    if (device->resident)
        return gm_wake_arm(device, text);
    gm_wake_tell(device); /* a kernel that parked since may have counted once more */
    return GM_OK;
}
