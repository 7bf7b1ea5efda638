/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for clamp: which of element, lower and upper it is, by comparing numbers; its bits are copied.
 */
#include <math.h>
#include <string.h>

#include "oracle.h"

/* Whether the element with the bits a is below the one with the bits b. */
static bool below(uint32_t dtype, uint64_t a, uint64_t b)
{
    float f[2];
    double d[2];
    switch (dtype) {
    case GM_DTYPE_i32:
        return (int32_t)(uint32_t)a < (int32_t)(uint32_t)b;
    case GM_DTYPE_i64:
        return (int64_t)a < (int64_t)b;
    case GM_DTYPE_f32:
        memcpy(&f[0], &a, sizeof f[0]), memcpy(&f[1], &b, sizeof f[1]);
        return !isnan(f[0]) && !isnan(f[1]) && isless(f[0], f[1]);
    case GM_DTYPE_f64:
        memcpy(&d[0], &a, sizeof d[0]), memcpy(&d[1], &b, sizeof d[1]);
        return !isnan(d[0]) && !isnan(d[1]) && isless(d[0], d[1]);
    default:
        return a < b;
    }
}

void gm_oracle_clamp(struct gm_oracle_job *job)
{
    const uint32_t bytes = gm_dtype_bytes(job->dtype);
    for (uint64_t i = 0; i < job->n; i++) {
        uint64_t x = 0;
        memcpy(&x, (const uint8_t *)job->in + i * bytes, bytes);
        if (below(job->dtype, x, job->value[0]))
            x = job->value[0];
        if (below(job->dtype, job->value[1], x))
            x = job->value[1];
        memcpy((uint8_t *)job->out + i * bytes, &x, bytes);
    }
}
