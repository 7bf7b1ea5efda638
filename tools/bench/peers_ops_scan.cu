/* SPDX-License-Identifier: Apache-2.0
 *
 * Peers of scans: CUB's DeviceScan. Floats are added as floats, in an order that may differ from run to run.
 */
#include "peers_ops.cuh"

#include <cub/device/device_scan.cuh>
#include <cuda/functional>

template <class T> static cudaError_t sum(const struct gm_peers_job *job, void *scratch, size_t *bytes)
{
    return cub::DeviceScan::InclusiveSum(scratch, *bytes, gm_in<T>(job, 0), gm_out<T>(job, 0), job->n, job->stream);
}

static cudaError_t min(const struct gm_peers_job *job, void *scratch, size_t *bytes)
{
    return cub::DeviceScan::InclusiveScan(scratch, *bytes, gm_in<float>(job, 0), gm_out<float>(job, 0),
                                          cuda::minimum<>{}, job->n, job->stream);
}

static cudaError_t max(const struct gm_peers_job *job, void *scratch, size_t *bytes)
{
    return cub::DeviceScan::InclusiveScan(scratch, *bytes, gm_in<float>(job, 0), gm_out<float>(job, 0),
                                          cuda::maximum<>{}, job->n, job->stream);
}

const struct gm_peers_op gm_peers_scan_ops[] = {
    {"scan_sum", GM_DTYPE_f32, "CUB DeviceScan::InclusiveSum", sum<float>},
    {"scan_sum", GM_DTYPE_i32, "CUB DeviceScan::InclusiveSum", sum<int>},
    {"scan_min", GM_DTYPE_f32, "CUB DeviceScan::InclusiveScan", min},
    {"scan_max", GM_DTYPE_f32, "CUB DeviceScan::InclusiveScan", max},
    {NULL, 0, NULL, NULL},
};
