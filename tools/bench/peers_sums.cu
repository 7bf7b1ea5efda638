/* SPDX-License-Identifier: Apache-2.0
 *
 * CUB's sums as the peer of ours over lanes: the same sizes, and inputs that are rotated over the same amount of
 * memory, so that both read from memory and not from a cache. The answer stays on the device. One thread, one stream.
 */
#include "peers.cuh"

#include <cub/cub.cuh>

#define LOG2_MIN 10u
#define LOG2_MAX 30u /* the largest size that a 32-bit count says, with which CUB is fastest */

static __global__ void fill_f32(float *p, size_t n)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        p[i] = (float)(1u + (i >> 18) % 7u);
}

struct sums {
    float *in, *out;
    void *scratch;
    size_t scratch_bytes;
    uint64_t elements;
};

static cudaError_t sums_make(struct sums *s, unsigned log2, cudaStream_t stream)
{
    cudaError_t error = cudaMalloc((void **)&s->in, s->elements * 4u);
    if (error == cudaSuccess)
        error = cudaMalloc((void **)&s->out, 256);
    if (error == cudaSuccess)
        error = cub::DeviceReduce::Sum(NULL, s->scratch_bytes, s->in, s->out, 1 << log2, stream);
    if (error == cudaSuccess)
        error = cudaMalloc(&s->scratch, s->scratch_bytes);
    if (error != cudaSuccess)
        return error;
    fill_f32<<<1024, 256, 0, stream>>>(s->in, s->elements);
    error = cudaGetLastError();
    return error == cudaSuccess ? cudaStreamSynchronize(stream) : error;
}

static int sums_of(struct gm_peers *peers, struct gm_peers_place *place, struct gm_figures *figures,
                   const struct sums *s, unsigned log2, uint64_t rotated_bytes, uint64_t budget_ns)
{
    char name[32], what[96];
    const uint64_t n = UINT64_C(1) << log2, places = rotated_bytes / 4u > n ? rotated_bytes / 4u / n : 1u;
    snprintf(name, sizeof name, "peer_cub_sum_rotated_%u", log2);
    snprintf(what, sizeof what, "CUB DeviceReduce::Sum of 2^%u f32, launch + sync, %llu inputs in turn", log2,
             (unsigned long long)places);
    return gm_peers_timed(peers, place, figures, name, what, peers->samples / 10u + 10u, budget_ns, [&](size_t i) {
        size_t bytes = s->scratch_bytes;
        return cub::DeviceReduce::Sum(s->scratch, bytes, s->in + i % places * n, s->out, (int)n, place->stream);
    });
}

extern "C" int gm_peers_sums(struct gm_peers *peers, struct gm_figures *figures, unsigned log2, uint64_t rotated_bytes,
                             uint64_t budget_ns)
{
    struct sums s = {};
    struct gm_peers_place place;
    log2 = log2 < LOG2_MAX ? log2 : LOG2_MAX;
    s.elements = rotated_bytes / 4u > UINT64_C(1) << log2 ? rotated_bytes / 4u : UINT64_C(1) << log2;
    if (gm_peers_open(peers, &place) != 0)
        return -1;
    const cudaError_t error = sums_make(&s, log2, place.stream);
    int status = error == cudaSuccess ? 0 : gm_peers_failed(peers, "CUB: device memory", error);
    for (unsigned k = LOG2_MIN; k <= log2 && status == 0; k += 2u)
        status = sums_of(peers, &place, figures, &s, k, rotated_bytes, budget_ns);
    (void)cudaFree(s.in);
    (void)cudaFree(s.out);
    (void)cudaFree(s.scratch);
    gm_peers_close(&place);
    return status;
}
