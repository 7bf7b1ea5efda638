/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of the stats snapshot: our own counters, and the words that the devices keep in the region. Loop thread
 * only; nothing here waits for a device.
 */
#include "stats_rows.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon.h"
#include "source_id.h"
#include "version.h"

static uint64_t gm_resident_bytes(void)
{
    unsigned long long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%llu %llu", &total, &resident) != 2)
        resident = 0;
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint32_t gm_open_fds(void)
{
    uint32_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL) {
        /* Nearly always because all of them are open. */
        struct rlimit limit = {0, 0};
        getrlimit(RLIMIT_NOFILE, &limit);
        return errno == EMFILE ? (uint32_t)limit.rlim_cur : 0;
    }
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count >= 3 ? count - 3u : 0; /* . and .. and the folder itself */
}

void gm_fill_daemon(const struct gm_daemon *d, uint64_t now, struct gm_stats_daemon *s)
{
    bool healthy = d->phase == GM_PHASE_RUNNING || d->phase == GM_PHASE_FINISHING;
    for (uint32_t i = 0; i < d->devices.count; i++)
        healthy &= d->devices.device[i].state == GM_DEVICE_UP;
    s->version = GM_VERSION, s->source_id = GM_SOURCE_ID;
    s->pid = (double)getpid();
    s->uptime_ms = (double)((now - d->started_ns) / 1000000u);
    s->healthy = healthy, s->draining = d->draining;
    s->sessions = d->sessions.count;
    s->sessions_total = d->counters.sessions_total;
    s->sessions_refused = d->counters.sessions_refused;
    s->users = gm_users_count(d);
    s->protocol_errors = d->counters.protocol_errors;
    s->slow_readers = d->counters.slow_readers;
    s->arenas = d->arenas.count, s->arena_bytes = (double)d->arenas.bytes;
    s->rejected_busy = d->counters.rejected_busy, s->rejected_bad = d->counters.rejected_bad;
    s->rejected_quota = d->counters.rejected_quota, s->rejected_draining = d->counters.rejected_draining;
    s->loop_lag_max_ns = (double)d->counters.loop_lag_max_ns;
    s->rss_bytes = (double)gm_resident_bytes(), s->fds = gm_open_fds();
}

/* Jobs of a flow are in order of acceptance, but sessions are not in order among each other. */
static uint64_t gm_oldest_ms(const struct gm_daemon *d, const struct gm_device *v, uint64_t now)
{
    uint64_t oldest = v->waiting != 0 ? v->waiting_ns : now;
    for (uint32_t i = 0; i < v->flight_count; i++)
        if (v->flight[i]->zeroes == NULL && v->flight[i]->accepted_ns < oldest)
            oldest = v->flight[i]->accepted_ns;
    for (uint32_t i = 0; i < d->sessions.high && v->queued != 0; i++) {
        const struct gm_session *session = &d->sessions.session[i];
        const struct gm_flow *flow = &session->flow[v->index];
        if (session->state == GM_SESSION_FREE || gm_list_empty(&flow->jobs))
            continue;
        const struct gm_job *job = GM_CONTAINER(flow->jobs.next, struct gm_job, queue);
        if (job->zeroes == NULL && job->accepted_ns < oldest)
            oldest = job->accepted_ns;
    }
    return (now - oldest) / 1000000u;
}

static double gm_busy_ratio(struct gm_device *v, uint64_t now)
{
    const uint64_t busy = gm_region_busy_ns(v), wall = now - v->busy_at_ns;
    const uint64_t spent = busy > v->busy_ns ? busy - v->busy_ns : 0;
    v->busy_ns = busy, v->busy_at_ns = now;
    if (wall == 0 || v->hello.workers == 0)
        return 0;
    const double ratio = (double)spent / ((double)wall * v->hello.workers);
    return ratio < 1 ? ratio : 1;
}

/* Jobs of sockets are ours to count, those of lanes the dispatcher's. */
static void gm_fill_jobs(const struct gm_device *v, struct gm_stats_device *s)
{
    const struct gm_lane_totals lanes = gm_lanes_totals(v);
    s->submitted = v->submitted + lanes.submitted;
    s->done = v->done + lanes.done, s->failed = v->failed + lanes.failed;
    s->rejected = v->rejected + lanes.rejected, s->cancelled = v->cancelled + lanes.cancelled;
    s->queue_depth = (double)gm_lanes_depth(v, &lanes), s->waiting = (double)v->waiting;
}

static void gm_fill_scheduler(const struct gm_device *v, const struct gm_device_counters *c, struct gm_stats_device *s)
{
    const struct gm_device_counters *past = &v->past;
    s->started = past->started + gm_load_relaxed_u64(&c->started);
    s->phases = past->phases + gm_load_relaxed_u64(&c->phases);
    s->tickets = past->tickets + gm_load_relaxed_u64(&c->tickets);
    s->held = past->held + gm_load_relaxed_u64(&c->held);
    s->entries_high = (double)gm_load_relaxed_u64(&c->entries_high);
    s->workspace_high = (double)gm_load_relaxed_u64(&c->workspace_high);
    s->launches = past->launches + gm_load_relaxed_u64(&c->launches);
    s->parks = past->parks + gm_load_relaxed_u64(&c->parks);
    s->pauses = past->pauses + gm_load_relaxed_u64(&c->pauses);
    s->wakes = past->wakes + gm_load_relaxed_u64(&c->wakes);
    s->engine_copies = past->engine_copies + gm_load_relaxed_u64(&c->engine_copies);
    s->engine_full = past->engine_full + gm_load_relaxed_u64(&c->engine_full);
    s->leases = past->leases + gm_load_relaxed_u64(&c->leases);
}

