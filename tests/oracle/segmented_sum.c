/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference for segmented_sum: each segment's elements, front to back, integers in 128 bits, floats in long double. The
 * tolerance of floats is count * 2^-53 * sum|x|, and both may be rounded to the type the other way; where the finite
 * |x| alone leave the type, the order decides, and anything is right.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "oracle.h"

static void segment_floats(struct gm_oracle_job *job, uint64_t s, uint64_t from, uint64_t to)
{
    const bool narrow = job->dtype == GM_DTYPE_f32;
    long double sum = 0, magnitude = 0;
    for (uint64_t i = from; i < to; i++) {
        const long double x = gm_oracle_number(job, i);
        sum += x;
        magnitude += isfinite(x) ? fabsl(x) : 0;
    }
    const double result = isnan(sum) ? (double)NAN : (double)sum;
    if (narrow)
        ((float *)job->out)[s] = isnan(sum) ? NAN : (float)result;
    else
        ((double *)job->out)[s] = result;
    if (job->slack == NULL)
        return;
    if (!narrow && magnitude > 0x1.fp1023L) /* also beside an infinity: on the way there may be one of the other sign */
        job->slack[s] = INFINITY;
    if (!isfinite(sum) || isinf(job->slack[s]))
        return;
    job->slack[s] = (double)((long double)(to - from) * 0x1p-53L * magnitude);
    if (narrow && job->slack[s] != 0)
        job->slack[s] += fabs(result) * 0x1p-23 + 0x1p-149;
    if (narrow && magnitude > (long double)FLT_MAX)
        job->slack[s] = INFINITY;
}

static void segment_integers(struct gm_oracle_job *job, uint64_t s, uint64_t from, uint64_t to)
{
    const uint32_t bytes = gm_dtype_bytes(job->dtype), bits = bytes * 8u;
    const bool is_signed = gm_dtype_kind(job->dtype) == 'i';
    const __int128 least = is_signed ? -((__int128)1 << (bits - 1u)) : 0;
    __int128 sum = 0;
    for (uint64_t i = from; i < to; i++)
        sum += gm_oracle_integer(job, i);
    if (sum < least || sum - least >= (__int128)1 << bits)
        job->status = GM_EOVERFLOW;
    memcpy((uint8_t *)job->out + s * bytes, &sum, bytes);
}

void gm_oracle_segmented_sum(struct gm_oracle_job *job)
{
    const bool floats = gm_dtype_kind(job->dtype) == 'f';
    job->status = gm_oracle_offsets(job);
    for (uint64_t s = 0; s < job->value[0] && job->status == GM_OK; s++)
        (floats ? segment_floats : segment_integers)(job, s, gm_oracle_offset(job, s), gm_oracle_offset(job, s + 1u));
}
