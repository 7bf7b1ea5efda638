/* SPDX-License-Identifier: Apache-2.0
 *
 * Peers of histograms: CUB's DeviceHistogram, whose counts have 32 bits. Of two inputs it has none: there it counts
 * what an iterator makes of them.
 */
#include "peers_ops.cuh"

#include <cub/device/device_histogram.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#define BINS ((int)GM_OPS_BINS)
#define CHANNELS ((int)GM_OPS_CHANNELS)

static cudaError_t even(const struct gm_peers_job *job, void *scratch, size_t *bytes)
{
    return cub::DeviceHistogram::HistogramEven(scratch, *bytes, gm_in<float>(job, 0), gm_out<int>(job, 0), BINS + 1,
                                               0.0f, 1.0f, job->n, job->stream);
}

static cudaError_t edges(const struct gm_peers_job *job, void *scratch, size_t *bytes)
{
    return cub::DeviceHistogram::HistogramRange(scratch, *bytes, gm_in<float>(job, 0), gm_out<int>(job, 0), BINS + 1,
                                                gm_in<float>(job, 1), job->n, job->stream);
}

/* T: of elements; L: of the edges. */
template <class T, class L> static cudaError_t channels(const struct gm_peers_job *job, void *scratch, size_t *bytes)
{
    static_assert(CHANNELS == 4, "as many as stand below");
    const L upper = sizeof(T) == 1 ? (L)256 : (L)1;
    int *const counts = gm_out<int>(job, 0);
    return cub::DeviceHistogram::MultiHistogramEven<CHANNELS, CHANNELS>(
        scratch, *bytes, gm_in<T>(job, 0),
        cuda::std::array<int *, CHANNELS>{counts, counts + BINS, counts + 2 * BINS, counts + 3 * BINS},
        cuda::std::array<int, CHANNELS>{BINS + 1, BINS + 1, BINS + 1, BINS + 1}, cuda::std::array<L, CHANNELS>{},
        cuda::std::array<L, CHANNELS>{upper, upper, upper, upper}, job->n, job->stream);
}

/* Elements are from 0 to 1. */
struct cell_of {
    const float *x, *y;
    __host__ __device__ int operator()(int i) const
    {
        return (int)(x[i] * (float)GM_OPS_BINS_2D) * (int)GM_OPS_BINS_2D + (int)(y[i] * (float)GM_OPS_BINS_2D);
    }
};

static cudaError_t flat(const struct gm_peers_job *job, void *scratch, size_t *bytes)
{
    const int cells = (int)(GM_OPS_BINS_2D * GM_OPS_BINS_2D);
    const auto cell = thrust::make_transform_iterator(thrust::make_counting_iterator(0),
                                                      cell_of{gm_in<float>(job, 0), gm_in<float>(job, 1)});
    return cub::DeviceHistogram::HistogramEven(scratch, *bytes, cell, gm_out<int>(job, 0), cells + 1, 0, cells, job->n,
                                               job->stream);
}

const struct gm_peers_op gm_peers_histogram_ops[] = {
    {"histogram", GM_DTYPE_f32, "CUB DeviceHistogram::HistogramEven, 256 bins", even},
    {"histogram_edges", GM_DTYPE_f32, "CUB DeviceHistogram::HistogramRange, 256 bins", edges},
    {"histogram_channels", GM_DTYPE_f32, "CUB DeviceHistogram::MultiHistogramEven, 4 x 256 bins",
     channels<float, float>},
    {"histogram_channels", GM_DTYPE_u8, "CUB DeviceHistogram::MultiHistogramEven, 4 x 256 bins",
     channels<uint8_t, int>},
    {"histogram_2d", GM_DTYPE_f32, "CUB DeviceHistogram::HistogramEven of cells, 64 x 64", flat},
    {NULL, 0, NULL, NULL},
};
