/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests want from a GPU beside the device under test: a neighbour that keeps it busy, and what the driver says
 * about it. Apart from peers.cu, because a process loads every kernel that is linked into it before it starts.
 */
#include "peers.h"

#include <cuda_runtime.h>
#include <string.h>

#include "core/port.h"

static __global__ void burn(uint64_t ns)
{
    const uint64_t begin = gm_now_ns();
    while (gm_now_ns() - begin < ns) {
    }
}

extern "C" int gm_peers_load(struct gm_peers *peers, const uint32_t *stop, uint32_t kernel_us)
{
    cudaError_t error = cudaSetDevice(peers->device);
    while (error == cudaSuccess && gm_load_relaxed_u32(stop) == 0) {
        burn<<<64, 256>>>((uint64_t)kernel_us * 1000u);
        error = cudaDeviceSynchronize();
    }
    if (error == cudaSuccess)
        return 0;
    snprintf(peers->text, sizeof peers->text, "load: %s", cudaGetErrorString(error));
    return -1;
}

extern "C" uint64_t gm_peers_free_memory(int device)
{
    size_t free_bytes = 0, total = 0;
    if (cudaSetDevice(device) != cudaSuccess || cudaMemGetInfo(&free_bytes, &total) != cudaSuccess)
        return 0;
    return free_bytes;
}

extern "C" void gm_peers_driver(char *text, size_t size)
{
    int cuda = 0, runtime = 0;
    char version[64] = "unknown";
    FILE *f = fopen("/proc/driver/nvidia/version", "re");
    if (f) {
        char line[256];
        /* "NVRM version: ... Kernel Module  580.65.06  Release Build ...": the first word of digits and dots. */
        const char *at = fgets(line, sizeof line, f) ? line : "";
        while (*at != 0) {
            const size_t size = strcspn(at, " \t\n");
            if (size > 0 && size < sizeof version && strspn(at, "0123456789.") == size) {
                snprintf(version, sizeof version, "%.*s", (int)size, at);
                break;
            }
            at += size + (at[size] != 0);
        }
        fclose(f);
    }
    (void)cudaDriverGetVersion(&cuda);
    (void)cudaRuntimeGetVersion(&runtime);
    snprintf(text, size, "%s, CUDA %d.%d, runtime %d.%d", version, cuda / 1000, cuda % 1000 / 10, runtime / 1000,
             runtime % 1000 / 10);
}
