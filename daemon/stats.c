/* SPDX-License-Identifier: Apache-2.0
 *
 * The stats snapshot as a reply: fields and order come from stats.def, values from stats_fill.c. Loop thread only; the
 * reply is bounded by GM_STATS_BYTES_MAX.
 */
#include "stats.h"

#include <assert.h>
#include <string.h>

#include "daemon.h"
#include "request.h"
#include "stats_rows.h"

enum gm_stats_scope { GM_SCOPE_DAEMON, GM_SCOPE_DEVICE, GM_SCOPE_OP, GM_SCOPE_LANE, GM_SCOPE_USER };
/* Bytes of the largest snapshot: a histogram has 19 a bucket, everything else a name, which is short, and a number or a
 * text, of which a device has three and none is longer than GM_ERROR_TEXT_MAX. */
#define GM_STATS_HISTO_BYTES (128u + 19u * GM_HISTO_BUCKETS)
#define GM_STATS_LANE_BYTES 256u
#define GM_STATS_BASE (32768u + GM_DEVICES_MAX * 2048u + GM_OP_COUNT * (256u + 3u * GM_STATS_HISTO_BYTES))
/* The row of a user has numbers alone: each is a name with its length in front, and nine bytes. */
#define GM_BYTES_DAEMON(name) 0u
#define GM_BYTES_DEVICE(name) 0u
#define GM_BYTES_OP(name) 0u
#define GM_BYTES_LANE(name) 0u
#define GM_BYTES_USER(name) (uint32_t)(sizeof(#name) + 9u)
enum {
#define S(scope, name, kind, unit, help) +GM_BYTES_##scope(name)
    GM_STATS_USER_BYTES = 8u
#include "stats.def"
#undef S
};
/* Users and lanes share the rest of the message, the users first, with room left for the lanes of a device. */
#define GM_STATS_ROWS_BYTES (GM_STATS_BYTES_MAX - GM_STATS_BASE)
#define GM_STATS_USERS_FIT ((GM_STATS_ROWS_BYTES - GM_LANES_MAX * GM_STATS_LANE_BYTES) / GM_STATS_USER_BYTES)
static_assert(GM_STATS_BASE + GM_LANES_MAX * GM_STATS_LANE_BYTES + 256u * GM_STATS_USER_BYTES <= GM_STATS_BYTES_MAX,
              "the lanes of a device at least, and many users");

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
#define GM_STRUCT_LANE struct gm_stats_lane
#define GM_STRUCT_USER struct gm_stats_user

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

/* Bounds that a user can meet: L(name, value). */
#define GM_STATS_LIMITS(L)                                                                                             \
    L("devices", GM_DEVICES_MAX)                                                                                       \
    L("sessions", GM_SESSIONS_MAX)                                                                                     \
    L("sessions_per_user", d->config.user_sessions)                                                                    \
    L("inflight", GM_INFLIGHT_MAX)                                                                                     \
    L("inflight_per_session", GM_INFLIGHT_PER_SESSION_MAX)                                                             \
    L("inflight_per_user", d->config.user_jobs)                                                                        \
    L("arenas", GM_ARENAS_MAX - 1u)                                                                                    \
    L("arenas_per_session", GM_ARENAS_PER_SESSION_MAX)                                                                 \
    L("arenas_per_user", d->config.user_arenas)                                                                        \
    L("arena_bytes", GM_ARENA_BYTES_MAX)                                                                               \
    L("arena_bytes_per_user", d->config.quota)                                                                         \
    L("arena_bytes_all", d->config.memory)                                                                             \
    L("shared_bytes_per_user", d->config.user_memory)                                                                  \
    L("elements", GM_ELEMENTS_MAX)                                                                                     \
    L("histogram_bins", GM_HIST_BINS_MAX)                                                                              \
    L("histogram_edges_bins", GM_HIST_EDGES_MAX)                                                                       \
    L("inline_bytes", GM_INLINE_BYTES_MAX)                                                                             \
    L("staging_bytes_per_session", GM_STAGING_PER_SESSION)                                                             \
    L("staging_bytes_per_user", GM_STAGING_PER_USER)                                                                   \
    L("frame_bytes", GM_FRAME_BYTES_MAX)                                                                               \
    L("buffered_bytes_per_user", GM_USER_BUFFERED_MAX)                                                                 \
    L("output_bytes", GM_OUTPUT_BYTES_MAX)                                                                             \
    L("msgpack_depth", GM_MSGPACK_DEPTH_MAX)                                                                           \
    L("msgpack_items", GM_MSGPACK_ITEMS_MAX)                                                                           \
    L("lane_slots", GM_LANE0_SLOTS)                                                                                    \
    L("lanes", GM_LANES_MAX)                                                                                           \
    L("lanes_per_user", d->config.user_lanes)                                                                          \
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

/* ---- lanes and users ---- */

