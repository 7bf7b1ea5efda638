/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides whether a descriptor may become a job, on the dispatcher's private copy only: op, type, sizes, and every
 * buffer inside an arena of this client, of this generation, writable where written. Driven by the op table. One
 * descriptor per SIMT lane; touches nothing shared.
 */
#ifndef GM_CORE_CHECK_H
#define GM_CORE_CHECK_H

#include "core.h"
#include "plan.h"
#include "poll.h"

GM_HD double gm_f64_from_bits(uint64_t bits)
{
    union {
        uint64_t u;
        double f;
    } x;
    x.u = bits;
    return x.f;
}

/* One buffer: where it is, or why not. */
GM_DEV int32_t gm_check_buffer(const struct gm_disp *d, bool lane0, uint32_t session, uint32_t handle, uint64_t offset,
                               uint64_t bytes, uint32_t element, bool written, struct gm_job *job, uint32_t at)
{
    const uint32_t index = gm_handle_index(handle);
    if (index >= GM_ARENAS_MAX)
        return GM_EARENA;
    const struct gm_arena_row *row = &d->arena[index];
    const bool staging = (row->flags & GM_ARENA_STAGING) != 0;
    if (row->generation == 0 || (row->flags & GM_ARENA_CLEARING) || (staging ? !lane0 : row->session != session))
        return GM_EARENA;
    if (row->generation != gm_handle_generation(handle))
        return GM_ESTALE;
    if (row->flags & GM_ARENA_GONE)
        return GM_EDEVICELOST;
    if (written && (row->flags & GM_ARENA_READONLY))
        return GM_EREADONLY;
    if (offset % element != 0)
        return GM_EALIGN;
    if (offset > row->bytes || bytes > row->bytes - offset)
        return GM_EBOUNDS;
    job->address[at] = row->address + offset;
    if (row->flags & GM_ARENA_HOST)
        job->marks |= written ? GM_MARK_HOST | GM_MARK_HOST_OUT : GM_MARK_HOST;
    if (written)
        job->marks |= GM_MARK_OUT;
    return GM_OK;
}

/* Half a descriptor in registers: four reads instead of twelve. */
struct gm_words {
    uint32_t w[12];
};
GM_DEV struct gm_words gm_poll_words(const struct gm_disp *d, uint32_t k)
{
    struct gm_words words;
    GM_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const struct gm_granule g = d->stage[k * 4u + i];
        words.w[i * 3u] = g.w[0], words.w[i * 3u + 1u] = g.w[1], words.w[i * 3u + 2u] = g.w[2];
    }
    return words;
}

/* Words that mean nothing for this op are zero, so that they can mean something one day. */
GM_DEV bool gm_check_unused(const struct gm_op_row *row, bool lane0, const struct gm_words *head,
                            const struct gm_words *wide)
{
    const uint32_t buffers = row->inputs + row->outputs;
    uint32_t used = head->w[GM_W_ZERO] | (lane0 ? 0 : head->w[GM_W_SESSION]);
    if (buffers < 1u)
        used |= head->w[GM_W_ARENA0] | head->w[GM_W_OFFSET0] | head->w[GM_W_OFFSET0 + 1];
    if (buffers < 2u)
        used |= head->w[GM_W_ARENA1] | head->w[GM_W_OFFSET1] | head->w[GM_W_OFFSET1 + 1];
    if (buffers < 3u)
        used |= wide->w[GM_W_ARENA2 - 12u] | wide->w[GM_W_OFFSET2 - 12u] | wide->w[GM_W_OFFSET2 + 1u - 12u];
    if (row->shape != GM_SHAPE_HISTOGRAM)
        used |= wide->w[GM_W_VALUE1 - 12u] | wide->w[GM_W_VALUE1 + 1u - 12u];
    for (uint32_t i = GM_W_SPARE; i < GM_DESC_WORDS; i++)
        used |= wide->w[i - 12u];
    return used == 0;
}

/* Of an op that takes nothing: everything but its number, and on lane 0 the session, is zero. */
GM_DEV bool gm_check_nothing(bool lane0, const struct gm_words *head)
{
    uint32_t used = head->w[GM_W_OP] >> 16 | (lane0 ? 0 : head->w[GM_W_SESSION]);
    for (uint32_t i = 0; i < 12u; i++)
        used |= i == GM_W_OP || i == GM_W_SESSION ? 0 : head->w[i];
    return used == 0;
}

/* Sizes and scalar arguments. */
GM_DEV int32_t gm_check_arguments(const struct gm_op_row *row, const struct gm_job *job)
{
    if (job->dtype >= 32u || !(row->types >> job->dtype & 1u))
        return GM_EDTYPE;
    if (job->n > GM_ELEMENTS_MAX)
        return GM_ESIZE;
    if (job->bins != 0 && row->shape != GM_SHAPE_HISTOGRAM)
        return GM_EINVAL;
    if ((job->flags & GM_FLAG_DESCENDING) && row->work != GM_WORK_SORT)
        return GM_EINVAL;
    if (row->work == GM_WORK_REDUCE && row->result == GM_RESULT_SAME && job->n == 0)
        return GM_EEMPTY;
    if (row->shape == GM_SHAPE_HISTOGRAM) {
        const double lo = gm_f64_from_bits(job->value[0]), hi = gm_f64_from_bits(job->value[1]);
        if (job->bins == 0 || job->bins > GM_HIST_BINS_MAX)
            return GM_ESIZE;
        if (!(lo < hi) || !(hi - lo <= 1.7976931348623157e308)) /* also refuses NaN and infinities */
            return GM_EINVAL;
    }
    return GM_OK;
}

