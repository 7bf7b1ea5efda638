/* SPDX-License-Identifier: Apache-2.0
 *
 * Completions out of lanes, the state of lanes, and asking the device for a wake before sleeping. Any thread, under the
 * client's lock; a pass costs one look per pending job, whatever the size of the lane.
 */
#include "client.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* Arming finds completions that it takes, and arms again: so often, then a wake for nothing does no harm. */
#define ARM_TURNS 4

/* Completions that are fetched ahead of the one that is read: the device wrote four to a line, and several misses at
 * once cost as much as one. */
#define AHEAD 32u

/* The device checked again what this side had, so what it found is in the data. */
static GM_RARE void fail(struct gm_client *client, struct gm_job_inside *job, int status)
{
    struct gm_problem problem;

    gm_failure_problem(&problem, &client->op_row[job->op], status);
    gm__report_problem(&job->failure, &problem);
    gm__job_finish(client, job, status);
}

GM_HOT void take(struct gm_client *client, struct gm_job_inside *job, struct gm_granule g, uint64_t now_ns)
{
    const int32_t status = gm_completion_status(g);
    const uint64_t run_ns = gm_completion_run_ns(g), since_ns = now_ns - job->result.wait_ns;

    job->result.value.u64 = gm_completion_result(g);
    job->result.run_ns = run_ns;
    job->result.wait_ns = since_ns > run_ns ? since_ns - run_ns : 0;
    if (status > 0 || status == GM_EAGAIN)
        gm__job_fail(client, job, GM_EPROTO, "the device gave an answer that does not exist");
    else if (status != GM_OK)
        fail(client, job, status);
    else
        gm__job_finish(client, job, GM_OK);
}

/* The completion slots of a job, which are free again; whose they were. */
GM_HOT struct gm_job_inside *release(struct gm_lane *lane, uint64_t position)
{
    struct gm_job_inside *const job = lane->job[position & lane->mask];
    const uint64_t next = position + 1;
    uint64_t end = next;

    lane->job[position & lane->mask] = NULL;
    if (lane->job[next & lane->mask] == &gm__lane_half) {
        lane->job[next & lane->mask] = NULL;
        end = next + 1;
    }
    if ((int64_t)(end - lane->read) > 0)
        lane->read = end;
    return job;
}

/* What is complete, in the order of submission. A granule with another lap is no answer. */
static uint32_t reap(struct gm_client *client, struct gm_lane *lane)
{
    const uint32_t before = lane->pending;
    uint64_t now_ns = 0;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < before; i++) {
        const uint64_t position = lane->flight[i];
        const struct gm_granule *const slot = &lane->cq[position & lane->mask];
        const uint32_t lap = gm_lap(position, lane->slots_log2);
        /* The cheap look first. Acquire: pairs with the store of the completion; what the job wrote comes before it. */
        if (gm_load_acquire_sys_u32(&slot->w[3]) != lap) {
            lane->flight[kept++] = position;
            continue;
        }
        if (now_ns == 0)
            now_ns = gm_now_ns();
        if (i + AHEAD < before)
            __builtin_prefetch(&lane->cq[lane->flight[i + AHEAD] & lane->mask]);
        const struct gm_granule g = gm_load16_sys(slot);
        struct gm_job_inside *const job = release(lane, position);
        if (job != &gm__lane_orphan)
            take(client, job, g, now_ns);
    }
    lane->pending = kept;
    lane->reaped += before - kept;
    return before - kept;
}

static void end_by_state(struct gm_client *client, struct gm_lane *lane, uint32_t state)
{
    const int reason = (int)gm_load_relaxed_sys_u32((const uint32_t *)&lane->header->reason);
    char text[sizeof client->last.text];

    snprintf(text, sizeof text, "%s%s%s",
             state == GM_LANE_LOST ? "the device is out of service" : "the daemon closed the lane",
             reason != GM_OK ? ": " : "", reason != GM_OK ? gm_strerror(reason) : "");
    /* A drain finishes what was accepted: what is left here was not. */
    gm__lane_end(client, lane,
                 state == GM_LANE_LOST ? GM_EDEVICELOST : reason == GM_EDRAINING ? GM_EDRAINING : GM_ECLOSED, text);
}

uint32_t gm__lane_reap(struct gm_client *client, struct gm_lane *lane)
{
    uint32_t taken = 0;

    if (!lane->open)
        return 0;
    /* Acquire, and before the look at the completions: what was answered before the end of the lane is taken. In no
     * state the memory is zeroes again, for the daemon has taken it back: nothing in it is an answer. */
    const uint32_t state = gm_load_acquire_sys_u32(&lane->header->state);
    if (state >= GM_LANE_OPEN && state <= GM_LANE_CLOSED)
        taken = reap(client, lane);
    if (state == GM_LANE_LOST || state == GM_LANE_CLOSED)
        end_by_state(client, lane, state);
    else if (state != GM_LANE_OPEN && state != GM_LANE_RECOVERING)
        gm__lane_end(client, lane, GM_ECLOSED,
                     client->closed ? client->closing.text : "the daemon took the lane back");
    return taken;
}

uint32_t gm__lanes_reap(struct gm_client *client)
{
    uint32_t taken = 0;

    for (uint32_t i = 0; i < client->lane_count; i++)
        taken += gm__lane_reap(client, &client->lanes[i]);
    return taken;
}

void gm__lane_wait_store(struct gm_lane *lane, bool armed)
{
    const struct gm_granule wait = {{(uint32_t)lane->reaped, (uint32_t)(lane->reaped >> 32), armed, 0}};

    gm_store16_sys(&lane->header->wait, wait);
    lane->armed = armed;
}

void gm__lane_drain(struct gm_client *client, struct gm_lane *lane)
{
    char bytes[64];
    ssize_t n;

    do
        n = read(lane->wake_fd, bytes, sizeof bytes);
    while (n == (ssize_t)sizeof bytes || (n < 0 && errno == EINTR));
    /* Nobody holds its other end any more: this lane could not be slept on. */
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)) {
        gm__lane_reap(client, lane);
        gm__lane_end(client, lane, GM_ECLOSED, "the daemon dropped the lane");
    }
}

void gm__lanes_arm(struct gm_client *client)
{
    if (client->lane_count == 0)
        return;
    for (int turn = 0; turn < ARM_TURNS; turn++) {
        for (uint32_t i = 0; i < client->lane_count; i++)
            if (client->lanes[i].open && (client->lanes[i].pending > 0 || client->lanes[i].armed))
                gm__lane_wait_store(&client->lanes[i], client->lanes[i].pending > 0);
        /* Store-load: pairs with the dispatcher's fence between its completions and its look at the wait granule. */
        gm_fence_sys();
        if (gm__lanes_reap(client) == 0)
            return;
    }
}

void gm__lanes_rest(struct gm_client *client)
{
    if (client->event_driven || client->reader != NULL) {
        gm__lanes_arm(client);
        return;
    }
    for (uint32_t i = 0; i < client->lane_count; i++)
        if (client->lanes[i].open && client->lanes[i].armed)
            gm__lane_wait_store(&client->lanes[i], false);
}
