/* SPDX-License-Identifier: Apache-2.0
 *
 * Every bound of the system, each written once, and how they relate. Nothing else in the tree states a
 * capacity; a number that a user can meet is also printed by `gridmill stats --json` under "limits".
 */
/* The C library has a header of this name, and GCC's looks for the library's from the front of the quoted path on:
 * whoever finds this file instead is passed on. Outside of the guard, since it may be found more than once. */
#if defined(__GNUC__) && !defined(__clang__)
#include_next <limits.h>
#endif

#ifndef GM_PROTO_LIMITS_H
#define GM_PROTO_LIMITS_H

#include <assert.h>
#include <stdint.h>

/* Versions. A client and a daemon agree on the highest wire version both know; gridmilld and gridmill-device
 * must carry the same control version and the same source id, because they are installed together. */
#define GM_WIRE_VERSION_MIN 1u
#define GM_WIRE_VERSION_MAX 1u
#define GM_CONTROL_VERSION  3u
#define GM_LANE_VERSION     1u

/* Devices of one daemon. */
#define GM_DEVICES_MAX 16u

/* A lane: submission and completion ring have the same number of slots, a power of two. */
#define GM_LANE_SLOTS_MIN 2u
#define GM_LANE_SLOTS_MAX 4096u
#define GM_LANE0_SLOTS    4096u /* the daemon's lane: deep enough that sockets never wait for a turn of poll */
#define GM_ADMIN_SLOTS    64u
#define GM_LANES_MAX      256u /* client lanes of a device, beside lane 0 and the admin lane */
#define GM_LANE_TABLE     (GM_LANES_MAX + 2u) /* lane 0, the clients' from 1 on, and the one of the self-test */
#define GM_CLIENT_LANE_SLOTS_MAX     1024u
#define GM_CLIENT_LANE_SLOTS_DEFAULT 256u
#define GM_LANE_ABUSE_MAX 1024u /* descriptors of a client lane refused in a row: it is closed, with the last reason */

/* What a device has in flight. Entries are jobs that were started; the backlog stays in the lanes. */
#define GM_ENTRIES_MAX 2048u
#define GM_SHARES_MAX  1024u /* shares of one phase, and workers of one device */
#define GM_CPU_WORKERS_MAX 256u /* threads of a cpu device */
#define GM_TICKETS     8192u /* ticket ring slots, a power of two */
#define GM_PHASES_MAX  32u   /* phases of one job: 8 digits x 2 passes of a 64-bit radix sort, and room */
#define GM_POLL_MAX    32u   /* descriptor slots read from a lane in one turn */
#define GM_WINGS_MAX   3u    /* of a dispatcher: each serves a lane that is full, beside the front */
#define GM_WING_SHIFT  3u    /* an eighth of the entries is each wing's own */
#define GM_WING_ENTRIES_MAX (GM_ENTRIES_MAX >> GM_WING_SHIFT)
#define GM_CANCELS_MAX 64u   /* cancelled positions that poll has not reached yet, per lane */
#define GM_ENTRY_SCRATCH 4096u /* bytes of workspace that every entry owns, so that small jobs reserve nothing */
#define GM_WORKSPACE_PIECES 512u /* pieces the workspace pool can be cut into */
#define GM_WORKSPACE_ALIGN  4096u
#define GM_COPIES_MAX  32u  /* jobs that a device's copy engine has at one time */
#define GM_COPY_PIECE  (16u << 20) /* bytes it is asked for at once; between two pieces a job can be cancelled */

/* Arenas and buffers. */
#define GM_ARENAS_MAX      1024u
#define GM_ARENA_BYTES_MAX (UINT64_C(1) << 40)
#define GM_ELEMENTS_MAX    (UINT64_C(1) << 40)
#define GM_BUFFERS_MAX     3u /* buffers of one job */
#define GM_OUTPUTS_MAX     2u /* of these, outputs */
#define GM_HIST_BINS_MAX   (1u << 24) /* bins of all channels, or of both dimensions, together */
#define GM_HIST_EDGES_MAX  65536u /* bins between edges of the client's own */
#define GM_CHANNELS_MAX    4u
#define GM_ARENAS_PER_SESSION_MAX 256u
#define GM_ARENA_ALIGN     4096u

/* Sessions and jobs at the socket. */
#define GM_SESSIONS_MAX          1024u
#define GM_SESSIONS_ADMIN        8u /* beside them, of the admin socket alone: who looks after it always gets in */
#define GM_INFLIGHT_PER_SESSION_MAX 1024u /* accepted and not answered; more is `busy` */
#define GM_INFLIGHT_MAX          16384u   /* over all sessions */
/* Of what all users share, a half or three quarters: one user alone cannot shut the others out. */
#define GM_SESSIONS_PER_UID_DEFAULT (GM_SESSIONS_MAX / 2u)
#define GM_INFLIGHT_PER_UID_DEFAULT (GM_INFLIGHT_MAX / 4u * 3u)
#define GM_LANES_PER_UID_DEFAULT    (GM_LANES_MAX / 4u * 3u)         /* on one device */
#define GM_ARENAS_PER_UID_DEFAULT   ((GM_ARENAS_MAX - 1u) / 4u * 3u) /* handles, and one more for each name */
#define GM_ARENA_BYTES_PER_UID_DEFAULT (UINT64_C(8) << 30)
#define GM_USERS_MAX (GM_SESSIONS_MAX + GM_SESSIONS_ADMIN + GM_ARENAS_MAX) /* each has a session, or a named arena */
#define GM_INLINE_BYTES_MAX  (1u << 20) /* data of one job that may ride in a message, each way */
#define GM_STAGING_BYTES     (32u << 20) /* shared arena in which the daemon stages such data, per device */

