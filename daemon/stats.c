/* SPDX-License-Identifier: Apache-2.0
 *
 * The stats snapshot: fields and order come from stats.def, values from our own counters and from the words that the
 * devices keep in the region. Loop thread only; the reply is bounded by GM_STATS_BYTES_MAX.
 */
#include "stats.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon.h"
#include "request.h"
#include "source_id.h"
#include "version.h"

/* One struct per scope with a field per row of the table, so that no row can be forgotten. */
typedef uint64_t gm_field_COUNTER;
typedef double gm_field_GAUGE;
typedef const char *gm_field_TEXT;
typedef const struct gm_histo *gm_field_HISTOGRAM;

#define GM_NO_FIELD(kind, name)
#define GM_FIELD(kind, name) gm_field_##kind name;
#define GM_DAEMON_OF_DAEMON GM_FIELD
#define GM_DAEMON_OF_DEVICE GM_NO_FIELD
#define GM_DAEMON_OF_OP GM_NO_FIELD
#define GM_DEVICE_OF_DAEMON GM_NO_FIELD
#define GM_DEVICE_OF_DEVICE GM_FIELD
#define GM_DEVICE_OF_OP GM_NO_FIELD
#define GM_OP_OF_DAEMON GM_NO_FIELD
#define GM_OP_OF_DEVICE GM_NO_FIELD
#define GM_OP_OF_OP GM_FIELD

struct gm_stats_daemon {
#define S(scope, name, kind, unit, help) GM_DAEMON_OF_##scope(kind, name)
#include "stats.def"
#undef S
};
struct gm_stats_device {
#define S(scope, name, kind, unit, help) GM_DEVICE_OF_##scope(kind, name)
#include "stats.def"
#undef S
};
struct gm_stats_op {
#define S(scope, name, kind, unit, help) GM_OP_OF_##scope(kind, name)
#include "stats.def"
#undef S
};

enum gm_stats_scope { GM_SCOPE_DAEMON, GM_SCOPE_DEVICE, GM_SCOPE_OP };
enum gm_stats_kind { GM_KIND_COUNTER, GM_KIND_GAUGE, GM_KIND_TEXT, GM_KIND_HISTOGRAM };

struct gm_stats_row {
    enum gm_stats_scope scope;
    enum gm_stats_kind kind;
    const char *name;
    bool ratio;
    size_t offset;
};

#define GM_STRUCT_DAEMON struct gm_stats_daemon
#define GM_STRUCT_DEVICE struct gm_stats_device
#define GM_STRUCT_OP struct gm_stats_op

