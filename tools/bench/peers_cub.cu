/* SPDX-License-Identifier: Apache-2.0
 *
 * CUB on device memory, see peers.h: the same inputs again and again, which a cache may hold. One thread, one stream.
 */
#include "peers.cuh"

#include <cub/cub.cuh>

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

static int run_sum(struct gm_peers *peers, struct gm_peers_place *place, struct gm_figures *figures,
                   const struct cub_memory *m, unsigned log2, size_t count)
{
    char name[32], what[64];
    const int n = 1 << log2;
    snprintf(name, sizeof name, "peer_cub_sum_%u", log2);
    snprintf(what, sizeof what, "CUB DeviceReduce::Sum of 2^%u f32, launch + sync", log2);
    return gm_peers_timed(peers, place, figures, name, what, count, 0, [&](size_t) {
        size_t bytes = m->scratch_bytes;
        return cub::DeviceReduce::Sum(m->scratch, bytes, (const float *)m->in, (float *)m->out, n, place->stream);
    });
}

static int run_sort(struct gm_peers *peers, struct gm_peers_place *place, struct gm_figures *figures,
                    const struct cub_memory *m, unsigned log2, size_t count)
{
    char name[32], what[64];
    const int n = 1 << log2;
    snprintf(name, sizeof name, "peer_cub_sort_%u", log2);
    snprintf(what, sizeof what, "CUB DeviceRadixSort::SortKeys of 2^%u u32, launch + sync", log2);
    return gm_peers_timed(peers, place, figures, name, what, count, 0, [&](size_t) {
        size_t bytes = m->scratch_bytes;
        return cub::DeviceRadixSort::SortKeys(m->scratch, bytes, (const uint32_t *)m->in, (uint32_t *)m->out, n, 0, 32,
                                              place->stream);
    });
}

static int run_histogram(struct gm_peers *peers, struct gm_peers_place *place, struct gm_figures *figures,
                         const struct cub_memory *m, size_t count)
{
    return gm_peers_timed(peers, place, figures, "peer_cub_histogram_20",
                 "CUB HistogramEven of 2^20 u8 in 256 bins, launch + sync", count, 0, [&](size_t) {
                     size_t bytes = m->scratch_bytes;
                     return cub::DeviceHistogram::HistogramEven(m->scratch, bytes, (const unsigned char *)m->in,
                                                                (int *)m->out, 257, 0, 256, 1 << 20, place->stream);
                 });
}

static int run_cub(struct gm_peers *peers, struct gm_peers_place *place, struct gm_figures *figures)
{
    struct cub_memory m = {NULL, NULL, NULL, (size_t)64 << 20};
    const size_t most = (size_t)1 << 26, few = peers->samples / 100u + 50u;
    cudaError_t error = cudaMalloc(&m.in, most);
    if (error == cudaSuccess)
        error = cudaMalloc(&m.out, most);
    if (error == cudaSuccess)
        error = cudaMalloc(&m.scratch, m.scratch_bytes);
    if (error != cudaSuccess)
        return gm_peers_failed(peers, "CUB: device memory", error);
    fill_f32<<<256, 256, 0, place->stream>>>((float *)m.in, most / 4u);
    int status = run_sum(peers, place, figures, &m, 14, few * 5u);
    if (status == 0)
        status = run_sum(peers, place, figures, &m, 20, few * 2u);
    if (status == 0)
        status = run_sum(peers, place, figures, &m, 24, few / 4u + 10u);
    fill<<<256, 256, 0, place->stream>>>((uint32_t *)m.in, most / 4u);
    if (status == 0)
        status = run_sort(peers, place, figures, &m, 10, few);
    if (status == 0)
        status = run_sort(peers, place, figures, &m, 16, few);
    if (status == 0)
        status = run_sort(peers, place, figures, &m, 20, few);
    if (status == 0)
        status = run_histogram(peers, place, figures, &m, few);
    (void)cudaFree(m.in);
    (void)cudaFree(m.out);
    (void)cudaFree(m.scratch);
    return status;
}

extern "C" int gm_peers_run(struct gm_peers *peers, struct gm_figures *figures)
{
    struct gm_peers_place place;
    if (gm_peers_floor(peers, figures) != 0 || gm_peers_open(peers, &place) != 0)
        return -1;
    const int status = run_cub(peers, &place, figures);
    gm_peers_close(&place);
    return status;
}
