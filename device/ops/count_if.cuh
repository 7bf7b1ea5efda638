/* SPDX-License-Identifier: Apache-2.0
 *
 * count_if on blocks: see compare.h for the rules and reduce.cuh for the way. What is counted is the elements in the
 * predicate's interval; those outside of it are the others.
 */
#include "cuda/prim/reduce.cuh"
#include "ops/compare.h"
#include "ops/run.cuh"

namespace
{

struct count_sum {
    typedef uint64_t Value;
    __device__ __forceinline__ static Value zero() { return 0; }
    __device__ __forceinline__ static Value combine(Value a, Value b) { return a + b; }
};

template <typename W> struct count : count_sum {
    typedef W Word;
    struct gm_predicate inside;
    struct Sum {
        struct gm_predicate inside;
        uint32_t counted;
        __device__ __forceinline__ explicit Sum(const count &r) : inside(r.inside), counted(0) {}
        __device__ __forceinline__ void add(const gm_pack<Word> &p)
        {
#pragma unroll
            for (int e = 0; e < p.elements; e++)
                counted += gm_predicate_inside(&inside, p.w[e]) ? 1u : 0u;
        }
        __device__ __forceinline__ Value total() const { return counted; }
        __device__ __forceinline__ Sum &operator=(const Sum &other)
        {
            counted = other.counted;
            return *this;
        }
    };
    /* The element whose key is just below the interval; its sign is the key's. Where the interval is everything there
     * is none, and what is counted does not matter. */
    __device__ __forceinline__ Word padding() const
    {
        const Word key = (Word)(inside.low - 1u);
        return (Word)(key ^ (key >> (sizeof(Word) * 8u - 1u) != 0 ? (Word)inside.negative : (Word)0));
    }
    __device__ __forceinline__ static void answer(struct gm_run *run, const count &, Value v);
};

__device__ __forceinline__ struct gm_predicate count_predicate(const struct gm_job *job)
{
    return gm_predicate_make(job->dtype, job->bins, job->value[0], job->value[1]);
}

/* One thread. */
__device__ __forceinline__ void count_answer(struct gm_run *run, uint64_t inside)
{
    const struct gm_job *job = run->job;
    const struct gm_predicate p = count_predicate(job);
    if (p.span == ~(uint64_t)0 >> (64u - gm_dtype_bytes(job->dtype) * 8u))
        inside = job->n;
    run->result = p.outside != 0 ? job->n - inside : inside;
}

template <typename W>
__device__ __forceinline__ void count<W>::answer(struct gm_run *run, const count<W> &, count_sum::Value v)
{
    count_answer(run, v);
}

struct count_widen {
    static constexpr uint32_t each = 2;
    __device__ __forceinline__ uint64_t operator()(ulonglong2 v, bool both) const { return v.x + (both ? v.y : 0); }
};

} // namespace

__device__ void gm_op_count_if_share(struct gm_run *run)
{
    const struct gm_predicate inside = count_predicate(run->job);
    switch (gm_dtype_bytes(run->job->dtype)) {
    case 1:
        gm_reduce_share(run, count<uint8_t>{{}, inside});
        break;
    case 2:
        gm_reduce_share(run, count<uint16_t>{{}, inside});
        break;
    case 4:
        gm_reduce_share(run, count<uint32_t>{{}, inside});
        break;
    default:
        gm_reduce_share(run, count<uint64_t>{{}, inside});
        break;
    }
}

__device__ void gm_op_count_if_finish(struct gm_run *run)
{
    if (run->job->tiles == 1)
        return; /* the share has answered */
    const uint64_t inside = gm_reduce_partials<count_sum>(run, count_widen());
    if (threadIdx.x == 0)
        count_answer(run, inside);
}