/* Input and output may be the same buffer or apart, nothing between. */
GM_DEV bool gm_check_overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
    return a_bytes != 0 && b_bytes != 0 && a != b && a < b + b_bytes && b < a + a_bytes;
}

/* A descriptor into a job without its resources. wide: the words of its second half, or zeros when it has none or it is
 * not there. */
GM_DEV int32_t gm_check(const struct gm_core *core, const struct gm_disp *d, uint32_t lane_index, uint64_t position,
                        struct gm_words head, bool has_wide, struct gm_words wide, struct gm_job *job,
                        struct gm_plan *plan)
{
    const struct gm_lane_row *lane = &d->lane[lane_index];
    const uint32_t word0 = head.w[GM_W_OP];
    const bool lane0 = lane_index == 0;
    const uint32_t session = lane0 ? head.w[GM_W_SESSION] : lane->session;
    const uint32_t op = word0 & 0xffffu;
    const struct gm_op_row row = d->op_row[op < GM_OP_COUNT ? op : 0];
    job->op = (uint16_t)op;
    job->dtype = (uint8_t)(word0 >> 16);
    job->flags = (uint8_t)(word0 >> 24);
    job->lane = (uint16_t)lane_index;
    job->slots_log2 = (uint8_t)lane->slots_log2;
    job->pad = 0;
    job->position = position;
    job->completion = (uint64_t)(uintptr_t)&lane->cq[job->position & ((UINT64_C(1) << lane->slots_log2) - 1u)];
    job->n = gm_desc_get64(head.w, GM_W_N);
    job->bins = head.w[GM_W_COUNT];
    job->marks = 0;
    job->start_ns = d->now_ns;
    job->value[0] = gm_desc_get64(wide.w, GM_W_VALUE0 - 12u);
    job->value[1] = gm_desc_get64(wide.w, GM_W_VALUE1 - 12u);
    GM_UNROLL
    for (uint32_t i = 0; i < GM_BUFFERS_MAX; i++)
        job->address[i] = 0;
    if (op >= GM_OP_COUNT || !row.known)
        return GM_EOP;
    if (row.shape == GM_SHAPE_NONE) { /* nothing to look up, so this is all; the shortest way of the shortest job */
        *plan = gm_plan_job(job, &row, core->workers, core->host_shares);
        job->workspace_bytes = plan->workspace;
        return !has_wide && gm_check_nothing(lane0, &head) ? GM_OK : GM_EINVAL;
    }
    if ((job->flags & ~GM_FLAGS_KNOWN) || (row.wide != 0) != has_wide ||
        !gm_check_unused(&row, lane0, &head, &wide))
        return GM_EINVAL;
    int32_t status = gm_check_arguments(&row, job);
    if (status != GM_OK)
        return status;
    const uint32_t buffers = row.inputs + row.outputs, element = gm_dtype_bytes(job->dtype);
    const uint64_t in_bytes = job->n * element, out_bytes = gm_output_bytes(row.shape, job->n, job->bins, job->dtype);
    GM_UNROLL /* by constants, so that the addresses stay in registers */
    for (uint32_t i = 0; i < GM_BUFFERS_MAX; i++) {
        if (i >= buffers || status != GM_OK)
            continue;
        const uint32_t handle = i == 0 ? head.w[GM_W_ARENA0] : i == 1 ? head.w[GM_W_ARENA1] : wide.w[GM_W_ARENA2 - 12u];
        const uint64_t offset = i == 0   ? gm_desc_get64(head.w, GM_W_OFFSET0)
                                : i == 1 ? gm_desc_get64(head.w, GM_W_OFFSET1)
                                         : gm_desc_get64(wide.w, GM_W_OFFSET2 - 12u);
        const bool written = i >= row.inputs;
        status = gm_check_buffer(d, lane0, session, handle, offset,
                                 written ? out_bytes : in_bytes,
                                 written && row.shape == GM_SHAPE_HISTOGRAM ? 8u : element, written, job, i);
    }
    if (status != GM_OK)
        return status;
    if (row.inputs && row.outputs) {
        if (gm_check_overlap(job->address[0], in_bytes, job->address[1], out_bytes) ||
            (row.shape == GM_SHAPE_HISTOGRAM && job->address[0] == job->address[1] && in_bytes && out_bytes))
            return GM_EALIAS;
    }
    *plan = gm_plan_job(job, &row, core->workers, core->host_shares);
    job->workspace_bytes = plan->workspace;
    if (plan->workspace > GM_ENTRY_SCRATCH && plan->workspace > core->workspace_bytes)
        return GM_EWORKSPACE;
    return GM_OK;
}

#endif
