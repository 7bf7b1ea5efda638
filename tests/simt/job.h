/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole job on the emulated GPU: checked and cut by device/core as the dispatcher does it, its phases in order, the
 * shares of each by worker blocks (worker.h), with an entry and a workspace of its own. One thread.
 */
#ifndef GM_SIMT_JOB_H
#define GM_SIMT_JOB_H

#include "case.h"
#include "worker.h"

/* What must not matter to the answer. */
struct gm_simt_setting {
    uint32_t workers; /* for the cut */
    uint32_t blocks;  /* that take turns */
    uint32_t bulk, host;
    uint32_t order; /* of threads */
    enum gm_simt_shares { GM_SIMT_SHARES_RISING, GM_SIMT_SHARES_FALLING, GM_SIMT_SHARES_SHUFFLED } shares;
    uint64_t seed;
    void (*disturb)(void); /* as gm_simt_launch */
    bool sorted; /* a histogram of many bins is sorted, whatever its size */
    bool looks_back; /* the dispatcher clears what tiles of scans say to each other; else a phase of their own does */
};

/* buffer: as the job has them, inputs first. False, and why, when a block hangs or does what is undefined; what the job
 * itself has to say is in status and result. */
bool gm_simt_job_run(const struct gm_case *c, void *const buffer[GM_BUFFERS_MAX], const struct gm_simt_setting *setting,
                     int32_t *status, uint64_t *result, char *why, size_t size);

#endif
