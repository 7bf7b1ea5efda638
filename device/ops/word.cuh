/* SPDX-License-Identifier: Apache-2.0
 *
 * The one switch over the widths of elements, for ops that move or compare them as bits. Whole block.
 */
#ifndef GM_OPS_WORD_CUH
#define GM_OPS_WORD_CUH

#include "ops/run.cuh"

/* Calls f with a value of the unsigned type that is as wide as the job's elements. GM_WORD_TYPES alone. */
template <class F> __device__ __forceinline__ void gm_run_word(const struct gm_run *run, F f)
{
    switch (gm_dtype_bytes(run->job->dtype)) {
    case 1:
        f(uint8_t());
        break;
    case 4:
        f(uint32_t());
        break;
    case 8:
        f(uint64_t());
        break;
    }
}

#endif
