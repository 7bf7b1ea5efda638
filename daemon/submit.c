/* SPDX-License-Identifier: Apache-2.0
 *
 * From a decoded submit to an accepted job: arenas of this session, device, limits, staging, descriptor. Loop thread
 * only. What the decoder could not know is checked here, so that errors name their field; the device checks everything
 * again and relies on neither.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "daemon.h"
#include "enqueue.h"
#include "request.h"

#define GM_STAGED_UNIT_LOG2 12u /* bytes that are copied or cleared in a unit of a user's turn */

/* A submit on its way through the checks. */
struct gm_plan {
    struct gm_session *session;
    const struct gm_wire_submit *submit;
    struct gm_op_row row;
    struct gm_problem *problem;
    struct gm_arena *arena[GM_BUFFERS_MAX];
    uint64_t bytes[GM_BUFFERS_MAX]; /* that the job touches in each buffer */
    uint64_t total;
};

static int gm_plan_limits(struct gm_plan *p)
{
    struct gm_daemon *d = p->session->daemon;
    if (d->draining) {
        d->counters.rejected_draining++;
        return gm_problem_set(p->problem, GM_EDRAINING, "", "%s", gm_error_text(GM_EDRAINING));
    }
    struct gm_user *user = p->session->user;
    int status = GM_OK;
    if (p->session->inflight >= GM_INFLIGHT_PER_SESSION_MAX)
        status = gm_problem_set(p->problem, GM_EBUSY, "", "busy: %u jobs of this connection are in flight",
                                p->session->inflight);
    else if (user->inflight >= d->config.user_jobs)
        status = gm_problem_set(p->problem, GM_EBUSY, "", "busy: the user has %u of %u jobs in flight (--user-jobs)",
                                user->inflight, d->config.user_jobs);
    else if (d->jobs.count >= GM_INFLIGHT_MAX)
        status =
            gm_problem_set(p->problem, GM_EBUSY, "", "busy: all %u jobs of the daemon are in flight, %u of the user",
                           GM_INFLIGHT_MAX, user->inflight);
    d->counters.rejected_busy += status != GM_OK;
    user->counted.refused += user->inflight >= d->config.user_jobs;
    return status;
}

/* Op, types, sizes and inline data were checked by the decoder; what is left is where the buffers lie. */
static void gm_plan_sizes(struct gm_plan *p)
{
    const struct gm_wire_submit *s = p->submit;
    for (uint32_t i = 0; i < s->buffers; i++) {
        p->bytes[i] = gm_buffer_bytes(&p->row, i, &s->args);
        p->total += p->bytes[i];
    }
}

static int gm_plan_problem(const struct gm_plan *p, uint32_t buffer, const char *member, int code, const char *text)
{
    char field[GM_FIELD_BYTES_MAX];
    gm_buffer_name(&p->row, buffer, member, field);
    return gm_problem_set(p->problem, code, field, "%s", text != NULL ? text : gm_error_text(code));
}

/* Outputs overlap neither each other nor an input; but where the op says so, an output may be an input, whole. */
static int gm_plan_alias(const struct gm_plan *p, uint32_t other, uint32_t out)
{
    const uint64_t a = p->submit->buffer[other].offset, b = p->submit->buffer[out].offset;
    if (p->arena[other] == NULL || p->arena[out] == NULL || p->bytes[other] == 0 || p->bytes[out] == 0 ||
        gm_arena_memory(p->arena[other]) != gm_arena_memory(p->arena[out]))
        return GM_OK;
    if (a + p->bytes[other] <= b || b + p->bytes[out] <= a ||
        (a == b && other < p->row.inputs && p->row.alias == GM_ALIAS_SAME))
        return GM_OK;
    char text[GM_ERROR_TEXT_MAX], first[GM_FIELD_BYTES_MAX], second[GM_FIELD_BYTES_MAX];
    gm_buffer_name(&p->row, out, "", first);
    gm_buffer_name(&p->row, other, "", second);
    snprintf(text, sizeof text, "%s overlaps %s", first, second);
    return gm_plan_problem(p, out, "offset", GM_EALIAS, text);
}

