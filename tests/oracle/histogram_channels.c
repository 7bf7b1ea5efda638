/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for histogram_channels: each channel in turn, pixel after pixel; a value is in the last bin whose left edge
 * is not above it.
 */
#include <math.h>
#include <string.h>

#include "oracle.h"

void gm_oracle_histogram_channels(struct gm_oracle_job *job)
{
    double lo, hi;
    uint64_t *out = job->out;
    memcpy(&lo, &job->value[0], sizeof lo);
    memcpy(&hi, &job->value[1], sizeof hi);
    const double width = (hi - lo) / (double)job->bins;
    memset(out, 0, (uint64_t)job->bins * job->count2 * sizeof *out);
    for (uint32_t channel = 0; channel < job->count2; channel++)
        for (uint64_t pixel = 0; pixel < job->n; pixel++) {
            const double x = (double)gm_oracle_number(job, pixel * job->count2 + channel);
            if (isnan(x) || x < lo || x > hi)
                continue;
            uint32_t below = 0, above = job->bins;
            while (above - below > 1) {
                const uint32_t middle = below + (above - below) / 2;
                if (lo + (double)middle * width <= x)
                    below = middle;
                else
                    above = middle;
            }
            out[channel * job->bins + below]++;
            job->result++;
        }
}
