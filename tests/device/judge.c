/* SPDX-License-Identifier: Apache-2.0
 *
 * See case.h: what the oracle says, and whether an answer is that, by the tolerance of the op's row.
 */
#include "case.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "wire.h"

void gm_case_ask(uint32_t op, struct gm_oracle_job *job)
{
    switch (op) {
#define OP(id, name, shape, types, result, work, tile_bytes, tolerance, help)                                          \
    case id:                                                                                                           \
        gm_oracle_##name(job);                                                                                         \
        break;
#include "ops.def"
#undef OP
    }
}

bool gm_case_wants_slack(const struct gm_case *c)
{
    const struct gm_op_row row = gm_op_row(c->op);
    return row.tolerance != GM_TOLERANCE_EXACT && row.outputs != 0;
}

void gm_case_describe(const struct gm_case *c, char *text, size_t size)
{
    snprintf(text, size,
             "%s %s %s n=%llu flags=%u counts=%u,%u values=%llx,%llx,%llx,%llx align=%u,%u end=%d same=%d pattern=%d "
             "seed=%llu",
             gm_op_name(c->op), gm_op_row(c->op).types ? gm_dtype_name(c->dtype) : "-", gm_dtype_name(c->type2),
             (unsigned long long)c->n, c->flags, c->bins, c->count2, (unsigned long long)c->value[0],
             (unsigned long long)c->value[1], (unsigned long long)c->value[2], (unsigned long long)c->value[3],
             c->align_in, c->align_out, c->at_end, c->same_buffer, (int)c->pattern, (unsigned long long)c->seed);
}

void gm_case_check_result(const struct gm_case *c, const struct gm_oracle_job *expected, int32_t status,
                          uint64_t result, const char *what)
{
    const struct gm_op_row row = gm_op_row(c->op);
    if (status != expected->status)
        fail_msg("%s: status %d, not %d", what, status, expected->status);
    if (status != GM_OK || row.result == GM_RESULT_NONE || result == expected->result)
        return;
    double is, should;
    memcpy(&is, &result, sizeof is);
    memcpy(&should, &expected->result, sizeof should);
    if (row.tolerance == GM_TOLERANCE_SUM && gm_dtype_kind(c->dtype) == 'f') {
        const bool nan = isnan(should) && result == UINT64_C(0x7ff8000000000000);
        if (nan || is == should || fabs(is - should) <= expected->tolerance || isinf(expected->tolerance))
            return;
        fail_msg("%s: result %.17g, not %.17g +- %g", what, is, should, expected->tolerance);
    }
    fail_msg("%s: result %016llx, not %016llx", what, (unsigned long long)result, (unsigned long long)expected->result);
}

void gm_case_check_bytes(const uint8_t *is, const uint8_t *should, uint64_t bytes, const char *what, const char *which)
{
    if (bytes == 0 || memcmp(is, should, bytes) == 0)
        return;
    uint64_t i = 0, last = bytes - 1u, count = 0;
    while (is[i] == should[i])
        i++;
    while (is[last] == should[last])
        last--;
    for (uint64_t at = i; at <= last; at++)
        count += is[at] != should[at];
    fail_msg("%s: %s differs in %llu of %llu bytes, from %llu to %llu; the first is %02x, not %02x", what, which,
             (unsigned long long)count, (unsigned long long)bytes, (unsigned long long)i, (unsigned long long)last,
             is[i], should[i]);
}

static double float_at(const uint8_t *data, uint64_t i, uint32_t dtype)
{
    float narrow;
    double wide;
    memcpy(&narrow, data + i * 4u, sizeof narrow);
    if (dtype == GM_DTYPE_f32)
        return (double)narrow;
    memcpy(&wide, data + i * 8u, sizeof wide);
    return wide;
}

/* Floats that may be off by as much as the oracle says. */
static void check_floats(const uint8_t *is, const uint8_t *should, uint64_t count, uint32_t dtype, const double *slack,
                         const char *what)
{
    for (uint64_t i = 0; i < count; i++) {
        const double a = float_at(is, i, dtype), b = float_at(should, i, dtype);
        if (a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= slack[i] || isinf(slack[i]))
            continue;
        fail_msg("%s: element %llu is %.17g, not %.17g +- %g", what, (unsigned long long)i, a, b, slack[i]);
    }
}

void gm_case_check_output(const struct gm_case *c, uint32_t i, const uint8_t *is, const uint8_t *should,
                          const double *slack, const char *what)
{
    const struct gm_op_row row = gm_op_row(c->op);
    const struct gm_args args = gm_case_args(c);
    if (gm_case_wants_slack(c) && gm_dtype_kind(c->dtype) == 'f' && gm_buffer_content(row.buffer[i]) == GM_CONTENT_T)
        check_floats(is, should, gm_buffer_count(&row, i, &args), c->dtype, slack, what);
    else
        gm_case_check_bytes(is, should, gm_buffer_bytes(&row, i, &args), what, "output");
}
