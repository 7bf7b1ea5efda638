/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for stencil5: by row and column; what lies outside is 0.
 */
#include <math.h>
#include <string.h>

#include "oracle.h"

/* Where the weights' points are, in their order: down, right. */
static const int way[5][2] = {{0, 0}, {0, -1}, {0, 1}, {-1, 0}, {1, 0}};

static void get(const struct gm_oracle_job *job, int64_t y, int64_t x, void *to)
{
    const uint32_t bytes = gm_dtype_bytes(job->dtype);
    const int64_t width = (int64_t)job->value[0], height = (int64_t)job->n / width;
    memset(to, 0, bytes);
    if (y >= 0 && y < height && x >= 0 && x < width)
        memcpy(to, (const uint8_t *)job->in + (uint64_t)(y * width + x) * bytes, bytes);
}

static void one(struct gm_oracle_job *job, int64_t y, int64_t x)
{
    const uint64_t i = (uint64_t)y * job->value[0] + (uint64_t)x;
    const uint32_t bytes = gm_dtype_bytes(job->dtype);
    uint64_t sum = 0;
    float narrow = 0;
    double wide = 0;
    for (int k = 0; k < 5; k++) {
        uint64_t v = 0, w = 0;
        float v32, w32;
        double v64, w64;
        get(job, y + way[k][0], x + way[k][1], &v);
        memcpy(&w, (const uint8_t *)job->in2 + (uint32_t)k * bytes, bytes);
        memcpy(&v32, &v, sizeof v32), memcpy(&w32, &w, sizeof w32);
        memcpy(&v64, &v, sizeof v64), memcpy(&w64, &w, sizeof w64);
        sum += w * v;
        if (job->dtype == GM_DTYPE_f32)
            narrow = k == 0 ? w32 * v32 : fmaf(w32, v32, narrow);
        if (job->dtype == GM_DTYPE_f64)
            wide = k == 0 ? w64 * v64 : fma(w64, v64, wide);
    }
    narrow = isnan(narrow) ? NAN : narrow;
    wide = isnan(wide) ? (double)NAN : wide;
    memcpy((uint8_t *)job->out + i * bytes,
           job->dtype == GM_DTYPE_f32   ? (const void *)&narrow
           : job->dtype == GM_DTYPE_f64 ? (const void *)&wide
                                        : (const void *)&sum,
           bytes);
}

void gm_oracle_stencil5(struct gm_oracle_job *job)
{
    const int64_t width = (int64_t)job->value[0];
    for (int64_t y = 0; y < (int64_t)job->n / width; y++)
        for (int64_t x = 0; x < width; x++)
            one(job, y, x);
}