static int gm_plan_arenas(struct gm_plan *p)
{
    const struct gm_wire_submit *s = p->submit;
    int status = GM_OK;
    for (uint32_t i = 0; i < s->buffers && status == GM_OK; i++) {
        if (s->buffer[i].place != GM_PLACE_ARENA)
            continue;
        char text[GM_ERROR_TEXT_MAX];
        status = gm_arena_find(p->session, s->buffer[i].arena, &p->arena[i]);
        if (status == GM_OK && i >= p->row.inputs && p->arena[i]->read_only)
            status = GM_EREADONLY;
        if (status == GM_OK && p->arena[i]->gone)
            return gm_plan_problem(p, i, "arena", GM_EDEVICELOST, "the arena went with its device");
        if (status != GM_OK)
            return gm_plan_problem(p, i, "arena", status, NULL);
        const uint64_t size = p->arena[i]->bytes, offset = s->buffer[i].offset;
        if (offset <= size && p->bytes[i] <= size - offset)
            continue;
        snprintf(text, sizeof text, "%" PRIu64 " bytes at %" PRIu64 " in an arena of %" PRIu64, p->bytes[i], offset,
                 size);
        status = gm_plan_problem(p, i, "offset", GM_EBOUNDS, text);
    }
    for (uint32_t out = p->row.inputs; out < s->buffers && status == GM_OK; out++)
        for (uint32_t other = 0; other < out && status == GM_OK; other++)
            status = gm_plan_alias(p, other, out);
    return status;
}

/* Fewer jobs, but a device that is being replaced only when no other one will do. */
static bool gm_plan_better(const struct gm_device *v, const struct gm_device *than)
{
    if (than == NULL || gm_device_live(v) != gm_device_live(than))
        return than == NULL || gm_device_live(v);
    return v->depth < than->depth;
}

/* The device that the message names; else one where its arenas are, the one with the fewest jobs. */
static int gm_plan_device(struct gm_plan *p, struct gm_device **chosen)
{
    struct gm_devices *devices = &p->session->daemon->devices;
    uint32_t mask = UINT32_MAX, apart = GM_BUFFERS_MAX;
    for (uint32_t i = 0; i < p->submit->buffers; i++) {
        const uint32_t here = p->arena[i] != NULL ? p->arena[i]->devices : UINT32_MAX;
        apart = here != 0 && mask != 0 && (mask & here) == 0 ? i : apart;
        mask &= here;
    }
    if (p->submit->has_device && p->submit->device >= devices->count)
        return gm_problem_set(p->problem, GM_ENODEVICE, "device", "there are %u devices", devices->count);
    for (uint32_t i = 0; i < devices->count; i++) {
        struct gm_device *v = &devices->device[i];
        const bool wanted = !p->submit->has_device || p->submit->device == i;
        if (wanted && gm_device_serves(v) && (mask >> i & 1u) != 0 && gm_plan_better(v, *chosen))
            *chosen = v;
    }
    if (*chosen != NULL)
        return GM_OK;
    if (p->submit->has_device && gm_device_serves(&devices->device[p->submit->device]))
        return gm_problem_set(p->problem, GM_ENODEVICE, "device", "an arena of the job is not on this device");
    for (uint32_t i = 0; i < p->submit->buffers; i++)
        if (p->arena[i] != NULL && p->arena[i]->devices == 0)
            return gm_plan_problem(p, i, "arena", GM_EDEVICELOST, "the arena went with its device");
    if (apart < GM_BUFFERS_MAX)
        return gm_plan_problem(p, apart, "arena", GM_ENODEVICE, "the arenas of the job are on different devices");
    return gm_problem_set(p->problem, GM_EDEVICELOST, "device", "the device is out of service");
}

/* An inline output begins as zeros: the arena held the data of other clients, and a job need not write all of it. */
static void gm_plan_stage_output(const struct gm_plan *p, struct gm_job *job, uint32_t i, uint32_t place)
{
    struct gm_job_out *out = &job->out[i - p->row.inputs];
    const bool counted = gm_buffer_extent(p->row.buffer[i]) == GM_EXTENT_RESULT;
    *out = (struct gm_job_out){.is_inline = true, .offset = place, .bytes = (uint32_t)p->bytes[i]};
    out->element = counted ? gm_buffer_element(&p->row, i, &p->submit->args) : 0;
    job->outputs = p->row.outputs;
    memset(job->device->staging_bytes + place, 0, out->bytes);
}

static bool gm_plan_may_stage(const struct gm_plan *p, uint64_t charge)
{
    struct gm_user *user = p->session->user;
    const bool may =
        p->session->staged + charge <= GM_STAGING_PER_SESSION && user->staged + charge <= GM_STAGING_PER_USER;
    user->counted.refused += !may;
    return may;
}

