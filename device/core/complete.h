/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer to a job: one 16-byte store into the completion slot that has the submission slot's index and stays the
 * job's until it is answered, so nobody waits for a client. One thread, of a worker or of the dispatcher.
 */
#ifndef GM_CORE_COMPLETE_H
#define GM_CORE_COMPLETE_H

#include "core.h"

GM_DEV void gm_complete_store(struct gm_granule *slot, uint32_t lap, uint64_t result, int32_t status, uint64_t run_ns)
{
    gm_store16_sys(slot, gm_completion(result, status, run_ns, lap));
}

/* A worker answers for its job. Fences only as far as an output has to be seen: host memory needs the system, device
 * memory the GPU, scalars none because they ride in the completion itself. */
GM_DEV void gm_complete(const struct gm_job *job, uint64_t result, int32_t status)
{
    if (job->marks & GM_MARK_HOST_OUT)
        gm_fence_acq_rel_sys();
    else if (job->marks & GM_MARK_OUT)
        gm_fence_acq_rel_gpu();
    gm_complete_store((struct gm_granule *)job->completion, gm_lap(job->position, job->slots_log2),
                      status == GM_OK ? result : 0, status, gm_now_ns() - job->start_ns);
}

/* The dispatcher answers for a descriptor that never became a job. */
GM_DEV void gm_complete_refused(const struct gm_lane_row *lane, uint64_t position, int32_t status)
{
    const uint64_t slot = position & ((UINT64_C(1) << lane->slots_log2) - 1u);
    gm_complete_store(&lane->cq[slot], gm_lap(position, lane->slots_log2), 0, status, 0);
}

#endif
