/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for histogram_2d: pair after pair; on either axis the last bin whose left edge is not above the value.
 */
#include <math.h>
#include <string.h>

#include "oracle.h"

/* bins: not inside. */
static uint32_t bin_of(double x, uint64_t lo_bits, uint64_t hi_bits, uint32_t bins)
{
    double lo, hi;
    memcpy(&lo, &lo_bits, sizeof lo);
    memcpy(&hi, &hi_bits, sizeof hi);
    if (isnan(x) || x < lo || x > hi)
        return bins;
    const double width = (hi - lo) / (double)bins;
    uint32_t below = 0, above = bins;
    while (above - below > 1) {
        const uint32_t middle = below + (above - below) / 2;
        if (lo + (double)middle * width <= x)
            below = middle;
        else
            above = middle;
    }
    return below;
}

void gm_oracle_histogram_2d(struct gm_oracle_job *job)
{
    struct gm_oracle_job second = *job;
    uint64_t *out = job->out;
    second.in = job->in2;
    memset(out, 0, (uint64_t)job->bins * job->count2 * sizeof *out);
    for (uint64_t i = 0; i < job->n; i++) {
        const uint32_t x = bin_of((double)gm_oracle_number(job, i), job->value[0], job->value[1], job->bins);
        const uint32_t y = bin_of((double)gm_oracle_number(&second, i), job->value[2], job->value[3], job->count2);
        if (x == job->bins || y == job->count2)
            continue;
        out[x * job->count2 + y]++;
        job->result++;
    }
}
