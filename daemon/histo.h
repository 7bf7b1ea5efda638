/* SPDX-License-Identifier: Apache-2.0
 *
 * Log-linear histogram of times: 8 sub-buckets per power of two from 128 ns to over a minute, one bucket below and one
 * above. Adding is a shift and an increment; relative error of a quantile is at most 1/8. Loop thread only.
 */
#ifndef GM_DAEMON_HISTO_H
#define GM_DAEMON_HISTO_H

#include <stdint.h>

#include "limits.h"

struct gm_histo {
    uint64_t count, max;
    uint64_t bucket[GM_HISTO_BUCKETS];
};

void gm_histo_add(struct gm_histo *histo, uint64_t ns);
/* Largest value that bucket i can hold; the last one holds everything above. */
uint64_t gm_histo_upper(uint32_t i);
/* Upper bound of the value at rank ceil(count * permille / 1000), never above the true maximum; 0 when empty. */
uint64_t gm_histo_quantile(const struct gm_histo *histo, uint32_t permille);

#endif