/* Inline data goes into one block: inputs, then outputs, each at a multiple of 64. */
static int gm_plan_stage(struct gm_plan *p, struct gm_job *job)
{
    const struct gm_wire_submit *s = p->submit;
    struct gm_device *v = job->device;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < s->buffers; i++)
        if (s->buffer[i].place == GM_PLACE_INLINE)
            bytes += (p->bytes[i] + 63u) & ~UINT64_C(63);
    if (bytes != 0) {
        const uint64_t charge = gm_staging_charge(bytes);
        if (gm_plan_may_stage(p, charge))
            job->staging = gm_staging_alloc(&v->staging, bytes);
        if (job->staging == GM_STAGING_NONE) {
            p->session->daemon->counters.rejected_busy++;
            return gm_problem_set(p->problem, GM_EBUSY, "",
                                  "busy: too much data of messages is in flight, %" PRIu64 " bytes of the user",
                                  p->session->user->staged);
        }
        job->staged = charge;
        p->session->user->spent += (uint32_t)(bytes >> GM_STAGED_UNIT_LOG2);
        p->session->staged += charge, p->session->user->staged += charge;
        v->staging_touched = true;
    }
    uint32_t at = job->staging;
    for (uint32_t i = 0; i < s->buffers; i++) {
        if (s->buffer[i].place != GM_PLACE_INLINE)
            continue;
        const uint32_t place = bytes != 0 ? at : 0;
        if (i < p->row.inputs && p->bytes[i] != 0)
            memcpy(v->staging_bytes + place, s->buffer[i].bytes, p->bytes[i]);
        if (i >= p->row.inputs)
            gm_plan_stage_output(p, job, i, place);
        job->words[gm_buffer_word(i)] = gm_handle(0, 1);
        gm_desc_put64(job->words, gm_buffer_word(i) + 1u, place);
        at += (uint32_t)((p->bytes[i] + 63u) & ~UINT64_C(63));
    }
    return GM_OK;
}

static void gm_plan_describe(const struct gm_plan *p, struct gm_job *job)
{
    const struct gm_wire_submit *s = p->submit;
    uint32_t *w = job->words;
    w[GM_W_OP] = s->op;
    w[GM_W_SESSION] = p->session->id;
    gm_args_put(w, &p->row, &s->args);
    for (uint32_t i = 0; i < s->buffers; i++)
        if (p->arena[i] != NULL) {
            w[gm_buffer_word(i)] = s->buffer[i].arena;
            gm_desc_put64(w, gm_buffer_word(i) + 1u, s->buffer[i].offset);
        }
}

static int gm_plan_accept(struct gm_plan *p, struct gm_device *v, uint32_t id)
{
    struct gm_daemon *d = p->session->daemon;
    struct gm_job *job = gm_job_new(d, false);
    if (job == NULL)
        return gm_problem_set(p->problem, GM_EBUSY, "", "%s", gm_error_text(GM_EBUSY));
    job->session = p->session, job->device = v;
    job->id = id, job->op = p->submit->op, job->wide = p->row.wide != 0;
    job->result_dtype = p->row.result == GM_RESULT_NONE ? (uint32_t)GM_DTYPE_COUNT
                                                        : gm_result_dtype(p->row.result, p->submit->args.dtype);
    job->cost = gm_enqueue_cost(p->total);
    job->accepted_ns = gm_turn_start(d);
    const int status = gm_plan_stage(p, job);
    if (status != GM_OK) {
        gm_job_discard(d, job);
        return status;
    }
    gm_plan_describe(p, job);
    for (uint32_t i = 0; i < p->submit->buffers; i++)
        if (p->arena[i] != NULL) {
            job->arena[i] = p->arena[i];
            gm_arena_pin(p->arena[i]);
        }
    gm_job_accept(d, job);
    return GM_OK;
}

uint64_t gm_submit_reply_bytes(const struct gm_wire_submit *submit)
{
    const struct gm_op_row row = gm_op_row(submit->op);
    uint64_t bytes = GM_REPLY_SMALL;
    for (uint32_t i = row.inputs; i < submit->buffers; i++)
        if (submit->buffer[i].place == GM_PLACE_INLINE)
            bytes += gm_buffer_bytes(&row, i, &submit->args);
    return bytes;
}

void gm_submit(struct gm_session *session, const struct gm_wire_request *request)
{
    struct gm_problem problem;
    struct gm_device *v = NULL;
    struct gm_plan plan = {.session = session, .submit = &request->u.submit, .problem = &problem};
    plan.row = gm_op_row(request->u.submit.op);
    gm_plan_sizes(&plan);
    int status = gm_plan_arenas(&plan);
    if (status != GM_OK)
        session->daemon->counters.rejected_bad++;
    if (status == GM_OK)
        status = gm_plan_device(&plan, &v);
    if (status == GM_OK)
        status = gm_plan_limits(&plan);
    if (status == GM_OK)
        status = gm_plan_accept(&plan, v, request->id);
    if (status == GM_OK)
        return;
    if (v != NULL)
        v->submitted++, v->rejected++;
    gm_request_rejected(session);
    gm_request_error(session, request->id, &problem);
}
