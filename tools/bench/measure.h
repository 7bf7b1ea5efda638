/* SPDX-License-Identifier: Apache-2.0
 *
 * The measurements of bench_device, each on an open bed: latencies of jobs, rates, and what the life of the kernel
 * costs. Every answer is compared with the one expected, so that no figure is of wrong work. One thread beside the
 * submitter that a measurement starts and joins.
 */
#ifndef GM_BENCH_MEASURE_H
#define GM_BENCH_MEASURE_H

#include "figures.h"
#include "bed.h"

struct gm_measure {
    struct gm_bed *bed;
    struct gm_figures *figures;
    struct gm_samples samples;
    size_t count;        /* samples of a no-op; larger jobs take fewer */
    uint64_t budget_ns;  /* one figure of larger jobs, or one rate, takes about so long at most */
    int status;
};

/* No-op round trip, and what a submission costs the client. */
int gm_measure_nop(struct gm_measure *m);
/* No-op jobs of one submitter at several windows. */
int gm_measure_rates(struct gm_measure *m);
/* Jobs on device memory: one share, all workers, several phases. */
int gm_measure_ops(struct gm_measure *m);
/* Stop and start again, idle and under load. */
int gm_measure_pauses(struct gm_measure *m);
/* The parts of a pause; no-ops beside each kind of housekeeping. */
int gm_measure_parts(struct gm_measure *m);
int gm_measure_beside(struct gm_measure *m);
/* Processor time of this process while nothing happens, and the thread that takes most of it. */
void gm_measure_idle(struct gm_measure *m, const char *name, const char *what);
/* A bed that parks: first job after a park, wake-up of a client that sleeps. */
int gm_measure_sleep(struct gm_measure *m);

#endif