static const struct gm_device_counters *gm_counters_of(const struct gm_device *v)
{
    static const struct gm_device_counters none;
    return v->region != NULL ? &((const struct gm_region_header *)(const void *)v->region)->counters : &none;
}

void gm_fill_device(struct gm_daemon *d, struct gm_device *v, uint64_t now, struct gm_stats_device *s)
{
    s->index = v->index;
    s->name = v->hello.name;
    s->backend = v->config.backend == GM_BACKEND_CUDA ? "cuda" : "cpu";
    s->state = gm_device_state_name(v);
    s->reason = v->state == GM_DEVICE_LOST || gm_device_recovering(v) ? v->reason : "";
    s->pid = (double)v->pid;
    s->ping_ms = v->ping_answered_ns != 0 ? (double)((now - v->ping_answered_ns) / 1000000u) : 0;
    s->workers = v->hello.workers;
    s->restarts = v->restarts;
    s->lanes = v->clients, s->lanes_abused = v->abused;
    s->queue_high = (double)v->depth_high;
    s->oldest_ms = (double)gm_oldest_ms(d, v, now);
    s->workspace_bytes = (double)v->hello.workspace_bytes, s->engine_bytes = (double)v->hello.engine_bytes;
    gm_fill_jobs(v, s);
    gm_fill_scheduler(v, gm_counters_of(v), s);
    s->busy = v->region != NULL ? gm_busy_ratio(v, now) : 0;
}

/* Jobs of sockets, and of the lanes of all devices. */
void gm_fill_op(const struct gm_daemon *d, uint32_t op, struct gm_stats_op *s)
{
    const struct gm_op_counters *c = &d->counters.op[op];
    *s = (struct gm_stats_op){.name = gm_op_name(op),
                              .done = c->done,
                              .failed = c->failed,
                              .wait = &c->wait,
                              .run = &c->run,
                              .lane_run = &c->lane_run};
    for (uint32_t i = 0; i < d->devices.count; i++) {
        const struct gm_device *v = &d->devices.device[i];
        s->done += v->past.op_done[op] + gm_load_relaxed_u64(&gm_counters_of(v)->op_done[op]);
        s->failed += v->past.op_failed[op] + gm_load_relaxed_u64(&gm_counters_of(v)->op_failed[op]);
    }
}

/* Of what the dispatcher and we know, and not of the header, which its client can write. */
void gm_fill_lane(const struct gm_lane *lane, uint64_t now, struct gm_stats_lane *s)
{
    s->device = lane->device->index;
    s->lane = gm_wire_lane(lane->device->index, lane->index);
    s->session = lane->session->id, s->pid = (double)lane->session->pid, s->uid = (double)lane->session->user->uid;
    s->slots = (double)(UINT64_C(1) << lane->slots_log2);
    s->state = gm_lane_state_name(lane);
    s->submitted = s->answered = 0;
    gm_lane_count(lane, &s->submitted, &s->answered);
    s->waiting = lane->phase == GM_LANE_TAPPED ? lane->waiting : 0;
    s->oldest_ms = s->waiting != 0 ? (double)((now - lane->seen_ns) / 1000000u) : 0;
}

void gm_fill_user(const struct gm_daemon *d, const struct gm_user *user, struct gm_stats_user *s)
{
    const struct gm_user_counters *c = &user->counted;
    uint32_t lanes = 0, most = 0;
    s->lane_submitted = c->lane_submitted, s->lane_answered = c->lane_answered;
    for (uint32_t i = 0; i < d->devices.count; i++) {
        lanes += user->lanes[i];
        most = user->lanes[i] > most ? user->lanes[i] : most;
        for (uint32_t k = 1, left = user->lanes[i]; k <= GM_LANES_MAX && left != 0; k++) {
            const struct gm_lane *lane = &d->devices.device[i].client[k];
            if (lane->phase == GM_LANE_UNUSED || lane->session->user != user)
                continue;
            gm_lane_count(lane, &s->lane_submitted, &s->lane_answered);
            left--;
        }
    }
    s->uid = (double)user->uid, s->sessions = user->sessions, s->inflight = user->inflight;
    s->lanes = lanes, s->lanes_most = most;
    s->arenas = user->arenas, s->arena_bytes = (double)user->bytes, s->shared_bytes = (double)user->shared_bytes;
    s->submitted = c->submitted, s->done = c->done, s->failed = c->failed;
    s->rejected = c->rejected, s->cancelled = c->cancelled;
    s->run_ns = c->run_ns, s->refused = c->refused;
}