static const struct gm_stats_row gm_stats_rows[] = {
#define S(scope, name, kind, unit, help)                                                                               \
    {GM_SCOPE_##scope, GM_KIND_##kind, #name, sizeof(unit) == sizeof("ratio") && unit[0] == 'r',                       \
     offsetof(GM_STRUCT_##scope, name)},
#include "stats.def"
#undef S
};
#define GM_STATS_ROWS (sizeof gm_stats_rows / sizeof gm_stats_rows[0])

static void gm_put_histo(struct gm_wire_out *out, const struct gm_histo *histo)
{
    uint32_t filled = 0;
    for (uint32_t i = 0; i < GM_HISTO_BUCKETS; i++)
        filled += histo->bucket[i] != 0;
    gm_wire_put_map(out, 6);
    gm_wire_put_str(out, "count"), gm_wire_put_u64(out, histo->count);
    gm_wire_put_str(out, "p50"), gm_wire_put_u64(out, gm_histo_quantile(histo, 500));
    gm_wire_put_str(out, "p99"), gm_wire_put_u64(out, gm_histo_quantile(histo, 990));
    gm_wire_put_str(out, "p999"), gm_wire_put_u64(out, gm_histo_quantile(histo, 999));
    gm_wire_put_str(out, "max"), gm_wire_put_u64(out, histo->max);
    gm_wire_put_str(out, "buckets"), gm_wire_put_array(out, filled);
    for (uint32_t i = 0; i < GM_HISTO_BUCKETS; i++) {
        if (histo->bucket[i] == 0)
            continue;
        gm_wire_put_array(out, 2);
        gm_wire_put_u64(out, gm_histo_upper(i)), gm_wire_put_u64(out, histo->bucket[i]);
    }
}

static void gm_put_row(struct gm_wire_out *out, const struct gm_stats_row *row, const char *field)
{
    gm_field_COUNTER counter;
    gm_field_GAUGE gauge;
    gm_field_TEXT text;
    gm_field_HISTOGRAM histo;
    gm_wire_put_str(out, row->name);
    switch (row->kind) {
    case GM_KIND_COUNTER:
        memcpy(&counter, field, sizeof counter);
        gm_wire_put_u64(out, counter);
        break;
    case GM_KIND_GAUGE:
        memcpy(&gauge, field, sizeof gauge);
        if (row->ratio)
            gm_wire_put_f64(out, gauge);
        else
            gm_wire_put_u64(out, (uint64_t)gauge);
        break;
    case GM_KIND_TEXT:
        memcpy(&text, field, sizeof text);
        gm_wire_put_str(out, text != NULL ? text : "");
        break;
    case GM_KIND_HISTOGRAM:
        memcpy(&histo, field, sizeof histo);
        gm_put_histo(out, histo);
        break;
    }
}

static void gm_put_scope(struct gm_wire_out *out, enum gm_stats_scope scope, const void *values)
{
    uint32_t rows = 0;
    for (size_t i = 0; i < GM_STATS_ROWS; i++)
        rows += gm_stats_rows[i].scope == scope;
    gm_wire_put_map(out, rows);
    for (size_t i = 0; i < GM_STATS_ROWS; i++)
        if (gm_stats_rows[i].scope == scope)
            gm_put_row(out, &gm_stats_rows[i], (const char *)values + gm_stats_rows[i].offset);
}

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

static void gm_fill_daemon(struct gm_daemon *d, uint64_t now, struct gm_stats_daemon *s)
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
    uint64_t oldest = now;
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

/* Jobs of sockets are ours to count. Those of lanes are counted by the dispatcher, who stores its counts one by one:
 * what was answered is read first and was submitted at least, so that every snapshot adds up. */
static void gm_fill_jobs(const struct gm_device *v, const struct gm_device_counters *c, struct gm_stats_device *s)
{
    const struct gm_device_counters *past = &v->past;
    const uint64_t done = past->lane_done + gm_load_acquire_u64(&c->lane_done);
    const uint64_t failed = past->lane_failed + gm_load_acquire_u64(&c->lane_failed);
    const uint64_t rejected = past->lane_rejected + gm_load_acquire_u64(&c->lane_rejected);
    const uint64_t cancelled = past->lane_cancelled + gm_load_acquire_u64(&c->lane_cancelled);
    const uint64_t answered = done + failed + rejected + cancelled;
    uint64_t submitted = past->lane_submitted + gm_load_relaxed_u64(&c->lane_submitted);
    submitted = submitted > answered ? submitted : answered;
    s->submitted = v->submitted + submitted;
    s->done = v->done + done, s->failed = v->failed + failed;
    s->rejected = v->rejected + rejected, s->cancelled = v->cancelled + cancelled;
    s->queue_depth = (double)(v->depth + submitted - answered);
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
}

static const struct gm_device_counters *gm_counters_of(const struct gm_device *v)
{
    static const struct gm_device_counters none;
    return v->region != NULL ? &((const struct gm_region_header *)(const void *)v->region)->counters : &none;
}

static void gm_fill_device(struct gm_daemon *d, struct gm_device *v, uint64_t now, struct gm_stats_device *s)
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
    s->workspace_bytes = (double)v->hello.workspace_bytes;
    gm_fill_jobs(v, gm_counters_of(v), s);
    gm_fill_scheduler(v, gm_counters_of(v), s);
    s->busy = v->region != NULL ? gm_busy_ratio(v, now) : 0;
}

/* Jobs of sockets, and of the lanes of all devices. */
static void gm_fill_op(const struct gm_daemon *d, uint32_t op, struct gm_stats_op *s)
{
    const struct gm_op_counters *c = &d->counters.op[op];
    *s = (struct gm_stats_op){
        .name = gm_op_name(op), .done = c->done, .failed = c->failed, .wait = &c->wait, .run = &c->run};
    for (uint32_t i = 0; i < d->devices.count; i++) {
        const struct gm_device *v = &d->devices.device[i];
        s->done += v->past.op_done[op] + gm_load_relaxed_u64(&gm_counters_of(v)->op_done[op]);
        s->failed += v->past.op_failed[op] + gm_load_relaxed_u64(&gm_counters_of(v)->op_failed[op]);
    }
}

/* Bounds that a user can meet: L(name, value). */
#define GM_STATS_LIMITS(L)                                                                                             \
    L("devices", GM_DEVICES_MAX)                                                                                       \
    L("sessions", GM_SESSIONS_MAX)                                                                                     \
    L("sessions_per_user", GM_SESSIONS_PER_UID_MAX)                                                                    \
    L("inflight", GM_INFLIGHT_MAX)                                                                                     \
    L("inflight_per_session", GM_INFLIGHT_PER_SESSION_MAX)                                                             \
    L("arenas", GM_ARENAS_MAX - 1u)                                                                                    \
    L("arenas_per_session", GM_ARENAS_PER_SESSION_MAX)                                                                 \
    L("arena_bytes", GM_ARENA_BYTES_MAX)                                                                               \
    L("arena_bytes_per_user", d->config.quota)                                                                         \
    L("arena_bytes_all", d->config.memory)                                                                             \
    L("elements", GM_ELEMENTS_MAX)                                                                                     \
    L("histogram_bins", GM_HIST_BINS_MAX)                                                                              \
    L("inline_bytes", GM_INLINE_BYTES_MAX)                                                                             \
    L("staging_bytes_per_session", GM_STAGING_PER_SESSION)                                                             \
    L("frame_bytes", GM_FRAME_BYTES_MAX)                                                                               \
    L("output_bytes", GM_OUTPUT_BYTES_MAX)                                                                             \
    L("msgpack_depth", GM_MSGPACK_DEPTH_MAX)                                                                           \
    L("msgpack_items", GM_MSGPACK_ITEMS_MAX)                                                                           \
    L("lane_slots", GM_LANE0_SLOTS)                                                                                    \
    L("lanes", GM_LANES_MAX)                                                                                           \
    L("client_lane_slots", GM_CLIENT_LANE_SLOTS_MAX)                                                                   \
    L("ping_deadline_ms", d->times.ping_deadline_ms)                                                                   \
    L("ping_kill_ms", d->times.ping_kill_ms)                                                                           \
    L("drain_ms", d->config.drain_ms)

static void gm_put_limits(struct gm_wire_out *out, const struct gm_daemon *d)
{
    uint32_t count = 0;
#define L(name, value) count++;
    GM_STATS_LIMITS(L)
#undef L
    gm_wire_put_map(out, count);
#define L(name, value) gm_wire_put_str(out, name), gm_wire_put_u64(out, value);
    GM_STATS_LIMITS(L)
#undef L
}

void gm_stats_reply(struct gm_session *session, uint32_t id)
{
    struct gm_daemon *d = session->daemon;
    const uint64_t now = gm_now_ns();
    struct gm_wire_out out;
    gm_lanes_watch(d);
    if (!gm_conn_reserve(&session->conn, GM_STATS_BYTES_MAX, &out))
        return;
    const size_t start = gm_wire_begin_result(&out, id);
    gm_wire_put_map(&out, 5);
    gm_wire_put_str(&out, "schema"), gm_wire_put_u64(&out, GM_STATS_SCHEMA);
    struct gm_stats_daemon daemon_values = {0};
    gm_fill_daemon(d, now, &daemon_values);
    gm_wire_put_str(&out, "daemon"), gm_put_scope(&out, GM_SCOPE_DAEMON, &daemon_values);
    gm_wire_put_str(&out, "devices"), gm_wire_put_array(&out, d->devices.count);
    for (uint32_t i = 0; i < d->devices.count; i++) {
        struct gm_stats_device device_values = {0};
        gm_fill_device(d, &d->devices.device[i], now, &device_values);
        gm_put_scope(&out, GM_SCOPE_DEVICE, &device_values);
    }
    gm_wire_put_str(&out, "ops"), gm_wire_put_array(&out, GM_OP_COUNT);
    for (uint32_t op = 0; op < GM_OP_COUNT; op++) {
        struct gm_stats_op op_values;
        gm_fill_op(d, op, &op_values);
        gm_put_scope(&out, GM_SCOPE_OP, &op_values);
    }
    gm_wire_put_str(&out, "limits"), gm_put_limits(&out, d);
    const int status = gm_wire_end(&out, start);
    assert(status == GM_OK); /* the tables are fixed, and so is the largest snapshot */
    gm_conn_commit(&session->conn, &out, -1);
    d->counters.loop_lag_max_ns = 0;
}
