/* SPDX-License-Identifier: Apache-2.0
 *
 * What follows the loss of a device process: it is killed and reaped, then its memory is quiet; jobs that it had
 * started fail, the others are queued again; a new process gets arenas and lanes back. Loop thread. Restarts wait
 * longer and longer, and a device that is lost GM_RESTARTS_MAX times within GM_RESTART_WINDOW_MS is out of service.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon.h"
#include "enqueue.h"
#include "reap.h"
#include "recover.h"

void gm_device_lost(struct gm_device *v, const char *format, ...)
{
    char reason[GM_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    if (v->state == GM_DEVICE_STARTING) {
        gm_device_failed(v, "%s", reason);
        return;
    }
    if (!gm_device_live(v) && v->state != GM_DEVICE_RISING && v->state != GM_DEVICE_STOPPING)
        return;
    memcpy(v->reason, reason, sizeof v->reason);
    gm_log(GM_LOG_ERROR, "device_lost",
           "device=%" PRIu32 " pid=%ld socket_jobs=%" PRIu32 " socket_queued=%" PRIu32 " lanes=%" PRIu32
           " reason=\"%s\"",
           v->index, (long)v->pid, v->flight_count, v->queued, v->clients, v->reason);
    if (!v->exited)
        uv_process_kill(&v->process, SIGKILL);
    if (v->state == GM_DEVICE_STOPPING)
        return;
    v->state = GM_DEVICE_FALLING;
    v->queue_count = 0;
    gm_store_release_sys_u32(&v->lane->state, GM_LANE_RECOVERING);
    gm_lanes_fall(v);
    gm_launch_close(v);
}

/* ---- jobs of the process that is gone ---- */

static void gm_restart_suspect(const struct gm_device *v, uint32_t worker, uint32_t lane, uint32_t position)
{
    const struct gm_session *session = NULL;
    const struct gm_job *job = NULL;
    for (uint32_t i = 0; lane == 0 && i < v->flight_count && job == NULL; i++)
        if ((uint32_t)v->flight[i]->position == position)
            job = v->flight[i];
    if (job != NULL && job->zeroes == NULL)
        session = job->session;
    else if (lane != 0 && lane <= GM_LANES_MAX)
        session = v->client[lane].session;
    if (session != NULL)
        gm_log(GM_LOG_WARN, "device_suspect",
               "device=%" PRIu32 " worker=%" PRIu32 " lane=%" PRIu32 " position=%" PRIu32 " op=%s session=%" PRIu32
               " uid=%ld pid=%ld",
               v->index, worker, lane, position, job != NULL ? gm_op_name(job->op) : "?", session->id,
               (long)session->user->uid, (long)session->pid);
}

/* The jobs that a worker was in when the process ended. */
static void gm_restart_suspects(const struct gm_device *v)
{
    const struct gm_granule *words = (const struct gm_granule *)(const void *)(v->region + gm_region_workers_offset());
    for (uint32_t i = 0; i < v->hello.workers && i < GM_SHARES_MAX; i++) {
        const struct gm_granule g = gm_load16_sys(&words[i]);
        if (g.w[2] != 0)
            gm_restart_suspect(v, i, g.w[2] - 1u, g.w[3]);
    }
}

/* Lane 0 is ours, so every job in it is known: what was not taken stands in front of its flow again, in its old order.
 * How many were lost. */
static uint32_t gm_restart_jobs(struct gm_device *v)
{
    static struct gm_recovered r;
    static struct gm_job *jobs[GM_WINDOW_JOBS];
    const uint32_t count = v->flight_count;
    uint32_t lost = 0;
    gm_lanes_look(v, 0, (const uint8_t *)v->lane, v->lane->slots_log2, &r);
    memcpy(jobs, v->flight, count * sizeof jobs[0]);
    memset(v->slot, 0, sizeof v->slot);
    v->flight_count = v->flight_cost = 0;
    for (uint32_t i = count; i-- != 0;)
        if ((int64_t)(jobs[i]->position - r.start) >= 0) {
            gm_enqueue_return(v, jobs[i]);
            jobs[i] = jobs[i]->session->state == GM_SESSION_LEAVING && jobs[i]->zeroes == NULL ? jobs[i] : NULL;
        }
    for (uint32_t i = 0; i < count; i++)
        if (jobs[i] != NULL) {
            const bool left = jobs[i]->state == GM_JOB_QUEUED;
            lost += !left;
            gm_job_finish(v->daemon, jobs[i], left ? GM_ECANCELLED : GM_EDEVICELOST, 0, 0, NULL);
        }
    return lost;
}

/* ---- again, or not ---- */

