/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for histogram: all edges written down, then for each value the last edge that is not above it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"

void gm_oracle_histogram(struct gm_oracle_job *job)
{
    double lo, hi;
    uint64_t *out = job->out;
    double *edge = calloc(job->bins, sizeof *edge);
    memcpy(&lo, &job->value[0], sizeof lo);
    memcpy(&hi, &job->value[1], sizeof hi);
    if (!edge)
        abort();
    for (uint32_t i = 0; i < job->bins; i++) {
        out[i] = 0;
        edge[i] = lo + (double)i * ((hi - lo) / (double)job->bins);
    }
    for (uint64_t i = 0; i < job->n; i++) {
        const double x = (double)gm_oracle_number(job, i);
        if (isnan(x) || x < lo || x > hi)
            continue;
        uint32_t below = 0, above = job->bins; /* edge[below] <= x, and every edge from above on is above x */
        while (above - below > 1) {
            const uint32_t middle = below + (above - below) / 2;
            if (edge[middle] <= x)
                below = middle;
            else
                above = middle;
        }
        out[below]++;
        job->result++;
    }
    free(edge);
}