/* Messages. */
#define GM_FRAME_HEADER      4u
#define GM_FRAME_BYTES_MAX   (GM_INLINE_BYTES_MAX + 65536u)
#define GM_MSGPACK_DEPTH_MAX 8u
#define GM_MSGPACK_ITEMS_MAX 4096u /* items in all, counted before anything is allocated */
#define GM_METHOD_BYTES_MAX  32u
#define GM_NAME_BYTES_MAX    64u
#define GM_FIELD_BYTES_MAX   24u
#define GM_ERROR_TEXT_MAX    160u
#define GM_FDS_PER_FRAME_MAX 3u
#define GM_OUTPUT_BYTES_MAX  (4u * GM_FRAME_BYTES_MAX) /* replies due to one client; beyond it, it is not read */
#define GM_STATS_BYTES_MAX   (1024u * 1024u)

/* Times. */
#define GM_CHECKIN_MS          5000u  /* all blocks resident after a launch, or start-up fails with the count */
#define GM_HELLO_MS            30000u /* device process: exec to ready (a CUDA context takes up to a second or two) */
#define GM_PING_MS             500u   /* between pings of a device */
#define GM_PING_DEADLINE_MS    3000u  /* an unanswered ping after this long: the device is unhealthy */
#define GM_PING_KILL_MS        10000u /* and after this long it is killed */
#define GM_DRAIN_MS_DEFAULT    30000u
#define GM_SLOW_READER_MS      10000u /* a client whose requests wait until it reads: then goodbye with a reason */
#define GM_IDLE_PARK_MS_DEFAULT 2000u /* GPU: idle time after which the grid returns and clocks may fall */
/* A lost device process is started again: at once, then after waits that double, and no more when it fails often. */
#define GM_RESTART_FIRST_MS    50u
#define GM_RESTART_LONGEST_MS  5000u
#define GM_RESTARTS_MAX        5u     /* losses within GM_RESTART_WINDOW_MS after which the device is out of service */
#define GM_RESTART_WINDOW_MS   60000u

/* Log-linear histograms of times: 8 sub-buckets per power of two, from 128 ns to over a minute. */
#define GM_HISTO_SUB_BITS   3u
#define GM_HISTO_MIN_LOG2   7u
#define GM_HISTO_MAX_LOG2   36u
#define GM_HISTO_BUCKETS    (((GM_HISTO_MAX_LOG2 - GM_HISTO_MIN_LOG2) << GM_HISTO_SUB_BITS) + 2u)

#define GM_IS_POW2(x) ((x) != 0 && ((x) & ((x) - 1)) == 0)

static_assert(GM_IS_POW2(GM_LANE0_SLOTS) && GM_LANE0_SLOTS <= GM_LANE_SLOTS_MAX, "lane 0 is a lane");
static_assert(GM_IS_POW2(GM_CLIENT_LANE_SLOTS_MAX) && GM_CLIENT_LANE_SLOTS_MAX <= GM_LANE_SLOTS_MAX &&
                  GM_CLIENT_LANE_SLOTS_DEFAULT <= GM_CLIENT_LANE_SLOTS_MAX, "client lanes are lanes");
static_assert(GM_IS_POW2(GM_ADMIN_SLOTS) && GM_IS_POW2(GM_TICKETS) && GM_IS_POW2(GM_ENTRIES_MAX), "masks index rings");
static_assert(GM_SHARES_MAX * 2 <= GM_TICKETS, "the widest phase and every worker's stop ticket fit the ring together");
static_assert(GM_WINGS_MAX <= 4, "at least half of the entries are the front's");
static_assert(GM_ENTRIES_MAX + GM_SHARES_MAX <= GM_TICKETS, "entries full of narrow jobs leave credit for a wide one");
static_assert(GM_ENTRIES_MAX <= 4096 && GM_SHARES_MAX <= 4096, "a ticket slot has 12 bits for each");
static_assert(GM_CPU_WORKERS_MAX <= GM_SHARES_MAX, "every worker can have a share");
static_assert(GM_COPIES_MAX <= 32, "a bit each");
static_assert(GM_POLL_MAX <= 32, "one descriptor slot per SIMT lane");
static_assert(GM_HIST_EDGES_MAX <= GM_HIST_BINS_MAX, "edges are bins");
static_assert(GM_STAGING_BYTES >= 4u * GM_INLINE_BYTES_MAX, "several jobs with most inline data are staged at once");
static_assert(GM_INFLIGHT_PER_SESSION_MAX <= GM_LANE0_SLOTS, "one session cannot need more than the lane");
static_assert(GM_STATS_BYTES_MAX + 4096u <= GM_FRAME_BYTES_MAX, "a stats reply is one frame");
static_assert(GM_OUTPUT_BYTES_MAX >= 2u * GM_FRAME_BYTES_MAX, "a whole reply always fits beside one being sent");

#endif