static void gm_restart_give_up(struct gm_device *v)
{
    char last[GM_ERROR_TEXT_MAX];
    struct gm_job *job;
    memcpy(last, v->reason, sizeof last);
    snprintf(v->reason, sizeof v->reason, "out of service after %u losses within %u s; the last: %.100s",
             GM_RESTARTS_MAX, GM_RESTART_WINDOW_MS / 1000u, last);
    gm_log(GM_LOG_ERROR, "device_out_of_service", "device=%" PRIu32 " queued=%" PRIu32 " reason=\"%s\"", v->index,
           v->queued, v->reason);
    v->state = GM_DEVICE_LOST;
    gm_store_release_sys_u32(&v->lane->state, GM_LANE_LOST);
    gm_arenas_device_lost(v->daemon, v->index);
    gm_lanes_lost(v);
    while ((job = gm_enqueue_next(v)) != NULL)
        gm_job_finish(v->daemon, job, GM_EDEVICELOST, 0, 0, "the device was lost before the job started");
}

static void gm_restart_again(struct gm_device *v);

static void gm_restart_due(uv_timer_t *timer)
{
    struct gm_device *v = timer->data;
    gm_turn_start(v->daemon);
    v->state = GM_DEVICE_RISING;
    if (gm_launch(v) == GM_OK)
        return;
    gm_log(GM_LOG_ERROR, "device_restart", "device=%" PRIu32 " failed: %s", v->index, v->reason);
    v->state = GM_DEVICE_DOWN;
    gm_restart_again(v);
}

static void gm_restart_again(struct gm_device *v)
{
    const uint64_t now = gm_now_ns();
    uint32_t recent = 0;
    v->loss_ns[v->losses++ % GM_RESTARTS_MAX] = now;
    for (uint32_t i = 0; i < GM_RESTARTS_MAX && i < v->losses; i++)
        recent += (now - v->loss_ns[i]) / 1000000u < GM_RESTART_WINDOW_MS;
    if (recent >= GM_RESTARTS_MAX) {
        gm_restart_give_up(v);
        return;
    }
    uint64_t wait_ms = recent > 1 ? (uint64_t)GM_RESTART_FIRST_MS << (recent - 2u) : 0;
    wait_ms = wait_ms < GM_RESTART_LONGEST_MS ? wait_ms : GM_RESTART_LONGEST_MS;
    uv_timer_start(&v->restart, gm_restart_due, wait_ms, 0);
}

void gm_restart_reaped(struct gm_device *v)
{
    gm_turn_start(v->daemon);
    v->state = GM_DEVICE_DOWN;
    gm_launch_release(v);
    gm_reap_device(v); /* completions that are in the ring count */
    gm_restart_suspects(v);
    const uint32_t socket_lost = gm_restart_jobs(v);
    const uint64_t lane_lost = gm_lanes_recover(v);
    gm_log(GM_LOG_WARN, "device_jobs", "device=%" PRIu32 " lost=%" PRIu64 " of_sockets=%" PRIu32 " of_lanes=%" PRIu64,
           v->index, socket_lost + lane_lost, socket_lost, lane_lost);
    gm_control_abandon(v);
    gm_lanes_reaped(v);
    gm_arenas_device_reaped(v->daemon, v->index);
    gm_region_renew(v);
    if (v->daemon->phase < GM_PHASE_STOPPING)
        gm_restart_again(v);
    else
        v->state = GM_DEVICE_LOST;
}

/* ---- the next process ---- */

void gm_restart_refilled(struct gm_device *v)
{
    if (v->state != GM_DEVICE_RISING || --v->refills != 0)
        return;
    v->restarts++;
    gm_store_release_sys_u32(&v->lane->state, GM_LANE_OPEN);
    gm_device_up(v);
    gm_log(GM_LOG_WARN, "device_back",
           "device=%" PRIu32 " pid=%ld restarts=%" PRIu64 " after_ms=%" PRIu64 " queued=%" PRIu32 " lanes=%" PRIu32,
           v->index, (long)v->pid, v->restarts,
           (gm_now_ns() - v->loss_ns[(v->losses - 1u) % GM_RESTARTS_MAX]) / 1000000u, v->queued, v->clients);
}

static void gm_restart_staged(struct gm_device *v, const struct gm_control *reply, void *context, uint32_t tag)
{
    (void)context, (void)tag;
    if (reply != NULL && reply->status == GM_OK)
        gm_restart_refilled(v);
    else if (reply != NULL)
        gm_device_lost(v, "cannot register the staging arena: %.100s", reply->u.text);
}

void gm_restart_refill(struct gm_device *v)
{
    v->refills = 1; /* ours, so that nothing is complete before everything is asked for */
    const int status = gm_device_stage(v, gm_restart_staged);
    if (status != GM_OK) {
        gm_device_lost(v, "cannot send the staging arena: %s", gm_error_text(status));
        return;
    }
    v->refills++;
    v->refills += gm_arenas_refill(v);
    v->refills += gm_lanes_refill(v);
    gm_restart_refilled(v);
}
