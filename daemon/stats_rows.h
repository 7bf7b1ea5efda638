/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of stats.def as structs, one for each scope, between who fills them (stats_fill.c) and who sends them
 * (stats.c). Loop thread only.
 */
#ifndef GM_DAEMON_STATS_ROWS_H
#define GM_DAEMON_STATS_ROWS_H

#include <stdint.h>

#include "histo.h"

struct gm_daemon;
struct gm_device;
struct gm_lane;
struct gm_user;

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
#define GM_DAEMON_OF_LANE GM_NO_FIELD
#define GM_DAEMON_OF_USER GM_NO_FIELD
#define GM_DEVICE_OF_DAEMON GM_NO_FIELD
#define GM_DEVICE_OF_DEVICE GM_FIELD
#define GM_DEVICE_OF_OP GM_NO_FIELD
#define GM_DEVICE_OF_LANE GM_NO_FIELD
#define GM_DEVICE_OF_USER GM_NO_FIELD
#define GM_OP_OF_DAEMON GM_NO_FIELD
#define GM_OP_OF_DEVICE GM_NO_FIELD
#define GM_OP_OF_OP GM_FIELD
#define GM_OP_OF_LANE GM_NO_FIELD
#define GM_OP_OF_USER GM_NO_FIELD
#define GM_LANE_OF_DAEMON GM_NO_FIELD
#define GM_LANE_OF_DEVICE GM_NO_FIELD
#define GM_LANE_OF_OP GM_NO_FIELD
#define GM_LANE_OF_LANE GM_FIELD
#define GM_LANE_OF_USER GM_NO_FIELD
#define GM_USER_OF_DAEMON GM_NO_FIELD
#define GM_USER_OF_DEVICE GM_NO_FIELD
#define GM_USER_OF_OP GM_NO_FIELD
#define GM_USER_OF_LANE GM_NO_FIELD
#define GM_USER_OF_USER GM_FIELD

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
struct gm_stats_lane {
#define S(scope, name, kind, unit, help) GM_LANE_OF_##scope(kind, name)
#include "stats.def"
#undef S
};
struct gm_stats_user {
#define S(scope, name, kind, unit, help) GM_USER_OF_##scope(kind, name)
#include "stats.def"
#undef S
};

void gm_fill_daemon(const struct gm_daemon *d, uint64_t now, struct gm_stats_daemon *s);
/* After gm_lanes_look_now. */
void gm_fill_device(struct gm_daemon *d, struct gm_device *v, uint64_t now, struct gm_stats_device *s);
void gm_fill_op(const struct gm_daemon *d, uint32_t op, struct gm_stats_op *s);
void gm_fill_lane(const struct gm_lane *lane, uint64_t now, struct gm_stats_lane *s);
void gm_fill_user(const struct gm_daemon *d, const struct gm_user *user, struct gm_stats_user *s);

#endif
