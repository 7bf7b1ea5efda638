/* SPDX-License-Identifier: Apache-2.0
 *
 * What the references for scans share: which elements begin a segment, and running answers one element after the
 * other. Nothing shared with device/.
 */
#ifndef GM_TESTS_ORACLE_PREFIX_H
#define GM_TESTS_ORACLE_PREFIX_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "best.h"

/* begins[i]: element i begins a segment; all of it for a plain scan is one. n + 1 of them: the end begins one too. NULL
 * where an offset is bad, which is in job->status then. The caller frees it. */
static inline uint8_t *oracle_begins(struct gm_oracle_job *job, bool segmented)
{
    uint8_t *begins = calloc(job->n + 1, 1);
    if (!begins)
        abort();
    begins[0] = begins[job->n] = 1;
    for (__int128 j = 0, before = 0; segmented && j < (__int128)job->value[0] + 1; j++) {
        const __int128 offset = job->type2 == GM_DTYPE_i32   ? (__int128)((const int32_t *)job->in2)[j]
                                : job->type2 == GM_DTYPE_u32 ? (__int128)((const uint32_t *)job->in2)[j]
                                : job->type2 == GM_DTYPE_i64 ? (__int128)((const int64_t *)job->in2)[j]
                                                             : (__int128)((const uint64_t *)job->in2)[j];
        if (offset < before || offset > (__int128)job->n) {
            job->status = GM_EBOUNDS;
            free(begins);
            return NULL;
        }
        begins[offset] = 1;
        before = offset;
    }
    return begins;
}

static inline void oracle_prefix_integers(struct gm_oracle_job *job, const uint8_t *begins)
{
    const uint32_t bits = gm_dtype_bytes(job->dtype) * 8;
    const bool is_signed = gm_dtype_kind(job->dtype) == 'i';
    const __int128 least = is_signed ? -((__int128)1 << (bits - 1)) : 0;
    const __int128 most = ((__int128)1 << (is_signed ? bits - 1 : bits)) - 1;
    __int128 sum = 0;
    for (uint64_t i = 0; i < job->n; i++) {
        if (begins[i])
            sum = 0;
        const __int128 upto = sum + gm_oracle_integer(job, i), answer = job->flags & GM_FLAG_EXCLUSIVE ? sum : upto;
        if (answer < least || answer > most)
            job->status = GM_EOVERFLOW;
        memcpy((uint8_t *)job->out + i * bits / 8, &answer, bits / 8);
        sum = upto;
    }
}

static inline double oracle_rounded(const struct gm_oracle_job *job, long double v)
{
    return job->dtype == GM_DTYPE_f32 ? (double)(float)v : (double)v;
}

/* The sum may be off by as many roundings of f64 as it has elements, and is rounded to its type behind that: so the
 * answer lies between what both ends of that range are rounded to. Where the finite |x| alone leave f64 the order
 * decides, and anything is right. */
static inline double oracle_slack(const struct gm_oracle_job *job, long double sum, long double magnitude, uint64_t n)
{
    const long double off = (long double)n * 0x1p-53L * magnitude;
    if (magnitude > 0x1.fp1023L)
        return INFINITY;
    if (!isfinite(sum))
        return 0;
    const double is = oracle_rounded(job, sum), low = is - oracle_rounded(job, sum - off),
                 high = oracle_rounded(job, sum + off) - is;
    return low > high ? low : high;
}

static inline void oracle_prefix_floats(struct gm_oracle_job *job, const uint8_t *begins)
{
    long double sum = 0, magnitude = 0;
    uint64_t from = 0;
    for (uint64_t i = 0; i < job->n; i++) {
        const bool exclusive = job->flags & GM_FLAG_EXCLUSIVE;
        const long double x = gm_oracle_number(job, i);
        if (begins[i])
            sum = magnitude = 0, from = i;
        for (int after = 0; after < 2; after++) {
            if (after) {
                sum += x;
                magnitude += isfinite(x) ? fabsl(x) : 0;
            }
            if (exclusive == (after != 0))
                continue;
            const float narrow = isnan(sum) ? NAN : (float)sum;
            const double wide = isnan(sum) ? (double)NAN : (double)sum;
            if (job->dtype == GM_DTYPE_f32)
                ((float *)job->out)[i] = narrow;
            else
                ((double *)job->out)[i] = wide;
            if (job->slack)
                job->slack[i] = oracle_slack(job, sum, magnitude, i - from + 1);
        }
    }
}

static inline void oracle_prefix_sum(struct gm_oracle_job *job, bool segmented)
{
    uint8_t *begins = oracle_begins(job, segmented);
    if (begins && gm_dtype_kind(job->dtype) == 'f')
        oracle_prefix_floats(job, begins);
    else if (begins)
        oracle_prefix_integers(job, begins);
    free(begins);
}

static inline void oracle_prefix_best(struct gm_oracle_job *job, bool largest, bool segmented)
{
    const uint32_t bytes = gm_dtype_bytes(job->dtype);
    uint8_t *begins = oracle_begins(job, segmented);
    for (uint64_t i = 0, best = UINT64_MAX; begins && i < job->n; i++) {
        uint8_t *to = (uint8_t *)job->out + i * bytes;
        if (begins[i])
            best = UINT64_MAX;
        const uint64_t upto = best == UINT64_MAX || oracle_beats(job, i, best, largest) ? i : best;
        const uint64_t answer = job->flags & GM_FLAG_EXCLUSIVE ? best : upto;
        if (answer == UINT64_MAX)
            oracle_nothing(job, largest, to);
        else
            oracle_element(job, answer, to);
        best = upto;
    }
    free(begins);
}

#endif
