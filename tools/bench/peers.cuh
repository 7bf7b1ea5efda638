/* SPDX-License-Identifier: Apache-2.0
 *
 * What the peers share: the clock, how a failure is told, and the timing of a call that launches and the stream's
 * synchronisation after it, as a program sees them. Included by the peers' units only.
 */
#ifndef GM_BENCH_PEERS_CUH
#define GM_BENCH_PEERS_CUH

#include "peers.h"

#include <cuda_runtime.h>
#include <stdio.h>
#include <time.h>

static inline uint64_t gm_peers_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline int gm_peers_failed(struct gm_peers *peers, const char *what, cudaError_t error)
{
    snprintf(peers->text, sizeof peers->text, "%s: %s", what, cudaGetErrorString(error));
    return -1;
}

/* One stream, and samples; what every peer needs. */
struct gm_peers_place {
    cudaStream_t stream;
    struct gm_samples samples;
};

/* 0, or -1 and a text; then nothing is left. */
static inline int gm_peers_open(struct gm_peers *peers, struct gm_peers_place *place)
{
    cudaError_t error = cudaSetDevice(peers->device);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&place->stream, cudaStreamNonBlocking);
    if (error != cudaSuccess)
        return gm_peers_failed(peers, "GPU", error);
    if (gm_samples_make(&place->samples, peers->samples))
        return 0;
    (void)cudaStreamDestroy(place->stream);
    return gm_peers_failed(peers, "samples", cudaErrorMemoryAllocation);
}

static inline void gm_peers_close(struct gm_peers_place *place)
{
    gm_samples_free(&place->samples);
    (void)cudaStreamDestroy(place->stream);
}

/* Times call(i), i from 0 on, and the synchronisation after it; for about budget_ns at most, when that is not 0. The
 * median goes there, too, unless that is NULL. */
template <class Call>
static int gm_peers_timed(struct gm_peers *peers, struct gm_peers_place *place, struct gm_figures *figures,
                          const char *name, const char *what, size_t count, uint64_t budget_ns, Call call,
                          double *median_ns = NULL)
{
    const size_t warm_up = count / 10u + 10u;
    const uint64_t start = gm_peers_now_ns();
    uint64_t end = start;
    for (size_t i = 0; i < count + warm_up && (i < 25u || budget_ns == 0 || end - start < budget_ns); i++) {
        const uint64_t begin = gm_peers_now_ns();
        cudaError_t error = call(i);
        if (error == cudaSuccess)
            error = cudaStreamSynchronize(place->stream);
        end = gm_peers_now_ns();
        if (error != cudaSuccess)
            return gm_peers_failed(peers, what, error);
        if (i >= (budget_ns == 0 ? warm_up : 10u))
            gm_samples_add(&place->samples, end - begin);
    }
    if (median_ns)
        *median_ns = (double)gm_samples_at(&place->samples, 0.5);
    gm_figures_latency(figures, name, what, &place->samples);
    return 0;
}

#endif
