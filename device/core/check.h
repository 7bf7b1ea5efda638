/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides whether a descriptor may become a job, on the dispatcher's private copy only: op, type, sizes, and every
 * buffer inside an arena of this client, of this generation, writable where written. Driven by the op table. One
 * descriptor per SIMT lane; touches nothing shared.
 */
#ifndef GM_CORE_CHECK_H
#define GM_CORE_CHECK_H

#include "args.h"
#include "core.h"
#include "plan.h"
#include "poll.h"

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
        job->marks |= GM_MARK_HOST | (written ? GM_MARK_HOST_OUT : GM_MARK_HOST_IN);
    if (written)
        job->marks |= GM_MARK_OUT;
    return GM_OK;
}

/* Half a descriptor in registers: four reads instead of twelve. */
struct gm_words {
    uint32_t w[12];
};
GM_DEV struct gm_words gm_stage_words(const struct gm_granule *stage, uint32_t k)
{
    struct gm_words words;
    GM_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const struct gm_granule g = stage[k * 4u + i];
        words.w[i * 3u] = g.w[0], words.w[i * 3u + 1u] = g.w[1], words.w[i * 3u + 2u] = g.w[2];
    }
    return words;
}
GM_DEV struct gm_words gm_poll_words(const struct gm_disp *d, uint32_t k) { return gm_stage_words(d->stage, k); }

/* Words of buffers that the op does not have are zero, so that they can mean something one day. */
GM_DEV bool gm_check_unused(const struct gm_op_row *row, bool lane0, const struct gm_words *head,
                            const struct gm_words *wide)
{
    const uint32_t buffers = row->inputs + row->outputs;
    uint32_t used = lane0 ? 0 : head->w[GM_W_SESSION];
    if (buffers < 1u)
        used |= head->w[GM_W_ARENA0] | head->w[GM_W_OFFSET0] | head->w[GM_W_OFFSET0 + 1];
    if (buffers < 2u)
        used |= head->w[GM_W_ARENA1] | head->w[GM_W_OFFSET1] | head->w[GM_W_OFFSET1 + 1];
    if (buffers < 3u)
        used |= wide->w[GM_W_ARENA2 - 12u] | wide->w[GM_W_OFFSET2 - 12u] | wide->w[GM_W_OFFSET2 + 1u - 12u];
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

/* The arguments, as the descriptor has them. */
GM_DEV struct gm_args gm_check_args(const struct gm_words *head, const struct gm_words *wide)
{
    struct gm_args a;
    a.n = gm_desc_get64(head->w, GM_W_N);
    a.value[0] = gm_desc_get64(wide->w, GM_W_VALUE0 - 12u);
    a.value[1] = gm_desc_get64(wide->w, GM_W_VALUE1 - 12u);
    a.value[2] = gm_desc_get64(wide->w, GM_W_VALUE2 - 12u);
    a.value[3] = gm_desc_get64(wide->w, GM_W_VALUE3 - 12u);
    a.count = head->w[GM_W_COUNT];
    a.count2 = head->w[GM_W_MORE] & 0xffffffu;
    a.dtype = (uint8_t)(head->w[GM_W_OP] >> 16);
    a.type2 = (uint8_t)(head->w[GM_W_MORE] >> 24);
    a.flags = (uint8_t)(head->w[GM_W_OP] >> 24);
    return a;
}

/* Outputs overlap neither each other nor an input; but where the op says so, an output may be an input, whole. */
GM_DEV bool gm_check_apart(const struct gm_op_row *row, const struct gm_job *job, const uint64_t *bytes)
{
    bool apart = true;
    GM_UNROLL
    for (uint32_t j = 1; j < GM_BUFFERS_MAX; j++) {
        GM_UNROLL
        for (uint32_t i = 0; i < j; i++) {
            const uint64_t a = job->address[i], b = job->address[j];
            const bool looked = j >= row->inputs && j < (uint32_t)row->inputs + row->outputs && bytes[i] && bytes[j];
            const bool same = a == b && i < row->inputs && row->alias == GM_ALIAS_SAME;
            apart = apart && !(looked && !same && a < b + bytes[j] && b < a + bytes[i]);
        }
    }
    return apart;
}

/* Buffers, one after the other, by constants, so that the addresses stay in registers. */
GM_DEV int32_t gm_check_buffers(const struct gm_disp *d, const struct gm_op_row *row, bool lane0, uint32_t session,
                                const struct gm_words *head, const struct gm_words *wide, const struct gm_args *args,
                                struct gm_job *job)
{
    const uint32_t buffers = row->inputs + row->outputs;
    uint64_t bytes[GM_BUFFERS_MAX] = {0};
    int32_t status = GM_OK;
    GM_UNROLL
    for (uint32_t i = 0; i < GM_BUFFERS_MAX; i++) {
        if (i >= buffers || status != GM_OK)
            continue;
        const uint32_t handle =
            i == 0 ? head->w[GM_W_ARENA0] : i == 1 ? head->w[GM_W_ARENA1] : wide->w[GM_W_ARENA2 - 12u];
        const uint64_t offset = i == 0   ? gm_desc_get64(head->w, GM_W_OFFSET0)
                                : i == 1 ? gm_desc_get64(head->w, GM_W_OFFSET1)
                                         : gm_desc_get64(wide->w, GM_W_OFFSET2 - 12u);
        bytes[i] = gm_buffer_bytes(row, i, args);
        status = gm_check_buffer(d, lane0, session, handle, offset, bytes[i], gm_buffer_element(row, i, args),
                                 i >= row->inputs, job, i);
    }
    if (status == GM_OK && row->outputs != 0 && !gm_check_apart(row, job, bytes))
        return GM_EALIAS;
    return status;
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
    const struct gm_args args = gm_check_args(&head, &wide);
    job->n = args.n;
    job->bins = args.count2 != 0 ? args.count * args.count2 : args.count; /* all of them; the op divides */
    job->type2 = args.type2;
    job->marks = args.count2 != 0 || (args.value[2] | args.value[3]) != 0 ? GM_MARK_MORE : 0;
    job->start_ns = 0; /* is for who starts it */
    job->value[0] = args.value[0];
    job->value[1] = args.value[1];
    GM_UNROLL
    for (uint32_t i = 0; i < GM_BUFFERS_MAX; i++)
        job->address[i] = 0;
    if (op >= GM_OP_COUNT || !row.known)
        return GM_EOP;
    if (row.shape == GM_SHAPE_NONE) { /* nothing to look up, so this is all; the shortest way of the shortest job */
        *plan = gm_plan_job(job, &row, core->workers, core->host_shares, core->workspace_bytes, false);
        job->workspace_bytes = plan->workspace;
        return !has_wide && gm_check_nothing(lane0, &head) ? GM_OK : GM_EINVAL;
    }
    if ((row.wide != 0) != has_wide || !gm_check_unused(&row, lane0, &head, &wide))
        return GM_EINVAL;
    const enum gm_complaint complaint = gm_args_check(&row, &args);
    if (complaint != GM_COMPLAINT_NONE)
        return gm_complaint_status(complaint);
    const int32_t status = gm_check_buffers(d, &row, lane0, session, &head, &wide, &args, job);
    if (status != GM_OK)
        return status;
    *plan = gm_plan_job(job, &row, core->workers, core->host_shares, core->workspace_bytes,
                        core->looks_back != 0);
    job->workspace_bytes = plan->workspace;
    if (plan->workspace > GM_ENTRY_SCRATCH && plan->workspace > core->workspace_bytes)
        return GM_EWORKSPACE;
    return GM_OK;
}

#endif
