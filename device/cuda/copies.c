/* SPDX-License-Identifier: Apache-2.0
 *
 * Large copies by the GPU's copy engines, beside the resident kernel: copier.h says what, a stream for each direction
 * does it, piece after piece, and stores the word of the end itself, so that the dispatcher hears of it without the
 * host. The host is told now and then how far a stream has come, by a host function on a stream of its own, so that
 * nothing in the first one waits for a thread to wake up. Main thread, but for these host functions.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cuda/gpu.h"

/* Pieces begun and not known to be done, of one direction. A piece takes 0.31 ms and a wake of the host 0.09, at worst
 * 0.32 (MEASURED.md): with two of the four to go when it is told, the engine does not run dry. More would lengthen what
 * a cancel, and a pause that unregisters memory, waits for. */
#define GM_COPY_AHEAD 4u
#define GM_COPY_TOLD 2u
static_assert(GM_COPY_AHEAD % GM_COPY_TOLD == 0 && GM_COPY_AHEAD > GM_COPY_TOLD, "full means that a notice is due");

static void CUDART_CB told(void *arg)
{
    struct gm_copy_way *way = arg;
    const uint64_t one = 1;
    gm_store_release_u32(&way->done, gm_load_relaxed_u32(&way->done) + GM_COPY_TOLD); /* the only writer, in order */
    if (write(way->notice_fd, &one, sizeof one) < 0) {
        /* EAGAIN: the counter is full, so the descriptor is readable, which is all that matters. */
    }
}

static int copy_piece(void *self, uint32_t direction, uint64_t target, uint64_t source, uint64_t bytes)
{
    struct gm_device *device = self;
    struct gm_copy_way *way = &device->copy_way[direction];
    /* Which side is the host's, the driver knows by the addresses, and it need not be told those of the host. */
    cudaError_t error = cudaMemcpyAsync((void *)(uintptr_t)target, (const void *)(uintptr_t)source, bytes,
                                        cudaMemcpyDefault, way->pieces);
    if (error != cudaSuccess) {
        (void)cudaGetLastError(); /* of this copy alone: what is wrong with the device shows in the kernel's stream */
        return GM_ESYSTEM;
    }
    way->begun++;
    if (way->begun % GM_COPY_TOLD != 0)
        return GM_OK;
    error = cudaEventRecord(way->event, way->pieces);
    if (error == cudaSuccess)
        error = cudaStreamWaitEvent(way->notices, way->event, 0);
    if (error == cudaSuccess)
        error = cudaLaunchHostFunc(way->notices, told, way);
    way->error = error; /* nobody would ever hear of these pieces: gm_copy_look gives the device up */
    return GM_OK;
}

/* The stream makes what it did before visible to the whole system first: that is the store's default. */
static int copy_end(void *self, uint32_t direction, uint32_t *end, uint32_t value)
{
    struct gm_device *device = self;
    const CUstream stream = (CUstream)device->copy_way[direction].pieces;
    const CUresult result =
        device->driver.write_value(stream, (CUdeviceptr)(uintptr_t)end, value, CU_STREAM_WRITE_VALUE_DEFAULT);
    return result == CUDA_SUCCESS ? GM_OK : GM_EDEVICELOST;
}

int gm_copy_open(struct gm_device *device, char *text)
{
    static const struct gm_copier_calls calls = {.piece = copy_piece, .end = copy_end};
    cudaError_t error = cudaHostAlloc((void **)&device->core.copies, sizeof *device->core.copies, cudaHostAllocMapped);
    if (error != cudaSuccess)
        return gm_gpu_fail(text, GM_ENOMEM, "copies", error);
    memset(device->core.copies, 0, sizeof *device->core.copies);
    for (uint32_t i = 0; i < GM_COPY_DIRECTIONS && error == cudaSuccess; i++) {
        struct gm_copy_way *way = &device->copy_way[i];
        way->notice_fd = device->notice_fd;
        error = cudaStreamCreateWithFlags(&way->pieces, cudaStreamNonBlocking);
        if (error == cudaSuccess)
            error = cudaStreamCreateWithFlags(&way->notices, cudaStreamNonBlocking);
        if (error == cudaSuccess)
            error = cudaEventCreateWithFlags(&way->event, cudaEventDisableTiming);
    }
    if (error != cudaSuccess)
        return gm_gpu_fail(text, GM_ESYSTEM, "streams for copies", error);
    gm_copier_init(&device->copier, device->core.copies, GM_COPY_PIECE, 0, &calls, device);
    return GM_OK;
}

int gm_copy_look(struct gm_device *device, char *text)
{
    if (!device->core.copies || !device->resident || device->copies_rest)
        return GM_OK;
    for (uint32_t i = 0; i < GM_COPY_DIRECTIONS; i++) {
        struct gm_copy_way *way = &device->copy_way[i];
        bool did = true;
        /* As many steps as there are places, so that copies that are cancelled one after the other keep nobody here:
         * the next look comes with the next notice, or by the clock. */
        for (uint32_t step = 0; did && step < GM_COPIES_MAX; step++) {
            if (way->begun - gm_load_acquire_u32(&way->done) >= GM_COPY_AHEAD)
                break;
            const int status = gm_copier_step(&device->copier, i, &did);
            if (status != GM_OK || way->error != cudaSuccess) {
                snprintf(text, GM_ERROR_TEXT_MAX, "the streams of the copy engine do not take anything any more");
                return GM_EDEVICELOST;
            }
        }
    }
    return GM_OK;
}

int gm_copy_quiet(struct gm_device *device, char *text)
{
    cudaError_t error = cudaSuccess;
    device->copies_rest = true; /* whoever waits for the stop looks at the device meanwhile */
    for (uint32_t i = 0; device->core.copies && i < GM_COPY_DIRECTIONS && error == cudaSuccess; i++) {
        const struct gm_copy_way *way = &device->copy_way[i];
        if (way->pieces)
            error = cudaStreamSynchronize(way->pieces);
        if (way->notices && error == cudaSuccess)
            error = cudaStreamSynchronize(way->notices);
    }
    return error == cudaSuccess ? GM_OK : gm_gpu_fail(text, GM_EDEVICELOST, "copy streams", error);
}

void gm_copy_close(struct gm_device *device)
{
    for (uint32_t i = 0; i < GM_COPY_DIRECTIONS; i++) {
        struct gm_copy_way *way = &device->copy_way[i];
        if (way->pieces)
            (void)cudaStreamDestroy(way->pieces);
        if (way->notices)
            (void)cudaStreamDestroy(way->notices);
        if (way->event)
            (void)cudaEventDestroy(way->event);
    }
    if (device->core.copies)
        (void)cudaFreeHost(device->core.copies);
}
