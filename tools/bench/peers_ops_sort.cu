/* SPDX-License-Identifier: Apache-2.0
 *
 * Peers of sorts: CUB's DeviceRadixSort, which leaves its input as it was, as ours does.
 */
#include "peers_ops.cuh"

#include <cub/device/device_radix_sort.cuh>

static cudaError_t sort(const struct gm_peers_job *job, void *scratch, size_t *bytes)
{
    return cub::DeviceRadixSort::SortKeys(scratch, *bytes, gm_in<float>(job, 0), gm_out<float>(job, 0), job->n, 0, 32,
                                          job->stream);
}

const struct gm_peers_op gm_peers_sort_ops[] = {
    {"sort", GM_DTYPE_f32, "CUB DeviceRadixSort::SortKeys", sort},
    {NULL, 0, NULL, NULL},
};
