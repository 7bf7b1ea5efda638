/* SPDX-License-Identifier: Apache-2.0
 *
 * Peers of segmented ops: CUB's DeviceSegmentedReduce over the same offsets. Of a segmented scan CUB has the one by
 * key, whose keys it must read beside the elements.
 */
#include "peers_ops.cuh"

#include <cub/device/device_scan.cuh>
#include <cub/device/device_segmented_reduce.cuh>
#include <cuda/functional>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

static int segments_of(const struct gm_peers_job *job)
{
    return (int)job->plan->args.value[0];
}

static cudaError_t sum(const struct gm_peers_job *job, void *scratch, size_t *bytes)
{
    const int *offsets = gm_in<int>(job, 1);
    return cub::DeviceSegmentedReduce::Sum(scratch, *bytes, gm_in<float>(job, 0), gm_out<float>(job, 0),
                                           segments_of(job), offsets, offsets + 1, job->stream);
}

static cudaError_t min(const struct gm_peers_job *job, void *scratch, size_t *bytes)
{
    const int *offsets = gm_in<int>(job, 1);
    return cub::DeviceSegmentedReduce::Min(scratch, *bytes, gm_in<float>(job, 0), gm_out<float>(job, 0),
                                           segments_of(job), offsets, offsets + 1, job->stream);
}

static cudaError_t max(const struct gm_peers_job *job, void *scratch, size_t *bytes)
{
    const int *offsets = gm_in<int>(job, 1);
    return cub::DeviceSegmentedReduce::Max(scratch, *bytes, gm_in<float>(job, 0), gm_out<float>(job, 0),
                                           segments_of(job), offsets, offsets + 1, job->stream);
}

/* The segment of a position, near which offsets of this bench lie: one look, seldom two. */
struct segment_at {
    const int *offsets;
    int segments;
    __host__ __device__ int operator()(int i) const
    {
        int s = i / (int)GM_OPS_SEGMENT;
        s = s < segments ? s : segments - 1;
        while (s > 0 && i < offsets[s])
            s--;
        while (s + 1 < segments && i >= offsets[s + 1])
            s++;
        return s;
    }
};

template <class Op> static cudaError_t scan(const struct gm_peers_job *job, void *scratch, size_t *bytes)
{
    const auto keys = thrust::make_transform_iterator(thrust::make_counting_iterator(0),
                                                      segment_at{gm_in<int>(job, 1), segments_of(job)});
    return cub::DeviceScan::InclusiveScanByKey(scratch, *bytes, keys, gm_in<float>(job, 0), gm_out<float>(job, 0), Op{},
                                               job->n, cuda::std::equal_to<>{}, job->stream);
}

const struct gm_peers_op gm_peers_segment_ops[] = {
    {"segmented_sum", GM_DTYPE_f32, "CUB DeviceSegmentedReduce::Sum", sum},
    {"segmented_min", GM_DTYPE_f32, "CUB DeviceSegmentedReduce::Min", min},
    {"segmented_max", GM_DTYPE_f32, "CUB DeviceSegmentedReduce::Max", max},
    {"segmented_scan_sum", GM_DTYPE_f32, "CUB DeviceScan::InclusiveScanByKey, keys from the offsets",
     scan<cuda::std::plus<>>},
    {"segmented_scan_min", GM_DTYPE_f32, "CUB DeviceScan::InclusiveScanByKey, keys from the offsets",
     scan<cuda::minimum<>>},
    {"segmented_scan_max", GM_DTYPE_f32, "CUB DeviceScan::InclusiveScanByKey, keys from the offsets",
     scan<cuda::maximum<>>},
    {NULL, 0, NULL, NULL},
};
