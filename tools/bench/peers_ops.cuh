/* SPDX-License-Identifier: Apache-2.0
 *
 * The peers of the catalogue's ops: CUB's device-wide algorithms, the copy engine and the driver, on the data that
 * bench_ops gives to ours. One call launches everything; its inputs and outputs are those of the job. Included by the
 * peers' units only.
 */
#ifndef GM_BENCH_PEERS_OPS_CUH
#define GM_BENCH_PEERS_OPS_CUH

#include "ops_plan.h"

#include <cuda_runtime.h>

/* What a call gets: buffers at one place, scratch memory of the size that it asked for. */
struct gm_peers_job {
    const struct gm_ops_plan *plan;
    const void *in[2];
    void *out[2]; /* of an op without an output: room for its result */
    void *result; /* counts, and what else a library writes beside the outputs */
    cudaStream_t stream;
    int n;
};

/* scratch NULL: *bytes is how much it needs. */
typedef cudaError_t gm_peers_call(const struct gm_peers_job *job, void *scratch, size_t *bytes);

struct gm_peers_op {
    const char *op;
    uint32_t dtype;
    const char *what; /* what it is, in the words of its library */
    gm_peers_call *call;
};

/* Each ended by an op that is NULL. */
extern const struct gm_peers_op gm_peers_map_ops[], gm_peers_reduce_ops[], gm_peers_segment_ops[], gm_peers_scan_ops[],
    gm_peers_select_ops[], gm_peers_histogram_ops[], gm_peers_sort_ops[];

template <class T> static const T *gm_in(const struct gm_peers_job *job, int i)
{
    return static_cast<const T *>(job->in[i]);
}

template <class T> static T *gm_out(const struct gm_peers_job *job, int i)
{
    return static_cast<T *>(job->out[i]);
}

/* An argument that is a f32. */
static inline float gm_value_f32(const struct gm_peers_job *job, int i)
{
    union {
        uint32_t u;
        float f;
    } x;
    x.u = (uint32_t)job->plan->args.value[i];
    return x.f;
}

#endif
