/* SPDX-License-Identifier: Apache-2.0
 *
 * See peers.h. The echo is the floor of any round trip over mapped memory: one thread, one word there, one 16-byte
 * answer back. Launches are timed from the call to the end of the stream's synchronisation, as a program sees them.
 */
#include "peers.h"

#include <cub/cub.cuh>
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "atomic.h"

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int failed(struct gm_peers *peers, const char *what, cudaError_t error)
{
    snprintf(peers->text, sizeof peers->text, "%s: %s", what, cudaGetErrorString(error));
    return -1;
}

/* ---- echo ---- */

#define ECHO_STOP 0xffffffffu

static __global__ void echo(const uint32_t *in, struct gm_granule *out)
{
    for (uint32_t last = 0; last != ECHO_STOP;) {
        const uint32_t v = gm_load_relaxed_sys_u32(in);
        if (v == last)
            continue;
        last = v;
        const struct gm_granule g = {{v, v, v, v}};
        gm_store16_sys(out, g);
    }
}

static int run_echo(struct gm_peers *peers, cudaStream_t stream, struct gm_figures *figures, struct gm_samples *samples)
{
    uint32_t *host = NULL, *device = NULL;
    const uint64_t give_up_ns = UINT64_C(30000000000);
    cudaError_t error = cudaHostAlloc((void **)&host, 4096, cudaHostAllocMapped);
    if (error != cudaSuccess)
        return failed(peers, "echo: mapped memory", error);
    memset(host, 0, 4096);
    error = cudaHostGetDevicePointer((void **)&device, host, 0);
    if (error != cudaSuccess)
        return failed(peers, "echo: address", error);
    uint32_t *in = host, *out = host + 256;
    echo<<<1, 1, 0, stream>>>(device, (struct gm_granule *)(device + 256));
    const uint64_t start = now_ns();
    bool answered = true;
    for (uint32_t k = 1; k <= peers->samples + 2000u && answered; k++) {
        const uint64_t begin = now_ns();
        gm_store_relaxed_sys_u32(in, k);
        for (uint32_t look = 1; gm_load_relaxed_sys_u32(out) != k && answered; look++)
            if (look % (1u << 20) == 0)
                answered = now_ns() - start < give_up_ns;
        if (k > 2000u)
            gm_samples_add(samples, now_ns() - begin);
    }
    gm_store_relaxed_sys_u32(in, ECHO_STOP);
    error = cudaStreamSynchronize(stream);
    (void)cudaFreeHost(host);
    if (error != cudaSuccess || !answered)
        return failed(peers, "echo: the kernel did not answer", error);
    gm_figures_latency(figures, "peer_echo", "bare echo kernel over mapped memory, round trip", samples);
    return 0;
}

/* ---- launches ---- */

static __global__ void empty(void) {}

/* Times call() and the synchronisation after it. */
template <class Call>
static int timed(struct gm_peers *peers, cudaStream_t stream, struct gm_figures *figures, struct gm_samples *samples,
                 const char *name, const char *what, size_t count, Call call)
{
    for (size_t i = 0; i < count + count / 10u + 10u; i++) {
        const uint64_t begin = now_ns();
        cudaError_t error = call();
        if (error == cudaSuccess)
            error = cudaStreamSynchronize(stream);
        const uint64_t end = now_ns();
        if (error != cudaSuccess)
            return failed(peers, what, error);
        if (i >= count / 10u + 10u)
            gm_samples_add(samples, end - begin);
    }
    gm_figures_latency(figures, name, what, samples);
    return 0;
}

static int run_launches(struct gm_peers *peers, cudaStream_t stream, struct gm_figures *figures,
                        struct gm_samples *samples)
{
    const size_t count = peers->samples / 10u + 100u;
    int status = timed(peers, stream, figures, samples, "peer_launch", "empty kernel, launch + sync", count, [&] {
        empty<<<1, 1, 0, stream>>>();
        return cudaGetLastError();
    });
    if (status != 0)
        return status;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaError_t error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    if (error == cudaSuccess) {
        empty<<<1, 1, 0, stream>>>();
        error = cudaStreamEndCapture(stream, &graph);
    }
    if (error == cudaSuccess)
        error = cudaGraphInstantiate(&exec, graph, 0);
    if (error != cudaSuccess)
        return failed(peers, "graph", error);
    status = timed(peers, stream, figures, samples, "peer_graph", "graph of one empty kernel, launch + sync", count,
                   [&] { return cudaGraphLaunch(exec, stream); });
    (void)cudaGraphExecDestroy(exec);
    (void)cudaGraphDestroy(graph);
    return status;
}

/* ---- CUB ---- */

static __global__ void fill(uint32_t *p, size_t n)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        p[i] = (uint32_t)((i + 1u) * 0x9E3779B97F4A7C15ull >> 32);
}

