/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of a GPU device: the scheduler's tables, the workspace pool, registered host memory and device arenas. Main
 * thread. Frees and unregistrations only while no kernel is resident and no stream waits (they would hang); device
 * arenas come from the stream-ordered pool, which may be used at any time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/init.h"
#include "core/plan.h"
#include "cuda/gpu.h"

#define GM_WORKSPACE_DEFAULT_MAX (UINT64_C(8) << 30)

/* From so many bytes on the copy engine is worth a wake of the host: 16 MiB take it 310 us where workers take 346, so
 * it gains 36 us on each 16 MiB, and the wake takes 85 us, at worst 315 (MEASURED.md). It is even at 38 MiB, and at the
 * worst wake of a hundred at 140. */
#define GM_COPY_BYTES (UINT64_C(64) << 20)

int gm_gpu_map(struct gm_device *device, void *host, uint64_t bytes, uint64_t *address, char *text)
{
    void *pointer = NULL;
    const uint8_t *const end = device->region + gm_region_bytes();
    const bool ours = (uint8_t *)host >= device->region && (uint8_t *)host + bytes <= end;
    cudaError_t error = ours ? cudaSuccess : cudaHostRegister(host, bytes, cudaHostRegisterMapped);
    if (error != cudaSuccess)
        return gm_gpu_fail(text, GM_ENOMEM, "registering host memory", error);
    error = cudaHostGetDevicePointer(&pointer, host, 0);
    if (error != cudaSuccess)
        return gm_gpu_fail(text, GM_ESYSTEM, "address of host memory", error);
    *address = (uint64_t)(uintptr_t)pointer;
    return GM_OK;
}

int gm_gpu_unmap(struct gm_device *device, void *host, uint64_t bytes, char *text)
{
    (void)bytes;
    const int status = gm_wake_drain(device, text);
    if (status != GM_OK)
        return status;
    const cudaError_t error = cudaHostUnregister(host);
    return error == cudaSuccess ? GM_OK : gm_gpu_fail(text, GM_ESYSTEM, "unregistering host memory", error);
}

