/* SPDX-License-Identifier: Apache-2.0
 *
 * Peers of reductions: CUB's DeviceReduce. Answers stay on the device; floats are added as floats.
 */
#include "peers_ops.cuh"

#include <cub/device/device_reduce.cuh>
#include <cuda/functional>
#include <thrust/iterator/zip_iterator.h>

static cudaError_t sum(const struct gm_peers_job *job, void *scratch, size_t *bytes)
{
    return cub::DeviceReduce::Sum(scratch, *bytes, gm_in<float>(job, 0), gm_out<float>(job, 0), job->n, job->stream);
}

static cudaError_t min(const struct gm_peers_job *job, void *scratch, size_t *bytes)
{
    return cub::DeviceReduce::Min(scratch, *bytes, gm_in<float>(job, 0), gm_out<float>(job, 0), job->n, job->stream);
}

static cudaError_t max(const struct gm_peers_job *job, void *scratch, size_t *bytes)
{
    return cub::DeviceReduce::Max(scratch, *bytes, gm_in<float>(job, 0), gm_out<float>(job, 0), job->n, job->stream);
}

static cudaError_t prod(const struct gm_peers_job *job, void *scratch, size_t *bytes)
{
    return cub::DeviceReduce::Reduce(scratch, *bytes, gm_in<float>(job, 0), gm_out<float>(job, 0), job->n,
                                     cuda::std::multiplies<>{}, 1.0f, job->stream);
}

static cudaError_t argmin(const struct gm_peers_job *job, void *scratch, size_t *bytes)
{
    return cub::DeviceReduce::ArgMin(scratch, *bytes, gm_in<float>(job, 0), gm_out<float>(job, 0),
                                     static_cast<int64_t *>(job->result), job->n, job->stream);
}

static cudaError_t argmax(const struct gm_peers_job *job, void *scratch, size_t *bytes)
{
    return cub::DeviceReduce::ArgMax(scratch, *bytes, gm_in<float>(job, 0), gm_out<float>(job, 0),
                                     static_cast<int64_t *>(job->result), job->n, job->stream);
}

struct is_less {
    float than;
    __host__ __device__ int operator()(float x) const { return x < than; }
};

static cudaError_t count_if(const struct gm_peers_job *job, void *scratch, size_t *bytes)
{
    return cub::DeviceReduce::TransformReduce(scratch, *bytes, gm_in<float>(job, 0), static_cast<int *>(job->result),
                                              job->n, cuda::std::plus<>{}, is_less{gm_value_f32(job, 0)}, 0,
                                              job->stream);
}

struct square {
    __host__ __device__ float operator()(float x) const { return x * x; }
};

static cudaError_t norm2(const struct gm_peers_job *job, void *scratch, size_t *bytes)
{
    return cub::DeviceReduce::TransformReduce(scratch, *bytes, gm_in<float>(job, 0), gm_out<float>(job, 0), job->n,
                                              cuda::std::plus<>{}, square{}, 0.0f, job->stream);
}

struct product {
    template <class Pair> __host__ __device__ float operator()(const Pair &p) const
    {
        return thrust::get<0>(p) * thrust::get<1>(p);
    }
};

static cudaError_t dot(const struct gm_peers_job *job, void *scratch, size_t *bytes)
{
    return cub::DeviceReduce::TransformReduce(
        scratch, *bytes, thrust::make_zip_iterator(gm_in<float>(job, 0), gm_in<float>(job, 1)), gm_out<float>(job, 0),
        job->n, cuda::std::plus<>{}, product{}, 0.0f, job->stream);
}

const struct gm_peers_op gm_peers_reduce_ops[] = {
    {"sum", GM_DTYPE_f32, "CUB DeviceReduce::Sum", sum},
    {"min", GM_DTYPE_f32, "CUB DeviceReduce::Min", min},
    {"max", GM_DTYPE_f32, "CUB DeviceReduce::Max", max},
    {"prod", GM_DTYPE_f32, "CUB DeviceReduce::Reduce", prod},
    {"argmin", GM_DTYPE_f32, "CUB DeviceReduce::ArgMin", argmin},
    {"argmax", GM_DTYPE_f32, "CUB DeviceReduce::ArgMax", argmax},
    {"count_if", GM_DTYPE_f32, "CUB DeviceReduce::TransformReduce", count_if},
    {"norm2", GM_DTYPE_f32, "CUB DeviceReduce::TransformReduce, without the root", norm2},
    {"dot", GM_DTYPE_f32, "CUB DeviceReduce::TransformReduce", dot},
    {NULL, 0, NULL, NULL},
};
