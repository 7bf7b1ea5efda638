/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs that were accepted and not answered: a pool, their way from queue to lane to answer. Loop thread only; bounded
 * by GM_INFLIGHT_MAX and a few of the daemon's own.
 */
#ifndef GM_DAEMON_JOB_H
#define GM_DAEMON_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "lane.h"
#include "limits.h"
#include "list.h"

struct gm_daemon;
struct gm_device;
struct gm_session;
struct gm_arena;

/* Entries that only the daemon's own jobs (zeroing of device arenas) may use. */
#define GM_JOBS_OWN 64u

enum gm_job_state { GM_JOB_FREE = 0, GM_JOB_QUEUED, GM_JOB_IN_LANE };

struct gm_job {
    struct gm_link queue; /* free list, or its flow */
    struct gm_link session_link;
    struct gm_session *session;
    struct gm_device *device;
    struct gm_arena *zeroes; /* the daemon's own job: the arena that it clears */
    enum gm_job_state state;
    uint32_t id; /* of the request */
    uint32_t op, result_dtype;
    uint32_t cost;   /* in units of the fair queue */
    uint32_t flight; /* index in gm_device.flight while in the lane */
    bool wide;
    uint64_t position;
    uint64_t accepted_ns;
    struct gm_arena *arena[GM_BUFFERS_MAX]; /* pinned */
    uint32_t staging;                       /* GM_STAGING_NONE: nothing staged */
    uint32_t outputs;                       /* of the op, when any is inline; else 0 */
    struct gm_job_out {
        bool is_inline;
        uint32_t offset, bytes; /* in the staging arena */
        uint32_t element;       /* 0: all of it comes back; else bytes of an element: as many as the result says */
    } out[GM_OUTPUTS_MAX];
    uint64_t staged; /* bytes charged */
    uint32_t words[GM_DESC_WORDS];
};

struct gm_jobs {
    struct gm_job job[GM_INFLIGHT_MAX + GM_JOBS_OWN];
    struct gm_link free;
    uint32_t used;  /* entries that were ever used; the rest is untouched memory */
    uint32_t count; /* in flight */
};

void gm_jobs_init(struct gm_daemon *d);
/* NULL: GM_INFLIGHT_MAX are in flight (own: plus GM_JOBS_OWN). The job is zeroed and belongs to nothing. */
struct gm_job *gm_job_new(struct gm_daemon *d, bool own);
/* Returns an entry that was never accepted, with what it had pinned and staged. */
void gm_job_discard(struct gm_daemon *d, struct gm_job *job);
/* Accepts: into the session's list and the device's queue. */
void gm_job_accept(struct gm_daemon *d, struct gm_job *job);
/* Answers the job, whatever its state, and frees it. status: OK or an error; text NULL: the error's own. */
void gm_job_finish(struct gm_daemon *d, struct gm_job *job, int status, uint64_t result, uint64_t run_ns,
                   const char *text);
/* The session's job with this request id, or NULL. */
struct gm_job *gm_job_find(struct gm_session *session, uint32_t id);

#endif