int gm_gpu_alloc(struct gm_device *device, uint64_t bytes, uint64_t *address, char *text)
{
    void *pointer = NULL;
    cudaError_t error = cudaMallocAsync(&pointer, bytes, device->memory_stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(device->memory_stream);
    if (error != cudaSuccess) {
        (void)cudaGetLastError(); /* out of memory is not sticky; the next call starts clean */
        return gm_gpu_fail(text, GM_ENOMEM, "device arena", error);
    }
    *address = (uint64_t)(uintptr_t)pointer;
    return GM_OK;
}

void gm_gpu_free(struct gm_device *device, uint64_t address)
{
    (void)cudaFreeAsync((void *)(uintptr_t)address, device->memory_stream);
}

/* Splits one allocation; every table starts on 256 bytes. */
static void *piece(uint8_t **at, uint64_t bytes)
{
    void *p = *at;
    *at += (bytes + 255u) & ~UINT64_C(255);
    return p;
}

static int make_tables(struct gm_device *device, struct gm_core *core, char *text)
{
    const uint64_t tickets = UINT64_C(1) << core->tickets_log2, entries = core->entries_count;
    const uint64_t bytes = sizeof(struct gm_counters) + sizeof(struct gm_disp) +
                           tickets * (sizeof(struct gm_slot) + sizeof(uint32_t)) + GM_SHARES_MAX * 8u +
                           entries * (8u + sizeof(struct gm_entry) + GM_ENTRY_SCRATCH) + 8u * 256u;
    cudaError_t error = cudaMalloc(&device->tables, bytes);
    if (error == cudaSuccess)
        error = cudaMemset(device->tables, 0, bytes);
    if (error == cudaSuccess)
        error = cudaMalloc(&device->workspace, core->workspace_bytes);
    if (error != cudaSuccess)
        return gm_gpu_fail(text, GM_ENOMEM, "device memory for the scheduler and its workspace", error);
    uint8_t *at = device->tables;
    core->counters = piece(&at, sizeof(struct gm_counters));
    core->saved = piece(&at, sizeof(struct gm_disp));
    core->slots = piece(&at, tickets * sizeof(struct gm_slot));
    core->acks = piece(&at, tickets * sizeof(uint32_t));
    core->inbox = piece(&at, entries * sizeof(uint64_t));
    core->workers_busy = piece(&at, GM_SHARES_MAX * sizeof(uint64_t));
    core->entries = piece(&at, entries * sizeof(struct gm_entry));
    core->scratch = piece(&at, entries * GM_ENTRY_SCRATCH);
    core->workspace = device->workspace;
    return GM_OK;
}

/* The region that gridmilld reads, and the admin lane in it. */
static int map_region(struct gm_device *device, void *host, char *text)
{
    uint64_t region = 0;
    const cudaError_t error = cudaHostRegister(host, gm_region_bytes(), cudaHostRegisterMapped);
    if (error != cudaSuccess)
        return gm_gpu_fail(text, GM_ENOMEM, "registering the region", error);
    device->region = host;
    const int status = gm_gpu_map(device, host, gm_region_bytes(), &region, text);
    if (status != GM_OK)
        return status;
    struct gm_core *core = &device->core;
    const uint64_t admin = region + gm_region_admin_offset();
    core->workers_words = (struct gm_granule *)(uintptr_t)(region + gm_region_workers_offset());
    core->lane_notes = (struct gm_lane_note *)(uintptr_t)(region + gm_region_notes_offset());
    core->device_counters =
        (struct gm_device_counters *)(uintptr_t)(region + offsetof(struct gm_region_header, counters));
    core->admin_header = (struct gm_lane_header *)(uintptr_t)admin;
    core->admin_sq = (const struct gm_desc_slot *)(uintptr_t)(admin + gm_lane_sq_offset());
    core->admin_cq = (struct gm_granule *)(uintptr_t)(admin + gm_lane_cq_offset(GM_ADMIN_SLOTS));
    device->admin_header = (const struct gm_lane_header *)(const void *)(device->region + gm_region_admin_offset());
    return GM_OK;
}

static int make_host_words(struct gm_device *device, char *text)
{
    const size_t words = (device->blocks + 63u) / 32u * 32u, bytes = (words + 32u + GM_LANE_TABLE) * sizeof(uint32_t);
    const cudaError_t error = cudaHostAlloc((void **)&device->checkin, bytes, cudaHostAllocMapped);
    if (error != cudaSuccess)
        return gm_gpu_fail(text, GM_ENOMEM, "check-in words", error);
    memset(device->checkin, 0, bytes);
    device->wake = device->checkin + words;
    device->wake_lanes = device->wake + 32;
    device->wake_next = 1;
    return GM_OK;
}

/* What the host prepares of the scheduler, once. */
static int upload(const struct gm_core *core, const struct gm_disp *saved, const struct gm_counters *counters,
                  const struct gm_core_shape *shape, char *text)
{
    const size_t bytes = sizeof(struct gm_slot) << shape->tickets_log2;
    struct gm_slot *slots = malloc(bytes);
    if (slots == NULL)
        return gm_gpu_fail(text, GM_ENOMEM, "the ticket ring's first image", cudaErrorMemoryAllocation);
    gm_slots_init(slots, shape);
    cudaError_t error = cudaMemcpy(core->saved, saved, sizeof *saved, cudaMemcpyHostToDevice);
    if (error == cudaSuccess)
        error = cudaMemcpy(core->counters, counters, sizeof *counters, cudaMemcpyHostToDevice);
    if (error == cudaSuccess)
        error = cudaMemcpy(core->slots, slots, bytes, cudaMemcpyHostToDevice);
    free(slots);
    return error == cudaSuccess ? GM_OK : gm_gpu_fail(text, GM_ESYSTEM, "scheduler state", error);
}

int gm_gpu_make_core(struct gm_device *device, const struct gm_device_config *config, char *text)
{
    static struct gm_disp saved; /* too large for a stack; main thread only */
    struct gm_counters counters;
    uint64_t eighth = device->properties.totalGlobalMem / 8u;
    if (eighth > GM_WORKSPACE_DEFAULT_MAX)
        eighth = GM_WORKSPACE_DEFAULT_MAX;
    const struct gm_core_shape shape = {
        .tickets_log2 = config->tickets_log2 ? config->tickets_log2 : GM_TICKETS_LOG2,
        .entries_log2 = config->entries_log2 ? config->entries_log2 : GM_ENTRIES_LOG2,
        .workers = device->blocks - 1u,
        .host_shares = GM_HOST_SHARES,
        .ticket_start = config->ticket_start,
        .inbox_start = config->inbox_start,
        .idle_ns = config->idle_ns,
        .looks_back = 1,
        .copy_bytes = config->copy_bytes ? config->copy_bytes : GM_COPY_BYTES,
        .workspace_bytes = config->workspace_bytes ? config->workspace_bytes : eighth,
        /* Where jobs go the quick way; in the bounded mode one warp plays all parts. */
        .wings = device->properties.major >= 9 && config->idle_ns != 0 ? GM_WINGS_MAX : 0,
    };
    int status = gm_core_init(&device->core, &counters, &saved, &shape);
    if (status != GM_OK) {
        snprintf(text, GM_ERROR_TEXT_MAX, "%u workers do not fit a ticket ring of %u", shape.workers,
                 1u << shape.tickets_log2);
        return status;
    }
    status = make_tables(device, &device->core, text);
    if (status == GM_OK)
        status = map_region(device, config->region, text);
    if (status == GM_OK)
        status = make_host_words(device, text);
    if (status != GM_OK)
        return status;
    return upload(&device->core, &saved, &counters, &shape, text);
}

void gm_gpu_release(struct gm_device *device)
{
    gm_copy_close(device);
    if (device->region)
        (void)cudaHostUnregister(device->region);
    if (device->checkin)
        (void)cudaFreeHost(device->checkin);
    /* Freeing nothing is a first CUDA call too: it would make a context on a GPU that is somebody else's. */
    if (device->tables)
        (void)cudaFree(device->tables);
    if (device->workspace)
        (void)cudaFree(device->workspace);
}