/* What a user has, is not everybody's business. */
static bool gm_may_see(const struct gm_session *session, const struct gm_user *user)
{
    return session->admin || session->user->uid == 0 || user == session->user;
}

/* The users that the session may see, as many as fit; how many they are. out NULL: only that. */
static uint32_t gm_stats_users(const struct gm_session *session, struct gm_wire_out *out)
{
    const struct gm_users *users = &session->daemon->users;
    uint32_t count = 0;
    for (uint32_t i = 0; i < users->high && count < GM_STATS_USERS_FIT; i++) {
        const struct gm_user *user = &users->user[i];
        if (!gm_user_exists(user) || !gm_may_see(session, user))
            continue;
        count++;
        if (out == NULL)
            continue;
        struct gm_stats_user user_values = {0};
        gm_fill_user(session->daemon, user, &user_values);
        gm_put_scope(out, GM_SCOPE_USER, &user_values);
    }
    return count;
}

/* The lanes that the session may see, in order, at most so many; how many they are. out NULL: only that. */
static uint32_t gm_stats_lanes(const struct gm_session *session, uint64_t now, uint32_t most, struct gm_wire_out *out)
{
    struct gm_devices *devices = &session->daemon->devices;
    uint32_t count = 0;
    for (uint32_t i = 0; i < devices->count; i++)
        for (uint32_t k = 1; k <= GM_LANES_MAX && devices->device[i].clients != 0; k++) {
            const struct gm_lane *lane = &devices->device[i].client[k];
            if (lane->phase == GM_LANE_UNUSED || !gm_may_see(session, lane->session->user) || count == most)
                continue;
            count++;
            if (out == NULL)
                continue;
            struct gm_stats_lane lane_values = {0};
            gm_fill_lane(lane, now, &lane_values);
            gm_put_scope(out, GM_SCOPE_LANE, &lane_values);
        }
    return count;
}

/* ---- the reply ---- */

static void gm_put_devices(struct gm_wire_out *out, struct gm_daemon *d, uint64_t now)
{
    gm_wire_put_str(out, "devices"), gm_wire_put_array(out, d->devices.count);
    for (uint32_t i = 0; i < d->devices.count; i++) {
        struct gm_stats_device device_values = {0};
        gm_fill_device(d, &d->devices.device[i], now, &device_values);
        gm_put_scope(out, GM_SCOPE_DEVICE, &device_values);
    }
}

static void gm_put_ops(struct gm_wire_out *out, const struct gm_daemon *d)
{
    gm_wire_put_str(out, "ops"), gm_wire_put_array(out, GM_OP_COUNT);
    for (uint32_t op = 0; op < GM_OP_COUNT; op++) {
        struct gm_stats_op op_values;
        gm_fill_op(d, op, &op_values);
        gm_put_scope(out, GM_SCOPE_OP, &op_values);
    }
}

void gm_stats_reply(struct gm_session *session, uint32_t id)
{
    struct gm_daemon *d = session->daemon;
    const uint64_t now = gm_now_ns();
    struct gm_wire_out out;
    gm_lanes_watch(d);
    for (uint32_t i = 0; i < d->devices.count; i++)
        gm_lanes_look_now(&d->devices.device[i], now);
    const uint32_t users = gm_stats_users(session, NULL), users_bytes = users * GM_STATS_USER_BYTES;
    const uint32_t fit = (GM_STATS_ROWS_BYTES - users_bytes) / GM_STATS_LANE_BYTES;
    const uint32_t lanes = gm_stats_lanes(session, now, fit, NULL);
    if (!gm_conn_reserve(&session->conn, GM_STATS_BASE + users_bytes + lanes * GM_STATS_LANE_BYTES, &out))
        return;
    const size_t start = gm_wire_begin_result(&out, id);
    gm_wire_put_map(&out, 7);
    gm_wire_put_str(&out, "schema"), gm_wire_put_u64(&out, GM_STATS_SCHEMA);
    struct gm_stats_daemon daemon_values = {0};
    gm_fill_daemon(d, now, &daemon_values);
    gm_wire_put_str(&out, "daemon"), gm_put_scope(&out, GM_SCOPE_DAEMON, &daemon_values);
    gm_put_devices(&out, d, now);
    gm_put_ops(&out, d);
    gm_wire_put_str(&out, "lanes"), gm_wire_put_array(&out, lanes);
    gm_stats_lanes(session, now, lanes, &out);
    gm_wire_put_str(&out, "users"), gm_wire_put_array(&out, users);
    gm_stats_users(session, &out);
    gm_wire_put_str(&out, "limits"), gm_put_limits(&out, d);
    const int status = gm_wire_end(&out, start);
    assert(status == GM_OK); /* the tables are fixed, and so is the largest snapshot */
    gm_conn_commit(&session->conn, &out, -1);
    d->counters.loop_lag_max_ns = 0;
}
