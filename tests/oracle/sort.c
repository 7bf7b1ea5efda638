/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for sort: the C library's qsort with the documented order spelled out; descending is turned round at the
 * end.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"

#define COMPARE(name, type)                                                                                            \
    static int compare_##name(const void *p, const void *q)                                                            \
    {                                                                                                                  \
        const type a = *(const type *)p, b = *(const type *)q;                                                         \
        return (a > b) - (a < b);                                                                                      \
    }
COMPARE(i32, int32_t)
COMPARE(u32, uint32_t)
COMPARE(i64, int64_t)
COMPARE(u64, uint64_t)

/* Numbers, then positive NaNs by rising bits, then negative NaNs by falling bits. */
#define COMPARE_FLOAT(name, type, bits_type)                                                                           \
    static int compare_##name(const void *p, const void *q)                                                            \
    {                                                                                                                  \
        const type a = *(const type *)p, b = *(const type *)q;                                                         \
        const int rank_a = !isnan(a) ? 0 : signbit(a) ? 2 : 1, rank_b = !isnan(b) ? 0 : signbit(b) ? 2 : 1;            \
        bits_type m, n;                                                                                                \
        memcpy(&m, p, sizeof m);                                                                                       \
        memcpy(&n, q, sizeof n);                                                                                       \
        if (rank_a != rank_b)                                                                                          \
            return rank_a - rank_b;                                                                                    \
        if (rank_a == 0 && a != b)                                                                                     \
            return a < b ? -1 : 1;                                                                                     \
        if (rank_a == 0)                                                                                               \
            return (signbit(b) != 0) - (signbit(a) != 0);                                                              \
        return rank_a == 1 ? (m > n) - (m < n) : (m < n) - (m > n);                                                    \
    }
COMPARE_FLOAT(f32, float, uint32_t)
COMPARE_FLOAT(f64, double, uint64_t)

void gm_oracle_sort(struct gm_oracle_job *job)
{
    const uint32_t bytes = gm_dtype_bytes(job->dtype);
    uint8_t *out = job->out;
    int (*compare)(const void *, const void *) = job->dtype == GM_DTYPE_i32   ? compare_i32
                                                 : job->dtype == GM_DTYPE_u32 ? compare_u32
                                                 : job->dtype == GM_DTYPE_i64 ? compare_i64
                                                 : job->dtype == GM_DTYPE_u64 ? compare_u64
                                                 : job->dtype == GM_DTYPE_f32 ? compare_f32
                                                                              : compare_f64;
    if (job->n == 0)
        return;
    memmove(out, job->in, job->n * bytes);
    qsort(out, job->n, bytes, compare);
    for (uint64_t i = 0; (job->flags & GM_FLAG_DESCENDING) && i < job->n / 2; i++) {
        uint8_t swap[8];
        memcpy(swap, out + i * bytes, bytes);
        memcpy(out + i * bytes, out + (job->n - 1 - i) * bytes, bytes);
        memcpy(out + (job->n - 1 - i) * bytes, swap, bytes);
    }
}
