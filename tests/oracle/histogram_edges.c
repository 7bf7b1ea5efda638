/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for histogram_edges: after a look at the order of the edges, each value by halving the edges that may be
 * the last one not above it, as numbers.
 */
#include <math.h>

#include "oracle.h"

void gm_oracle_histogram_edges(struct gm_oracle_job *job)
{
    struct gm_oracle_job edges = *job;
    uint64_t *out = job->out;
    edges.in = job->in2;
    for (uint32_t i = 0; i <= job->bins; i++)
        if (isnan(gm_oracle_number(&edges, i)) ||
            (i != 0 && gm_oracle_number(&edges, i) < gm_oracle_number(&edges, i - 1u)))
            job->status = GM_EINVAL;
    for (uint32_t i = 0; i < job->bins; i++)
        out[i] = 0;
    for (uint64_t i = 0; i < job->n && job->status == GM_OK; i++) {
        const long double x = gm_oracle_number(job, i);
        if (isnan(x) || x < gm_oracle_number(&edges, 0) || x > gm_oracle_number(&edges, job->bins))
            continue;
        uint32_t below = 0, above = job->bins; /* edge[below] <= x, and x < edge[above] or it is the last */
        while (above - below > 1) {
            const uint32_t middle = below + (above - below) / 2;
            if (gm_oracle_number(&edges, middle) <= x)
                below = middle;
            else
                above = middle;
        }
        out[below]++;
        job->result++;
    }
}
