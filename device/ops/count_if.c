/* SPDX-License-Identifier: Apache-2.0
 *
 * count_if: each tile counts the elements in the predicate's interval (compare.h), finish adds the counts. One thread a
 * share.
 */
#include "compare.h"
#include "run.h"

#define COUNT_OF(bits)                                                                                                 \
    static uint64_t count_u##bits(const struct gm_predicate *predicate, const uint##bits##_t *in, uint64_t count)      \
    {                                                                                                                  \
        const struct gm_predicate p = *predicate;                                                                      \
        uint##bits##_t part; /* as narrow as the elements, for as long as it cannot overflow */                        \
        uint64_t sum = 0;                                                                                              \
        for (uint64_t i = 0; i < count;) {                                                                             \
            const uint64_t end = count - i < 255u ? count : i + 255u;                                                  \
            for (part = 0; i < end; i++)                                                                               \
                part = (uint##bits##_t)(part + gm_predicate_u##bits(&p, in[i]));                                       \
            sum += part;                                                                                               \
        }                                                                                                              \
        return sum;                                                                                                    \
    }
COUNT_OF(8)
COUNT_OF(16)
COUNT_OF(32)
COUNT_OF(64)
#undef COUNT_OF

void gm_op_count_if_share(struct gm_run *run)
{
    const struct gm_job *job = run->job;
    const struct gm_predicate predicate = gm_predicate_make(job->dtype, job->bins, job->value[0], job->value[1]);
    uint64_t *counts = (uint64_t *)(uintptr_t)job->workspace;
    const void *in = gm_run_buffer(run, 0);
    uint64_t tile, count;
    while (gm_run_next_tile(run, &tile)) {
        const uint64_t first = gm_run_tile(run, tile, &count);
        if (gm_dtype_bytes(job->dtype) == 1)
            counts[tile] = count_u8(&predicate, (const uint8_t *)in + first, count);
        else if (gm_dtype_bytes(job->dtype) == 2)
            counts[tile] = count_u16(&predicate, (const uint16_t *)in + first, count);
        else if (gm_dtype_bytes(job->dtype) == 4)
            counts[tile] = count_u32(&predicate, (const uint32_t *)in + first, count);
        else
            counts[tile] = count_u64(&predicate, (const uint64_t *)in + first, count);
    }
}

void gm_op_count_if_finish(struct gm_run *run)
{
    const uint64_t *counts = (const uint64_t *)(uintptr_t)run->job->workspace;
    uint64_t sum = 0;
    for (uint64_t t = 0; t < run->job->tiles; t++)
        sum += counts[t];
    run->result = sum;
}