/* Floats of ordinary size for the sums. */
static __global__ void fill_f32(float *p, size_t n)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        p[i] = (float)((uint32_t)((i + 1u) * 0x9E3779B97F4A7C15ull >> 40)) / 16777216.0f;
}

struct cub_memory {
    void *in, *out, *scratch;
    size_t scratch_bytes;
};

static int run_sum(struct gm_peers *peers, cudaStream_t stream, struct gm_figures *figures, struct gm_samples *samples,
                   const struct cub_memory *m, unsigned log2, size_t count)
{
    char name[32], what[64];
    const int n = 1 << log2;
    snprintf(name, sizeof name, "peer_cub_sum_%u", log2);
    snprintf(what, sizeof what, "CUB DeviceReduce::Sum of 2^%u f32, launch + sync", log2);
    return timed(peers, stream, figures, samples, name, what, count, [&] {
        size_t bytes = m->scratch_bytes;
        return cub::DeviceReduce::Sum(m->scratch, bytes, (const float *)m->in, (float *)m->out, n, stream);
    });
}

static int run_sort(struct gm_peers *peers, cudaStream_t stream, struct gm_figures *figures,
                    struct gm_samples *samples, const struct cub_memory *m, unsigned log2, size_t count)
{
    char name[32], what[64];
    const int n = 1 << log2;
    snprintf(name, sizeof name, "peer_cub_sort_%u", log2);
    snprintf(what, sizeof what, "CUB DeviceRadixSort::SortKeys of 2^%u u32, launch + sync", log2);
    return timed(peers, stream, figures, samples, name, what, count, [&] {
        size_t bytes = m->scratch_bytes;
        return cub::DeviceRadixSort::SortKeys(m->scratch, bytes, (const uint32_t *)m->in, (uint32_t *)m->out, n, 0, 32,
                                              stream);
    });
}

static int run_histogram(struct gm_peers *peers, cudaStream_t stream, struct gm_figures *figures,
                         struct gm_samples *samples, const struct cub_memory *m, size_t count)
{
    return timed(peers, stream, figures, samples, "peer_cub_histogram_20",
                 "CUB HistogramEven of 2^20 u8 in 256 bins, launch + sync", count, [&] {
                     size_t bytes = m->scratch_bytes;
                     return cub::DeviceHistogram::HistogramEven(m->scratch, bytes, (const unsigned char *)m->in,
                                                                (int *)m->out, 257, 0, 256, 1 << 20, stream);
                 });
}

static int run_cub(struct gm_peers *peers, cudaStream_t stream, struct gm_figures *figures, struct gm_samples *samples)
{
    struct cub_memory m = {NULL, NULL, NULL, (size_t)64 << 20};
    const size_t most = (size_t)1 << 26, few = peers->samples / 100u + 50u;
    cudaError_t error = cudaMalloc(&m.in, most);
    if (error == cudaSuccess)
        error = cudaMalloc(&m.out, most);
    if (error == cudaSuccess)
        error = cudaMalloc(&m.scratch, m.scratch_bytes);
    if (error != cudaSuccess)
        return failed(peers, "CUB: device memory", error);
    fill_f32<<<256, 256, 0, stream>>>((float *)m.in, most / 4u);
    int status = run_sum(peers, stream, figures, samples, &m, 14, few * 5u);
    if (status == 0)
        status = run_sum(peers, stream, figures, samples, &m, 20, few * 2u);
    if (status == 0)
        status = run_sum(peers, stream, figures, samples, &m, 24, few / 4u + 10u);
    fill<<<256, 256, 0, stream>>>((uint32_t *)m.in, most / 4u);
    if (status == 0)
        status = run_sort(peers, stream, figures, samples, &m, 10, few);
    if (status == 0)
        status = run_sort(peers, stream, figures, samples, &m, 16, few);
    if (status == 0)
        status = run_sort(peers, stream, figures, samples, &m, 20, few);
    if (status == 0)
        status = run_histogram(peers, stream, figures, samples, &m, few);
    (void)cudaFree(m.in);
    (void)cudaFree(m.out);
    (void)cudaFree(m.scratch);
    return status;
}

extern "C" int gm_peers_run(struct gm_peers *peers, struct gm_figures *figures)
{
    struct gm_samples samples;
    cudaStream_t stream;
    cudaError_t error = cudaSetDevice(peers->device);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (error != cudaSuccess)
        return failed(peers, "GPU", error);
    if (!gm_samples_make(&samples, peers->samples))
        return failed(peers, "samples", cudaErrorMemoryAllocation);
    int status = run_echo(peers, stream, figures, &samples);
    if (status == 0)
        status = run_launches(peers, stream, figures, &samples);
    if (status == 0)
        status = run_cub(peers, stream, figures, &samples);
    gm_samples_free(&samples);
    (void)cudaStreamDestroy(stream);
    return status;
}
