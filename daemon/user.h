/* SPDX-License-Identifier: Apache-2.0
 *
 * Users, each a uid: what one has of that which all share, and what its jobs did. Loop thread only; bounded by
 * GM_USERS_MAX, which is more than can have a session or a named arena at a time.
 */
#ifndef GM_DAEMON_USER_H
#define GM_DAEMON_USER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "conn.h"
#include "limits.h"
#include "list.h"

struct gm_daemon;
struct gm_problem;
struct gm_session;

struct gm_user_flow {
    struct gm_link link; /* in gm_device.users while jobs wait */
    struct gm_link sessions;
    int32_t deficit;
};

/* Since the start of the daemon. In every moment submitted = done + failed + rejected + cancelled + inflight. */
struct gm_user_counters {
    uint64_t submitted, done, failed, rejected, cancelled; /* jobs of sockets */
    uint64_t run_ns;                                       /* of those that were done */
    uint64_t lane_submitted, lane_answered;                /* jobs of lanes that are gone */
    uint64_t refused;                                      /* because of what it had */
};

/* What is handled of a user's requests in one turn of the loop, in units of about half a microsecond: a small request
 * costs one. The rest is put off to the next turn, so that nobody stands behind everything that a user sends by however
 * many connections. It is much beside what else a turn costs, and little beside what a person notices. */
#define GM_USER_TURN 256u
#define GM_USER_UNIT_NS 512u

/* Bytes of unfinished messages of all connections of a user, and as many of answers that they did not read, so that no
 * user makes the daemon grow until it is killed: all of its connections could come to twenty times as much. */
#define GM_USER_BUFFERED_MAX (UINT64_C(128) << 20)
static_assert(GM_USER_BUFFERED_MAX >= 16u * GM_CONN_OUTPUT_MAX, "some connections can have as much as one may");

struct gm_user {
    uid_t uid;
    bool known;               /* uid is valid: of whoever has something, or had */
    uint64_t left;            /* when it had something last: a number that grows */
    uint32_t sessions, named; /* both 0: it has nothing */
    uint32_t inflight;        /* jobs of its sessions */
    uint32_t arenas;          /* entries of the table: handles, and memory with a name */
    uint32_t cancels;         /* that devices have not answered */
    uint32_t lanes[GM_DEVICES_MAX];
    uint64_t bytes, shared_bytes; /* of arenas and lanes; of these, not on a device */
    uint64_t staged;              /* in staging arenas, all devices */
    struct gm_conn_account held;  /* by its connections */
    uint64_t promised;            /* bytes that answers to its jobs may add to it */
    struct gm_user_counters counted;
    uint64_t turn;       /* the last one in which something of it was to be read */
    uint64_t round;      /* in which every connection of it is read once, while some are put off */
    uint32_t spent;      /* of GM_USER_TURN */
    bool put_off;        /* a connection was, in this turn */
    struct gm_link work; /* arenas whose turn to be made or given back has not come */
    uint32_t works;      /* those in the pool */
    struct gm_user_flow flow[GM_DEVICES_MAX];
};

struct gm_users {
    struct gm_user user[GM_USERS_MAX];
    uint32_t high; /* entries used so far */
    uint64_t left; /* the last number given */
};

static inline bool gm_user_exists(const struct gm_user *user)
{
    return user->sessions != 0 || user->named != 0;
}

/* How many have something. */
uint32_t gm_users_count(const struct gm_daemon *d);
/* The entry of a uid, which has its old counters unless so many others came since that it was given away. */
struct gm_user *gm_user_of(struct gm_daemon *d, uid_t uid);
/* It has one session, or one named arena, less. */
void gm_user_settle(struct gm_daemon *d, struct gm_user *user);

/* Whether answers of so many bytes fit beside all that is due to it. */
static inline bool gm_user_fits(const struct gm_user *user, uint64_t bytes)
{
    return user->held.out + user->promised + bytes <= GM_USER_BUFFERED_MAX;
}

/* Whether a connection may be read in this turn. round: of the session, since when it was not. */
bool gm_user_may_read(struct gm_daemon *d, struct gm_user *user, uint64_t *round);
/* What that begins with for a new connection: it is read after all that were there before it. Else these would wait as
 * long as new ones come that have much to be read. */
static inline uint64_t gm_user_round_begun(const struct gm_user *user)
{
    return user->round;
}

/* Whether so much memory may be had: OK, or EQUOTA or ENOMEM for this field, and counted. */
int gm_user_admit(struct gm_session *session, uint64_t bytes, bool shared, const char *field,
                  struct gm_problem *problem);
/* It is had, or given back. */
void gm_user_pay(struct gm_daemon *d, struct gm_user *user, uint64_t bytes, bool shared);
void gm_user_pay_back(struct gm_daemon *d, struct gm_user *user, uint64_t bytes, bool shared);

#endif
