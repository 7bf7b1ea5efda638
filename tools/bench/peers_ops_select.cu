/* SPDX-License-Identifier: Apache-2.0
 *
 * Peers of selections: CUB's DeviceSelect, DevicePartition and DeviceRunLengthEncode. Counts stay on the device;
 * lengths of runs have 64 bits, as ours.
 */
#include "peers_ops.cuh"

#include <cub/device/device_partition.cuh>
#include <cub/device/device_run_length_encode.cuh>
#include <cub/device/device_select.cuh>

struct is_less {
    float than;
    __host__ __device__ bool operator()(float x) const { return x < than; }
};

static int *count_of(const struct gm_peers_job *job)
{
    return static_cast<int *>(job->result);
}

static cudaError_t select_if(const struct gm_peers_job *job, void *scratch, size_t *bytes)
{
    return cub::DeviceSelect::If(scratch, *bytes, gm_in<float>(job, 0), gm_out<float>(job, 0), count_of(job), job->n,
                                 is_less{gm_value_f32(job, 0)}, job->stream);
}

static cudaError_t partition(const struct gm_peers_job *job, void *scratch, size_t *bytes)
{
    return cub::DevicePartition::If(scratch, *bytes, gm_in<float>(job, 0), gm_out<float>(job, 0), count_of(job), job->n,
                                    is_less{gm_value_f32(job, 0)}, job->stream);
}

static cudaError_t unique(const struct gm_peers_job *job, void *scratch, size_t *bytes)
{
    return cub::DeviceSelect::Unique(scratch, *bytes, gm_in<float>(job, 0), gm_out<float>(job, 0), count_of(job),
                                     job->n, job->stream);
}

static cudaError_t run_length(const struct gm_peers_job *job, void *scratch, size_t *bytes)
{
    return cub::DeviceRunLengthEncode::Encode(scratch, *bytes, gm_in<float>(job, 0), gm_out<float>(job, 0),
                                              gm_out<unsigned long long>(job, 1), count_of(job), job->n, job->stream);
}

const struct gm_peers_op gm_peers_select_ops[] = {
    {"select_if", GM_DTYPE_f32, "CUB DeviceSelect::If", select_if},
    {"partition", GM_DTYPE_f32, "CUB DevicePartition::If", partition},
    {"unique", GM_DTYPE_f32, "CUB DeviceSelect::Unique", unique},
    {"run_length", GM_DTYPE_f32, "CUB DeviceRunLengthEncode::Encode", run_length},
    {NULL, 0, NULL, NULL},
};
