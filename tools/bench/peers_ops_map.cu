/* SPDX-License-Identifier: Apache-2.0
 *
 * Peers of memory and map ops: what the driver does by itself, CUB's DeviceTransform, and DeviceFor where an element
 * needs more than its own inputs. None needs scratch memory.
 */
#include "peers_ops.cuh"

#include <cub/device/device_for.cuh>
#include <cub/device/device_transform.cuh>

static __global__ void nothing() {}

static cudaError_t nop(const struct gm_peers_job *job, void *, size_t *)
{
    nothing<<<1, 1, 0, job->stream>>>();
    return cudaGetLastError();
}

static cudaError_t fill(const struct gm_peers_job *job, void *, size_t *)
{
    return cudaMemsetAsync(job->out[0], 1, job->plan->bytes[0], job->stream);
}

static cudaError_t copy(const struct gm_peers_job *job, void *, size_t *)
{
    return cudaMemcpyAsync(job->out[0], job->in[0], job->plan->bytes[0], cudaMemcpyDeviceToDevice, job->stream);
}

struct axpby_of {
    float alpha, beta;
    __host__ __device__ float operator()(float x, float y) const { return alpha * x + beta * y; }
};

static cudaError_t axpby(const struct gm_peers_job *job, void *, size_t *)
{
    return cub::DeviceTransform::Transform(cuda::std::make_tuple(gm_in<float>(job, 0), gm_in<float>(job, 1)),
                                           gm_out<float>(job, 0), job->n,
                                           axpby_of{gm_value_f32(job, 0), gm_value_f32(job, 1)}, job->stream);
}

struct clamp_of {
    float lower, upper;
    __host__ __device__ float operator()(float x) const
    {
        const float y = x < lower ? lower : x;
        return y > upper ? upper : y;
    }
};

static cudaError_t clamp(const struct gm_peers_job *job, void *, size_t *)
{
    return cub::DeviceTransform::Transform(gm_in<float>(job, 0), gm_out<float>(job, 0), job->n,
                                           clamp_of{gm_value_f32(job, 0), gm_value_f32(job, 1)}, job->stream);
}

struct to_i32 {
    __host__ __device__ int operator()(float x) const { return (int)x; }
};

static cudaError_t cast(const struct gm_peers_job *job, void *, size_t *)
{
    return cub::DeviceTransform::Transform(gm_in<float>(job, 0), gm_out<int>(job, 0), job->n, to_i32{}, job->stream);
}

struct element_of {
    const float *table;
    __host__ __device__ float operator()(int i) const { return table[i]; }
};

static cudaError_t gather(const struct gm_peers_job *job, void *, size_t *)
{
    return cub::DeviceTransform::Transform(gm_in<int>(job, 1), gm_out<float>(job, 0), job->n,
                                           element_of{gm_in<float>(job, 0)}, job->stream);
}

struct put_at {
    const float *in;
    const int *index;
    float *out;
    __device__ void operator()(int i) const { out[index[i]] = in[i]; }
};

static cudaError_t scatter(const struct gm_peers_job *job, void *, size_t *)
{
    return cub::DeviceFor::Bulk(job->n, put_at{gm_in<float>(job, 0), gm_in<int>(job, 1), gm_out<float>(job, 0)},
                                job->stream);
}

/* What lies outside is zero. */
struct three {
    const float *in;
    float *out, left, center, right;
    int n;
    __device__ void operator()(int i) const
    {
        out[i] = center * in[i] + (i > 0 ? left * in[i - 1] : 0.0f) + (i + 1 < n ? right * in[i + 1] : 0.0f);
    }
};

static cudaError_t stencil3(const struct gm_peers_job *job, void *, size_t *)
{
    return cub::DeviceFor::Bulk(job->n, three{gm_in<float>(job, 0), gm_out<float>(job, 0), 1.0f, 1.0f, 1.0f, job->n},
                                job->stream);
}

static cudaError_t stencil3_weighted(const struct gm_peers_job *job, void *, size_t *)
{
    return cub::DeviceFor::Bulk(job->n,
                                three{gm_in<float>(job, 0), gm_out<float>(job, 0), gm_value_f32(job, 0),
                                      gm_value_f32(job, 1), gm_value_f32(job, 2), job->n},
                                job->stream);
}

struct five {
    const float *in, *weight;
    float *out;
    int width, n;
    __device__ void operator()(int i) const
    {
        const int column = i % width;
        float sum = weight[0] * in[i];
        sum += column > 0 ? weight[1] * in[i - 1] : 0.0f;
        sum += column + 1 < width ? weight[2] * in[i + 1] : 0.0f;
        sum += i >= width ? weight[3] * in[i - width] : 0.0f;
        sum += i + width < n ? weight[4] * in[i + width] : 0.0f;
        out[i] = sum;
    }
};

static cudaError_t stencil5(const struct gm_peers_job *job, void *, size_t *)
{
    return cub::DeviceFor::Bulk(
        job->n,
        five{gm_in<float>(job, 0), gm_in<float>(job, 1), gm_out<float>(job, 0), (int)job->plan->args.value[0], job->n},
        job->stream);
}

const struct gm_peers_op gm_peers_map_ops[] = {
    {"nop", 0, "a kernel that does nothing", nop},
    {"fill", GM_DTYPE_f32, "cudaMemsetAsync", fill},
    {"copy", GM_DTYPE_f32, "cudaMemcpyAsync, device to device", copy},
    {"axpby", GM_DTYPE_f32, "CUB DeviceTransform", axpby},
    {"clamp", GM_DTYPE_f32, "CUB DeviceTransform", clamp},
    {"cast", GM_DTYPE_f32, "CUB DeviceTransform to i32", cast},
    {"gather", GM_DTYPE_f32, "CUB DeviceTransform of the indices", gather},
    {"scatter", GM_DTYPE_f32, "plain stores in CUB DeviceFor::Bulk", scatter},
    {"stencil3", GM_DTYPE_f32, "plain loads in CUB DeviceFor::Bulk", stencil3},
    {"stencil3_weighted", GM_DTYPE_f32, "plain loads in CUB DeviceFor::Bulk", stencil3_weighted},
    {"stencil5", GM_DTYPE_f32, "plain loads in CUB DeviceFor::Bulk", stencil5},
    {NULL, 0, NULL, NULL},
};
