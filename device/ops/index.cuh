/* SPDX-License-Identifier: Apache-2.0
 *
 * Indices of a client's buffer, on blocks. Each is read once, into a register, because the client may change it between
 * a comparison and a use. Negative ones become more than any length. Each thread for itself.
 */
#ifndef GM_OPS_INDEX_CUH
#define GM_OPS_INDEX_CUH

#include "cuda/prim/pack.cuh"
#include "ops/word.cuh"

namespace
{

/* Index: int32_t, uint32_t or uint64_t; negative 64-bit ones are more than any length as they are. */
template <typename Index> struct index_of;
template <> struct index_of<int32_t> {
    __device__ __forceinline__ static uint64_t load(const void *p, uint64_t i)
    {
        return (uint64_t)(int64_t)(int32_t)gm_global_load((const uint32_t *)p + i);
    }
};
template <> struct index_of<uint32_t> {
    __device__ __forceinline__ static uint64_t load(const void *p, uint64_t i)
    {
        return gm_global_load((const uint32_t *)p + i);
    }
};
template <> struct index_of<uint64_t> {
    __device__ __forceinline__ static uint64_t load(const void *p, uint64_t i)
    {
        return gm_global_load((const uint64_t *)p + i);
    }
};

__device__ __forceinline__ uint8_t element_load(const uint8_t *p) { return __ldcg(p); }
__device__ __forceinline__ uint32_t element_load(const uint32_t *p) { return gm_global_load(p); }
__device__ __forceinline__ uint64_t element_load(const uint64_t *p) { return gm_global_load(p); }

/* The error of a share in which some thread met an index that is out of range. Whole block, with a barrier. */
__device__ __forceinline__ void index_verdict(struct gm_run *run, bool outside)
{
    if (__syncthreads_or(outside) != 0 && threadIdx.x == 0)
        gm_run_fail(run, GM_EBOUNDS);
}

/* Calls f with a value of the word of the job's elements and one of the type of its indices. Whole block. */
template <class F> __device__ __forceinline__ void index_typed(const struct gm_run *run, F f)
{
    gm_run_word(run, [run, f](auto word) {
        if (run->job->type2 == GM_DTYPE_i32)
            f(word, int32_t());
        else if (run->job->type2 == GM_DTYPE_u32)
            f(word, uint32_t());
        else
            f(word, uint64_t());
    });
}

} // namespace

#endif
